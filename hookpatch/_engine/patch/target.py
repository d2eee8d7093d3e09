"""Parse the address of a slot, such as ``onnxsim:simplify``. No address is guessed."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import Any, Final, TypeAlias, final

from hookpatch._engine.patch.braces import WrittenOut, written_out
from hookpatch._engine.patch.describe import a_kind, describe
from hookpatch._engine.patch.steps import EachItem, Instances, NameGlob, Subclasses
from hookpatch.errors import TargetSyntaxError

_MODULE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_MODULE_GLOB: Final = re.compile(r"(?:\*|[^\W\d])[\w*]*(?:\.(?:\*|[^\W\d])[\w*]*)*")
_NAME: Final = re.compile(r"(?:\*|[^\W\d])[\w*]*")  # or a pattern of names
# A quoted text, a quote without an end, or a bracket.
_QUOTE_OR_BRACKET: Final = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|['"].*|[\[\]]""", re.DOTALL)


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
    """One step of an address: a key, either an object itself or another address."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key}]" if isinstance(self.key, Target) else f"[{self.key!r}]"


Step: TypeAlias = Attribute | Item | NameGlob | EachItem | Subclasses | Instances


@final
@dataclass(frozen=True, slots=True)
class Target:
    """The address of a slot: of an attribute or an item. The slot may not exist yet.

    ``Target("onnxsim:simplify")``, ``Target("m:Class.method")``, ``Target("m:mapping['text']")``,
    ``Target("m:mapping[torch.nn:Linear]")``; for objects without an address ``Target.attribute`` and ``Target.item``.
    ``Target("m.*:*Norm.forward")``, ``Target("m:Class+.method")`` and ``Target("m:mapping[*]")`` are rules: each stands
    for many slots. ``Target("m:Class().name")`` and ``Target("m:Class+().name")`` lead to instances of a class.
    ``Target("m:{a,b}")`` names several slots.

    Attributes:
        address: the address in words.
        module: the name of the slot's module, or a pattern of such names; None for an object without an address.
        steps: the steps from the module, or from the object at hand, to the slot; the last step is the slot.

    Raises:
        TargetSyntaxError: the address cannot be read.
    """

    address: str
    module: str | None = field(init=False)
    steps: tuple[Step, ...] = field(init=False)
    start: Any = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.address, str):
            raise TargetSyntaxError(
                str(self.address),
                f"is a {type(self.address).__name__}, not text; for an object without an address take "
                "hookpatch.Target.attribute(owner, name) or hookpatch.Target.item(mapping, key)",
            )
        for name, value in zip(("module", "steps"), _parse(self.address), strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def attribute(cls, owner: object, name: str) -> Target:
        """Return the target for the attribute ``name`` of an object without an address.

        Raises:
            TargetSyntaxError: the name is not a str.
        """
        if not isinstance(name, str):
            raise TargetSyntaxError(describe(owner), f"has an attribute's name that is {a_kind(name)}, not text")
        return cls.of_steps(None, owner, (Attribute(name),))

    @classmethod
    def item(cls, mapping: object, key: object) -> Target:
        """Return the target for the entry ``key`` of a mapping or list without an address."""
        return cls.of_steps(None, mapping, (Item(key),))

    @classmethod
    def of_steps(cls, module: str | None, start: object, steps: tuple[Step, ...]) -> Target:
        """Return the target of steps from a module, or from an object without an address: no address is read."""
        target = object.__new__(cls)
        for name, value in (("module", module), ("steps", steps), ("start", start)):
            object.__setattr__(target, name, value)
        object.__setattr__(target, "address", target.up_to(len(steps)))
        return target

    def up_to(self, count: int) -> str:
        """Return the address up to and including its first ``count`` steps."""
        way = "".join(map(str, self.steps[:count]))
        if self.module is not None:
            return f"{self.module}:{way[1:]}"
        is_module = isinstance(self.start, ModuleType)
        return f"{self.start.__name__}:{way.removeprefix('.')}" if is_module else f"{describe(self.start)}{way}"

    @property
    def slot(self) -> Step:
        """The last step: the place of the slot in its owner."""
        return self.steps[-1]

    @property
    def is_rule(self) -> bool:
        """True if the address has a pattern or ``+``, and so stands for any number of slots."""
        return "*" in (self.module or "") or any(isinstance(step, _OF_RULES) for step in self.steps)

    @property
    def written_out(self) -> tuple[WrittenOut, ...]:
        """The addresses named by an address with braces; empty for an address without braces."""
        is_read = self.module is not None and "{" in self.address
        return _written_out(self.address) if is_read else ()

    @property
    def of_instances(self) -> Instances | None:
        """The step from a class to its instances; None if the address has no such step."""
        for step in self.steps:  # no generator: asked for each new patch
            if isinstance(step, Instances):
                return step
        return None

    @property
    def of_class(self) -> Target:
        """For an address of instances the slot of their class, or the class itself; else the same address."""
        if self.of_instances is None:
            return self
        place = self.steps.index(self.of_instances)
        return Target(f"{self.up_to(place)}{''.join(map(str, self.steps[place + 1 :]))}")

    def __str__(self) -> str:
        return self.address


_OF_RULES: Final = (NameGlob, EachItem, Subclasses)


def is_module_name(text: object) -> bool:
    """Return True if a text can be the full name of a module."""
    return isinstance(text, str) and _MODULE.fullmatch(text) is not None


def _colon_hint(address: str) -> str:
    """Return a hint at the missing colon: before the first capitalised name, or before the last name."""
    parts = address.split(".")
    if len(parts) < 2 or not is_module_name(address):
        return ""
    if parts[-1] == "py":
        return "; a module is named without '.py'"
    count = next((index for index, part in enumerate(parts) if index and part[0].isupper()), len(parts) - 1)
    return f"; did you mean '{'.'.join(parts[:count])}:{'.'.join(parts[count:])}'?"


@lru_cache(maxsize=1024)
def _written_out(address: str) -> tuple[WrittenOut, ...]:
    try:
        return written_out(address)
    except ValueError as error:
        raise TargetSyntaxError(address, str(error)) from None


@lru_cache(maxsize=1024)
def _parse(address: str) -> tuple[str, tuple[Step, ...]]:
    module, colon, path = address.partition(":")
    if "{" in address and (all_named := _written_out(address)):
        for named in reversed(all_named):
            steps_of_one = _parse(named.address)[1]
        return module, steps_of_one  # of the first: all have the same signs
    if not colon:
        raise TargetSyntaxError(address, f"has no colon between module and name{_colon_hint(address)}")
    if not _MODULE_GLOB.fullmatch(module):
        raise TargetSyntaxError(address, f"has no module's name before the colon, but '{module}'")
    steps: list[Step] = []
    position = 0
    while position < len(path) or not steps:
        step, position = _step(address, path, position, is_first=not steps)
        if steps:
            _check_order(address, steps[-1], step, any(isinstance(earlier, Instances) for earlier in steps))
        steps.append(step)
    if isinstance(steps[-1], Subclasses):
        raise TargetSyntaxError(address, "has no name after the '+'")
    return module, tuple(steps)


def _step(address: str, path: str, position: int, is_first: bool) -> tuple[Step, int]:
    """Return the step at a position, and the position behind the step."""
    if not is_first:
        if path.startswith("[", position):
            end = _closing(address, path, position)
            key = path[position + 1 : end].strip()
            return EachItem() if key == "*" else Item(_key(address, key)), end + 1
        for written, step in (("+()", Instances(with_subclasses=True)), ("()", Instances()), ("+", Subclasses())):
            if path.startswith(written, position):
                return step, position + len(written)
        if not path.startswith(".", position):
            raise TargetSyntaxError(address, f"cannot be read from '{path[position:]}' on")
        position += 1
    name = _NAME.match(path, position)
    if name is None:
        raise TargetSyntaxError(address, f"has no name after {'the colon' if is_first else 'a dot'}")
    return NameGlob(name.group()) if "*" in name.group() else Attribute(name.group()), name.end()


def _check_order(address: str, before: Step, step: Step, is_of_instances: bool) -> None:
    """Refuse ``+`` and ``()`` where no class stands before, ``+`` before a key, and a pattern behind ``()``."""
    if isinstance(step, (Subclasses, Instances)) and isinstance(before, (Subclasses, Instances)):
        raise TargetSyntaxError(address, f"has '{step}' behind '{before}', which is no class")
    if isinstance(before, Subclasses) and isinstance(step, (Item, EachItem)):
        raise TargetSyntaxError(address, f"has no name after the '+', but '{step}'")
    if is_of_instances and isinstance(step, (*_OF_RULES, Instances)):
        raise TargetSyntaxError(address, f"has '{step}' behind the instances of a class")


def _closing(address: str, text: str, opening: int) -> int:
    """Return the position at which the bracket at ``opening`` is closed, past quoted texts and inner brackets."""
    depth = 0
    for token in _QUOTE_OR_BRACKET.finditer(text, opening):
        depth += {"[": 1, "]": -1}.get(token.group(), 0)
        if depth == 0:
            return token.start()
    raise TargetSyntaxError(address, "has a bracket that is not closed")


def _key(address: str, text: str) -> object:
    if not text:
        raise TargetSyntaxError(address, "has an empty key")
    try:
        key = ast.literal_eval(text)
        hash(key)
        return key
    except (ValueError, SyntaxError):
        pass  # not a literal, perhaps an address
    except (TypeError, MemoryError, RecursionError):
        raise TargetSyntaxError(address, f"has the key {text}, which cannot be a key") from None
    if ":" not in text:
        problem = "which is neither a Python literal (quote a text) nor an address such as m:Class"
        raise TargetSyntaxError(address, f"has the key {text}, {problem}")
    try:
        target = Target(text)
    except TargetSyntaxError as error:
        raise TargetSyntaxError(address, f"has the key {text}, which {error.problem}") from None
    except RecursionError:
        raise TargetSyntaxError(address, "has keys nested too deeply") from None
    if target.is_rule or target.of_instances or target.written_out:
        raise TargetSyntaxError(address, f"has the key {text}, which stands for several objects")
    return target
