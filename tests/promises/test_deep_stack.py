"""A block near the end of the stack: the RecursionError reaches the user, and nothing stays patched."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from typing import Final

import pytest

PROGRAM: Final = """
    import gc, json, os, string, sys, warnings
    import hookpatch
    warnings.simplefilter("ignore")
    FIRST, LIMIT = 320, 400  # a block takes fewer than 80 calls

    def around(wrapped, instance, args, kwargs): return "patched"

    def other(s, sep=None): return "derived"

    def patch(**options): return hookpatch.wrap("string:capwords", around, **options)

    def report():
        session = hookpatch.active(patch())
        with session: session.report()

    again = hookpatch.active(patch())
    ways = {
        "again": lambda: enter(again),
        "counts": lambda: enter(hookpatch.active(patch(), count=True)),
        "derives": lambda: enter(hookpatch.active(hookpatch.derive("string:capwords", lambda below: other))),
        "everywhere": lambda: enter(hookpatch.active(patch(reach="everywhere"))),
        "is optional": lambda: enter(hookpatch.active(patch(required=False))),
        "is for a task": lambda: enter(hookpatch.active(patch(), scope="task")),
        "is dropped": lambda: hookpatch.active(patch()).open() and None,
        "reports": report,
        "two": lambda: enter(hookpatch.active(patch(), hookpatch.wrap("textwrap:dedent", around))),
    }

    def enter(session):
        with session:
            if string.capwords("a") == "A": silent.append(depth)

    def call_at(depth, function):
        return call_at(depth - 1, function) if depth else function()

    way = sys.argv[1]
    original = string.capwords
    before, silent, left, errors = (dict(os.environ), [*sys.meta_path]), [], [], {}
    ways[way]()
    sys.setrecursionlimit(LIMIT)
    for depth in range(FIRST, LIMIT):
        try:
            call_at(depth, ways[way])
        except BaseException as error:
            errors[type(error).__name__] = errors.get(type(error).__name__, 0) + 1
        gc.collect()
        rows = [*hookpatch.report()]
        is_restored = string.capwords is original and original("a") == "A"
        if rows or not is_restored or before != (dict(os.environ), [*sys.meta_path]):
            left.append(depth)
    print(json.dumps([[*errors], sum(errors.values()) < LIMIT - FIRST, silent, left]))
"""
WAYS: Final = (
    *("again", "counts", "derives", "everywhere", "is optional", "is for a task", "is dropped", "reports", "two"),
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.sampled(4)
def test_block_that_meets_the_end_of_the_stack_leaves_nothing(way: str) -> None:
    """At each depth the patch is in effect, or the error is the RecursionError itself; then all is as before."""
    command = [sys.executable, "-c", inspect.cleandoc(PROGRAM), way]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    errors, has_room_at_first, silent, left = json.loads(output)
    assert has_room_at_first
    assert (errors, silent, left) == (["RecursionError"], [], [])


def test_code_that_recurses_by_itself_fails_the_patch() -> None:
    """A factory without an end is an error of the patch, with the patch's name, as any error of a factory."""
    code = """
        import string, sys
        import hookpatch
        from hookpatch.errors import ApplyError
        def for_ever(below): return for_ever(below)
        original = string.capwords
        for _ in range(2):
            try:
                hookpatch.active(hookpatch.derive("string:capwords", for_ever)).open()
            except ApplyError as error:
                print("RecursionError" in str(error), "string:capwords" in str(error), string.capwords is original)
    """
    output = subprocess.check_output([sys.executable, "-c", inspect.cleandoc(code)], text=True)
    assert output == "True True True\n" * 2
