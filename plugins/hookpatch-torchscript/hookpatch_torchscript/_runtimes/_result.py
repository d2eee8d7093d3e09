"""What a mode showed in all rounds, and the modes of a setting beside each other."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from hookpatch_torchscript._runtimes._job import EAGER, Difference, Setting, Status, Trial


@final
@dataclass(frozen=True, slots=True)
class Result:
    """One mode: its trials, one a round; a trial that is not ``ok`` is the last.

    Attributes:
        mode: its name.
        trials: what became of it in each round.
    """

    mode: str
    trials: tuple[Trial, ...]

    @property
    def status(self) -> Status:
        """``ok`` if each trial is; else what the last became."""
        return self.trials[-1].status

    @property
    def problem(self) -> str | None:
        """Why it is not ``ok``; in which round, if it was in one before."""
        last, count = self.trials[-1], len(self.trials)
        return f"in round {count}: {last.problem}" if last.problem and count > 1 else last.problem

    @property
    def preparation(self) -> float | None:
        """Seconds to the first answer, the median of the rounds."""
        known = [one.preparation for one in self._good() if one.preparation is not None]
        return statistics.median(known) if known else None

    @property
    def median(self) -> float | None:
        """Seconds a call, of the blocks of all rounds."""
        return statistics.median(self._times()) if self._times() else None

    @property
    def quartiles(self) -> tuple[float, float] | None:
        """Seconds a call that a quarter and three quarters of the blocks are below; None of one block alone."""
        if len(self._times()) < 2:
            return None
        low, _, high = statistics.quantiles(self._times(), n=4, method="inclusive")
        return low, high

    @property
    def blocks(self) -> int:
        """How many blocks were measured."""
        return len(self._times())

    @property
    def preparing(self) -> int | None:
        """Peak memory to the first answer in bytes, the greatest of the rounds."""
        return max((one.preparing for one in self._good() if one.preparing is not None), default=None)

    @property
    def running(self) -> int | None:
        """Peak memory from then on in bytes, the greatest of the rounds."""
        return max((one.running for one in self._good() if one.running is not None), default=None)

    @property
    def difference(self) -> Difference | None:
        """How far its answer was from eager's, the farthest of the rounds."""
        found = [one.difference for one in self.trials if one.difference is not None]
        return max(found, key=lambda one: one.relative) if found else None

    def _good(self) -> tuple[Trial, ...]:
        """Return the trials, if all are good: figures of a wrong answer are no figures."""
        return self.trials if self.status == "ok" else ()

    def _times(self) -> list[float]:
        return [time for one in self._good() for time in one.times]


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """The modes of one setting.

    Attributes:
        setting: device, type and batch.
        results: one for each mode, eager first.
        machine: what it was measured on.
    """

    setting: Setting
    results: tuple[Result, ...]
    machine: Mapping[str, Any]

    def speed_up(self, result: Result) -> float | None:
        """Return how many times as fast as eager a mode is."""
        eager = next((one.median for one in self.results if one.mode == EAGER), None)
        return None if eager is None or result.median is None else eager / result.median

    def throughput(self, result: Result) -> float | None:
        """Return how many samples a second a mode takes."""
        return None if result.median is None else self.setting.batch / result.median

    @property
    def fastest(self) -> Result | None:
        """The mode with the least median."""
        timed = [one for one in self.results if one.median is not None]
        return min(timed, key=lambda one: one.median or 0.0, default=None)


def joined(modes: Sequence[str], rounds: Sequence[Mapping[str, Trial]]) -> tuple[Result, ...]:
    """Return the result of each mode from what each round showed; a mode may be missing in later rounds."""
    return tuple(Result(mode, tuple(one[mode] for one in rounds if mode in one)) for mode in modes)
