"""Code of a function that passes arguments by itself: a patched call has no frame of hookpatch on the stack.

The code is the original's, with a few instructions after ``RESUME`` that set parameters to constants.
"""

from __future__ import annotations

import dis
import inspect
import marshal
import sys
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

from hookpatch._engine.calls.kept import names_in

_NEWEST: Final = (3, 15)  # newest Python with a tested layout of code
_SEE_CELLS: Final = frozenset({"locals", "vars", "dir", "f_locals"})
_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes)
_COPIED: Final = (dict, list, set)  # by ``inject`` and ``default``, for each call
_STACK: Final = 3  # values on the stack while an entry is added to ``**kwargs``


class Shortcut(NamedTuple):
    """The code and defaults for a function that passes arguments by itself, while the original has the code ``of``."""

    like: Any  # the original, a function
    of: CodeType
    code: CodeType
    defaults: tuple[Any, ...] | None
    keyword_defaults: dict[str, Any] | None


def shortcut(
    like: FunctionType, injected: Mapping[str, Any], defaulted: Mapping[str, Any], cells: tuple[str, ...]
) -> Shortcut | None:
    """Return the code and defaults that pass arguments as ``inject`` and ``default`` do; None if not exactly.

    Args:
        like: the original.
        injected: the arguments for all calls.
        defaulted: the arguments for calls that leave an argument out; no argument is in both.
        cells: the names of the cells that the function has in addition to the original's cells.
    """
    code, either = like.__code__, {**injected, **defaulted}
    if sys.version_info[:2] > _NEWEST or sys.implementation.name != "cpython" or "__wrapped__" in vars(like):
        return None
    if cells and not _SEE_CELLS.isdisjoint(names_in(code)):
        return None  # a caller would see the further cells
    if not all(map(_is_constant, injected.values())) or any(type(value) in _COPIED for value in defaulted.values()):
        return None
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    packed = () if code.co_flags & inspect.CO_VARKEYWORDS else [name for name in injected if name not in names]
    if packed or any(name in names[: code.co_posonlyargcount] for name in either) or not defaulted.keys() <= {*names}:
        return None
    by_place = names[: code.co_argcount]
    before = dict(zip(reversed(by_place), reversed(like.__defaults__ or ()), strict=False))
    by_keyword = like.__kwdefaults__ or {}
    is_set = {*before, *by_keyword}.difference(defaulted)
    new = {name: value for name, value in either.items() if name in names and name not in is_set}
    after = {name: new.get(name, before.get(name)) for name in by_place if name in {*before, *new}}
    if tuple(after) != by_place[len(by_place) - len(after) :]:
        return None  # a parameter without a default would follow
    keywords = {name: value for name, value in new.items() if name not in by_place}
    try:
        giving = _giving(code, code.co_filename, marshal.dumps(tuple(injected.items())), cells)
    except (StopIteration, ValueError):  # an unknown layout of code
        return None
    defaults = tuple(after.values()) if len(new) > len(keywords) else like.__defaults__
    return Shortcut(like, code, giving, defaults, {**by_keyword, **keywords} if keywords else like.__kwdefaults__)


def _is_constant(value: object) -> bool:
    return type(value) in _PLAIN or (type(value) is tuple and all(map(_is_constant, value)))


@lru_cache(maxsize=1024)
def _giving(code: CodeType, file: str, injected: bytes, cells: tuple[str, ...]) -> CodeType:
    """Return code that passes arguments: the same object each time, since torch.compile caches by code."""
    arguments: dict[str, Any] = dict(marshal.loads(injected))
    before = next(instruction for instruction in dis.get_instructions(code) if instruction.opname == "RESUME")
    resumed = next(
        instruction.offset for instruction in dis.get_instructions(code) if instruction.offset > before.offset
    )
    laid = _Laid(code)
    laid.insert(resumed, b"".join(_instructions(code, arguments)))
    if cells and code.co_freevars:
        laid.text = bytes([laid.text[0], laid.text[1] + len(cells), *laid.text[2:]])  # COPY_FREE_VARS
    elif cells:
        laid.insert(0, _instruction("COPY_FREE_VARS", len(cells)))
    return laid.code.replace(
        co_code=laid.text,
        co_linetable=laid.lines,
        co_exceptiontable=laid.handlers,
        co_consts=(*code.co_consts, *arguments.values(), *arguments),
        co_freevars=(*code.co_freevars, *cells),
        co_stacksize=max(code.co_stacksize, _STACK),
    )


def _instructions(code: CodeType, arguments: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield instructions that set each argument to a constant behind the constants of the code."""
    count = code.co_argcount + code.co_kwonlyargcount
    first = len(code.co_consts)
    for place, name in enumerate(arguments):
        yield _instruction("LOAD_CONST", first + place)
        if name in code.co_varnames[:count]:
            yield _instruction(
                "STORE_DEREF" if name in code.co_cellvars else "STORE_FAST", code.co_varnames.index(name)
            )
            continue
        packed = count + bool(code.co_flags & inspect.CO_VARARGS)
        is_cell = code.co_varnames[packed] in code.co_cellvars
        yield _instruction("LOAD_DEREF" if is_cell else "LOAD_FAST", packed)
        yield _instruction("LOAD_CONST", first + len(arguments) + place)
        yield _instruction("STORE_SUBSCR", 0) + bytes(_cache_of_store())


def _instruction(name: str, argument: int) -> bytes:
    """Return an instruction, with prefixes for a large argument."""
    prefixes = [(dis.opmap["EXTENDED_ARG"], argument >> shift & 255) for shift in (24, 16, 8) if argument >> shift]
    return bytes(byte for pair in (*prefixes, (dis.opmap[name], argument & 255)) for byte in pair)


@cache
def _cache_of_store() -> int:
    """Return how many bytes the interpreter keeps behind an instruction that stores an entry."""
    code = compile("a[b] = c", "<hookpatch>", "exec")
    after = iter(dis.get_instructions(code))
    store = next(instruction for instruction in after if instruction.opname == "STORE_SUBSCR")
    return next(after).offset - store.offset - 2


class _Laid:
    """The instructions, line table and exception table of a code, changed together."""

    def __init__(self, code: CodeType) -> None:
        self.code: Final = code
        self.text, self.lines, self.handlers = code.co_code, code.co_linetable, code.co_exceptiontable

    def insert(self, offset: int, new: bytes) -> None:
        """Insert instructions without a line number."""
        self.text = self.text[:offset] + new + self.text[offset:]
        place, units = 0, 0  # the entries of the lines begin with a byte from 128 on
        while place < len(self.lines) and units < offset // 2:
            units += (self.lines[place] & 7) + 1
            place += 1
            while place < len(self.lines) and self.lines[place] < 128:
                place += 1
        if units != offset // 2:
            raise ValueError("an entry of the lines ends elsewhere")
        lengths = [min(len(new) // 2 - unit, 8) for unit in range(0, len(new) // 2, 8)]
        none = bytes(0x80 | 15 << 3 | length - 1 for length in lengths)
        self.lines = self.lines[:place] + none + self.lines[place:]
        self.handlers = b"".join(_moved(self.handlers, offset // 2, len(new) // 2))


def _moved(table: bytes, position: int, by: int) -> Iterator[bytes]:
    """Yield the entries of a table of handlers, of code with more instructions at a place."""
    numbers = iter(_numbers(table))
    for start, length, target, depth in zip(*[numbers] * 4, strict=True):
        ends = start + length
        first, last, to = (place + by * (place >= position) for place in (start, ends, target))
        yield _varint(first, 128) + _varint(last - first) + _varint(to) + _varint(depth)


def _numbers(table: bytes) -> Iterator[int]:
    value = 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            yield value
            value = 0


def _varint(value: int, first: int = 0) -> bytes:
    parts = [value >> shift & 63 for shift in range(30, -1, -6)]
    while len(parts) > 1 and not parts[0]:
        del parts[0]
    encoded = [part | 64 for part in parts[:-1]] + parts[-1:]
    return bytes([encoded[0] | first, *encoded[1:]])
