"""The cost of watched module patterns for the import of a module that matches none: the time of hookpatch's finder.

Minima of interleaved runs in processor time, of the finder's answer alone: with one plain watch, and with fifty
patterns beside the watch. The goal is at most 1 µs more for all patterns.

usage: python tests/benchmarks/rules.py
"""

from __future__ import annotations

import random
import string
import sys
from collections.abc import Callable
from time import process_time
from timeit import timeit
from typing import Any, Final

from hookpatch._bootstrap import imports

COUNT: Final = 50
CALLS: Final = 3_000
RUNS: Final = 100
GOAL: Final = 1.0  # microseconds

_chance: Final = random.Random(1)
_names: Final = ["".join(_chance.choices(string.ascii_lowercase, k=8)) for _ in range(COUNT)]
PATTERNS: Final[dict[str, Callable[[int], str]]] = {
    "of fifty packages": lambda index: f"{_names[index]}.models.*.modeling_*",
    "of one package": lambda index: f"transformers.models.{_names[index]}*.modeling_*",
    "with a word": lambda index: f"*.{_names[index]}.modeling_*",
    "with a beginning": lambda index: f"{_names[index]}*",
    "with an end": lambda index: f"*_{_names[index]}",
    "with a part": lambda index: f"*{_names[index]}*",
}


def cost(patterns: list[str]) -> float:
    """Return the time of an answer of the finder in microseconds, with the given patterns watched."""
    watches = [imports.watch(pattern, lambda module: None) for pattern in ["never_imported", *patterns]]
    try:
        [finder] = imports.finders(ours=True)
        find: Any = finder.find_spec  # type: ignore[attr-defined]  # a finder
        return timeit(lambda: find("unrelated_module", ["/nowhere"]), timer=process_time, number=CALLS) / CALLS * 1e6
    finally:
        for watch in watches:
            watch.cancel()


def main() -> int:
    """Print a row for each kind of pattern; return 1 if the goal is missed."""
    rows = {"none": [""][:0], **{words: [make(index) for index in range(COUNT)] for words, make in PATTERNS.items()}}
    costs: dict[str, list[float]] = {words: [] for words in rows}
    for _ in range(RUNS):
        for words, patterns in rows.items():
            costs[words].append(cost(patterns))
    plain = min(costs["none"])
    print(f"{'patterns':<20} {'µs':>6} {'more':>6}")
    for words, times in costs.items():
        print(f"{words:<20} {min(times):>6.2f} {min(times) - plain:>6.2f}")
    return int(max(map(min, costs.values())) - plain > GOAL)


if __name__ == "__main__":
    sys.exit(main())
