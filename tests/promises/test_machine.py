"""Random sequences: after each step every slot agrees with a simple model."""

from __future__ import annotations

from pathlib import Path

from hypothesis.stateful import run_state_machine_as_test
from machine import SETTINGS, Machine, world


def test_any_order_and_any_interference(folder: Path) -> None:
    """After each step all places are as the model says, and at the end as before."""
    with world(folder):
        run_state_machine_as_test(Machine, settings=SETTINGS)
