"""Patch torch.jit.trace and trace_module: each outermost call is followed by a comparison."""

from __future__ import annotations

import copy
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

import hookpatch
from hookpatch_torchscript._source.lookup import line_at
from hookpatch_torchscript._values.place import Place
from hookpatch_torchscript.errors import TraceGuardError, TraceGuardWarning

Compare: TypeAlias = Callable[[Any, Any, str], Any]

_running: Final[ContextVar[bool]] = ContextVar("hookpatch_torchscript_tracing", default=False)
_WHY: Final = "torch compares a trace with the model on the example alone"
_UPSTREAM: Final = "https://github.com/pytorch/pytorch/pull/10841"  # check_inputs=, which users must pass
_OURS: Final = ("hookpatch", "hookpatch_export", "hookpatch_torchscript", "torch", "wrapt")


def compared_calls(probes: int, rtol: float | None, atol: float | None, fail: bool) -> Iterator[hookpatch.Patch]:
    """Return the patches that compare each new trace with its original.

    Args:
        probes: how many inputs are tried for each trace.
        rtol: the relative tolerance.
        atol: the absolute tolerance.
        fail: True if a disagreement is an error.
    """

    def compare(traced: Any, call: Any, method: str) -> Any:
        from hookpatch_probe.compare import Tolerance

        from hookpatch_torchscript._tracing.guard import compared

        return compared(traced, call, method, probes, Tolerance(rtol, atol))

    for name, calls in (("trace", _of_trace), ("trace_module", _of_trace_module)):
        wrapper = _wrapper(f"torch.jit.{name}", calls, compare, fail)
        yield hookpatch.wrap(
            f"torch.jit:{name}",
            wrapper,
            reach="everywhere",
            requires="torch>=2.13",
            why=_WHY,
            upstream=_UPSTREAM,
        )


def _wrapper(name: str, calls: Callable[..., dict[str, Any]], compare: Compare, fail: bool) -> Callable[..., Any]:
    def trace(wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _running.get() or _is_tracing():
            return wrapped(*args, **kwargs)
        token = _running.set(True)
        try:
            before = _calls(calls, wrapped, args, kwargs)  # copies, since tracing may write into the example
            traced = wrapped(*args, **kwargs)
            if _is_traced(traced, before):
                _warn_or_fail(name, [compare(traced, call, method) for method, call in before.items()], fail)
            return traced
        finally:
            _running.reset(token)

    return trace


def _calls(
    calls: Callable[..., dict[str, Any]], wrapped: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    try:
        bound = inspect.signature(wrapped).bind(*args, **kwargs)
        bound.apply_defaults()
        return calls(**bound.arguments)
    except Exception:  # torch reports the wrong call
        return {}


def _of_trace(
    func: Any, example_inputs: Any = None, example_kwarg_inputs: Mapping[str, Any] | None = None, **_: Any
) -> dict[str, Any]:
    """Return the calls that torch.jit.trace will trace, by method."""
    module = getattr(func, "__self__", None)
    if _is_module(module) and func.__name__ == "forward":
        func = module
    by_name = isinstance(example_kwarg_inputs, dict) and (example_inputs is None or not _is_module(func))
    if by_name:
        return {"forward": _call(func, (), example_kwarg_inputs or {})}
    return {"forward": _call(func, _tuple(example_inputs), {})}


def _of_trace_module(
    mod: Any, inputs: Mapping[str, Any], example_inputs_is_kwarg: bool = False, **_: Any
) -> dict[str, Any]:
    """Return the calls that torch.jit.trace_module will trace, by method."""
    calls = {}
    for method, example in inputs.items():
        by_name = example_inputs_is_kwarg and isinstance(example, dict)
        called = mod if method == "forward" else getattr(mod, method)
        calls[method] = _call(called, () if by_name else _tuple(example), example if by_name else {})
    return calls


def _call(called: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    from hookpatch_torchscript._tracing.guard import Call

    return Call(called, copy.deepcopy(args), copy.deepcopy(dict(kwargs)))


def _tuple(example: Any) -> tuple[Any, ...]:
    return tuple(example) if isinstance(example, tuple | list) else (example,)


def _is_module(value: object) -> bool:
    import torch  # imported by now

    return isinstance(value, torch.nn.Module)


def _is_tracing() -> bool:
    import torch

    return torch._C._get_tracing_state() is not None


def _is_traced(traced: Any, calls: Mapping[str, Any]) -> bool:
    """Return True if torch made a trace: torch returns a scripted input unchanged, and any input if its jit is off."""
    import torch

    script = (torch.jit.ScriptModule, torch.jit.ScriptFunction)
    return isinstance(traced, script) and not any(isinstance(call.called, script) for call in calls.values())


def _warn_or_fail(name: str, verdicts: Sequence[Any], fail: bool) -> None:
    place = _caller()
    disagreeing = [verdict for verdict in verdicts if verdict.disagreements]
    if fail and disagreeing:
        raise TraceGuardError(name, place, disagreeing)
    for verdict in verdicts:
        if not verdict.agrees:
            warning = TraceGuardWarning(name, place, verdict)
            warnings.warn_explicit(warning, None, place.file, place.line)


def _caller() -> Place:
    """Return the line that called torch, past the wrappers of other patches."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        frame = frame.f_back
    return line_at(frame.f_code.co_filename, frame.f_lineno)
