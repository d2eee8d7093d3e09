"""Parse arguments of the command line: lists of words with commas."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from hookpatch_torchscript._runtimes.jobs.job import DEVICES, DTYPES, EAGER, MODES, Setting
from hookpatch_torchscript.errors import RuntimesError


def modes_of(text: str | None) -> tuple[str, ...]:
    """Return the modes of a list, after eager, with which all are compared; None stands for all modes.

    Raises:
        RuntimesError: a mode does not exist.
    """
    selected = MODES if text is None else _words(text, "--modes", "mode", MODES)
    return tuple(dict.fromkeys((EAGER, *selected)))


def settings_of(devices: str, dtypes: str, batches: str) -> tuple[Setting, ...]:
    """Return each combination of devices, dtypes and batch sizes.

    Raises:
        RuntimesError: a word is not allowed.
    """
    sizes = tuple(_size(word) for word in _split(batches, "--batch"))
    return tuple(
        Setting(device, dtype, batch)
        for device in _words(devices, "--device", "device", DEVICES)
        for dtype in _words(dtypes, "--dtype", "type", DTYPES)
        for batch in sizes
    )


def _size(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise RuntimesError("--batch", f"'{word}' is no batch size; write whole numbers from 1, --batch 1,8")
    return int(word)


def _words(text: str, option: str, kind: str, choices: Sequence[str]) -> tuple[str, ...]:
    words = _split(text, option)
    for word in words:
        if word not in choices:
            near = difflib.get_close_matches(word, choices, 1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise RuntimesError(option, f"no {kind} '{word}'; {hint}there are {', '.join(choices)}")
    return words


def _split(text: str, option: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words:
        raise RuntimesError(option, f"is empty; leave the option out, or write words with commas: {option} A,B")
    return words
