"""The result of a mode over all rounds, and the comparison of all modes in one setting."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from hookpatch_torchscript._runtimes.jobs.job import EAGER, Difference, Setting, Status, Trial


@final
@dataclass(frozen=True, slots=True)
class Result:
    """The trials of one mode, one per round; a trial that is not ``ok`` is the last.

    Attributes:
        mode: the name of the mode.
        trials: the outcome of each round.
    """

    mode: str
    trials: tuple[Trial, ...]

    @property
    def status(self) -> Status:
        """``ok`` if each trial is, else the status of the last trial."""
        return self.trials[-1].status

    @property
    def problem(self) -> str | None:
        """Why the status is not ``ok``, with the round if an earlier round was."""
        last, count = self.trials[-1], len(self.trials)
        return f"in round {count}: {last.problem}" if last.problem and count > 1 else last.problem

    @property
    def preparation(self) -> float | None:
        """Seconds to the first answer, the median of the rounds."""
        seconds = [trial.preparation for trial in self._good() if trial.preparation is not None]
        return statistics.median(seconds) if seconds else None

    @property
    def median(self) -> float | None:
        """Seconds per call, the median over the blocks of all rounds."""
        return statistics.median(self._times()) if self._times() else None

    @property
    def quartiles(self) -> tuple[float, float] | None:
        """The quartiles of the seconds per call over all blocks; None for a single block."""
        if len(self._times()) < 2:
            return None
        low, _, high = statistics.quantiles(self._times(), n=4, method="inclusive")
        return low, high

    @property
    def blocks(self) -> int:
        """The number of measured blocks."""
        return len(self._times())

    @property
    def preparing(self) -> int | None:
        """Peak memory to the first answer in bytes, the greatest of the rounds."""
        return max((trial.preparing for trial in self._good() if trial.preparing is not None), default=None)

    @property
    def running(self) -> int | None:
        """Peak memory after the first answer in bytes, the greatest of the rounds."""
        return max((trial.running for trial in self._good() if trial.running is not None), default=None)

    @property
    def difference(self) -> Difference | None:
        """The difference from eager's answer, the greatest of the rounds."""
        differences = [trial.difference for trial in self.trials if trial.difference is not None]
        return max(differences, key=lambda difference: difference.relative) if differences else None

    def _good(self) -> tuple[Trial, ...]:
        """Return the trials if all are ``ok``, else none: figures of a wrong answer do not count."""
        return self.trials if self.status == "ok" else ()

    def _times(self) -> list[float]:
        return [time for trial in self._good() for time in trial.times]


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of all modes in one setting.

    Attributes:
        setting: device, type and batch.
        results: one result per mode, eager first.
        machine: a description of the machine.
    """

    setting: Setting
    results: tuple[Result, ...]
    machine: Mapping[str, Any]

    def speed_up(self, result: Result) -> float | None:
        """Return the speed of a mode relative to eager."""
        eager = next((candidate.median for candidate in self.results if candidate.mode == EAGER), None)
        return None if eager is None or result.median is None else eager / result.median

    def throughput(self, result: Result) -> float | None:
        """Return the samples per second of a mode."""
        return None if result.median is None else self.setting.batch / result.median

    @property
    def fastest(self) -> Result | None:
        """The result with the least median."""
        timed = [result for result in self.results if result.median is not None]
        return min(timed, key=lambda result: result.median or 0.0, default=None)


def joined(modes: Sequence[str], rounds: Sequence[Mapping[str, Trial]]) -> tuple[Result, ...]:
    """Return the result of each mode from the trials of each round; later rounds may lack a mode."""
    return tuple(Result(mode, tuple(trials[mode] for trials in rounds if mode in trials)) for mode in modes)
