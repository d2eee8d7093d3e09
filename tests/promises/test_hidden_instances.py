"""Patches of instances over and under other patches: each has its effect, or the report says for whom it has none."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable
from itertools import chain, product
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import ConflictError, PatchUnneededWarning, TargetRefused
from hookpatch.testing import pristine

VENDOR: Final = """
    def called(a=0):
        return [a]

    class Kind:
        def __init__(self):
            self.call = called

        def method(self, a=0):
            return [a, "vendor"]

    class Child(Kind): pass

    class Own(Kind):
        def method(self, a=0):
            return [a, "own"]
    """
KINDS: Final = ("Kind", "Child", "Own")
ADDRESSES: Final = {"Kind.method": {"Kind", "Child"}, "Kind().method": {"Kind"}, "Kind+().method": {*KINDS}}
CHILD: Final = {"Child().method": {"Child"}, "Child.method": {"Child"}}


def _mark(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return [*wrapped(*args, **kwargs), "inner"]


def _derived(original: Callable[..., Any]) -> Callable[..., Any]:
    def derived(self: Any, a: object = 0) -> Any:
        return [*original(self, a), "inner"]

    return derived


def _new(self: Any, a: object = 0) -> Any:
    return ["outer"]


def _other(self: Any, a: object = 0) -> Any:
    return ["inner"]


INNER: Final[dict[str, Callable[[str], hookpatch.Patch]]] = {
    "wrap": lambda address: hookpatch.wrap(address, _mark),
    "derive": lambda address: hookpatch.derive(address, _derived),
    "inject": lambda address: hookpatch.inject(address, a="inner"),
    "default": lambda address: hookpatch.default(address, a="inner"),
    "replace": lambda address: hookpatch.replace(address, _other),
}


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


@pytest.mark.parametrize(
    "is_one_session", [False, pytest.param(True, marks=pytest.mark.ends)], ids=["two sessions", "one session"]
)
@pytest.mark.parametrize(
    "verb", [verb if verb == "wrap" else pytest.param(verb, marks=pytest.mark.ends) for verb in INNER]
)
@pytest.mark.parametrize(("outer", "inner"), [*product(ADDRESSES, {**ADDRESSES, **CHILD})])
@pytest.mark.sampled(5)
def test_a_replace_over_a_patch(vendor: ModuleType, outer: str, inner: str, verb: str, is_one_session: bool) -> None:
    """The report tells for which instances the inner patch has no effect, as the calls show."""
    meant = {**ADDRESSES, **CHILD}[inner]
    around, within = hookpatch.replace(f"vendor:{outer}", _new), INNER[verb](f"vendor:{inner}")
    instances = {name: getattr(vendor, name)() for name in KINDS}
    with pristine(vendor.Kind, vendor.Child, vendor.Own):
        if is_one_session:
            session = inside = hookpatch.active(around, within, children="local")
        else:
            inside, session = (hookpatch.active(patch, children="local") for patch in (within, around))
            inside.open()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PatchUnneededWarning)
                session.open()
        except ConflictError:
            assert is_one_session
            assert verb in ("derive", "replace")
            assert meant & ADDRESSES[outer]  # some call would need both
            return
        else:
            answers = {name: instances[name].method() for name in meant}
            row = next(row for row in inside.report() if (row.target, row.verb) == (f"vendor:{inner}", verb))
            by_slot = _said_by_why("_new")
            session.close()
        finally:
            inside.close()
    shown = {name for name, answer in answers.items() if "inner" in answer}
    assert shown == meant - ADDRESSES[outer] or "Child" in inner
    said = [text for text in row.warnings if text.startswith(("without effect: ", "without effect in "))]
    if shown == meant:
        assert said == []
    elif "Child" not in inner:  # what a class inherits is another slot: no report looks there
        assert len(said) == 1
        assert not (shown and said[0].startswith("without effect: ")), said
    assert {_without_counts(text) for text in said} == by_slot


def _said_by_why(outer: str) -> set[str]:
    """Return what why() says of the effect of all patches in the classes' slots but one."""
    slots = [hookpatch.why(f"vendor:{name}.method") for name in KINDS]
    notes = [str(layer.note) for layer in chain(*slots) if outer not in layer.name]
    return {part for note in notes for part in note.split("; ") if part.startswith("without effect")}


def _without_counts(text: str) -> str:
    """Return a text of the report without the number of places: why() speaks of one slot."""
    return re.sub(r" in \d of \d places(: (?=in calls))?", lambda found: " " if found[1] else "", text)


@pytest.mark.parametrize("verb", INNER)
@pytest.mark.parametrize("inner", ["Kind().method", "Kind+().method"])
@pytest.mark.sampled(4)
def test_a_replace_for_all_over_instances(vendor: ModuleType, inner: str, verb: str) -> None:
    """A later replace in the class keeps all calls from the patch of the instances of the class."""
    with hookpatch.active(INNER[verb](f"vendor:{inner}"), children="local") as inside:
        with hookpatch.active(hookpatch.replace("vendor:Kind.method", _new), children="local"):
            assert vendor.Kind().method() == ["outer"]
            [row] = inside.report()
        rest = "" if inner == "Kind().method" else " in 1 of 2 places"
        assert row.warnings[0].startswith(f"without effect{rest}: replace of"), row.warnings
        [row] = inside.report()
        assert [text for text in row.warnings if text.startswith(("without effect: ", "without effect in"))] == []


def _made(self: Any) -> None:
    self.call = lambda a=0: [a]


def _reduced(self: Any, protocol: Any) -> Any:
    return object.__reduce_ex__(self, protocol)


def _state(self: Any, state: Any) -> None:
    vars(self).update(state)


METHODS: Final[dict[str, Callable[..., Any]]] = {
    "__init__": _made,
    "__reduce_ex__": _reduced,
    "__setstate__": _state,
}


@pytest.mark.parametrize("verb", ["replace", pytest.param("derive", marks=pytest.mark.ends)])
@pytest.mark.parametrize("order", ["before", "after", "first in one session", "last in one session"])
@pytest.mark.parametrize("name", METHODS)
def test_a_new_way_of_making_instances(vendor: ModuleType, name: str, order: str, verb: str) -> None:
    """A replaced __init__, and methods of copy and pickle: instances made inside are patched, copies are not."""
    value: Any = METHODS[name] if verb == "replace" else lambda original: METHODS[name]
    facts: Any = {"add": True} if verb == "replace" else {}
    if name == "__setstate__":
        vendor.Kind.__setstate__ = lambda self, state: vars(self).update(state)
    making = getattr(hookpatch, verb)(f"vendor:Kind.{name}", value, **facts)
    instances = hookpatch.wrap("vendor:Kind().call", _mark)
    with pristine(vendor.Kind):
        plans = {
            "before": [[making], [instances]],
            "after": [[instances], [making]],
            "first in one session": [[making, instances]],
            "last in one session": [[instances, making]],
        }[order]
        sessions = [hookpatch.active(*plan, children="local").open() for plan in plans]
        made = vendor.Kind()
        copied, data = copy.copy(made), pickle.dumps(made, protocol=2) if name != "__init__" else None
        assert (made.call(), copied.call()) == ([0, "inner"], [0, "inner"])
        for session in reversed(sessions):
            session.close()
        assert (made.call(), copied.call()) == ([0], [0])
        assert data is None or pickle.loads(data).call() == [0]


def test_a_value_that_a_caller_gives_by_chance(vendor: ModuleType) -> None:
    """An inject for other instances does not stand for an argument of the caller with the same value."""
    all_, one = hookpatch.inject("vendor:Kind.method", a="all"), hookpatch.inject("vendor:Kind().method", a="one")
    with hookpatch.active(all_, children="local"), hookpatch.active(one, children="local"):
        assert vendor.Kind().method("x") == ["one", "vendor"]
        assert [vendor.Child().method(given) for given in ("x", "one")] == [["all", "vendor"]] * 2


@pytest.mark.parametrize("inner", ["Kind().method", "Kind+().method"])
def test_the_warning_may_be_an_error(vendor: ModuleType, inner: str) -> None:
    """A hidden patch of the same session warns; as an error the warning undoes all, the wait for torch, too."""
    over, under = hookpatch.replace("vendor:Kind.method", _new), hookpatch.wrap(f"vendor:{inner}", _mark)
    session = hookpatch.active(over, under, children="local")
    with pristine(vendor.Kind, vendor.Own), pytest.raises(PatchUnneededWarning, match="without effect: replace of"):
        session.open()


def test_an_instance_that_does_not_fit_undoes_the_others(vendor: ModuleType) -> None:
    """The wait for torch, begun for the first instance, ends with the refusal of the second."""
    first, second = vendor.Kind(), vendor.Kind()
    second.call = 1
    with pristine(first, second, vendor.Kind), pytest.raises(TargetRefused):
        hookpatch.active(hookpatch.wrap("vendor:Kind().call", _mark), scope="task", children="local").open()
