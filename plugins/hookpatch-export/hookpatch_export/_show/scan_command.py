"""Run ``hookpatch scan``, and show the findings to a person, a program or an editor."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from hookpatch_export._findings.finding import Finding, Kind
from hookpatch_export._findings.ignore_comments import Remark, apply_ignores
from hookpatch_export._findings.spans import spans
from hookpatch_export._probe.probe import Probe
from hookpatch_export._probe.probe import probe as run_probe
from hookpatch_export._scan.scan import scan
from hookpatch_export._show.format import relative_path
from hookpatch_export._show.json import as_json
from hookpatch_export._show.named_model import NamedModel, find_model
from hookpatch_export._show.probe_text import probe_json, probe_lines
from hookpatch_export._show.sarif import as_sarif
from hookpatch_export._show.text import print_lines, report, width_of
from hookpatch_export.errors import FileError, ModelError

BUDGET: Final = 60.0  # seconds of search
FOUND: Final = 1  # the exit status when something at or above --fail-on was found


class Level(StrEnum):
    """The kinds by name, for ``--level``."""

    DATA = "data"
    SHAPE = "shape"
    NOT_READ = "not-read"
    CALL = "call"
    CONFIG = "config"
    SAFE = "safe"


class FailOn(StrEnum):
    """The kinds for ``--fail-on``."""

    DATA = "data"
    SHAPE = "shape"
    CONFIG = "config"


def scan_command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="package.module:Model or path/to/file.py:Model; a class, a module, or a function that returns a "
            "module, (module, inputs) or (module, inputs, keywords).",
        ),
    ],
    root: Annotated[
        Path | None,
        typer.Option("--root", metavar="DIR", help="The folder from which the model's package is imported."),
    ] = None,
    as_json_: Annotated[
        bool, typer.Option("--json", help="Print JSON: all findings, unless --level is given.")
    ] = False,
    sarif: Annotated[
        Path | None, typer.Option("--sarif", metavar="FILE", help="Write SARIF 2.1.0, for editors and CI.")
    ] = None,
    fail_on: Annotated[
        FailOn | None, typer.Option("--fail-on", help="End with status 1 at a finding of this kind, or a worse kind.")
    ] = None,
    level: Annotated[
        Level | None, typer.Option("--level", help="Show findings of this kind and worse kinds; default: call.")
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Show each finding in full, also in libraries, in the order of the scan."),
    ] = False,
    probe: Annotated[
        bool, typer.Option("--probe", help="Export the model, and search for inputs with other answers.")
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option("--budget", metavar="SECONDS", min=0.0, help="Time limit for the search of --probe; default: 60."),
    ] = None,
) -> None:
    """List the lines of a model that break in an export, or are frozen in silence.

    Example: hookpatch scan models/net.py:Net --root . --fail-on shape
    """
    subject = find_model(model, root)
    if probe and (isinstance(subject.model, type) or subject.inputs is None):
        raise ModelError(model, "--probe needs inputs; name a function that returns (module, inputs)")
    if budget is not None and not probe:
        raise ModelError(model, "--budget is how long --probe may look for inputs; give --probe, too")
    all_findings = scan(subject.model, root=root, inputs=subject.inputs, keywords=subject.keywords or None)
    findings, remarks = apply_ignores(all_findings, spans(subject.model, all_findings))
    for remark in remarks:
        sys.stderr.write(f"hookpatch: {relative_path(remark.file)}:{remark.line}: {remark.text}\n")
    probed = _probed(subject, all_findings, BUDGET if budget is None else budget) if probe else None
    _show(model, findings, remarks, len(all_findings) - len(findings), as_json_, sarif, level, probed, everything)
    failed = any(finding.kind >= _kind(fail_on) for finding in findings) if fail_on is not None else False
    if failed or (fail_on is not None and probed is not None and probed.disagreements):
        raise typer.Exit(FOUND)


def _probed(subject: NamedModel, findings: Sequence[Finding], budget: float) -> Probe:
    files = {file for file, _, _ in spans(subject.model, findings)}
    return run_probe(subject.word, subject.model, subject.inputs or (), subject.keywords, findings, files, budget)


def _show(
    model: str,
    findings: Sequence[Finding],
    remarks: Sequence[Remark],
    silenced: int,
    as_json_: bool,
    sarif: Path | None,
    level: Level | None,
    probed: Probe | None,
    everything: bool,
) -> None:
    if sarif is not None:
        shown = [finding for finding in findings if finding.kind >= _kind(level or Level.CALL)]
        _write(sarif, as_sarif(shown, remarks, Path.cwd()))
    if as_json_:
        shown = [finding for finding in findings if finding.kind >= _kind(level or Level.SAFE)]
        probe_entry = {} if probed is None else {"probe": probe_json(probed)}
        typer.echo(json.dumps({"findings": as_json(shown), **probe_entry}, indent=2))
    else:
        console = Console(highlight=False)
        width = width_of(console)
        print_lines(report(findings, _kind(level or Level.CALL), silenced, model, width, everything), console)
        if probed is not None:
            print_lines(probe_lines(probed, width), console)


def _kind(word: Level | FailOn) -> Kind:
    return next(kind for kind in Kind if str(kind) == word.value)


def _write(path: Path, document: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise FileError(path, error.strerror or str(error)) from None
