"""Read and write the environment variables of hookpatch; the only file that touches os.environ.

Long because a second file would touch os.environ, too, and each further file slows each start.
"""

from __future__ import annotations

import os
import sys
from os import putenv, unsetenv

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

PLUGINS: Final = "HOOKPATCH_PLUGINS"
OPTIONS: Final = "HOOKPATCH_OPTIONS"
CONFIG: Final = "HOOKPATCH_CONFIG"
DISABLE: Final = "HOOKPATCH_DISABLE"
ON_ERROR: Final = "HOOKPATCH_ON_ERROR"
REPORT: Final = "HOOKPATCH_REPORT"
REPORT_ARGUMENTS: Final = "HOOKPATCH_REPORT_ARGUMENTS"
COUNT: Final = "HOOKPATCH_COUNT"
LOCK: Final = "HOOKPATCH_LOCK"
ON_DRIFT: Final = "HOOKPATCH_ON_DRIFT"
CACHE: Final = "HOOKPATCH_CACHE"

# Set by hookpatch alone.
INHERIT: Final = "HOOKPATCH_INHERIT"  # open blocks, for child processes
FIRST: Final = "HOOKPATCH_FIRST"  # the id of the first process of a tree with requested plugins
CALLS_MISSED: Final = "HOOKPATCH_CALLS_MISSED"  # the file for a program's missing calls, read by ``hookpatch run``
AUDIT: Final = "HOOKPATCH_AUDIT"  # the file for the audit of a program, a separator, and 1 for added names, too
ROOT: Final = "HOOKPATCH_REPORT_ROOT"  # the name of a run, in all report files of the run
LOADING: Final = "HOOKPATCH_LOADING"  # the process that loads its plugins at this moment

# What a user may set.
NAMES: Final = (PLUGINS, OPTIONS, CONFIG, DISABLE, ON_ERROR, REPORT, REPORT_ARGUMENTS, COUNT, LOCK, ON_DRIFT, CACHE)

# The content of hookpatch.pth; hookpatch doctor compares the two.
LINE = (
    'import os, sys; any(map(os.environ.get, ("HOOKPATCH_PLUGINS", "HOOKPATCH_CONFIG", "HOOKPATCH_INHERIT"))) and '
    'not sys.flags.ignore_environment and __import__("hookpatch._startup", fromlist=["main"]).main()\n'
)

# Set by torchrun and Lightning, Open MPI, MPICH and Intel MPI, SLURM.
_RANKS: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")

_first: Final[Any] = os.environ  # programs get it, even while other code has put another mapping in its place
_data: Final[Any] = getattr(_first, "_data", None)  # the dict inside os.environ
_environ: Final = _first if type(_data) is dict else None
# The mappings that hand on a text of ours, each with the value of INHERIT before.
_before: tuple[tuple[Any, str | None], ...] = ()
_FIRST_ALONE: Final = ((_first, None),)


def read(variable: str) -> str:
    """Return a variable of ours, empty when unset or when the interpreter ignores the environment (-E, -I)."""
    return "" if sys.flags.ignore_environment else (_get(variable, os.environ) or "").strip()


def unknown() -> list[str]:
    """Return the variables with the prefix of ours that hookpatch neither reads nor sets."""
    ours = (*NAMES, FIRST, CALLS_MISSED, AUDIT, ROOT, LOADING)
    return sorted(
        name
        for name in os.environ
        if name.startswith("HOOKPATCH_") and name not in ours and not name.startswith(INHERIT)
    )


def asks_nothing_of_blocks() -> bool:
    """Return True if no variable of a block is set, by a single look; False if the look is not possible."""
    return os.environ is _environ and _data.keys().isdisjoint(_OF_BLOCKS)


def enables_blocks() -> bool:
    """Return True if HOOKPATCH_DISABLE is not set, by a single look; False if the look is not possible."""
    return os.environ is _environ and _DISABLE not in _data


def _get(variable: str, mapping: Any) -> str | None:
    """Return a variable of a mapping, None when unset.

    For an unset variable os.environ takes ten times as long: a KeyError is raised inside.
    """
    return None if mapping is _environ and _key(variable) not in _data else mapping.get(variable)


def _key(variable: str) -> str | bytes:
    return variable if os.name == "nt" else variable.encode()


_OF_BLOCKS: Final = frozenset(map(_key, (CONFIG, DISABLE, REPORT, LOCK)))
_DISABLE: Final = _key(DISABLE)
_INHERIT: Final = _key(INHERIT)


def split_names(text: str) -> list[str]:
    """Return the names of a comma list, stripped, without empty names."""
    return [name for part in text.split(",") if (name := part.strip())]


def asks_for_patches() -> bool:
    """Return True if the environment asks for plugins, names a configuration, or hands blocks on to this process."""
    return bool(split_names(read(PLUGINS)) or inherits() or read(CONFIG)) and not disabled()


def disabled() -> bool:
    """Return True if HOOKPATCH_DISABLE is set: no session applies a patch."""
    return read(DISABLE) not in ("", "0")


def report_folder() -> str | None:
    """Return the folder for report files, None when no reports are asked for."""
    return read(REPORT) or None


def leaves_out_arguments() -> bool:
    """Return True if reports must show programs without arguments."""
    return read(REPORT_ARGUMENTS) == "0"


def cache_folder() -> str | None:
    """Return the folder for the kept results of commands, None if HOOKPATCH_CACHE is 0."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = read(CACHE) or os.path.join(home, "hookpatch")
    return None if folder == "0" else folder


def report_root() -> tuple[bool, str]:
    """Return whether this process is the first of a run, and the name of the run.

    The first process names the run and makes the folder of the reports absolute, for all child processes.
    """
    import time

    from hookpatch._bootstrap.files import current_folder

    if current_folder() is not None:  # else no report can be left
        os.environ[REPORT] = os.path.abspath(os.environ[REPORT])
    own = f"{host()}-{os.getpid()}-{time.time_ns()}"
    return own == os.environ.setdefault(ROOT, own), os.environ[ROOT]


def is_first() -> bool:
    """Return True if this process is the first with requested plugins, and no parent is."""
    return os.environ.setdefault(FIRST, str(os.getpid())) == str(os.getpid())


def host() -> str:
    """Return the name of this machine in the network."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def rank() -> int | None:
    """Return the number of this process among the processes of a launcher, None without a launcher."""
    texts = (os.environ.get(variable, "") for variable in _RANKS)
    return next((int(text) for text in texts if text.isdecimal()), None)


def counts() -> bool:
    """Return True if calls are to be counted."""
    return read(COUNT) not in ("", "0")


def set_variables(environment: Mapping[str, str]) -> None:
    """Set variables, for this process and all child processes."""
    os.environ.update(environment)


def inherits() -> bool:
    """Return True if blocks of the parent process are handed on to this process."""
    return bool(read(INHERIT))


def take_variable(variable: str) -> str:
    """Remove and return a variable: no child process inherits the value."""
    return os.environ.pop(variable, "")


def handed_on(env: Mapping[Any, Any] | None, variable: str = INHERIT) -> str:
    """Return a variable of an environment, the blocks handed on if none is named; None: of this process."""
    if env is None or env is _first:
        return _get(variable, _first) or ""
    names = variable, variable.encode()
    return next((os.fsdecode(value) for name, value in env.items() if name in names), "")


def hands_on_same_blocks(env: Mapping[Any, Any] | None) -> bool:
    """Return True if an environment has the variables of this process, and hands on the same blocks."""
    return env is None or (os.environ.keys() <= env.keys() and handed_on(env) == handed_on(None))


def with_text(env: Mapping[str, str], text: str) -> dict[str, str]:
    """Return a copy of an environment that hands on the given text alone."""
    variables = {name: value for name, value in env.items() if name != INHERIT}
    return {**variables, INHERIT: text} if text else variables


def of_reports() -> dict[str, str]:
    """Return the variables that name the folder for the reports of this run."""
    return {name: value for name in (REPORT, ROOT) if (value := read(name))}


def hand_on(text: str, program: str) -> None:
    """Hand a text on to programs started by this process; an empty text restores the variable.

    ``program``: the id of this program. A text of this program from an ended block is not restored, but removed.
    """
    global _before
    present = [(mapping, _get(INHERIT, mapping)) for mapping in _mappings()]
    foreign = [(mapping, None if _is_of(program, value) else value) for mapping, value in present]
    if text:
        for mapping, before in foreign:
            if not any(noted is mapping for noted, _ in _before):
                _before = (*_before, (mapping, before))
            mapping[INHERIT] = text
        return
    for mapping, before in _before or foreign:
        if before is not None:
            mapping[INHERIT] = before
            continue
        mapping.pop(INHERIT, None)
        if mapping is _first:
            unsetenv(INHERIT)  # after an interrupt os.environ may lack the variable
    _before = ()


def hands_on_ended(program: str) -> bool:
    """Return True if foreign code has put back a text of ended blocks, as the end of ``mock.patch.dict`` does."""
    return not _before and any(_is_of(program, _get(INHERIT, mapping)) for mapping in _mappings())


def _mappings() -> list[Any]:
    return [_first] if os.environ is _first else [_first, os.environ]


def _is_of(program: str, text: str | None) -> bool:
    """Return True for a text that a program hands on."""
    return text is not None and text.partition('", ')[0].endswith(program)


def encoded(text: str) -> str | bytes:
    """Return a text in the form kept by os.environ."""
    return text if os.name == "nt" else os.fsencode(text)


def hand_on_first(text: str | bytes) -> bool:
    """Hand on an ``encoded`` text if the variable is not set; else change nothing and return False.

    Called after ``enables_blocks``.
    """
    global _before
    if _before or _INHERIT in _data:
        return False
    _before = _FIRST_ALONE
    putenv(_INHERIT, text)  # like os.environ, which would encode the text each time
    _data[_INHERIT] = text
    return True


def hand_on_no_longer() -> bool:
    """Undo ``hand_on_first``; change nothing and return False if other code changed the variable."""
    global _before
    if _before is not _FIRST_ALONE or os.environ is not _environ or _INHERIT not in _data:
        return False
    unsetenv(_INHERIT)
    del _data[_INHERIT]
    _before = ()
    return True


def hands_on_first() -> bool:
    """Return True between ``hand_on_first`` and ``hand_on_no_longer``."""
    return _before is _FIRST_ALONE


def handing_on(text: str) -> dict[str, str]:
    """Return a copy of the environment that hands on the given text alone."""
    return with_text(os.environ, text)


def as_first() -> dict[str, str]:
    """Return a copy of the environment for the first process of a new process tree."""
    return {name: value for name, value in os.environ.items() if name != FIRST}


def hookpatch_variables() -> dict[str, str]:
    """Return our variables."""
    return {name: value for name, value in os.environ.items() if name.startswith("HOOKPATCH_")}


def recording(file: str, everything: bool, folder: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which a program is audited, by the sitecustomize of a folder, into a file."""
    path = os.pathsep.join(filter(None, (folder, env.get("PYTHONPATH", ""))))
    return {**env, AUDIT: os.pathsep.join((file, str(int(everything)), folder)), "PYTHONPATH": path}


def take_audit() -> tuple[str, bool] | None:
    """Return the file for the audit of this process, and whether added names count; remove both from the environment.

    Return None without an audit of this process.
    """
    file, _, fields = os.environ.pop(AUDIT, "").partition(os.pathsep)
    everything, _, folder = fields.partition(os.pathsep)
    if not folder:
        return None
    folders = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part != folder]
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    if not "".join(folders):
        del os.environ["PYTHONPATH"]
    return file, everything == "1"


def without_audit() -> dict[str, str]:
    """Return a copy of the environment for an independent program, without an audit."""
    return {name: value for name, value in os.environ.items() if name not in (AUDIT, FIRST)}


def without_ours() -> dict[str, str]:
    """Return a copy of the environment without our variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}


def forget() -> None:
    """Remove our variables from the environment: no child process is patched, either."""
    for variable in (INHERIT, PLUGINS, OPTIONS, CONFIG):
        os.environ.pop(variable, None)
