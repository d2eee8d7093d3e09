"""Releases of a target beside the installed one: which a test names, and a folder for each to run programs on."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, final

from hookpatch._pip import has_pip, install
from hookpatch._requirement import one_release
from hookpatch._selection import normalise
from hookpatch.errors import SettingError

OPTION: Final = "--hookpatch-releases"


@final
@dataclass(frozen=True, slots=True)
class Release:
    """One release of a distribution. Frozen; its text is ``onnxsim==0.7.3``.

    Attributes:
        distribution: the distribution's name.
        version: the version, as it was written.
        unmet: the condition behind its ``;`` if that does not hold here, None else.
    """

    distribution: str
    version: str
    unmet: str | None = None

    def __str__(self) -> str:
        return f"{self.distribution}=={self.version}"


def read_release(text: object, asked_by: str) -> Release:
    """Return the release that a text such as ``onnxsim==0.7.3; python_version < '3.13'`` names.

    Raises:
        SettingError: it names none.
    """
    try:
        if not isinstance(text, str):
            raise ValueError("it is no text")
        return Release(*one_release(text))
    except ValueError as error:
        raise SettingError(asked_by, f"{text!r} names no release ({error}); write it like 'onnxsim==0.7.3'") from None


def read_releases(path: Path, asked_by: str) -> list[Release]:
    """Return the releases in a file, one a line; empty lines and those that begin with ``#`` are left out.

    Raises:
        SettingError: there is no such file, or a line names no release.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise SettingError(asked_by, f"{path} cannot be read: {error.strerror}") from None
    return [read_release(line, f"{asked_by}, {path.name}") for line in lines if line and not line.startswith("#")]


def folder_of(release: Release, within: Path) -> Path | None:
    """Return a folder with this release alone, to be put before everything else on a program's path.

    It is installed there if it is not: its wheel, by pip as that is configured here, and nothing that it needs. None if
    it is what is installed in this environment.

    Args:
        release: the release.
        within: where the folders of releases lie, each under the release's text.

    Raises:
        SettingError: it cannot be had.
    """
    __tracebackhide__ = True  # a failing test shows its own lines, not these
    if _has(None, release):
        return None
    folder, asked_by = within / f"{normalise(release.distribution)}=={release.version}", f"release {release}"
    if folder.exists():
        if not _has(folder, release):
            raise SettingError(asked_by, f"{folder} is there, and does not hold it; delete it")
        return folder
    if not has_pip():
        raise SettingError(asked_by, f"this environment has no pip to install it; {_by_hand(release, folder)}")
    try:
        within.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=within))
    except OSError as error:
        raise SettingError(
            asked_by, f"nothing can be kept in {within}: {error.strerror}; name another folder with {OPTION}=FOLDER"
        ) from None
    try:
        problem = install(str(release), "--no-deps", "--target", os.fspath(unfinished))
        if problem is not None:
            raise SettingError(asked_by, f"pip cannot install it here: {problem}; {_by_hand(release, folder)}")
        try:
            unfinished.rename(folder)
        except OSError:
            if not _has(folder, release):  # another process of the run was faster
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _has(folder: Path | None, release: Release) -> bool:
    """Tell whether a folder, or this environment, has this very release."""
    there: Iterable[metadata.Distribution] = (
        metadata.distributions(name=release.distribution)
        if folder is None
        else metadata.distributions(name=release.distribution, path=[os.fspath(folder)])
    )
    first = next(iter(there), None)  # the one that is imported
    return first is not None and first.version == release.version


def _by_hand(release: Release, folder: Path) -> str:
    by_hand = f"pip install --no-deps --target {folder} {release}"
    return f"put it there by '{by_hand}', or name a folder that has it with {OPTION}=FOLDER"
