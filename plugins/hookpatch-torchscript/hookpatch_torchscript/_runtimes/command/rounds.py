"""Measure the modes of a setting in rounds, each mode in a child process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hookpatch_torchscript._runtimes.command.process import run_job
from hookpatch_torchscript._runtimes.jobs.job import EAGER, Job, Plan, Refusal, Setting, Trial
from hookpatch_torchscript._runtimes.jobs.result import Comparison, joined

Tell = Callable[[str, int], None]

_NOTHING: Final = f"not run: {EAGER} was not measured, and the other modes are compared with eager"


def compare(plan: Plan, setting: Setting, tell: Tell) -> Comparison | Refusal:
    """Measure the modes of a setting.

    A mode that fails or gives another answer is left out of later rounds; if eager fails, no other mode is tried.

    Args:
        plan: the plan of the measurement.
        setting: device, type and batch.
        tell: called with the mode and the round before each job.

    Returns:
        The comparison; or why no mode could begin.
    """
    rounds: list[dict[str, Trial]] = []
    machine: dict[str, Any] = {}
    remaining = list(plan.modes)
    for number in range(1, plan.repeat + 1):
        rounds.append({})
        for mode in tuple(remaining):
            if mode not in remaining:
                continue
            tell(mode, number)
            completed = run_job(Job(plan.factory, mode, setting, plan.threads, plan.seconds))
            if isinstance(completed.outcome, Refusal):
                return completed.outcome
            machine = machine or completed.machine
            rounds[-1][mode] = completed.outcome
            if completed.outcome.status != "ok":
                remaining.remove(mode)
                if mode == EAGER:
                    remaining.clear()
    for mode in plan.modes:
        rounds[0].setdefault(mode, Trial("failed", _NOTHING))
    return Comparison(setting, joined(plan.modes, rounds), machine)
