"""One call of torch.jit.script, explained."""

from __future__ import annotations

import threading
import traceback
import warnings
from typing import Any, Final

import hookpatch
from hookpatch_torchscript._record import Explanation
from hookpatch_torchscript._scripting import recording
from hookpatch_torchscript._store import untouched

_alone: Final = threading.RLock()


def explain(obj: Any, **arguments: Any) -> Explanation:
    """Script a module, function or class, and return what torch did and why it failed, if it did.

    Torch's stores of types and functions hold afterwards what they held before, so that what is explained is
    compiled anew each time; so calls in several threads take turns. A class that is compiled stays known to torch,
    which has no way to forget one.

    Args:
        obj: what ``torch.jit.script`` takes.
        **arguments: more of its arguments, ``example_inputs`` for one.

    Returns:
        The explanation, with ``scripted``, what torch made of it, or ``error``, what it raised (the note with the cause
        and the mend is on it). ``print`` shows it as a tree; ``to_dict()`` is for programs.

    Raises:
        Nothing of torch's. KeyboardInterrupt and the like pass.
    """
    import torch

    told: list[Explanation] = []
    deprecated = ".*torch.jit.script. is (deprecated|not supported)"
    with (
        _alone,  # what it puts back afterwards is the whole process's
        untouched(),
        hookpatch.active(recording(told.append, "slot"), scope="task", children="local"),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", deprecated, DeprecationWarning)
        try:
            torch.jit.script(obj, **arguments)
        except Exception as error:
            if not told:  # it was not scripting that failed
                raise
            # Torch keeps what it was compiling in the variables of its functions, and quotes it in the next error.
            traceback.clear_frames(error.__traceback__)
            told[-1].error = error
    try:
        return told.pop()
    finally:
        del obj, arguments  # the error's traceback has this function
