"""Errors and warnings of a scan, a probe, and an export that is scanned first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hookpatch.errors import HookpatchError, HookpatchWarning
from hookpatch_export._findings.finding import Finding


class ModelError(HookpatchError):
    """The command line names no model that hookpatch can scan or probe.

    Attributes:
        word: the argument of the command.
        problem: the reason and the remedy.
    """

    def __init__(self, word: str, problem: str) -> None:
        self.word: Final = word
        self.problem: Final = problem
        super().__init__(f"{word}: {problem}")


class FileError(HookpatchError):
    """A scan cannot write its output file.

    Attributes:
        path: the file.
        problem: the reason.
    """

    def __init__(self, path: object, problem: str) -> None:
        self.path: Final = str(path)
        self.problem: Final = problem
        super().__init__(f"{path} cannot be written: {problem}; name another file")


class ExportScanError(HookpatchError):
    """The plugin ``export_scan``, with the option ``fail``, has findings. Nothing has been exported.

    Attributes:
        call: the function that was called.
        findings: the findings, the worst first.
    """

    def __init__(self, call: str, findings: Sequence[Finding], lines: Sequence[str]) -> None:
        self.call: Final = call
        self.findings: Final = tuple(findings)
        count, pronoun = ("1 line does", "it") if len(lines) == 1 else (f"{len(lines)} lines do", "them")
        super().__init__(
            f"{call} was not run: {count} not survive it; change {pronoun}, write '# hookpatch: ignore' behind what "
            "may stay, or leave out fail=true of plugin 'export_scan'\n" + "\n".join(f"  {line}" for line in lines)
        )


class ExportWarning(HookpatchWarning):
    """A line of the model will not survive the export, or the scan could not read the line.

    Remedy: do what the message says instead; or write ``# hookpatch: ignore[shape]`` behind a line that may stay so.

    Attributes:
        call: the function that is called.
        finding: the finding; None if code could not be read.
    """

    def __init__(self, call: str, message: str, finding: Finding | None = None) -> None:
        self.call: Final = call
        self.finding: Final = finding
        super().__init__(f"{call}: {message}")
