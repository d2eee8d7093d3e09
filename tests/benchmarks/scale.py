"""Whether the time for each patch stays the same for any number of patches: on many sites, and as layers of one site.

usage: python tests/benchmarks/scale.py [MOST]
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Any, TypeAlias

from _timing import heading, table, vendor, verdict

import hookpatch

GOAL = 1.5
ROUNDS = 7
LEAST = 300  # patches in a measurement, in several sets if a set is small

Patches: TypeAlias = list[hookpatch.Patch]


def around(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
    """Do nothing but call."""
    return wrapped(*args, **kwargs)


def wraps_of_functions(count: int) -> Patches:
    name = vendor("\n".join(f"def f{number}(x): return x" for number in range(count))).__name__
    return [hookpatch.wrap(f"{name}:f{number}", around) for number in range(count)]


def wraps_everywhere(count: int) -> Patches:
    """Return a patch of each function, in place, with a wrapper of its own."""
    name = vendor("\n".join(f"def f{number}(x): return x" for number in range(count))).__name__
    source = "def w{}(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs)"
    wrappers = vars(vendor("\n".join(source.format(number) for number in range(count))))
    return [hookpatch.wrap(f"{name}:f{number}", wrappers[f"w{number}"], reach="everywhere") for number in range(count)]


def values_in_a_dict(count: int) -> Patches:
    registry = dict.fromkeys(range(count))
    return [hookpatch.replace(hookpatch.Target.item(registry, number), number) for number in range(count)]


def wraps_of_one_function(count: int) -> Patches:
    name = vendor("def f(x): return x").__name__
    return [hookpatch.wrap(f"{name}:f", around) for _ in range(count)]


def values_of_one_entry(count: int) -> Patches:
    registry = {"entry": None}
    return [hookpatch.replace(hookpatch.Target.item(registry, "entry"), number) for number in range(count)]


def in_one(patches: Patches) -> list[Patches]:
    return [patches]


def in_many(patches: Patches) -> list[Patches]:
    return [[patch] for patch in patches]


def seconds(spans: list[Patches], step: int) -> tuple[float, float]:
    """Return the time to open a session for each span, and to close the sessions, the first or the last first."""
    start = process_time()
    sessions = [hookpatch.active(*patches).open() for patches in spans]
    middle = process_time()
    for session in sessions[::step]:
        session.close()
    return middle - start, process_time() - middle


def each(sets: list[list[Patches]], step: int, count: int) -> tuple[float, float]:
    """Return the times of ``seconds`` for each of ``count`` patches; of sets of spans, each applied once."""
    gc.collect()
    on, off = zip(*(seconds(spans, step) for spans in sets), strict=True)
    return sum(on) / len(sets) / count, sum(off) / len(sets) / count


CASES: dict[str, tuple[Callable[[int], Patches], Callable[[Patches], list[Patches]], int, int]] = {
    "as many functions wrapped, one session": (wraps_of_functions, in_one, 1, 10_000),
    "as many functions wrapped everywhere, a wrapper each, one session": (wraps_everywhere, in_one, 1, 1_000),
    "as many entries of a dict replaced, one session": (values_in_a_dict, in_one, 1, 10_000),
    "one function wrapped as often, one session": (wraps_of_one_function, in_one, 1, 50),
    "one function wrapped as often, a session each, first closed first": (wraps_of_one_function, in_many, 1, 50),
    "one function wrapped as often, a session each, last closed first": (wraps_of_one_function, in_many, -1, 50),
    "one entry replaced as often, a session each, first closed first": (values_of_one_entry, in_many, 1, 50),
    "one entry replaced as often, a session each, last closed first": (values_of_one_entry, in_many, -1, 50),
}


def main(most: int) -> None:
    for title, (make, divide, step, largest) in CASES.items():
        heading(title)
        counts = [count for count in (1, 10, 50, 1_000, 10_000) if count <= min(most, largest)]
        measured: dict[int, list[tuple[float, float]]] = {count: [] for count in counts}
        for _ in range(ROUNDS):
            for count, times in measured.items():
                # New patches each time: a patch applied before takes the fast path.
                times.append(each([divide(make(count)) for _ in range(max(1, LEAST // count))], step, count))
        medians = {count: [median(way) for way in zip(*times, strict=True)] for count, times in measured.items()}
        rows = [("patches", "on, µs each", "of 1", "", "off, µs each", "of 1", "")]
        for count, ways in medians.items():
            row = [f"{count:,}"]
            for duration, first in zip(ways, medians[1], strict=True):
                row += [f"{duration * 1e6:.1f}", f"{duration / first:.2f}", verdict(duration / first, GOAL)]
            rows.append(tuple(row))
        table(rows)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
