"""Find the current line of a model's own code: the innermost frame outside of torch, Python and these tests."""

from __future__ import annotations

import dis
import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import numpy
import torch

_OURS = str(Path(__file__).parent)
_TORCH = (str(Path(torch.__file__).parent), str(Path(torch.__file__).parents[1] / "functorch"))
_PYTHON = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
_PACKAGES = sysconfig.get_path("purelib")
_ITERATES = torch.Tensor.__iter__.__code__
_NUMPY = str(Path(numpy.__file__).parent)


class Place(NamedTuple):
    """A line of a file."""

    file: str
    line: int


class Standing(NamedTuple):
    """The current line of user code, and the frames around the line.

    Attributes:
        place: the innermost line of user code.
        inside: whether frames of torch or of Python lie between the line and the event.
        iterates: whether ``Tensor.__iter__`` lies between the line and the event.
        unpacks: whether the instruction takes a sequence apart into names (``a, b = x``).
        callers: the calling lines of user code, the nearest first.
    """

    place: Place
    inside: bool
    iterates: bool
    unpacks: bool
    callers: tuple[Place, ...]


@cache
def is_user_code(file: str) -> bool:
    """Return True if a file belongs to the model, to helpers or to libraries of the model, except torch and Python."""
    if file.startswith(("<", _OURS, _NUMPY, *_TORCH)):
        return False
    return file.startswith(_PACKAGES) or not file.startswith(_PYTHON)


def standing() -> Standing | None:
    """Return the current line of user code; None if no user code is on the stack."""
    frame: FrameType | None = sys._getframe(1)
    inside = iterates = False
    while frame is not None:
        file = frame.f_code.co_filename
        if is_user_code(file):
            unpacks = _unpacks(frame.f_code, frame.f_lasti)
            return Standing(Place(file, frame.f_lineno), inside, iterates, unpacks and not inside, _callers(frame))
        if frame.f_code is _ITERATES:
            iterates = True
        elif not file.startswith(_OURS):
            inside = True
        frame = frame.f_back
    return None


def _callers(frame: FrameType) -> tuple[Place, ...]:
    places = []
    while (caller := frame.f_back) is not None:
        frame = caller
        if is_user_code(frame.f_code.co_filename):
            places.append(Place(frame.f_code.co_filename, frame.f_lineno))
    return tuple(places)


@cache
def _unpacks(code: CodeType, offset: int) -> bool:
    return any(
        instruction.offset == offset and instruction.opname.startswith("UNPACK_")
        for instruction in dis.get_instructions(code)
    )
