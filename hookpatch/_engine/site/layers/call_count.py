"""Count the calls of a patch: around the wrapper, or in a stand-in for the value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from threading import get_ident
from types import FunctionType
from typing import Any, Final, Literal, TypeAlias, final, get_args

from hookpatch._bootstrap import imports
from hookpatch._engine.calls.trampoline import Trampoline, pass_through
from hookpatch._engine.patch.describe import a_kind
from hookpatch._engine.patch.patch import Patch, Wrapper
from hookpatch._engine.site.layers.layer import Count, Gate, Layer
from hookpatch._engine.site.stand_in import StandIn, binds
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.slot import Slot, inner
from hookpatch.errors import TargetRefused

Mode: TypeAlias = Literal["eager", "compile", "export", "trace", "script", "cuda graph"]

on_first_call: Final[list[Callable[[Tally], None]]] = []  # called after the first call of a patch in a mode


@final
class Tally:
    """The calls of one layer: in *eager* mode each call, in the other modes each capture of a call.

    Compiled code does not count calls: counting would be a guard, or a graph break.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        # By thread: two threads never add to the same count. GIL: the counts are copied in one operation.
        self._counts: Final[Counter[tuple[int, Mode]]] = Counter()

    def note(self) -> None:
        """Count a call in Python, in the present mode."""
        torch: Any = imports.loaded("torch")
        if torch is None:
            self.captured("eager")
        elif torch.jit.is_tracing():
            self.captured("trace")
        elif torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            self.captured("cuda graph")
        else:
            self.captured("export" if torch.compiler.is_exporting() else "eager")

    def captured(self, mode: Mode) -> None:
        """Count a call in a mode."""
        key = get_ident(), mode
        self._counts[key] += 1
        if self._counts[key] == 1:  # the first call in this thread
            for listener in on_first_call:
                listener(self)

    def around(self, wrapper: Wrapper) -> Wrapper:
        """Return a wrapper with each call counted here."""

        def counting(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: Any) -> Any:
            self.note()
            return wrapper(wrapped, instance, args, kwargs)

        return counting

    @property
    def calls(self) -> dict[str, int]:
        """The calls by mode, without modes that received no call."""
        counts = self._counts.copy().items()
        sums = ((mode, sum(count for (_, call_mode), count in counts if call_mode == mode)) for mode in get_args(Mode))
        return {mode: count for mode, count in sums if count}


def counters(
    patch: Patch, is_asked: bool, gate: Gate | None, tally: Tally | None = None
) -> tuple[Tally | None, Gate | None, Count | None]:
    """Return a tally for a patch, and the gate and the count for its layer; ``tally``: of other layers of the patch.

    Calls are counted for ``required_calls=``; if asked, also for each patch that runs around calls.
    """
    wraps = patch.is_around_calls
    if not ((is_asked and wraps) or patch.required_calls):
        return None, gate, None
    tally = tally or Tally()
    return (tally, partial(_counting, tally, gate), None) if wraps else (tally, gate, partial(_counted, tally))


def _counting(tally: Tally, gate: Gate | None, wrapper: Wrapper) -> Wrapper:
    """Return a wrapper that counts the calls passed by a gate."""
    gated = tally.around(wrapper) if gate is None else gate(tally.around(wrapper))
    vars(gated)["tally"] = tally  # read by compilers, which capture the wrapper without a call
    return gated


def _counted(tally: Tally, value: Any, slot: Slot, layer: Layer) -> Any:
    """Return a stand-in that counts the calls of a value: a function like the value, or a proxy."""
    callee = inner(value)
    if not callable(callee):
        problem = f"required_calls={layer.patch.required_calls} counts calls, and {a_kind(callee)} cannot be called"
        raise TargetRefused(layer.patch.address, layer.owner, problem)
    wrapper = _counting(tally, None, pass_through)
    if type(callee) is FunctionType:
        trampoline = Trampoline(callee, callee, binds(slot, value))
        trampoline.point(wrapper, callee, layer.owner)
        return trampoline.function if value is callee else type(value)(trampoline.function)
    if isinstance(slot, FunctionSlot):
        problem = "required_calls= with reach='everywhere' counts the calls of a Python function alone"
        raise TargetRefused(layer.patch.address, layer.owner, f"{problem}; take reach='slot'")
    stand_in = StandIn(value, slot, own=True)
    counting = Layer(layer.patch, layer.plugin, layer.owner, layer.rank, distribution=layer.distribution)
    counting.call = wrapper
    stand_in.point([counting])
    return stand_in.value


def too_few(calls: int, required: int) -> str:
    """Return in words that a patch has received fewer calls than required."""
    frequency = "never called" if not calls else "called once" if calls == 1 else f"called {calls} times"
    return f"applied, {frequency}" + (f" (required_calls={required})" if required else "")
