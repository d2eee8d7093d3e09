"""Foreign code exchanges os.environ, sys.meta_path or a module while a session is open, as tests of programs do."""

from __future__ import annotations

import importlib
import os
import string
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest import mock

import pytest

import hookpatch

DIGITS: Final = hookpatch.replace("string:digits", "patched")
FINDERS: Final = "sys.meta_path"
CHILD: Final = [sys.executable, "-c", "import string; print(string.digits)"]
INSIDE: Final = [sys.executable, "-Sc", "import os; print('HOOKPATCH_INHERIT' in os.environ)"]


def output(command: list[str], env: dict[str, str] | None = None) -> str:
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()


def exchanged() -> AbstractContextManager[Any]:
    return mock.patch("os.environ", dict(os.environ))


def put_back() -> AbstractContextManager[Any]:
    return mock.patch.dict(os.environ)


@pytest.fixture(params=[False, True], ids=["fast", "locked"])
def session(request: pytest.FixtureRequest) -> hookpatch.Session:
    session = hookpatch.active(DIGITS, count=request.param)
    with session:  # from now on known, and without a lock if calls are not counted
        pass
    return session


def end(way: str) -> None:
    """Look at the patches: by a report, by another session, or by another block that needs no lock."""
    if way == "report":
        hookpatch.report()
        return
    with hookpatch.active(hookpatch.replace("string:octdigits", "7"), count=way == "session"):
        pass


@pytest.mark.parametrize("exchange", [exchanged, put_back])
@pytest.mark.parametrize("way", ["report", "session", "block"])
@pytest.mark.sampled(4)
def test_the_environment_is_as_before(
    session: hookpatch.Session, exchange: Callable[[], AbstractContextManager[Any]], way: str
) -> None:
    """The end inside or outside of an exchange leaves nothing in os.environ, nor in the environment of programs."""
    before = dict(os.environ)
    session.open()
    with exchange():
        session.close()
    end(way)
    assert (dict(os.environ), output(INSIDE)) == (before, "False")
    with exchange():
        session.open()
    session.close()
    assert (dict(os.environ), output(INSIDE)) == (before, "False")
    with session:
        assert output(CHILD) == "patched"
    assert (dict(os.environ), output(INSIDE)) == (before, "False")


def test_a_variable_of_the_user_is_kept(session: hookpatch.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is not of this process is no text of an ended block."""
    monkeypatch.setenv("HOOKPATCH_INHERIT", "the user's")
    for _ in range(2):
        with session:
            assert output(CHILD) == "patched"
        hookpatch.report()
        assert os.environ["HOOKPATCH_INHERIT"] == "the user's"


def test_programs_are_patched_while_os_environ_is_exchanged(session: hookpatch.Session) -> None:
    """A program started without ``env`` gets the environment of the process; any other gets what ``env`` says."""
    with exchanged(), session:
        assert output(CHILD) == output(CHILD, env={**os.environ}) == "patched"
    with session, exchanged():
        assert output(CHILD) == output(CHILD, env={**os.environ}) == "patched"
        del os.environ["HOOKPATCH_INHERIT"]
        assert output(CHILD) == "patched"
    assert output(CHILD) == "0123456789"


@pytest.mark.parametrize("way", ["report", "session", "block"])
def test_the_finders_are_as_before(session: hookpatch.Session, way: str) -> None:
    """The list exchanged, and the list's state put back as pytester does."""
    before = list(sys.meta_path)
    session.open()
    with mock.patch(FINDERS, list(sys.meta_path)):
        session.close()
        assert sys.meta_path == before
    assert sys.meta_path == before
    with mock.patch(FINDERS, list(sys.meta_path)):
        session.open()
    end(way)
    session.close()
    assert sys.meta_path == before
    with session:
        saved = list(sys.meta_path)
    for finders in (saved, [*before[:1], saved[0], *before[1:]]):
        sys.meta_path[:] = finders
        end(way if finders is saved else "report")
        assert sys.meta_path == before
        with session:
            assert len(sys.meta_path) == len(before) + 1
        assert sys.meta_path == before


def test_imports_are_noticed_with_the_list_back(write_module: Callable[[str, str], Path]) -> None:
    """A session inside ends with the exchanged list: the session outside still hears of imports."""
    write_module("late", "LIMIT = 1")
    with hookpatch.active(hookpatch.replace("late:LIMIT", 7), children="local"):
        with mock.patch(FINDERS, list(sys.meta_path)), hookpatch.active(DIGITS, count=True):
            pass
        assert importlib.import_module("late").LIMIT == 7


@pytest.mark.parametrize("verb", ["replace", "wrap"])
def test_an_earlier_import_is_patched_and_not_stale(write_module: Callable[[str, str], Path], verb: str) -> None:
    """The module is imported anew: the report names the copy that is not patched, and no other."""
    write_module("shop", "def price(): return 1\nclass Shop:\n    def name(self): return 1\n")
    patches = [getattr(hookpatch, verb)(address, lambda *_: 7) for address in ("shop:price", "shop:Shop.name")]
    first = importlib.import_module("shop")
    values: list[ModuleType] = []
    with mock.patch.dict(sys.modules):
        del sys.modules["shop"]
        session = hookpatch.active(*patches, children="local").open()
        for _ in range(2):
            values.append(importlib.import_module("shop"))
            assert [(module.price(), module.Shop().name()) for module in values] == [(7, 7)] * len(values)
            assert {row.stale for row in session.report()} == {("shop (a second copy of the module)",)}
            del sys.modules["shop"]
        values.append(importlib.import_module("shop"))
    assert first.price() == 1
    assert {row.stale for row in session.report()} == {("shop (a second copy of the module)",)}
    session.close()
    assert [(module.price(), module.Shop().name()) for module in (first, *values)] == [(1, 1)] * 4


@pytest.mark.parametrize("verb", ["replace", "wrap"])
def test_a_session_has_patched_every_import(write_module: Callable[[str, str], Path], verb: str) -> None:
    write_module("shop", "def price(): return 1")
    with hookpatch.active(getattr(hookpatch, verb)("shop:price", lambda *_: 7), children="local") as session:
        first = importlib.import_module("shop")
        del sys.modules["shop"]
        assert (first.price(), importlib.import_module("shop").price()) == (7, 7)
        assert {row.stale for row in session.report()} == {()}
        with hookpatch.active(hookpatch.wrap("shop:price", lambda *_: 8), children="local") as inner:
            assert [row.stale for row in inner.report()] == [("shop (a second copy of the module)",)]
            assert {row.stale for row in session.report()} == {()}


def test_modules_in_another_dict(session: hookpatch.Session) -> None:
    """The patch goes to the module of the present ``sys.modules``."""
    with session:
        pass
    other = ModuleType("string")
    vars(other)["digits"] = "other"
    with mock.patch("sys.modules", {**sys.modules, "string": other}), session:
        assert (other.digits, string.digits) == ("patched", "0123456789")
    assert (other.digits, string.digits) == ("other", "0123456789")
