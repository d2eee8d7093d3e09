"""Record a program from the start: note each module at the end of the module's execution, compare at the program's end.

``hookpatch audit`` puts the folder ``_sitecustomize`` on PYTHONPATH. The only file of the folder calls ``start``.
"""

from __future__ import annotations

import atexit
import os
import sys
from time import perf_counter
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import environment, imports
from hookpatch._bootstrap.json import written  # now: the program may break imports
from hookpatch._inspect.audit.compare import Comparison
from hookpatch._inspect.audit.finding import Audit
from hookpatch._inspect.audit.snapshot import Snapshot

_SHARE: Final = 200  # a look takes at most a two-hundredth of the time since the last look
_EXCEPT: Final = ("hookpatch", "__main__", "sitecustomize")
_KEPT: Final = (open, os.replace)  # the program may have patched both by its end, even under names of this module
running: Final[list[Recorder]] = []  # the recorder of this process, if any


def start() -> None:
    """Begin to record, if the environment asks for a record; child processes are not recorded."""
    if (request := environment.take_audit()) is not None and not running:
        recorder = Recorder(with_entries=request[1])
        running.append(recorder)
        recorder.begin()
        atexit.register(_finish, os.getpid(), *request)


def _finish(process: int, file: str, everything: bool) -> None:
    """Write the audit into a file: whole, or not at all."""
    if os.getpid() != process:
        return  # a forked child process
    audit = running[0].audit(everything)
    write, rename = _KEPT
    with write(f"{file}.part", "w", encoding="utf-8") as part:
        part.write(written(audit.to_dict(), indent=2))
    rename(f"{file}.part", file)


@final
class Recorder:
    """A snapshot that grows with each import, and the time at which each change was first seen.

    Args:
        with_entries: True to note the entries of dictionaries, too.
    """

    def __init__(self, with_entries: bool = False) -> None:
        self.snapshot: Final = Snapshot(with_entries)
        self.when: Final[dict[tuple[int, str], str]] = {}
        self.seconds = 0.0
        self._last = "the start"
        self._look_took = 0.0
        self._looked_at = perf_counter()

    def begin(self) -> None:
        """Note all imported modules, and each module imported from now on."""
        begun = perf_counter()
        for name, module in imports.modules():
            self._note_module(name, module)

        def hear(event: str, arguments: tuple[Any, ...]) -> None:  # Python calls a bound method four times as slowly
            if event == "object.__setattr__":
                self._hear(arguments, sys._getframe(1))

        sys.addaudithook(hear)
        self.seconds += perf_counter() - begun
        imports.watch(imports.ANY, self._arrival)

    def _arrival(self, module: ModuleType) -> None:
        begun = perf_counter()
        name = getattr(module, "__dict__", {}).get("__name__") if issubclass(type(module), ModuleType) else None
        if type(name) is str:
            if not self._note_module(name, module):
                return
            if begun - self._looked_at > _SHARE * self._look_took:
                self.note_changes(f"between {self._last} and the import of {name}")
                self._last = f"the import of {name}"
        self.seconds += perf_counter() - begun

    def _note_module(self, name: str, module: ModuleType) -> bool:
        """Note a module; for the program itself and for hookpatch note nothing and return False."""
        if name.partition(".")[0] in _EXCEPT:
            return False
        self.snapshot.note_module(name, module)
        return True

    def note_changes(self, when: str) -> None:
        """Note each change not seen by an earlier look."""
        begun = perf_counter()
        for change in self.snapshot.changes(self.snapshot.owners()):
            self.when.setdefault((id(change.owner), change.name), when)
        self._looked_at = perf_counter()
        self._look_took = self._looked_at - begun

    def _hear(self, arguments: tuple[Any, ...], frame: FrameType) -> None:
        """Note the statement that sets the code of a function. Called for each attribute set that Python audits."""
        if len(arguments) == 3 and arguments[1] == "__code__":
            function, _, code = arguments
            if type(function) is FunctionType and type(code) is CodeType:
                self.snapshot.note_code(function, f"{frame.f_code.co_filename}:{frame.f_lineno}")

    def audit(self, everything: bool = False) -> Audit:
        """Return the present patches of the process."""
        begun = perf_counter()
        self.note_changes(f"after {self._last}")
        findings = Comparison(self.snapshot, self.when, everything).findings()
        return Audit(tuple(findings), True, len(self.snapshot.modules), (self.seconds, perf_counter() - begun))
