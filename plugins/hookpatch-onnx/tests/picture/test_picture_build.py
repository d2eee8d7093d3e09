"""The libraries of the page are in the source distribution and the wheel, never in the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

PROJECT = Path(__file__).parents[2]
LIBRARIES = Path("hookpatch_onnx", "_picture", "page", "libraries")
NAMES = ["cytoscape.LICENSE", "cytoscape.js", "dagre.LICENSE", "dagre.js"]


def build(project: Path, out: Path, path: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(project)]
    return subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=300)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy the project from the checkout, libraries included."""
    return Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("tests", "__pycache__")))


def test_wheel_from_the_source_distribution_has_them_without_npm(project: Path, tmp_path: Path) -> None:
    """A build takes the libraries from the sources into the source distribution and into the wheel, without npm."""
    completed = build(project, tmp_path / "out", path="")
    assert completed.returncode == 0, completed.stderr
    (wheel,) = (tmp_path / "out").glob("*.whl")
    with ZipFile(wheel) as archive:
        folder = f"{LIBRARIES.as_posix()}/"
        assert sorted(name.removeprefix(folder) for name in archive.namelist() if name.startswith(folder)) == NAMES
        for name in NAMES:
            assert archive.read(folder + name) == (PROJECT / LIBRARIES / name).read_bytes()
        assert f"{LIBRARIES.parent.as_posix()}/main.js" in archive.namelist()


@pytest.mark.parametrize("state", ["missing", "other"])
def test_build_without_npm_says_what_is_missing(project: Path, tmp_path: Path, state: str) -> None:
    """A build with a library missing, or with another hash, fails with a line, and makes no wheel."""
    if state == "missing":
        shutil.rmtree(project / LIBRARIES)
    else:
        (project / LIBRARIES / "cytoscape.js").write_text("alert(1)")
    completed = build(project, tmp_path / "out", path="")
    assert completed.returncode != 0
    output = completed.stdout + completed.stderr
    assert (
        "hookpatch-onnx cannot be built without npm, which fetches cytoscape@3.34.4 for the pages; install "
        "Node.js with npm, or install hookpatch-onnx from a wheel\n"
    ) in output
    assert not list((tmp_path / "out").glob("*"))


def test_page_without_them_is_one_error(project: Path) -> None:
    """An installation without the libraries raises an error with the missing file, before a page is written."""
    shutil.rmtree(project / LIBRARIES)
    program = (
        f"import sys; sys.path.insert(0, {str(project)!r})\n"
        "import onnx\n"
        "from hookpatch_onnx._compare.compare import compare\n"
        "from hookpatch_onnx._picture.html_page import page_of\n"
        "node = onnx.helper.make_node('Relu', ['x'], ['y'])\n"
        "model = onnx.helper.make_model(onnx.helper.make_graph([node], 'g', [], []))\n"
        "page_of(compare(model, model, ('a', 'b')))\n"
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert completed.stderr.splitlines()[-2] == (  # the last line names the command to read more
        f"hookpatch_onnx.errors.PictureError: the page cannot be drawn: {project / LIBRARIES / 'cytoscape.LICENSE'} is "
        "missing; install hookpatch-onnx again, which fetches the file from npm"
    )
