"""Random overlapping sessions agree with a simple model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import HIDES_PATCHES, hides, tagged

import hookpatch
from hookpatch import Target, errors
from hookpatch._engine.site.sites import patched

ABSENT: Final = "nothing"

VERBS: Final = {  # slot -> the verbs that are tried on it
    "function": ("wrap", "replace", "derive"),
    "method": ("wrap", "replace", "derive"),
    "static": ("wrap", "derive"),
    "inherited": ("wrap", "replace", "derive"),
    "entry": ("wrap", "replace", "derive"),
    "key": ("replace", "remove"),
    "key2": ("replace", "remove"),
    "value": ("replace", "remove"),
    "added": ("replace", "remove"),
}


class World:
    """Some owners with slots of several kinds, their contents noted, and a way to look at each slot."""

    def __init__(self) -> None:
        class Base:
            def inherited(self) -> str:
                return "o"

        class Owner(Base):
            first = 1

            def method(self) -> str:
                return "o"

            @staticmethod
            def static() -> str:
                return "o"

            last = 2

        def function() -> str:
            return "o"

        self.module = ModuleType("world")
        vars(self.module).update(function=function, value="o", after=1)
        self.owner = Owner
        self.mapping = {"before": 1, "entry": function, "key": "o", "key2": "o", "after": 2}
        self.owners = [vars(self.module), vars(Owner), vars(Base), self.mapping]
        self.before = [list(owner.items()) for owner in self.owners]

    def target(self, slot: str) -> Target:
        if slot in ("entry", "key", "key2"):
            return Target.item(self.mapping, slot)
        return Target.attribute(self.owner if slot in ("method", "static", "inherited") else self.module, slot)

    def look(self, slot: str) -> str:
        if slot in ("entry", "key", "key2"):
            value: Any = self.mapping.get(slot, ABSENT)
        elif slot in ("method", "static", "inherited"):
            value = getattr(self.owner(), slot, ABSENT)
        else:
            value = getattr(self.module, slot, ABSENT)
        return str(value()) if callable(value) else value

    def patch(self, verb: str, slot: str, tag: str) -> hookpatch.Patch:
        target = self.target(slot)
        if verb == "wrap":
            return hookpatch.wrap(target, tagged(tag))
        if verb == "remove":
            return hookpatch.remove(target)
        if verb == "derive":
            return hookpatch.derive(target, lambda below: _derived(below, tag))
        plain = slot in ("key", "key2", "value", "added")
        return hookpatch.replace(target, tag if plain else lambda *self: tag, add=True)

    def assert_order_of_keys(self) -> None:
        assert list(self.mapping) == [key for key, _ in self.before[3] if key in self.mapping]

    def assert_as_before(self) -> None:
        for owner, contents in zip(self.owners, self.before, strict=True):
            content = dict(owner)
            assert set(content) == {key for key, _ in contents}
            assert all(content[key] is value for key, value in contents)
        assert list(self.mapping) == [key for key, _ in self.before[3]]
        names = [key for key in vars(self.module) if key != "value"]  # a removed attribute comes back at the end
        assert names == [key for key, _ in self.before[0] if key != "value"]
        assert list(vars(self.owner)) == [key for key, _ in self.before[1]]


def _derived(below: Any, tag: str) -> Any:
    if isinstance(below, staticmethod):
        return staticmethod(lambda: f"{tag}[{below.__func__()}]")
    return lambda *self: f"{tag}[{below(*self)}]"


Plan = list[tuple[str, str, str]]  # the verb, the slot and the tag of each patch of a session, in the order given


def _expected(slot: str, sessions: list[Plan]) -> str:
    """Return the value of a slot in the model: sessions from the first opened, in each the last patch innermost."""
    value = ABSENT if slot == "added" else "o"
    for plan in sessions:
        for verb, patched_slot, tag in reversed(plan):
            if patched_slot == slot:
                value = {"wrap": f"{tag}({value})", "derive": f"{tag}[{value}]", "replace": tag, "remove": ABSENT}[verb]
    return value


def _fits(plan: Plan, opened: list[Plan]) -> bool:
    """Return True if each patch finds a value: the original, or a value that an open session may have added."""
    added = any(slot == "added" for opened_plan in opened for _, slot, _ in opened_plan)
    return all(verb == "replace" or slot != "added" or added for verb, slot, _ in plan)


_patches = st.sampled_from([(verb, slot) for slot, verbs in VERBS.items() for verb in verbs])

_steps = st.lists(st.one_of(st.integers(0, 9), st.lists(_patches, min_size=1, max_size=4)), max_size=14)


@HIDES_PATCHES
@settings(max_examples=100, derandomize=True, deadline=None)
@given(_steps)
def test_random_overlapping_sessions_agree_with_a_simple_model(steps: list[Any]) -> None:
    """Sessions open and close in any order: each slot holds the value of the open sessions, and all slots are restored.

    A list opens a session of patches, a number closes an open session. A session with a patch that finds no value must
    be refused, and change no slot.
    """
    world, tags = World(), itertools.count()
    opened: list[tuple[Plan, hookpatch.Session]] = []
    with _closing(opened):
        for step in steps:
            if isinstance(step, int):
                if opened:
                    opened.pop(step % len(opened))[1].close()
            else:
                plan = [(verb, slot, f"t{next(tags)}") for verb, slot in _without_conflicts(step)]
                session = hookpatch.active(*(world.patch(*patch) for patch in plan))
                if _fits(plan, [opened_plan for opened_plan, _ in opened]):
                    opened.append((plan, session.open()))
                else:
                    with pytest.raises(errors.TargetNotFound):
                        session.open()
            for slot in VERBS:
                assert world.look(slot) == _expected(slot, [plan for plan, _ in opened])
            world.assert_order_of_keys()
    world.assert_as_before()
    assert patched() == []


def _without_conflicts(step: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Leave out a value beneath another of the same session: a conflict, which test_order.py has."""
    return [
        (verb, slot)
        for place, (verb, slot) in enumerate(step)
        if not any(slot == outer_slot and hides(outer, verb) for outer, outer_slot in step[:place])
    ]


@contextmanager
def _closing(opened: list[tuple[Plan, hookpatch.Session]]) -> Iterator[None]:
    try:
        yield
    finally:
        while opened:
            opened.pop()[1].close()
