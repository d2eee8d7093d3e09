"""Random sequences: after each step every slot, or every call, agrees with a simple model."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from machine import SETTINGS, Machine, world
from machine_many import ManyMachine, many_world


@pytest.mark.parametrize("examples", [SETTINGS.max_examples, pytest.param(500, marks=pytest.mark.ends)])
def test_any_order_and_any_interference(folder: Path, examples: int) -> None:
    """After each step all places are as the model says, and at the end as before."""
    with world(folder):
        run_state_machine_as_test(Machine, settings=settings(SETTINGS, max_examples=examples))


@pytest.mark.parametrize("examples", [15, pytest.param(60, marks=pytest.mark.ends)])
def test_rules_edits_and_instances_in_any_order(folder: Path, examples: int) -> None:
    """After each step all calls answer as the model says, the reports are honest, and at the end all is as before."""
    with many_world(folder):
        run_state_machine_as_test(ManyMachine, settings=settings(SETTINGS, max_examples=examples))
