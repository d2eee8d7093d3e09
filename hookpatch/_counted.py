"""What counts the calls of a patch: around its wrapper, or in the place of a value that it puts there."""

from __future__ import annotations

from functools import partial
from types import FunctionType
from typing import Any

from hookpatch._function_slot import FunctionSlot
from hookpatch._layer import Count, Gate, Layer
from hookpatch._patch import CALL_VERBS, Patch, Wrapper
from hookpatch._slot import Slot, inner
from hookpatch._standing import Standing, binds
from hookpatch._tally import Tally
from hookpatch._target import a_kind
from hookpatch._trampoline import Trampoline, pass_through
from hookpatch.errors import TargetRefused


def counted(tally: Tally, value: Any, slot: Slot, layer: Layer) -> Any:
    """Return what stands for a value and counts its calls: a function like it, or a proxy of what else is called.

    Raises:
        TargetRefused: it cannot be called.
    """
    callee = inner(value)
    if not callable(callee):
        problem = f"required_calls={layer.patch.required_calls} counts calls, and {a_kind(callee)} cannot be called"
        raise TargetRefused(layer.patch.address, layer.owner, problem)
    wrapper = tally.around(pass_through)
    vars(wrapper)["tally"] = tally  # for what captures it without a call
    if type(callee) is FunctionType:
        trampoline = Trampoline(callee, callee, binds(slot, value))
        trampoline.point(wrapper, callee, layer.owner)
        return trampoline.function if value is callee else type(value)(trampoline.function)
    if isinstance(slot, FunctionSlot):
        problem = "required_calls= with reach='everywhere' counts the calls of a Python function alone"
        raise TargetRefused(layer.patch.address, layer.owner, f"{problem}; take reach='slot'")
    standing = Standing(value, slot, own=True)
    standing.point([layer.seeing_to(wrapper)])
    return standing.value


def counters(patch: Patch, is_asked: bool, gate: Gate | None) -> tuple[Tally | None, Gate | None, Count | None]:
    """Return what counts the calls of a patch, and what its layer takes for it: a gate, and what sees to its value.

    Args:
        patch: the patch; one that requires calls is counted in any case.
        is_asked: True when those that wrap are to be counted.
        gate: what lets its calls through, None for all of them.
    """
    wraps = patch.verb in CALL_VERBS
    tally = Tally() if (is_asked and wraps) or patch.required_calls else None
    if tally is None:
        return None, gate, None
    return (tally, partial(counting, tally, gate), None) if wraps else (tally, gate, partial(counted, tally))


def counting(tally: Tally, gate: Gate | None, wrapper: Wrapper) -> Wrapper:
    """Return a wrapper that counts its calls, where a gate lets them through."""
    gated = tally.around(wrapper) if gate is None else gate(tally.around(wrapper))
    vars(gated)["tally"] = tally  # for what captures it without a call
    return gated
