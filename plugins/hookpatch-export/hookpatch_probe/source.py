"""Read the questions about inputs in the source of the functions run by a model: numbers, NaN, types, axes and more."""

from __future__ import annotations

import ast
import inspect
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from textwrap import dedent
from types import CodeType, FrameType
from typing import Any, Final, final

import torch

_ELSEWHERE: Final = (os.path.dirname(torch.__file__), sysconfig.get_path("stdlib"), os.path.dirname(__file__), "<")
_SIZES: Final = ("shape", "size", "len", "numel")
_RANKS: Final = ("dim", "ndim")
_VALUES: Final = ("max", "min", "sum", "mean", "abs", "norm", "any", "all", "item", "amax", "amin", "std", "var")
_NOT_FINITE: Final = ("isnan", "isinf", "isfinite", "nan_to_num")
_ALIKE: Final = ("equal", "allclose", "isclose")
_KINDS: Final = {"is_floating_point": torch.float32, "is_complex": torch.complex64}
_TYPES: Final = ("dtype", "finfo", "iinfo", "element_size", "itemsize")
_WHOLE: Final = ("round", "floor", "ceil", "trunc", "frac", "fmod", "remainder")
_STRIDES: Final = ("is_contiguous", "stride", "data_ptr", "storage_offset")


@final
@dataclass
class Asked:
    """The questions of the source about the inputs.

    Attributes:
        sizes: numbers in comparisons with sizes.
        slices: numbers in slices, from 2 on.
        keys: texts that the source looks for in a dict.
        values: numbers in comparisons with values.
        finite: whether the source asks for NaN or infinity.
        whole: whether the source rounds.
        types: whether the source reads the type of a tensor.
        kinds: types of which the source asks if a tensor is of their kind: floats, complex numbers, truth values.
        strides: whether the source asks how a tensor lies in memory.
        alike: whether the source compares two values that are no numbers of its own, such as two tensors.
        shapes: whether the source compares two sizes of the inputs.
        ranks: whether the source asks for the number of axes.
        gradients: whether the source asks if a tensor requires a gradient.
    """

    sizes: dict[int, None] = field(default_factory=dict)
    slices: dict[int, None] = field(default_factory=dict)
    keys: dict[str, None] = field(default_factory=dict)
    values: dict[float, None] = field(default_factory=dict)
    finite: bool = False
    whole: bool = False
    types: bool = False
    kinds: dict[torch.dtype, None] = field(default_factory=dict)
    strides: bool = False
    alike: bool = False
    shapes: bool = False
    ranks: bool = False
    gradients: bool = False


def asked(run: Callable[[], object]) -> Asked:
    """Run a model, and return the questions in the source of the functions called; torch's own source is left out."""
    codes: dict[CodeType, tuple[Mapping[str, Any], Any]] = {}

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code not in codes and not frame.f_code.co_filename.startswith(_ELSEWHERE):
            codes[frame.f_code] = frame.f_globals, frame.f_locals.get("self")

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        run()
    finally:
        sys.setprofile(before)
    questions = Asked()
    for code, (names, owner) in codes.items():
        for node in _nodes(code):
            _read(node, names, owner, questions)
    return questions


def _nodes(code: CodeType) -> Iterator[ast.AST]:
    try:
        yield from ast.walk(ast.parse(dedent("".join(inspect.getsourcelines(code)[0]))))
    except (OSError, SyntaxError):  # a function of no file, or in the middle of an expression
        return


def _read(node: ast.AST, names: Mapping[str, Any], owner: Any, questions: Asked) -> None:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    questions.finite |= name in _NOT_FINITE
    questions.whole |= name in _WHOLE
    questions.types |= name in (*_TYPES, *_KINDS)
    if name in _KINDS:
        questions.kinds[_KINDS[name]] = None
    questions.strides |= name in _STRIDES
    questions.alike |= name in _ALIKE
    questions.ranks |= name in _RANKS or _is_length_of_shape(node)
    questions.gradients |= name == "requires_grad"
    if any(map(_is_size, _conditions(node))):  # if len(x)
        questions.sizes[0] = None
    questions.keys |= dict.fromkeys(_keys(node))
    for bound in (node.lower, node.upper) if isinstance(node, ast.Slice) else ():
        number = None if bound is None else _number(bound, names, owner)
        if number is not None and number == int(number) and abs(number) > 1:
            questions.slices[abs(int(number))] = None
    if not isinstance(node, ast.Compare):
        return
    sides = [node.left, *node.comparators]
    numbers = [(side, number) for side in sides if (number := _number(side, names, owner)) is not None]
    words = {word for side in sides for word in _words(side)}
    if {"dtype", "bool"} <= words:  # x.dtype == torch.bool
        questions.kinds[torch.bool] = None
    compares_inputs = not numbers and isinstance(node.ops[0], ast.Eq | ast.NotEq)
    parts = [part for side in sides for part in ast.walk(side)]
    subtracts = any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) for part in parts)
    questions.alike |= compares_inputs or (
        subtracts and bool(words.intersection(_VALUES))
    )  # (x - y).abs().max() < 1e-3
    questions.shapes |= compares_inputs and all(any(word in _SIZES for word in _words(side)) for side in sides)
    for _, number in numbers:
        if words.intersection(_RANKS) or len(numbers) == len(sides):
            continue
        if number == int(number) and not words.intersection(_VALUES):
            questions.sizes[int(number)] = None
        if not words.intersection(_SIZES):
            questions.values[float(number)] = None


def _keys(node: ast.AST) -> Iterator[str]:
    """Yield the text of ``"mask" in inputs`` and ``inputs.get("mask")``."""
    match node:
        case ast.Compare(left=ast.Constant(value=str() as key), ops=[ast.In() | ast.NotIn()]):
            yield key
        case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[ast.Constant(value=str() as key), *_]):
            yield key


def _conditions(node: ast.AST) -> list[ast.expr]:
    """Return the expressions of which a statement or an expression asks for the truth alone."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.UnaryOp(op=ast.Not(), operand=test):
            return [test]
        case ast.BoolOp():
            return node.values
    return []


def _is_size(node: ast.expr) -> bool:
    """Return True for ``len(x)``, ``x.numel()``, ``x.size(0)`` and ``x.shape[0]``."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _SIZES
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape"


def _is_length_of_shape(node: ast.AST) -> bool:
    """Return True for ``len(x.shape)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "len":
        return False
    return any(isinstance(argument, ast.Attribute) and argument.attr == "shape" for argument in node.args)


def _words(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.Name):
            yield part.id


def _number(node: ast.expr, names: Mapping[str, Any], owner: Any) -> float | None:
    """Return the number of an expression without running code: a literal, a global, a setting of the module."""
    if isinstance(node, ast.Constant):
        value: Any = node.value
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand, names, owner)
        value = -inner if inner is not None else None
    elif isinstance(node, ast.Name):
        value = owner if node.id == "self" else names.get(node.id)
    elif isinstance(node, ast.Attribute):
        value = _setting_of(node, owner)
    else:
        return None
    plain = isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0
    return value if plain else None


def _setting_of(node: ast.Attribute, owner: Any) -> Any:
    """Return a setting like ``self.config.pad_token_id``."""
    path = ast.unparse(node).split(".")
    if path[0] != "self" or not all(part.isidentifier() for part in path):
        return None
    for name in path[1:]:
        owner = getattr(owner, "__dict__", {}).get(name)
    return owner
