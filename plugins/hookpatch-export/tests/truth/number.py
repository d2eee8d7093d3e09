"""Stand-ins for numbers from a tensor, which report each decision of Python by the number.

``Number`` stands for a size or a value in the model's own code. Arithmetic gives a Number. A conversion to a plain
bool, int, float or index is a decision, and so is a hash: afterwards a capture knows only a constant.
A Number is a torch.SymInt, no int: ``range`` and other C code must convert the Number, but torch's parsing need not.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch

Decided = Callable[[str, str, Any], None]  # the kind, the operation, and the outcome


class Number:
    """A value with its origin: ``data``, ``shape`` or ``rank``."""

    def __new__(cls, value: Any, kind: str, decided: Decided) -> Number:
        """Return a Number that torch's parsing accepts as a symbolic bool, int or float."""
        return object.__new__(_BY_TYPE.get(type(value), Number))

    def __init__(self, value: Any, kind: str, decided: Decided) -> None:
        self.value, self.kind, self.decided = value, kind, decided

    def __repr__(self) -> str:
        return repr(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __hash__(self) -> int:
        self.decided(self.kind, "hash", self.value)
        return hash(self.value)

    def is_integer(self) -> bool:
        """Return the answer of ``float.is_integer``, and report a decision."""
        outcome = bool(float(self.value).is_integer())
        self.decided(self.kind, "is_integer", outcome)
        return outcome

    def bit_length(self) -> Number:
        """Return the answer of ``int.bit_length`` as a Number."""
        return Number(self.value.bit_length(), self.kind, self.decided)


def worse(first: str, second: str) -> str:
    """Return the worse of two kinds: the kind of a value computed from both."""
    return next(kind for kind in ("data", "shape", "rank") if kind in (first, second))


def plain(value: Any) -> Any:
    """Return a value with each Number in the value replaced by the plain number."""
    if isinstance(value, Number):
        return value.value
    if isinstance(value, type):
        return getattr(value, "stands_for", value)  # watch.py's own int and float
    if isinstance(value, slice):
        return slice(plain(value.start), plain(value.stop), plain(value.step))
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, tuple):
        elements = [plain(element) for element in value]
        return type(value)(*elements) if hasattr(value, "_fields") else tuple(elements)
    if type(value) is dict:
        return {name: plain(element) for name, element in value.items()}
    return value


def _binary(name: str, function: Callable[[Any, Any], Any], swapped: bool) -> Any:
    def method(self: Number, other: Any) -> Any:
        kind = worse(self.kind, other.kind) if isinstance(other, Number) else self.kind
        other = plain(other)
        if not isinstance(other, int | float | complex):
            return NotImplemented
        value = function(other, self.value) if swapped else function(self.value, other)
        return Number(value, kind, self.decided)

    method.__name__ = name
    return method


def _unary(name: str, function: Callable[..., Any]) -> Any:
    def method(self: Number) -> Number:
        return Number(function(self.value), self.kind, self.decided)

    method.__name__ = name
    return method


def _rounding(name: str, function: Callable[..., Any]) -> Any:
    """Return a method that decides: a trace makes a number of the tensor first, and torch.export keeps the size."""

    def method(self: Number, *args: Any) -> Number:
        outcome = function(self.value, *args)
        self.decided(self.kind, name, outcome)
        return Number(outcome, self.kind, self.decided)

    method.__name__ = f"__{name}__"
    return method


def _conversion(name: str, function: Callable[[Any], Any]) -> Any:
    def method(self: Number) -> Any:
        outcome = function(self.value)
        self.decided(self.kind, name.strip("_"), outcome)
        return outcome

    method.__name__ = name
    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"):
    _function = getattr(operator, f"__{_name}__")
    setattr(Number, f"__{_name}__", _binary(_name, _function, False))
    setattr(Number, f"__r{_name}__", _binary(_name, _function, True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Number, f"__{_name}__", _binary(_name, getattr(operator, _name), False))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Number, f"__{_name}__", _unary(_name, getattr(operator, _name)))
for _name, _function in (("floor", math.floor), ("ceil", math.ceil), ("round", round), ("trunc", math.trunc)):
    setattr(Number, f"__{_name}__", _rounding(_name, _function))
for _name, _function in (("__bool__", bool), ("__int__", int), ("__float__", float), ("__index__", operator.index)):
    setattr(Number, _name, _conversion(_name, _function))


class _Bool(Number, torch.SymBool):
    __hash__ = Number.__hash__

    @property
    def node(self) -> _Expected:
        """Return what torch._check asks: a check in a capture narrows the sizes, and decides nothing."""
        return _Expected(self.value)


class _Expected:
    def __init__(self, value: bool) -> None:
        self.value = value

    def expect_true(self, file: str, line: int) -> bool:
        """Return the outcome of a check."""
        return self.value


class _Int(Number, torch.SymInt):
    __hash__ = Number.__hash__


class _Float(Number, torch.SymFloat):
    __hash__ = Number.__hash__


_BY_TYPE: dict[type, type[Number]] = {bool: _Bool, int: _Int, float: _Float}


class Numbers(tuple[Any, ...]):
    """A tensor's shape: a tuple of Numbers, with the methods of torch.Size."""

    def numel(self) -> Any:
        """Return the number of elements of a tensor with the shape."""
        return math.prod(self)

    def __getitem__(self, index: Any) -> Any:
        item = super().__getitem__(plain(index))
        return Numbers(item) if isinstance(index, slice) else item

    def __add__(self, other: Any) -> Numbers:
        return Numbers((*self, *other))

    def __radd__(self, other: Any) -> Numbers:
        return Numbers((*other, *self))


class Pieces(tuple[Any, ...]):
    """The tensors of a split. The size decides the number of tensors, so that iteration is a decision."""

    walked: Callable[[], None]

    def __iter__(self) -> Iterator[Any]:
        self.walked()
        return super().__iter__()
