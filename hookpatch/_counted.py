"""A value that a patch puts into a slot, seen to when it is called: for patches that say how often they are to be."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from hookpatch._function_slot import FunctionSlot
from hookpatch._layer import Layer
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
