"""The time to find the holders of patched functions, in a process with a package of 3,000 modules.

usage: python tests/benchmarks/holders.py
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from types import ModuleType
from typing import Any

from _timing import heading, vendor

import hookpatch

MODULES, FUNCTIONS, ROUNDS = 3000, 1000, 7


def around(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    """Do nothing but call."""
    return wrapped(*args, **kwargs)


def main() -> None:
    """Patch 1, 10 and 1,000 functions. Three modules hold each function under another name."""
    source = vendor("\n".join(f"def f{number}(x): return x" for number in range(FUNCTIONS)))
    body = compile("\n".join(f"def g{n}(a, b=1): return a" for n in range(20)) + "\nclass Kind: pass", "body", "exec")
    for number in range(MODULES):
        module = ModuleType(f"package.m{number}")
        exec(body, vars(module))
        vars(module)["alias"] = vars(source)[f"f{number % FUNCTIONS}"]
        sys.modules[module.__name__] = module
    heading("a report of stale holders")
    print(f"  {len(sys.modules):,} modules, {len(gc.get_objects()):,} objects; goal: well under 100 ms for any number")
    for count in (1, 10, FUNCTIONS):
        patches = [hookpatch.wrap(f"{source.__name__}:f{number}", around) for number in range(count)]
        times = []
        with hookpatch.active(*patches) as session:
            for _ in range(ROUNDS):
                start = perf_counter()
                report = session.report()
                times.append(perf_counter() - start)
        stale = sum(len(patch.stale) for patch in report)
        print(f"  {count:>6,} patches  {stale:>6,} stale names  {median(times) * 1e3:7.1f} ms")


if __name__ == "__main__":
    main()
