"""scope="task": a patch holds in a thread or task and in the threads and tasks started there."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch.errors import SettingError, TargetRefused


def marked(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> str:
    return f"patched {wrapped(*args, **kwargs)}"


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module(
        "vendor",
        """
        import math
        def speak(): return "plain"
        async def speak_async(): return "plain"
        class Voice:
            def speak(self): return "plain"
        root = math.sqrt
        table = {"speak": speak}
        """,
    )


def task(*patches: hookpatch.Patch) -> hookpatch.Session:
    return hookpatch.active(*(patches or (hookpatch.wrap("vendor:speak", marked),)), scope="task")


def in_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


class Neighbour:
    """A thread started before the block, for calls on demand."""

    def __init__(self) -> None:
        self._ask, self._answer = threading.Semaphore(0), threading.Semaphore(0)
        self._function: Callable[[], Any] | None = None
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while self._ask.acquire() and self._function is not None:
            self._found = self._function()
            self._answer.release()

    def __call__(self, function: Callable[[], Any]) -> Any:
        self._function = function
        self._ask.release()
        self._answer.acquire()
        return self._found

    def end(self) -> None:
        self._function = None
        self._ask.release()
        self._thread.join()


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    neighbour = Neighbour()
    yield neighbour
    neighbour.end()


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_it_holds_here_and_not_in_a_neighbour(vendor: ModuleType, neighbour: Neighbour, reach: Any) -> None:
    """A thread started before the block calls the original, at the same time."""
    before = dict(vars(vendor))
    with task(hookpatch.wrap("vendor:speak", marked, reach=reach)):
        assert (vendor.speak(), neighbour(vendor.speak), vendor.speak()) == ("patched plain", "plain", "patched plain")
    assert vendor.speak() == "plain"
    assert dict(vars(vendor)) == before


@pytest.mark.parametrize(
    ("target", "call"),
    [
        ("vendor:Voice.speak", lambda vendor: vendor.Voice().speak()),
        ("vendor:table['speak']", lambda vendor: vendor.table["speak"]()),
        ("vendor:speak_async", lambda vendor: asyncio.run(vendor.speak_async())),
    ],
)
def test_whatever_is_called(vendor: ModuleType, neighbour: Neighbour, target: str, call: Any) -> None:
    """The scope holds for methods, registry entries and coroutines."""

    async def marked_async(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> str:
        return f"patched {await wrapped(*args, **kwargs)}"

    with task(hookpatch.wrap(target, marked_async if "async" in target else marked)):
        assert (call(vendor), neighbour(lambda: call(vendor))) == ("patched plain", "plain")


def test_functions_of_c_and_injected_arguments(vendor: ModuleType, neighbour: Neighbour) -> None:
    """C functions get a proxy, injected functions other code."""

    def negative(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        return -wrapped(*args)

    with task(hookpatch.wrap("vendor:root", negative)):
        assert (vendor.root(4), neighbour(lambda: vendor.root(4))) == (-2, 2)
    with task(hookpatch.inject("json:dumps", indent=1)):
        import json

        assert (json.dumps([1]), neighbour(lambda: json.dumps([1]))) == ("[\n 1\n]", "[1]")


def test_threads_started_inside_are_inside(vendor: ModuleType) -> None:
    """Threads of threads are inside, too; a thread made inside and started after the end is not."""
    late = threading.Thread(target=lambda: answers.append(vendor.speak()))
    answers: list[str] = []
    with task():
        assert in_thread(vendor.speak) == "patched plain"
        assert in_thread(lambda: in_thread(vendor.speak)) == "patched plain"
        with hookpatch.active(hookpatch.wrap("vendor:speak", marked)):  # for all: in both
            assert in_thread(vendor.speak) == "patched patched plain"
    late.start()
    late.join()
    assert answers == ["plain"]


def test_work_given_to_a_pool_inside_is_inside(vendor: ModuleType) -> None:
    """Work submitted inside is inside, even in a worker that also serves neighbours."""
    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as other_pool:
        assert pool.submit(vendor.speak).result() == "plain"
        entered, leave = threading.Event(), threading.Event()

        def inside() -> None:
            with task():
                assert pool.submit(vendor.speak).result() == "patched plain"
                assert other_pool.submit(vendor.speak).result() == "patched plain"
                assert list(pool.map(lambda _: vendor.speak(), [1, 2])) == ["patched plain"] * 2
                entered.set()
                leave.wait()

        thread = threading.Thread(target=inside)
        thread.start()
        entered.wait()
        assert (pool.submit(vendor.speak).result(), other_pool.submit(vendor.speak).result()) == ("plain", "plain")
        leave.set()
        thread.join()


def test_tasks(vendor: ModuleType) -> None:
    """A task's patch holds in tasks started there and in to_thread, not in a concurrent task."""

    async def said() -> tuple[str, str, str]:
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        return vendor.speak(), await asyncio.to_thread(vendor.speak), await loop.run_in_executor(None, vendor.speak)

    async def patched(opened: asyncio.Event, leave: asyncio.Event) -> list[tuple[str, str, str]]:
        with task():
            async with asyncio.TaskGroup() as group:
                inner = [group.create_task(said()) for _ in range(2)]
            opened.set()
            await leave.wait()
            return [await said(), *(child.result() for child in inner)]

    async def main() -> None:
        opened, leave = asyncio.Event(), asyncio.Event()
        beside = asyncio.create_task(patched(opened, leave))
        await opened.wait()
        assert await said() == ("plain",) * 3
        leave.set()
        assert await beside == [("patched plain",) * 3] * 3
        assert await said() == ("plain",) * 3

    asyncio.run(main())


def test_tasks_overlap(vendor: ModuleType) -> None:
    """A hundred tasks each have their own, in and out in any order, and nothing is left."""
    before = vars(vendor)["speak"]

    async def one(number: int) -> None:
        def numbered(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> str:
            return f"{number} {wrapped(*args, **kwargs)}"

        await asyncio.sleep(number % 7 / 1000)
        with task(hookpatch.wrap("vendor:speak", numbered)):
            await asyncio.sleep(number % 5 / 1000)
            assert vendor.speak() == f"{number} plain"
        assert vendor.speak() == "plain"

    async def main() -> None:
        await asyncio.gather(*map(one, range(100)))

    asyncio.run(main())
    assert vars(vendor)["speak"] is before


def test_it_overlaps_with_a_session_for_all(vendor: ModuleType, neighbour: Neighbour) -> None:
    """A task session and a process session on the same target end in either order."""
    before = vars(vendor)["speak"]
    for first_to_close in (0, 1):
        sessions = [task().open(), hookpatch.active(hookpatch.wrap("vendor:speak", marked)).open()]
        assert (vendor.speak(), neighbour(vendor.speak)) == ("patched patched plain", "patched plain")
        sessions.pop(first_to_close).close()
        remaining = "patched plain"
        assert (vendor.speak(), neighbour(vendor.speak)) == (remaining, "plain" if first_to_close else remaining)
        sessions.pop().close()
        assert vars(vendor)["speak"] is before


def test_generators(vendor: ModuleType) -> None:
    """A generator's step counts as inside if next() is called inside; the generator may end anywhere."""

    def speaking() -> Iterator[str]:
        while True:
            yield vendor.speak()

    made_before = speaking()
    with task():
        assert next(made_before) == "patched plain"
        made_inside = speaking()
    assert (next(made_before), next(made_inside)) == ("plain", "plain")

    @contextmanager
    def patched() -> Iterator[None]:
        with task():
            yield

    with patched():
        assert vendor.speak() == "patched plain"
    assert vendor.speak() == "plain"

    block = patched()
    contextvars.copy_context().run(block.__enter__)  # opened and closed in different contexts
    assert vendor.speak() == "plain"
    block.__exit__(None, None, None)
    assert vendor.speak() == "plain"


def test_an_async_generator(vendor: ModuleType) -> None:
    """An async generator behaves alike, also when closed by another task."""

    async def patched() -> Any:
        with task():
            yield vendor.speak()

    async def main() -> None:
        generator = patched()
        assert await anext(generator) == "patched plain"
        await asyncio.create_task(generator.aclose())
        assert vendor.speak() == "plain"

    asyncio.run(main())


def test_a_decorated_function(vendor: ModuleType, neighbour: Neighbour) -> None:
    """The scope goes with the decorator."""

    @task()
    def both() -> tuple[str, str]:
        return vendor.speak(), neighbour(vendor.speak)

    assert both() == ("patched plain", "plain")


def test_a_module_that_a_neighbour_imports(write_module: Callable[[str, str], Any], neighbour: Neighbour) -> None:
    """A neighbour's import applies the patch, which holds in the asking task alone."""
    write_module("late", "def speak(): return 'plain'")
    with task(hookpatch.wrap("late:speak", marked)):

        def import_and_speak() -> Any:
            import late

            return late.speak()

        assert neighbour(import_and_speak) == "plain"
        assert import_and_speak() == "patched plain"


@pytest.mark.parametrize(
    "patch",
    [
        hookpatch.replace("vendor:table['speak']", len),
        hookpatch.derive("vendor:Voice", lambda voice: voice),
        hookpatch.remove("vendor:speak"),
        hookpatch.enter("vendor", lambda module: contextmanager(lambda: iter([None]))()),
    ],
    ids=lambda patch: patch.verb,
)
def test_what_is_no_call_is_refused(vendor: ModuleType, patch: hookpatch.Patch) -> None:
    """Refuse a value, which is the same for all tasks; the message has a remedy."""
    before = dict(vars(vendor))
    with pytest.raises(TargetRefused) as raised, task(hookpatch.wrap("vendor:speak", marked), patch):
        pass
    assert str(raised.value) == (
        "scope='task' is for wrap, inject, default, and replace with callers=: a call belongs to a task, "
        f"but {patch.verb} changes the value for all tasks; "
        f"take scope='process', or wrap the calling function (target {patch.address} of a patch given to active())"
    )
    assert dict(vars(vendor)) == before


def test_the_report_tells_of_the_carriers(vendor: ModuleType) -> None:
    """The patches that carry the scope into threads are in the report, and end with the block."""
    start = vars(threading.Thread)["start"]
    with task() as session:
        assert [(patch.plugin, patch.target, patch.state) for patch in session.report()] == [
            (None, "vendor:speak", "applied"),
            ("hookpatch", "threading:Thread.start", "applied"),
            ("hookpatch", "concurrent.futures.thread:ThreadPoolExecutor.submit", "applied"),
        ]
    assert vars(threading.Thread)["start"] is start


def test_a_scope_that_is_none() -> None:
    """Said at once, before anything is patched."""
    with pytest.raises(SettingError) as raised:
        hookpatch.active(scope="thread")  # type: ignore[arg-type]
    assert str(raised.value) == "active(): scope='thread' is neither 'process' nor 'task'"
