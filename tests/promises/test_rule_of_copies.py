"""A rule that matches a name and its copies: each call runs the patch once, also after an import inside."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import LateWarning

A, B = "copied_one", "copied_two"
ONE: Final = """
    import functools
    import wrapt

    def called(x): return x

    class Callable:
        def __call__(self, x): return x

    f = {value}
    functions = [f]
    """
VALUES: Final = {
    "function": "called",
    "wrapt proxy": "wrapt.FunctionWrapper(called, lambda w, i, a, k: w(*a, **k))",
    "partial": "functools.partial(called)",
    "object": "Callable()",
    "method": "Callable().__call__",
    "C method": "{1: 1}.get",
    "cache": "functools.lru_cache(called)",
}
MOMENTS: Final = ("both before", "copy inside", "both inside", "copy reloaded")


@pytest.fixture
def modules(write_module: Callable[[str, str], Path]) -> Iterator[Callable[[str], None]]:
    def write(value: str) -> None:
        write_module(A, ONE.format(value=value))
        write_module(B, f"from {A} import f")

    yield write
    for name in (A, B):
        sys.modules.pop(name, None)


def _patch(verb: str, address: str, reach: Any, calls: list[int]) -> hookpatch.Patch:
    def noting(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
        calls.append(1)
        return wrapped(*args, **kwargs)

    def given(x: Any) -> Any:
        calls.append(1)
        return x

    def derived(original: Any) -> Any:
        return lambda x: noting(original, None, (x,), {})

    facts: dict[str, Any] = {"reach": reach, "matches": ">=0"}
    if verb == "wrap":
        return hookpatch.wrap(address, noting, **facts)
    facts |= {"check_signature": False, "why": "takes any call"}
    if verb == "replace":
        return hookpatch.replace(address, given, **facts)
    return hookpatch.derive(address, derived, **facts)


def _import(moment: str, names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(name)
    if moment == "copy reloaded":
        importlib.reload(sys.modules[B])


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("verb", ["wrap", "replace", pytest.param("derive", marks=pytest.mark.ends)])
@pytest.mark.parametrize("reach", ["slot", pytest.param("everywhere", marks=pytest.mark.ends)])
@pytest.mark.parametrize("value", VALUES)
def test_each_call_runs_the_patch_once(value: str, reach: str, verb: str, moment: str, modules: Any) -> None:
    """A copy that a module makes inside the block is patched once, and at the end holds the original."""
    modules(VALUES[value])
    _import("", {"both inside": (), "copy inside": (A,)}.get(moment, (A, B)))
    calls: list[int] = []
    with hookpatch.active(_patch(verb, "copied_*:f", reach, calls)) as session:
        _import(moment, (A, B))
        for name in (A, B):
            calls.clear()
            sys.modules[name].f(1)
            assert len(calls) == 1, (name, str(session.report()))
    one, two = sys.modules[A], sys.modules[B]
    assert one.f is one.functions[0]
    assert two.f is one.f


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_a_subclass_that_copies_the_method(reach: Any, modules: Any) -> None:
    """``run = Base.run`` in a subclass made inside is patched once, and at the end is the original."""
    modules("called")
    module: Any = importlib.import_module(A)
    calls: list[int] = []
    with hookpatch.active(_patch("wrap", f"{A}:Callable+.__call__", reach, calls)) as session:

        class Copying(module.Callable):  # type: ignore[misc]  # mypy has no name for the base
            __call__ = module.Callable.__call__

        with pytest.warns(LateWarning) if reach == "slot" else nullcontext():
            session.report()
        Copying()(1)
        assert len(calls) == 1
    assert vars(Copying)["__call__"] is vars(module.Callable)["__call__"]


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_entries_that_hold_one_object(reach: Any, modules: Any) -> None:
    """An entry added inside that holds our value, and entries that hold one C function, are patched once."""
    modules("{1: 1}.get")
    module: Any = importlib.import_module(A)
    original = module.f
    module.table = {"a": original, "b": original}
    calls: list[int] = []
    with hookpatch.active(_patch("wrap", f"{A}:table[*]", reach, calls)) as session:
        module.table["c"] = module.table["a"]
        with pytest.warns(LateWarning) if reach == "slot" else nullcontext():
            session.report()
        for call in module.table.values():
            calls.clear()
            call(1)
            assert len(calls) == 1
    assert all(value is original for value in module.table.values())
