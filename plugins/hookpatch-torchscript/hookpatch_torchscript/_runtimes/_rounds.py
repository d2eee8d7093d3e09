"""Rounds over the modes of a setting, each mode in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from hookpatch_torchscript._runtimes._job import EAGER, Job, Refusal, Setting, Trial
from hookpatch_torchscript._runtimes._process import run
from hookpatch_torchscript._runtimes._result import Comparison, joined

Tell = Callable[[str, int], None]

_NOTHING: Final = f"not run: {EAGER} was not measured, there is nothing to compare it with"


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured of a model, in each setting alike.

    Attributes:
        factory: what makes the model.
        modes: their names, eager first.
        threads: how many compute; None for torch's choice.
        seconds: how long each mode is measured at least, each round.
        repeat: how many rounds.
    """

    factory: str
    modes: Sequence[str]
    threads: int | None
    seconds: float
    repeat: int


def compare(plan: Plan, setting: Setting, tell: Tell) -> Comparison | Refusal:
    """Measure the modes of a setting.

    A mode that fails or answers otherwise is not tried in the rounds that follow; where eager fails nothing else is.

    Args:
        plan: what to measure.
        setting: device, type and batch.
        tell: is told the mode and the round before each.

    Returns:
        The comparison; or why no mode could begin.
    """
    rounds: list[dict[str, Trial]] = []
    machine: dict[str, Any] = {}
    left = list(plan.modes)
    for number in range(1, plan.repeat + 1):
        rounds.append({})
        for mode in tuple(left):
            if mode not in left:
                continue
            tell(mode, number)
            done = run(Job(plan.factory, mode, setting, plan.threads, plan.seconds))
            if isinstance(done.outcome, Refusal):
                return done.outcome
            machine = machine or done.machine
            rounds[-1][mode] = done.outcome
            if done.outcome.status != "ok":
                left.remove(mode)
                if mode == EAGER:
                    left.clear()
    for mode in plan.modes:
        rounds[0].setdefault(mode, Trial("failed", _NOTHING))
    return Comparison(setting, joined(plan.modes, rounds), machine)
