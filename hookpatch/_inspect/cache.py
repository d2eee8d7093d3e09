"""Keep the outcomes of a selection in the user's cache folder, as long as no file behind the outcomes has changed."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.machinery import all_suffixes
from typing import Any, Final

from hookpatch._bootstrap import environment, imports
from hookpatch._bootstrap.files import current_folder, make_folder, read_ours, write_whole
from hookpatch._bootstrap.installed import installed
from hookpatch._bootstrap.json import parsed, written

_MANY: Final = 200  # results
_SUFFIXES: Final = (*all_suffixes(), ".dist-info", ".egg-info", ".egg-link", ".pth")


def key_of(task: Mapping[str, Any]) -> str:
    """Return the key of a look: the selection, the interpreter, and the content of the folders of the path."""
    lock = task["lock"] and _digest(task["lock"][0])
    path = [(folder, _names_in(folder or ".")) for folder in task["path"]]
    flags = str(sys.flags).replace(f"safe_path={sys.flags.safe_path}", "")  # the path itself is in the task
    facts = [written(task), lock, sys.version, sys.executable, flags, current_folder(), path, installed()]
    return hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest()


def find(key: str) -> list[Any] | None:
    """Return the kept results; None without kept results, or after a change of a file."""
    try:
        content = parsed(read_ours(_path(key)).decode())
        if all(_is_same(path, *stamp) for path, stamp in content["files"].items()):
            results: list[Any] = content["results"]
            return results
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass  # no results were kept, or another version wrote the file
    return None


def keep(key: str, results: Sequence[Any], files: Mapping[str, Any]) -> None:
    """Keep results; an unwritable folder is no error."""
    with suppress(OSError):
        path = _path(key)
        folder = os.path.dirname(path)
        make_folder(folder)
        write_whole(path, written({"results": results, "files": files}))
        oldest_last = sorted(os.scandir(folder), key=lambda entry: entry.stat().st_mtime, reverse=True)
        for entry in oldest_last[_MANY:]:
            os.unlink(entry.path)


def files() -> dict[str, Any]:
    """Return size, time and hash of each file imported by this process, without the standard library."""
    paths = {
        file
        for name, module in imports.modules()
        if name.partition(".")[0] not in sys.stdlib_module_names
        and isinstance(file := getattr(module, "__file__", None), str)
    }
    return {path: [*_stamp(path), _digest(path)] for path in sorted(paths) if os.path.isfile(path)}


def _is_same(path: str, size: int, time: int, digest: str) -> bool:
    return _stamp(path) == (size, time) or _digest(path) == digest


def _stamp(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _names_in(folder: str) -> list[str]:
    """Return the modules, packages and distributions in a folder of the path."""
    try:
        return sorted(entry.name for entry in os.scandir(folder) if _counts(entry))
    except OSError:
        return []


def _counts(entry: os.DirEntry[str]) -> bool:
    is_package = "." not in entry.name and os.path.isfile(os.path.join(entry.path, "__init__.py"))
    return is_package or entry.name.endswith(_SUFFIXES)


def _path(key: str) -> str:
    folder = environment.cache_folder()
    if folder is None:
        raise OSError(f"{environment.CACHE} is 0")
    return os.path.join(folder, "plans", f"{key}.json")
