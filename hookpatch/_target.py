"""An address in words: which slot of which module, parsed and never guessed."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any, Final, cast, final

from hookpatch.errors import TargetSyntaxError

_MODULE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_NAME: Final = re.compile(r"[^\W\d]\w*")


@final
@dataclass(frozen=True, slots=True)
class Attribute:
    """One step of an address: an attribute's name."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@final
@dataclass(frozen=True, slots=True)
class Item:
    """One step of an address: a key, which is an object at hand or another address."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key}]" if isinstance(self.key, Target) else f"[{self.key!r}]"


@final
@dataclass(frozen=True, slots=True)
class Target:
    """An address of a slot: an attribute or an item. What it names may not exist yet.

    ``Target("onnxsim:simplify")``, ``Target("m:Class.method")``, ``Target("m:mapping['text']")``,
    ``Target("m:mapping[torch.nn:Linear]")``; for objects at hand ``Target.attribute`` and ``Target.item``.

    Attributes:
        address: the address in words.
        module: the module in which it lies, None for objects at hand.
        steps: the way from the module, or from the object at hand, to the slot; the last step is the slot.

    Raises:
        TargetSyntaxError: the address cannot be read.
    """

    address: str
    module: str | None = field(init=False)
    steps: tuple[Attribute | Item, ...] = field(init=False)
    start: Any = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.address, str):
            raise TargetSyntaxError(
                str(self.address),
                f"is a {type(self.address).__name__}, not text; for an object at hand take "
                "hookpatch.Target.attribute(owner, name) or hookpatch.Target.item(mapping, key)",
            )
        module, steps = _parse(self.address)
        object.__setattr__(self, "module", module)
        object.__setattr__(self, "steps", steps)

    @classmethod
    def attribute(cls, owner: object, name: str) -> Target:
        """Return the target that is the attribute ``name`` of an object at hand.

        Raises:
            TargetSyntaxError: the name is no text.
        """
        if not isinstance(name, str):
            raise TargetSyntaxError(describe(owner), f"has an attribute's name that is {a_kind(name)}, not text")
        return cls._at_hand(owner, Attribute(name))

    @classmethod
    def item(cls, mapping: object, key: object) -> Target:
        """Return the target that is the entry ``key`` of a mapping or list at hand."""
        return cls._at_hand(mapping, Item(key))

    @classmethod
    def _at_hand(cls, start: object, step: Attribute | Item) -> Target:
        target = object.__new__(cls)
        object.__setattr__(target, "module", None)
        object.__setattr__(target, "steps", (step,))
        object.__setattr__(target, "start", start)
        object.__setattr__(target, "address", target.up_to(1))
        return target

    def up_to(self, count: int) -> str:
        """Return the address in words as far as its first ``count`` steps."""
        way = "".join(map(str, self.steps[:count]))
        if self.module is not None:
            return f"{self.module}:{way[1:]}"
        is_module = isinstance(self.start, ModuleType)
        return f"{self.start.__name__}:{way.removeprefix('.')}" if is_module else f"{describe(self.start)}{way}"

    @property
    def slot(self) -> Attribute | Item:
        """The last step: the slot in its owner."""
        return self.steps[-1]

    def __str__(self) -> str:
        return self.address


def describe(thing: object) -> str:
    """Return how a message names an object: by its address where it has one, else by its type."""
    kind: type = type(thing)  # isinstance asks for __class__ too, which wakes a lazy proxy
    if issubclass(kind, ModuleType):
        return str(cast(ModuleType, thing).__name__)
    if issubclass(kind, (type, FunctionType)):
        return f"{thing.__module__}:{cast(type, thing).__qualname__}"
    return f"<{type(thing).__qualname__} object at {id(thing):#x}>"


def a_kind(thing: object) -> str:
    """Return how a message names what kind of object it is: ``a dict``, ``an int``."""
    name = type(thing).__name__
    return f"an {name}" if name[0].lower() in "aeiou" else f"a {name}"


def is_module_name(text: object) -> bool:
    """Tell whether a text can be the full name of a module."""
    return isinstance(text, str) and _MODULE.fullmatch(text) is not None


def _colon_hint(address: str) -> str:
    """Return where the colon of a dotted name belongs, as names are written: before its class, else before the last."""
    parts = address.split(".")
    if len(parts) < 2 or not is_module_name(address):
        return ""
    at = next((at for at, part in enumerate(parts) if at and part[0].isupper()), len(parts) - 1)
    return f"; did you mean '{'.'.join(parts[:at])}:{'.'.join(parts[at:])}'?"


@lru_cache(maxsize=1024)
def _parse(address: str) -> tuple[str, tuple[Attribute | Item, ...]]:
    module, colon, rest = address.partition(":")
    if not colon:
        raise TargetSyntaxError(address, f"has no colon between module and name{_colon_hint(address)}")
    if not is_module_name(module):
        raise TargetSyntaxError(address, f"has no module's name before the colon, but '{module}'")
    steps: list[Attribute | Item] = []
    at = 0
    while at < len(rest) or not steps:
        if rest.startswith("[", at) and steps:
            end = _closing(address, rest, at)
            steps.append(Item(_key(address, rest[at + 1 : end].strip())))
            at = end + 1
            continue
        if steps:
            if not rest.startswith(".", at):
                raise TargetSyntaxError(address, f"cannot be read from '{rest[at:]}' on")
            at += 1
        name = _NAME.match(rest, at)
        if name is None:
            raise TargetSyntaxError(address, "has no name after the colon" if not steps else "has no name after a dot")
        steps.append(Attribute(name.group()))
        at = name.end()
    return module, tuple(steps)


def _closing(address: str, text: str, opening: int) -> int:
    """Return where the bracket opened at ``opening`` closes, past brackets inside it and inside quotes."""
    depth, quote, at = 0, "", opening
    while at < len(text):
        character = text[at]
        if quote:
            if character == "\\":
                at += 1
            elif character == quote:
                quote = ""
        elif character in "'\"":
            quote = character
        elif character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    raise TargetSyntaxError(address, "has a bracket that is not closed")


def _key(address: str, text: str) -> object:
    if not text:
        raise TargetSyntaxError(address, "has an empty key")
    try:
        key = ast.literal_eval(text)
        hash(key)
    except (ValueError, SyntaxError):
        pass  # no literal: an address, or nothing
    except (TypeError, MemoryError, RecursionError):
        raise TargetSyntaxError(address, f"has the key {text}, which cannot be a key") from None
    else:
        return key
    if ":" not in text:
        raise TargetSyntaxError(
            address,
            f"has the key {text}, which is neither a Python literal (quote a text) nor an address such as m:Class",
        )
    try:
        return Target(text)
    except TargetSyntaxError as error:
        raise TargetSyntaxError(address, f"has the key {text}, which {error.problem}") from None
    except RecursionError:
        raise TargetSyntaxError(address, "has keys nested too deeply") from None
