"""Run both state machines for some minutes, from new seeds: ``make soak MINUTES=10``; the second half with torch.

The run stops at the first failure, with its steps and the line to repeat the failure; the exit status is then 1.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from pathlib import Path

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from machine import SETTINGS, Machine, world
from machine_many import ManyMachine, many_world


def soak(minutes: float) -> None:
    """Run examples until the time is over; print how many once a minute."""
    begin = reported = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        with world(Path(folder)), many_world(Path(folder)):
            while time.monotonic() < begin + 60 * minutes:
                if time.monotonic() > begin + 30 * minutes:
                    importlib.import_module("torch._dynamo")  # hookpatch patches torch for some patches
                for machine, examples in ((Machine, 50), (ManyMachine, 5)):
                    seeds = settings(SETTINGS, max_examples=examples, derandomize=False)
                    run_state_machine_as_test(machine, settings=seeds)
                if time.monotonic() > reported + 60:
                    reported = time.monotonic()
                    print(_done(reported - begin), flush=True)
    print(_done(time.monotonic() - begin))


def _done(seconds: float) -> str:
    rules = sum(hasattr(member, "hypothesis_stateful_rule") for member in vars(Machine).values())
    ended = ", ".join(f"{count:,} {state}" for state, count in Machine.ended.most_common())
    text = f"{seconds / 60:5.1f} minutes: {Machine.examples:,} examples, {Machine.steps:,} steps of {rules} rules"
    many = f"many places: {ManyMachine.examples:,} examples, {ManyMachine.steps:,} steps"
    return f"{text}; sessions and patches ended: {ended}; {many}"


if __name__ == "__main__":
    soak(float(sys.argv[1]) if len(sys.argv) > 1 else 10)
