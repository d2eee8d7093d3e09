"""A module and another module that copies its value run anew inside a block, in any order: both ends are exact."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch

A, B = "copied_one", "copied_two"
ONE: Final = """
    import functools

    def called(x): return x

    class Callable:
        def __call__(self, x): return x

    f = {value}
    key = id(f)
    """
VALUES: Final = {
    "function": "called",
    "object": "Callable()",
    "partial": "functools.partial(called)",
    "C method": "{1: 1}.get",
}
# a and b: a reload of the module, of the copier; A and B: another import, after del sys.modules[name].
ORDERS: Final = ("ab", "aab", "abb", "abab", "ba", "AB", "aB", "Ab", "ABab")


@pytest.fixture
def modules(write_module: Callable[[str, str], Path]) -> Iterator[Callable[[str], None]]:
    def write(value: str) -> None:
        write_module(A, ONE.format(value=VALUES[value]))
        write_module(B, f"from {A} import f")

    yield write
    for name in (A, B):
        sys.modules.pop(name, None)


def patch_of(verb: str, address: str, reach: Any) -> hookpatch.Patch:
    def given(x: Any) -> Any:
        return ("given", x)

    facts: dict[str, Any] = {"reach": reach, **({"matches": ">=0"} if "*" in address else {})}
    if verb == "wrap":
        return hookpatch.wrap(address, lambda wrapped, _, args, kwargs: ("given", wrapped(*args, **kwargs)), **facts)
    facts |= {"check_signature": False, "why": "takes any call"}
    if verb == "replace":
        return hookpatch.replace(address, given, **facts)
    return hookpatch.derive(address, lambda original: given, **facts)


def run_anew(step: str) -> ModuleType:
    name = {"a": A, "b": B}[step.lower()]
    if step.islower():
        return importlib.reload(sys.modules[name])
    del sys.modules[name]
    return importlib.import_module(name)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("verb", ["replace", pytest.param("wrap", marks=pytest.mark.ends), "derive"])
@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("copied_*:f", "slot"),
        pytest.param("copied_*:f", "everywhere", marks=pytest.mark.ends),
        pytest.param(f"{A}:f", "everywhere", marks=pytest.mark.ends),
    ],
)
@pytest.mark.parametrize(
    "value", [pytest.param(value, marks=[pytest.mark.ends] * (value in ("partial", "C method"))) for value in VALUES]
)
def test_module_and_copier_run_anew(
    value: str, address: str, reach: str, verb: str, order: str, modules: Callable[[str], None]
) -> None:
    """Inside both are patched once. At the end each module has the function that it would have without the patch."""
    modules(value)
    expected = [importlib.import_module(A).key] * 2
    importlib.import_module(B)
    with warnings.catch_warnings(), hookpatch.active(patch_of(verb, address, reach)) as session:
        warnings.simplefilter("ignore")  # partial and C method have no signature to compare
        for step in order:
            module = run_anew(step)
            if step in "aA":
                expected[0] = module.key
            else:
                expected[1] = expected[0]
            assert [sys.modules[name].f(1) for name in (A, B)] == [("given", 1)] * 2, str(session.report())
    assert [id(sys.modules[name].f) for name in (A, B)] == expected


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_a_module_that_holds_the_given_value_for_itself(reach: Any, write_module: Callable[[str, str], Path]) -> None:
    """A module that runs anew, and holds the value of a replace under a name of its own, keeps the value."""
    write_module(A, "f = object()\ngiven = object()")
    write_module(B, f"from {A} import f, given as own")
    one, two = importlib.import_module(A), importlib.import_module(B)
    try:
        with hookpatch.active(hookpatch.replace(f"{A}:f", one.given, reach=reach)):
            importlib.reload(two)
        assert two.own is one.given
    finally:
        for name in (A, B):
            sys.modules.pop(name, None)
