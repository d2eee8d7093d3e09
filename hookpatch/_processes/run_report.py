"""Join the report files of a run, and find its problems."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, final

from hookpatch._bootstrap.json import parsed, written
from hookpatch._engine.site.call_count import too_few
from hookpatch._session.report import PatchReport
from hookpatch.errors import SettingError

_WHY: Final = "hookpatch was not on in it, or it was ended before it began"
_WELL: Final = ("applied", "overwritten", "waiting", "restored", "unlinked", "dormant", "displaced", "unused")


@final
@dataclass(frozen=True, slots=True)
class ProcessReport:
    """The report of one process. Frozen.

    Attributes:
        pid: the process id.
        ppid: the id of the parent process.
        host: the name of the machine.
        rank: the number of the process among the processes of a launcher, None without a launcher.
        argv: the command line.
        began: the start of hookpatch in the process, in seconds since 1970; None without a report file.
        written: when the report file was last written: at the end of the process, if it has ended. None likewise.
        ended: True if the process ran to its end; a running process and a killed one are False.
        patches: the states of its patches when the file was written.
        problems: the problems of the process; mostly empty.
    """

    pid: int
    ppid: int | None
    host: str
    rank: int | None
    argv: tuple[str, ...]
    began: float | None
    written: float | None
    ended: bool
    patches: tuple[PatchReport, ...]
    problems: tuple[str, ...]

    def __str__(self) -> str:
        on = sum(patch.state not in ("waiting", "unused", "failed", "skipped") for patch in self.patches)
        rank = "" if self.rank is None else f" rank {self.rank}"
        text = f"{self.pid}{rank}  {on} of {len(self.patches)} patches applied  {' '.join(self.argv)}"
        return "\n".join([text, *(f"    {problem}" for problem in self.problems)])


@final
@dataclass(frozen=True, slots=True)
class RunReport:
    """The reports of all processes of a run: iterate over them; the text has a line for each process.

    Attributes:
        processes: processes with a report file, in the order of their start; then started processes without a file.
    """

    processes: tuple[ProcessReport, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of all processes, each with its process id."""
        return tuple(f"process {process.pid}: {problem}" for process in self.processes for problem in process.problems)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Patches without effect in any process, overwritten slots, and the warnings of applied patches; each once."""
        patches: dict[tuple[str, str], list[PatchReport]] = {}
        for patch in (patch for process in self.processes for patch in process.patches):
            patches.setdefault((patch.target, _owner(patch)), []).append(patch)
        return tuple(
            f"{target} of {owner}: {warning}"
            for (target, owner), of_patch in patches.items()
            for warning in dict.fromkeys(_warnings(of_patch))
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values: ``{"processes": [{"patches": [...], "problems": [...], ...}], "warnings": [...]}``."""
        return {"processes": [asdict(process) for process in self.processes], "warnings": list(self.warnings)}

    def to_json(self) -> str:
        """Return ``to_dict`` as JSON."""
        return written(self.to_dict(), indent=2)

    def __iter__(self) -> Iterator[ProcessReport]:
        return iter(self.processes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.processes))


def receipts(folder: str | os.PathLike[str], run: str | None = None) -> RunReport:
    """Return the joined report files of a run in the folder of ``HOOKPATCH_REPORT``.

    Args:
        folder: the folder.
        run: the name of the run, in each file as ``root``; None for the run written last.

    Raises:
        SettingError: the folder does not exist, or has no report file.
    """
    files = [file for path in sorted(Path(folder).glob("hookpatch-*.json")) if (file := _read(path)) is not None]
    if not files:
        where = os.fspath(folder)
        raise SettingError(
            "report", f"no process has left one in {where}; `hookpatch run --report {where}` has them do so"
        )
    run = run or max(files, key=lambda file: file["written"])["root"]
    files = sorted((file for file in files if file["root"] == run), key=lambda file: file["began"])
    reported = {(file["host"], file["pid"]) for file in files}
    first = next((file for file in files if file["first"]), files[0])
    processes = [_process(file, _problems(file, first)) for file in files]
    for file in files:
        for started in file["started"]:
            if (file["host"], started["pid"]) not in reported:
                why = f"process {file['pid']} started it, and it left no report: {_WHY}"
                missing = {**started, "ppid": file["pid"], "host": file["host"], "rank": None, "ended": False}
                processes.append(_process({"patches": (), **missing}, [why]))
    return RunReport(tuple(processes))


def _read(path: Path) -> dict[str, Any] | None:
    """Return the process of a report file; None for an unfinished or foreign file."""
    try:
        (process,) = parsed(path.read_text(encoding="utf-8"))["processes"]
        names = {field.name for field in fields(PatchReport)}
        patches = [PatchReport(**{name: patch[name] for name in names & patch.keys()}) for patch in process["patches"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {**process, "patches": patches}


def _process(file: dict[str, Any], problems: Iterable[str]) -> ProcessReport:
    values: dict[str, Any] = {field.name: file.get(field.name) for field in fields(ProcessReport)}
    values |= {name: tuple(file[name]) for name in ("argv", "patches")}
    return ProcessReport(**values | {"problems": tuple(problems)})


def _problems(file: dict[str, Any], first: dict[str, Any]) -> Iterator[str]:
    """Yield the problems of a process: its own, and its differences from the first process of the run."""
    yield from file["problems"]
    yield from filter(None, map(problem_of, file["patches"]))
    if file["asked"] != first["asked"]:
        asked, others = (", ".join(process["asked"]) or "nothing" for process in (file, first))
        yield f"its environment asks for {asked}; that of process {first['pid']} asks for {others}"
    versions = {patch.plugin: patch.distribution for patch in first["patches"]}
    for plugin in dict.fromkeys(patch.plugin for patch in file["patches"]):
        version = next(patch.distribution for patch in file["patches"] if patch.plugin == plugin)
        if versions.get(plugin, version) != version:
            yield f"plugin '{plugin}' is of {version}; in process {first['pid']} it is of {versions[plugin]}"


def problem_of(patch: PatchReport) -> str | None:
    """Return the problem of a patch in one process, None without a problem."""
    return None if patch.state in _WELL else f"{patch.target} of {_owner(patch)} is {patch.state}: {patch.reason}"


def _warnings(patches: Sequence[PatchReport]) -> Iterator[str]:
    """Yield the warnings of one patch, from its reports in all processes."""
    was_on = [patch for patch in patches if patch.applied_at is not None]
    counted = [sum(patch.calls.values()) for patch in was_on if patch.calls is not None]
    if not was_on and all(patch.required and patch.state in ("waiting", "unused") for patch in patches):
        yield "was never applied: the program did not import its module"
    if counted and sum(counted) < max(1, patches[0].required_calls) and patches[0].required:
        yield too_few(sum(counted), patches[0].required_calls)
    yield from (f"overwritten: {patch.reason}" for patch in was_on if patch.state == "overwritten")
    yield from (warning for patch in was_on for warning in patch.warnings)


def _owner(patch: PatchReport) -> str:
    return "active()" if patch.plugin is None else f"plugin '{patch.plugin}'"
