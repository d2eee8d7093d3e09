"""Show a child process that a block has ended in the process that handed the block on.

A copy of the environment outlives the block in which the copy was made. A program started with the copy asks the
process named in the copy. Linux: the answer is a table in a memory file, which has no name in any folder and ends with
the process. Without a table a block counts as open.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, final

from hookpatch._bootstrap.interrupts import ErrorsOfCode, is_interrupt

PROGRAM: Final = os.urandom(4).hex()  # the id of this program: os.exec runs another program in the same process
_MANY: Final = 511  # rows, in 8 KiB
END: Final = 1  # the place of the time in a row
_IS_POSSIBLE: Final = hasattr(os, "memfd_create") and hasattr(time, "CLOCK_BOOTTIME")
read_clock: Final = partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME) if _IS_POSSIBLE else time.time_ns

# --- in the process that hands on blocks


@final
class _Table:
    """Rows of two numbers: the key of a block, and the time of the block's end; 0 while the block is open.

    The first number of all is 1 if more blocks were open at a time than the table has rows.

    Attributes:
        rows: by key.
    """

    def __init__(self, keys: Iterable[int]) -> None:
        import mmap  # most processes hand on no block after an end

        read_clock()  # refused in some containers
        file = os.memfd_create(_name(process()))
        try:
            os.truncate(file, 8 * (1 + 2 * _MANY))
            self._numbers: Final = memoryview(mmap.mmap(file, 0)).cast("Q")
        finally:
            os.close(file)  # mmap has a descriptor of its own
        self.rows: Final[dict[int, memoryview[int]]] = {}
        for key in keys:
            self.add(key)

    def add(self, key: int) -> None:
        """Add a row for an open block; the key has no row."""
        if (row := self._free_row()) is None:
            self._numbers[0] = 1
            return
        row[0] = key  # before the next line, for readers
        row[END] = 0
        self.rows[key] = row

    def ended_at(self, key: int) -> int:
        return self.rows[key][END] if key in self.rows else 0

    def close(self) -> None:
        """Give back the descriptor, which is open as long as a row is, whoever has the row."""
        for row in (*self.rows.values(), self._numbers):
            row.release()

    def _free_row(self) -> memoryview[int] | None:
        if (count := len(self.rows)) < _MANY:
            return self._numbers[1 + 2 * count : 3 + 2 * count]
        old = next((key for key, row in self.rows.items() if row[END]), None)
        return None if old is None else self.rows.pop(old)


pid = os.getpid()  # asked for at each block: the system takes longer to answer
_table: _Table | None = None
rows: Mapping[int, memoryview[int]] = {}  # of the table; empty without a table
_passed_on: int | None = None  # the descriptor of an empty table, for a program replacing this program


def process() -> str:
    """Return the name of this process in handed on blocks."""
    return f"{os.getpid()}-{PROGRAM}"


def begin(key: int) -> bool:
    """Note that a block is open; return False if the end of a block cannot be noted without a lock."""
    global rows
    if (table := _table) is None:
        return not _IS_POSSIBLE
    rows = table.rows
    if row := rows.get(key):
        row[END] = 0
    else:
        table.add(key)
    return True


def end(key: int, open_keys: Iterable[int]) -> None:
    """Note the end of a block, and other open blocks. Called under a lock, as ``begin`` is."""
    global _table
    if (table := _table) is None and _IS_POSSIBLE:
        with ErrorsOfCode(OSError, ImportError, ValueError):  # no descriptor, no memory, no module mmap
            _table = table = _Table({key, *open_keys})
    if table is not None and (row := table.rows.get(key)) and not row[END]:
        row[END] = read_clock()


def outwait(key: int) -> None:
    """Wait until a program starting now counts as started after the end of a block: 0.01 s at most."""
    while _table is not None and (ended := _table.ended_at(key)):
        ticks = _ticks(ended) + 1 - time.clock_gettime(time.CLOCK_BOOTTIME) * _PER_SECOND
        if ticks <= 0:
            break
        time.sleep(ticks / _PER_SECOND)


def pass_on_end(process: str) -> None:
    """Show the program about to replace this program that all blocks of a process, perhaps a parent, have ended."""
    global _passed_on
    if _IS_POSSIBLE and _passed_on is None:
        _passed_on = os.memfd_create(_name(process), 0)  # inherited


def pass_on_nothing() -> None:
    """Undo ``pass_on_end``: the program was not replaced."""
    global _passed_on
    if _passed_on is not None:
        os.close(_passed_on)
        _passed_on = None


def _after_fork() -> None:
    global _table, pid, rows
    pid, table = os.getpid(), _table
    _table, rows = None, {}
    if table is not None:  # the table of the parent process; a child process makes a new table
        table.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# --- in a process with handed on blocks


def ended(process: str, keys: Iterable[int], text: str) -> set[int]:
    """Return the keys of the blocks that ended in a process before the process started this process with a text.

    For an interpreter made in this process: the blocks that have ended by now.
    """
    pid = process.partition("-")[0]
    keys = set(keys)
    own = _table_of("self", process)
    if own is not None and not os.fstat(int(own)).st_size:  # passed on by this process, before the program was replaced
        os.close(int(own))
        return keys
    file = own or _table_of(pid, process)
    if file is None:
        return set()
    try:
        with open(f"/proc/{pid}/fd/{file}", "rb") as table:
            is_full, *numbers = memoryview(table.read()).cast("Q")
        began = _start(text, pid) if own is None else _NOW
    except (OSError, ValueError) as error:
        if is_interrupt(error):
            raise
        return set()
    rows = zip(*[iter(numbers)] * 2, strict=True)
    open_when_started = {key for key, end in rows if not end or began <= _ticks(end)}
    return set() if is_full else keys - open_when_started


_NOW: Final = float("inf")  # later than each end


def _name(process: str) -> str:
    return f"hookpatch-{process}"  # not of the program alone: a fork may keep the parent's descriptor


def _table_of(pid: str, process: str) -> str | None:
    """Return the descriptor, in a process, of the table that a process has made."""
    folder, link = f"/proc/{pid}/fd", f"/memfd:{_name(process)} (deleted)"
    with ErrorsOfCode(OSError):  # no process of the number, another user's process, or not Linux
        for file in os.listdir(folder):
            with ErrorsOfCode(OSError):
                if os.readlink(f"{folder}/{file}") == link:
                    return file
    return None


def _start(text: str, until: str) -> int:
    """Return the start, in ticks, of the first process with a text, from another process down to this process."""
    pid = "self"
    while True:
        status: Any = _read(pid, "stat").rpartition(b")")[2].split()
        parent = status[1].decode()
        is_first = True
        with ErrorsOfCode(OSError):
            is_first = parent in ("0", "1", until) or os.fsencode(text) not in _read(parent, "environ")
        if is_first:
            return int(status[19])
        pid = parent


def _read(pid: str, file: str) -> bytes:
    with open(f"/proc/{pid}/{file}", "rb") as opened:
        return opened.read()


_PER_SECOND: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def _ticks(nanoseconds: int) -> int:
    return nanoseconds * _PER_SECOND // 10**9
