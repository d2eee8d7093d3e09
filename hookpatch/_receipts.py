"""What the processes of a run have left, joined: one table, and which of them are not as they should be."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, final

from hookpatch._json import parsed, written
from hookpatch._report import PatchReport
from hookpatch._tally import too_few
from hookpatch.errors import SettingError

_WHY: Final = "hookpatch was not on in it, or it was ended before it began"
_WELL: Final = ("applied", "waiting", "restored", "unlinked", "dormant", "displaced", "unused")


@final
@dataclass(frozen=True, slots=True)
class ProcessReport:
    """What one process has left. Frozen.

    Attributes:
        pid: its number, and that of the process that started it in ``ppid``.
        host: the machine that it ran on.
        rank: its number among those that a launcher started together, None if there is none.
        argv: its command line.
        began: when hookpatch began in it, in seconds since 1970; None if it left no file.
        written: when it wrote its file last: at its end, if it has ended. None likewise.
        ended: True if it ran to its end: it may run still, or have been killed.
        patches: what became of its patches, as far as it knew.
        problems: why it is not as it should be; empty if it is.
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
    """What the processes of one run have left. Iterating gives them; the text is a line a process.

    Attributes:
        processes: those that left a file, the first that began first; then those that were started and left none.
    """

    processes: tuple[ProcessReport, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """What is not as it should be, the process named."""
        return tuple(f"process {one.pid}: {problem}" for one in self.processes for problem in one.problems)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What took no effect in any of the processes, and what speaks against patches that did; each once."""
        patches: dict[tuple[str, str], list[PatchReport]] = {}
        for patch in (patch for process in self.processes for patch in process.patches):
            patches.setdefault((patch.target, _owner(patch)), []).append(patch)
        return tuple(
            f"{target} of {owner}: {said}"
            for (target, owner), of_patch in patches.items()
            for said in dict.fromkeys(_warnings(of_patch))
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it: ``{"processes": [{..., "patches": [...], "problems": [...]}], "warnings": []}``."""
        return {"processes": [asdict(process) for process in self.processes], "warnings": list(self.warnings)}

    def to_json(self) -> str:
        """Return ``to_dict`` as JSON."""
        return written(self.to_dict(), indent=2)

    def __iter__(self) -> Iterator[ProcessReport]:
        return iter(self.processes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.processes))


def receipts(folder: str | os.PathLike[str], run: str | None = None) -> RunReport:
    """Return what the processes of a run have left in the folder of ``HOOKPATCH_REPORT``.

    Args:
        folder: the folder.
        run: the run's name, which is in each file as ``root``; None for the one that wrote there last.

    Raises:
        SettingError: there is no such folder, or no file of ours in it.
    """
    left = [found for path in sorted(Path(folder).glob("hookpatch-*.json")) if (found := _read(path)) is not None]
    if not left:
        where = os.fspath(folder)
        raise SettingError(
            "report", f"no process has left one in {where}; `hookpatch run --report {where}` has them do so"
        )
    run = run or max(left, key=lambda one: one["written"])["root"]
    left = sorted((one for one in left if one["root"] == run), key=lambda one: one["began"])
    known = {(one["host"], one["pid"]) for one in left}
    first = next((one for one in left if one["first"]), left[0])
    processes = [_process(one, _problems(one, first)) for one in left]
    for one in left:
        for started in one["started"]:
            if (one["host"], started["pid"]) not in known:
                why = f"process {one['pid']} started it, and it left no report: {_WHY}"
                gone = {"pid": started["pid"], "ppid": one["pid"], "host": one["host"], "argv": started["argv"]}
                processes.append(_process({"rank": None, "ended": False, "patches": (), **gone}, [why]))
    return RunReport(tuple(processes))


def _read(path: Path) -> dict[str, Any] | None:
    """Return what a process has left; None for a file that is being written, or that is none of ours."""
    try:
        (process,) = parsed(path.read_text(encoding="utf-8"))["processes"]
        names = {field.name for field in fields(PatchReport)}
        patches = [PatchReport(**{name: patch[name] for name in names & patch.keys()}) for patch in process["patches"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {**process, "patches": patches}


def _process(left: dict[str, Any], problems: Iterable[str]) -> ProcessReport:
    return ProcessReport(
        pid=left["pid"],
        ppid=left["ppid"],
        host=left["host"],
        rank=left["rank"],
        argv=tuple(left["argv"]),
        began=left.get("began"),
        written=left.get("written"),
        ended=left["ended"],
        patches=tuple(left["patches"]),
        problems=tuple(problems),
    )


def _problems(one: dict[str, Any], first: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a process: by itself, or in comparison with the first one of the run."""
    yield from one["problems"]
    yield from filter(None, map(problem_of, one["patches"]))
    if one["asked"] != first["asked"]:
        asked, others = (", ".join(left["asked"]) or "nothing" for left in (one, first))
        yield f"its environment asks for {asked}; that of process {first['pid']} asks for {others}"
    versions = {patch.plugin: patch.distribution for patch in first["patches"]}
    for plugin in dict.fromkeys(patch.plugin for patch in one["patches"]):
        mine = next(patch.distribution for patch in one["patches"] if patch.plugin == plugin)
        if versions.get(plugin, mine) != mine:
            yield f"plugin '{plugin}' is of {mine}; in process {first['pid']} it is of {versions[plugin]}"


def problem_of(patch: PatchReport) -> str | None:
    """Return what is wrong with one patch in one process, None if nothing is."""
    return None if patch.state in _WELL else f"{patch.target} of {_owner(patch)} is {patch.state}: {patch.reason}"


def _warnings(patches: Sequence[PatchReport]) -> Iterator[str]:
    """Yield what is to be said of one patch, by what became of it in all processes."""
    was_on = [patch for patch in patches if patch.applied_at is not None]
    counted = [sum(patch.calls.values()) for patch in was_on if patch.calls is not None]
    if not was_on and all(patch.required and patch.state in ("waiting", "unused") for patch in patches):
        yield "never bound: its module was not imported"
    if counted and sum(counted) < max(1, patches[0].required_calls) and patches[0].required:
        yield too_few(sum(counted), patches[0].required_calls)
    yield from (said for patch in was_on for said in patch.warnings)


def _owner(patch: PatchReport) -> str:
    return "active()" if patch.plugin is None else f"plugin '{patch.plugin}'"
