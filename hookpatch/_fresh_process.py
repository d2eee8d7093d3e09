"""A program in a new interpreter that is patched from outside, and what it has left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from hookpatch import _environment
from hookpatch._receipts import RunReport, problem_of, receipts
from hookpatch._releases import folder_of, read_release
from hookpatch._selection import Selection
from hookpatch._variables import variables
from hookpatch.errors import SettingError

_ASKED_BY: Final = "fresh_process()"


class ProgramFailed(AssertionError):
    """A program that a test ran in a process of its own did not do what it should.

    Attributes:
        problems: what went wrong, a line each.
        output: what it wrote on stdout.
        errors: what it wrote on stderr.
    """

    def __init__(self, problems: Sequence[str], output: str, errors: str) -> None:
        super().__init__(problems, output, errors)
        self.problems: Final = tuple(problems)
        self.output: Final = output
        self.errors: Final = errors

    def __str__(self) -> str:
        said = [f"--- its {name}:\n{text.rstrip()}" for name, text in self._streams() if text.strip()]
        return "\n".join([f"the program failed: {'; '.join(self.problems)}", *said])

    def _streams(self) -> tuple[tuple[str, str], ...]:
        return ("stderr", self.errors), ("stdout", self.output)


@final
@dataclass(frozen=True, slots=True)
class Finished:
    """A program that has run to its end. Frozen.

    Attributes:
        status: its exit status; of one that a signal ended the signal's number, negative.
        output: what it wrote on stdout.
        errors: what it wrote on stderr, calls that were counted and warnings of hookpatch at its end included.
        report: what became of the patches in each of its processes; empty if no plugin was on.
    """

    status: int
    output: str
    errors: str
    report: RunReport

    def check(self) -> Finished:
        """Return it if it ended with status 0 and its report has nothing to say against it.

        That a patch with ``required=False`` was skipped is nothing against it.

        Raises:
            ProgramFailed: it ended with another status; a patch failed; one was never bound, or never called; one was
                applied with a warning; a process is not patched as the first is.
        """
        __tracebackhide__ = True  # a failing test shows its own lines, not these
        problems = [f"it ended with status {self.status}"] if self.status else []
        for process in self.report:
            optional = [patch for patch in process.patches if patch.state == "skipped" and not patch.required]
            allowed = set(map(problem_of, optional))
            problems += [f"process {process.pid}: {said}" for said in process.problems if said not in allowed]
        problems += self.report.warnings
        if problems:
            raise ProgramFailed(problems, self.output, self.errors)
        return self


@final
class FreshProcess:
    """What the fixture ``fresh_process`` gives: runs programs with plugins on. Lives as long as the test."""

    def __init__(self, new_folder: Callable[[], Path], releases: Path, release: str | None = None) -> None:
        """Make one.

        Args:
            new_folder: returns an empty folder at each call.
            releases: where releases of targets lie, and are put.
            release: the release that programs run on if no other is given.
        """
        self._new_folder: Final = new_folder
        self._releases: Final = releases
        self._release: Final = release

    def __call__(
        self,
        program: str | Path,
        *plugins: str,
        options: Mapping[str, Mapping[str, object]] | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        release: str | None = None,
        timeout: float = 120.0,
    ) -> Finished:
        """Run a program in a new interpreter, with these plugins on from outside, and wait for its end.

        Its calls are counted and each of its processes reports. Its current folder is an empty one. Of the variables of
        the test run itself it has none that begins with ``HOOKPATCH_``.

        Args:
            program: a program's text, which may be indented as a whole; or the path of its file.
            *plugins: names of installed plugins; none: the program runs unpatched, and its report is empty.
            options: options by plugin name, as JSON can hold them.
            args: its arguments.
            env: further variables of its environment; these hold before all others.
            release: a release of the target such as ``"onnxsim==0.7.3"`` that it runs on instead of the installed one:
                its wheel alone, installed into a folder of its own the first time. The default is that of the test's
                mark ``hookpatch_releases``, or what is installed.
            timeout: seconds after which it is ended.

        Raises:
            SettingError: what is given cannot be used, or the release cannot be had.
            ProgramFailed: it did not end in time.
        """
        __tracebackhide__ = True  # a failing test shows its own lines, not these
        folder = self._new_folder()
        path = _file_of(program, folder)
        release = release or self._release
        on = folder_of(read_release(release, _ASKED_BY), self._releases) if release is not None else None
        reports = folder / "reports"
        selection = Selection(plugins, _checked(options), _ASKED_BY)
        given = _environment.without_ours() | variables(selection, os.fspath(reports), count=True)
        given |= env or {}
        if on is not None:
            given["PYTHONPATH"] = os.pathsep.join(filter(None, (os.fspath(on), given.get("PYTHONPATH"))))
        current = folder / "current"
        current.mkdir()
        done = _run([sys.executable, os.fspath(path), *args], given, current, timeout)
        try:
            left = receipts(reports)
        except SettingError:  # nothing was on, or it was refused before it began: its status tells
            left = RunReport(())
        return Finished(done.returncode, done.stdout, done.stderr, left)


def _checked(options: Any) -> Mapping[str, Mapping[str, Any]]:
    if options is not None and not isinstance(options, Mapping):
        raise SettingError(_ASKED_BY, "options= takes a mapping by plugin name")
    return options or {}


def _file_of(program: object, folder: Path) -> Path:
    """Return the file of a program; of a text one that is written for it: spawned processes import their main file."""
    if isinstance(program, str):
        if program.strip().endswith(".py") and "\n" not in program.strip():
            raise SettingError(_ASKED_BY, f"'{program}' is a file's name and not a program; give pathlib.Path(...)")
        path = folder / "program" / "program.py"  # in a folder of its own, which is the first on the program's path
        path.parent.mkdir()
        path.write_text(textwrap.dedent(program), encoding="utf-8")
        return path
    if not isinstance(program, Path) or not program.is_file():
        raise SettingError(_ASKED_BY, f"there is no file {program}")
    return program.absolute()


def _run(
    command: Sequence[str], variables: Mapping[str, str], folder: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    __tracebackhide__ = True
    with subprocess.Popen(
        command,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # so that those it has started can be ended with it
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException as error:
            _end(process)
            output, errors = process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise ProgramFailed([f"it did not end within {timeout:g} s"], output, errors) from None
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _end(process: subprocess.Popen[str]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
