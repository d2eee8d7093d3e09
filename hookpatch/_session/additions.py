"""Apply a patch that adds a name before the patches of the same session that need the name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.target import Item, Step, Target
from hookpatch._engine.slots.slot import alike

T = TypeVar("T")


def additions(patches: Sequence[Patch]) -> dict[int, int]:
    """Return, by the place of a patch in a session, the place of the last patch that may add the patch's name.

    A ``replace`` with ``add=`` adds a name, and an edit of a class may. Of the addresses of a ``replace`` only the last
    step is compared: a class inherits a name, and may have several addresses. An address that leads through an added
    name is refused, once the name is there, with the reason.
    """
    adding = [place for place, patch in enumerate(patches) if patch.add or patch.verb == "edit"]
    needing = [(place, patch) for place, patch in enumerate(patches) if not patch.add]
    return {
        place: max(adders)
        for place, patch in needing
        if (adders := [adder for adder in adding if adder != place and _may_add_name(patches[adder], patch)])
    }


def behind_additions(lifecycles: Sequence[T], added_by: Mapping[int, int]) -> list[T]:
    """Return the lifecycles of a session in the order of applying: as selected, but each behind its addition."""

    def last_place(place: int) -> int:
        return max(place, added_by.get(place, place))

    places = sorted(range(len(lifecycles)), key=lambda place: (last_place(place), last_place(place) != place))
    return [lifecycles[place] for place in places]


def _may_add_name(adder: Patch, patch: Patch) -> bool:
    if adder.target is None or patch.target is None:
        return False
    if patch.is_rule:  # matches no added name, and says so
        return bool(adder.add) and imports.matches(str(patch.module), str(adder.module))
    is_through = _is_attribute_of(patch.target, adder.target)
    return is_through or (adder.verb != "edit" and _is_same_step(adder.target.slot, patch.target.slot))


def _is_attribute_of(target: Target, cls: Target) -> bool:
    """Return True if a target is an attribute of the object at another address."""
    is_of_start = target.module == cls.module and target.start is cls.start
    steps = target.of_class.steps
    return is_of_start and len(steps) > len(cls.steps) and all(map(_is_same_step, steps, cls.steps))


def _is_same_step(step: Step, other: Step) -> bool:
    """Return True for equal steps; keys without an address are compared by identity, without foreign code."""
    if not (isinstance(step, Item) and isinstance(other, Item)):
        return type(step) is type(other) and step == other
    keys: tuple[Any, Any] = step.key, other.key
    return keys[0] == keys[1] if all(type(key) is Target for key in keys) else alike(*keys)
