"""Install releases of a target beside the installed release, each into a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final, NamedTuple

from hookpatch._bootstrap import environment
from hookpatch._bootstrap.selection import normalise
from hookpatch._engine.patch.versions import one_release
from hookpatch.errors import SettingError

_COMPILED: Final = (".so", ".pyd", ".pyc")
OPTION: Final = "--hookpatch-releases"
PYTHON: Final = (sys.executable, "-P")  # a file json.py in the current folder is not run


class Release(NamedTuple):
    """One release of a distribution; ``str()`` gives ``onnxsim==0.7.3``."""

    distribution: str
    version: str  # as written by the user
    unmet: str | None = None  # the condition after ";" if false in the current environment

    def __str__(self) -> str:
        return f"{self.distribution}=={self.version}"


def read_release(text: object, asked_by: str) -> Release:
    """Parse a release such as ``onnxsim==0.7.3; python_version < '3.13'``."""
    try:
        if not isinstance(text, str):
            raise ValueError("it is no text")
        return Release(*one_release(text))
    except ValueError as error:
        raise SettingError(asked_by, f"{text!r} names no release ({error}); write it like 'onnxsim==0.7.3'") from None


def read_releases(path: Path, asked_by: str) -> list[Release]:
    """Read a file with a release on each line; skips empty lines and lines that begin with ``#``."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise SettingError(asked_by, f"{path} cannot be read: {error.strerror}") from None
    return [read_release(line, f"{asked_by}, {path.name}") for line in lines if line and not line.startswith("#")]


def folder_of(release: Release, within: Path) -> Path | None:
    """Return a folder that contains one release, to be put first on the path of a program.

    Installs the wheel, without dependencies, if the folder does not exist. Returns None if the environment already has
    the release.
    """
    __tracebackhide__ = True  # a failing test shows its own lines, not these
    if _contains(None, release):
        return None
    folder, asked_by = within / f"{normalise(release.distribution)}=={release.version}", f"release {release}"
    if folder.exists():
        if not _contains(folder, release):
            raise SettingError(asked_by, f"{folder} exists without the release; delete the folder")
        return folder
    command = f"pip install --no-deps --target {folder} {release}"
    by_hand = f"install the release with '{command}', or name another folder with {OPTION}=FOLDER"
    if not has_pip():
        raise SettingError(asked_by, f"this environment has no pip; {by_hand}")
    try:
        within.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=within))
    except OSError as error:
        refused = f"nothing can be kept in {within}: {error.strerror}; name another folder with {OPTION}=FOLDER"
        raise SettingError(asked_by, refused) from None
    try:
        problem = install(str(release), "--no-deps", "--target", os.fspath(unfinished))
        if problem is not None:
            raise SettingError(asked_by, f"pip cannot install it here: {problem}; {by_hand}")
        try:
            unfinished.rename(folder)
        except OSError:
            if not _contains(folder, release):  # another process of the same test run was faster
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _contains(folder: Path | None, release: Release) -> bool:
    """Return True if a folder, or the environment for None, contains the release."""
    path: dict[str, Any] = {} if folder is None else {"path": [os.fspath(folder)]}
    installed = next(iter(metadata.distributions(name=release.distribution, **path)), None)  # the first is imported
    return installed is not None and installed.version == release.version


def packages_of(distribution: str, folder: str) -> set[str]:
    """Return the top packages of a distribution in a folder; empty if the distribution names no files."""
    installed = next(iter(metadata.distributions(name=distribution, path=[folder])), None)
    files = [] if installed is None else installed.files or []
    tops = {file.parts[0].partition(".")[0] for file in files if file.suffix in (".py", ".pyi", *_COMPILED)}
    return {top for top in tops if top}


@cache
def has_pip() -> bool:
    """Return True if the environment has pip. No other finder is asked: the finder of setuptools warns of distutils."""
    return PathFinder.find_spec("pip") is not None


def install(release: str, *words: str) -> str | None:
    """Install a release such as ``onnxsim==0.7.3`` with pip; return the last line of pip's error, None on success."""
    fixed = ["--quiet", "--disable-pip-version-check", "--no-input", "--only-binary=:all:"]
    completed = run_outside([*PYTHON, "-m", "pip", "install", *fixed, *words, release])
    return None if completed.returncode == 0 else last_line(completed)


def run_outside(command: Sequence[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command without the variables of hookpatch, and wait for the end.

    A given folder becomes the current folder, and the folder's modules come before the environment's modules.
    """
    variables = {**environment.without_ours(), "PYTHONIOENCODING": "utf-8"}
    if folder is not None:
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, variables.get("PYTHONPATH"))))
    return subprocess.run(command, env=variables, cwd=folder, capture_output=True, encoding="utf-8", errors="replace")


def last_line(completed: subprocess.CompletedProcess[str]) -> str:
    """Return the line of a command's output that names the error."""
    lines = [line.strip() for line in (completed.stderr or completed.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    last = (errors or lines or [f"pip ended with status {completed.returncode}"])[-1]
    return last.removeprefix("ERROR:").strip()
