"""Find the program run by a command line of Python: an installer is known by its folder, never by its name."""

from __future__ import annotations

import os
import site
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final

INSTALLERS: Final = ("pip", "ensurepip", "venv")
OURS: Final = "hookpatch"
NOT_PATCHED: Final = (OURS, "multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker")
_OF_MULTIPROCESSING: Final = ("resource_tracker", "semaphore_tracker", "spawn", "forkserver")
# multiprocessing and its forks: multiprocess with another pickle, for datasets, and billiard of Celery.
MULTIPROCESSING: Final = ("multiprocessing", "multiprocess", "billiard")
# A folder for PYTHONPATH, where the start-up file is missing: ``hookpatch run`` starts programs with the folder.
SITECUSTOMIZE: Final = os.path.join(os.path.dirname(os.path.dirname(__file__)), "_sitecustomize")
_FOLDERS: Final = ("site-packages", "dist-packages")


def has_startup_file() -> bool:
    """Return True if this Python reads the start-up file at each start; from Python 3.18 on False (PEP 829).

    The file is missing if hookpatch was installed with ``--target``, or is only on PYTHONPATH.
    """
    if sys.version_info >= (3, 18):
        return False
    folders = [*site.getsitepackages(), site.getusersitepackages() if site.ENABLE_USER_SITE else ""]
    return any(folder and os.path.exists(os.path.join(folder, "hookpatch.pth")) for folder in folders)


def words_of(argv: Sequence[str]) -> list[str]:
    """Return the words of a command line of Python from the program on: a script, ``-m MODULE`` or ``-c CODE``."""
    return _parsed(argv)[1]


def flags_of(argv: Sequence[str]) -> set[str]:
    """Return the letters of the flags before the program; ``V`` and ``h`` for ``--version`` and any ``--help``."""
    return set(_parsed(argv)[0])


def _parsed(argv: Sequence[str]) -> tuple[str, list[str]]:
    words, flags = list(argv[1:]), ""
    while words:
        word = words[0]
        if word == "--":
            return flags, words[1:]
        if not word.startswith("-") or word == "-":
            return flags, words
        if word.startswith("--"):
            flags += "h" if word.startswith("--help") else "V" if word == "--version" else ""
            words = words[2 if word == "--check-hash-based-pycs" else 1 :]
            continue
        index = next((index for index, letter in enumerate(word[1:], 1) if letter in "mcWX"), 0)
        flags += word[1 : index or None]
        value = [word[index + 1 :]] if index and word[index + 1 :] else words[1:2]
        words = words[1:] if not index or word[index + 1 :] else words[2:]
        if index and word[index] in "mc":
            return flags, [f"-{word[index]}", *value, *words]
    return flags, []


def known_program(argv: Sequence[str]) -> str:
    """Return the known program of a command line: an installer, ours, a program of multiprocessing; else empty.

    A package counts in the place of installation: in a folder site-packages, or in the standard library. The user's own
    pip.py and a folder pip beside a script are programs as any other.
    """
    words = words_of(argv)
    try:
        match words:
            case ["-c", code, *_]:
                names = [
                    (name, f"from {package}.{name} import")
                    for name in _OF_MULTIPROCESSING
                    for package in MULTIPROCESSING
                ]
                return next((f"multiprocessing.{name}" for name, begin in names if begin in code), "")
            case ["-m", module, *_]:
                package = module.partition(".")[0]
                if package == OURS:
                    return OURS  # imported by now: Python looks for no other
                return package if package in INSTALLERS and all(map(_is_installed, _places_of(package))) else ""
            case [script, *_]:
                return _of_file(os.path.realpath(script))
    except OSError:
        pass  # the current folder has been deleted
    return ""


def is_worker(argv: Sequence[str]) -> bool:
    """Return True for a process of multiprocessing: a pool may start a new process after each end."""
    return known_program(argv) in ("multiprocessing.spawn", "multiprocessing.forkserver")


def _places_of(package: str) -> Iterator[str]:
    """Yield the folder or file that Python will import for a name; empty if only a later .pth file has the name."""
    current = [] if sys.flags.safe_path else [os.getcwd()]
    for folder in (*current, *sys.path):
        path = os.path.join(folder, package)
        if os.path.isfile(os.path.join(path, "__init__.py")) or os.path.isfile(f"{path}.py"):
            yield os.path.realpath(path)
            return


def _is_installed(package: str) -> bool:
    """Return True if a package lies in a folder site-packages, in the standard library, or is hookpatch itself."""
    folder = os.path.dirname(package)
    ours = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    return (
        os.path.basename(folder) in _FOLDERS
        or folder == os.path.dirname(os.path.realpath(os.__file__))
        or package == ours
    )


def _of_file(path: str) -> str:
    """Return the known program of a file: a file of the program's package, or a script beside Python."""
    name = os.path.basename(path).lower().removesuffix(".exe").rstrip("0123456789.")
    if name in ("pip", OURS) and os.path.isfile(path) and os.path.dirname(path) in set(_script_folders()):
        return name
    while True:
        folder, name = os.path.split(path)
        if name in (*INSTALLERS, OURS) and _is_installed(path):
            return name
        if folder == path:
            return ""
        path = folder


def _script_folders() -> Iterator[str]:
    """Yield the folders for scripts of this environment, of the base environment, and of the user."""
    import site

    inside = "Scripts" if os.name == "nt" else "bin"
    ours = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))  # `pip install --target` makes a bin beside it
    prefixes = (sys.prefix, sys.base_prefix, getattr(site, "USER_BASE", None), ours)
    yield os.path.realpath(os.path.dirname(sys.executable))
    yield from (os.path.realpath(os.path.join(prefix, inside)) for prefix in prefixes if prefix)
