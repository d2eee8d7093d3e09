"""Recall, precision and authors of ``hookpatch audit``, on programs patched by frameworks and on plain programs.

    python tests/benchmarks/audit.py docs/audit.md [--venv FOLDER] [--only NAME ...]
    python tests/benchmarks/audit.py --held-back

installs the frameworks into a separate environment (FOLDER is kept), and rewrites the figures between the marks of the
page; with ``--held-back`` only prints the figures of the programs kept aside. The truth comes without hookpatch: one
process runs the program, another imports the same modules without the framework. ``audit_truth.py`` writes the value of
each slot. A slot of a shared module with another function, class, method or module is a patch. A new method that hides
an inherited method is a patch, too. The patch is due to the framework, as the sources of the frameworks show.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from audit_held_back import FIRST, FOURTH, SECOND, THIRD
from audit_programs import IMPORTING, PATCHING, Program

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
BEGIN, END = "<!-- figures: make bench-audit -->\n", "<!-- end of figures -->\n"
CODE: Final = ("function", "class", "builtin", "property", "staticmethod", "classmethod", "module", "object")
METHODS: Final = ("function", "builtin", "property", "staticmethod", "classmethod", "object")
AT_IMPORT: Final = ("typing_extensions", "eventlet")  # the import alone patches others: the slots in THEIRS
THEIRS: Final = ("typing:_check_generic", "typing:_collect_parameters", "dns.query:tcp", "dns.query:udp")
# Patches of modules that the call itself imports: the two processes show none, the sources of the frameworks all.
BY_SOURCES: Final = {
    "gevent": {
        *("select:epoll", "selectors:EpollSelector", "selectors:PollSelector._selector_cls", "subprocess:_fork_exec")
    },
    "eventlet": {"selectors:SelectSelector._select"},
}


class Row(NamedTuple):
    """The result for one program."""

    name: str
    true: set[str]
    found: dict[str, str]
    owners: dict[str, bool]  # by true patch among the findings: is the author right?
    running: set[str]  # the slots that ``hookpatch.audit()`` finds in the running program
    unaudited: set[str]  # the true patches without those that ``hookpatch audit`` itself brings by its imports

    @property
    def hits(self) -> set[str]:
        return self.true & self.found.keys()


def environment(folder: Path, programs: dict[str, Program]) -> Path:
    """Return the python of an environment with hookpatch and the frameworks."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        # All instrumentations of OpenTelemetry need one version, and not each has the pinned one.
        pins = [pin for pin in (ROOT / "constraints.txt").read_text().splitlines() if not pin.startswith("opentele")]
        (folder / "constraints.txt").write_text("\n".join(pins))
        pip += ["-c", str(folder / "constraints.txt")]
        wanted = sorted({distribution for program in programs.values() for distribution in program.install})
        subprocess.run([*pip, *wanted], check=True)
        subprocess.run([*pip, str(ROOT)], check=True)
    return python


def run_benchmark(
    python: Path, folder: Path, *words: str | Path, statuses: Sequence[int] = (0,), limit: float = 600
) -> str:
    """Return what a program prints; SystemExit for another status, and for a program that runs too long.

    The program has its own process group, which is killed at the limit with all children.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    quiet = {"DD_TRACE_ENABLED": "false", "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false", "PYTHONWARNINGS": "ignore"}
    quiet["PYTHONHASHSEED"] = "0"  # processes are compared by printed values, and a set is printed in this order
    command = [str(python), *map(str, words)]
    pipe, out = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=out, stdout=pipe, stderr=pipe, text=True, cwd=folder, env={**clean, **quiet}, process_group=0
    ) as process:
        try:
            printed, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise SystemExit(f"{' '.join(command[1:])}: no end after {limit:g} s") from None
    if process.returncode not in statuses:
        raise SystemExit(f"{' '.join(command[1:])}: {errors[-1500:]}")
    return printed


def truth(python: Path, folder: Path, program: Program) -> set[str]:
    """Return the slots that a program patches: in its call, and while the framework is imported."""
    (folder / "program.json").write_text(json.dumps([program.imports, program.apply]))
    run_benchmark(python, folder, HERE / "audit_truth.py", "program", "program.json", "patched.json")
    patched = json.loads((folder / "patched.json").read_text())
    other_modules = [
        name for name in patched["modules"] if name.partition(".")[0] not in (*program.packages, *AT_IMPORT)
    ]
    (folder / "modules.json").write_text(json.dumps([name for name in other_modules if name != "__main__"]))
    run_benchmark(python, folder, HERE / "audit_truth.py", "modules", "modules.json", "plain.json")
    plain = json.loads((folder / "plain.json").read_text())["slots"]
    first, last = patched["slots"], patched["now"]
    later = {
        address for address in last if f"{address.partition(':')[0]}:__name__" not in first
    }  # imported by the call
    patches = {address: (old, new) for address, (old, new) in patched["changed"].items() if is_patch(old, new)}
    for address in last.keys() & (first.keys() | later):
        old, new = plain.get(address), last[address] if address in later else first[address]
        if old is None and address.rpartition(".")[2] not in plain.get(
            f"{address.rpartition('.')[0]}. (inherited)", ()
        ):
            continue
        if (
            old != new
            and new[0] != "module"
            and "(inherited)" not in address
            and is_patch(old, new)
            and by(new, program)
        ):
            patches.setdefault(address, (old, new))
    patches |= {address: (None, last[address]) for address in THEIRS if address in last and is_theirs(last[address])}
    # A module imported by the call may bind a name that was patched before: the import copied the patched value.
    bound = {address for address, change in patches.items() if address in later and is_bound(address, change, patches)}
    return {address for address in patches.keys() - bound if re.split("[.:]", address)[0] not in program.packages}


def is_theirs(value: list[str]) -> bool:
    return any(f"/{package}" in value[1] for package in AT_IMPORT)


def is_bound(address: str, change: tuple[Any, Any], patches: dict[str, tuple[Any, Any]]) -> bool:
    """Return True if the slot is not the value's home, and the home slot has the same patch."""
    return not is_home(address, change[0]) and any(
        of == change and is_home(home, of[0]) for home, of in patches.items()
    )


def is_home(address: str, value: list[str] | None) -> bool:
    module = address.partition(":")[0]
    return value is not None and (value[1] == module or value[1].endswith(f"/{module.replace('.', '/')}.py"))


def by(value: list[str], program: Program) -> bool:
    """Return True if a value is defined in the packages that patch."""
    packages = (*program.packages, *AT_IMPORT)
    return any(f"/{package}" in value[1] or value[1].partition(".")[0] == package for package in packages)


def is_patch(old: list[str] | None, new: list[str] | None) -> bool:
    """Return True for a changed function, class, module or object, or a method that hides an inherited method."""
    if old is None or new is None:
        kinds = METHODS if old is None else (*METHODS[:-1], "class")  # a vanished object was lazy
        return (old or new or [""])[0] in kinds
    return old[0] in CODE and (old[0] != "object" or (new[0] != "plain" and old != new))


def audited(python: Path, folder: Path, program: Program) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the findings of ``hookpatch audit``: the author by address."""
    (folder / "program.py").write_text(f"{program.imports}\n{program.apply}\n")
    content = json.loads(run_benchmark(python, folder, "-m", "hookpatch", "audit", "--json", "program.py"))
    return {
        finding["target"]: f"{finding['distribution']} {finding['place'] or ''}"
        for finding in content["findings"]
        if not finding["target"].startswith("sys.modules") and finding["kind"] != "added"
    }, content


def running(python: Path, folder: Path, program: Program) -> set[str]:
    """Return the slots that ``hookpatch.audit()`` finds in the program without a record."""
    keep = "import gc; gc.disable()"  # a patch whose context manager is collected ends
    ask = "import hookpatch; open('running.json', 'w').write(hookpatch.audit().to_json())"
    (folder / "running.py").write_text(f"{keep}\n{program.imports}\n{program.apply}\n{ask}\n")
    run_benchmark(python, folder, "running.py")
    findings = json.loads((folder / "running.json").read_text())["findings"]
    return {finding["target"] for finding in findings if finding["plugin"] is None and finding["kind"] != "added"}


def measured(python: Path, name: str, program: Program) -> Row:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        true = truth(python, folder, program) | BY_SOURCES.get(name, set())
        authors, _ = audited(python, folder, program)
        while_running = running(python, folder, program)
    unaudited = {*true}
    true |= {address for address in THEIRS if any(package in authors.get(address, "") for package in AT_IMPORT)}
    names = tuple(re.sub(r"\W", "", part).lower() for part in (*program.packages, *program.install[:1], *AT_IMPORT))
    due = {
        address: any(re.sub(r"\W|_", "", part) in re.sub(r"\W|_", "", authors[address]).lower() for part in names)
        for address in true & authors.keys()
    }
    return Row(name, true, authors, due, while_running, unaudited)


def write(page: Path, rows: list[Row]) -> None:
    """Rewrite the table between the marks of a page."""
    heads = ("program", "patches", "found", "beside", "author right", "running: found", "running: beside")
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in [*(row for row in rows if row.name in PATCHING), *(row for row in rows if row.name not in PATCHING)]:
        counts = [len(row.true), len(row.hits), len(row.found.keys() - row.true), sum(row.owners.values())]
        counts += [len(row.unaudited & row.running), len(row.running - row.unaudited)]
        lines.append(f"| {row.name} | {' | '.join(map(str, counts))} |")
    text = page.read_text()
    head, tail = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    page.write_text("\n".join([f"{head}", *lines, "", tail]))


def check_names(parser: argparse.ArgumentParser, names: Sequence[str] | None, known: Iterable[str]) -> None:
    """End with an error for a name after ``--only`` that is not known."""
    if unknown := {*(names or ())} - {*known}:
        parser.error(f"--only: unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("page", nargs="?", type=Path)
    parser.add_argument("--venv", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--held-back", action="store_true")
    chosen = parser.parse_args()
    every = {**FIRST, **SECOND, **THIRD, **FOURTH} if chosen.held_back else {**PATCHING, **IMPORTING}
    check_names(parser, chosen.only, every)
    programs = {name: program for name, program in every.items() if not chosen.only or name in chosen.only}
    with tempfile.TemporaryDirectory() as scratch:
        python = environment(chosen.venv or Path(scratch) / "venv", every)
        rows = []
        for name, program in programs.items():
            row = measured(python, name, program)
            rows.append(row)
            figures = f"true {len(row.true):>4} found {len(row.found):>4} hits {len(row.hits):>4}"
            in_process = f"running {len(row.unaudited & row.running):>4} of {len(row.running):>4}"
            print(f"{name:<40} {figures} author {sum(row.owners.values()):>4} {in_process}", flush=True)
            if chosen.misses:
                print(*(f"   missed {address}" for address in sorted(row.true - row.found.keys())), sep="\n")
                print(
                    *(
                        f"   beyond {address} by {row.found[address]}"
                        for address in sorted(row.found.keys() - row.true)
                    ),
                    sep="\n",
                )
                print(
                    *(
                        f"   who {address} by {row.found[address]}"
                        for address, right in sorted(row.owners.items())
                        if not right
                    ),
                    sep="\n",
                )
    true, found_count = (sum(map(len, sets)) for sets in zip(*((row.true, row.found) for row in rows), strict=True))
    hits = sum(len(row.hits) for row in rows)
    if chosen.page is not None:
        write(chosen.page, rows)
    right_authors = sum(sum(row.owners.values()) for row in rows)
    figures = f"recall {hits / true:.3f} ({hits} of {true}), precision {hits / found_count:.3f}"
    print(f"{figures} ({hits} of {found_count}), author {right_authors / hits:.3f} ({right_authors} of {hits})")
    running_count, right = sum(len(row.running) for row in rows), sum(len(row.running & row.unaudited) for row in rows)
    true = sum(len(row.unaudited) for row in rows)
    figures = f"recall {right / true:.3f} ({right} of {true}), precision {right / running_count:.3f}"
    print(f"running: {figures} ({right} of {running_count})")


if __name__ == "__main__":
    main()
