"""What a block hands on to the processes that are started inside it: its plugins and patches, packed."""

from __future__ import annotations

import base64
import io
import os
import pickle
import warnings
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any, Final, Literal, TypeAlias, final

from hookpatch import _imports, _task
from hookpatch._json import written
from hookpatch._patch import Patch, Scope
from hookpatch._selection import normalise
from hookpatch.errors import NotCarriedError, NotCarriedWarning

Children: TypeAlias = Literal["inherit", "local", "require"]
Item: TypeAlias = dict[str, Any]  # a plugin's name with its options, or a patch as text: what JSON can hold

_ROOM: Final = 60_000  # bytes of a patch


@final
class Luggage:
    """What a block hands on to processes that are started inside it. Lives as long as the block's session.

    Attributes:
        left: why something stays in this process, by its place among what was asked for.
    """

    def __init__(self, items: Sequence[Item], left: Mapping[int, Left], scope: Scope, **head: Any) -> None:
        self.left: Final = left
        self._items: Final = items
        self._scope: Final = scope
        self._head: Final = head
        self._number = 0
        self._texts: dict[bool, str] = {}

    def number(self, number: int) -> None:
        """Note the number of the block's session, by which a process knows it."""
        self._number = number
        self._texts = {}

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to hand on, and nothing to say of what stays."""
        return not self._items and not self.left

    @property
    def is_here(self) -> bool:
        """True where a process that is started is started inside the block."""
        return self._scope == "process" or _task.is_here(self._number)

    @property
    def is_in_environment(self) -> bool:
        """True when all that this process starts is started inside the block."""
        return self._scope == "process"

    @property
    def has_to_be_told(self) -> bool:
        """True when the environment does not do: not all programs are started inside, or some patch stays here."""
        return bool(self.left) or not self.is_in_environment

    def text(self, main: bool) -> str:
        """Return it as JSON; what can only be found in ``__main__`` as a note if ``main`` is not to be there."""
        if main not in self._texts:
            items = [_note(item, _MAIN) if "main" in item and not main else item for item in self._items]
            self._texts[main] = self._text(items)
        return self._texts[main]

    @property
    def notes(self) -> str:
        """What to hand on when there is no room for it: what is missing, and why."""
        return self._text([_note(item, "the blocks that are open have too much to hand on") for item in self._items])

    def _text(self, items: Sequence[Item]) -> str:
        head = {"id": f"{os.getpid()}-{self._number}", **self._head}
        return written({**head, "what": items}) if items else ""

    def warn(self) -> None:
        """Say what a process that is about to start does not get."""
        for one in self.left.values():
            warnings.warn(f"a process starts without {one}", NotCarriedWarning, stacklevel=4)


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
    items: list[Item] = []
    left: dict[int, Left] = {}
    for at, one in enumerate(what if children != "local" else ()):
        try:
            items.append(_packed_plugin(one, options) if isinstance(one, str) else _packed_patch(one))
        except Left as error:
            left[at] = Left(error.of, error.why)  # another one: that has the frames of those who call us
    if children == "require" and left:
        raise NotCarriedError([str(error) for error in left.values()])
    return Luggage(items, left, scope, require=children == "require", count=count, lock=lock)


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


def _packed_plugin(name: str, options: Mapping[str, Mapping[str, Any]]) -> Item:
    meant = [key for key in options if normalise(key.partition("@")[0]) == normalise(name.partition("@")[0])]
    item = {"plugin": name, "options": {key: options[key] for key in meant}}
    try:
        written(item)
    except (TypeError, ValueError) as error:
        raise Left(f"plugin '{name}'", f"its options are no JSON ({error})") from None
    return item


def _packed_patch(patch: Patch) -> Item:
    of = f"the patch of {patch.address}"
    if patch.target is not None and patch.module is None and not isinstance(patch.target.start, type):
        raise Left(of, "its target is an object at hand, which another process does not have")
    if type(patch.change) is FunctionType and "<" in patch.change.__qualname__:
        kind = "a lambda" if patch.change.__name__ == "<lambda>" else f"{patch.change.__name__}(), a local function"
        raise Left(of, f"it is made of {kind}, which another process does not find; define a function in a module")
    try:
        packed = _packed(patch)
    except _TooLarge:
        raise Left(of, f"more than {_ROOM} bytes are too many to be handed on") from None
    except Exception as error:  # whatever some object's own __reduce__ raises
        raise Left(of, f"it cannot be pickled ({error})") from None
    text = base64.b64encode(packed).decode()
    item: Item = {"of": of, "module": patch.module, "patch": text}
    if b"__main__" in packed:
        if getattr(_imports.loaded("__main__"), "__file__", None) is None:
            raise Left(of, "it is defined in an interactive session; define it in a module")
        item["main"] = True
    return item


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


def _packed(patch: Patch) -> bytes:
    room = _Room()
    _Packer(room, protocol=5).dump(patch)
    return room.getvalue()


def _note(item: Item, why: str) -> Item:
    return {"of": item.get("of", f"plugin '{item.get('plugin')}'"), "why": why}


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
