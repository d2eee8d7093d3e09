"""Evaluate methods of numbers, texts, tuples, lists and dicts, and the changes they make."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

from hookpatch_export._evaluate.expressions.items import item, keep_changed, opened
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._torch_rules.tensors import call_on_tensors
from hookpatch_export._values.elements import as_sequence
from hookpatch_export._values.join import concatenated, in_any_order, join, sequence, table_of
from hookpatch_export._values.questions import content_kind, has_tensor, truth_kind
from hookpatch_export._values.value import (
    CONFIG,
    EMPTY,
    NONE,
    PLAIN,
    UNKNOWN,
    Args,
    Instance,
    Keywords,
    Known,
    Scalar,
    Seq,
    Size,
    Table,
    Tensor,
    Unknown,
    Value,
    value_of,
)

_OF_TENSORS: Final = frozenset(["size", "dim", "numel", "item", "tolist", "numpy", "view", "reshape", "nonzero"])
_CHANGES: Final = frozenset(
    [
        "append",
        "extend",
        "insert",
        "pop",
        "remove",
        "clear",
        "sort",
        "reverse",
        "update",
        "setdefault",
        "add",
        "discard",
    ]
)


def call_method(frame: Frame, node: ast.AST, owner: Value, name: str, args: Args, named: Keywords) -> Value:
    """Return the result of a built-in object's method; a list or dict in a variable is changed in the variable."""
    match owner:
        case Seq():
            changed, result = _of_sequence(owner, name, args)
        case Table():
            changed, result = _of_table(owner, name, args, named)
        case Size():
            return Scalar(owner.sizes)
        case Known():
            return _of_known(frame, node, owner, name, args)
        case Instance() if issubclass(owner.cls, dict):
            table = Table(tuple(owner.attributes.items()))
            changed, result = _of_table(table, name, args, named)
            if isinstance(changed, Table):
                owner.attributes.update(changed.items)
            return result
        case Unknown() if name in _OF_TENSORS:
            return call_on_tensors(frame, node, name, [Tensor(), *args], named)
        case Unknown():
            return owner if not any(map(has_tensor, args)) else Tensor()
        case _:
            return Scalar(max([truth_kind(owner), *map(content_kind, args)]))
    if changed != owner:
        _keep_changed(frame, node, changed)
    return result


def _keep_changed(frame: Frame, node: ast.AST, changed: Value) -> None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        keep_changed(frame, node.func.value, changed)


def _of_sequence(owner: Seq, name: str, args: Args) -> tuple[Value, Value]:
    items = owner.items
    match name:
        case "append" if args:
            return concatenated(owner, sequence([args[0]])), NONE
        case "extend" if args:
            return concatenated(owner, as_sequence(args[0])), NONE
        case "insert" if len(args) == 2:
            if items is not None and isinstance(args[0], Known) and args[0].obj == 0:
                return sequence([args[1], *items]), NONE
            return Seq(None, join([owner.each, args[1]]), owner.length), NONE
        case "pop":
            if items and (not args or (isinstance(args[0], Known) and args[0].obj in (0, -1))):
                first = bool(args) and isinstance(args[0], Known) and args[0].obj == 0
                return (sequence(items[1:]), items[0]) if first else (sequence(items[:-1]), items[-1])
            return Seq(None, owner.each, owner.length), owner.each
        case "clear":
            return sequence([]), NONE
        case "index" | "count":
            return owner, Scalar(max(Kind.CONFIG, content_kind(owner)))
        case "reverse" if items is not None:
            return sequence(items[::-1]), NONE
        case "reverse" | "sort":
            return in_any_order(owner), NONE
        case "copy" | "_replace":
            return owner, owner
    return owner, UNKNOWN


def _of_table(owner: Table, name: str, args: Args, named: Keywords) -> tuple[Value, Value]:
    entries = dict(owner.items)
    key: Any = args[0].obj if args and isinstance(args[0], Known) and isinstance(args[0].obj, PLAIN) else None
    default = args[1] if len(args) > 1 else NONE
    match name:
        case "get" | "pop" | "setdefault":
            if key is None:
                result = join([*entries.values(), *([owner.each] if owner.each is not None else []), default])
            elif key in entries:
                result = entries[key]
            else:
                result = default if owner.each is None else join([owner.each, default])
            if name == "pop" and key in entries:
                return Table(tuple(pair for pair in owner.items if pair[0] != key), owner.each), result
            if name == "setdefault" and key is not None and key not in entries:
                return Table(tuple({**entries, key: default}.items()), owner.each), result
            return owner, result
        case "items":
            pairs = [sequence([Known(known_key), value]) for known_key, value in owner.items]
            if owner.each is None:
                return owner, sequence(pairs)
            each = join([*entries.values(), owner.each])
            return owner, Seq(None, sequence([CONFIG, each]), Kind.CONFIG)
        case "keys":
            return owner, as_sequence(owner)
        case "values":
            values = list(entries.values())
            if owner.each is None:
                return owner, sequence(values)
            return owner, Seq(None, join([*values, owner.each]), Kind.CONFIG)
        case "update":
            updates: dict[Any, Value] = {}
            each_value = owner.each
            for arg in (*args, table_of(named)):
                if isinstance(arg, Table):
                    updates.update(arg.items)
                    each_value = arg.each if each_value is None else each_value
            return Table(tuple({**entries, **updates}.items()), each_value), NONE
        case "copy":
            return owner, owner
    return owner, UNKNOWN


def _of_known(frame: Frame, node: ast.AST, owner: Known, name: str, args: Args) -> Value:
    obj = owner.obj
    if isinstance(obj, PLAIN) and all(isinstance(arg, Known) for arg in args):
        try:
            return value_of(getattr(obj, name)(*(arg.obj for arg in args if isinstance(arg, Known))))
        except Exception:
            return CONFIG
    if isinstance(obj, str):
        return Scalar(max(map(content_kind, args), default=Kind.CONFIG))
    if name in _CHANGES and not isinstance(obj, PLAIN):
        frame.report(node, "write to self", Kind.CALL)
        _keep_changed(frame, node, opened(owner))
    if isinstance(obj, Mapping):
        match name:
            case "get" if args:
                entry = item(frame, node, owner, args[0])
                return entry if isinstance(args[0], Known) and args[0].obj in obj else join([entry, *args[1:2]])
            case "items" if len(obj) <= 64:
                return sequence(sequence([Known(key), value_of(value)]) for key, value in obj.items())
            case "keys" if len(obj) <= 64:
                return sequence(Known(key) for key in obj)
            case "values" if len(obj) <= 64:
                return sequence(value_of(value) for value in obj.values())
    return Unknown(Kind.CONFIG) if obj is not None else EMPTY
