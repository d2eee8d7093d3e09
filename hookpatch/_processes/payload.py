"""Pack the plugins and patches of a block for child processes, and unpack the patches in a child process."""

from __future__ import annotations

import base64
import io
import os
import pickle
from binascii import crc32
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from operator import attrgetter
from types import FunctionType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._bootstrap.json import written
from hookpatch._bootstrap.selection import PluginName
from hookpatch._engine.patch.describe import PLAIN, a_kind
from hookpatch._engine.patch.patch import GIVING_VERBS, Patch, Scope
from hookpatch._processes import starts
from hookpatch._processes.liveness import PROGRAM
from hookpatch._session import task
from hookpatch.errors import NotCarriedError

Children: TypeAlias = Literal["inherit", "local", "require"]
Item: TypeAlias = dict[str, Any]  # a plugin's name with its options, or a pickled patch, as JSON values

_ROOM: Final = 60_000  # bytes of a patch
_MANY: Final = 256
_FEW: Final = 5  # items named in a message
_facts: Final = attrgetter(*(field.name for field in fields(Patch) if field.name not in ("target", "change")))
_cache: Final[dict[tuple[Any, ...], PayloadItem]] = {}  # by the name of a patch's function, and the facts of the patch


class PayloadItem(NamedTuple):
    """A packed plugin or patch: the JSON text, the text for a process with another ``__main__``, the name."""

    text: str
    elsewhere: str
    of: str


@final
class Payload:
    """The packed plugins and patches of a block.

    Attributes:
        id: the id of a block handed on to this process, as JSON; empty for a block of this process.
        not_carried: why an item stays in this process, by the item's index among the requested items.
        is_in_environment: True when the block is around all child processes, and not only around a task's.
        is_required: True when no child process may lack an item.
        asks_at_start: True when each start of a program needs a look: to warn of missing items, or to refuse the start.
        block: the block of the last time, perhaps of a parent process.
        has_to_be_told: True when the environment is not enough: for a task's block, or with missing items to warn of.
    """

    def __init__(
        self,
        pieces: Sequence[PayloadItem],
        not_carried: Mapping[int, NotCarried],
        scope: Scope,
        require: bool,
        count: bool,
        lock: tuple[str, str] | None,
        id: str | None = None,
    ) -> None:
        self.id: Final = "" if id is None else written(id)
        self.not_carried: Final = not_carried
        self.is_in_environment: Final = scope == "process"
        self.has_to_be_told: Final = bool(not_carried) or not self.is_in_environment
        self.is_required: Final = require
        self.asks_at_start: Final = self.has_to_be_told or require or not starts.reads_startup_file()
        self.pieces: Final = pieces
        self.block: OpenBlock | None = None
        self._head: Final = _head(require, count, lock)

    def text(self, id: str, pieces: Sequence[str]) -> str:
        """Return the block with the given items as JSON; an empty text without items."""
        return f'{{"id": {id}, {self._head}, "what": [{", ".join(pieces)}]}}' if pieces else ""

    def keep(self, block: OpenBlock) -> None:
        """Keep a block of this payload, for the next time without another block."""
        if not self.has_to_be_told:
            self.block = block

    def warn(self) -> None:
        """Warn of the items missing in a child process about to start."""
        for item in self.not_carried.values():
            starts.warn_of_child(f"a process starts without {item}")


@final
class OpenBlock:
    """The payload of an open block. Lives as long as the block's session.

    ``place`` numbers the open blocks of this process; 0 is a block of the parent process. A place is used again: the
    block has the same text then, and the C library keeps each text ever set in the environment.
    """

    __slots__ = ("_number", "elsewhere", "id", "is_handed_on", "key", "payload", "place", "process", "variable")

    def __init__(self, payload: Payload, number: int, place: int) -> None:
        self.payload: Final = payload
        self.place: Final = place
        self.process: Final = os.getpid()
        self.is_handed_on = False  # by the environment, to programs
        self.variable: str | bytes = ""  # hands on this block alone; empty until the first use
        self._number: Final = number
        self.elsewhere = ""  # the text without ``main``, once made: the environment is written at each opening and end
        digest = crc32("".join(piece.text for piece in payload.pieces).encode())  # other items: another id
        self.id: Final = payload.id or f'"{os.getpid()}-{PROGRAM}-{place}-{digest:x}"'
        self.key: Final = key_of(self.id)

    @property
    def names(self) -> str:
        """The names of the items handed on, for a message; of many items the first."""
        names, more = [piece.of for piece in self.payload.pieces[:_FEW]], len(self.payload.pieces) - _FEW
        return f"{', '.join(names)}{f' and {more} more' * (more > 0)}"

    @property
    def is_of_thread(self) -> bool:
        """True if the block is around a child process that this thread starts now."""
        return self.payload.is_in_environment or task.is_in_effect(self._number)

    def text(self, main: bool) -> str:
        """Return the block as JSON; without ``main``, names of ``__main__`` are replaced by a note."""
        return self.payload.text(self.id, [piece.text if main else piece.elsewhere for piece in self.payload.pieces])

    def note(self, of: str = "") -> str:
        """Return the block as JSON, the items replaced by a note, for an environment without room."""
        return self.payload.text(self.id, [_note(of or self.names, _NO_ROOM)] if self.payload.pieces else [])


def key_of(id: str) -> int:
    """Return the key of a block in the table of open blocks; takes the id as JSON."""
    return crc32(id.encode())


def pack(
    items: Sequence[str | Patch],
    options: Mapping[str, Mapping[str, Any]],
    children: Children,
    scope: Scope,
    count: bool,
    lock: tuple[str, str] | None = None,
) -> Payload:
    """Return the payload of a block; raise NotCarriedError if ``children`` requires an item that cannot be packed."""
    pieces: list[PayloadItem] = []
    not_carried: dict[int, NotCarried] = {}
    for index, item in enumerate(items if children != "local" else ()):
        try:
            pieces.append(_packed_plugin(item, options) if isinstance(item, str) else _packed_patch(item))
        except NotCarried as error:
            not_carried[index] = NotCarried(error.of, error.why)  # a new error, without the frames of our callers
    if children == "require" and not_carried:
        raise NotCarriedError([str(error) for error in not_carried.values()])
    return Payload(pieces, not_carried, scope, children == "require", count, lock)


def piece(item: Item) -> PayloadItem:
    """Return an item as packed for child processes."""
    of, text = item.get("of", f"plugin '{item.get('plugin')}'"), written(item)
    return PayloadItem(text, _note(of, _MAIN) if "main" in item else text, of)


def _note(of: str, why: str) -> str:
    return written({"of": of, "why": why})


@lru_cache
def _head(require: bool, count: bool, lock: tuple[str, str] | None) -> str:
    return written({"require": require, "count": count, "lock": lock})[1:-1]


def is_packed_the_same(patch: Patch) -> bool:
    """Return True if the packed form of a patch cannot have changed: plain values, or a name of the same function."""
    change = patch.change
    if type(change) is not FunctionType:
        values = change.values() if patch.verb in GIVING_VERBS else (change,)
        return all(type(value) in PLAIN for value in values)
    home = imports.module_named(change.__module__)
    return home is not None and vars(home).get(change.__qualname__) is change


class NotCarried(Exception):
    """An item (``of``) that cannot be carried, and the reason (``why``)."""

    def __init__(self, of: str, why: str) -> None:
        self.of: Final = of
        self.why: Final = why
        super().__init__(f"{of}: {why}")


def _packed_plugin(name: str, options: Mapping[str, Mapping[str, Any]]) -> PayloadItem:
    meant = [key for key in options if PluginName(key).name == PluginName(name).name]
    try:
        return piece({"plugin": name, "options": {key: options[key] for key in meant}})
    except (TypeError, ValueError) as error:
        raise NotCarried(f"plugin '{name}'", f"the options are no JSON ({error})") from None


def _packed_patch(patch: Patch) -> PayloadItem:
    is_at_hand = patch.target is not None and patch.module is None and not isinstance(patch.target.start, type)
    if is_at_hand or patch.is_of_one_at_hand:
        part = "its target" if is_at_hand else "its of="
        raise NotCarried(_name(patch), f"{part} is an object without an address, which another process does not have")
    if type(patch.change) is not FunctionType:
        return _packed(patch)
    module, name = patch.change.__module__, patch.change.__qualname__
    if "<" in name:
        kind = "a lambda" if patch.change.__name__ == "<lambda>" else f"{patch.change.__name__}(), a local function"
        problem = f"made of {kind}, which another process does not find; define a function in a module"
        raise NotCarried(_name(patch), problem)
    # A function is pickled as a name. Therefore a patch with a function is packed once for all entries of the block.
    if patch.module is None or not is_packed_the_same(patch):
        return _packed(patch)
    packed = _cache.get(key := (module, name, patch.address, *_facts(patch)))
    if packed is None:
        if len(_cache) >= _MANY:
            _cache.clear()
        packed = _cache[key] = _packed(patch)
    return packed


def _packed(patch: Patch) -> PayloadItem:
    pickled = _pickled(patch)
    # A block waits for its modules. For a change of a module's source the import of the module is too late.
    module = None if patch.is_of_source else patch.module
    item: Item = {"of": _name(patch), "module": module, "patch": base64.b64encode(pickled).decode()}
    # ``__main__`` in callers= means the child's own main module; functions defined in ``__main__`` are the parent's.
    if b"__main__" in (_pickled(replace(patch, callers=())) if patch.callers else pickled):
        if getattr(imports.loaded("__main__"), "__file__", None) is None:
            raise NotCarried(_name(patch), "defined in an interactive session; define the patch in a module")
        item["main"] = True
    return piece(item)


def _pickled(patch: Patch) -> bytes:
    room = _Room()
    try:
        _Packer(room, protocol=5).dump(patch)
    except _TooLarge:
        raise NotCarried(_name(patch), f"more than {_ROOM} bytes are too many to be handed on") from None
    except Exception as error:  # from the __reduce__ of any object
        if is_interrupt(error):
            raise
        raise NotCarried(_name(patch), f"cannot be pickled ({error})") from None
    return room.getvalue()


def _name(patch: Patch) -> str:
    return f"the patch of {patch.address}"


class _TooLarge(Exception):
    """A pickle with more than ``_ROOM`` bytes."""


@final
class _Packer(pickle.Pickler):
    """Refuses large arrays and tensors before copying their bytes: a model of some gigabytes takes long to copy."""

    def reducer_override(self, value: Any) -> Any:
        if hasattr(type(value), "nbytes") and isinstance(value.nbytes, int) and value.nbytes > _ROOM:
            raise _TooLarge
        return NotImplemented


@final
class _Room(io.BytesIO):
    """A buffer of at most ``_ROOM`` bytes."""

    def write(self, text: Any) -> int:
        if self.tell() + len(text) > _ROOM:
            raise _TooLarge
        return super().write(text)


_NO_ROOM: Final = "the blocks that are open have too much to hand on"
_MAIN: Final = "the class or function is in __main__ of the parent program; use a module instead"


def unpacked(item: Item) -> Patch:
    """Return the patch of an item; raise NotCarried for a note, or if the patch cannot be unpickled here."""
    if "patch" not in item:
        raise NotCarried(**item)
    try:
        patch = pickle.loads(base64.b64decode(item["patch"]))
    except (pickle.UnpicklingError, EOFError, ValueError) as error:
        raise NotCarriedError([f"{item['of']}: the pickle is damaged ({type(error).__name__}: {error})"]) from None
    except Exception as error:  # from the import of any module needed by the patch
        if is_interrupt(error):
            raise
        raise NotCarried(item["of"], f"{type(error).__name__}: {error}") from error
    if not isinstance(patch, Patch):
        raise NotCarriedError([f"{item['of']}: the pickle is damaged (a patch was expected, not {a_kind(patch)})"])
    return patch
