"""A session entered again: after its end, while open, by other threads and tasks."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Thread
from types import FrameType, ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch import errors
from hookpatch._session.span import again, quick


def twice(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs) * 2


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", "def speak(): return 'hm '")


def test_session_is_entered_again_after_its_end(vendor: ModuleType) -> None:
    """A session entered again reports the last time."""
    speak, session = vendor.speak, hookpatch.active(hookpatch.wrap("vendor:speak", twice))
    for _ in range(3):
        with session:
            assert vendor.speak() == "hm hm "
            assert [patch.state for patch in session.report()] == ["applied"]
        assert vendor.speak is speak
        assert [patch.state for patch in session.report()] == ["restored"]


def test_open_session_counts_and_restores_at_the_last_end(vendor: ModuleType) -> None:
    """Each patch holds once, however often the session is entered."""
    speak, session = vendor.speak, hookpatch.active(hookpatch.wrap("vendor:speak", twice))
    with session:
        with session, session:
            assert vendor.speak() == "hm hm "
        assert vendor.speak() == "hm hm "
        session.open()
        session.close()
        assert vendor.speak() == "hm hm "
        assert len(list(hookpatch.report())) == 1
    assert vendor.speak is speak


def test_close_that_comes_before_the_end_of_the_block_ends_the_block(vendor: ModuleType) -> None:
    """The end of the block then finds nothing to do."""
    speak = vendor.speak
    with hookpatch.active(hookpatch.wrap("vendor:speak", twice)) as session:
        session.close()
        assert vendor.speak is speak
    assert vendor.speak is speak


def test_session_that_could_not_be_opened_can_be_opened_later(vendor: ModuleType) -> None:
    """A failed attempt leaves no trace for the next."""
    session = hookpatch.active(hookpatch.wrap("vendor:speak", twice), hookpatch.wrap("vendor:listen", twice))
    for _ in range(2):
        with pytest.raises(errors.TargetNotFound):
            session.open()
        assert vendor.speak() == "hm "
    vars(vendor)["listen"] = lambda: "ah "
    with session:
        assert (vendor.speak(), vendor.listen()) == ("hm hm ", "ah ah ")
    assert (vendor.speak(), vendor.listen()) == ("hm ", "ah ")


def test_last_thread_to_leave_restores(vendor: ModuleType) -> None:
    """Whichever thread opened the session."""
    speak, session = vendor.speak, hookpatch.active(hookpatch.wrap("vendor:speak", twice))
    inside, leave = threading.Event(), threading.Event()

    def stay() -> str:
        with session:
            inside.set()
            leave.wait(20)
            return str(vendor.speak())

    with ThreadPoolExecutor(1) as pool:
        with session:
            future = pool.submit(stay)
            assert inside.wait(20)
        assert vendor.speak() == "hm hm "
        leave.set()
        assert future.result(20) == "hm hm "
    assert vendor.speak is speak


def test_threads_that_call_a_decorated_function_at_once(vendor: ModuleType) -> None:
    """Each call finds each patch once: no call finds the session half opened or half closed."""
    speak = vendor.speak

    @hookpatch.active(hookpatch.wrap("vendor:speak", twice), children="local")
    def call(_: int) -> str:
        return str(vendor.speak())

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(call, range(4000))) == {"hm hm "}
    assert vendor.speak is speak


def test_thread_waits_for_the_thread_that_opens(vendor: ModuleType) -> None:
    """A second thread waits for the opening thread, and never runs without the patches."""
    started, go_on = threading.Event(), threading.Event()

    def slow(original: Any) -> Any:
        started.set()
        go_on.wait(20)
        return lambda: original() * 2

    session = hookpatch.active(hookpatch.derive("vendor:speak", slow))

    def call() -> str:
        with session:
            return str(vendor.speak())

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(call)
        assert started.wait(20)
        second = pool.submit(call)
        assert not second.done()
        go_on.set()
        assert (first.result(20), second.result(20)) == ("hm hm ", "hm hm ")
    assert vendor.speak() == "hm "


def test_factory_that_enters_the_session_it_is_called_for(vendor: ModuleType) -> None:
    """A factory that enters its own session changes nothing; the opening goes on."""

    def factory(original: Any) -> Any:
        with session:
            return lambda: original() * 2

    session = hookpatch.active(hookpatch.derive("vendor:speak", factory))
    with session:
        assert vendor.speak() == "hm hm "
    assert vendor.speak() == "hm "


def test_task_that_enters_a_session_of_another_task(vendor: ModuleType) -> None:
    """scope="task": the patches hold in each task inside the block, and in no other."""
    session = hookpatch.active(hookpatch.wrap("vendor:speak", twice), scope="task")
    heard: list[str] = []

    async def inside(turns: int) -> None:
        with session:
            for _ in range(turns):
                await asyncio.sleep(0)
            with session:
                heard.append(vendor.speak())
            heard.append(vendor.speak())
        heard.append(vendor.speak())

    async def outside() -> None:
        for _ in range(8):
            assert vendor.speak() == "hm "
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(inside(2), inside(4), inside(6), outside())

    asyncio.run(main())
    assert heard == ["hm hm ", "hm hm ", "hm "] * 3


def test_session_dropped_after_it_was_entered_twice_restores(vendor: ModuleType) -> None:
    """A session entered twice and dropped restores, and warns."""
    sessions = [hookpatch.active(hookpatch.wrap("vendor:speak", twice)).open().open()]
    with pytest.warns(ResourceWarning, match="was dropped unclosed"):
        sessions.clear()
    assert vendor.speak() == "hm "


def test_session_in_an_exit_stack(vendor: ModuleType) -> None:
    """An ExitStack holds a session beside other blocks, as a fixture does."""
    session = hookpatch.active(hookpatch.wrap("vendor:speak", twice))
    with ExitStack() as stack:
        stack.enter_context(session)
        with session:
            assert vendor.speak() == "hm hm "
        assert vendor.speak() == "hm hm "
    assert vendor.speak() == "hm "


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger or a coverage tool traces already")
@pytest.mark.parametrize("theirs", ["open", "close"])
@pytest.mark.parametrize("mine", ["open", "close"])
@pytest.mark.parametrize("earlier", [1, 2])
@pytest.mark.sampled(3)
def test_another_thread_at_each_line(vendor: ModuleType, earlier: int, mine: str, theirs: str) -> None:
    """A thread opens or closes a session at each line of an opening or closing by another: each entrance counts."""
    speak, patch = vendor.speak, hookpatch.wrap("vendor:speak", twice)
    for number in itertools.count(1):
        session = hookpatch.active(patch, children="local")
        for _ in range(earlier):  # then the session takes the fast path: the second time with notes, then without
            with session:
                pass
        for act in (mine, theirs):
            if act == "close":
                session.open()
        others: list[Thread] = []
        lines = itertools.count(1)
        trace = _at_line(number, lines, others, getattr(session, theirs))
        sys.settrace(trace)
        getattr(session, mine)()
        sys.settrace(None)
        for thread in others:
            thread.join(20)
        if not others:  # the act has fewer lines
            session.end()
            break
        entrances = [mine, theirs].count("close") + sum(1 if act == "open" else -1 for act in (mine, theirs))
        assert vendor.speak() == ("hm hm " if entrances else "hm "), number
        for _ in range(entrances):
            assert vendor.speak() == "hm hm ", number
            session.close()
        assert vendor.speak is speak, number
    assert number > (20 if (mine, theirs) in (("open", "open"), ("close", "open")) else 2)


def _at_line(number: int, lines: Iterator[int], others: list[Thread], act: Callable[[], object]) -> Any:
    """Return a trace function that lets another thread act at a line of the fast path, and waits for it a moment."""

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in (again.__file__, quick.__file__):
            return None
        if event == "line" and next(lines) == number:
            others.append(Thread(target=act, daemon=True))
            others[0].start()
            others[0].join(0.02)  # or the other thread waits for this one
        return trace

    return trace


def test_threads_enter_one_session_at_will(vendor: ModuleType) -> None:
    """Before, a thread that left while another entered raised RuntimeError: the entrances changed in an iteration."""
    speak, errors = vendor.speak, []
    session = hookpatch.active(hookpatch.wrap("vendor:speak", twice), children="local")

    def enter_often() -> None:
        for _ in range(1000):
            try:
                with session:
                    assert vendor.speak() == "hm hm "
            except Exception as error:
                errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [Thread(target=enter_often) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert errors == []
    assert vendor.speak is speak
