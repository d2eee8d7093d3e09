"""Random sequences: after each step every slot agrees with a simple model."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from machine import SETTINGS, Machine, world


@pytest.mark.parametrize("examples", [SETTINGS.max_examples, pytest.param(500, marks=pytest.mark.ends)])
def test_any_order_and_any_interference(folder: Path, examples: int) -> None:
    """After each step all places are as the model says, and at the end as before."""
    with world(folder):
        run_state_machine_as_test(Machine, settings=settings(SETTINGS, max_examples=examples))
