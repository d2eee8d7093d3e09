"""What the environment holds for us, variable by variable; the only file that reads it or writes to it.

It runs at interpreter start, so it imports nothing that is not there already.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

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

_environ: Final = os.environ
_data: Final = getattr(_environ, "_data", None)  # the dict in which it has them all
_before: Final[list[str | None]] = []  # what INHERIT was before we set it; empty while we have not
_handed: Final[dict[Variable, None]] = {}  # what hands something on, in order
_GAPS: Final = 32  # so many numbers that are not in use are too many


class Variable:
    """A variable in which something is handed on.

    Attributes:
        number: its place among those, 0 for INHERIT itself.
        name: its name in the environment.
    """

    __slots__ = ("name", "number")

    def __init__(self, number: int) -> None:
        self.renumber(number)

    def renumber(self, number: int) -> None:
        """Give it another place, and with it another name."""
        self.number = number
        self.name = f"{INHERIT}_{number}" if number else INHERIT


def read(variable: str) -> str:
    """Return a variable of ours, empty when unset or when the interpreter ignores the environment (-E, -I)."""
    return "" if sys.flags.ignore_environment else (_get(variable) or "").strip()


def asks_nothing_of_blocks() -> bool:
    """Tell at one look whether nothing is set that a block would have to read one by one; False if that is not known.

    Most blocks find nothing.
    """
    kept = _kept()
    return kept is not None and kept.keys().isdisjoint(_OF_BLOCKS)


def _get(variable: str) -> str | None:
    """Return a variable, None when unset."""
    kept = _kept()
    return None if kept is not None and _key(variable) not in kept else os.environ.get(variable)


def _kept() -> dict[Any, Any] | None:
    """Return the dict in which os.environ has it all, None if a program has put something else in its place.

    To find out that a variable is unset takes os.environ ten times as long: it raises an error inside.
    """
    return _data if os.environ is _environ and type(_data) is dict else None


def _key(variable: str) -> str | bytes:
    return variable if os.name == "nt" else variable.encode()


_OF_BLOCKS: Final = frozenset(map(_key, (CONFIG, DISABLE, REPORT, LOCK)))


def _unset(variable: str) -> None:
    try:
        del os.environ[variable]
    except KeyError:
        return


def split_names(text: str) -> list[str]:
    """Return the names in a comma list, stripped, empty ones dropped."""
    return [name for part in text.split(",") if (name := part.strip())]


def asked() -> bool:
    """Tell whether the environment asks for anything, or a block that started this process hands something on."""
    return bool(split_names(read(PLUGINS)) or inherits() or read(CONFIG)) and not disabled()


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


def inherits() -> bool:
    """Tell whether a block that started this process hands something on to it."""
    return bool(read(INHERIT))


def take_inherited() -> dict[str, str]:
    """Return what it hands on, by variable in order, and have what this process starts inherit nothing of it."""
    return {variable: os.environ.pop(variable, "") for variable in (INHERIT, *_further())}


def _further() -> list[str]:
    """Return the variables that hand something on besides INHERIT, in order."""
    start = f"{INHERIT}_"
    found = (variable for variable in os.environ if variable.startswith(start) and variable[len(start) :].isdecimal())
    return sorted(found, key=lambda variable: int(variable[len(start) :]))


def hand_on(text: str) -> Variable:
    """Have the programs that this process starts from now on inherit something more; return the variable it is in.

    The first is in INHERIT, which tells a program that there is something, and each other in one of its own: what is
    handed on already is not written again. Numbers are taken again where the order allows it: the C library keeps for
    ever each name and each text that the environment has ever had.
    """
    if not _handed:
        _before.append(_get(INHERIT))
        variable = Variable(0)
    else:
        if next(reversed(_handed)).number > 2 * len(_handed) + _GAPS:
            _close_gaps()
        variable = Variable(next(reversed(_handed)).number + 1)
        while _get(variable.name) is not None:
            variable.renumber(variable.number + 1)  # that one is somebody else's
    _handed[variable] = None
    os.environ[variable.name] = text
    return variable


def _close_gaps() -> None:
    """Give them the smallest numbers that keep their order; one that a program sees twice counts once."""
    before = {variable.name for variable in _handed}
    number = 0
    for variable in _handed:
        if variable.number:
            number += 1
            while (name := f"{INHERIT}_{number}") not in before and _get(name) is not None:
                number += 1
            if (text := _get(variable.name)) is not None and number != variable.number:
                os.environ[name] = text
            variable.renumber(number)
    for name in before.difference(variable.name for variable in _handed):
        _unset(name)


def hand_on_instead(variable: Variable, text: str) -> None:
    """Have them inherit this in the place of what a variable of ours has."""
    os.environ[variable.name] = text


def hand_on_no_longer(variable: Variable) -> None:
    """Have them inherit it no more; without the last one, what they inherited before."""
    _handed.pop(variable, None)
    if variable.number:
        _unset(variable.name)
    elif _handed:
        os.environ[INHERIT] = "[]"  # the others are there
    if not _handed:
        before = _before.pop()
        if before is None:
            _unset(INHERIT)
        else:
            os.environ[INHERIT] = before


def handing_on(texts: Sequence[str]) -> dict[str, str]:
    """Return a copy of the environment in which these are handed on, and nothing else."""
    ours = {variable.name for variable in _handed}
    others = {name: value for name, value in os.environ.items() if name not in ours}
    names = (INHERIT, *(f"{INHERIT}_{number}" for number in range(1, len(texts))))
    return {**others, **dict(zip(names, texts or [""], strict=True))}


def as_first() -> dict[str, str]:
    """Return a copy of the environment for a process that begins a tree of its own."""
    return {name: value for name, value in os.environ.items() if name != FIRST}


def without_ours() -> dict[str, str]:
    """Return a copy of the environment that asks for nothing."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}


def forget() -> None:
    """Take our variables out of this process's environment, so that nothing it starts is patched either."""
    take_inherited()
    for variable in (PLUGINS, OPTIONS, CONFIG):
        _unset(variable)
