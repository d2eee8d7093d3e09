"""Take the fingerprint of a target: its kind, signature, members, keys and source, for the lock file."""

from __future__ import annotations

import ast
import hashlib
import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import dedent
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final, final

from hookpatch._bootstrap.interrupts import ErrorsOfCode
from hookpatch._engine.calls.signatures import as_text, takes
from hookpatch._engine.patch.describe import a_kind, describe
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.originals import beneath, own_beneath
from hookpatch._engine.slots.slot import ABSENT, Slot, inner


@final
@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The comparable features of a target. Frozen."""

    kind: str  # with article: `a function`, `an async function`, `a class`, `an int`, `nothing`; `a module` for enter
    distribution: str = ""  # of the target's module; empty for a module of no distribution
    version: str = ""  # of the distribution
    signature: str | None = None  # without `self` or `cls`; None for a value without a signature
    members: tuple[str, ...] = ()  # the public and special names defined by a class itself, with signatures
    keys: tuple[str, ...] = ()  # of the mapping that is the value or holds the value
    source: str | None = None  # normalised; the docstring of a C function or class; the repr of a plain value

    @property
    def hash(self) -> str | None:
        """The hash of the source, with the algorithm's name."""
        return None if self.source is None else f"sha256:{hashlib.sha256(self.source.encode()).hexdigest()}"

    @property
    def release(self) -> str:
        """The distribution with its version, for messages."""
        return f"{self.distribution} {self.version}".strip() or "no distribution"


def of_slot(slot: Slot) -> Fingerprint:
    """Return the fingerprint of a slot without our layers, without distribution and version."""
    value = beneath(slot)
    mapping = slot.owner if isinstance(slot, ItemSlot) else value
    # Each machine has its own os.environ, and secrets in it must not be written to a file.
    is_environment = (type(mapping).__module__, type(mapping).__qualname__) == ("os", "_Environ")
    return Fingerprint(
        kind=_kind(value),
        signature=_signature(value, slot.in_class is not None),
        members=tuple(_members(value)) if isinstance(value, type) else (),
        keys=() if is_environment or not isinstance(mapping, Mapping) else tuple(sorted(map(_words, mapping))),
        source=None if is_environment else _source(value),
    )


OF_MODULE: Final = Fingerprint("a module")  # for `enter`: the module exists

_OF_C: Final = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType)
_LITERALS: Final = (bool, int, float, str, bytes, type(None))
_DESCRIPTORS: Final = {staticmethod: "a static method", classmethod: "a class method", property: "a property"}
_FUNCTIONS: Final = {
    inspect.CO_COROUTINE: "an async function",
    inspect.CO_ASYNC_GENERATOR: "an async generator function",
    inspect.CO_GENERATOR: "a generator function",
}


def _kind(value: Any) -> str:
    """Return the kind of a value, as far as a caller or a subclass can see."""
    if value is ABSENT:
        return "nothing"
    for descriptor, words in _DESCRIPTORS.items():
        if isinstance(value, descriptor):
            kind = _kind(inner(value)) if descriptor is not property else "a function"
            return words if kind in ("a function", "a C function") else f"{words}: {kind}"
    if isinstance(value, FunctionType):
        return next((words for flag, words in _FUNCTIONS.items() if value.__code__.co_flags & flag), "a function")
    if isinstance(value, _OF_C):
        return "a C function"
    for general, words in ((type, "a class"), (ModuleType, "a module"), (Mapping, "a mapping")):
        if isinstance(value, general):
            return words
    return a_kind(value) if type(value).__module__ == "builtins" else f"an object of {describe(type(value))}"


def _signature(value: Any, in_class: bool) -> str | None:
    callee = inner(value)
    if not callable(callee):
        return None
    binds = in_class and isinstance(value, (FunctionType, classmethod, *_OF_C))
    parameters = takes(callee, binds)
    return None if parameters is None else as_text(parameters)


def _members(kind: type) -> Iterable[str]:
    for name, value in sorted(vars(kind).items()):
        if not name.startswith("_") or (name.startswith("__") and isinstance(inner(value), FunctionType)):
            yield f"{name}{_signature(value, in_class=not isinstance(value, type)) or ''}"


def _source(value: Any) -> str | None:
    """Return the text that defines the behaviour of a value."""
    if isinstance(value, _LITERALS):
        return repr(value)
    definition = inner(value)
    if isinstance(definition, ModuleType):
        return None
    if not isinstance(definition, (FunctionType, type, property, *_OF_C)) and callable(definition):
        definition = type(definition)  # a callable object behaves as its class defines
    if (text := source_of(definition)) is not None:
        return text
    documentation = getattr(definition, "__doc__", None) if isinstance(definition, (type, *_OF_C)) else None
    return inspect.cleandoc(documentation) if isinstance(documentation, str) else None


def _words(key: object) -> str:
    """Return a mapping's key in words, the same in every process."""
    if isinstance(key, (*_LITERALS, tuple)):
        return repr(key)
    return describe(key) if isinstance(key, (type, FunctionType, ModuleType)) else a_kind(key)


def source_of(value: Any) -> str | None:
    """Return the normalised source of a function, class, property or method; None without a source file."""
    if isinstance(value, property):
        sources = [source_of(accessor) for accessor in (value.fget, value.fset, value.fdel) if accessor is not None]
        return "\n\n".join(filter(None, sources)) or None
    with ErrorsOfCode(OSError, TypeError):  # written in C, or made by exec
        if not isinstance(value, FunctionType):
            return normalised(inspect.getsource(value))
        # By code object: inspect.getsource of a decorated function returns the innermost function only.
        # Beneath our layers: each of the functions may be changed in place.
        codes = [own_beneath(FunctionSlot(function, binds=False)) for function in _wrapped_chain(value)]
        sources_of_chain = [normalised(inspect.getsource(code)) for code in codes]
        return "\n\n".join(reversed(sources_of_chain))
    return None


def _wrapped_chain(function: FunctionType) -> Iterator[FunctionType]:
    """Yield a function, and the functions along its ``__wrapped__`` attributes."""
    ids: set[int] = set()
    inside: Any = function
    while isinstance(inside, FunctionType) and id(inside) not in ids:
        ids.add(id(inside))
        yield inside
        inside = vars(inside).get("__wrapped__")


def normalised(text: str) -> str:
    """Return source in a comparable form: as this Python's ``ast.unparse`` writes it, without docstrings.

    Compare only texts normalised by one Python: two Pythons may write the same source differently. A fragment such as
    a lambda inside a call cannot be parsed, and only loses its indentation and empty lines.
    """
    plain = dedent(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes in foreign source; may be set to raise
            tree = ast.parse(plain)
    except (SyntaxError, ValueError):
        return "\n".join(line.rstrip() for line in plain.splitlines() if line.strip())
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            match node.body[0]:
                case ast.Expr(value=ast.Constant(value=str())):  # the docstring
                    node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
