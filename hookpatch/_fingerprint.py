"""What a target is like: what a lock file notes of it, to be compared with what it is like later."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final, final

from hookpatch._beneath import beneath
from hookpatch._calls import as_text, takes
from hookpatch._item_slot import ItemSlot
from hookpatch._slot import ABSENT, Slot, inner
from hookpatch._source import source_of
from hookpatch._target import a_kind, describe


@final
@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a target is like. Frozen.

    Attributes:
        kind: what stands there, with its article: ``a function``, ``an async function``, ``a class``, ``a property``,
            ``a C function``, ``a mapping``, ``an int``; ``nothing``; ``a module`` for what is entered.
        distribution: the distribution that has its module; empty if none has.
        version: its version, likewise.
        signature: what it takes, without the object that it is called on; None for what tells none.
        members: of a class: what it defines itself, with signatures, without what begins with one underscore.
        keys: of the mapping in which it lies, or that it is; of a list none.
        source: its normalised source; of what C has, the documentation; of a plain value the value; None if there is
            none of these.
    """

    kind: str
    distribution: str = ""
    version: str = ""
    signature: str | None = None
    members: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    source: str | None = None

    @property
    def hash(self) -> str | None:
        """The hash of the source, behind the algorithm's name."""
        return None if self.source is None else f"sha256:{hashlib.sha256(self.source.encode()).hexdigest()}"

    @property
    def release(self) -> str:
        """The distribution with its version, for people."""
        return f"{self.distribution} {self.version}".strip() or "no distribution"


def of_slot(slot: Slot) -> Fingerprint:
    """Return what a slot holds without our layers; of which release is not looked at."""
    held = beneath(slot)
    mapping = slot.owner if isinstance(slot, ItemSlot) else held
    is_own = not _is_environment(mapping)
    return Fingerprint(
        kind=_kind(held),
        signature=_signature(held, slot.in_class is not None),
        members=tuple(_members(held)) if isinstance(held, type) else (),
        keys=tuple(sorted(map(_words, mapping))) if is_own and isinstance(mapping, Mapping) else (),
        source=_source(held) if is_own else None,
    )


OF_MODULE: Final = Fingerprint("a module")  # of one that is entered: that it is there


_OF_C: Final = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType)
_DESCRIPTORS: Final = {staticmethod: "a static method", classmethod: "a class method", property: "a property"}
_WAYS: Final = {
    inspect.CO_COROUTINE: "an async function",
    inspect.CO_ASYNC_GENERATOR: "an async generator function",
    inspect.CO_GENERATOR: "a generator function",
}


def _kind(held: Any) -> str:
    """Return what kind of thing lies in a slot: what a caller or a subclass would notice."""
    if held is ABSENT:
        return "nothing"
    for kind, words in _DESCRIPTORS.items():
        if isinstance(held, kind):
            way = _kind(inner(held)) if kind is not property else "a function"
            return words if way in ("a function", "a C function") else f"{words}: {way}"
    if isinstance(held, FunctionType):
        return next((words for flag, words in _WAYS.items() if held.__code__.co_flags & flag), "a function")
    if isinstance(held, _OF_C):
        return "a C function"
    for general, words in ((type, "a class"), (ModuleType, "a module"), (Mapping, "a mapping")):
        if isinstance(held, general):
            return words
    return a_kind(held) if type(held).__module__ == "builtins" else f"an object of {describe(type(held))}"


def _signature(held: Any, in_class: bool) -> str | None:
    callee = inner(held)
    if not callable(callee):
        return None
    binds = in_class and isinstance(held, (FunctionType, classmethod, *_OF_C))
    parameters = takes(callee, binds)
    return None if parameters is None else as_text(parameters)


def _members(kind: type) -> Iterable[str]:
    for name, held in sorted(vars(kind).items()):
        if not name.startswith("_") or (name.startswith("__") and isinstance(inner(held), FunctionType)):
            yield f"{name}{_signature(held, in_class=not isinstance(held, type)) or ''}"


def _source(held: Any) -> str | None:
    """Return what the target's behaviour can be read from."""
    if isinstance(held, (bool, int, float, str, bytes, type(None))):
        return repr(held)
    thing = inner(held)
    if isinstance(thing, ModuleType):
        return None
    if not isinstance(thing, (FunctionType, type, property, *_OF_C)) and callable(thing):
        thing = type(thing)  # an object that is called is what its class has made it
    if (text := source_of(thing)) is not None:
        return text
    documentation = getattr(thing, "__doc__", None) if isinstance(thing, (type, *_OF_C)) else None
    return inspect.cleandoc(documentation) if isinstance(documentation, str) else None


def _is_environment(thing: object) -> bool:
    """Tell whether it is ``os.environ``: each machine's own, and what is secret in it is not to be written anywhere."""
    return (type(thing).__module__, type(thing).__qualname__) == ("os", "_Environ")


def _words(key: object) -> str:
    """Return a mapping's key in words that are the same in every process."""
    if isinstance(key, (bool, int, float, str, bytes, type(None), tuple)):
        return repr(key)
    return describe(key) if isinstance(key, (type, FunctionType, ModuleType)) else a_kind(key)
