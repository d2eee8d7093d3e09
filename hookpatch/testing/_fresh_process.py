"""Run a program in a new interpreter with plugins on; collect its output and its report files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from hookpatch._bootstrap import environment
from hookpatch._bootstrap.selection import Selection
from hookpatch._inspect.releases import folder_of, read_release
from hookpatch._plugins.variables import variables
from hookpatch._processes.run_report import RunReport, problem_of, receipts
from hookpatch.errors import SettingError

_ASKED_BY: Final = "fresh_process()"


class ProgramFailed(AssertionError):
    """A program that a test has run in a new process failed.

    Attributes:
        problems: a line for each problem.
        output: the program's stdout.
        errors: the program's stderr.
    """

    def __init__(self, problems: Sequence[str], output: str, errors: str) -> None:
        super().__init__(problems, output, errors)
        self.problems: Final = tuple(problems)
        self.output: Final = output
        self.errors: Final = errors

    def __str__(self) -> str:
        streams = ("stderr", self.errors), ("stdout", self.output)
        texts = [f"--- its {name}:\n{text.rstrip()}" for name, text in streams if text.strip()]
        return "\n".join([f"the program failed: {'; '.join(self.problems)}", *texts])


@final
@dataclass(frozen=True, slots=True)
class Finished:
    """A program that has ended. Frozen.

    Attributes:
        status: the exit status; after a signal the negative number of the signal.
        output: the program's stdout.
        errors: the program's stderr, with the counted calls and the warnings of hookpatch.
        report: the result of each patch in each process of the program; empty if no plugin was on.
    """

    status: int
    output: str
    errors: str
    report: RunReport

    def check(self) -> Finished:
        """Return the finished program if its status is 0 and its report contains no problem.

        A skipped patch with ``required=False`` is no problem.

        Raises:
            ProgramFailed: the status is not 0; a patch failed, was never applied, was never called, or was applied with
                a warning; a process has other patches than the first process.
        """
        __tracebackhide__ = True  # a failing test shows its own lines, not these
        problems = [f"the process ended with status {self.status}"] if self.status else []
        for process in self.report:
            optional = [patch for patch in process.patches if patch.state == "skipped" and not patch.required]
            allowed = set(map(problem_of, optional))
            problems += [f"process {process.pid}: {text}" for text in process.problems if text not in allowed]
        problems += self.report.warnings
        if problems:
            raise ProgramFailed(problems, self.output, self.errors)
        return self


@final
class FreshProcess:
    """The type of the fixture ``fresh_process``: runs programs with plugins on. Lives as long as the test."""

    def __init__(self, new_folder: Callable[[], Path], releases: Path, release: str | None = None) -> None:
        """Create a runner; ``new_folder`` returns an empty folder, ``releases`` is a folder for installed releases."""
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
        """Run a program in a new interpreter with plugins on, and wait for its end.

        hookpatch counts calls, and each process writes a report file. The current folder is empty. Of the test run's
        variables the program gets all but those with the prefix ``HOOKPATCH_``.

        Args:
            program: the source of a program, indented or not; or the path of a file.
            *plugins: names of installed plugins. Without plugins the program runs unpatched, and its report is empty.
            options: options by plugin name, of types in JSON.
            args: arguments of the program.
            env: further environment variables; override all others.
            release: a release of the target, such as ``"onnxsim==0.7.3"``, instead of the installed release. The wheel
                is installed without dependencies, once. Default: the release from the test's mark
                ``hookpatch_releases``, else the installed release.
            timeout: seconds; a longer program is killed.

        Raises:
            SettingError: an argument is invalid, or the release cannot be installed.
            ProgramFailed: the program did not end in time.
        """
        __tracebackhide__ = True  # a failing test shows its own lines, not these
        folder = self._new_folder()
        path = _file_of(program, folder)
        release = release or self._release
        wheel = folder_of(read_release(release, _ASKED_BY), self._releases) if release is not None else None
        reports = folder / "reports"
        if options is not None and not isinstance(options, Mapping):
            raise SettingError(_ASKED_BY, "options= takes a mapping by plugin name")
        selection = Selection(plugins, options or {}, _ASKED_BY)
        all_variables = environment.without_ours() | variables(selection, os.fspath(reports), count=True)
        all_variables |= env or {}
        if wheel is not None:
            all_variables["PYTHONPATH"] = os.pathsep.join(
                filter(None, (os.fspath(wheel), all_variables.get("PYTHONPATH")))
            )
        current = folder / "current"
        current.mkdir()
        completed = _run_command([sys.executable, os.fspath(path), *args], all_variables, current, timeout)
        try:
            report = receipts(reports)
        except SettingError:  # no report file: no plugin was on, or hookpatch refused to start the program
            report = RunReport(())
        return Finished(completed.returncode, completed.stdout, completed.stderr, report)


def _file_of(program: object, folder: Path) -> Path:
    """Return the file of a program; writes a text into a file, as spawned processes import their main file."""
    if isinstance(program, str):
        if program.strip().endswith(".py") and "\n" not in program.strip():
            raise SettingError(_ASKED_BY, f"'{program}' is a file's name and not a program; give pathlib.Path(...)")
        path = folder / "program" / "program.py"  # the folder is first on the program's path
        path.parent.mkdir()
        path.write_text(textwrap.dedent(program), encoding="utf-8")
        return path
    if not isinstance(program, Path) or not program.is_file():
        raise SettingError(_ASKED_BY, f"there is no file {program}")
    return program.absolute()


def _run_command(
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
        start_new_session=True,  # a process group: child processes are killed with the program
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException as error:
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise ProgramFailed([f"it did not end within {timeout:g} s"], output, errors) from None
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
