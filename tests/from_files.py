"""`make test-dist`: each distribution, installed from files alone into an empty environment, passes its sdist's tests.

usage: python tests/from_files.py dist [NAME...]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
# What a wheel lacks, or has too many, shows in the tests of files, start-up and commands: of the two with many tests
# these are enough. `make test` and `make test-rest` run the others.
SAMPLE = {
    "hookpatch": ("command", "doors/test_startup.py", "testing", "promises/test_package.py"),
    "hookpatch-onnx": ("picture/test_picture_build.py", "picture/test_picture_run.py", "test_gelu_node.py"),
}
# `make test` runs the tests with further needs: tests of the core need torch, Ray and other packages. Tests of
# hookpatch-onnxsim need other releases of onnxsim beside the installed release.
LEFT_OUT = {
    "hookpatch": ("-m", "not (model or launcher or ends)"),
    "hookpatch-onnxsim": ("-k", "not test_releases"),
}


class Distribution(NamedTuple):
    """A wheel, and the sdist from which the wheel was built."""

    name: str
    wheel: Path
    sdist: Path
    requires: tuple[Requirement, ...]


def distributions(folder: Path) -> dict[str, Distribution]:
    """Return the distributions in a folder, by name."""
    by_name = {}
    for wheel in sorted(folder.glob("*.whl")):
        (sdist,) = folder.glob("-".join(wheel.name.split("-")[:2]) + ".tar.gz")
        with zipfile.ZipFile(wheel) as archive:
            (path,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            metadata = HeaderParser().parsestr(archive.read(path).decode())
        name = canonicalize_name(metadata["Name"])
        requires = (Requirement(line) for line in metadata.get_all("Requires-Dist", []))
        needed = tuple(
            requirement
            for requirement in requires
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        )
        by_name[name] = Distribution(name, wheel, sdist, needed)
    return by_name


def closure(name: str, ours: dict[str, Distribution]) -> tuple[list[Distribution], list[str]]:
    """Return our distributions that a distribution needs, itself first, and the other requirements of all."""
    names, foreign = [name], []
    for current in names:  # grows
        for requirement in ours[current].requires:
            needed = canonicalize_name(requirement.name)
            if needed not in ours:
                foreign.append(str(requirement))
            elif needed not in names:
                names.append(needed)
    return [ours[each] for each in names], foreign


def tests_need(source: Path, ours: dict[str, Distribution]) -> tuple[list[str], list[str]]:
    """Return the further needs of the tests of an unpacked sdist: our distributions, and other distributions."""
    words = tomllib.loads((source / "pyproject.toml").read_text())["dependency-groups"]["test"]
    return [word for word in words if word in ours], [word for word in words if word not in ours]


def run_command(*command: str | Path, cwd: Path) -> str:
    """Run a command in a folder, without our variables; return its output, or exit with the output of a failure."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HOOKPATCH_", "PYTHON"))}
    completed = subprocess.run(
        [*map(str, command)], cwd=cwd, env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if completed.returncode:
        raise SystemExit(f"{completed.stdout}\n{' '.join(map(str, command))} ended with {completed.returncode}")
    return completed.stdout


def tried(distribution: Distribution, ours: dict[str, Distribution], folder: Path) -> Iterator[str]:
    """Install a distribution into an empty environment and run its tests; yield a line on each step."""
    began = time.monotonic()
    with tarfile.open(distribution.sdist) as archive:
        archive.extractall(folder, filter="data")
    source = folder / distribution.sdist.name.removesuffix(".tar.gz")
    elsewhere = folder / "elsewhere"  # the current folder of the tests, without sources
    elsewhere.mkdir()
    run_command(sys.executable, "-m", "venv", folder / "venv", cwd=elsewhere)
    python = folder / "venv" / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile")
    needed, foreign = closure(distribution.name, ours)
    also, tools = tests_need(source, ours)
    for name in also:
        also_needed, also_foreign = closure(name, ours)
        needed += [each for each in also_needed if each not in needed]
        foreign += also_foreign
    # Install our distributions apart, from the folder alone: an index may have other distributions of equal name.
    run_command(*pip, "--no-index", "--no-deps", *(each.wheel for each in needed), cwd=elsewhere)
    run_command(*pip, "--constraint", CONSTRAINTS, *foreign, *tools, cwd=elsewhere)
    run_command(python, "-m", "pip", "--disable-pip-version-check", "check", cwd=elsewhere)
    company = " ".join(each.name for each in needed[1:])
    yield f"installed in {time.monotonic() - began:.0f} s, with {company or 'none of ours'}"
    package = distribution.name.replace("-", "_")
    where = run_command(python, "-c", f"import {package}; print({package}.__file__)", cwd=elsewhere).strip()
    if not Path(where).is_relative_to(folder / "venv"):
        raise SystemExit(f"{package} is imported from {where}, not from the environment")
    pytest = folder / "venv" / "bin" / "pytest"
    chosen = LEFT_OUT.get(distribution.name, ())
    paths = [source / "tests" / part for part in SAMPLE.get(distribution.name, ("",))]
    command = (pytest, "-q", "-p", "no:cacheprovider", "--show-capture=no", "--tb=short", *chosen, *paths)
    yield run_command(*command, cwd=elsewhere).splitlines()[-1].strip("= ")


def main(folder: Path, *names: str) -> None:
    """Try each distribution of a folder, or the named distributions."""
    ours = distributions(folder.resolve())
    for name in names or ours:
        with tempfile.TemporaryDirectory() as away:
            for line in tried(ours[name], ours, Path(away)):
                print(f"{name}: {line}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
