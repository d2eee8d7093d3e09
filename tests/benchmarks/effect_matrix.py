"""The effect matrix from real runs: targets by capture modes, hookpatch beside hand-written code and other tools.

    python tests/benchmarks/effect_matrix.py [--tools hookpatch,wrapt] [--modes eager] [--verbs wrap] [--device cuda]

Each letter is the worst state of a target under a mode at all times, with all verbs, reaches and scopes of the tool.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

STATES: Final = ("silent", "broken", "loud", "product", "right")  # the worst first
LETTERS: Final = {"silent": "S", "broken": "b", "loud": "L", "product": "p", "right": "."}
VERBS: Final = ("wrap", "inject", "replace", "derive")

Found = dict[tuple[str, str], Counter[str]]  # by verb and mode


def run_row(tool: str, name: str, modes: list[str], verbs: list[str], device: str) -> tuple[str, str, Found, list[str]]:
    """Run all cells of one target with one tool; return the states and the problems in words."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import effect

    effect.X = effect.X.to(device)
    counted: Found = {}
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        for cell in effect.cells():
            if cell.row.name != name or cell.mode not in modes or cell.verb not in verbs:
                continue
            outcome = effect.run_cell(cell, tool, Path(folder))
            if outcome is not None:
                counted.setdefault((cell.verb, cell.mode), Counter()).update(outcome.states.values())
                wrong += [
                    f"{tool}: {state}: {cell}, {time}: {outcome.said.get(time, '')[:200]}"
                    for time, state in outcome.states.items()
                    if state in ("silent", "broken")
                ]
    return tool, name, counted, wrong


def main() -> None:
    """Run the selected tools on all cores, and print a table for each tool and a table of counts."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import effect

    options = argparse.ArgumentParser(description="The effect matrix from real runs.")
    options.add_argument("--tools", default=",".join(effect.TOOLS))
    options.add_argument("--modes", default=",".join(effect.MODES))
    options.add_argument("--verbs", default=",".join(VERBS))
    options.add_argument("--device", default="cpu")
    arguments = options.parse_args()
    tools, modes, verbs = arguments.tools.split(","), arguments.modes.split(","), arguments.verbs.split(",")
    results: dict[tuple[str, str], Found] = {}
    wrong: list[str] = []
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        runs = [
            pool.submit(run_row, tool, row.name, modes, verbs, arguments.device)
            for tool in tools
            for row in effect.ROWS
        ]
        for future in as_completed(runs):
            tool, row, counted, problems = future.result()
            results[tool, row] = counted
            wrong += problems
            print(f"{len(results)} of {len(runs)}: {tool}, {row}", file=sys.stderr, flush=True)
    console = Console(width=None if sys.stdout.isatty() else 120)
    rows = [row.name for row in effect.ROWS]
    for tool in tools:
        if any(results[tool, row] for row in rows):
            console.print(matrix(tool, rows, modes, results))
    console.print(
        " ".join(f"{LETTERS[state]} {state}" for state in STATES), "  blank: unpatched torch fails, or no way"
    )
    console.print(counts(tools, rows, verbs, results))
    if "hookpatch" in tools and any(line.startswith("hookpatch:") for line in wrong):
        print(*(line for line in wrong if line.startswith("hookpatch:")), sep="\n")
        sys.exit(1)


def matrix(tool: str, rows: list[str], modes: list[str], results: dict[tuple[str, str], Found]) -> Table:
    """Return the table of a tool."""
    table = Table(title=tool, title_justify="left")
    table.add_column("target", no_wrap=True)
    for mode in modes:
        table.add_column(mode, justify="center")
    for row in rows:
        letters = []
        for mode in modes:
            counter = sum(
                (count for (_, cell_mode), count in results[tool, row].items() if cell_mode == mode), Counter[str]()
            )
            letters.append(next((LETTERS[state] for state in STATES if counter[state]), ""))
        table.add_row(row, *letters)
    return table


def counts(tools: list[str], rows: list[str], verbs: list[str], results: dict[tuple[str, str], Found]) -> Table:
    """Return the number of cells in each state, by tool and verb. A cell is one capture and call at one time."""
    table = Table(title="cells by tool and verb", title_justify="left")
    for heading in ("tool", "verb", "cells", *STATES):
        table.add_column(heading, justify="left" if heading in ("tool", "verb") else "right")
    for tool in tools:
        for verb in verbs:
            of_verb = (
                count for row in rows for (cell_verb, _), count in results[tool, row].items() if cell_verb == verb
            )
            counter = sum(of_verb, Counter[str]())
            if counter:
                table.add_row(tool, verb, str(counter.total()), *(str(counter[state]) for state in STATES))
    return table


if __name__ == "__main__":
    main()
