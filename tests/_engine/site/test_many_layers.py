"""Many patches of one slot: each further patch costs in proportion to the patches there, and a call tells its depth."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import ExitStack
from random import Random
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
    "inject": lambda number: hookpatch.inject("vendor:f", a=number),
    "inject one value": lambda number: hookpatch.inject("vendor:f", a=1, b=[number]),
    "default": lambda number: hookpatch.default("vendor:f", a=number),
    "before": lambda number: hookpatch.wrap("vendor:f", _passing, before="other"),
}


class _Called:
    """A callable that is no Python function."""

    def __call__(self, **given: Any) -> Any:
        """Return the arguments."""
        return given


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


@pytest.mark.parametrize(
    "verb", [pytest.param(verb, marks=[pytest.mark.ends] * (verb in ("inject", "default"))) for verb in PATCHES]
)
@pytest.mark.sampled(2)
def test_work_of_nested_blocks_does_not_grow_with_the_cube(make_module: MakeModule, verb: str) -> None:
    """Twice as many blocks around one slot take no more than four times the calls, for opening, report and end."""
    make_module("vendor", "def f(**given):\n    return given\n")

    def of_blocks(count: int) -> int:
        sessions = [hookpatch.active(PATCHES[verb](number), children="local") for number in range(count)]

        def act() -> None:
            with ExitStack() as stack:
                for session in sessions:
                    stack.enter_context(session)
                assert len([row for row in hookpatch.report() if row.plugin != "torch"]) == count

        return _count_of_calls(act)

    of_blocks(2)  # imports, and compiled code
    assert of_blocks(80) < 4.4 * of_blocks(40)


GIVEN: Any = (
    1,
    True,
    1.0,
    "1",
    None,
    [1],
    [1],
    [2],
    (1,),
    {"a": [1]},
    {"a": [1]},
    {1},
    frozenset({1}),
    object(),
    float("nan"),
)


def _is_like(first: Any, second: Any) -> bool:
    return first is second or (type(first) is type(second) and first == second)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.ends) for seed in range(1, 5))])
@pytest.mark.parametrize("target", ["f", "built_in"])
def test_many_injects_of_one_parameter_end_in_any_order(make_module: MakeModule, target: str, seed: int) -> None:
    """The outermost open block gives the argument; the report names the outer blocks that give another value."""
    module = make_module("vendor", "def f(**given):\n    return given\n")
    if target == "built_in":
        module.built_in = _Called()
    random = Random(seed)
    values = [random.choice(GIVEN if seed % 2 else GIVEN[:3]) for _ in range(20)]
    sessions = [hookpatch.active(hookpatch.inject(f"vendor:{target}", a=value), children="local") for value in values]
    open_here = list(zip(sessions, values, strict=True))
    for session in sessions:
        session.open()
    while open_here:
        assert _is_like(getattr(module, target)(a=object())["a"], open_here[-1][1])
        entries = [entry for entry in hookpatch.report() if entry.plugin != "torch"]
        for place, ((_, value), entry) in enumerate(zip(open_here, entries, strict=True)):
            outer = [given for _, given in open_here[place + 1 :] if not _is_like(given, value)]
            assert str(entry.warnings).count("which lies outside") == len(outer), (place, value, outer)
        session, _ = open_here.pop(random.randrange(len(open_here)))
        session.close()
    assert set(getattr(module, target)(a=2)) == {"a"}


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
