"""The leftovers of an interrupt: hookpatch beside mock, monkeypatch and wrapt.

Each piece of work is interrupted at each line and at each instruction, in a separate fork, by an exception raised from
a signal handler; and at each line by an exception that the function of sys.settrace raises. A timer also interrupts at
random moments, and so does another thread (PyThreadState_SetAsyncExc). A point is bad if directly after the interrupt
only half of the patches are seen. A point is also bad if a difference remains after the next look: a slot, os.environ,
sys.meta_path, a watch, a lock. Two interrupts, one in the midst of the clearing up after the other, are judged after
the next look alone. With --torch the process has imported torch and multiprocessing, which need patches of hookpatch's
own in each block.
usage: python tests/benchmarks/interrupts.py [--most POINTS] [--only hookpatch] [--torch]
Exit status 1: hookpatch left a change behind.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Final
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest
import wrapt
from interrupts import (
    NAME,
    PLACES,
    Result,
    Work,
    block,
    by_alarm,
    by_thread,
    louder,
    sweep,
    twice,
    vendor,
    works,
    write_vendor,
)


def _new() -> str:
    return "new"


@contextmanager
def _by_monkeypatch() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vendor(), "run", _new)
        yield


@contextmanager
def _by_wrapt() -> Iterator[None]:
    original = vendor().run
    wrapt.wrap_function_wrapper(NAME, "run", louder)
    try:
        yield
    finally:
        vendor().run = original


def _is_on() -> list[bool]:
    return [vendor().run() != "original"]


OTHERS = (
    block("mock.patch", lambda: mock.patch(f"{NAME}.run", _new), _is_on),
    block("monkeypatch", _by_monkeypatch, _is_on),
    block("wrapt", _by_wrapt, _is_on),
)


# The work tried with torch: most of the work in an ML engineer's process. Each point takes longer.
_WITH_TORCH: Final = (
    *("two patches", "two patches, inherit", "wrap a method", "a decorated function", "a patch applied before"),
    *("two patches applied before, inherit", "a session entered again", "a session entered again, inherit"),
    *("a report inside a session entered again", "an import inside a session entered again"),
    *("finalizer of a session entered again", "a patch applied before, inherit"),
)


def _import_torch() -> None:
    for module, name in (
        *(("torch.fx._symbolic_trace", "Tracer.create_args_for_root"), ("torch._jit_internal", "_qualified_name")),
        *(("torch.jit._recursive", "create_script_module"), ("multiprocessing.popen_spawn_posix", "Popen._launch")),
    ):
        *cls, name = name.split(".")
        PLACES.append((attrgetter(*cls)(import_module(module)) if cls else import_module(module), name))


def _show(work: Work, results: list[Result]) -> None:
    cells = [f"{result.bad} of {result.points}" for result in results]
    print("|", " | ".join([work.name, *cells]), "|", flush=True)
    for result in results:
        for problem, places in result.problems.items():
            print(f"    {len(places)} {problem}: {', '.join(places[:3])}", file=sys.stderr)


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, help="points of each piece of work, evenly spread; all without it")
    parser.add_argument("--only", choices=["hookpatch"])
    parser.add_argument("--torch", action="store_true", help="import torch and multiprocessing first")
    parser.add_argument("--every", type=int, default=1, help="3: only each third of the pieces of work")
    parser.add_argument("--work", default="", help="only the pieces of work with these words in their names")
    options = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        if options.torch:
            _import_torch()
        write_vendor(Path(folder), "import torch" if options.torch else "")
        tried = [work for work in works().values() if not options.torch or work.name in _WITH_TORCH]
        print("| work | lines | instructions | a tracer | two | a timer | a thread |", flush=True)
        print("|---|---|---|---|---|---|---|", flush=True)
        pieces = [work for work in (*tried, *(() if options.only else OTHERS)) if options.work in work.name]
        for work in pieces[:: options.every]:
            # A search for holders runs tens of thousands of lines, most in one loop.
            most = options.most or (2_000 if work.name == "report" else None)
            times = options.most or 300
            results = [sweep(work, "line", most), sweep(work, "opcode", most), sweep(work, "line", most, raises=True)]
            results += [twice(work, times), by_alarm(work, times), by_thread(work, times)]
            _show(work, results)
            bad += sum(result.bad for result in results) if work not in OTHERS else 0
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
