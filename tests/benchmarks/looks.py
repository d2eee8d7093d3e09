"""The cost of a session beside the slot: a search of all objects, a missing module, files, memory.

usage: python tests/benchmarks/looks.py
       python tests/benchmarks/looks.py TOOL MODULE...   (the row of eleven names alone, after an import of modules)
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import logging
import operator
import subprocess
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

# The modules of a large program. With pandas: freezegun imports what transformers has postponed, and pandas ends in a
# segmentation fault if the first import is inside the block.
LARGE = ("torch", "transformers", "pandas")
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


def everywhere(module: str, names: Sequence[str], **how: Any) -> Callable[[], hookpatch.Session]:
    """Return a block that wraps functions of a module everywhere."""
    patches = [hookpatch.wrap(f"{module}:{name}", around, reach="everywhere") for name in names]
    return lambda: hookpatch.active(*patches, **how)


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

    The caches are full before, and their tables do not grow any more: they keep the code of the last 1,024 arguments.
    """
    tracemalloc.start()  # first: else code made before would be exchanged for code that counts
    for number in range(4000):
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

    assert len(objects) > 1  # alive until here
    assert importlib.import_module("operator") is operator

    if importlib.util.find_spec("freezegun") is None:
        return print("\neleven names of time: not measured, without freezegun")
    for modules in ((), LARGE):
        heading(f"eleven names of time with {OBJECTS:,} objects alive, {' and '.join(modules) or 'few modules'}")
        # Each tool in processes of its own: hookpatch also looks for names in the caches of freezegun.
        # freezegun does not stop the clocks of child processes, as hookpatch does without children="local".
        tools = ("freezegun", "local", "inherit")
        durations = [[eleven_names_in_a_process(tool, modules) for tool in tools] for _ in range(3)]
        theirs, *ours = ([min(side) for side in zip(*rounds, strict=True)] for rounds in zip(*durations, strict=True))
        for place, side in enumerate(("in", "out")):
            line(f"freezegun {side}", theirs[place] * 1e3, "ms")
            for tool, seconds in zip(tools[1:], ours, strict=True):
                line(f"hookpatch {side}, children={tool!r}", seconds[place] * 1e3, "ms", theirs[place] * 1e3)


def eleven_names(tool: str, modules: Sequence[str]) -> tuple[float, float]:
    """Return the seconds to stop the clocks of ``time``, and to let them go, by freezegun or by a kind of block."""
    logging.disable()
    warnings.simplefilter("ignore")
    for module in modules:
        importlib.import_module(module)
    if tool == "freezegun":
        freeze_time = importlib.import_module("freezegun").freeze_time
        block = lambda: freeze_time("2024-01-01")  # noqa: E731
    else:
        block = everywhere("time", TIMES, children=tool)
    objects = [[number] for number in range(OBJECTS - len(gc.get_objects()))]
    [times] = times_of(block)
    assert len(objects) > 1  # alive until here
    return times


def eleven_names_in_a_process(tool: str, modules: Sequence[str]) -> list[float]:
    """Return the same as ``eleven_names``, measured in a process of its own."""
    command = [sys.executable, __file__, tool, *modules]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(word) for word in result.stdout.split()]


if __name__ == "__main__":
    if sys.argv[1:]:
        print(*eleven_names(sys.argv[1], sys.argv[2:]))
    else:
        main()
