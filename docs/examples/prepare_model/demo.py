"""Run export.py plain and patched side by side, in fresh processes, and show what the patches changed.

A third process patches for a block only and proves that afterwards everything is what it was.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import onnx
from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

HERE = Path(__file__).parent
PLUGINS = "fuse_qkv_off,linear_printer"


@dataclass
class Run:
    """One program in a process of its own."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    errors: str = ""
    status: int | None = None
    seconds: float = 0.0

    def run(self) -> None:
        """Run to the end, keeping what is printed line by line."""
        start = time.monotonic()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                [sys.executable, "-u", *self.command],
                env={**clean, **self.environment},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            for line in process.stdout:
                self.lines.append(line.rstrip())
            self.status = process.wait()
            errors.seek(0)
            self.errors = errors.read()
        self.seconds = time.monotonic() - start

    @property
    def linear_lines(self) -> list[str]:
        """What the vendor's helper printed for Linear modules."""
        return [line for line in self.lines if line.startswith("Linear ")]


def run_together(console: Console, runs: list[Run]) -> None:
    """Run some programs at once; show in a terminal how each gets on, in a log when each starts and ends."""
    threads = [Thread(target=run.run) for run in runs]
    for thread in threads:
        thread.start()
    if console.is_terminal:
        columns = (
            SpinnerColumn(finished_text=Text("✓", style="green")),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
        )
        with Progress(
            *columns, TextColumn("{task.fields[line]}", style="dim", markup=False), console=console
        ) as progress:
            tasks = [progress.add_task(run.name, total=1, line="starting") for run in runs]
            while any(thread.is_alive() for thread in threads):
                for task, run in zip(tasks, runs, strict=True):
                    width = max(20, console.width - len(run.name) - 16)
                    last = run.lines[-1] if run.lines else "starting"
                    done = run.status is not None
                    progress.update(task, completed=done, line="" if done else last[:width])
                time.sleep(0.1)
            for task in tasks:
                progress.update(task, completed=1, line="")
    else:
        for run in runs:
            console.print(f"started: {run.name}")
    for thread, run in zip(threads, runs, strict=True):
        thread.join()
        if run.status != 0:
            console.print(f"{run.name} failed with status {run.status}:\n{run.errors}", style="red")
            raise SystemExit(1)
        if not console.is_terminal:
            console.print(f"done:    {run.name}, {run.seconds:.0f} s")


def ops_table(plain: Counter, patched: Counter) -> Table:
    table = Table("operation", title="What is in the graph", title_justify="left", box=box.SIMPLE_HEAD)
    for title in ("plain", "patched", "change"):
        table.add_column(title, justify="right")
    for op in sorted(plain | patched, key=lambda op: (plain[op] == patched[op], -plain[op], op)):
        change = patched[op] - plain[op]
        style = "bold" if change else "dim"
        table.add_row(op, str(plain[op]), str(patched[op]), f"{change:+d}" if change else "", style=style)
    return table


def patches_table(report: dict) -> Table:
    table = Table(title="Which patches, and where", title_justify="left", box=box.SIMPLE_HEAD)
    for title in ("plugin", "from", "target", "verb", "state"):
        table.add_column(title, overflow="fold")
    for patch in report["processes"][0]["patches"]:
        style = "green" if patch["state"] == "applied" else "red"
        state = Text(patch["state"], style=style)
        words = (
            Text(patch[name]) for name in ("plugin", "distribution", "target", "verb")
        )  # not markup: [...] in them
        table.add_row(*words, state)
    return table


def proof_table(checks: dict[str, bool]) -> Table:
    table = Table("after the block", "", title="Is everything back?", title_justify="left", box=box.SIMPLE_HEAD)
    for what, holds in checks.items():
        table.add_row(what, Text("yes", style="green") if holds else Text("NO", style="bold red"))
    return table


def count(path: Path) -> Counter:
    """Return how often each operation occurs in a model's graph."""
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="2 layers of width 64 instead of 125M parameters")
    size = ["--small"] if parser.parse_args().small else []
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 132)
    console.print(f"GPT-Neo, {'2 layers of width 64' if size else '125M parameters'}, exported by a vendor's helper.")
    console.print(f"patched: HOOKPATCH_PLUGINS={PLUGINS} python export.py\n")

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        script = str(HERE / "export.py")
        plain = Run("plain", [script, *size, "--output", str(out / "plain.onnx")])
        patched = Run(
            "patched",
            [script, *size, "--output", str(out / "patched.onnx")],
            {"HOOKPATCH_PLUGINS": PLUGINS, "HOOKPATCH_REPORT": str(out / "reports")},
        )
        run_together(console, [plain, patched])
        block = Run("a block, and after it", [str(HERE / "block.py"), *size, "--output", str(out / "block.json")])
        run_together(console, [block])
        plain_ops, patched_ops = count(out / "plain.onnx"), count(out / "patched.onnx")
        (receipt,) = (out / "reports").iterdir()
        report = json.loads(receipt.read_text())
        found = json.loads((out / "block.json").read_text())

    console.print()
    console.print(ops_table(plain_ops, patched_ops))
    console.print("What the vendor prints for the first Linear", style="italic")
    console.print(f"  plain:    {plain.linear_lines[0]}")
    console.print(f"  patched:  {patched.linear_lines[0]}\n")
    console.print(patches_table(report))

    changed = sum(a != b for a, b in zip(plain.linear_lines, patched.linear_lines, strict=True))
    console.print(proof_table(restored := proof(plain, plain_ops, patched_ops, found)))
    wanted = {
        "no Split is left": patched_ops["Split"] == 0 < plain_ops["Split"],
        "every Linear line has changed": changed == len(plain.linear_lines) > 0,
    }
    for op in ("MatMul", "Split"):
        console.print(f"{op}: {plain_ops[op]} plain, {patched_ops[op]} patched")
    console.print(
        f"Linear lines changed: {changed} of {len(plain.linear_lines)}; "
        f"plain took {plain.seconds:.0f} s, patched {patched.seconds:.0f} s"
    )
    failed = [what for what, holds in {**wanted, **restored}.items() if not holds]
    if failed:
        console.print(f"not as it should be: {'; '.join(failed)}", style="bold red")
        raise SystemExit(1)


def proof(plain: Run, plain_ops: Counter, patched_ops: Counter, found: dict) -> dict[str, bool]:
    """Return what must hold once the block has ended."""
    return {
        "inside, the graph was the patched one": found["inside"]["ops"] == patched_ops,
        f"the graph is the plain one again ({plain_ops['MatMul']} MatMul, {plain_ops['Split']} Split)": (
            found["after"]["ops"] == plain_ops
        ),
        "the vendor's lines are printed again": found["after"]["lines"] == plain.linear_lines,
        **found["same"],
    }


if __name__ == "__main__":
    main()
