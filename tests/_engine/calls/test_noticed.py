"""The report says of a target that looks at the stack that the target finds the patch instead."""

from __future__ import annotations

import collections
import inspect
import logging
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch._engine.calls.noticed import reads_caller_by

SOURCE: Final = """
import functools, inspect, sys, traceback, warnings

def by_keyword(): warnings.warn("look out", stacklevel=2)
def by_place(): warnings.warn("look out", UserWarning, 2)
def by_frame(): return sys._getframe(1)
def by_inspect(): return inspect.currentframe().f_back
def by_traceback(): return traceback.extract_stack()
def inside():
    def nested(): return sys._getframe(2)
    return nested()
@functools.wraps(by_keyword)
def decorated(): return by_keyword()
class Class:
    def __init__(self): self.frame = sys._getframe(1)
class Child(Class): pass
class Callee:
    def __call__(self): return sys._getframe(1)
    def method(self): return sys._getframe(1)
callee = Callee()
bound = callee.method

def without(): warnings.warn("look out", UserWarning)
def another_number(): return print("stack", "level", 2)
class Plain:
    def __init__(self): pass
plain = print
"""
LOOK: Final = {
    "by_keyword": "stacklevel",
    "by_place": "stacklevel",
    "by_frame": "_getframe",
    "by_inspect": "currentframe",
    "by_traceback": "extract_stack",
    "inside": "_getframe",
    "decorated": "stacklevel",
    "Class": "_getframe",
    "Child": "_getframe",
    "callee": "_getframe",
    "bound": "_getframe",
}
DO_NOT: Final = ("without", "another_number", "Plain", "plain")


@pytest.fixture
def module(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("looking", SOURCE)


@pytest.mark.parametrize("name", LOOK)
def test_who_looks_is_known(module: ModuleType, name: str) -> None:
    assert reads_caller_by(getattr(module, name)) == LOOK[name]


@pytest.mark.parametrize("name", DO_NOT)
def test_who_does_not_look_is_not(module: ModuleType, name: str) -> None:
    assert reads_caller_by(getattr(module, name)) == ""


def test_the_library_is_known() -> None:
    kinds = [reads_caller_by(function) for function in (sys._getframe, warnings.warn, locals, collections.namedtuple)]
    assert kinds == ["_getframe", "warn", "locals", "_getframe"]
    assert [reads_caller_by(function) for function in (len, sys.exit, int, logging.info, inspect.signature)] == [""] * 5


def _say(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_report_says_what_is_found(module: ModuleType, reach: Any) -> None:
    patches = [hookpatch.wrap(f"looking:{name}", _say, reach=reach) for name in ("by_frame", "without")]
    with hookpatch.active(*patches) as session:
        assert module.by_frame().f_code.co_name.partition(" ")[0] == "_say"
        reported = [patch.warnings for patch in session.report()]
    words = "the target looks for its caller on the stack (_getframe), and finds the patch instead"
    assert reported == [(words,), ()]


def test_what_replaces_a_function_in_place_is_asked_itself(module: ModuleType) -> None:
    """In the slot a replacement is called by the caller; in place the function's own code calls it."""
    for reach, count in (("slot", 0), ("everywhere", 1)):
        patch = hookpatch.replace("looking:without", module.by_keyword, reach=reach)
        with hookpatch.active(patch) as session:
            (report,) = session.report()
        assert len(report.warnings) == count


def test_a_method_of_instances_that_looks(make_module: Callable[[str, str], ModuleType]) -> None:
    """The report says so once, and not for each instance."""
    module = make_module("looking_methods", "import sys\nclass Cell:\n    def caller(self): return sys._getframe(1)\n")
    cells = [module.Cell(), module.Cell()]
    with hookpatch.active(hookpatch.wrap("looking_methods:Cell().caller", _say)) as session:
        assert {cell.caller().f_code.co_name.partition(" ")[0] for cell in cells} == {"_say"}
        (report,) = session.report()
    assert [text for text in report.warnings if "looks for its caller" in text] == [
        "the target looks for its caller on the stack (_getframe), and finds the patch instead"
    ]
