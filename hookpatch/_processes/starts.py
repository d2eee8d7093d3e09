"""Listen to the start of child processes: programs, and processes of multiprocessing.

Two ways, because neither is enough. A patch can give a child process more, and is applied while a listener needs the
patch. An audit event comes before the start of each program, whatever code starts the program. An audit hook can only
refuse the start, and stays until the process ends. Therefore a hook is added at the first need.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Set
from functools import cache
from sys import _getframe
from types import FrameType
from typing import Any, Final, NamedTuple

from hookpatch._bootstrap import environment, imports
from hookpatch._bootstrap.imports import begun_names
from hookpatch._bootstrap.interrupts import write_notes
from hookpatch._bootstrap.program import MULTIPROCESSING, SITECUSTOMIZE, has_startup_file
from hookpatch._engine.patch.patch import Wrapper, wrap
from hookpatch._session.ledger import Requested
from hookpatch._session.own_patches import OwnPatches
from hookpatch._session.span.part import Pairs
from hookpatch.errors import NotCarriedWarning, warn

PROGRAM: Final = "subprocess:Popen.__init__"
EXEC: Final = "os.exec"  # an event
PROCESSES: Final = frozenset(f"{package}.process:BaseProcess.start" for package in MULTIPROCESSING)
# Where a process object is pickled. A fork pickles nothing, and a program that only forks imports none of the modules.
_POPEN: Final = "win32:Popen.__init__" if os.name == "nt" else "posix:Popen._launch"
PICKLED: Final = frozenset(
    (
        *(f"{package}.popen_spawn_{_POPEN}" for package in MULTIPROCESSING),
        *(f"{package}.popen_forkserver:Popen._launch" for package in MULTIPROCESSING if os.name != "nt"),
        *(f"{package}.backend.popen_loky_{_POPEN}" for package in ("loky", "joblib.externals.loky")),
    )
)


def _make_interpreter(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    """Make an interpreter of this process, after a call of the hooks for programs."""
    _call_hooks(_INTERPRETER)
    return wrapped(*args, **kwargs)


INTERPRETERS: Final[Mapping[str, Wrapper]] = {"_interpreters:create": _make_interpreter}  # of Python 3.13 and newer
MODULES: Final = {target: target.partition(":")[0] for target in (PROGRAM, *INTERPRETERS, *PROCESSES, *PICKLED)}

OF_PICKLED: Final = frozenset(MODULES[target] for target in PICKLED)
ROOTS: Final = frozenset(MULTIPROCESSING)  # one is imported before any of these: loky imports multiprocessing


class Listener(NamedTuple):
    """Wrappers around the start of a child process, by target, and a function that returns the targets needed now."""

    needs: Callable[[], Set[str]]
    around: Mapping[str, Wrapper]


_listeners: Final[list[Listener]] = []


def listen(listener: Listener) -> None:
    """Call the wrappers of a listener from now on, where needed."""
    _listeners.append(listener)
    update()


def update() -> None:
    """Apply the patches needed now, and restore the others."""
    _patches.update(_needed)


def update_again() -> bool:
    """Update as ``update`` does, but without a lock; return False if a lock is needed. On the fast path."""
    needed = _needed()
    return _patches.end_again(needed) and _patches.begin_again(needed)


def of_blocks() -> tuple[Pairs, Callable[[int], object]] | None:
    """Return the patches needed now, as ``OwnPatches.of_blocks`` does."""
    return _patches.of_blocks(_needed())


def may_end_again() -> bool:
    """Return True if all patches can be restored without a lock. Asked on the fast path."""
    return _patches.may_end_again(())


def _needed() -> set[str]:
    # Others once their module is imported.
    return {target for listener in _listeners for target in listener.needs() if MODULES[target] in begun_names}


def _patch_of(target: str) -> Requested:
    def around(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
        write_notes()
        call = wrapped
        for listener in _listeners:
            if target in listener.needs():
                call = _bound(listener.around[target], call, instance)
        return call(*args, **kwargs)

    patch = wrap(target, around, why="hands patches on to child processes, and notes these", required=False)
    return Requested(patch, "hookpatch", "hookpatch")


def _bound(wrapper: Wrapper, wrapped: Callable[..., Any], instance: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: wrapper(wrapped, instance, args, kwargs)


class Launch(NamedTuple):
    """A program about to start: event, path if known, arguments, and environment if given."""

    event: str
    path: Any
    args: Any
    environment: Mapping[Any, Any] | None


reads_startup_file: Final = cache(has_startup_file)  # asked once: to ask takes longer than a block


def starts_without_us(program: str, env: Mapping[Any, Any] | None) -> bool:
    """Return True for a program of this Python's folder, if neither start-up file nor PYTHONPATH starts hookpatch."""
    if reads_startup_file():
        return False
    folder = os.path.dirname(os.path.abspath(shutil.which(program) or ""))
    if folder != os.path.dirname(sys.executable):
        return False
    return SITECUSTOMIZE not in environment.handed_on(env, "PYTHONPATH").split(os.pathsep)


NOT_STARTED: Final = (
    "this Python has no start-up file of hookpatch: install hookpatch with pip, without --target, or take hookpatch run"
)
_INTERPRETER: Final = Launch("", None, ["python", "(an interpreter of this process)"], None)
_EVENTS: Final[Mapping[str, Callable[[Any], Launch]]] = {
    "subprocess.Popen": lambda args: Launch("subprocess.Popen", args[0], args[1], args[3]),
    "os.posix_spawn": lambda args: Launch("os.posix_spawn", *args),
    EXEC: lambda args: Launch(EXEC, *args),
    "os.spawn": lambda args: Launch("os.spawn", *args[1:]),  # of Windows; others fork and replace the fork's program
    "os.system": lambda args: Launch("os.system", None, ["sh", "-c", *args], None),
    "pty.spawn": lambda args: Launch("pty.spawn", None, args[0], None),
    "cpython.PyInterpreterState_New": lambda _: _INTERPRETER,  # an event up to Python 3.12
}
hooks: Final[list[Callable[[Launch], None]]] = []
on_lost: Final[list[Callable[[str], object]]] = []  # called with the lack of a program


def lost(problem: str) -> None:
    """Report the lack of a program about to start to all listeners."""
    for listener in on_lost:
        listener(problem)


def warn_of_child(message: str) -> None:
    """Warn of the lack of a child process, at the line that starts the process."""
    warn(NotCarriedWarning(message), past=_STARTERS)


_STARTERS: Final = ("subprocess", "os", "pty", "asyncio", "concurrent", *MULTIPROCESSING)


def call_before_start(hook: Callable[[Launch], None]) -> None:
    """Call a function before each start of a program, from now on. An error of the function prevents the start."""
    if hook in hooks:
        return
    hooks.append(hook)
    if len(hooks) == 1:
        sys.addaudithook(_on_event)


def _on_event(event: str, args: Any, events: Mapping[str, Callable[[Any], Launch]] = _EVENTS) -> None:
    # First, as each event of the process comes here. A default argument lives until the interpreter's very end.
    if event in events:
        if event == "os.posix_spawn" and _getframe(1).f_globals.get("__name__") == "subprocess":
            return  # after an event of subprocess for the same program
        if _is_for_ourselves(_getframe(1)):
            return
        _call_hooks(events[event](args))


def _call_hooks(launch: Launch) -> None:
    for hook in hooks:
        hook(launch)


def _is_for_ourselves(frame: FrameType | None) -> bool:
    """Return True for a program that hookpatch starts for a look: the program must run unpatched."""
    while frame is not None and (name := frame.f_globals.get("__name__", "")).startswith(_BETWEEN):
        frame = frame.f_back
    return frame is not None and name.startswith(_LOOKING)


_BETWEEN: Final = ("subprocess", "hookpatch._processes", "hookpatch._engine", "hookpatch._session")
_LOOKING: Final = ("hookpatch._inspect", "hookpatch.command", "hookpatch.testing")

_patches: Final = OwnPatches(_patch_of, are_listed=False)
applied: Final = _patches.sessions  # by target; empty in most blocks
for _module in MODULES.values():
    imports.listen(_module, lambda _: update())
