"""A site under change by another thread."""

from __future__ import annotations

import sys
from types import FrameType

import pytest
from layers import tagged

import hookpatch
from hookpatch import Target
from hookpatch._bootstrap.interrupts import finish_interrupted
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


@pytest.mark.skipif(sys.getprofile() is not None, reason="a profiler profiles already")
def test_change_that_was_put_off_is_done_after_an_interrupt_at_any_call() -> None:
    """The change of a finalizer is done at the end of the turn, or at the look after an interrupt."""
    calls = 0

    def end_interrupted_at(number: int) -> list[str]:
        nonlocal calls
        done: list[str] = []
        calls = 0

        def interrupt(frame: FrameType, event: str, _: object) -> None:
            nonlocal calls
            is_ours = frame.f_code.co_filename.endswith(("/turn_lock.py", "/interrupts.py"))
            calls += is_ours
            if is_ours and calls == number:
                sys.setprofile(None)
                raise KeyboardInterrupt

        turn = SiteLock()
        turn.take_turn()
        turn.later(lambda: done.append("changed"))
        sys.setprofile(interrupt)
        try:
            turn.end()
        except KeyboardInterrupt:
            done.append("interrupted")
        finally:
            sys.setprofile(None)
        return done

    for number in range(1, 200):
        done = end_interrupted_at(number)
        finish_interrupted()
        assert "changed" in done, number
        if "interrupted" not in done:
            break
    assert number > 10
