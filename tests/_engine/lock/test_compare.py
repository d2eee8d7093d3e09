"""Compare a target with the locked fingerprint: same, compatible or changed, with reasons."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType

import pytest
from locked import fingerprint_of_target

from hookpatch._engine.lock.compare import difference
from hookpatch._engine.lock.fingerprint import Fingerprint

pytestmark = pytest.mark.once

MakeModule = Callable[..., ModuleType]

BEFORE = """
    def speak(word, times=2): return word * times
    class Model:
        def method(self, x): return x
        def other(self): return 1
        def _private(self): return 1
    table = {"a": 1, "b": 2}
    limit = 3
    def plain(): return 1
"""

CASES: dict[str, tuple[str, str, str, str, tuple[str, ...]]] = {
    "nothing": ("speak", "return word * times", "return word*times  # so", "same", ()),
    "body": ("speak", "word * times", "word * times * 1", "compatible", ("its source has changed",)),
    "more": (
        "speak",
        "times=2):",
        "times=2, deep=False):",
        "compatible",
        ("it took (word, times=2) and takes (word, times=2, deep=False)", "its source has changed"),
    ),
    "default": (
        "speak",
        "times=2",
        "times=3",
        "compatible",
        ("it took (word, times=2) and takes (word, times=3)", "its source has changed"),
    ),
    "renamed": (
        "speak",
        "times=2",
        "number=2",
        "changed",
        (
            "it took (word, times=2) and takes (word, number=2): a call(word=..., times=...) fails: got an unexpected "
            "keyword argument 'times'",
            "its source has changed",
        ),
    ),
    "kind": ("plain", "def plain", "async def plain", "changed", ("it was a function and is an async function",)),
    "member gone": (
        "Model",
        "def other",
        "def another",
        "changed",
        ("other has gone", "new: another", "its source has changed"),
    ),
    "member renamed its parameter": (
        "Model",
        "self, x",
        "self, y",
        "changed",
        (
            "method took (x) and takes (y): a call(x=...) fails: missing a required argument: 'y'",
            "its source has changed",
        ),
    ),
    "private member gone": ("Model", "_private", "_other", "compatible", ("its source has changed",)),
    "key": ("table['a']", '"b": 2', '"c": 2', "compatible", ("gone among the keys: 'b'", "new among the keys: 'c'")),
    "value": ("limit", "limit = 3", "limit = 4", "compatible", ("its source has changed",)),
    "kind of value": ("limit", "limit = 3", "limit = 3.0", "changed", ("it was an int and is a float",)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_has_become_of_a_target_is_told(make_module: MakeModule, case: str) -> None:
    """Same, changed and compatible, or changed; with the reasons, the worst first."""
    name, old, new, change, reasons = CASES[case]
    make_module("before", BEFORE)
    assert BEFORE.count(old) == 1
    make_module("after", BEFORE.replace(old, new))
    outcome = difference(fingerprint_of_target(f"before:{name}"), fingerprint_of_target(f"after:{name}"))
    assert (outcome.change, outcome.reasons) == (change, reasons)
    assert bool(outcome.diff) == ("its source has changed" in reasons or case.startswith("kind"))


def test_diff_is_one_of_what_counts() -> None:
    """Unified, with both releases; without comments and docstrings."""
    before = Fingerprint("a function", "vendor-kit", "1.4", "()", source="def f():\n    return 1")
    after = Fingerprint("a function", "vendor-kit", "1.5", "()", source="def f():\n    return 2")
    assert difference(before, after).diff == (
        *("--- locked (vendor-kit 1.4)", "+++ installed (vendor-kit 1.5)", "@@ -1,2 +1,2 @@"),
        *(" def f():", "-    return 1", "+    return 2"),
    )


def test_source_that_another_python_has_normalised_is_the_same() -> None:
    """Pythons write the same tree in different ways: the comparing Python normalises the locked text."""
    before = Fingerprint("a function", source="def f(x):\n    return (x, 1)")
    after = dataclasses.replace(before, source="def f(x):\n    return x, 1")
    assert difference(before, after).change == "same"
