"""With statements that an interrupt keeps from leaving, while a traceback keeps all frames, as in a notebook."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType, ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch._session.session import Session, open_sessions
from hookpatch._session.span import statement


def twice(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs) * 2


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", "def speak(): return 'hm '\ndef silent(): return ''")


def _active(**how: Any) -> Session:
    return hookpatch.active(hookpatch.wrap("vendor:speak", twice), **how)


def _statement(session: Session, body: Callable[[], object]) -> None:
    with session:
        body()


def _decorated(session: Session, body: Callable[[], object]) -> None:
    session(body)()


def _coroutine(session: Session, body: Callable[[], object]) -> None:
    @session
    async def decorated() -> None:
        body()

    asyncio.run(decorated())


def _in_a_stack(session: Session, body: Callable[[], object]) -> None:
    with ExitStack() as stack:
        stack.enter_context(session)
        _statement(session, body)


WAYS: Final = _statement, _decorated, _coroutine, _in_a_stack


def _interrupted(act: Callable[..., object], *args: Any) -> KeyboardInterrupt:
    """Do an act, and interrupt the first leaving before its first instruction; return the error with all frames."""

    def at_leave(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is statement.leave.__code__:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(at_leave)
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            act(*args)
    finally:
        sys.setprofile(None)
    return caught.value


@pytest.mark.parametrize("before", range(3), ids="entered before {} times".format)
@pytest.mark.parametrize("children", ["inherit", "local"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.strip("_"))
def test_next_look_ends_a_statement_that_has_not_left(
    vendor: ModuleType, way: Callable[..., None], children: str, before: int
) -> None:
    """The look is a report."""
    speak, session = vendor.speak, _active(children=children)
    for _ in range(before):
        with session:
            pass
    error = _interrupted(way, session, vendor.speak)
    assert not [*hookpatch.report()]
    assert vendor.speak is speak
    assert error.__traceback__ is not None


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.strip("_"))
def test_statement_that_comes_before_the_next_look(vendor: ModuleType, way: Callable[..., None]) -> None:
    """The session is entered once more, and the statement that has not left is ended afterwards."""
    speak, session, results = vendor.speak, _active(), []
    error = _interrupted(_statement, session, vendor.speak)
    way(session, lambda: results.append(vendor.speak()))
    assert not [*hookpatch.report()]
    assert vendor.speak is speak
    assert results == ["hm hm "]
    assert error.__traceback__ is not None


@pytest.mark.parametrize("before", range(3), ids="entered before {} times".format)
@pytest.mark.parametrize("address", ["vendor:speak", "vendor:silent"])
def test_next_block_ends_a_statement_that_has_not_left(vendor: ModuleType, address: str, before: int) -> None:
    """The look is a block with a patch of the same function, or of another; also a block entered before."""
    speak, session = vendor.speak, _active()
    block = hookpatch.active(hookpatch.wrap(address, twice))
    for entered in (session, block) * before:
        with entered:
            pass
    error = _interrupted(_statement, session, vendor.speak)
    with block:
        assert [vendor.speak(), len(open_sessions())] == ["hm hm " if address == "vendor:speak" else "hm ", 1]
    assert vendor.speak is speak
    assert error.__traceback__ is not None


def test_session_that_is_open_elsewhere_loses_one_entrance(vendor: ModuleType) -> None:
    """The patch holds until the session is closed."""
    speak, session = vendor.speak, _active().open()
    error = _interrupted(_statement, session, vendor.speak)
    assert [patch.state for patch in hookpatch.report()] == ["applied"]
    assert vendor.speak() == "hm hm "
    session.close()
    assert vendor.speak is speak
    assert error.__traceback__ is not None


def test_statement_inside_another_loses_its_own_entrance(vendor: ModuleType) -> None:
    """The patch holds until the outer statement ends."""
    speak, session = vendor.speak, _active()
    with session:
        error = _interrupted(_statement, session, vendor.speak)
        assert [patch.state for patch in hookpatch.report()] == ["applied"]
        assert vendor.speak() == "hm hm "
    assert vendor.speak is speak
    assert error.__traceback__ is not None


def test_stack_that_outlasts_a_statement_keeps_the_patches(vendor: ModuleType) -> None:
    """contextlib.ExitStack is not counted, or by its own reference: the statement's end does not end its entrance."""
    speak, session, stack = vendor.speak, _active(), ExitStack()
    with session:
        stack.enter_context(session)
    assert [patch.state for patch in hookpatch.report()] == ["applied"]
    assert vendor.speak() == "hm hm "
    stack.close()
    assert vendor.speak is speak


def test_calls_that_outlast_a_statement_keep_the_patches(vendor: ModuleType) -> None:
    """The program calls ``__enter__`` inside the statement, and ``__exit__`` after it."""
    speak, session = vendor.speak, _active()
    with session:
        session.__enter__()
    assert [patch.state for patch in hookpatch.report()] == ["applied"]
    assert vendor.speak() == "hm hm "
    session.__exit__(None, None, None)
    assert vendor.speak is speak


def test_session_entered_by_calls(vendor: ModuleType) -> None:
    """A program may call ``__enter__`` and ``__exit__`` itself, and later than it reads ``__exit__``."""
    speak, session = vendor.speak, _active()
    for _ in range(3):
        session.__enter__()
        hookpatch.report()
        assert vendor.speak() == "hm hm "
        session.__exit__(None, None, None)
        assert vendor.speak is speak
    leave = session.__exit__
    session.open()
    assert vendor.speak() == "hm hm "
    leave(None, None, None)
    assert vendor.speak is speak


def test_session_that_ends_inside_its_statement(vendor: ModuleType) -> None:
    """The session is gone when the statement leaves: nobody else has held it."""
    speak = vendor.speak
    with _active():
        for session in open_sessions().values():
            session.end()
        del session
        assert vendor.speak is speak
    assert vendor.speak is speak
