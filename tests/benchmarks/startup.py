"""The cost of hookpatch at the start of an interpreter: not used, idle, among many distributions, beside others.

Environments of the same Python, with interleaved runs. The tables show medians, and the difference to the first row.
Times are processor time, so other work on the machine does not count.

usage: python tests/benchmarks/startup.py [RUNS]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from timeit import repeat
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from environments import ROOT, Environment, build

import hookpatch
from hookpatch._bootstrap import imports

IDLE: Final = """
    '''Patches modules that nobody imports.'''
    import hookpatch

    @hookpatch.hookimpl
    def hookpatch_patches():
        for at in range({count}):
            yield hookpatch.replace(f"never_imported_{{at}}:x", 1)
"""
# Without the collector: a few objects more move a collection of 40 ms before or behind the import's end.
IMPORT_TORCH: Final = """
import gc, time
gc.disable()
start = time.process_time()
import torch
print(time.process_time() - start)
"""

# Other tools that patch later imports: the distribution to install, and the command to start a program.
# wrapture's runner takes a script, and Python 3.12.
OTHERS: Final = {
    "autowrapt": ("autowrapt", ["{python}", "-c", "pass"], {"AUTOWRAPT_BOOTSTRAP": "nothing"}),
    "python -m wrapture": ("wrapture", ["{python}", "-m", "wrapture", "--config", "{empty}", "{empty}"], {}),
    "opentelemetry-instrument": (
        "opentelemetry-distro",
        ["{bin}/opentelemetry-instrument", "{python}", "-c", "pass"],
        {f"OTEL_{kind}_EXPORTER": "none" for kind in ("TRACES", "METRICS", "LOGS")},
    ),
    "ddtrace-run": ("ddtrace", ["{bin}/ddtrace-run", "{python}", "-c", "pass"], {"DD_TRACE_ENABLED": "false"}),
}


class Way(NamedTuple):
    """A way to start a program."""

    command: Sequence[str | Path]
    variables: Mapping[str, str]


def start(python: Path, variables: Mapping[str, str] = {}) -> Way:
    """Return the way to start a Python that runs no code."""
    return Way([python, "-c", "pass"], variables)


def milliseconds(way: Way) -> float:
    """Return the processor time of a program."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    with subprocess.Popen(way.command, env={**clean, **way.variables}, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{way.command} failed")
    return (used.ru_utime + used.ru_stime) * 1000


def seconds_of_import(python: Path, variables: Mapping[str, str]) -> float:
    """Return the processor time of `import torch`, without the start."""
    completed = subprocess.run([python, "-c", IMPORT_TORCH], env={**os.environ, **variables}, capture_output=True)
    return float(completed.stdout)


def table(title: str, ways: Mapping[str, Way], runs: int, goals: Mapping[str, str]) -> None:
    """Run the ways in turn; print the medians, and the difference of each to the first."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for round_number in range(-2, runs):
        for name, way in ways.items():
            elapsed = milliseconds(way)
            if round_number >= 0:  # the first two rounds fill the page cache
                times[name].append(elapsed)
    print(f"\n{title}: python -c pass, Python {sys.version.split()[0]}, medians of {runs} interleaved runs")
    first = statistics.median(next(iter(times.values())))
    for name, measured in times.items():
        median = statistics.median(measured)
        goal = f"   goal {goals[name]}" if name in goals else ""
        print(f"  {name:<32} {median:8.2f} ms   {median - first:+8.2f} ms   ratio {median / first:6.2f}{goal}")


def other(name: str, folder: Path) -> Way | None:
    """Return the way to start a program with another tool, or None if the tool cannot be installed."""
    requirement, command, variables = OTHERS[name]
    venv = folder / name
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"), "--disable-pip-version-check"]
    if subprocess.run([*pip, "install", "-q", requirement], capture_output=True).returncode:
        return None
    empty = folder / "empty"
    empty.touch()
    places = {"python": str(venv / "bin" / "python"), "bin": str(venv / "bin"), "empty": str(empty)}
    return Way([word.format(**places) for word in command], variables)


def with_plugins(folder: Path, wheels: Path) -> Environment:
    """Return an environment with hookpatch and two idle plugins."""
    environment = Environment(folder)
    environment.install(*wheels.glob("*.whl"))
    environment.add_plugin("idle", IDLE.format(count=1), waits_for="never_imported_0")
    environment.add_plugin("undeclared", IDLE.format(count=1))
    environment.add_plugin("fifty", IDLE.format(count=50))
    return environment


def main(runs: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        build(ROOT, folder / "dist", "--wheel")
        without = Environment(folder / "without")
        few, many = (with_plugins(folder / name, folder / "dist") for name in ("few", "many"))
        for index in range(300):
            info = many.site_packages / f"thing_{index}-1.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: thing-{index}\nVersion: 1.0\n")
            if index % 2:
                (info / "entry_points.txt").write_text(f"[console_scripts]\nthing{index} = thing:main\n")
        idle = {"HOOKPATCH_PLUGINS": "idle"}
        ways = {
            "not installed": start(without.python),
            "installed, unset": start(few.python),
            "one plugin, target not imported": start(few.python, idle),
            "one that does not say what for": start(few.python, {"HOOKPATCH_PLUGINS": "undeclared"}),
        }
        ways |= {name: way for name in OTHERS if (way := other(name, folder)) is not None}
        table("Start", ways, runs, {"installed, unset": "+0.3 ms", "one plugin, target not imported": "+10 ms"})
        ways = {
            "300 distributions, unset": start(many.python),
            "300 distributions, one plugin": start(many.python, idle),
        }
        table("Many distributions", ways, runs, {"300 distributions, one plugin": "+15 ms"})
        if find_spec("torch") is not None:
            settings = {"unset": {}, "50 watches": {"HOOKPATCH_PLUGINS": "fifty"}}
            times: dict[str, list[float]] = {name: [] for name in settings}
            for _ in range(9):
                for name, variables in settings.items():
                    times[name].append(seconds_of_import(few.python, variables))
            ratio = statistics.median(times["50 watches"]) / statistics.median(times["unset"])
            print(f"\nimport torch with 50 watches: {ratio:.3f} of without, medians of 9   goal 1.01")
    with hookpatch.active(
        *(hookpatch.replace(f"never_imported_{module_number}:x", 1) for module_number in range(50)), children="local"
    ):
        for kind, path in (("a module of a package", []), ("a module outside of packages", None)):
            names = {"find": imports._Finder.find_spec, "path": path}
            elapsed = min(repeat("find('nothing', path)", globals=names, number=(number := 200_000)))
            print(f"a miss of the finder, {kind}: {elapsed / number * 1e9:.0f} ns, goal 100 ns")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
