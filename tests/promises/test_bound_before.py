"""Methods bound before a patch, and weak references, call past the patch: the report names them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch._engine.site.sites import patched

SOURCE: Final = """
    import functools, types, weakref

    def function():
        return "plain"

    class Callable:
        def __call__(self):
            return "plain"

    class Model:
        def forward(self):
            return "plain"
        @classmethod
        def make(cls):
            return "plain"

    class Heir(Model):
        pass

    class Box:
        pass

    callable_object = Callable()
    model, other, heir = Model(), Model(), Heir()
    box = Box()
    box.model = model
    table = {"model": model}
"""
# Each place as a statement that keeps the referent in the module, and the name in the report.
WEAK: Final = {
    "kept": "kept = weakref.ref({0})",
    "with_callback": "with_callback = weakref.ref({0}, print)",
    "proxy": "proxy = weakref.proxy({0})",
    "row[0]": "row = [weakref.ref({0})]",
    "pair[1]": "pair = (1, weakref.ref({0}))",
    "keyed['k']": "keyed = {{'k': weakref.ref({0})}}",
    "box.kept": "box.kept = weakref.ref({0})",
    "bag.data (a set)": "bag = weakref.WeakSet([{0}])",
    "values.data['k']": "values = weakref.WeakValueDictionary(k={0})",
}
BOUND: Final = {
    "kept": "kept = {0}",
    "row[0]": "row = [{0}]",
    "keyed['k']": "keyed = {{'k': {0}}}",
    "box.kept": "box.kept = {0}",
    "part.func": "part = functools.partial({0})",
    "weak": "weak = weakref.WeakMethod({0})",
    "weak_row[0]": "weak_row = [weakref.WeakMethod({0})]",
    "weak_bag (a set)": "weak_bag = {{weakref.WeakMethod({0})}}",
    "weak_keyed['k']": "weak_keyed = {{'k': weakref.WeakMethod({0})}}",
}
CALL: Final[dict[str, Callable[[Any], str]]] = {
    "kept": lambda bound: bound.kept(),
    "weak": lambda bound: bound.weak()(),
}


def _in_short(places: dict[str, str]) -> list[Any]:
    """Return the places as parameters; ``make test`` has some of them."""
    return [pytest.param(place, marks=() if place in CALL else pytest.mark.ends) for place in places]


@pytest.fixture
def bound(make_module: Callable[[str, str], ModuleType]) -> Iterator[Any]:
    yield make_module("bound", SOURCE)
    assert patched() == []


def _patched(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    return "patched"


class New:
    """In place of a class."""


def _stale(name: str, statement: str) -> str:
    """Return the words of the report for a place."""
    return f"bound:{name}{' (a weak reference)' * ('weakref.' in statement)}"


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("place", _in_short(WEAK))
@pytest.mark.parametrize("target", ["function", "callable_object", "Model"])
def test_a_weak_reference_is_named_or_reached(bound: Any, target: str, place: str, reach: Any) -> None:
    """The collector shows no weak references; the report named none, and said applied."""
    exec(WEAK[place].format(target), vars(bound))
    change = hookpatch.replace if target == "Model" else hookpatch.wrap
    value: Any = New if target == "Model" else _patched
    original = vars(bound)[target]
    with hookpatch.active(change(f"bound:{target}", value, reach=reach), children="local") as session:
        [*names] = session.report().patches[0].stale
        if target == "function" and reach == "everywhere":  # changed in place
            assert (original(), names) == ("patched", [])
        else:
            assert [name for name in names if "weak" in name] == [_stale(place, WEAK[place])]
            assert target == "Model" or original() == "plain"


def test_a_weak_key_is_not_named(bound: Any) -> None:
    """A key is looked up, and not called: caches by function would fill the report."""
    bound.keys = weakref.WeakKeyDictionary({bound.function: 1})
    bound.kept = weakref.ref(bound.function, print)
    with hookpatch.active(hookpatch.wrap("bound:function", _patched), children="local") as session:
        assert session.report().patches[0].stale == ("bound:kept (a weak reference)",)


# A patched method; the methods that then call past the patch, and those that do not.
METHODS: Final = {
    "model.forward": (["model.forward"], ["other.forward", "heir.forward"]),
    "box.model.forward": (["model.forward"], ["other.forward"]),
    "table['model'].forward": (["model.forward"], ["other.forward"]),
    "Model().forward": (["model.forward", "other.forward"], ["heir.forward"]),
    "Model+().forward": (["model.forward", "other.forward", "heir.forward"], []),
    "Heir().forward": (["heir.forward"], ["model.forward"]),
    "Heir.forward": (["heir.forward"], ["model.forward"]),
    "Model.forward": (["model.forward", "heir.forward"], []),
    "Model.make": (["Model.make", "Heir.make"], []),
    "Heir.make": (["Heir.make"], ["Model.make"]),
}


@pytest.mark.parametrize("place", _in_short(BOUND))
@pytest.mark.parametrize(
    ("address", "method", "is_past"),
    [
        (address, method, is_past)
        for address, past_and_not in METHODS.items()
        for methods, is_past in zip(past_and_not, (True, False), strict=True)
        for method in methods
    ],
)
@pytest.mark.sampled(12)
def test_a_method_bound_before_is_named(bound: Any, address: str, method: str, is_past: bool, place: str) -> None:
    """A callback such as ``box.run = model.forward`` calls the original after a patch of the object's method."""
    exec(BOUND[place].format(method), vars(bound))
    with hookpatch.active(hookpatch.wrap(f"bound:{address}", _patched), children="local") as session:
        names = {name for patch in session.report() for name in patch.stale}
        assert names == ({_stale(place, BOUND[place])} if is_past else set())
        if place in CALL:
            assert CALL[place](bound) == "plain"
    assert eval(method, vars(bound))() == "plain"


@pytest.mark.parametrize("address", ["model.forward", "Heir.forward", "Heir.make"])
def test_with_every_reach_the_methods_of_an_object_are_named(bound: Any, address: str) -> None:
    """An inherited method belongs to another class, so the patch goes to the one slot: the other holders are named."""
    owner = "model" if address == "model.forward" else "Heir" if address == "Heir.make" else "heir"
    exec(f"kept = {owner}.{address.split('.')[1]}\nweak = weakref.WeakMethod(kept)", vars(bound))
    patch = hookpatch.wrap(f"bound:{address}", _patched, reach="everywhere")
    with hookpatch.active(patch, children="local") as session:
        assert session.report().patches[0].stale == ("bound:kept", "bound:weak (a weak reference)")
        assert bound.kept() == bound.weak()() == "plain"
