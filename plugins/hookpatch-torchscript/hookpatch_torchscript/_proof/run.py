"""Run a scripted model on inputs, and compare the answer with that of the model."""

from __future__ import annotations

import copy
import re
from typing import Any, Final

from hookpatch_probe.compare import difference

from hookpatch_torchscript._proof.proof import alone, answer_of, copy_of

_IN_TORCHSCRIPT: Final = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+), in \S+$', re.MULTILINE)


def mismatch(obj: Any, scripted: Any, inputs: tuple[Any, ...]) -> str:
    """Return how the scripted model answers otherwise than the model, in words; empty if the answers are equal.

    Only copies of both run.

    Raises:
        Exception: the model refuses the inputs, or a copy cannot be made.
    """
    with alone():
        expected = answer_of(copy_of(obj), inputs)
        copied = copy.deepcopy(scripted) if copy_of(obj) is not obj else scripted
        try:
            actual = answer_of(copied, inputs)
        except Exception as error:
            return f"the scripted model raises {_in_words(error)}"
    found = difference(expected, actual)
    if found is None:
        return ""
    at = "" if found.at is None else f" at {list(found.at)}"
    return f"output {found.output}{at}: {found.eager} of the model, {found.other} of the scripted model"


def _in_words(error: Exception) -> str:
    """Return the error with the last line of source in TorchScript's traceback, in a line."""
    text = str(error).strip()
    calls = list(_IN_TORCHSCRIPT.finditer(text))
    if not calls:
        return f"{type(error).__name__}: {text.partition(chr(10))[0]}"
    last = text.rpartition("\n")[2].removeprefix("builtins.")
    return f"{last} ({calls[-1]['file']}:{calls[-1]['line']})"
