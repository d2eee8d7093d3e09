"""The same tests on older releases of onnxsim, each in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hookpatch_onnxsim import _release
from packaging.requirements import Requirement

pytestmark = pytest.mark.model

HERE = Path(__file__).parent
REQUIREMENTS = [Requirement(line) for line in (HERE / "releases.txt").read_text().splitlines() if line[0] != "#"]
RELEASES = [
    str(requirement.specifier).removeprefix("==")
    for requirement in REQUIREMENTS
    if requirement.marker is None or requirement.marker.evaluate()
]


def folder_of(release: str) -> Path:
    """Return where the set-up has put a release: beside this environment's site-packages."""
    folder = Path(sys.prefix, "releases", f"onnxsim=={release}")
    assert folder.is_dir(), f"onnxsim {release} is not in {folder}; `make test` installs it"
    return folder


@pytest.mark.parametrize("release", RELEASES)
def test_plugins_on_an_older_release(release: str) -> None:
    """Every test of the plugins holds there, and none is left out."""
    tests = sorted(path for path in HERE.glob("test_*.py") if path != Path(__file__))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        env={**os.environ, "PYTHONPATH": str(folder_of(release)), "ONNXSIM_RELEASE": release},
        cwd=HERE.parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ passed in ", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.skipif("0.4.36" not in RELEASES, reason="onnxsim 0.4.36 has no wheel for this Python")
def test_passes_of_a_release_without_a_list_are_those_in_its_extension() -> None:
    """What we note of 0.4.36 is what its binary has: a class for each pass, but for two that are named otherwise."""
    (extension,) = folder_of("0.4.36").glob("onnxsim/*.so")
    found = re.findall(rb"optimization\d+([A-Za-z]+)E\0", extension.read_bytes())
    classes = {name.decode().lower() for name in found}
    noted = {name.replace("_", "") for name in _release._WITHOUT_A_LIST["0.4.36"]}
    assert noted - classes == {"nop", "eliminatenopwithunit"}
    assert {name for name in classes if name.startswith(("eliminate", "fuse", "extract", "nop"))} - noted == {
        "nopemptypass",
        "eliminateopwithunit",
    }
