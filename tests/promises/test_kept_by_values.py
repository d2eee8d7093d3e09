"""A value of a patch keeps the original for its own calls: a patch with reach="everywhere" leaves that place alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch._engine.site.sites import patched

SOURCE: Final = """
    class Callable:
        def __call__(self, x=0):
            return "f",

    def function(x=0):
        return "f",

    called = Callable()
    table = {"called": called}

    class Registry:
        def __init__(self):
            self.rows = [called]

    registry = Registry()
"""


class _Attribute:
    def __init__(self, mark: str, original: Any) -> None:
        self.mark, self.original = mark, original

    def __call__(self, x: int = 0) -> Any:
        return (self.mark, *self.original(x))


class _Slots:
    __slots__ = ("mark", "original")

    def __init__(self, mark: str, original: Any) -> None:
        self.mark, self.original = mark, original

    def __call__(self, x: int = 0) -> Any:
        return (self.mark, *self.original(x))


class _Row:
    def __init__(self, mark: str, original: Any) -> None:
        self.mark, self.row = mark, [{"k": original}]

    def __call__(self, x: int = 0) -> Any:
        return (self.mark, *self.row[0]["k"](x))


def _closure(mark: str, original: Any) -> Any:
    def value(x: int = 0) -> Any:
        return (mark, *original(x))

    return value


def _closure_of_object(mark: str, original: Any) -> Any:
    kept = _Attribute(mark, original)

    def value(x: int = 0) -> Any:
        return kept(x)

    return value


def _closure_of_list(mark: str, original: Any) -> Any:
    kept = [original]

    def value(x: int = 0) -> Any:
        return (mark, *kept[0](x))

    return value


def _partial(mark: str, original: Any) -> Any:
    return functools.partial(lambda kept, x=0: (mark, *kept(x)), original)


def _class(mark: str, original: Any) -> Any:
    class Value:
        kept = staticmethod(original)

        def __call__(self, x: int = 0) -> Any:
            return (mark, *self.kept(x))

    return Value()


KINDS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "attribute": _Attribute,
    "row": _Row,
    "slots": _Slots,
    "bound method": lambda mark, original: _Attribute(mark, original).__call__,
    "closure": _closure,
    "closure of an object": _closure_of_object,
    "closure of a list": _closure_of_list,
    "partial": _partial,
    "class": _class,
    "cached": lambda mark, original: functools.lru_cache(_closure(mark, original)),
}
REACHES: Final[tuple[Any, ...]] = ("slot", "everywhere")
CELLS: Final = [
    pytest.param(kind, name, marks=() if (kind, name) == ("row", "called") else [pytest.mark.ends, pytest.mark.once])
    for kind, name in product(KINDS, ("called", "function"))
]


def _patch(verb: str, name: str, mark: str, kind: str, original: Any, reach: Any) -> hookpatch.Patch:
    address = f"kept:{name}"
    if verb == "wrap":
        return hookpatch.wrap(address, lambda wrapped, _, args, kwargs: (mark, *wrapped(*args, **kwargs)), reach=reach)
    if verb == "derive":
        return hookpatch.derive(address, lambda original: KINDS[kind](mark, original), reach=reach)
    return hookpatch.replace(address, KINDS[kind](mark, original), reach=reach)


@pytest.mark.parametrize(("kind", "name"), CELLS)
@pytest.mark.filterwarnings("ignore::hookpatch.errors.PatchUnneededWarning")
@pytest.mark.ends
def test_each_value_runs_once(make_module: Callable[[str, str], ModuleType], kind: str, name: str) -> None:
    """Two sessions with values that keep the original: the calls ended in RecursionError, or ran a value twice."""
    module = make_module("kept", SOURCE)
    original, wrong = vars(module)[name], []
    for verbs in product(("derive", "replace"), ("wrap", "derive", "replace")):
        for reaches, is_first_outside in product(product(REACHES, repeat=2), (True, False)):
            first, second = (
                hookpatch.active(_patch(verb, name, mark, kind, original, reach), children="local")
                for verb, mark, reach in zip(verbs, "12", reaches, strict=True)
            )
            outer, inner = (first, second) if is_first_outside else (second, first)
            with outer, inner:
                try:
                    marks = vars(module)[name]()
                except RecursionError:
                    marks = ("RecursionError",)
            if marks[-1] != "f" or len({*marks}) != len(marks) or original() != ("f",):
                wrong.append((verbs, reaches, is_first_outside, marks))
            assert vars(module)[name] is original
    assert wrong == []
    assert patched() == []


@pytest.mark.parametrize("kept", ["table", "registry", "registry.rows"])
def test_what_a_library_holds_too_is_reached(make_module: Callable[[str, str], ModuleType], kept: str) -> None:
    """A wrapper's value that keeps a table of the library does not keep the patch from the table."""
    module: Any = make_module("kept", SOURCE)
    value = _Attribute("1", None)
    vars(value).update(kept=eval(kept, vars(module)), original=module.called)
    with hookpatch.active(hookpatch.replace("kept:called", value, reach="everywhere"), children="local"):
        assert module.called() == module.table["called"]() == module.registry.rows[0]() == ("1", "f")
    assert module.table["called"] is module.registry.rows[0] is module.called
