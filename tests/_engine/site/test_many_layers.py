"""Many patches of one slot: each further patch costs in proportion to the patches there, and a call tells its depth."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType, FunctionType, ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch._engine.calls.trampoline import Trampoline
from hookpatch._processes.payload import Payload

MakeModule = Callable[..., ModuleType]


def _passing(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return wrapped(*args, **kwargs)


PATCHES: dict[str, Callable[[int], hookpatch.Patch]] = {
    "wrap": lambda number: hookpatch.wrap("vendor:f", _passing),
    "derive": lambda number: hookpatch.derive("vendor:f", lambda below: lambda **given: below(**given)),
    "replace": lambda number: hookpatch.replace("vendor:f", lambda **given: number),
    "before": lambda number: hookpatch.wrap("vendor:f", _passing, before="other"),
}


def _count_of_calls(act: Callable[[], object], *functions: FunctionType) -> int:
    """Return the number of calls of some functions, or of all of hookpatch, while no garbage is collected."""
    count = 0
    codes = [function.__code__ for function in functions]

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        is_counted = frame.f_code in codes if codes else "/hookpatch/" in frame.f_code.co_filename
        count += event == "call" and is_counted

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


@pytest.mark.parametrize("nested", [True, False], ids=["nested blocks", "one block"])
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_a_wrap_more_or_less_sets_few_links(make_module: MakeModule, reach: Any, nested: bool) -> None:
    """Each wrap that comes or goes sets the links of its neighbours alone, however many there are."""
    make_module("vendor", "def f(**given):\n    return given\n")
    patches = [hookpatch.wrap("vendor:f", _passing, reach=reach) for _ in range(60)]

    def act() -> None:
        with ExitStack() as stack:
            for some in [[patch] for patch in patches] if nested else [patches]:
                stack.enter_context(hookpatch.active(*some, children="local"))

    assert len(patches) < _count_of_calls(act, Trampoline.point) < 8 * len(patches)


@pytest.mark.parametrize("count", [40, 80])
def test_a_block_more_or_less_is_written_once(make_module: MakeModule, count: int) -> None:
    """The text of an open block for child processes is made once, however many blocks open and end inside."""
    make_module("vendor", "\n".join(f"def f{number}(**given):\n    return given" for number in range(count)))
    sessions = [hookpatch.active(hookpatch.inject(f"vendor:f{number}", a=number)) for number in range(count)]

    def act() -> None:
        with ExitStack() as stack:
            for session in sessions:
                stack.enter_context(session)

    assert count <= _count_of_calls(act, Payload.text) <= 2 * count


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
