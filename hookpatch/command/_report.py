"""``hookpatch report``: print the report files of a run, process by process."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from hookpatch._processes.run_report import receipts
from hookpatch._session.report import PatchReport
from hookpatch.command._app import AsJson
from hookpatch.command._tables import print_line
from hookpatch.errors import SettingError, one_line

_STYLES = {
    **dict.fromkeys(("applied", "restored"), "green"),
    **dict.fromkeys(("failed", "skipped"), "red"),
    **dict.fromkeys(("overwritten", "dormant", "displaced", "unlinked", "kept"), "yellow"),
}


def report(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The folder of --report or HOOKPATCH_REPORT.")],
    json: AsJson = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the report as a page, too; the page needs no network."),
    ] = None,
) -> None:
    """Print the report of a run, joined from the files of its processes.

    Shows the state of each patch in each process of the last run.

    Ends with status 1 if a process is unpatched, or has other patches than the first process.

    Example: hookpatch run -p fuse_qkv_off --report reports export.py; hookpatch report reports
    """
    run = receipts(folder)
    if html is not None:
        from hookpatch._processes.run_page import page_of  # here: few ask for a page

        page = page_of(run)
        try:
            html.write_text(page, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise SettingError("--html", f"{html} cannot be written: {error.strerror}") from None
    if json:
        typer.echo(run.to_json())
    else:
        for warning in run.warnings:
            print_line(("warning", "yellow"), (f" {one_line(warning)}", ""))
        for file in run.unread:
            print_line((one_line(file), "red"))
        for process in run:
            rank = "" if process.rank is None else f", rank {process.rank}"
            title = f"{process.pid}{rank}" + ("" if process.ended else ", no end noted")
            print_line((title, "bold"), (f"  {one_line(shlex.join(process.argv))}", ""))
            for problem in process.problems:
                print_line((one_line(problem), "red"), indent=2)
            for note in process.notes:
                print_line((one_line(f"note {note}"), "dim"), indent=2)
            for patch in process.patches:
                _print_patch(patch)
    if run.problems:
        raise typer.Exit(1)


def _print_patch(patch: PatchReport) -> None:
    line = [(f"{one_line(patch.state):<9}", _STYLES.get(patch.state, ""))]
    line += [(one_line(f" {patch.verb:<7} {patch.target}"), "")]
    line += [(f"  ({one_line(patch.plugin or 'active()')})", "bold")]
    if patch.calls is not None:
        line.append((f"  {one_line(patch.calls_in_words)}", ""))
    print_line(*line, indent=2)
    if patch.reason is not None and patch.state not in ("failed", "skipped"):  # already printed among the problems
        print_line((one_line(patch.reason), "dim"), indent=12)
    for note in patch.notes:
        print_line((one_line(f"note {note}"), "dim"), indent=12)
    if patch.reasons:
        print_line((one_line(f"why {patch.reasons}"), "dim"), indent=12)
