"""Evaluate calls of Python's built-in functions."""

from __future__ import annotations

import ast
import builtins
from typing import Any, Final

from hookpatch_export._evaluate.calls.class_checks import has_attribute, is_instance, type_of
from hookpatch_export._evaluate.calls.iterators import iterate, runs_through_sizes
from hookpatch_export._evaluate.calls.numeric import any_or_all, length_of, number
from hookpatch_export._evaluate.expressions.attributes import attribute
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._values.elements import as_sequence, element_of
from hookpatch_export._values.join import join, table_of
from hookpatch_export._values.questions import content_kind
from hookpatch_export._values.value import (
    EMPTY,
    NONE,
    PLAIN,
    SAFE,
    Args,
    Instance,
    Keywords,
    Known,
    Scalar,
    Table,
    Unknown,
    Value,
)

_NUMBERS: Final = frozenset([int, float, bool, complex, round, hex, bin, oct, chr, hash])
_QUESTIONS: Final = frozenset([hasattr, callable, issubclass, id, repr, ascii, format, vars, dir])
_ITERATORS: Final = (enumerate, zip, reversed, map, filter, iter, range, sorted, list, tuple, set, frozenset)


def is_builtin(function: object) -> bool:
    """Return True if a function is one of Python's built-in functions."""
    try:
        return getattr(builtins, getattr(function, "__name__", ""), None) is function
    except TypeError:
        return False


def call_builtin(frame: Frame, node: ast.AST, function: Any, args: Args, named: Keywords) -> Value:
    """Return the result of a built-in function."""
    if function is print or function is input:
        frame.report(node, f"{function.__name__}()", Kind.CALL)
        return SAFE
    if function in _ITERATORS:
        return iterate(frame, node, function, args)
    if function is len and args:
        return length_of(frame, node, args[0])
    if function is isinstance and len(args) == 2:
        return is_instance(args[0], args[1])
    if function is type and len(args) == 1:
        return type_of(args[0])
    if function in (getattr, setattr):
        return _get_or_set(frame, node, function, args)
    if function is hasattr and len(args) == 2:
        return has_attribute(frame, args[0], args[1])
    if function in _QUESTIONS:
        return SAFE
    if function is str and len(args) == 1:
        obj = args[0].obj if isinstance(args[0], Known) else None
        return Known(str(obj)) if isinstance(obj, (*PLAIN, type)) else Scalar(content_kind(args[0]))
    if function is dict:
        if args and not isinstance(args[0], Table):
            return _dict_of(frame, node, args[0])
        return _merged(args[0], table_of(named)) if args and isinstance(args[0], Table) else table_of(named)
    if function in (any, all):
        return any_or_all(frame, node, function, args)
    if function in (min, max, sum, abs, divmod, pow) or function in _NUMBERS:
        return number(frame, node, function, args, named)
    if function is slice:
        return Unknown(max(map(content_kind, args), default=Kind.SAFE))
    if isinstance(function, type) and issubclass(function, BaseException):
        return Instance(function)
    if function is next and args:
        return element_of(args[0])
    if function is object:
        return Instance(object)
    return Scalar(max(map(content_kind, args), default=Kind.CONFIG))


def _get_or_set(frame: Frame, node: ast.AST, function: Any, args: Args) -> Value:
    if len(args) < 2 or not isinstance(args[1], Known) or not isinstance(args[1].obj, str):
        return Unknown(Kind.CONFIG)
    if function is setattr:
        frame.walk.write(args[0], args[1].obj, args[2] if len(args) > 2 else EMPTY)
        return NONE
    default = args[2] if len(args) > 2 else None
    return attribute(frame, node, args[0], args[1].obj, default)


def _dict_of(frame: Frame, node: ast.AST, pairs: Value) -> Table:
    """Return the dict of an iterable of pairs: as many as a size gives, if it runs through a tensor."""
    whole = as_sequence(pairs)
    if whole.length >= Kind.SHAPE and runs_through_sizes(frame, node, pairs):
        frame.report(node, "dict()", whole.length)
    pair = as_sequence(whole.each)
    return Table((), pair.items[1] if pair.items is not None and len(pair.items) == 2 else pair.each)


def _merged(first: Table, second: Table) -> Table:
    each = [table.each for table in (first, second) if table.each is not None]
    return Table(tuple({**dict(first.items), **dict(second.items)}.items()), join(each) if each else None)
