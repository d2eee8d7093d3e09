"""What the programs that this process starts inherit of the blocks that are open: a variable of the environment each.

One for all would have to be written anew with each: the thousandth block would take as long as a thousand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from hookpatch import _environment
from hookpatch._environment import Variable
from hookpatch._luggage import Carried

_VARIABLE: Final = 100_000  # bytes: Linux starts no program with a variable of 128 KiB or more
_ALL: Final = 200_000  # bytes: nor with too much in all, the program's own arguments and variables included


class _Handed(NamedTuple):
    """A block that is handed on.

    Attributes:
        block: what there is of it.
        variable: where it is.
        text: what it holds: the block, or what is missing of it when there was no room.
    """

    block: Carried
    variable: Variable
    text: str


_handed: Final[dict[int, _Handed]] = {}  # by the number of the session, as they were opened
_missing: Final[dict[int, None]] = {}  # those for which others left no room, likewise
_changes: Final[deque[tuple[int, Carried | None]]] = deque()  # the number of a session; the block, None at its end
_is_changing = False
_size = 0


def hand_on(number: int, block: Carried) -> None:
    """Have programs inherit a block; where there is too little room for all, what was opened first has its own.

    Called under a lock, as ``hand_on_no_longer`` is.
    """
    _changes.append((number, block))
    _change()


def hand_on_no_longer(number: int) -> None:
    """Have them inherit it no more."""
    _changes.append((number, None))
    _change()


def environment(blocks: Iterable[Carried]) -> dict[str, str]:
    """Return an environment for a program that is to inherit these blocks and no others."""
    texts: list[str] = []
    for block in blocks:
        texts.append(_text(block, sum(map(len, texts)))[0])
    return _environment.handing_on([text for text in texts if text])


def _change() -> None:
    """Do what is to be done. A finalizer may call this in the midst of it: whoever is at it goes on with that, too."""
    global _is_changing
    if _is_changing:
        return
    _is_changing = True
    try:
        while _changes:
            number, block = _changes.popleft()
            if block is None:
                _end(number)
            else:
                _begin(number, block)
    finally:
        _is_changing = False
        if _changes:
            _change()


def _begin(number: int, block: Carried) -> None:
    global _size
    text, is_whole = _text(block, _size)
    if not text:
        return
    _size += len(text)
    _handed[number] = _Handed(block, _environment.hand_on(text), text)
    if not is_whole and len(block.text(main=False)) <= _VARIABLE:
        _missing[number] = None


def _end(number: int) -> None:
    global _size
    handed = _handed.pop(number, None)
    if handed is None:
        return
    _size -= len(handed.text)
    _missing.pop(number, None)
    _environment.hand_on_no_longer(handed.variable)
    for other in list(_missing):  # for which there may be room now
        block, variable, before = _handed[other]
        text, is_whole = _text(block, _size - len(before))
        if not is_whole:
            return  # nor for those after it
        _size += len(text) - len(before)
        _handed[other] = _Handed(block, variable, text)
        _environment.hand_on_instead(variable, text)
        del _missing[other]


def _text(block: Carried, taken: int) -> tuple[str, bool]:
    """Return what is handed on when others have taken so much of the room, and whether it is all; empty for nothing."""
    text = block.text(main=False)
    is_whole = len(text) <= min(_VARIABLE, _ALL - taken)
    text = text if is_whole else block.notes
    return text and f"[{text}]", is_whole
