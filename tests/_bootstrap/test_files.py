"""Files of reports and results: a reader finds a file whole, or finds none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hookpatch._bootstrap.files import write_new

TEXT = "x" * 10_000


def contents_while_written(path: Path) -> set[str | None]:
    """Write a new file; return the contents of the path after each call of a function, None for no file."""
    contents: set[str | None] = set()

    def look(*_: object) -> None:
        contents.add(path.read_text() if path.exists() else None)

    sys.setprofile(look)
    try:
        assert write_new(str(path), TEXT)
    finally:
        sys.setprofile(None)
    return contents


def test_new_file_is_never_empty(tmp_path: Path) -> None:
    """A report that is read while a process starts has no empty file."""
    assert contents_while_written(tmp_path / "new") == {None, TEXT}
    assert os.listdir(tmp_path) == ["new"]


def test_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is reserved by an empty file first."""

    def link(source: str, target: str) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(os, "link", link)
    assert contents_while_written(tmp_path / "new") == {None, "", TEXT}
    assert not write_new(str(tmp_path / "new"), "other")
    assert ((tmp_path / "new").read_text(), os.listdir(tmp_path)) == (TEXT, ["new"])


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling link"])
def test_name_in_use_stays(tmp_path: Path, kind: str) -> None:
    """Whatever has the name."""
    path, other = tmp_path / "new", tmp_path / "other"
    if kind == "folder":
        path.mkdir()
    elif kind == "file":
        path.write_text("precious")
    else:
        if kind == "link":
            other.write_text("precious")
        path.symlink_to(other)
    before = path.lstat()
    assert not write_new(str(path), TEXT)
    assert path.lstat() == before
    assert other.exists() == (kind == "link")
    assert sorted(os.listdir(tmp_path)) == (["new", "other"] if kind == "link" else ["new"])
