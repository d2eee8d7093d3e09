"""What is known of a value without running the model: the object itself, or what its outcome hangs on."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import torch

from hookpatch_export._finding import Kind

PLAIN: Final = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis))


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A Python object that is there: a module, a class, a function, a constant.

    Attributes:
        obj: the object.
        kind: ``SAFE`` for what the source says, ``CONFIG`` for what was set elsewhere.
    """

    obj: Any
    kind: Kind = Kind.SAFE

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self.kind == other.kind and self.same_object(other)

    def __hash__(self) -> int:
        return hash((self._key(), self.kind))

    def same_object(self, other: Known) -> bool:
        """Tell whether both are one object, or equal numbers or texts."""
        return self._key() == other._key()

    def _key(self) -> tuple[Any, ...]:
        return (type(self.obj), self.obj if isinstance(self.obj, PLAIN) else id(self.obj))


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, a text or a truth value of Python's that is not known, but what it hangs on is."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class During:
    """A truth value that says how the code is captured: true in these modes, false in the others."""

    modes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor.

    Attributes:
        sizes: what its sizes hang on: ``CONFIG`` for a parameter, ``SHAPE`` for what came in, ``DATA`` after nonzero.
        last: the same for its last size alone, which most layers fix.
        truth: whether it holds truth values.
        rank: the number of its dimensions, if known.
        values: what its numbers hang on: ``UNBACKED`` where they were made of sizes alone.
    """

    sizes: Kind = Kind.SHAPE
    last: Kind = Kind.SHAPE
    truth: bool = False
    rank: int | None = None
    values: Kind = Kind.DATA


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of a tensor, or some of them.

    Attributes:
        sizes: what they hang on.
        last: what the last of them hangs on.
    """

    sizes: Kind
    last: Kind


@dataclass(frozen=True, slots=True)
class Seq:
    """A tuple or list.

    Attributes:
        items: its items, or None if their number is not known.
        each: what any of them may be.
        length: what their number hangs on.
        start: those it begins with in any case, if their number is not known.
    """

    items: tuple[Value, ...] | None
    each: Value
    length: Kind = Kind.SAFE
    start: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A dict.

    Attributes:
        items: the values of the keys that are known.
        each: what the value of any other key may be; None if there is no other.
    """

    items: tuple[tuple[Any, Value], ...] = ()
    each: Value | None = None


@dataclass(slots=True, eq=False)
class Instance:
    """An object that the code itself makes, or a model of which only the class is at hand.

    Attributes:
        cls: its class.
        attributes: what was seen to be set; ``*`` are the items of a container.
        of_model: whether it is a part of the model, not made anew in each call.
    """

    cls: type
    attributes: dict[str, Value] = field(default_factory=dict)
    of_model: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """A function that is defined inside another one.

    Attributes:
        node: its source.
        frame: the frame it was defined in.
        defaults: its parameters' defaults by name.
    """

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    frame: Any
    defaults: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Bound:
    """A function with the arguments it is given first: a method, a partial."""

    function: Value
    first: tuple[Value, ...]
    named: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Inherited:
    """What ``super()`` gives.

    Attributes:
        after: the class after which names are looked up.
        owner: the object.
    """

    after: type
    owner: Value


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One of several, in the order they were met: the same walk each time. Equal whatever the order.

    Attributes:
        among: what it may be; two or more.
    """

    among: tuple[Value, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choice) and frozenset(self.among) == frozenset(other.among)

    def __hash__(self) -> int:
        return hash(frozenset(self.among))


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing is known of it but what it hangs on."""

    kind: Kind


Value: TypeAlias = (
    Known | Scalar | During | Tensor | Size | Seq | Table | Instance | Local | Bound | Inherited | Choice | Unknown
)
Args: TypeAlias = Sequence[Value]  # what a function gets by position
Keywords: TypeAlias = Mapping[str, Value]  # and by name

NONE: Final = Known(None)
SAFE: Final = Scalar(Kind.SAFE)
CONFIG: Final = Scalar(Kind.CONFIG)
EMPTY: Final = Unknown(Kind.SAFE)  # what an empty tuple has for items
UNKNOWN: Final = Unknown(Kind.CONFIG)


def value_of(obj: object, kind: Kind = Kind.CONFIG) -> Value:
    """Return what is known of an object that is there. A tensor's numbers are not: weights are learned."""
    if isinstance(obj, torch.Tensor):
        return Tensor(Kind.CONFIG, Kind.CONFIG, obj.dtype == torch.bool, obj.dim())
    return Known(obj, kind)
