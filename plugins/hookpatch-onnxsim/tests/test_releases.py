"""The same tests on older releases of onnxsim, each in a process of its own."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from hookpatch_onnxsim import _release

from hookpatch.testing import FreshProcess

pytestmark = pytest.mark.model

HERE = Path(__file__).parent


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="onnxruntime is not installed: no build for this Python")
@pytest.mark.hookpatch_releases(file="releases.txt")
def test_plugins_on_an_older_release(fresh_process: FreshProcess, release: str) -> None:
    """Every test of the plugins passes on an older release, and none is left out."""
    tests = sorted(str(path) for path in HERE.glob("test_*.py") if path != Path(__file__))
    completed = fresh_process(
        "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))",
        args=["-q", "-p", "no:cacheprovider", *tests],
        # No report: a report file stays until the end of the process, and each test checks its leftovers.
        env={"ONNXSIM_RELEASE": release.removeprefix("onnxsim=="), "HOOKPATCH_REPORT": ""},
        timeout=300,
    ).check()
    assert re.search(r"^\d+ passed in ", completed.output, re.MULTILINE), completed.output


PASSES = """
    import importlib.util, pathlib, re

    folder = pathlib.Path(importlib.util.find_spec("onnxsim").origin).parent
    (extension,) = folder.glob("*.so")
    for name in re.findall(rb"optimization\\d+([A-Za-z]+)E\\0", extension.read_bytes()):
        print(name.decode().lower())
"""


@pytest.mark.hookpatch_releases("onnxsim==0.4.36; python_version < '3.12'")
def test_passes_of_a_release_without_a_list_are_those_in_its_extension(fresh_process: FreshProcess) -> None:
    """The noted passes of 0.4.36 are the classes in its binary, except two with other names."""
    classes = set(fresh_process(PASSES).check().output.split())
    noted = {name.replace("_", "") for name in _release._WITHOUT_A_LIST["0.4.36"]}
    assert noted - classes == {"nop", "eliminatenopwithunit"}
    assert {name for name in classes if name.startswith(("eliminate", "fuse", "extract", "nop"))} - noted == {
        "nopemptypass",
        "eliminateopwithunit",
    }
