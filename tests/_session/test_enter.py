"""enter: a context manager is entered when its module has been imported, and left at the end."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from importing import SOURCE, around, states

import hookpatch
from hookpatch import errors

WriteModule = Callable[[str, str], Path]

MakeModule = Callable[[str, str], ModuleType]


@contextmanager
def _entered(log: list[Any], module: ModuleType) -> Iterator[None]:
    log.append(("enter", module, module.run()))
    try:
        yield
    finally:
        log.append(("leave", module, module.run()))


def _kinds(log: list[Any]) -> list[str]:
    return [kind for kind, _, _ in log]


def test_enter_enters_at_once_when_the_module_is_there(make_module: MakeModule) -> None:
    """enter gets the module itself and leaves at the end, once."""
    module, log = make_module("entered", SOURCE), []
    session = hookpatch.active(hookpatch.enter("entered", lambda m: _entered(log, m))).open()
    assert log == [("enter", module, "original")]
    session.close()
    session.close()
    assert log == [("enter", module, "original"), ("leave", module, "original")]
    assert states(session) == ["restored"]


def test_enter_waits_for_its_module(write_module: WriteModule) -> None:
    """enter runs after the module's import, until the end; without an import never."""
    write_module("entered", SOURCE)
    log: list[Any] = []
    with hookpatch.active(hookpatch.enter("entered", lambda m: _entered(log, m))) as session:
        assert (log, states(session)) == ([], ["waiting"])
        module = importlib.import_module("entered")
        assert log == [("enter", module, "original")]
    assert _kinds(log) == ["enter", "leave"]
    with hookpatch.active(hookpatch.enter("never_entered", lambda m: _entered(log, m))):
        pass
    assert _kinds(log) == ["enter", "leave"]


def test_enter_is_left_and_entered_again_at_a_reload(make_module: MakeModule) -> None:
    """When the module is executed anew, what was entered is left, and entered for the new content."""
    module, log = make_module("entered", SOURCE), []
    with hookpatch.active(hookpatch.enter("entered", lambda m: _entered(log, m))) as session:
        importlib.reload(module)
        assert _kinds(log) == ["enter", "leave", "enter"]
        assert states(session) == ["applied"]
    assert _kinds(log) == ["enter", "leave", "enter", "leave"]


def test_enter_that_fails_restores_what_was_applied(make_module: MakeModule) -> None:
    """When entering raises, the session is not opened, and what was applied or entered before is left again."""
    module, log = make_module("entered", SOURCE + "original = run\n"), []

    @contextmanager
    def failing(module: ModuleType) -> Iterator[None]:
        raise KeyError("mine")
        yield

    with (
        pytest.raises(errors.ApplyError) as caught,
        hookpatch.active(
            hookpatch.wrap("entered:run", around),
            hookpatch.enter("entered", lambda m: _entered(log, m)),
            hookpatch.enter("entered", failing),
        ),
    ):
        pass
    assert str(caught.value) == "the enter raised KeyError: 'mine' (target entered of a patch given to active())"
    assert log == [("enter", module, "patched(original)"), ("leave", module, "patched(original)")]
    assert module.run is module.original


def test_enter_that_fails_to_leave_keeps_nothing_else_from_its_end(make_module: MakeModule) -> None:
    """An error while leaving is in the RestoreError; the other patches are restored."""
    module = make_module("entered", SOURCE + "original = run\n")

    @contextmanager
    def failing(module: ModuleType) -> Iterator[None]:
        yield
        raise KeyError("mine")

    session = hookpatch.active(hookpatch.wrap("entered:run", around), hookpatch.enter("entered", failing)).open()
    with pytest.raises(errors.RestoreError) as caught:
        session.close()
    assert [repr(error) for error in caught.value.exceptions] == ["KeyError('mine')"]
    assert module.run is module.original
    assert states(session) == ["restored", "failed"]
