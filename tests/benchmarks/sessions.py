"""What it costs to patch one function and to take it back: hookpatch, mock.patch, monkeypatch, wrapture.

Every way says anew what it patches, as it does where it is used in a block; ``active(patch)`` has a patch at hand.

usage: python tests/benchmarks/sessions.py
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from _timing import compare, heading, timer, times_of, vendor

import hookpatch

try:
    import wrapture
except ImportError:  # it wants Python 3.12, and hookpatch does not want it
    wrapture = None

GOALS = {'mock.patch("m.f")': 1.0}
OURS = {
    "active(patch)": "with hookpatch.active(patch): pass",
    "active(wrap(...))": "with hookpatch.active(hookpatch.wrap('{m}:f', around)): pass",
    "active(wrap(...), children='local')": (
        "with hookpatch.active(hookpatch.wrap('{m}:f', around), children='local'): pass"
    ),
    "active(wrap(...)), in place": "with hookpatch.active(hookpatch.wrap('{m}:f', around, reach='everywhere')): pass",
    "active(replace(...))": "with hookpatch.active(hookpatch.replace('{m}:f', new)): pass",
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
    """Take the place of what is replaced."""
    return x


def main() -> None:
    m = vendor("def f(x): return x")
    names = {"hookpatch": hookpatch, "mock": mock, "monkeypatch": pytest.MonkeyPatch, "wrapture": wrapture}
    names |= {"around": around, "new": new, "m": m, "patch": hookpatch.wrap(f"{m.__name__}:f", around)}
    statements = {way: text.format(m=m.__name__) for way, text in (OURS | THEIRS).items()}
    timers = {way: timer(text, **names) for way, text in statements.items() if wrapture or "wrapture" not in way}
    times = times_of(timers)
    for way in OURS:
        heading(f"{way}: patch a function and take it back")
        compare({way: times[way], **{other: times.get(other) for other in THEIRS}}, GOALS)


if __name__ == "__main__":
    main()
