"""Evaluate functions of the standard library, and functions of other packages that have no source in Python."""

from __future__ import annotations

import ast
import collections
import inspect
import itertools
import operator
from functools import reduce
from typing import Any

from hookpatch_export._evaluate.calls.numeric import number_kind
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._values.elements import as_sequence, element_of
from hookpatch_export._values.join import concatenated, join, sequence
from hookpatch_export._values.questions import all_known, content_kind, has_tensor, objects
from hookpatch_export._values.value import (
    CONFIG,
    EMPTY,
    Args,
    Bound,
    Instance,
    Keywords,
    Known,
    Scalar,
    Seq,
    Table,
    Unknown,
    Value,
    value_of,
)


def call_stdlib(frame: Frame, node: ast.AST, function: Any, args: Args, named: Keywords) -> Value:
    """Return the result of a function of the standard library."""
    module = getattr(function, "__module__", None) or type(getattr(function, "__self__", None)).__module__
    name = getattr(function, "__name__", type(function).__name__)
    arguments = [*args, *named.values()]
    if module.partition(".")[0] in ("random", "secrets") or (module == "time" and name != "sleep"):
        frame.report(node, f"{module}.{name}()", Kind.CALL)
        return CONFIG
    if module == "math" or function in (operator.index, operator.mul):
        kind = max(map(number_kind, arguments), default=Kind.CONFIG)
        if all_known(arguments):
            try:
                return Known(function(*objects(args)), Kind.CONFIG)
            except Exception:
                return CONFIG
        if kind >= Kind.SHAPE:
            frame.report(node, f"{module}.{name}()" if module else name, kind)
        return Scalar(kind)
    if module == "copy" and args:
        return args[0]
    if function is collections.OrderedDict or function is collections.defaultdict:
        return args[0] if args and isinstance(args[0], Table | Seq) else Table(tuple(named.items()), EMPTY)
    if function is itertools.chain and args:
        return reduce(concatenated, map(as_sequence, args))
    if function in (collections.deque, itertools.cycle, itertools.islice) and args:
        return as_sequence(args[0])
    if function in (itertools.product, itertools.combinations) and args:
        parts = [as_sequence(arg) for arg in args]
        return Seq(None, Seq(None, join(part.each for part in parts)), max(part.length for part in parts))
    if function is itertools.groupby and args:
        return _groups(frame, node, args[0], args[1] if len(args) > 1 else named.get("key"))
    if function in (inspect.Signature.bind, inspect.Signature.bind_partial) and args:
        return _bound(args[0], args[1:], named)
    if name == "partial" and args:
        return Bound(args[0], tuple(args[1:]), tuple(named.items()))
    if name == "reduce" and len(args) >= 2:
        return frame.walk.call(frame, node, args[0], [element_of(args[1])] * 2, {})
    if module == "warnings" or module.startswith("logging") or name in ("cast", "nullcontext", "suppress"):
        return args[-1] if name == "cast" and len(args) == 2 else Unknown(Kind.SAFE)
    if any(map(has_tensor, arguments)):
        return Unknown(max(Kind.SHAPE, *map(content_kind, arguments)))
    return Unknown(max(map(content_kind, arguments), default=Kind.CONFIG))


def _groups(frame: Frame, node: ast.AST, items: Value, key: Value | None) -> Seq:
    """Return the result of ``itertools.groupby``: the keys decide how many groups there are."""
    each = as_sequence(items).each
    keys = each if key is None else frame.walk.call(frame, node, key, [each], {})
    kind = max(number_kind(keys), as_sequence(items).length)
    return Seq(None, sequence([keys, Instance(itertools.groupby, {"*": Seq(None, each, kind)})]), kind)


def _bound(signature: Value, args: Args, named: Keywords) -> Value:
    """Return the result of ``Signature.bind``, with the defaults that ``apply_defaults`` adds."""
    if not isinstance(signature, Known) or not isinstance(signature.obj, inspect.Signature):
        return Unknown(Kind.CONFIG)
    parameters = signature.obj.parameters
    with_default = [parameter for parameter in parameters.values() if parameter.default is not parameter.empty]
    entries = {parameter.name: value_of(parameter.default, Kind.SAFE) for parameter in with_default}
    entries |= dict(zip(parameters, args, strict=False))
    entries |= {name: value for name, value in named.items() if name in parameters}
    return Instance(inspect.BoundArguments, {"arguments": Table(tuple(entries.items()))})


def call_outside(frame: Frame, node: ast.AST, function: Any, module: str, args: Args, named: Keywords) -> Value:
    """Return the result of a function without source in Python that is neither Python's nor torch's."""
    name = getattr(function, "__name__", type(function).__name__)
    arguments = [*args, *named.values()]
    kind = max(map(number_kind, arguments), default=Kind.CONFIG)
    frame.report(node, f"{module}.{name}()" if module else f"{name}()", kind if kind >= Kind.SHAPE else Kind.CALL)
    return Unknown(Kind.DATA if any(map(has_tensor, arguments)) else max(kind, Kind.CONFIG))
