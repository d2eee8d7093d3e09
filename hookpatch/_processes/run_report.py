"""Join the report files of a run, and find its problems."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Final, TypeAlias, final

import msgspec

from hookpatch._bootstrap.files import FORMAT, read_ours
from hookpatch._bootstrap.json import written
from hookpatch._engine.site.layers.call_count import too_few
from hookpatch._processes.unreported import unreported
from hookpatch._session.report import PatchReport
from hookpatch.errors import SettingError, one_line

_WHY: Final = (
    "hookpatch was not active in the process, had no HOOKPATCH_REPORT there, or the process was killed before its "
    "first line"
)
_LOADING: Final = "a plugin must not run Python while plugins are loaded, so nothing was patched in the process"
_WELL: Final = ("applied", "overwritten", "waiting", "restored", "unlinked", "dormant", "displaced", "kept", "unused")


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
        written: when the report file was last written, for an ended process at the end; None without a report file.
        ended: True if the process ran to its end; a running process and a killed one are False.
        patches: the states of its patches when the file was written.
        problems: the problems of the process; mostly empty.
        notes: what hookpatch does not know of the process: programs that may start an unpatched Python.
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
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        on = sum(patch.state not in ("waiting", "unused", "failed", "skipped") for patch in self.patches)
        rank = "" if self.rank is None else f" rank {self.rank}"
        text = f"{self.pid}{rank}  {on} of {len(self.patches)} patches applied  {one_line(' '.join(self.argv))}"
        lines = [*self.problems, *(f"note {note}" for note in self.notes)]
        return "\n".join([text, *(f"    {one_line(line)}" for line in lines)])


@final
@dataclass(frozen=True, slots=True)
class RunReport:
    """The reports of all processes of a run: iterate over them; the text has a line for each process.

    Attributes:
        processes: processes with a report file, in the order of their start; then started processes without a file.
        unread: files of the folder that could not be read, each with the reason: they may belong to this run.
    """

    processes: tuple[ProcessReport, ...]
    unread: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of all processes, each with its process id; then the files that could not be read."""
        of_processes = (
            f"process {process.pid}: {problem}" for process in self.processes for problem in process.problems
        )
        return *of_processes, *self.unread

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
        """Return JSON values: ``{"processes": [{"patches": [...], ...}], "warnings": [...], "unread": [...]}``."""
        processes = [asdict(process) for process in self.processes]
        return {"processes": processes, "warnings": list(self.warnings), "unread": list(self.unread)}

    def to_json(self) -> str:
        """Return ``to_dict`` as JSON."""
        return written(self.to_dict(), indent=2)

    def __iter__(self) -> Iterator[ProcessReport]:
        return iter(self.processes)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.processes), *map(one_line, self.unread)])


_FEW: Final = 3  # files named in an error

_Time: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e11)]
_Id: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class _Started(msgspec.Struct):
    """A child process that a process has started."""

    pid: _Id | None
    argv: tuple[str, ...]
    after: _Time = 0.0
    is_program: bool = False
    is_loading: bool = False


class _Process(msgspec.Struct):
    """The content of a report file."""

    pid: _Id
    ppid: _Id | None
    host: str
    rank: int | None
    argv: tuple[str, ...]
    began: _Time
    written: _Time
    ended: bool
    root: str
    first: bool
    asked: tuple[str, ...]
    started: tuple[_Started, ...]
    problems: tuple[str, ...]
    patches: tuple[PatchReport, ...]
    forked: bool = False
    notes: tuple[str, ...] = ()


class _File(msgspec.Struct):
    processes: Annotated[tuple[_Process, ...], msgspec.Meta(min_length=1, max_length=1)]


class _Format(msgspec.Struct):
    """The version of a report file."""

    format: int = FORMAT  # files of the first version have none


class _Formats(msgspec.Struct):
    processes: Annotated[tuple[_Format, ...], msgspec.Meta(min_length=1, max_length=1)]


def receipts(folder: str | os.PathLike[str], run: str | None = None) -> RunReport:
    """Return the joined report files of a run in the folder of ``HOOKPATCH_REPORT``.

    Args:
        folder: the folder.
        run: the name of the run, in each file as ``root``; None for the run written last.

    Raises:
        SettingError: the folder does not exist, or has no report file.
    """
    where = os.fspath(folder)
    files, unread = _files_in(where)
    if not files:
        remainder = f", and {len(unread) - _FEW} more" if len(unread) > _FEW else ""
        listed = f"; {'; '.join(unread[:_FEW])}{remainder}" if unread else ""
        raise SettingError(
            "report",
            f"no process has left a report in {where}; `hookpatch run --report {where}` writes reports{listed}",
        )
    run = run or max(files, key=lambda file: file.written).root
    files = sorted((file for file in files if file.root == run), key=lambda file: file.began)
    first = next((file for file in files if file.first), files[0])
    values = {field.name for field in fields(ProcessReport)}
    processes = [
        ProcessReport(
            **{name: getattr(file, name) for name in values - {"problems"}}, problems=tuple(_problems(file, first))
        )
        for file in _without_starters(files)
    ]
    for file, started in unreported(files):
        why = _LOADING if started.is_loading else _WHY
        processes.append(_without_report(file, started, why))
    return RunReport(tuple(processes), tuple(unread))


def _files_in(folder: str) -> tuple[list[_Process], list[str]]:
    """Return the report files in a folder, and why others cannot be read."""
    files: list[_Process] = []
    unread: list[str] = []
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            return files, unread
        raise SettingError("report", f"{folder} cannot be read: {error.strerror}") from None
    for name in names:
        if name.startswith("hookpatch-") and name.endswith(".json"):
            try:
                files.append(_read(os.path.join(folder, name)))
            except FileNotFoundError:
                pass  # deleted after the listing
            except (OSError, ValueError) as error:
                problem = (isinstance(error, OSError) and error.strerror) or error
                unread.append(f"{name} is no report: {problem}; delete it, or run again with another folder")
    return files, unread


def _read(path: str) -> _Process:
    """Return the process of a report file; raise OSError or ValueError for a cut-off or foreign file."""
    content = read_ours(path)
    if not content:
        raise ValueError("the file is empty")
    try:
        (of,) = msgspec.json.decode(content, type=_Formats).processes
        if of.format != FORMAT:
            raise ValueError(
                f"the file is of another version of hookpatch (format {of.format}, this one reads {FORMAT})"
            )
        (process,) = msgspec.json.decode(content, type=_File).processes
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"the file is cut off or damaged ({error})") from None
    return process


def _without_starters(files: Sequence[_Process]) -> list[_Process]:
    """Leave out each fork replaced by a program with a report, as by os.spawnv, that has nothing else to report."""
    programs = {(file.host, file.pid, file.ppid): file.began for file in files if not file.forked}
    return [
        file
        for file in files
        if not file.forked
        or programs.get((file.host, file.pid, file.ppid), -1.0) < file.began
        or any((file.problems, file.notes, *(patch.calls for patch in file.patches)))
        or any(started.pid != file.pid for started in file.started)
    ]


def _without_report(file: _Process, started: _Started, why: str) -> ProcessReport:
    return ProcessReport(
        pid=started.pid if started.pid is not None else 0,
        ppid=file.pid,
        host=file.host,
        rank=None,
        argv=started.argv,
        began=None,
        written=None,
        ended=False,
        patches=(),
        problems=(f"process {file.pid} started this process, which left no report: {why}",),
    )


def _problems(file: _Process, first: _Process) -> Iterator[str]:
    """Yield the problems of a process: its own, and its differences from the first process of the run."""
    yield from file.problems
    yield from filter(None, map(problem_of, file.patches))
    if file.asked != first.asked:
        own_names, first_names = (", ".join(process.asked) or "nothing" for process in (file, first))
        yield f"the environment asks for {own_names}, in process {first.pid} for {first_names}"
    versions = {patch.plugin: patch.distribution for patch in first.patches}
    for plugin in dict.fromkeys(patch.plugin for patch in file.patches):
        version = next(patch.distribution for patch in file.patches if patch.plugin == plugin)
        if versions.get(plugin, version) != version:
            yield f"plugin '{plugin}' is of {version}; in process {first.pid} it is of {versions[plugin]}"


def problem_of(patch: PatchReport) -> str | None:
    """Return the problem of a patch in one process, None without a problem."""
    return None if patch.state in _WELL else f"{patch.target} of {_owner(patch)} is {patch.state}: {patch.reason}"


def _warnings(patches: Sequence[PatchReport]) -> Iterator[str]:
    """Yield the warnings of one patch, from its reports in all processes."""
    applied = [patch for patch in patches if patch.applied_at is not None]
    counted = [sum(patch.calls.values()) for patch in applied if patch.calls is not None]
    if not applied and all(patch.required and patch.state in ("waiting", "unused") for patch in patches):
        yield "was never applied: the program did not import its module"
    if counted and sum(counted) < max(1, patches[0].required_calls) and patches[0].required:
        yield too_few(sum(counted), patches[0].required_calls)
    yield from (f"overwritten: {patch.reason}" for patch in applied if patch.state == "overwritten")
    yield from (warning for patch in applied for warning in patch.warnings)


def _owner(patch: PatchReport) -> str:
    return "active()" if patch.plugin is None else f"plugin '{patch.plugin}'"
