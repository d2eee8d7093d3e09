"""The values of a walk: an object that is known, or the kind of what an unknown value depends on."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import torch

from hookpatch_export._findings.finding import Kind

PLAIN: Final = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis))


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A known Python object: a module, a class, a function, a constant.

    Attributes:
        obj: the object.
        kind: ``SAFE`` for a value in the source, ``CONFIG`` for a value set elsewhere.
    """

    obj: Any
    kind: Kind = Kind.SAFE

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self.kind == other.kind and self.same_object(other)

    def __hash__(self) -> int:
        return hash((self._key(), self.kind))

    def same_object(self, other: Known) -> bool:
        """Return True if both are one object, or equal numbers or texts."""
        return self._key() == other._key()

    def _key(self) -> tuple[Any, ...]:
        return (type(self.obj), self.obj if isinstance(self.obj, PLAIN) else id(self.obj))


@dataclass(frozen=True, slots=True)
class Scalar:
    """An unknown number, text or truth value of Python, of a known kind."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class TrueIn:
    """A truth value that depends on the capture: true in some modes, false in the others."""

    modes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor.

    Attributes:
        sizes: the kind of its sizes: ``CONFIG`` for a parameter, ``SHAPE`` for an input, ``DATA`` after nonzero.
        last: the kind of its last size alone, which most layers fix.
        truth: whether the numbers are truth values.
        rank: the number of dimensions, if known.
        values: the kind of its numbers: ``UNBACKED`` if computed from sizes alone.
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
        sizes: the kind of all sizes.
        last: the kind of the last size.
    """

    sizes: Kind
    last: Kind


@dataclass(frozen=True, slots=True)
class Seq:
    """A tuple or list.

    Attributes:
        items: the items; None if their number is not known.
        each: the value that any item may have.
        length: the kind of the number of items.
        start: the items at the start that are certain, if the number of items is not known.
    """

    items: tuple[Value, ...] | None
    each: Value
    length: Kind = Kind.SAFE
    start: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A dict.

    Attributes:
        items: the values of the known keys.
        each: the value that any other key may have; None if there is no other key.
    """

    items: tuple[tuple[Any, Value], ...] = ()
    each: Value | None = None


@dataclass(slots=True, eq=False)
class Instance:
    """An object that the code itself makes, or a model of which only the class is known.

    Attributes:
        cls: the class.
        attributes: the values set during the walk; ``*`` are the items of a container.
        of_model: whether the object is part of the model, not made anew in each call.
    """

    cls: type
    attributes: dict[str, Value] = field(default_factory=dict)
    of_model: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """A function that is defined inside another one.

    Attributes:
        node: the function's source.
        frame: the frame of the enclosing function.
        defaults: the parameters' defaults by name.
    """

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    frame: Any
    defaults: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Bound:
    """A function with its first arguments: a method, a partial."""

    function: Value
    first: tuple[Value, ...]
    named: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Inherited:
    """The object that ``super()`` returns.

    Attributes:
        after: the class after which names are looked up.
        owner: the object.
    """

    after: type
    owner: Value


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One of several values, in the order in which the walk met them. Equal whatever the order.

    Attributes:
        among: the alternatives, two or more.
    """

    among: tuple[Value, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choice) and frozenset(self.among) == frozenset(other.among)

    def __hash__(self) -> int:
        return hash(frozenset(self.among))


@dataclass(frozen=True, slots=True)
class Unknown:
    """An unknown value of a known kind."""

    kind: Kind


Value: TypeAlias = (
    Known | Scalar | TrueIn | Tensor | Size | Seq | Table | Instance | Local | Bound | Inherited | Choice | Unknown
)
Args: TypeAlias = Sequence[Value]  # the positional arguments of a call
Keywords: TypeAlias = Mapping[str, Value]  # the keyword arguments of a call

ANY: Final = "**"  # the keyword of the values of a dict whose keys are not known, given with two stars
NONE: Final = Known(None)
SAFE: Final = Scalar(Kind.SAFE)
CONFIG: Final = Scalar(Kind.CONFIG)
EMPTY: Final = Unknown(Kind.SAFE)  # the items of an empty tuple
UNKNOWN: Final = Unknown(Kind.CONFIG)


def value_of(obj: object, kind: Kind = Kind.CONFIG) -> Value:
    """Return the value of a known object. The numbers of a tensor are not known: weights are learned."""
    if isinstance(obj, torch.Tensor):
        return Tensor(Kind.CONFIG, Kind.CONFIG, obj.dtype == torch.bool, obj.dim())
    return Known(obj, kind)
