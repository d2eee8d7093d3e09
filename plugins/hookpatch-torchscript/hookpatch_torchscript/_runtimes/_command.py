"""``hookpatch runtimes``: the ways to run a model beside each other, for a person, a program, a page."""

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

from hookpatch_torchscript._runtimes import _figures as figures
from hookpatch_torchscript._runtimes import _plot
from hookpatch_torchscript._runtimes._asked import modes_of, settings_of
from hookpatch_torchscript._runtimes._job import MODES, TORCHSCRIPT, Refusal, Setting
from hookpatch_torchscript._runtimes._json import as_json
from hookpatch_torchscript._runtimes._result import Comparison
from hookpatch_torchscript._runtimes._rounds import compare
from hookpatch_torchscript._runtimes._table import console, shown
from hookpatch_torchscript._runtimes._without import without_torchscript
from hookpatch_torchscript.errors import RuntimesError

FAILED: Final = 1  # the exit status when a mode answers otherwise than eager, or one that was asked for failed

Show = Callable[[Comparison], None]


def runtimes_command(
    factory: Annotated[
        str,
        typer.Argument(
            metavar="FACTORY",
            help="module:function or path/to/file.py:function; called with a batch size it returns (model, inputs) or "
            "(model, inputs, keywords).",
        ),
    ],
    modes: Annotated[
        str | None, typer.Option("--modes", metavar="A,B", help=f"All unless it is given: {', '.join(MODES)}.")
    ] = None,
    device: Annotated[str, typer.Option("--device", metavar="A,B", help="cpu, cuda.")] = "cpu",
    batch: Annotated[str, typer.Option("--batch", metavar="A,B", help="Batch sizes.")] = "1",
    dtype: Annotated[str, typer.Option("--dtype", metavar="A,B", help="float32, bfloat16, float16.")] = "float32",
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", min=1, help="How many compute; torch's choice if not given.")
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0.01, help="How long each mode is measured, each round.")
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
    chosen, settings = modes_of(modes), settings_of(device, dtype, batch)
    if plot is not None:
        _plot.check(plot)
    out, notes = console(), []
    if (why := without_torchscript(sys.version_info[:2])) and any(mode in TORCHSCRIPT for mode in chosen):
        notes.append(f"without {', '.join(mode for mode in chosen if mode in TORCHSCRIPT)}: {why}")

    def show(comparison: Comparison) -> None:
        if as_json_:
            return
        for part in shown(comparison, out.width):
            out.print(part, soft_wrap=not out.is_terminal and isinstance(part, Text))

    done, refused = _all(factory, chosen, settings, threads, seconds, repeat, show)
    notes += refused
    for note in notes:
        sys.stderr.write(f"hookpatch: {note}\n")
    if as_json_:
        typer.echo(json.dumps(as_json(factory, done, notes, seconds, repeat), indent=2))
    elif done:
        out.print(Text(f"\n{figures.on(done[0].machine)}", style="dim"), soft_wrap=not out.is_terminal)
    if plot is not None:
        _plot.draw(plot, factory, [(str(one.setting), one) for one in done])
    failed = {result.status for one in done for result in one.results}
    if "differs" in failed or (modes is not None and "failed" in failed):
        raise typer.Exit(FAILED)


def _all(
    factory: str,
    modes: Sequence[str],
    settings: Sequence[Setting],
    threads: int | None,
    seconds: float,
    repeat: int,
    show: Show,
) -> tuple[list[Comparison], list[str]]:
    """Return the comparison of each setting, shown when it is there, and a line for each device that is not.

    Raises:
        RuntimesError: the factory does not make a model, or there is no device to measure on.
    """
    done: list[Comparison] = []
    missing: dict[str, str] = {}
    for setting in settings:
        if setting.device in missing:
            continue
        with _progress() as say:
            found = compare(
                factory,
                modes,
                setting,
                threads,
                seconds,
                repeat,
                lambda mode, at, name=str(setting): say(name, mode, at),  # type: ignore[misc]  # mypy infers no lambda with a default
            )
        if isinstance(found, Refusal) and found.of == "factory":
            raise RuntimesError(factory, found.problem)
        if isinstance(found, Refusal):
            missing[setting.device] = found.problem
            continue
        done.append(found)
        show(found)
    there = sorted({one.setting.device for one in done})
    if not done:
        device, why = next(iter(missing.items()))
        raise RuntimesError(
            f"--device {device}", f"{why}; run the same command on a machine that has it, or with --device cpu"
        )
    return done, [f"--device {name}: {why}; measured on {', '.join(there)} alone" for name, why in missing.items()]


@contextmanager
def _progress() -> Iterator[Callable[[str, str, int], None]]:
    """Have a line on a terminal's stderr that tells what is being measured; it is gone at the end."""
    err = Console(stderr=True, highlight=False)
    with err.status("") as status:
        yield lambda setting, mode, at: status.update(f"{setting} · {mode}" + (f" · round {at}" if at > 1 else ""))
