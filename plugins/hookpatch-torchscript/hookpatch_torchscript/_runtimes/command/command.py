"""The command ``hookpatch runtimes``: measure and compare the modes that run a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from hookpatch_torchscript._runtimes.command.arguments import modes_of, settings_of
from hookpatch_torchscript._runtimes.command.rounds import compare
from hookpatch_torchscript._runtimes.jobs.job import EAGER, MODES, TORCHSCRIPT, Plan, Setting
from hookpatch_torchscript._runtimes.jobs.requirements import without_torchscript
from hookpatch_torchscript._runtimes.jobs.result import Comparison
from hookpatch_torchscript._runtimes.show import figures
from hookpatch_torchscript._runtimes.show.json import as_json
from hookpatch_torchscript._runtimes.show.plot import check, draw
from hookpatch_torchscript._runtimes.show.table import console, show
from hookpatch_torchscript.errors import RuntimesError

FAILED: Final = 1  # the exit status if a mode's answer is not eager's, or a requested mode failed

Tell = Callable[[Comparison], None]


def runtimes_command(
    factory: Annotated[
        str,
        typer.Argument(
            metavar="FACTORY",
            help="module:function or path/to/file.py:function; called with a batch size it returns (model, inputs) or "
            "(model, inputs, keywords).",
        ),
    ],
    modes: Annotated[str | None, typer.Option("--modes", metavar="A,B", help=f"Default: {', '.join(MODES)}.")] = None,
    device: Annotated[str, typer.Option("--device", metavar="A,B", help="cpu, cuda.")] = "cpu",
    batch: Annotated[str, typer.Option("--batch", metavar="A,B", help="Batch sizes.")] = "1",
    dtype: Annotated[str, typer.Option("--dtype", metavar="A,B", help="float32, bfloat16, float16.")] = "float32",
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", min=1, help="Number of threads; default: torch's choice.")
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0.01, help="Time for each mode in each round.")
    ] = 2.0,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, help="Rounds over all modes, each in new processes.")
    ] = 1,
    as_json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw a picture, .svg or .png.")] = None,
) -> None:
    """Measure a model in each mode that runs it, check each answer against eager's, and say why another mode does not.

    Example: hookpatch runtimes hookpatch_torchscript.models:resnet_small --batch 1,8
    """
    plan = Plan(factory, modes_of(modes), threads, seconds, repeat)
    settings = settings_of(device, dtype, batch)
    if plot is not None:
        check(plot)
    out = console()
    tell: Tell = (lambda _: None) if as_json_ else (lambda comparison: show(comparison, out))
    comparisons, refused = _comparisons(plan, settings, tell)
    notes = [*left_out(plan.modes, sys.version_info[:2]), *refused]
    for note in notes:
        sys.stderr.write(f"hookpatch: {note}\n")
    if as_json_:
        typer.echo(json.dumps(as_json(plan, comparisons, notes), indent=2))
    elif comparisons:
        out.print(Text(f"\n{figures.on(comparisons[0].machine)}", style="dim"), soft_wrap=not out.is_terminal)
    if plot is not None:
        draw(plot, factory, [(str(comparison.setting), comparison) for comparison in comparisons])
    raise typer.Exit(status_of(comparisons, are_modes_named=modes is not None))


def left_out(modes: Sequence[str], python: tuple[int, ...]) -> list[str]:
    """Return a line for the modes that a Python lacks, none if it has all modes."""
    without = [mode for mode in modes if mode in TORCHSCRIPT]
    why = without_torchscript(python)
    return [f"{', '.join(without)} left out: {why}"] if why and without else []


def status_of(comparisons: Sequence[Comparison], are_modes_named: bool) -> int:
    """Return the exit status: 1 if a mode's answer is not eager's, or a requested mode failed; else 0.

    Args:
        comparisons: the comparisons.
        are_modes_named: True if the user named the modes, so that each counts as requested. Eager always does.
    """
    results = [result for comparison in comparisons for result in comparison.results]
    wrong = any(
        result.status == "differs" or (result.status == "failed" and result.mode == EAGER) for result in results
    )
    return FAILED if wrong or (are_modes_named and any(result.status == "failed" for result in results)) else 0


def _comparisons(plan: Plan, settings: Sequence[Setting], tell: Tell) -> tuple[list[Comparison], list[str]]:
    """Return the comparison of each setting, shown when ready, and a line for each missing device.

    Raises:
        RuntimesError: the factory makes no model, or no device is available.
    """
    comparisons: list[Comparison] = []
    missing: dict[str, str] = {}
    for setting in settings:
        if setting.device in missing:
            continue
        with _progress(setting) as say:
            outcome = compare(plan, setting, say)
        if isinstance(outcome, Comparison):
            comparisons.append(outcome)
            tell(outcome)
        elif outcome.of == "factory":
            raise RuntimesError(plan.factory, outcome.problem)
        else:
            missing[setting.device] = outcome.problem
    if not comparisons:
        device, why = next(iter(missing.items()))
        advice = "run the same command on a machine with such a device, or with --device cpu"
        raise RuntimesError(f"--device {device}", f"{why}; {advice}")
    devices = ", ".join(sorted({comparison.setting.device for comparison in comparisons}))
    return comparisons, [f"--device {name}: {why}; measured on {devices} alone" for name, why in missing.items()]


@contextmanager
def _progress(setting: Setting) -> Iterator[Callable[[str, int], None]]:
    """Show a line with the current measurement on a terminal's stderr, for the duration of a block."""
    with Console(stderr=True, highlight=False).status("") as status:
        yield lambda mode, number: status.update(f"{setting} · {mode}" + (f" · round {number}" if number > 1 else ""))
