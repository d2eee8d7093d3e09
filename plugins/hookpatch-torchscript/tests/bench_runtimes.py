"""The tables and the picture of docs/runtimes.md: BERT base, ResNet-18 and GPT-Neo 125M in each mode.

python bench_runtimes.py docs/runtimes.md --batch 1,8 --repeat 3: what stands between the marks of the page is written
anew, and the picture beside it. An hour and more on two cores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from hookpatch_torchscript._runtimes.command.arguments import modes_of, settings_of
from hookpatch_torchscript._runtimes.command.rounds import compare
from hookpatch_torchscript._runtimes.jobs.job import Plan
from hookpatch_torchscript._runtimes.jobs.result import Comparison, Result
from hookpatch_torchscript._runtimes.show import figures
from hookpatch_torchscript._runtimes.show.plot import check, draw

MODELS = {"BERT base": "bert_base", "ResNet-18": "resnet18", "GPT-Neo 125M": "gpt_neo_125m"}
BEGIN, END = "<!-- figures: make bench-runtimes -->\n", "<!-- end of figures -->\n"
HEADS = ("mode", "prepare", "median", "IQR", "samples / s", "speed-up", "memory, prepare", "memory, run", "differs by")


def measured(arguments: argparse.Namespace) -> Iterator[tuple[str, Comparison]]:
    for name, factory in MODELS.items():
        plan = Plan(
            f"hookpatch_torchscript.models:{factory}",
            modes_of(None),
            arguments.threads,
            arguments.seconds,
            arguments.repeat,
        )
        for setting in settings_of(arguments.device, arguments.dtype, arguments.batch):
            comparison = compare(
                plan, setting, lambda mode, number, label=f"{name}, {setting}": said(f"{label}: {mode}, {number}")
            )
            if not isinstance(comparison, Comparison):
                raise SystemExit(comparison.problem)
            yield name, comparison


def said(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def table(name: str, comparison: Comparison) -> str:
    lines = [f"**{name}**, {comparison.setting}\n", f"| {' | '.join(HEADS)} |", "|---" + "|--:" * 8 + "|"]
    failures = []
    for result in comparison.results:
        if result.median is None:
            failures.append(
                f"- {result.mode} {'is WRONG' if result.status == 'differs' else 'fails'}: `{result.problem}`"
            )
        else:
            lines.append(f"| {' | '.join(cells(comparison, result))} |")
    return "\n".join([*lines, *(["", *failures] if failures else [])]) + "\n"


def cells(comparison: Comparison, result: Result) -> list[str]:
    row = [
        result.mode,
        figures.seconds(result.preparation),
        figures.seconds(result.median),
        figures.spread(result),
        figures.digits(comparison.throughput(result)),
        figures.times(comparison.speed_up(result)),
        f"+{figures.size(result.preparing)}",
        f"+{figures.size(result.running)}",
        "-"
        if result.difference is None
        else f"{result.difference.absolute:.0e}"
        if result.difference.absolute
        else "0",
    ]
    return [f"**{cell}**" for cell in row] if result is comparison.fastest else row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    picture = arguments.page.with_suffix(".svg")
    check(picture)
    head, _, behind = arguments.page.read_text(encoding="utf-8").partition(BEGIN)
    tail = behind.partition(END)[2]
    comparisons = list(measured(arguments))
    how = (
        f"{figures.on(comparisons[0][1].machine)}. {arguments.repeat} round{'s' if arguments.repeat > 1 else ''}, "
        f"each mode at least {arguments.seconds:g} s a round.\n"
    )
    tables = "\n".join([how, *(table(name, comparison) for name, comparison in comparisons)])
    print(tables)
    arguments.page.write_text(f"{head}{BEGIN}\n{tables}\n{END}{tail}", encoding="utf-8")
    draw(
        picture,
        "Ways to run a model",
        [(f"{name} · {comparison.setting}", comparison) for name, comparison in comparisons],
    )


if __name__ == "__main__":
    main()
