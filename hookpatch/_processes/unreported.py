"""Find the started processes without a report file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

_Process: TypeAlias = tuple[str, int | None]  # the machine and the number of a process


def unreported(files: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each start of a process that left no report, after the report file of the starting process.

    Takes the report files of a run, in the order of their begin. A shell that starts Python leaves no report; the
    started Python names the shell as parent. A program started by os.posix_spawn has an unknown number, and is found by
    parent and arguments. A program run by os.exec has the number of the replaced process, and begins later. A fork with
    the number of a program, made for a preexec_fn, is not that program.
    """
    began: dict[_Process, float] = {(file.host, file.pid): file.began for file in files}  # the last, of several
    programs = {(file.host, file.pid): file.began for file in files if not file.forked}
    children: dict[_Process, list[Any]] = {}
    numbered = {(file.host, started.pid) for file in files for started in file.started}
    for file in reversed(files):
        children.setdefault((file.host, file.ppid), []).append(file)
    for file in files:
        unnumbered = [
            child
            for child in children.get((file.host, file.pid), ())
            if (child.host, child.pid) not in numbered and not child.forked
        ]
        for started in reversed(file.started):  # a report belongs to the last program started earlier
            if started.pid is None:
                match = next(
                    (
                        candidate
                        for candidate in unnumbered
                        if candidate.began >= started.after and _may_be_report_of(started.argv, candidate.argv)
                    ),
                    None,
                )
                if match is None:
                    yield file, started
                else:
                    unnumbered.remove(match)
                continue
            process = file.host, started.pid
            known = programs if started.is_program else began
            is_by_shell = process in children and started.pid != file.pid
            if not is_by_shell and known.get(process, -1.0) < started.after:
                yield file, started


def _may_be_report_of(command: Sequence[str], argv: Sequence[str]) -> bool:
    """Return True if a report with a command line may belong to the program of a command."""
    program, *arguments = argv or ("",)
    if arguments:
        return list(command[-len(arguments) :]) == arguments
    return command[-1] in (program, "-") or list(command[-2:-1]) in (["-m"], ["-c"])
