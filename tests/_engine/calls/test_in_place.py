"""reach="everywhere" changes a Python function in place, under every name."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from function_kinds import FUNCTIONS, are_identical, around, state_of, wrap_of

import hookpatch

MakeModule = Callable[[str, str], ModuleType]


@pytest.mark.parametrize("name", [*FUNCTIONS, "Model.coroutine", "Model.named", "Base.named"])
def test_function_changed_in_place_is_identical_afterwards(kinds: ModuleType, name: str) -> None:
    """Code, keyword defaults, closure and attributes are the identical objects; no attribute is left."""
    function: Any = kinds
    for step in name.split("."):
        function = getattr(function, step)
    before, attributes = state_of(function), vars(function)
    with hookpatch.active(wrap_of(name, "everywhere")):
        assert function.__code__ is not before["code"]
        assert dict(vars(function)) == {name: attributes[name] for name in attributes}
    assert are_identical(before, state_of(function))
    assert vars(function) is attributes


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_function_changed_in_place_by_several_sessions_is_identical_afterwards(
    kinds: ModuleType, order: tuple[int, ...]
) -> None:
    """Several sessions on a function, closed in any order, leave the function as before."""
    before = state_of(kinds.inner)
    sessions = [hookpatch.active(wrap_of("inner", "everywhere", around)).open() for _ in range(3)]
    assert kinds.inner(step=0) == "patched(patched(patched(10)))"
    for closed, index in enumerate(order):
        sessions[index].close()
        assert str(kinds.inner(step=0)) == "patched(" * (2 - closed) + "10" + ")" * (2 - closed)
    assert are_identical(before, state_of(kinds.inner))


def test_names_bound_before_see_the_change(kinds: ModuleType, make_module: MakeModule) -> None:
    """Earlier imports, registries, default arguments, partials and bound methods see the change and its end."""
    importer = make_module(
        "importer",
        """
        import functools
        from functions import Model, inner, plain
        REGISTRY = {"inner": inner}
        PARTIAL = functools.partial(inner, step=0)
        def caller(call=inner):
            return call(step=0)
        bound = Model().named
        """,
    )

    def seen() -> list[Any]:
        return [
            importer.inner(step=0),
            importer.REGISTRY["inner"](step=0),
            importer.PARTIAL(),
            importer.caller(),
            importer.bound(),
            kinds.inner(step=0),
        ]

    before = seen()
    with hookpatch.active(wrap_of("inner", "everywhere", around), wrap_of("Model.named", "everywhere", around)):
        assert seen() == [f"patched({value})" for value in before]
        assert importer.inner is kinds.inner
    assert seen() == before


def test_closure_works_and_is_kept(kinds: ModuleType) -> None:
    """A function with free variables reads and writes the variables while patched."""
    cells = kinds.inner.__closure__
    with hookpatch.active(wrap_of("inner", "everywhere", around)):
        assert kinds.inner() == "patched(11)"
        assert kinds.inner.__closure__ is cells
    assert kinds.inner() == 12


def test_inherited_method_is_not_changed_inside(kinds: ModuleType) -> None:
    """reach="everywhere" on an inherited method leaves the function of the base class alone."""
    sub = type("Sub", (kinds.Base,), {})
    kinds.Sub = sub
    function = vars(kinds.Base)["named"]
    before = state_of(function)
    with hookpatch.active(wrap_of("Sub.named", "everywhere", around)):
        assert (sub().named(), kinds.Base().named()) == ("patched(base)", "base")
        assert "named" in vars(sub)
    assert "named" not in vars(sub)
    assert are_identical(before, state_of(function))


def test_slot_over_everywhere_and_its_end_in_either_order(kinds: ModuleType) -> None:
    """A patch of the slot over a patch in place: both take effect, each ends alone, the function is as before."""
    for order in ((0, 1), (1, 0)):
        function, before = kinds.inner, state_of(kinds.inner)
        sessions = [
            hookpatch.active(wrap_of("inner", "everywhere", lambda w, i, a, k: ("inside", w(*a, **k)))).open(),
            hookpatch.active(wrap_of("inner", "slot", lambda w, i, a, k: ("outside", w(*a, **k)))).open(),
        ]
        assert kinds.inner(step=0) == ("outside", ("inside", 10))
        assert function(step=0) == ("inside", 10)
        sessions[order[0]].close()
        assert kinds.inner(step=0) == (("outside", 10) if order[0] == 0 else ("inside", 10))
        sessions[order[1]].close()
        assert kinds.inner is function
        assert are_identical(before, state_of(function))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_everywhere_over_slot_and_its_end_in_either_order(kinds: ModuleType, order: tuple[int, int]) -> None:
    """A patch in place, opened over a patch of the slot, reaches earlier names, and outlives the other."""
    function, before = kinds.inner, state_of(kinds.inner)
    sessions = [
        hookpatch.active(wrap_of("inner", "slot", lambda w, i, a, k: ("slot", w(*a, **k)))).open(),
        hookpatch.active(wrap_of("inner", "everywhere", lambda w, i, a, k: ("everywhere", w(*a, **k)))).open(),
    ]
    assert kinds.inner(step=0) == ("slot", ("everywhere", 10))
    assert function(step=0) == ("everywhere", 10)
    sessions[order[0]].close()
    assert kinds.inner(step=0) == (("everywhere", 10) if order[0] == 0 else ("slot", 10))
    assert function(step=0) == (("everywhere", 10) if order[0] == 0 else 10)
    sessions[order[1]].close()
    assert kinds.inner is function
    assert are_identical(before, state_of(function))


def test_arguments_are_injected_everywhere(kinds: ModuleType) -> None:
    """inject reaches a function under every name, and leaves the function's defaults alone."""
    alias, before = kinds.plain, state_of(kinds.plain)
    with hookpatch.active(hookpatch.inject("functions:plain", b=7, c=8.0, reach="everywhere")):
        assert alias(0) == kinds.plain(0, 5, c=6.0) == (0, 7, (), 8.0, {})
    assert are_identical(before, state_of(alias))
