"""Find the line of the user's code behind an exporter's error, or behind a guard of torch."""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import hookpatch_probe
import torch

from hookpatch_export._probe.run_path import Spot

_TORCH: Final = Path(torch.__file__).resolve().parent
_OURS: Final = (Path(__file__).resolve().parents[1], Path(hookpatch_probe.__file__).resolve().parent)
_STANDARD: Final = Path(sysconfig.get_path("stdlib")).resolve()
_SITE: Final = Path(sysconfig.get_path("purelib")).resolve()
_IN_MESSAGE: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_SHORT: Final = re.compile(r"(?P<file>[\w./\\-]+\.py):(?P<line>\d+) in ")


def line_of_error(error: BaseException) -> Spot | None:
    """Return the innermost line of the user's code in the traceback of an error or of its causes."""
    for cause in cause_chain(error):
        frames = [
            Spot(Path(frame.filename).resolve(), frame.lineno or 1)
            for frame in traceback.extract_tb(cause.__traceback__)
        ]
        mentioned = [
            Spot(Path(match["file"]).resolve(), int(match["line"])) for match in _IN_MESSAGE.finditer(str(cause))
        ]
        for spot in [*reversed(mentioned), *reversed(frames)]:
            if is_user_file(spot.file):
                return spot
    return None


def cause_chain(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, the first cause first."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain[::-1]


def line_of_guard(sloc: Any, files: Iterable[Path]) -> Spot | None:
    """Return the line of the user's code that torch names for a guard (``torch._guards.SLoc``)."""
    frame = sloc.framework_loc
    if isinstance(frame, traceback.FrameSummary) and is_user_file(file := Path(frame.filename).resolve()):
        return Spot(file, frame.lineno or 1)
    return next(_short(str(sloc.maybe_user_loc or ""), files), None)


def _short(text: str, files: Iterable[Path]) -> Iterator[Spot]:
    """Yield places from torch's text, which has the last two parts of a file's path."""
    for match in _SHORT.finditer(text):
        parts = Path(match["file"]).parts
        for file in files:
            if file.parts[-len(parts) :] == parts:
                yield Spot(file, int(match["line"]))


def is_user_file(file: Path) -> bool:
    """Return True if a file belongs neither to torch, nor to hookpatch-export, nor to Python."""
    if not file.is_file() or any(file.is_relative_to(folder) for folder in (_TORCH, *_OURS)):
        return False
    return file.is_relative_to(_SITE) or not file.is_relative_to(_STANDARD)
