"""Takes the drawing libraries of the page out of npm packages when the wheel is built; no library is committed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# By package: the files, with their names in the wheel and SHA-256.
PACKAGES = {
    "cytoscape@3.34.4": {
        "dist/cytoscape.min.js": ("cytoscape.js", "081591ab735b2b6a3b31a3c60f8f3a3e2fee8c92939e0c7820ad1208571b6cd8"),
        "LICENSE": ("cytoscape.LICENSE", "eb319c6e6f233607f71e8e2f450391751883cfc0eeb3ca7ef574c13d1d9c2203"),
    },
    "@dagrejs/dagre@3.1.3": {
        "dist/dagre.min.js": ("dagre.js", "54a503e346f93ca0bb10abe7999587e037262935687aca45eb4e4b0f64bbb578"),
        "LICENSE": ("dagre.LICENSE", "6a349742a6cb219d5a2fc8d0844f6d89a6efc62e20c664450d884fc7ff2d6015"),
    },
}
FOLDER = Path("hookpatch_onnx", "_picture", "page", "libraries")


class Libraries(BuildHookInterface[Any]):
    """Runs before a wheel, editable wheel or source distribution is built; a source distribution has the files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files with the known content."""
        folder = Path(self.root, FOLDER)
        for package, files in PACKAGES.items():
            if not all(_is(folder / name, digest) for name, digest in files.values()):
                fetch_files(package, files, folder)


def fetch_files(package: str, files: dict[str, tuple[str, str]], folder: Path) -> None:
    """Fetch a package with npm and put some of its files into a folder."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit(
            f"hookpatch-onnx cannot be built without npm, which fetches {package} for the pages; install Node.js with "
            "npm, or install hookpatch-onnx from a wheel"
        )
    with tempfile.TemporaryDirectory() as away:
        command = [npm, "pack", "--silent", "--pack-destination", away, package]
        completed = subprocess.run(command, cwd=away, capture_output=True, text=True, timeout=300)
        archives = list(Path(away).glob("*.tgz"))
        if completed.returncode or len(archives) != 1:
            raise SystemExit(
                f"hookpatch-onnx cannot be built: {' '.join(command[1:])} failed: {completed.stderr.strip()}"
            )
        with tarfile.open(archives[0]) as archive:
            members = {name: archive.extractfile(f"package/{name}") for name in files}
            contents = {name: content.read() for name, content in members.items() if content is not None}
    folder.mkdir(exist_ok=True)
    for name, (target, digest) in files.items():
        if hashlib.sha256(contents[name]).hexdigest() != digest:
            raise SystemExit(
                f"hookpatch-onnx cannot be built: {name} of {package} has another SHA-256 than the expected file"
            )
        (folder / target).write_bytes(contents[name])


def _is(path: Path, digest: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest
