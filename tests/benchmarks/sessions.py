"""The cost to patch one function and to restore the function: hookpatch, mock.patch, monkeypatch, wrapture.

Every way names the target anew, as in code with a block. ``active(patch)`` uses a ready patch, and a session is entered
again. The goals are ratios to ``mock.patch("m.f", new)``, which replaces a function and makes no mock.

usage: python tests/benchmarks/sessions.py [MODULE...]    (the modules that the patched function's module imports)
"""

from __future__ import annotations

import sys
from functools import partial
from statistics import median
from typing import Any
from unittest import mock

import pytest
from _timing import heading, ratio, timer, times_of, vendor, verdict

import hookpatch

try:
    import wrapture
except ImportError:  # wrapture needs Python 3.12, and hookpatch does not require wrapture
    wrapture = None

MEASURE = 'mock.patch("m.f", new)'
GOALS = {
    "session, again": 1.0,
    "session, again, children='local'": 1.0,
    "decorated function": 1.0,
    "decorated function, children='local'": 1.0,
    "active(patch)": 3.5,
    "active(patch, children='local')": 2.5,
    "active(replace(...))": 3.5,
    "active(replace(...), children='local')": 2.5,
}
OURS = {
    "session, again": "with session: pass",
    "session, again, children='local'": "with local: pass",
    "session, again, in place": "with session_in_place: pass",
    "session, again, in place, children='local'": "with local_in_place: pass",
    "decorated function": "call()",
    "decorated function, children='local'": "call_locally()",
    "active(patch)": "with hookpatch.active(patch): pass",
    "active(patch, children='local')": "with hookpatch.active(patch_locally, children='local'): pass",
    "active(patch), in place": "with hookpatch.active(patch_in_place): pass",
    "active(patch, children='local'), in place": (
        "with hookpatch.active(patch_locally_in_place, children='local'): pass"
    ),
    "active(wrap(...))": "with hookpatch.active(hookpatch.wrap('{m}:f', around)): pass",
    "active(wrap(...), children='local')": (
        "with hookpatch.active(hookpatch.wrap('{m}:f', around), children='local'): pass"
    ),
    "active(wrap(...)), in place": "with hookpatch.active(hookpatch.wrap('{m}:f', around, reach='everywhere')): pass",
    "active(replace(...))": "with hookpatch.active(hookpatch.replace('{m}:f', new)): pass",
    "active(replace(...), children='local')": (
        "with hookpatch.active(hookpatch.replace('{m}:f', new), children='local'): pass"
    ),
}
# Measured last: a lambda is not passed on, and from then on an audit hook sees each event of the process.
NOT_PASSED_ON = {
    "active(replace(..., lambda))": "with hookpatch.active(hookpatch.replace('{m}:f', lambda x: x)): pass",
}
THEIRS = {
    'mock.patch("m.f")': "with mock.patch('{m}.f'): pass",
    'mock.patch("m.f", new)': "with mock.patch('{m}.f', new): pass",
    'mock.patch.object(m, "f")': "with mock.patch.object(m, 'f'): pass",
    'mock.patch.object(m, "f", new)': "with mock.patch.object(m, 'f', new): pass",
    'monkeypatch.setattr(m, "f", new)': "with monkeypatch.context() as p: p.setattr(m, 'f', new)",
    'monkeypatch.setattr("m.f", new)': "with monkeypatch.context() as p: p.setattr('{m}.f', new)",
    'wrapture.binding("m", "f")': "b = wrapture.binding('{m}', 'f'); b.on_call.decorates(around)\nwith b: pass",
}


def around(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
    """Do nothing but call."""
    return wrapped(*args, **kwargs)


def new(x: object) -> object:
    """Return the argument: the new value of the patched function."""
    return x


def nothing() -> None: ...


def main() -> None:
    modules = sys.argv[1:]
    m = vendor("\n".join((*(f"import {module}" for module in modules), "def f(x): return x")))
    names = {"hookpatch": hookpatch, "mock": mock, "monkeypatch": pytest.MonkeyPatch, "wrapture": wrapture}
    names |= {"around": around, "new": new, "m": m}
    wrap = partial(hookpatch.wrap, f"{m.__name__}:f", around)
    # A patch for each way: a patch that two sessions use in turn is made ready again at each turn.
    for kind, make in (("", wrap), ("_in_place", partial(wrap, reach="everywhere"))):
        names |= {f"patch{kind}": make(), f"patch_locally{kind}": make()}
        names[f"session{kind}"] = hookpatch.active(make())
        names[f"local{kind}"] = hookpatch.active(make(), children="local")
    names["call"] = hookpatch.active(wrap())(nothing)
    names["call_locally"] = hookpatch.active(wrap(), children="local")(nothing)
    where = f", in a module that imports {', '.join(modules)}" if modules else ""
    heading(f"patch a function{where} and take it back, beside {MEASURE}")
    for ways in (OURS | THEIRS, NOT_PASSED_ON | {MEASURE: THEIRS[MEASURE]}):
        statements = {way: text.format(m=m.__name__) for way, text in ways.items()}
        timers = {way: timer(text, **names) for way, text in statements.items() if wrapture or "wrapture" not in way}
        times = times_of(timers)
        for way, measured in times.items():
            of_it, goal = ratio(measured, times[MEASURE]), GOALS.get(way)
            line = f"  {way:<40} {median(measured) * 1e6:7.1f} µs  {of_it:6.2f} of it  {verdict(of_it, goal)}"
            print(line.rstrip())


if __name__ == "__main__":
    main()
