"""Keep the results of a look in the user's cache folder, as long as no file behind the results has changed."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib.machinery import all_suffixes
from typing import Any, Final, NamedTuple

from hookpatch._bootstrap import environment
from hookpatch._bootstrap.files import current_folder, make_folder, read_ours, write_whole
from hookpatch._bootstrap.installed import installed
from hookpatch._bootstrap.interrupts import ErrorsOfCode
from hookpatch._bootstrap.json import parsed, written

LIMIT: Final = 120.0  # seconds for the child process
_MANY: Final = 200  # the number of kept results
_SUFFIXES: Final = (*all_suffixes(), ".dist-info", ".egg-info", ".egg-link", ".pth")

_read: dict[str, None] = {}  # paths of the files and folders read by this process since ``watch_files``
_behind: dict[str, Any] = {}  # the files behind the kept results used by this process


class LookOptions(NamedTuple):
    """The options of a look at targets.

    Attributes:
        imports: False to start no child process, and read kept results alone.
        limit: the time limit of the child process, in seconds.
        anew: True to ignore kept results.
    """

    imports: bool = True
    limit: float = LIMIT
    anew: bool = False


def key_of(task: Mapping[str, Any]) -> str:
    """Return the key of a look: the selection, the interpreter, and the content of the folders of the path."""
    lock = task["lock"] and _digest(task["lock"][0])
    path = [(folder, _names_in(folder or ".")) for folder in task["path"]]
    flags = str(sys.flags).replace(f"safe_path={sys.flags.safe_path}", "")  # the task has the path itself
    facts = [written(task), lock, sys.version, sys.executable, flags, current_folder(), path, installed()]
    return hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest()


def find(key: str) -> list[Any] | None:
    """Return the kept results; None without kept results, or after a change of a file."""
    # Else no results were kept, or another version wrote the file.
    with ErrorsOfCode(OSError, ValueError, TypeError, KeyError, AttributeError):
        content = parsed(read_ours(_path(key)).decode())
        if all(_is_unchanged(path, stamp) for path, stamp in content["files"].items()):
            results: list[Any] = content["results"]
            _behind.update(content["files"])
            return results
    return None


def keep(key: str, results: Sequence[Any], files: Mapping[str, Any]) -> None:
    """Keep results; an unwritable folder is no error."""
    _behind.update(files)
    with ErrorsOfCode(OSError):
        path = _path(key)
        folder = os.path.dirname(path)
        make_folder(folder)
        write_whole(path, written({"results": results, "files": files}))
        oldest_last = sorted(os.scandir(folder), key=lambda entry: entry.stat().st_mtime, reverse=True)
        for entry in oldest_last[_MANY:]:
            os.unlink(entry.path)


def files(*_: object) -> dict[str, Any]:
    """Return size, time and hash of each file behind the results of this process, None for a missing file.

    The files are: the imported files without the standard library; the files noted by ``watch_files``; the files behind
    the kept results used by this process.
    """
    from hookpatch._bootstrap import imports  # here: to find kept results needs no imports

    imported = {
        file
        for name, module in imports.modules()
        if name.partition(".")[0] not in sys.stdlib_module_names
        and isinstance(file := getattr(module, "__file__", None), str)
        and os.path.isfile(file)
    }
    return {**{path: _facts(path) for path in sorted({*imported, *_read})}, **_behind}


@cache
def watch_files() -> None:
    """Note the files and folders that this process reads from now on. For child processes: the watch never ends."""
    cache_folder = _folder()

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _READING and isinstance(path := arguments[0] if arguments[0] is not None else ".", str):
            is_read = event != "open" or not arguments[2] & (os.O_WRONLY | os.O_RDWR)
            if is_read and not path.endswith(".pyc") and not path.startswith(_NO_FILES):
                path = os.path.abspath(path)
                if path != cache_folder:
                    _read[path] = None

    sys.addaudithook(note)


_READING: Final = ("open", "os.listdir", "os.scandir")
_NO_FILES: Final = ("/proc/", "/dev/", "/sys/")


def _is_unchanged(path: str, facts: Sequence[Any] | None) -> bool:
    if facts is None:
        return not os.path.lexists(path)
    return [*_stamp(path)] == facts[:2] or _digest(path) == facts[2]


def _facts(path: str) -> list[Any] | None:
    with ErrorsOfCode(OSError):
        return [*_stamp(path), _digest(path)]
    return None


def _stamp(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def _digest(path: str) -> str:
    """Return the hash of a file, or of the names in a folder."""
    if os.path.isdir(path):
        names = sorted(name for name in os.listdir(path) if name != "__pycache__")
        return hashlib.blake2b(repr(names).encode(), digest_size=16).hexdigest()
    if not os.path.isfile(path):
        raise OSError("a pipe or a device may have no end")
    with open(path, "rb") as file:
        return hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=16)).hexdigest()


def _names_in(folder: str) -> list[str]:
    """Return the modules, packages and distributions in a folder of the path."""
    with ErrorsOfCode(OSError):
        return sorted(entry.name for entry in os.scandir(folder) if _counts(entry))
    return []


def _counts(entry: os.DirEntry[str]) -> bool:
    is_package = "." not in entry.name and os.path.isfile(os.path.join(entry.path, "__init__.py"))
    return is_package or entry.name.endswith(_SUFFIXES)


def _path(key: str) -> str:
    if (folder := _folder()) is None:
        raise OSError(f"{environment.CACHE} is 0")
    return os.path.join(folder, f"{key}.json")


def _folder() -> str | None:
    folder = environment.cache_folder()
    return folder and os.path.join(folder, "plans")
