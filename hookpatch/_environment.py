"""What the environment holds for us, variable by variable; the only file that reads it or writes to it.

It runs at interpreter start, so it imports nothing that is not there already.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

PLUGINS: Final = "HOOKPATCH_PLUGINS"
OPTIONS: Final = "HOOKPATCH_OPTIONS"
CONFIG: Final = "HOOKPATCH_CONFIG"
DISABLE: Final = "HOOKPATCH_DISABLE"
ON_ERROR: Final = "HOOKPATCH_ON_ERROR"
REPORT: Final = "HOOKPATCH_REPORT"
COUNT: Final = "HOOKPATCH_COUNT"
LOCK: Final = "HOOKPATCH_LOCK"
ON_DRIFT: Final = "HOOKPATCH_ON_DRIFT"
INHERIT: Final = "HOOKPATCH_INHERIT"  # what a block hands on to the programs that it starts; not for people

FIRST: Final = "HOOKPATCH_FIRST"  # the process that was asked for plugins, and whose children are; not for people
ROOT: Final = "HOOKPATCH_REPORT_ROOT"  # the run of which reports are; not for people

# Of torchrun and Lightning, Open MPI, MPICH and Intel MPI, SLURM.
_RANKS: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")

_before: Final[list[str | None]] = []  # what INHERIT was before we set it; empty while we have not


def read(variable: str) -> str:
    """Return a variable of ours, empty when unset or when the interpreter ignores the environment (-E, -I)."""
    if sys.flags.ignore_environment:
        return ""
    try:
        return os.environ[variable].strip()
    except KeyError:
        return ""


def split_names(text: str) -> list[str]:
    """Return the names in a comma list, stripped, empty ones dropped."""
    return [name for part in text.split(",") if (name := part.strip())]


def asked() -> bool:
    """Tell whether the environment asks for anything, or a block that started this process hands something on."""
    return bool(split_names(read(PLUGINS)) or read(INHERIT) or read(CONFIG)) and not disabled()


def disabled() -> bool:
    """Tell whether the kill switch is set: no patch is applied, whoever asks for it."""
    return read(DISABLE) not in ("", "0")


def report_folder() -> str | None:
    """Return the folder in which each process leaves its report, or None when none was asked for."""
    return read(REPORT) or None


def report_root() -> tuple[bool, str]:
    """Return whether this is the first process of a run, and the run's name, which that one gives to all.

    The folder of the reports is the same for all, too, whatever their current folders.
    """
    import time

    os.environ[REPORT] = os.path.abspath(os.environ[REPORT])
    own = f"{host()}-{os.getpid()}-{time.time_ns()}"
    return own == os.environ.setdefault(ROOT, own), os.environ[ROOT]


def is_first() -> bool:
    """Tell whether this process is the first that was asked for plugins, and no child of one that was."""
    return os.environ.setdefault(FIRST, str(os.getpid())) == str(os.getpid())


def host() -> str:
    """Return this machine's name in its network."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def rank() -> int | None:
    """Return this process's number among those that a launcher has started together, None if there is none."""
    found = (os.environ.get(variable, "") for variable in _RANKS)
    return next((int(text) for text in found if text.isdecimal()), None)


def counts() -> bool:
    """Tell whether calls are to be counted."""
    return read(COUNT) not in ("", "0")


def take(environment: Mapping[str, str]) -> None:
    """Set what an environment has, for this process and those that it starts."""
    os.environ.update(environment)


def inherited() -> str:
    """Return what a block that started this process hands on to it, empty if nothing."""
    return read(INHERIT)


def take_inherited() -> str:
    """Return it, and have the programs that this process starts inherit nothing of it."""
    text = inherited()
    os.environ.pop(INHERIT, None)
    return text


def hand_on(text: str | None) -> None:
    """Have the programs that this process starts from now on inherit something; None: what they did before."""
    if text is not None:
        if not _before:
            _before.append(os.environ.get(INHERIT))
        os.environ[INHERIT] = text
    elif _before:
        (before,) = _before
        _before.clear()
        if before is None:
            os.environ.pop(INHERIT, None)
        else:
            os.environ[INHERIT] = before


def handing_on(text: str | None) -> dict[str, str]:
    """Return a copy of the environment in which something is handed on."""
    return {**os.environ, INHERIT: text or ""}


def as_first() -> dict[str, str]:
    """Return a copy of the environment for a process that begins a tree of its own."""
    return {name: value for name, value in os.environ.items() if name != FIRST}


def without_ours() -> dict[str, str]:
    """Return a copy of the environment that asks for nothing."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}


def forget() -> None:
    """Take our variables out of this process's environment, so that nothing it starts is patched either."""
    for variable in (PLUGINS, OPTIONS, CONFIG, INHERIT):
        os.environ.pop(variable, None)
