"""Many patches of one slot: each further patch costs in proportion to the patches there, and a call tells its depth."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType, ModuleType
from typing import Any

import pytest

import hookpatch

MakeModule = Callable[..., ModuleType]


def _passing(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return wrapped(*args, **kwargs)


PATCHES: dict[str, Callable[[int], hookpatch.Patch]] = {
    "wrap": lambda number: hookpatch.wrap("vendor:f", _passing),
    "derive": lambda number: hookpatch.derive("vendor:f", lambda below: lambda **given: below(**given)),
    "replace": lambda number: hookpatch.replace("vendor:f", lambda **given: number),
    "before": lambda number: hookpatch.wrap("vendor:f", _passing, before="other"),
}


def _count_of_calls(act: Callable[[], object]) -> int:
    """Return the number of calls of hookpatch's functions, while no garbage is collected."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and "/hookpatch/" in frame.f_code.co_filename

    gc.collect()
    gc.disable()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


@pytest.mark.parametrize("verb", PATCHES)
def test_work_of_nested_blocks_does_not_grow_with_the_cube(make_module: MakeModule, verb: str) -> None:
    """Twice as many blocks around one slot take no more than four times the calls, for opening, report and end."""
    make_module("vendor", "def f(**given):\n    return given\n")

    def of_blocks(count: int) -> int:
        sessions = [hookpatch.active(PATCHES[verb](number), children="local") for number in range(count)]

        def act() -> None:
            with ExitStack() as stack:
                for session in sessions:
                    stack.enter_context(session)
                assert len(list(hookpatch.report())) == count

        return _count_of_calls(act)

    of_blocks(2)  # imports, and compiled code
    assert of_blocks(80) < 4.4 * of_blocks(40)


@pytest.mark.parametrize("target", ["f", "built_in"])
def test_call_through_too_many_wrappers_is_an_error_that_names_hookpatch(make_module: MakeModule, target: str) -> None:
    """Beyond Python's recursion limit a call raises RecursionError, and hookpatch's frames show in the traceback."""
    vendor = make_module("vendor", "def f(text):\n    return len(text)\nbuilt_in = len\n")
    many = sys.getrecursionlimit() // 2 + 10
    with hookpatch.active(*(hookpatch.wrap(f"vendor:{target}", _passing) for _ in range(many)), children="local"):
        with pytest.raises(RecursionError) as raised:
            getattr(vendor, target)("text")
        assert any(
            "[hookpatch: a patch given to active()]" in entry.frame.code.raw.co_name for entry in raised.traceback
        )
    assert getattr(vendor, target)("text") == 4
