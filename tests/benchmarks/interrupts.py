"""What an interrupt leaves behind: hookpatch beside mock, monkeypatch and wrapt.

Each piece of work is interrupted at each line and at each instruction that it runs, in a fork each, by an exception
raised from a signal handler; and at random moments by a timer. A point is bad if what the user sees at once is half of
the patches, or if after the next look anything is not as before: a slot, os.environ, sys.meta_path, a watch, a lock.
usage: python tests/benchmarks/interrupts.py [--most POINTS] [--only hookpatch]
Exit status 1: hookpatch left something behind.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest
import wrapt
from interrupts import NAME, Result, Work, block, by_alarm, louder, sweep, vendor, works, write_vendor


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


def _show(work: Work, results: list[Result]) -> None:
    cells = (f"{result.bad} of {result.points}" for result in results)
    print("|", " | ".join([work.name, *cells]), "|", flush=True)
    for result in results:
        for what, places in result.problems.items():
            print(f"    {len(places)} {what}: {', '.join(places[:3])}", file=sys.stderr)


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, help="points of each piece of work, evenly spread; all without it")
    parser.add_argument("--only", choices=["hookpatch"])
    options = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        write_vendor(Path(folder))
        print("| work | lines | instructions | a timer |\n|---|---|---|---|", flush=True)
        for work in (*works().values(), *(() if options.only else OTHERS)):
            # A look for holders runs tens of thousands of lines, most of them in one loop.
            most = options.most or (2_000 if work.name == "report" else None)
            results = [sweep(work, "line", most), sweep(work, "opcode", most), by_alarm(work, options.most or 300)]
            _show(work, results)
            bad += sum(result.bad for result in results) if work not in OTHERS else 0
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
