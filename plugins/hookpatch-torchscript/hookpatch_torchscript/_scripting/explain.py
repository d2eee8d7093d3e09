"""Explain one call of torch.jit.script."""

from __future__ import annotations

import threading
import traceback
import warnings
from typing import Any, Final

import hookpatch
from hookpatch_torchscript._report.explanation import Explanation
from hookpatch_torchscript._scripting.recording import Trial, recording
from hookpatch_torchscript._scripting.type_store import untouched

_alone: Final = threading.RLock()


def explain(obj: Any, *, inputs: tuple[Any, ...] | None = None, prove: bool = True, **arguments: Any) -> Explanation:
    """Script a module, function or class, and return what torch did and, on failure, why.

    Torch's stores of types and functions are restored afterwards, so torch compiles anew in each call; calls in several
    threads take turns. A compiled class stays known to torch, which cannot forget classes.

    Args:
        obj: the argument of ``torch.jit.script``.
        inputs: positional arguments that the model takes. The answers of the scripted model, or of a remedy, are
            compared with those of the model. Without inputs, those for a remedy are guessed.
        prove: True to apply remedies to a copy of the model, script the copy, and compare its answers.
        **arguments: further arguments of ``torch.jit.script``, such as ``example_inputs``.

    Returns:
        The explanation, with torch's result in ``scripted`` or torch's exception in ``error`` (with a note: cause and
        remedy). ``print`` shows a tree; ``to_dict()`` is for programs.

    Raises:
        No exception of scripting. KeyboardInterrupt and the like pass.
    """
    import torch

    explanations: list[Explanation] = []
    deprecated = ".*torch.jit.script. is (deprecated|not supported)"
    with (
        _alone,  # the restored stores belong to the whole process
        untouched(),
        hookpatch.active(recording(explanations.append, "slot", Trial(prove, inputs)), scope="task", children="local"),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", deprecated, DeprecationWarning)
        try:
            scripted = torch.jit.script(obj, **arguments)
            if inputs is not None and prove and explanations[-1].what in ("module", "function"):
                _compare(explanations[-1], obj, scripted, inputs)
        except Exception as error:
            if not explanations:  # the error is not of scripting
                raise
            # Torch keeps the compiled functions in variables of its frames, and would quote them in the next error.
            traceback.clear_frames(error.__traceback__)
            explanations[-1].error = error
    try:
        return explanations.pop()
    finally:
        del obj, arguments  # the traceback of the error holds this frame


def _compare(explanation: Explanation, obj: Any, scripted: Any, inputs: tuple[Any, ...]) -> None:
    """Note in the explanation whether the scripted model answers as the model does."""
    from hookpatch_torchscript._proof.run import mismatch  # imports torch

    try:
        explanation.differs = mismatch(obj, scripted, inputs)
    except Exception as error:  # of the model on the inputs
        problem = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        explanation.limits.append(f"not compared with the model, which raises {problem}")
