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


def measured(asked: argparse.Namespace) -> Iterator[tuple[str, Comparison]]:
    for name, factory in MODELS.items():
        plan = Plan(
            f"hookpatch_torchscript.models:{factory}", modes_of(None), asked.threads, asked.seconds, asked.repeat
        )
        for setting in settings_of(asked.device, asked.dtype, asked.batch):
            found = compare(plan, setting, lambda mode, at, what=f"{name}, {setting}": said(f"{what}: {mode}, {at}"))
            if not isinstance(found, Comparison):
                raise SystemExit(found.problem)
            yield name, found


def said(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def table(name: str, comparison: Comparison) -> str:
    lines = [f"**{name}**, {comparison.setting}\n", f"| {' | '.join(HEADS)} |", "|---" + "|--:" * 8 + "|"]
    rest = []
    for result in comparison.results:
        if result.median is None:
            rest.append(f"- {result.mode} {'is WRONG' if result.status == 'differs' else 'fails'}: `{result.problem}`")
        else:
            lines.append(f"| {' | '.join(cells(comparison, result))} |")
    return "\n".join([*lines, *(["", *rest] if rest else [])]) + "\n"


def cells(comparison: Comparison, one: Result) -> list[str]:
    row = [
        one.mode,
        figures.seconds(one.preparation),
        figures.seconds(one.median),
        figures.spread(one),
        figures.digits(comparison.throughput(one)),
        figures.times(comparison.speed_up(one)),
        f"+{figures.size(one.preparing)}",
        f"+{figures.size(one.running)}",
        "-" if one.difference is None else f"{one.difference.absolute:.0e}" if one.difference.absolute else "0",
    ]
    return [f"**{cell}**" for cell in row] if one is comparison.fastest else row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    picture = asked.page.with_suffix(".svg")
    check(picture)
    head, _, rest = asked.page.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    found = list(measured(asked))
    how = (
        f"{figures.on(found[0][1].machine)}. {asked.repeat} round{'s' if asked.repeat > 1 else ''}, "
        f"each mode at least {asked.seconds:g} s a round.\n"
    )
    tables = "\n".join([how, *(table(name, one) for name, one in found)])
    print(tables)
    asked.page.write_text(f"{head}{BEGIN}\n{tables}\n{END}{tail}", encoding="utf-8")
    draw(picture, "Ways to run a model", [(f"{name} · {one.setting}", one) for name, one in found])


if __name__ == "__main__":
    main()
