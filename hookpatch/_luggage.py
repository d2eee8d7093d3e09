"""What a block hands on to the processes that are started inside it: its plugins and patches, packed."""

from __future__ import annotations

import base64
import io
import os
import pickle
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from types import FunctionType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final

from hookpatch import _imports, _task
from hookpatch._json import written
from hookpatch._patch import Patch, Scope
from hookpatch._selection import normalise
from hookpatch.errors import NotCarriedError, NotCarriedWarning

Children: TypeAlias = Literal["inherit", "local", "require"]
Item: TypeAlias = dict[str, Any]  # a plugin's name with its options, or a patch as text: what JSON can hold

_OWN: Final = os.urandom(4).hex()  # of this program: another one may run in the same process, started by os.exec
_ROOM: Final = 60_000  # bytes of a patch
_MANY: Final = 256

_facts: Final = attrgetter(*(field.name for field in fields(Patch) if field.name not in ("target", "change")))
_known: Final[dict[tuple[Any, ...], Piece]] = {}  # by what there is of a patch around a function, that as its name


class Piece(NamedTuple):
    """One plugin or patch of a block, packed.

    Attributes:
        text: it as JSON.
        elsewhere: it for a process with another ``__main__``: a note if it can only be found there.
        of: how messages name it.
    """

    text: str
    elsewhere: str
    of: str


@final
class Luggage:
    """What a block hands on to processes that are started inside it, each time that it is entered.

    Attributes:
        id: what the block is known by if it was handed on to this process, as JSON; empty for one of its own.
        pieces: its plugins and patches, packed.
        left: why something stays in this process, by its place among what was asked for.
        is_empty: True when there is nothing to hand on, and nothing to say of what stays.
        is_in_environment: True when all that this process starts is started inside the block.
        has_to_be_told: True when the environment does not do: not all programs are started inside, or some patch stays
            here.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        left: Mapping[int, Left],
        scope: Scope,
        require: bool,
        count: bool,
        lock: tuple[str, str] | None,
        id: str | None = None,
    ) -> None:
        self.id: Final = "" if id is None else written(id)
        self.left: Final = left
        self.is_empty: Final = not pieces and not left
        self.is_in_environment: Final = scope == "process"
        self.has_to_be_told: Final = bool(left) or not self.is_in_environment
        self.pieces: Final = pieces
        self._head: Final = _head(require, count, lock)

    def text(self, id: str, pieces: Sequence[str]) -> str:
        """Return it as JSON, of these pieces; empty if there are none."""
        return f'{{"id": {id}, {self._head}, "what": [{", ".join(pieces)}]}}' if pieces else ""

    def warn(self) -> None:
        """Say what a process that is about to start does not get."""
        for one in self.left.values():
            warnings.warn(f"a process starts without {one}", NotCarriedWarning, stacklevel=4)


@final
class Carried:
    """The luggage of a block that is open. Lives as long as the block's session.

    Attributes:
        luggage: what it hands on.
        place: its number among the blocks of this process that are open, 0 for one that was handed on to it.
    """

    __slots__ = ("_id", "_number", "luggage", "place")

    def __init__(self, luggage: Luggage, number: int, place: int) -> None:
        """Make one.

        Args:
            luggage: what it hands on.
            number: that of its session.
            place: see above. It is taken again by another one: the same block hands on the same text, however often it
                is entered, for the C library keeps each text that the environment has ever had.
        """
        self.luggage: Final = luggage
        self.place: Final = place
        self._number: Final = number
        self._id: Final = luggage.id or f'"{os.getpid()}-{_OWN}-{place}"'

    @property
    def is_here(self) -> bool:
        """True where a process that is started is started inside the block."""
        return self.luggage.is_in_environment or _task.is_here(self._number)

    def text(self, main: bool) -> str:
        """Return it as JSON; what can only be found in ``__main__`` as a note if ``main`` is not to be there."""
        return self.luggage.text(self._id, [piece.text if main else piece.elsewhere for piece in self.luggage.pieces])

    @property
    def notes(self) -> str:
        """What to hand on when there is no room for it: what is missing, and why."""
        return self.luggage.text(self._id, [_note(piece.of, _NO_ROOM) for piece in self.luggage.pieces])


def pack(
    what: Sequence[str | Patch],
    options: Mapping[str, Mapping[str, Any]],
    children: Children,
    scope: Scope,
    count: bool,
    lock: tuple[str, str] | None = None,
) -> Luggage:
    """Return what of a block can be handed on.

    Raises:
        NotCarriedError: ``children`` is "require", and something cannot be.
    """
    pieces: list[Piece] = []
    left: dict[int, Left] = {}
    for at, one in enumerate(what if children != "local" else ()):
        try:
            pieces.append(_packed_plugin(one, options) if isinstance(one, str) else _packed_patch(one))
        except Left as error:
            left[at] = Left(error.of, error.why)  # another one: that has the frames of those who call us
    if children == "require" and left:
        raise NotCarriedError([str(error) for error in left.values()])
    return Luggage(pieces, left, scope, children == "require", count, lock)


def piece(item: Item) -> Piece:
    """Return what was handed on to this process as what it hands on itself."""
    of, text = item.get("of", f"plugin '{item.get('plugin')}'"), written(item)
    return Piece(text, _note(of, _MAIN) if "main" in item else text, of)


def _note(of: str, why: str) -> str:
    """Return as JSON what is missing."""
    return written({"of": of, "why": why})


@lru_cache
def _head(require: bool, count: bool, lock: tuple[str, str] | None) -> str:
    return written({"require": require, "count": count, "lock": lock})[1:-1]


class Left(Exception):
    """Something stays here.

    Attributes:
        of: what.
        why: why.
    """

    def __init__(self, of: str, why: str) -> None:
        self.of: Final = of
        self.why: Final = why
        super().__init__(f"{of}: {why}")


def _packed_plugin(name: str, options: Mapping[str, Mapping[str, Any]]) -> Piece:
    meant = [key for key in options if normalise(key.partition("@")[0]) == normalise(name.partition("@")[0])]
    try:
        return piece({"plugin": name, "options": {key: options[key] for key in meant}})
    except (TypeError, ValueError) as error:
        raise Left(f"plugin '{name}'", f"its options are no JSON ({error})") from None


def _packed_patch(patch: Patch) -> Piece:
    if patch.target is not None and patch.module is None and not isinstance(patch.target.start, type):
        raise Left(_name(patch), "its target is an object at hand, which another process does not have")
    if type(patch.change) is not FunctionType:
        return _packed(patch)
    module, name = patch.change.__module__, patch.change.__qualname__
    if "<" in name:
        kind = "a lambda" if patch.change.__name__ == "<lambda>" else f"{patch.change.__name__}(), a local function"
        problem = f"it is made of {kind}, which another process does not find; define a function in a module"
        raise Left(_name(patch), problem)
    # A function is packed as its name. So a patch with one is packed once, however often its block is entered.
    home = _imports.named(module) if patch.module is not None else None
    if home is None or vars(home).get(name) is not patch.change:
        return _packed(patch)
    key = (module, name, patch.address, *_facts(patch))
    known = _known.get(key)
    if known is None:
        if len(_known) >= _MANY:
            _known.clear()
        known = _known[key] = _packed(patch)
    return known


def _packed(patch: Patch) -> Piece:
    try:
        pickled = _pickled(patch)
    except _TooLarge:
        raise Left(_name(patch), f"more than {_ROOM} bytes are too many to be handed on") from None
    except Exception as error:  # whatever some object's own __reduce__ raises
        raise Left(_name(patch), f"it cannot be pickled ({error})") from None
    item: Item = {"of": _name(patch), "module": patch.module, "patch": base64.b64encode(pickled).decode()}
    if b"__main__" in pickled:
        if getattr(_imports.loaded("__main__"), "__file__", None) is None:
            raise Left(_name(patch), "it is defined in an interactive session; define it in a module")
        item["main"] = True
    return piece(item)


def _name(patch: Patch) -> str:
    return f"the patch of {patch.address}"


class _TooLarge(Exception):
    """More than there is room for."""


@final
class _Packer(pickle.Pickler):
    """Gives up as soon as it is too much: a model of some gigabytes is not to be copied for each block."""

    def reducer_override(self, thing: Any) -> Any:
        """Look at the size of arrays and tensors before they are asked for what they hold."""
        if hasattr(type(thing), "nbytes") and isinstance(thing.nbytes, int) and thing.nbytes > _ROOM:
            raise _TooLarge
        return NotImplemented


@final
class _Room(io.BytesIO):
    """A buffer that takes as much as there is room for."""

    def write(self, text: Any) -> int:
        """Take bytes."""
        if self.tell() + len(text) > _ROOM:
            raise _TooLarge
        return super().write(text)


def _pickled(patch: Patch) -> bytes:
    room = _Room()
    _Packer(room, protocol=5).dump(patch)
    return room.getvalue()


_NO_ROOM: Final = "the blocks that are open have too much to hand on"
_MAIN: Final = "it is defined in __main__ of the program that started this one; define it in a module"


def unpacked(item: Item) -> Patch:
    """Return the patch of an item.

    Raises:
        Left: it is none, or what the patch needs cannot be imported here.
    """
    if "patch" not in item:
        raise Left(**item)
    try:
        patch = pickle.loads(base64.b64decode(item["patch"]))
    except Exception as error:  # whatever the modules that it needs raise when they are imported
        raise Left(item["of"], f"{type(error).__name__}: {error}") from error
    assert isinstance(patch, Patch)
    return patch
