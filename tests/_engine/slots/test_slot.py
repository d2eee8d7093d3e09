"""Slots: every kind of slot is patched, and afterwards restored exactly."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from slot_kinds import CALLABLE, OWN, are_identical, around, contents_of, owners_of

import hookpatch
from hookpatch import Target, errors


@pytest.mark.parametrize("address", CALLABLE)
def test_wrapped_slot_of_every_kind_is_restored_exactly(kinds: ModuleType, address: str) -> None:
    """A wrap works on every kind of slot; afterwards each owner holds identical objects in identical order."""
    before = contents_of(kinds)
    call = CALLABLE[address]
    with hookpatch.active(hookpatch.wrap(f"kinds:{address}", around)) as session:
        assert call(kinds) == "patched(original)"
    assert call(kinds) == "original"
    assert are_identical(before, contents_of(kinds))
    assert [patch.state for patch in session.report()] == ["restored"]


@pytest.mark.parametrize("address", CALLABLE)
def test_replaced_slot_of_every_kind_is_restored_exactly(kinds: ModuleType, address: str) -> None:
    """A value put into any kind of slot stands there itself, and goes again without a trace."""
    before = contents_of(kinds)
    value = staticmethod(lambda: "value") if address.startswith(("Child", "Meta")) else lambda: "value"
    if address == "Meta.meta_method":
        value = lambda cls: "value"  # noqa: E731 - a function of a single argument, for the metaclass
    with hookpatch.active(hookpatch.replace(f"kinds:{address}", value)):
        assert CALLABLE[address](kinds) == "value"
        entries = [entry for owner in owners_of(kinds) for entry in owner.values()]
        assert any(entry is value for entry in entries)
    assert are_identical(before, contents_of(kinds))


@pytest.mark.parametrize("address", OWN)
def test_derive_gets_what_lies_in_the_slot(kinds: ModuleType, address: str) -> None:
    """A factory gets the slot's own object, descriptors included, never a bound one."""
    before = contents_of(kinds)
    got: list[Any] = []

    def factory(original: Any) -> Any:
        got.append(original)
        return original

    session = hookpatch.active(hookpatch.derive(f"kinds:{address}", factory))
    with pytest.warns(errors.PatchUnneededWarning, match="the factory returned the original"):
        session.open()
    assert CALLABLE[address](kinds) == "original"
    session.close()
    (original,) = got
    assert any(original is value for owner in before for _, value in owner)
    assert are_identical(before, contents_of(kinds))


@pytest.mark.parametrize(
    ("address", "verb"),
    [
        ("builtins:dict.get", "wrap"),
        ("builtins:dict.get", "replace"),
        ("builtins:dict.get", "remove"),
        ("builtins:int.real", "derive"),
        ("builtins:object.hookpatch_added", "replace"),
        ("datetime:datetime.now", "wrap"),
    ],
)
def test_built_in_type_is_refused_with_nothing_changed(address: str, verb: str) -> None:
    """A built-in type is refused, and its vars() are unchanged."""
    path = address.partition(":")[2].split(".")[0]
    owner = getattr(sys.modules[address.partition(":")[0]], path)
    before = dict(vars(owner))
    patch = {
        "wrap": lambda: hookpatch.wrap(address, around),
        "replace": lambda: hookpatch.replace(address, 1, add=True),
        "derive": lambda: hookpatch.derive(address, lambda original: property(lambda self: 1)),
        "remove": lambda: hookpatch.remove(address),
    }[verb]()
    with pytest.raises(errors.ApplyError, match="written in C, which cannot be changed"), hookpatch.active(patch):
        pass
    assert list(vars(owner)) == list(before)
    assert all(vars(owner)[name] is value for name, value in before.items())


def test_frozen_instance_is_refused_with_nothing_changed() -> None:
    """A frozen instance is refused, and keeps its attributes."""

    @dataclass(frozen=True)
    class Options:
        limit: int = 1

    options = Options()
    with pytest.raises(errors.ApplyError), hookpatch.active(hookpatch.replace(Target.attribute(options, "limit"), 2)):
        pass
    assert vars(options) == {"limit": 1}


@pytest.mark.parametrize("address", ["kinds:nothing", "kinds:Child.nothing", "kinds:Child.Nothing.method"])
@pytest.mark.parametrize("verb", [hookpatch.remove, lambda address: hookpatch.wrap(address, around)])
def test_name_that_is_not_there_is_an_error(
    kinds: ModuleType, address: str, verb: Callable[[str], hookpatch.Patch]
) -> None:
    """Only replace makes a new name; for the other verbs, and on the way, a missing name is an error."""
    before = contents_of(kinds)
    with pytest.raises(errors.TargetNotFound), hookpatch.active(verb(address)):
        pass
    assert are_identical(before, contents_of(kinds))


def test_inherited_attribute_cannot_be_removed(kinds: ModuleType) -> None:
    """Removing an inherited attribute is refused, with the address in the base class."""
    with pytest.raises(errors.TargetRefused) as caught, hookpatch.active(hookpatch.remove("kinds:Child.inherited")):
        pass
    assert str(caught.value) == (
        "kinds:Child.inherited is inherited; remove the attribute from the class of its definition (target "
        "kinds:Child.inherited of a patch given to active())"
    )
    assert "inherited" not in vars(kinds.Child)


def test_value_that_cannot_be_called_is_refused_for_wrap(kinds: ModuleType) -> None:
    """A wrap needs a callable."""
    with (
        pytest.raises(errors.TargetRefused, match="kinds:LIMIT holds an int, which cannot be called"),
        hookpatch.active(hookpatch.wrap("kinds:LIMIT", around)),
    ):
        pass
    assert kinds.LIMIT == 1


def test_none_is_a_value_and_not_absence() -> None:
    """A slot with None holds None again; an empty slot is empty again."""
    owner = SimpleNamespace(value=None)
    mapping = {"value": None}
    with hookpatch.active(
        hookpatch.replace(Target.attribute(owner, "value"), 1), hookpatch.replace(Target.item(mapping, "value"), 1)
    ):
        assert (owner.value, mapping["value"]) == (1, 1)
    assert vars(owner) == {"value": None}
    assert mapping == {"value": None}


def test_none_can_be_put_into_a_slot(kinds: ModuleType) -> None:
    """None as a value does not make the name absent."""
    with hookpatch.active(hookpatch.replace("kinds:LIMIT", None), hookpatch.replace("kinds:table['first']", None)):
        assert vars(kinds)["LIMIT"] is None
        assert kinds.table["first"] is None
    assert (kinds.LIMIT, kinds.table["first"]) == (1, 1)
