"""Write the report file of this process.

The file is written after each import or session that changes the state of patches, and after each first call. A killed
process leaves a file that is complete up to the last change.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from threading import RLock
from types import ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import command_line, environment, imports, selection
from hookpatch._bootstrap.files import FORMAT, make_folder, write_new, write_whole
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._bootstrap.json import written_for_all
from hookpatch._bootstrap.program import INSTALLERS, MULTIPROCESSING, NOT_PATCHED, known_program
from hookpatch._bootstrap.stderr import call_at_end, of_this_process, write_line
from hookpatch._engine.site.layers import call_count
from hookpatch._processes import starts
from hookpatch._processes.payload import OpenBlock
from hookpatch._processes.programs import Command, command_of, missing, without, words_of
from hookpatch._processes.starts import EXEC, PROCESSES, PROGRAM, Launch, Listener
from hookpatch._session import ledger
from hookpatch._session.ledger import Entry
from hookpatch._session.report import PatchReport, report_of, this_process
from hookpatch._session.session import open_sessions, report, still_on
from hookpatch.errors import SettingError

_NAMED: Final = 8  # programs in a note
_LAST: Final = 9.9e10  # seconds
_NUMBERED: Final = ("os.posix_spawn", EXEC)  # events of programs that leave a report
_OURS: Final = "hookpatch"  # the distribution of our own patches, requested by no user


def write_reports_in(folder: str) -> ReportFile:
    """Return the report file of this process, ``hookpatch-<pid>.json`` in a folder; the first call begins to write."""
    global _report_file
    if _report_file is None:
        _report_file = ReportFile(folder)
        _report_file.begin()
    return _report_file


@final
class ReportFile:
    """The report file of a process. An unwritable folder causes a single warning, never a failed run."""

    def __init__(self, folder: str) -> None:
        self._is_first, self._root = environment.report_root()
        self._folder: Final = environment.report_folder() or folder  # absolute now
        self._problems: Final[list[str]] = []
        self._step: list[str] = []
        self._lock: Final = RLock()
        self._patches: Final[dict[tuple[Any, ...], tuple[PatchReport, str]]] = {}  # with the text: few change at a time
        self._started: Final[list[str]] = []  # as JSON: a process may start thousands, and writes after each start
        self._others: Final[dict[tuple[str, ...], str]] = {}  # commands that are not Python, by their first three words
        self._other_count = 0
        self._path = ""
        self._pid = 0
        self._ppid, self._began = os.getppid(), _clock_time()
        self._has_failed = False
        self._process, self._is_fork = os.getpid(), False
        self.asks = bool(selection.asked_names())  # the program may clear the environment later
        self._finalizers: Final[list[imports.Watch]] = []

    def begin(self) -> None:
        """Write the file now, and after each change."""
        ledger.listeners.append(self._note)
        call_count.on_first_call.append(self._note_calls)
        atexit.register(call_at_end, self._end)
        around = {PROGRAM: _note_popen, **dict.fromkeys(PROCESSES, _start)}
        starts.listen(Listener(lambda: around.keys(), around))
        starts.call_before_start(_note_program)
        starts.on_lost.append(self.note)
        # Forked processes of multiprocessing end without atexit, but with the finalizers of multiprocessing.util.
        for name in (f"{package}.util" for package in MULTIPROCESSING):
            self._finalizers.append(imports.watch(name, self._end_with))
            if (util := imports.loaded(name)) is not None:
                self._end_with(util)
        if hasattr(os, "register_at_fork"):
            lock = self._lock
            os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=self._fork)
        self.write()

    def started(self, pid: int | None, argv: Sequence[str], after: float = 0.0, is_program: bool = True) -> None:
        """Note a child process that runs Python, with the id if known; ``after``: the time of the start, if needed."""
        argv = command_line.for_report(argv)
        with self._lock:
            self._notice_fork()
            is_loading = bool(environment.read(environment.LOADING))
            start = {"pid": pid, "argv": argv, "after": after, "is_program": is_program, "is_loading": is_loading}
            self._started.append(written_for_all(start))
            self.write()

    def started_other(self, argv: Sequence[str]) -> None:
        """Note the start of a program that is not Python: the program may start Python without patches, unseen."""
        with self._lock:
            self._other_count += 1
            if len(self._others) < _NAMED and (key := (*argv[:3],)) not in self._others:
                self._others[key] = " ".join(command_line.for_report(argv))
                self.write()

    def replaced(self, argv: Sequence[str]) -> None:
        """Note that Python is about to run another program in this process."""
        with self._lock:
            self.started(os.getpid(), argv, _clock_time())
            self._started.pop()  # a further write of this process shows: the process was not replaced

    def note(self, problem: str) -> None:
        """Note a problem of this process, once."""
        with self._lock:
            if problem not in self._problems:
                self._problems.append(problem)
                self.write()

    def begin_step(self, step: str) -> None:
        """Note a step of this process. The note stays if os._exit or a signal ends the process during the step."""
        with self._lock:
            self._step = [f"did not get past this: {step}"]
            self.write()

    def end_step(self) -> None:
        """Delete the note of a step."""
        with self._lock:
            self._step = []
            self.write()

    def write(self, ended: bool = False) -> None:
        """Write the file anew. An error of any kind is a warning: the program may have changed what is used here."""
        with self._lock:
            try:
                self._write(ended)
            except Exception as error:
                if is_interrupt(error):
                    raise
                if not self._has_failed:
                    self._has_failed = True
                    path = os.path.join(self._folder, f"hookpatch-{os.getpid()}.json")
                    write_line(f"no report left at {path}: {getattr(error, 'strerror', None) or error}", kind="warning")

    def _write(self, ended: bool) -> None:
        self._notice_fork()
        process = {
            "format": FORMAT,
            **this_process(),
            "ppid": self._ppid,  # noted at the start: the parent may end earlier
            "forked": self._is_fork,
            "root": self._root,
            "first": self._is_first,
            "began": self._began,
            "written": _clock_time(),
            "ended": ended,
            "asked": selection.asked_names(),
            "problems": [*self._step, *self._problems],
            "notes": self._notes(),
        }
        head = written_for_all(process, indent=2).removesuffix("\n}")
        patches = ",\n    ".join(text for _, text in self._patches.values())
        lists = f'  "patches": [\n    {patches}\n  ],\n  "started": [{", ".join(self._started)}]'
        text = f'{{"processes": [{head},\n{lists}\n}}]}}\n'
        if self._path != "" and self._pid == os.getpid():
            return write_whole(self._path, text)
        if not os.path.isabs(self._folder):
            raise OSError("the current folder has been deleted")
        make_folder(self._folder)
        self._path, self._pid = self._written_as_new(text), os.getpid()

    def _notes(self) -> list[str]:
        if not self._others:
            return []
        more = ", ..." if self._other_count > len(self._others) else ""
        commands = f"{', '.join(self._others.values())}{more}"
        return [f"started other programs than Python ({commands}): hookpatch does not see which Python these start"]

    def _written_as_new(self, text: str) -> str:
        """Write a file not used by a process of another machine or another run; return the path."""
        for number in range(1, 1000):
            name = f"hookpatch-{os.getpid()}{f'-{number}' if number > 1 else ''}.json"
            if write_new(path := os.path.join(self._folder, name), text):
                return path
        raise FileExistsError(17, "a thousand files of this name")

    def _note(self, entries: Sequence[Entry]) -> None:
        with self._lock:
            on = still_on({entry.key for entry in entries if entry.state not in ("failed", "skipped")})
            if self._take_up([*report_of(entries, look=False), *on]):
                self.write()

    def _take_up(self, patches: Iterable[PatchReport]) -> bool:
        """Note the patches that have changed; return True if any has."""
        asked = (patch for patch in patches if patch.distribution != _OURS)
        latest = {(patch.plugin, patch.distribution, patch.verb, patch.target, patch.place): patch for patch in asked}
        changed = [(key, patch) for key, patch in latest.items() if self._patches.get(key, (None,))[0] != patch]
        self._patches.update((key, (patch, written_for_all(asdict(patch)))) for key, patch in changed)
        return bool(changed)

    def _note_calls(self, tally: call_count.Tally) -> None:
        entries = (entry for session in open_sessions().values() for entry in session.entries)
        self._note([entry for entry in entries if entry.tally is tally])

    def _end(self) -> None:
        with self._lock:
            self._take_up([*report(), *still_on(self._patches.keys())])
            self.write(ended=True)
        if self._is_first:
            with imports.for_ourselves():
                from hookpatch._processes.run_report import receipts  # an interpreter of its own cannot have msgspec
            with suppress(SettingError):  # no report file could be written
                write_line(*receipts(self._folder, self._root).problems, kind="warning", speaker=of_this_process())

    def _fork(self) -> None:
        self._lock.release()
        self.write()

    def _notice_fork(self) -> None:
        """Forget the child processes of the parent process. C code may fork without a call of ``_fork``."""
        if self._process == os.getpid():
            return
        self._process, self._is_fork, self._is_first = os.getpid(), True, False
        self._ppid, self._began = os.getppid(), _clock_time()
        self._started.clear()
        self._others.clear()
        self._other_count = 0
        self._step = []

    def _end_with(self, util: ModuleType) -> None:
        util.register_after_fork(self, lambda file: util.Finalize(None, call_at_end, (file._end,), exitpriority=-1000))


def _clock_time() -> float:
    """Return the time, in the range that readers of reports take: the program may have changed the clock."""
    return min(max(0.0, time.time()), _LAST)


def _start(wrapped: Callable[..., Any], process: Any, args: Any, kwargs: Any) -> Any:
    result = wrapped(*args, **kwargs)
    if _report_file is not None and _is_child_patched():
        _report_file.started(process.pid, [process.name], is_program=False)
    return result


def _note_popen(wrapped: Callable[..., Any], popen: Any, args: Any, kwargs: Any) -> Any:
    if args and isinstance(args[0], Iterator):
        args = [*args[0]], *args[1:]  # read by Popen and below
    result = wrapped(*args, **kwargs)
    command = command_of(*args[:1], **kwargs)
    if _report_file is not None:
        if words := _reporting(command):
            _report_file.started(popen.pid, words)
        elif not command.words and _is_child_patched():
            _report_file.started_other(words_of(args[0] if args else kwargs.get("args")))
    return result


def _note_program(launch: Launch) -> None:
    """Note a program started without subprocess."""
    if _report_file is None or launch.event not in (*_NUMBERED, "os.system"):
        return
    command = command_of(launch.args, launch.path)
    if not command.words:
        if _is_child_patched():
            _report_file.started_other(words_of(launch.args))
    elif launch.event == "os.system":  # the process id is unknown: only the environment shows a lack
        for _, lost, is_meant in missing(launch, _blocks_of_thread()):
            if lost is not None and not is_meant:
                _report_file.note(without(launch, lost))
    elif words := _reporting(command):
        if launch.event == EXEC:
            _report_file.replaced(words)
        else:
            _report_file.started(None, words, _clock_time())


def _reporting(command: Command) -> list[str]:
    """Return the words of a command that leaves a report when properly patched; empty for another command."""
    words = command.words if _is_child_patched() else []
    is_left_alone = known_program(command.argv) in (*INSTALLERS, *NOT_PATCHED) or not command.flags.isdisjoint("Vh?")
    is_behind = words[-1:] and words[-1].endswith("&")  # by a shell that does not wait: the child is unknown
    return [] if is_left_alone or is_behind else words


def _is_child_patched() -> bool:
    """Return True if patches are requested for a child process that this thread starts now."""
    asks = selection.asked_names() or (_report_file is not None and _report_file.asks)
    return bool(asks or _blocks_of_thread())


def _blocks_of_thread() -> list[OpenBlock]:
    children: Any = imports.loaded("hookpatch._processes.children")  # imported by the first block
    return [] if children is None else children.blocks_of_thread()


_report_file: ReportFile | None = None
