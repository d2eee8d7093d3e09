"""What a process leaves behind: one JSON file when a report was asked for, and calls when they were counted.

The file is written whenever a patch has got into another state or receives its first call: a process that is killed has
left what it knew by then.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, Final, final

from hookpatch import _environment, _imports, _ledger, _selection, _tally
from hookpatch._json import written
from hookpatch._ledger import Asked, Entry
from hookpatch._missed import never_called
from hookpatch._patch import wrap
from hookpatch._python_command import python_command
from hookpatch._receipts import receipts
from hookpatch._report import PatchReport, report_of, this_process
from hookpatch._session import Session, open_sessions, report
from hookpatch._stderr import of_this_process, say
from hookpatch.errors import NeverCalledWarning, SettingError, for_stderr

_OURS: Final = "hookpatch"  # patches of this distribution are not what anybody asked for


def tell_calls_at_exit(session: Session) -> None:
    """Say on stderr what the patches of a session were called, when this process ends."""
    atexit.register(_tell_calls, session)


def _tell_calls(session: Session) -> None:
    """Write a line for each patch that was counted, and one for each that was required and never called."""
    counted = [patch for patch in session.report() if patch.calls]
    lines = (f"{patch.target} ({patch.plugin}): {patch.calls_in_words}" for patch in counted)
    say(*lines, who=of_this_process())
    warnings = map(NeverCalledWarning, never_called(session.entries))
    say(*map(for_stderr, warnings), kind="warning", who=of_this_process())


def leave_in(folder: str) -> Receipt:
    """Leave ``hookpatch-<pid>.json`` in the folder, from now on until this process ends; return it, made once."""
    global _receipt
    if _receipt is None:
        _receipt = Receipt(folder)
        _receipt.begin()
    return _receipt


@final
class Receipt:
    """The file of one process. A folder that cannot be written is one warning, never a failed run."""

    def __init__(self, folder: str) -> None:
        self._folder: Final = Path(folder).absolute()
        self._is_first, self._root = _environment.report_root()
        self._problems: Final[list[str]] = []
        self._lock: Final = RLock()
        self._patches: Final[dict[tuple[Any, ...], PatchReport]] = {}
        self._started: Final[list[dict[str, Any]]] = []
        self._path: Path | None = None
        self._pid = 0
        self._ppid, self._began = os.getppid(), time.time()
        self._has_failed = False
        self._launches: Session | None = None
        self._finalizers: _imports.Watch | None = None

    def begin(self) -> None:
        """Write it now, and whenever there is something new."""
        _ledger.listeners.append(self._note)
        _tally.on_first_call.append(self._note_calls)
        atexit.register(self._end)
        patches = [wrap(target, around, why="notes what is started", required=False) for target, around in _LAUNCHES]
        self._launches = Session([Asked(patch, _OURS, _OURS) for patch in patches], is_listed=False).open()
        # Forked processes of multiprocessing end without atexit: they run finalizers of their own.
        self._finalizers = _imports.watch("multiprocessing.util", self._end_with)
        if (util := _imports.loaded("multiprocessing.util")) is not None:
            self._end_with(util)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._fork
            )
        self.write()

    def started(self, pid: int | None, argv: Sequence[str]) -> None:
        """Note a Python process that this one has started."""
        with self._lock:
            self._started.append({"pid": pid, "argv": list(argv)})
            self.write()

    def say(self, problem: str) -> None:
        """Note what has gone wrong in this process."""
        with self._lock:
            self._problems.append(problem)
            self.write()

    def write(self, ended: bool = False) -> None:
        """Write what is known, in the place of what was written before."""
        with self._lock:
            process = {
                **this_process(),
                "ppid": self._ppid,  # as it was: the parent may end earlier
                "root": self._root,
                "first": self._is_first,
                "began": self._began,
                "written": time.time(),
                "ended": ended,
                "asked": _selection.asked_names(),
                "started": self._started,
                "problems": self._problems,
                "patches": [asdict(patch) for patch in self._patches.values()],
            }
            text = written({"processes": [process]}, indent=2) + "\n"
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                if self._path is None or self._pid != os.getpid():
                    self._path, self._pid = self._unused(), os.getpid()
                unfinished = self._path.with_suffix(".unfinished")
                unfinished.write_text(text, encoding="utf-8")
                os.replace(unfinished, self._path)
            except OSError as error:
                if not self._has_failed:
                    self._has_failed = True
                    path = self._folder / f"hookpatch-{os.getpid()}.json"
                    say(f"no report left at {path}: {error.strerror}", kind="warning")

    def _unused(self) -> Path:
        """Return a name that no other process has: of another machine, or of another run."""
        names = [f"hookpatch-{os.getpid()}", *(f"hookpatch-{os.getpid()}-{number}" for number in range(2, 1000))]
        for name in names:
            path = self._folder / f"{name}.json"
            try:
                path.touch(exist_ok=False)
            except FileExistsError:
                continue
            return path
        raise FileExistsError(17, "a thousand files of this name")

    def _note(self, entries: Sequence[Entry]) -> None:
        """Take up what has become of some patches; those of ours are not what anybody asked for."""
        with self._lock:
            before = dict(self._patches)
            self._take_up(report_of(entries, look=False))
            if self._patches != before:
                self.write()

    def _take_up(self, patches: Iterable[PatchReport]) -> None:
        for patch in patches:
            if patch.distribution != _OURS:
                self._patches[patch.plugin, patch.distribution, patch.verb, patch.target, patch.place] = patch

    def _note_calls(self) -> None:
        for session in open_sessions().values():
            session.tell()

    def _end(self) -> None:
        with self._lock:
            self._take_up(report())
            self.write(ended=True)
        if self._is_first:
            with suppress(SettingError):  # it could not be written
                say(*receipts(self._folder, self._root).problems, kind="warning", who=of_this_process())

    def _fork(self) -> None:
        self._lock.release()
        self._is_first, self._ppid, self._began = False, os.getppid(), time.time()
        self._started.clear()
        self.write()

    def _end_with(self, util: ModuleType) -> None:
        util.register_after_fork(self, lambda receipt: util.Finalize(None, receipt._end, exitpriority=-1000))


def _start(wrapped: Callable[..., Any], process: Any, args: Any, kwargs: Any) -> Any:
    done = wrapped(*args, **kwargs)
    if _receipt is not None:
        _receipt.started(process.pid, [process.name])
    return done


def _run(wrapped: Callable[..., Any], popen: Any, args: Any, kwargs: Any) -> Any:
    done = wrapped(*args, **kwargs)
    words = python_command(*args[:1], **kwargs)
    if _receipt is not None and words and words[1:3] not in (["-m", "pip"], ["-m", "ensurepip"]):
        _receipt.started(popen.pid, words)
    return done


_LAUNCHES: Final = (("multiprocessing.process:BaseProcess.start", _start), ("subprocess:Popen.__init__", _run))
_receipt: Receipt | None = None
