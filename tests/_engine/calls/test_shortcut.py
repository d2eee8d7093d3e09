"""``inject`` and ``default`` add no frame to the stack where a frameless call is exact: the target finds the caller."""

from __future__ import annotations

import argparse
import asyncio
import collections
import dis
import inspect
import subprocess
import sys
import traceback
import typing
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, Final

import pytest
from layers import HIDES_PATCHES

import hookpatch
from hookpatch._engine.calls.shortcut import Shortcut, shortcut

SOURCE: Final = """
import sys

def function(x, y=2): return "plain", x, y, sys._getframe(1).f_code.co_name
def by_keyword(x, *, y=2): return "plain", x, y, sys._getframe(1).f_code.co_name
def many(x, y=2, *more, z=3, **others): return "plain", x, y, more, z, others, depth()
def packed(x, *args, **kwargs): return x, args, kwargs, depth()
def in_cells(x, y=2, **kwargs):
    def inside(): return y, kwargs
    return x, inside(), depth()
def required(x, y): return x, y, depth()
def required_by_keyword(x, *, y): return x, y, depth()
def handles(x, y=2):
    try: raise ValueError(y)
    except ValueError as error: return x, error.args, depth()
    finally: x = None
def loops(x, y=2):
    while True:
        x += 1
        if x > 3: return x, y, depth()
def generator(x, y=2):
    try:
        for number in range(2): yield number, x, y
    except ValueError: yield "handled"
async def coroutine(x, y=2): return x, y
def fails(x, y=2):
    z = x

    raise RuntimeError(y)
def depth():
    frame, count = sys._getframe(1), 0
    while frame.f_code.co_name != "called":
        frame, count = frame.f_back, count + 1
    return count
class Class:
    def __init__(self, x, y=2): self.seen = x, y, depth()
    def method(self, x, y=2): return x, y, depth()
    @classmethod
    def of_class(cls, x, y=2): return x, y, depth()
    @staticmethod
    def static(x, y=2): return x, y, depth()

def sees_locals(x, y=2): return sorted(locals())
def closed(x):
    def inside(x, y=2): return x, y, depth()
    return inside
closure = closed(1)
class Child(Class): pass
"""
REACHES: Final = ("slot", "everywhere")
# Each with the calls to make, beyond the one by place alone.
SHORT: Final = {
    "many": [((1, 3), {}), ((1,), {"y": 3}), ((1, 3, 4), {"z": 5, "w": 6})],
    "packed": [((1, 3), {"z": 3}), ((1,), {"y": 3, "w": 4})],
    "in_cells": [((1, 3), {"z": 3}), ((1,), {"y": 3})],
    "handles": [((1, 3), {})],
    "loops": [((1, 3), {})],
    "Class.method": [((1, 3), {})],
    "Class.of_class": [((1, 3), {})],
    "Class.static": [((1, 3), {})],
}


@pytest.fixture
def module(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("short", SOURCE)


def called(module: ModuleType, name: str, *args: Any, **kwargs: Any) -> Any:
    owner, _, attribute = name.rpartition(".")
    return getattr(getattr(module, owner)(1) if owner else module, attribute)(*args, **kwargs)


def _is_said(session: hookpatch.Session) -> bool:
    return any("looks for its caller" in text for patch in session.report() for text in patch.warnings)


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("verb", ["inject", "default"])
@pytest.mark.parametrize("name", SHORT)
def test_a_call_gives_what_it_gives_with_a_frame(module: ModuleType, name: str, verb: Any, reach: Any) -> None:
    """A patch whose calls are counted runs in a frame, and is the measure; but for the depth of the stack."""
    if name == "packed" and verb == "default":
        pytest.skip("what a call gives in **kwargs is known at the call alone")
    make = getattr(hookpatch, verb)
    results: list[list[Any]] = []
    plain = called(module, name, 1)[-1]
    for count in (True, False):
        with hookpatch.active(make(f"short:{name}", y=5, reach=reach), count=count):
            results.append([called(module, name, *args, **kwargs) for args, kwargs in [((1,), {}), *SHORT[name]]])
    with_frames, without = results
    assert [result[:-1] for result in without] == [result[:-1] for result in with_frames]
    is_short = (verb, reach) != ("default", "everywhere")
    assert {result[-1] for result in without} == ({plain} if is_short else {plain + 2})


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("name", ["function", "by_keyword"])
@pytest.mark.parametrize("verb", ["inject", "default"])
def test_target_finds_its_caller_or_the_report_says_not(module: ModuleType, verb: Any, name: str, reach: Any) -> None:
    with hookpatch.active(getattr(hookpatch, verb)(f"short:{name}", y=5, reach=reach)) as session:
        assert called(module, name, 1)[:3] == ("plain", 1, 5)
        assert (called(module, name, 1)[3] != "called") == _is_said(session) == (verb == "default" and reach != "slot")
    assert called(module, name, 1) == ("plain", 1, 2, "called")


@pytest.mark.parametrize("verb", ["inject", "default"])
@pytest.mark.parametrize("name", ["required", "required_by_keyword"])
def test_a_required_argument(module: ModuleType, name: str, verb: Any) -> None:
    function = getattr(module, name)
    defaults = function.__defaults__, function.__kwdefaults__
    with hookpatch.active(getattr(hookpatch, verb)(f"short:{name}", y=5)):
        assert called(module, name, 1) == (1, 5, 1)
    assert (function.__defaults__, function.__kwdefaults__) == defaults
    with pytest.raises(TypeError):
        called(module, name, 1)


@pytest.mark.parametrize("reach", REACHES)
def test_generators_and_coroutines(module: ModuleType, reach: Any) -> None:
    names = ("generator", "coroutine")
    with hookpatch.active(*(hookpatch.inject(f"short:{name}", y=5, reach=reach) for name in names)):
        begun, later = module.generator(1), module.coroutine(1)
        kinds = inspect.isgeneratorfunction(module.generator), inspect.iscoroutinefunction(module.coroutine)
    assert kinds == (True, True)
    assert (next(begun), begun.throw(ValueError()), asyncio.run(later)) == ((0, 1, 5), "handled", (1, 5))
    assert next(module.generator(1)) == (0, 1, 2)


@pytest.mark.parametrize("reach", REACHES)
def test_traceback_shows_the_line_and_its_variables(module: ModuleType, reach: Any) -> None:
    with hookpatch.active(hookpatch.inject("short:fails", y=5, reach=reach)):
        try:
            module.fails(1)
        except RuntimeError as error:
            shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    last = shown.stack[-1]
    assert (last.name, last.line, len(shown.stack)) == ("fails", "raise RuntimeError(y)", 2)
    assert [(last.locals or {}).get(name) for name in "xy"] == ["1", "5"]


def test_patches_come_and_go(module: ModuleType) -> None:
    """A wrapper over and beneath the patch, another argument, an end in between: each call has all open patches."""

    def plus(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
        return ("plus", *wrapped(*args, **kwargs)[:-1])

    def seen() -> Any:
        result = called(module, "many", 1)
        return result[:-1] if result[0] == "plain" else result

    values = []
    with hookpatch.active(hookpatch.inject("short:many", y=5)):
        values.append(module.many)
        assert seen() == ("plain", 1, 5, (), 3, {})
        with hookpatch.active(hookpatch.wrap("short:many", plus)):
            assert seen() == ("plus", "plain", 1, 5, (), 3, {})
        with (
            hookpatch.active(hookpatch.inject("short:many", z=6)),
            hookpatch.active(hookpatch.default("short:many", w=7)),
        ):
            assert seen() == ("plain", 1, 5, (), 6, {"w": 7})
        assert called(module, "many", 1) == ("plain", 1, 5, (), 3, {}, 1)
        with hookpatch.active(hookpatch.wrap("short:many", plus, reach="everywhere")):  # the original's own code
            assert seen() == ("plus", "plain", 1, 5, (), 3, {})
        assert seen() == ("plain", 1, 5, (), 3, {})
    module.many = values[0]
    assert seen() == ("plain", 1, 2, (), 3, {})


@pytest.mark.parametrize("name", ["sees_locals", "closure", "Child.method"])
def test_where_it_is_not_exact_there_is_a_frame(module: ModuleType, name: str) -> None:
    with hookpatch.active(hookpatch.inject(f"short:{name}", y=5)):
        result = called(module, name, 1)
    assert result == ["x", "y"] if name == "sees_locals" else result[1] == 5


@pytest.mark.parametrize("value", [[1], object(), FunctionType, (1, [2])])
def test_a_value_that_is_no_constant_is_given_in_a_frame(module: ModuleType, value: Any) -> None:
    with hookpatch.active(hookpatch.inject("short:function", y=value)) as session:
        result = called(module, "function", 1)
        assert (result[2] == value, result[3] != "called", _is_said(session)) == (True, True, True)


def test_code_of_the_library_is_the_same_but_for_the_instructions() -> None:
    """Instructions with their lines and columns, what jumps where, handlers of errors: of some hundred functions."""
    functions = [
        value
        for module in (argparse, asyncio.base_events, inspect, subprocess, traceback, typing, dis)
        for value in vars(module).values()
    ]
    functions += [value for kind in functions if isinstance(kind, type) for value in vars(kind).values()]
    count = 0
    for function in functions:
        if type(function) is not FunctionType or not function.__defaults__:
            continue
        code = function.__code__
        last = code.co_varnames[code.co_argcount - 1]
        shortened = shortcut(function, {last: 5}, {}, ("further",))
        if shortened is None:
            continue
        count += 1
        before, after = _instructions(code), _instructions(shortened.code)
        assert after[len(after) - len(before) :] == before, function
        assert _handlers(shortened) == _handlers(Shortcut(function, code, code, None, None)), function
    assert count > 100


def _instructions(code: Any) -> list[Any]:
    """Return the instructions after the ``RESUME``, each with the place in the source."""
    rows = [
        (instruction.opname, instruction.argrepr, instruction.positions, instruction.is_jump_target)
        for instruction in dis.get_instructions(code)
    ]
    names = [name for name, *_ in rows]
    shown = rows[names.index("RESUME") + 1 :]
    return [
        (name, "" if "JUMP" in name or name in ("FOR_ITER", "SEND") else text, *details)
        for name, text, *details in shown
    ]


def _handlers(shortened: Shortcut) -> list[str]:
    """Return the instructions at which the handlers of errors begin, end and go on, by their place from the end."""
    size = len(shortened.code.co_code)
    entries = dis._parse_exception_table(shortened.code)  # type: ignore[attr-defined]  # private, in all Pythons from 3.11 on
    begun = next(
        instruction.offset for instruction in dis.get_instructions(shortened.of) if instruction.opname == "RESUME"
    )
    return [
        str((size - entry.end, size - entry.target))
        for entry in entries
        if entry.start > begun + (shortened.code is not shortened.of) * 8
    ]


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("verb", ["inject", "default"])
def test_a_tuple_is_of_the_module_that_names_it(verb: Any, reach: Any) -> None:
    with hookpatch.active(getattr(hookpatch, verb)("collections:namedtuple", rename=True, reach=reach)) as session:
        tuple_class = collections.namedtuple("Made", ["class"])
        assert tuple_class._fields == ("_0",)
        assert (tuple_class.__module__ == __name__) != _is_said(session)


@HIDES_PATCHES
@pytest.mark.parametrize("reversed_", [False, True], ids=["inject outside", "replace outside"])
@pytest.mark.parametrize("has_cells", [False, True], ids=["a function", "a closure"])
def test_a_replacement_from_another_module_runs_with_its_own_names(
    make_module: Any, has_cells: bool, reversed_: bool
) -> None:
    """In place the function keeps its globals and cells: code of a replacement does not run there."""
    vendor = make_module("shortened", "K = 'vendor'\ndef f(x=1): return K, x")
    closure = "def make():\n    k = 'other'\n    def g(x=1): return k, x\n    return g\ng = make()"
    replacing = make_module("replacing", closure if has_cells else "K = 'other'\ndef g(x=1): return K, x")
    patches = [
        hookpatch.inject("shortened:f", x=7, reach="everywhere"),
        hookpatch.replace("shortened:f", replacing.g, reach="everywhere"),
    ]
    with hookpatch.active(*(reversed(patches) if reversed_ else patches), children="local"):
        assert vendor.f() == ("other", 1 if reversed_ else 7)
    with hookpatch.active(patches[0], children="local"):
        assert vendor.f() == ("vendor", 7)
    assert vendor.f() == ("vendor", 1)


def test_a_newer_python_gets_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: int, y: int = 2) -> int:
        return x + y

    assert shortcut(function, {"y": 5}, {}, ()) is not None
    monkeypatch.setattr(sys, "version_info", (3, 99))
    assert shortcut(function, {"y": 5}, {}, ()) is None


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("verb", ["inject", "default"])
@pytest.mark.parametrize("name", ["function", "Kind.method", "Kind.of_class", "Kind.static", "Heir.method"])
@pytest.mark.parametrize("wrapper", ["wrapt", "closure", "callable object"])
def test_a_foreign_wrapper_is_still_called(make_module: Any, wrapper: str, name: str, verb: str, reach: Any) -> None:
    """The target is a wrapper that passes for the function inside: the shortcut of the inner function is not taken."""
    vendor = make_module(
        "wrapped",
        """
        import functools, wrapt

        def foreign(kind, function):
            if kind == "wrapt":
                return wrapt.FunctionWrapper(function, lambda w, i, a, k: ("foreign", w(*a, **k)))
            if kind == "closure":
                return functools.wraps(function)(lambda *a, **k: ("foreign", function(*a, **k)))
            return Callable(function)

        class Callable:
            __class__ = type(foreign)
            def __init__(self, function): functools.update_wrapper(self, function); self.function = function
            def __getattr__(self, name): return getattr(vars(self)["__wrapped__"], name)
            def __get__(self, instance, owner=None):
                return self if instance is None else functools.partial(self, instance)
            def __call__(self, *a, **k): return "foreign", self.function(*a, **k)

        def function(x=1): return x
        class Kind:
            def method(self, x=1): return x
            def of_class(cls, x=1): return x
            def static(x=1): return x
        """,
    )
    vendor.function = vendor.foreign(wrapper, vendor.function)
    for method, as_kind in (("method", lambda function: function), ("of_class", classmethod), ("static", staticmethod)):
        setattr(vendor.Kind, method, as_kind(vendor.foreign(wrapper, vars(vendor.Kind)[method])))
    vendor.Heir = type("Heir", (vendor.Kind,), {"__module__": "wrapped"})
    owner = name.partition(".")[0]

    def call() -> object:
        return vendor.function() if name == "function" else getattr(getattr(vendor, owner)(), name.partition(".")[2])()

    assert call() == ("foreign", 1)
    with hookpatch.active(getattr(hookpatch, verb)(f"wrapped:{name}", x=7, reach=reach)):
        assert call() == ("foreign", 7)
    assert call() == ("foreign", 1)
