"""Read and write files in folders that other users may write into, too: whole, and through no planted link or pipe."""

from __future__ import annotations

import os
import stat

from hookpatch._bootstrap.interrupts import ErrorsOfCode, is_interrupt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final, TypeVar

    _Result = TypeVar("_Result")

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_READ: Final = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)  # O_NONBLOCK: to open a pipe would wait for a writer
_OURS: Final = 0o600
FORMAT: Final = 1  # of a report file; another number when a field gets another meaning
_MOST: Final = 64 * 2**20  # bytes of a file of ours


def current_folder() -> str | None:
    """Return the current folder, None for a deleted folder."""
    with ErrorsOfCode(OSError):
        return os.getcwd()
    return None


def make_folder(path: str) -> None:
    """Make a folder that other users cannot read; leave an existing folder unchanged. Raise OSError."""
    try:
        os.stat(path)  # raises an error if the name is too long
    except FileNotFoundError:
        os.makedirs(path, 0o700, exist_ok=True)


def reserve(path: str) -> bool:
    """Make an empty file; return False if the name is in use. Raise OSError."""
    try:
        os.close(os.open(path, _NEW, _OURS))
    except FileExistsError:
        return False
    return True


def write_new(path: str, text: str) -> bool:
    """Write a file in one step, as ``write_whole`` does; return False if the name is in use."""

    def rename_new(unfinished: str) -> bool:
        try:
            os.link(unfinished, path)
        except FileExistsError:
            return False
        except OSError as error:  # a file system without links: for a moment the file is empty
            if is_interrupt(error):
                raise
            if not reserve(path):
                return False
            os.replace(unfinished, path)
        return True

    return _write(path, text, _OURS, rename_new)


def write_whole(path: str, text: str, mode: int = _OURS) -> None:
    """Write a file in one step: a reader finds the former or the new content. Raise OSError, and leave no file behind.

    The text is first written under an unforeseeable name: another user cannot plant a link under the name.
    """
    _write(path, text, mode, lambda unfinished: os.replace(unfinished, path))


def _write(path: str, text: str, mode: int, put: Callable[[str], _Result]) -> _Result:
    unfinished = os.path.join(os.path.dirname(path), f".{os.urandom(8).hex()}.unfinished")
    number = os.open(unfinished, _NEW, mode)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
        return put(unfinished)
    finally:
        if os.path.lexists(unfinished):
            os.unlink(unfinished)


def read_given(path: str) -> bytes:
    """Return the content of a file named by a user; raise OSError for a pipe or a device, which may have no end."""
    kind = stat.S_IFMT(os.stat(path).st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        raise OSError(22, "it is no file but a pipe or a device")
    with open(path, "rb") as file:
        return file.read()


def read_ours(path: str) -> bytes:
    """Return the content of a file written by ``write_whole``.

    Raise OSError if it cannot be read, ValueError for a pipe, a link, a folder, or more than 64 MiB.
    """
    try:
        number = os.open(path, _READ)
    except OSError as error:
        if os.path.islink(path) and not is_interrupt(error):
            raise ValueError("it is a link") from None
        raise error from None
    with os.fdopen(number, "rb") as file:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no file but a pipe, a folder or a device")
        if status.st_size > _MOST:
            raise ValueError("the file is larger than 64 MiB")
        return file.read(status.st_size)
