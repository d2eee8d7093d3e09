"""What is known of a value without running the model: the object itself, or what its outcome hangs on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from types import FunctionType
from typing import Any, Final, TypeAlias

import torch

from hookpatch_export._finding import Kind

PLAIN: Final = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis))
_MOST: Final = 8  # more than that many different things at one place are anything


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
    """

    sizes: Kind = Kind.SHAPE
    last: Kind = Kind.SHAPE
    truth: bool = False
    rank: int | None = None


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
    """

    items: tuple[Value, ...] | None
    each: Value
    length: Kind = Kind.SAFE


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


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    among: frozenset[Value]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing is known of it but what it hangs on."""

    kind: Kind


Value: TypeAlias = (
    Known | Scalar | During | Tensor | Size | Seq | Table | Instance | Local | Bound | Inherited | Choice | Unknown
)

NONE: Final = Known(None)
SAFE: Final = Scalar(Kind.SAFE)
CONFIG: Final = Scalar(Kind.CONFIG)
EMPTY: Final = Unknown(Kind.SAFE)


def value_of(obj: object, kind: Kind = Kind.CONFIG) -> Value:
    """Return what is known of an object that is there. A tensor's numbers are not: weights are learned."""
    if isinstance(obj, torch.Tensor):
        return Tensor(Kind.CONFIG, Kind.CONFIG, obj.dtype == torch.bool, obj.dim())
    return Known(obj, kind)


def join(values: Iterable[Value], under: Kind = Kind.SAFE) -> Value:
    """Return what is known of something that may be any of these.

    Args:
        values: what it may be.
        under: what it hangs on which of them it is.
    """
    return reduce(lambda one, other: _join(one, other, under), values)


def _join(one: Value, other: Value, under: Kind) -> Value:
    if one == other or other == EMPTY:
        return one
    if one == EMPTY:
        return other
    match one, other:
        case Known(), Known() if one.same_object(other):
            return Known(one.obj, max(one.kind, other.kind))
        case Choice(), _:
            return _choice([*one.among, *alternatives(other)], under)
        case _, Choice():
            return _choice([*alternatives(one), *other.among], under)
        case Tensor(), Tensor():
            rank = one.rank if one.rank == other.rank else None
            last = max(one.last, other.last)
            return Tensor(max(one.sizes, other.sizes), last, one.truth and other.truth, rank)
        case Size(), Size():
            return Size(max(one.sizes, other.sizes), max(one.last, other.last))
        case Seq(), Seq():
            return _join_sequences(one, other, under)
        case Table(), Table():
            return _join_tables(one, other, under)
        case (Unknown(), _) | (_, Unknown()) if not (has_tensor(one) or has_tensor(other)):
            return Unknown(max(truth_kind(one), truth_kind(other), under))
        case _ if _is_plain(one) and _is_plain(other):
            return Scalar(max(truth_kind(one), truth_kind(other), under))
    return _choice([one, other], under)


def _choice(values: list[Value], under: Kind) -> Value:
    """Join what is alike, and keep the rest apart."""
    apart: list[Value] = []
    for value in values:
        for place, other in enumerate(apart):
            if value == other or (type(value) is type(other) and _alike(value, other)):
                apart[place] = _join(other, value, under)
                break
        else:
            apart.append(value)
    if len(apart) > _MOST:
        tensors = [one for one in apart if isinstance(one, Tensor)]
        rest = Unknown(max([under, *(truth_kind(one) for one in apart if not has_tensor(one))]))
        return Choice(frozenset([*tensors, rest])) if tensors else rest
    return apart[0] if len(apart) == 1 else Choice(frozenset(apart))


def _alike(one: Value, other: Value) -> bool:
    if isinstance(one, Known):
        return isinstance(other, Known) and (one.same_object(other) or (_is_plain(one) and _is_plain(other)))
    return isinstance(one, Tensor | Size | Seq | Table | Scalar | Unknown)


def _is_plain(value: Value) -> bool:
    """Whether it is a number, a text or a truth value; None is not."""
    if isinstance(value, Known):
        return isinstance(value.obj, PLAIN) and value.obj is not None
    return isinstance(value, Scalar | During)


def _join_sequences(one: Seq, other: Seq, under: Kind) -> Seq:
    each = _join(one.each, other.each, under)
    length = max(one.length, other.length)
    if one.items is not None and other.items is not None and len(one.items) == len(other.items):
        return Seq(tuple(_join(a, b, under) for a, b in zip(one.items, other.items, strict=True)), each, length)
    return Seq(None, each, max(length, under))


def _join_tables(one: Table, other: Table, under: Kind) -> Table:
    left: dict[Any, Value] = dict(one.items)
    right: dict[Any, Value] = dict(other.items)
    rest: list[Value] = [each for each in (one.each, other.each) if each is not None]
    items = {key: _join(value, right.get(key, value), under) for key, value in left.items()}
    return Table(tuple({**right, **items}.items()), join(rest, under) if rest else None)


def sequence(items: Iterable[Value]) -> Seq:
    """Return the tuple of these."""
    items = tuple(items)
    return Seq(items, join(items) if items else EMPTY)


def alternatives(value: Value) -> tuple[Value, ...]:
    """Return all that something may be."""
    return tuple(value.among) if isinstance(value, Choice) else (value,)


def each_of(value: Value, function: Callable[[Value], Value]) -> Value:
    """Return what a function gives for all that something may be; for None only if it is nothing else."""
    some = [one for one in alternatives(value) if one != NONE and one != Known(None, Kind.CONFIG)]
    return join(function(one) for one in some or [value])


def truth_kind(value: Value) -> Kind:
    """Return what it hangs on whether a value is true."""
    match value:
        case Known() | Scalar() | Unknown():
            return value.kind
        case Tensor():
            return Kind.DATA
        case Seq():
            return value.length
        case Choice():
            return max(map(truth_kind, value.among))
    return Kind.SAFE


def content_kind(value: Value) -> Kind:
    """Return what it hangs on what a value holds, its tensors' numbers left aside."""
    match value:
        case Size():
            return value.sizes
        case Seq():
            return max(value.length, content_kind(value.each))
        case Tensor():
            return value.sizes
        case Choice():
            return max(map(content_kind, value.among))
    return truth_kind(value)


def has_tensor(value: Value) -> bool:
    """Tell whether it is a tensor, or a tuple, list or dict with one."""
    match value:
        case Tensor():
            return True
        case Seq():
            return has_tensor(value.each)
        case Table():
            return any(has_tensor(one) for _, one in value.items) or (value.each is not None and has_tensor(value.each))
        case Choice():
            return any(map(has_tensor, value.among))
    return False


def truth(value: Value) -> bool | None:
    """Return whether a value is true, or None if that is not known."""
    match value:
        case Known():
            obj = value.obj
            if isinstance(obj, (*PLAIN, tuple, list, dict, set, frozenset)):
                return bool(obj)
            return True if isinstance(obj, type | FunctionType | torch.nn.Module) else None
        case Seq(items=items) if items is not None:
            return bool(items)
        case Tensor() | Size() | Scalar() | During() | Unknown() | Choice() | Seq() | Table() | Instance():
            return None
    return True


def without_none(value: Value) -> Value:
    """Return what is known of it once it is known not to be None."""
    some = [one for one in alternatives(value) if not (isinstance(one, Known) and one.obj is None)]
    return join(some) if some else value


def may_be_none(value: Value) -> bool | None:
    """Return whether a value is None, or None if it may be or not."""
    answers = {_is_none(one) for one in alternatives(value)}
    return answers.pop() if len(answers) == 1 else None


def _is_none(value: Value) -> bool | None:
    match value:
        case Known():
            return value.obj is None
        case Scalar() | Unknown():
            return None
    return False
