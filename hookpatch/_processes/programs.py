"""Hand open blocks on to programs started by this process: one environment variable with a JSON list.

The length of the variable is limited, since Linux starts no program with a longer one. Earlier blocks come first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, Final

from hookpatch._bootstrap import environment as _environment
from hookpatch._engine.site.turn_lock import SiteLock
from hookpatch._processes.payload import OpenBlock

_ROOM: Final = 115_000  # bytes: Linux starts no program with a variable of 128 KiB or more
_WITH_NOTES: Final = 125_000

_open: Final[dict[int, OpenBlock]] = {}  # by the number of the session, in the order of opening
_writing: Final = SiteLock()
_is_stale = False  # True while the environment may hold other blocks than these


def hand_on(number: int, block: OpenBlock) -> None:
    """Let programs inherit a block. Called under a lock, as ``hand_on_no_longer`` is."""
    global _is_stale
    _is_stale = True
    _open[number] = block
    _write()


def hand_on_no_longer(number: int) -> None:
    """Let programs inherit a block no longer; a second call does nothing."""
    global _is_stale
    _is_stale = _is_stale or number in _open
    _open.pop(number, None)
    if _is_stale:
        _write()


def hand_on_again(number: int, block: OpenBlock) -> bool:
    """Let programs inherit a block and no other; return False, with nothing changed, if that needs a lock. On the road.

    An interrupted call is undone by ``hand_on_no_longer``.
    """
    global _is_stale
    if _open or _is_stale:
        return False
    block.variable = block.variable or _environment.encoded(_text([block]))
    _is_stale = True
    _open[number] = block
    if not _environment.hand_on_first(block.variable):
        del _open[number]
    _is_stale = False
    return bool(_open)


def hand_on_again_no_longer(number: int) -> bool:
    """End what ``hand_on_again`` began; return False, with nothing changed, if that needs a lock. On the road."""
    global _is_stale
    if _is_stale or len(_open) != 1 or number not in _open:
        return False
    _is_stale = True
    if is_ended := _environment.hand_on_no_longer():
        del _open[number]
    _is_stale = False
    return is_ended


def environment(blocks: Iterable[OpenBlock]) -> dict[str, str]:
    """Return the environment for a program that inherits these blocks and no others."""
    return _environment.handing_on(_text(blocks))


def python_command(args: Any = "", **_: Any) -> list[str]:
    """Return the words of a command that runs Python, or a script installed beside Python; none of another command."""
    words = os.fsdecode(args).split() if isinstance(args, (str, bytes, os.PathLike)) else [*map(os.fsdecode, args)]
    name = os.path.basename(words[0]) if words else ""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    runs_python = name.startswith("python") or (sys.prefix != sys.base_prefix and name and os.path.exists(beside))
    return words if runs_python else []


def _write() -> None:
    """Write all open blocks. A finalizer that closes a session meanwhile writes after this."""
    global _is_stale
    if not _writing.take():
        return _writing.later(_write)
    try:
        _environment.hand_on(_text(list(_open.values())))  # a list is made before it is iterated, a tuple is not
        _is_stale = False
    finally:
        _writing.end()


def _text(blocks: Iterable[OpenBlock]) -> str:
    """Return the JSON list of blocks; of a block without room, a note of the missing items."""
    texts: list[str] = []
    taken = 0
    for block in blocks:
        text = block.text(main=False)
        text = text if taken + len(text) <= _ROOM else block.notes
        if text and taken + len(text) <= _WITH_NOTES:
            texts.append(text)
            taken += len(text) + 1
    return f"[{','.join(texts)}]" if texts else ""
