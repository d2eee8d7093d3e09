"""The cost of a session beside the slot: a search of all objects, a missing module, files, memory.

usage: python tests/benchmarks/looks.py
"""

from __future__ import annotations

import gc
import importlib
import operator
import sys
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from time import process_time
from types import FrameType
from typing import Any

from _timing import heading, vendor, verdict

import hookpatch

try:
    import freezegun
except ImportError:  # hookpatch does not require freezegun
    freezegun = None

OBJECTS, ROUNDS = 953_000, 5
TIMES = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "localtime", "gmtime")
TIMES += ("strftime", "ctime", "asctime")
FUNCTIONS = (
    "add",
    "sub",
    "mul",
    "truediv",
    "mod",
    "pow",
    "and_",
    "or_",
    "xor",
    "lt",
    "le",
    "eq",
    "ne",
    "ge",
    "gt",
    "neg",
)
PACKAGE = str(Path(hookpatch.__file__).parent)


def around(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    """Do nothing but call."""
    return wrapped(*args, **kwargs)


def times_of(*ways: Callable[[], Any]) -> list[tuple[float, float]]:
    """Return for each block the least seconds to enter and to leave the block, warm."""
    durations: list[list[tuple[float, float]]] = [[] for _ in ways]
    for number in range(ROUNDS + 1):
        for way, rounds in zip(ways, durations, strict=True):
            block = way()
            start = process_time()
            block.__enter__()
            inside = process_time()
            block.__exit__(None, None, None)
            if number:
                rounds.append((inside - start, process_time() - inside))
    return [(min(into for into, _ in rounds), min(out for _, out in rounds)) for rounds in durations]


def line(name: str, value: float, unit: str, goal: float | None = None) -> None:
    """Print a measured value and the goal."""
    print(f"  {name:<58} {value:10.2f} {unit:<5} {verdict(value, goal)}".rstrip())


def everywhere(module: str, names: Sequence[str]) -> Callable[[], hookpatch.Session]:
    """Return a block that wraps functions of a module everywhere."""
    patches = [hookpatch.wrap(f"{module}:{name}", around, reach="everywhere") for name in names]
    return lambda: hookpatch.active(*patches)


def steps(block: Callable[[], object]) -> tuple[int, int]:
    """Return the number of files of hookpatch that a block runs, and of steps between the files, calls and returns."""
    files: list[str] = []
    stack: list[str] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE):
            return
        if event == "call":
            stack.append(name)
            files.append(name)
        elif event == "return" and stack:
            stack.pop()
            files.extend(stack[-1:])

    sys.setprofile(profile)
    try:
        block()
    finally:
        sys.setprofile(None)
    return len(set(files)), sum(before != after for before, after in pairwise(files))


def left_by(count: int, block: Callable[[int], object]) -> float:
    """Return the bytes that a block leaves behind, averaged over ``count`` blocks with different arguments.

    The caches are full before: they keep the code of the last 1,024 arguments, 0.7 MB.
    """
    tracemalloc.start()  # first: else code made before would be exchanged for code that counts
    for number in range(1100):
        block(-number)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(count):
        block(number)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / count


def main() -> None:
    """Print each measure and goal."""
    m = vendor("def f(x, y=0): return x")
    warnings.simplefilter("ignore")

    def enter(patch: hookpatch.Patch, **how: Any) -> None:
        with hookpatch.active(patch, **how):
            pass

    wrap = hookpatch.wrap(f"{m.__name__}:f", around)
    heading("files of hookpatch on the road of one block, and steps between files")
    enter(wrap)
    for name, count in (("entered the second time", 1), ("entered again", 3)):
        for _ in range(count - 1):
            enter(wrap)
        files, between = steps(lambda: enter(wrap))
        line(f"{name}: files", files, "", 30)
        line(f"{name}: steps", between, "", 150)
    new = hookpatch.wrap(f"{vendor('def f(x): return x').__name__}:f", around)
    files, between = steps(lambda: enter(new))
    line("entered the first time: files", files, "", 30)
    line("entered the first time: steps", between, "", 150)

    heading("a block on a module that does not exist")
    [(into, out)] = times_of(lambda: hookpatch.active(hookpatch.wrap("no_such_module:f", around)))
    line("in and out", (into + out) * 1e3, "ms", 1.0)

    heading("what a block with another argument each time leaves behind")
    leftover = left_by(10_000, lambda number: enter(hookpatch.inject(f"{m.__name__}:f", y=number)))
    line("bytes a block, of 10,000", leftover, "", 1.0)

    objects = [[number] for number in range(OBJECTS - len(gc.get_objects()))]
    heading(f'16 C functions with reach="everywhere", to one of them, {len(gc.get_objects()):,} objects alive')
    (into, out), (one_in, one_out) = times_of(everywhere("operator", FUNCTIONS), everywhere("operator", FUNCTIONS[:1]))
    for name, seconds in (("16 in", into), ("16 out", out), ("1 in", one_in), ("1 out", one_out)):
        line(name, seconds * 1e3, "ms")
    line("in and out, to one", (into + out) / (one_in + one_out), "", 1.5)

    heading(f"eleven names of time with {len(gc.get_objects()):,} objects alive")
    blocks = [everywhere("time", TIMES)]
    if freezegun is not None:
        blocks.append(lambda: freezegun.freeze_time("2024-01-01"))
    (into, out), *theirs = times_of(*blocks)
    for their_in, their_out in theirs:
        line("freezegun in", their_in * 1e3, "ms")
        line("freezegun out", their_out * 1e3, "ms")
    line("hookpatch in", into * 1e3, "ms", theirs[0][0] * 1e3 if theirs else None)
    line("hookpatch out", out * 1e3, "ms", theirs[0][1] * 1e3 if theirs else None)
    assert len(objects) > 1  # alive until here
    assert importlib.import_module("operator") is operator


if __name__ == "__main__":
    main()
