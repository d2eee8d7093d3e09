"""Search for inputs with different answers of the model and of a capture of the model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, TypeAlias, final

import torch

from hookpatch_probe.changes import Change, applied, sizes, values
from hookpatch_probe.compare import Difference, Tolerance, difference
from hookpatch_probe.example import Example, Run, Tensors
from hookpatch_probe.seed import SEED, seeded
from hookpatch_probe.source import asked
from hookpatch_probe.targets import targets

Answer: TypeAlias = list[torch.Tensor]
_SLOW: Final = 0.2  # processor seconds of the thread for the example; a slower model gets no axis longer than twice


@final
@dataclass(frozen=True)
class Disagreement:
    """An input with different answers of a capture and of the model.

    Attributes:
        mode: how the model was captured.
        changes: the changes from the example to the input.
        difference: where the answers differ.
    """

    mode: str
    changes: tuple[Change, ...]
    difference: Difference


@final
@dataclass(frozen=True)
class Refusal:
    """An input that the model takes and a capture refuses.

    Attributes:
        mode: how the model was captured.
        changes: the changes from the example to the input.
        error: the error of the capture.
    """

    mode: str
    changes: tuple[Change, ...]
    error: Exception


@final
@dataclass
class Search:
    """A search and the results.

    Attributes:
        example: the example input.
        eager: the function to run the model.
        runs: the functions to run each capture, by mode.
        spent: called with the number of inputs tried so far; True stops the search.
        tolerance: the tolerance for equal answers.
        apart: whether axes of equal size and place in several tensors are also changed apart.
        tried: how many inputs the model has taken.
        refused: how many inputs the model has refused.
        over: whether the search was stopped before all inputs were tried.
    """

    example: Example
    eager: Run
    runs: Mapping[str, Run]
    spent: Callable[[int], bool]
    tolerance: Tolerance = field(default_factory=Tolerance)
    apart: bool = True
    disagreements: list[Disagreement] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    tried: int = 0
    refused: int = 0
    over: bool = False
    _is_slow: bool = False

    def run(self) -> None:
        """Try the example, each change, and pairs of changes for the captures without a disagreement."""
        begun = time.thread_time()
        if self._try(()) is None:
            return
        self._is_slow = time.thread_time() - begun > _SLOW
        accepted = [change for changes in self._singles() for change in changes]
        for pair in self._pairs(accepted):
            agreeing = set(self.runs) - {disagreement.mode for disagreement in self.disagreements}
            if not agreeing or self._is_over():
                return
            self._try(pair, agreeing)

    def _pairs(self, changes: Sequence[Change]) -> list[tuple[Change, ...]]:
        """Return pairs of changes, of a slow model those to small inputs first; not two sizes of the same axes."""
        pairs: list[tuple[Change, ...]] = [
            pair for pair in combinations(changes, 2) if pair[0].axes is None or pair[0].axes != pair[1].axes
        ]
        if not self._is_slow:
            return pairs
        return sorted(pairs, key=lambda pair: min(change.size or math.inf for change in pair))

    def smaller(self, mode: str, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """Return changes to the smallest input found that a capture refuses or answers otherwise than the model.

        Args:
            mode: how the model was captured.
            changes: the changes from the example to an input of the kind.
        """
        for _, resizes in sizes(self.example, self.apart):
            for change in resizes:
                before, after = (
                    _elements(applied(combination, self.example.tensors))
                    for combination in (changes, (*changes, change))
                )
                if after < before and self._is_odd((*changes, change), mode):
                    changes = (*changes, change)
                    break
        for index in range(len(changes)):
            changes = self._shorter(changes, index, mode)
        return self._fewer(changes, mode)

    def _shorter(self, changes: tuple[Change, ...], index: int, mode: str) -> tuple[Change, ...]:
        """Return the changes, with the change at ``index`` reduced to the least size that keeps the capture odd."""
        resized, low, high = changes[index].resized, 1, changes[index].size or 0
        while resized is not None and high - low > 1:
            middle = (*changes[:index], resized((low + high) // 2), *changes[index + 1 :])
            if self._is_odd(middle, mode):
                changes, high = middle, (low + high) // 2
            else:
                low = (low + high) // 2
        return changes

    def _fewer(self, changes: tuple[Change, ...], mode: str) -> tuple[Change, ...]:
        """Return the changes without needless changes; a change remains if the input would grow without the change."""
        for change in changes:
            remaining = tuple(member for member in changes if member is not change)
            if remaining and self._is_odd(remaining, mode):
                after, before = (
                    _elements(applied(combination, self.example.tensors)) for combination in (remaining, changes)
                )
                changes = remaining if after <= before else changes
        return changes

    def _is_odd(self, changes: tuple[Change, ...], mode: str) -> bool:
        return mode in (self._try(changes, {mode}) or ())

    def _singles(self) -> Iterator[list[Change]]:
        """Try each change alone; yield the changes that the model takes."""
        for old, changes in sizes(self.example, self.apart):
            yield self._sizes(old, changes)
        for group in (values(self.example), self._targets()):
            accepted = [change for change in group if not self._is_over() and self._try((change,)) is not None]
            yield [change for change in accepted if not change.rearranges]

    def _targets(self) -> Iterator[Change]:
        """Yield the changes that the source of the model suggests."""
        yield from targets(self.example, asked(lambda: _seeded(self.eager, self.example.tensors)), self.apart)

    def _sizes(self, old: int, changes: Sequence[Change]) -> list[Change]:
        accepted: list[Change] = []
        nearer: set[str] = set()
        agreed: dict[str, int] = dict.fromkeys(self.runs, old)
        for change in changes:
            assert change.size is not None
            if self._is_slow and change.size > 2 * old:
                continue
            if self._is_over() or (odd_modes := self._try((change,))) is None:
                continue
            accepted.append(change)
            assert change.resized is not None
            for mode in self.runs:
                if mode not in odd_modes:
                    agreed[mode] = max(agreed[mode], change.size)
            for mode in odd_modes & {
                disagreement.mode for disagreement in self.disagreements if disagreement.changes == (change,)
            }:
                if change.size > old and mode not in nearer:
                    nearer.add(mode)
                    self._nearer(mode, change, agreed[mode])
        return accepted

    def _nearer(self, mode: str, change: Change, agreed: int) -> None:
        """Look for the least size with a disagreement of a capture, above a size with agreement."""
        assert change.resized is not None
        low, high = agreed, change.size or 0
        while high - low > 1 and not self._is_over():
            middle = change.resized((low + high) // 2)
            before = len(self.disagreements)
            odd_modes = self._try((middle,), {mode})
            if odd_modes is None:  # the model refuses the size: the side of the least size is unknown
                return
            if len(self.disagreements) == before:
                low = middle.size or 0
            else:
                high = middle.size or 0
                first = next(
                    index
                    for index, disagreement in enumerate(self.disagreements)
                    if disagreement.changes == (change,) and disagreement.mode == mode
                )
                self.disagreements[first] = self.disagreements.pop()
                change = middle

    def _is_over(self) -> bool:
        self.over = self.spent(self.tried + self.refused)
        return self.over

    def _try(self, changes: tuple[Change, ...], modes: set[str] | None = None) -> set[str] | None:
        """Try an input; return the modes that disagree or refuse, or None if the model refuses the input."""
        try:
            tensors = applied(changes, self.example.tensors)
            wanted = _seeded(self.eager, tensors)
        except Exception:  # the model refuses the input: the captures are not compared
            self.refused += 1
            return None
        self.tried += 1
        odd = set()
        for mode, run in self.runs.items():
            if modes is not None and mode not in modes:
                continue
            try:
                answer = _seeded(run, tensors)
            except Exception as error:  # an error is no silent disagreement
                self.refusals.append(Refusal(mode, changes, error))
                odd.add(mode)
                continue
            if (where := difference(wanted, answer, self.tolerance)) is not None:
                self.disagreements.append(Disagreement(mode, changes, where))
                odd.add(mode)
        return odd


def _elements(tensors: Tensors) -> int:
    return sum(tensor.numel() for tensor in tensors)


def _seeded(run: Run, tensors: Tensors, seed: int = SEED) -> Answer:
    with seeded(seed):
        return run(tensors)


def is_random(eager: Run, example: Example) -> bool:
    """Return True if the model answers the example in different ways with two seeds."""
    first, second = (_seeded(eager, example.tensors, seed) for seed in (SEED, SEED + 1))
    return difference(first, second) is not None
