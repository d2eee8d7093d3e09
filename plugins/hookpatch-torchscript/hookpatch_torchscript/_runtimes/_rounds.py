"""Rounds over the modes of a setting, each mode in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hookpatch_torchscript._runtimes._job import EAGER, Job, Refusal, Setting, Trial
from hookpatch_torchscript._runtimes._process import run
from hookpatch_torchscript._runtimes._result import Comparison, joined

Tell = Callable[[str, int], None]


def compare(
    factory: str,
    modes: Sequence[str],
    setting: Setting,
    threads: int | None,
    seconds: float,
    repeat: int,
    tell: Tell,
) -> Comparison | Refusal:
    """Measure the modes of a setting.

    A mode that fails or answers otherwise is not tried in the rounds that follow; where eager fails nothing else is.

    Args:
        factory: what makes the model.
        modes: their names, eager first.
        setting: device, type and batch.
        threads: how many compute; None for torch's choice.
        seconds: how long each is measured at least, each round.
        repeat: how many rounds.
        tell: is told the mode and the round before each.

    Returns:
        The comparison; or why no mode could begin.
    """
    rounds: list[dict[str, Trial]] = []
    machine: dict[str, Any] = {}
    left = list(modes)
    for number in range(1, repeat + 1):
        rounds.append({})
        for mode in tuple(left):
            if mode not in left:
                continue
            tell(mode, number)
            done = run(Job(factory, mode, setting, threads, seconds))
            if isinstance(done.outcome, Refusal):
                return done.outcome
            machine = machine or done.machine
            rounds[-1][mode] = done.outcome
            if done.outcome.status != "ok":
                left.remove(mode)
                if mode == EAGER:
                    left.clear()
    for mode in modes:
        rounds[0].setdefault(mode, Trial("failed", f"not run: {EAGER} failed, there is nothing to compare it with"))
    return Comparison(setting, joined(modes, rounds), machine)
