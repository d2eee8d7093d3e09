"""A site under change by another thread."""

from __future__ import annotations

import pytest
from layers import tagged

import hookpatch
from hookpatch import Target
from hookpatch._engine.site.sites import site_at
from hookpatch._engine.site.turn_lock import SiteLock
from hookpatch._engine.slots import slot as _slot
from hookpatch._engine.slots.resolve import resolve


def test_site_that_another_thread_is_about_to_change_can_be_looked_at() -> None:
    """A session notes a site before the change; a look in between finds no layer."""

    class Owner:
        def run(self) -> str:
            return "o"

    site = site_at(resolve(Target.attribute(Owner, "run"), None, "a test"))
    assert (site.layers, site.known_values, site.original, site.value) == ((), [_slot.ABSENT] * 2, *[_slot.ABSENT] * 2)
    with hookpatch.active(hookpatch.wrap(Target.attribute(Owner, "run"), tagged("p"))):
        assert site.original is site.known_values[0]
        assert len(site.layers) == 1


def test_error_of_a_change_that_was_put_off_is_not_swallowed() -> None:
    """Any error of the owner is raised, even an IndexError."""

    def change() -> None:
        raise IndexError("of the owner")

    turn = SiteLock()
    assert turn.take_turn()
    assert not turn.take_turn()
    turn.later(change)
    with pytest.raises(IndexError, match="of the owner"):
        turn.end()
    assert turn.take_turn()
    turn.end()
