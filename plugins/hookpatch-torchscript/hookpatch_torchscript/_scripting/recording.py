"""Patch torch.jit.script: each outermost call is recorded as an Explanation.

Torch's own functions are patched only while such a call runs, and only for the calling thread.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from types import FrameType, TracebackType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import hookpatch
from hookpatch_torchscript._report.explanation import Explanation
from hookpatch_torchscript._report.note import note
from hookpatch_torchscript._scripting.failure import failure_of
from hookpatch_torchscript._scripting.recorder import Recorder
from hookpatch_torchscript._scripting.seams import limits, patches
from hookpatch_torchscript._scripting.type_store import kept_types, untouched
from hookpatch_torchscript._source.lookup import line_at, name_of, place_of
from hookpatch_torchscript._values.record import Failure

Told: TypeAlias = Callable[[Explanation], None]

_running: Final[ContextVar[Recorder | None]] = ContextVar("hookpatch_torchscript", default=None)
_trying: Final[ContextVar[bool]] = ContextVar("hookpatch_torchscript_trying", default=False)
_SCRIPT: Final = "torch.jit._script"


class Trial(NamedTuple):
    """Whether remedies are tried.

    Attributes:
        wanted: True to apply remedies to a copy of the model, script the copy, and compare its answers.
        inputs: positional arguments that the model takes; None to guess them.
    """

    wanted: bool = True
    inputs: tuple[Any, ...] | None = None


def recording(
    tell: Told, reach: Literal["slot", "everywhere"] = "everywhere", trial: Trial | None = None
) -> hookpatch.Patch:
    """Return the patch that reports each outermost call of torch.jit.script at its end.

    Args:
        tell: called with the explanation, before the call returns or raises.
        reach: ``"slot"`` is quicker, and enough for calls by the name ``torch.jit.script``, as torch itself calls.
        trial: whether remedies are tried.
    """

    def script(wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _trying.get():
            return wrapped(*args, **kwargs)
        obj = args[0] if args else kwargs.get("obj")
        user = _caller()
        if inspect.isclass(obj) and user is not None and kwargs.get("_rcb") is None and len(args) < 4:
            # Torch looks names up in the frame of the caller, and finds the frame by counting.
            kwargs = {**kwargs, "_rcb": _names_of(user)}
        if (running := _running.get()) is not None:
            return running.nested(wrapped, args, kwargs)
        try:
            with _recorded(obj, user, tell, partial(_tried, obj, wrapped, trial or Trial())) as explanation:
                explanation.scripted = wrapped(*args, **kwargs)
        except Exception as error:
            raise error.with_traceback(_without_ours(error.__traceback__))  # noqa: B904 - the same error
        return explanation.scripted

    why = "torch reports a failed scripting, and seldom the remedy"
    upstream = "https://github.com/pytorch/pytorch/issues/49614"
    return hookpatch.wrap("torch.jit:script", script, reach=reach, requires="torch>=2.13", why=why, upstream=upstream)


@contextmanager
def _recorded(
    obj: Any, user: FrameType | None, tell: Told, tried: Callable[[Failure], Failure]
) -> Iterator[Explanation]:
    import torch  # imported by now

    explanation = _begun(obj)
    if user is not None:
        explanation.called_at = line_at(user.f_code.co_filename, user.f_lineno)
    # Whenever a session opens or closes, hookpatch clears TorchScript's stores: compiled code may have been patched.
    # The functions changed by these patches are never compiled, so the stores are restored.
    put_back = kept_types()
    store = getattr(torch.jit._recursive, "concrete_type_store", None)
    recorder = Recorder(obj, explanation, store, failure_of)
    try:
        with hookpatch.active(*patches(recorder), scope="task", children="local"):
            put_back()
            token = _running.set(recorder)
            explanation.limits += limits(torch.__version__)
            begun = time.perf_counter()
            try:
                yield explanation
            except Exception as error:
                explanation.seconds = time.perf_counter() - begun
                try:
                    explanation.failure = failure_of(error, recorder)
                except Exception as ours:
                    recorder.stumbled(ours)
                    explanation.failure = Failure(type(error).__name__, str(error))
                raise
            else:
                explanation.seconds = time.perf_counter() - begun
            finally:
                _running.reset(token)
                put_back = kept_types()
    except Exception as error:
        put_back()
        if explanation.failure is not None:
            explanation.failure = tried(explanation.failure)
            error.add_note(note(explanation))
        raise
    finally:
        put_back()
        tell(explanation)


def _tried(obj: Any, script: Callable[..., Any], trial: Trial, failure: Failure) -> Failure:
    """Return a failure with a remedy that works, if there is one; the program never sees an error of the trial."""
    if not trial.wanted:
        return failure
    from hookpatch_torchscript._proof.proof import proved  # imports torch

    token = _trying.set(True)
    try:
        with untouched():
            return proved(obj, failure, script, trial.inputs)
    except Exception:
        return failure
    finally:
        _trying.reset(token)


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of hookpatch: four for each patched function of torch."""
    if traceback is None:
        return None
    tail, frame = _without_ours(traceback.tb_next), traceback.tb_frame
    if _is_frame_of_hookpatch(frame) or "[hookpatch" in frame.f_code.co_name:
        return tail
    return TracebackType(tail, frame, traceback.tb_lasti, traceback.tb_lineno)


def _is_frame_of_hookpatch(frame: FrameType) -> bool:
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return package in ("hookpatch", "hookpatch_torchscript")


def _begun(obj: Any) -> Explanation:
    import torch  # imported by now

    if isinstance(obj, torch.nn.Module):
        return Explanation("module", type(obj).__name__, place_of(type(obj)))
    if inspect.isclass(obj):
        return Explanation("class", name_of(obj), place_of(obj))
    if inspect.isroutine(obj):
        return Explanation("function", name_of(obj), place_of(obj))
    return Explanation("object", type(obj).__name__, place_of(type(obj)))


def _caller() -> FrameType | None:
    """Return the frame that called torch.jit.script, past the wrappers of other patches.

    For the outermost call the outermost such frame is returned, for a nested call the nearest.
    """
    nested, caller = _running.get() is not None, None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not (nested and caller):
        above = frame.f_back
        if frame.f_globals.get("__name__") == _SCRIPT:
            while above is not None and (above.f_globals.get("__name__") == _SCRIPT or _is_frame_of_hookpatch(above)):
                above = above.f_back
            caller = above
        frame = above
    return caller


def _names_of(user: FrameType) -> Callable[[str], Any]:
    from torch import _jit_internal

    above, frame = 0, sys._getframe(0)
    while frame is not user and frame.f_back is not None:
        above, frame = above + 1, frame.f_back
    resolve: Callable[[str], Any] = _jit_internal.createResolutionCallbackFromFrame(above)
    return resolve
