"""What Python's own functions give, and where they make a number of Python's out of a size or a tensor."""

from __future__ import annotations

import ast
import builtins
import collections
import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from hookpatch_export._finding import Kind
from hookpatch_export._frame import Frame
from hookpatch_export._join import join, sequence
from hookpatch_export._question import alternatives, content_kind, has_tensor, truth, truth_kind
from hookpatch_export._value import (
    CONFIG,
    EMPTY,
    PLAIN,
    SAFE,
    Bound,
    Choice,
    During,
    Instance,
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

Args = Sequence[Value]
Named = Mapping[str, Value]

_NUMBERS: Final = frozenset([int, float, bool, complex, round, hex, bin, oct, chr, hash])
_QUESTIONS: Final = frozenset([hasattr, callable, issubclass, id, repr, ascii, format, vars, dir])
_ITERATORS: Final = (enumerate, zip, reversed, map, filter, iter, range, sorted, list, tuple, set, frozenset)
_PURE: Final = frozenset(
    [*PLAIN, min, max, abs, sum, len, round, sorted, tuple, list, str, repr, hash, divmod, pow, ord, chr]
)


def is_builtin(function: object) -> bool:
    """Tell whether it is one of Python's own that is known here."""
    try:
        return getattr(builtins, getattr(function, "__name__", ""), None) is function
    except TypeError:
        return False


def call_builtin(frame: Frame, node: ast.AST, function: Any, args: Args, named: Named) -> Value:
    """Return what a builtin gives."""
    name: str = function.__name__
    if function is print or function is input:
        frame.found(node, f"{name}()", Kind.CALL)
        return SAFE
    if function in _ITERATORS:
        return _iterate(frame, node, function, args, named)
    if function is len and args:
        return _length(args[0])
    if function is isinstance and len(args) == 2:
        return _is_instance(args[0], args[1])
    if function is type and len(args) == 1:
        return type_of(args[0])
    if function in (getattr, setattr):
        return _attribute(frame, node, function, args)
    if function is hasattr and len(args) == 2:
        return _has(frame, args[0], args[1])
    if function in _QUESTIONS:
        return SAFE
    if function is str and len(args) == 1:
        obj = args[0].obj if isinstance(args[0], Known) else None
        return Known(str(obj)) if isinstance(obj, (*PLAIN, type)) else Scalar(content_kind(args[0]))
    if function is dict:
        items = [(key, value) for key, value in named.items()]
        return _merged(args[0], items) if args and isinstance(args[0], Table) else Table(tuple(items))
    if function in (any, all):
        return _any(frame, node, name, args)
    if function in (min, max, sum, abs, divmod, pow) or function in _NUMBERS:
        return _number(frame, node, function, args, named)
    if function is slice:
        return Unknown(max(map(content_kind, args), default=Kind.SAFE))
    if isinstance(function, type) and issubclass(function, BaseException):
        return Instance(function)
    if function is next and args:
        return element_of(args[0])
    if function is object:
        return Instance(object)
    return Scalar(max(map(content_kind, args), default=Kind.CONFIG))


def _number(frame: Frame, node: ast.AST, function: Any, args: Args, named: Named) -> Value:
    if _plain([*args, *named.values()]) and function is not hash:
        try:
            return Known(function(*_objects(args)), Kind.CONFIG)
        except Exception:
            return CONFIG
    if function in (sum, abs, pow) and any(map(has_tensor, args)):
        return Tensor(max(map(content_kind, args)))
    kind = max((_as_number(one) for one in args), default=Kind.CONFIG)
    computes = function in (sum, abs, pow, divmod, round) and kind is not Kind.DATA
    if kind >= Kind.SHAPE and (not computes or any(map(has_tensor, args))):
        frame.found(node, f"{function.__name__}()", kind)
    return Scalar(kind)


def _as_number(value: Value) -> Kind:
    """What a number hangs on that is made of a value, or of the values in it."""
    if isinstance(value, Seq | Size):
        return max(content_kind(value), Kind.DATA if has_tensor(value) else Kind.SAFE)
    return max(truth_kind(one) for one in alternatives(value))


def _any(frame: Frame, node: ast.AST, name: str, args: Args) -> Value:
    if not args:
        return SAFE
    if isinstance(args[0], Seq) and args[0].items is not None:
        outcomes = [truth(one) for one in args[0].items]
        if None not in outcomes:
            return Known(getattr(builtins, name)(outcomes), max(map(truth_kind, args[0].items), default=Kind.SAFE))
    kind = _as_number(args[0])
    if kind >= Kind.SHAPE:
        frame.found(node, f"{name}()", kind)
    return Scalar(kind)


def _length(value: Value) -> Value:
    outcomes: list[Value] = []
    for one in alternatives(value):
        match one:
            case Known(obj=obj) if isinstance(obj, str | bytes | tuple | list | dict | set | frozenset):
                outcomes.append(Known(len(obj), one.kind))
            case Known(obj=obj) if hasattr(obj, "_modules"):
                outcomes.append(Known(len(obj._modules), Kind.CONFIG))
            case Seq(items=items) if items is not None:
                outcomes.append(Known(len(items)))
            case Seq():
                outcomes.append(Scalar(max(one.length, Kind.CONFIG)))
            case Tensor():
                outcomes.append(Scalar(one.sizes))
            case Unknown():
                outcomes.append(one)
            case _:
                outcomes.append(CONFIG)
    return join(outcomes)


def _iterate(frame: Frame, node: ast.AST, function: Any, args: Args, named: Named) -> Value:
    if function is range:
        kind = max(map(truth_kind, args), default=Kind.SAFE)
        if _plain(args):
            try:
                numbers = range(*_objects(args))
            except Exception:
                return Seq(None, CONFIG, Kind.CONFIG)
            if len(numbers) <= 4:
                return Seq(tuple(Known(one, kind) for one in numbers), Scalar(kind), kind)
            return Seq(None, Scalar(max(kind, Kind.CONFIG)), max(kind, Kind.CONFIG))
        return Seq(None, Scalar(max(kind, Kind.CONFIG)), max(kind, Kind.CONFIG))
    if not args:
        return sequence([])
    if function is zip:
        parts = [as_sequence(one) for one in args]
        length = max(one.length for one in parts)
        each: Value = sequence([one.each for one in parts])
        if all(one.items is not None for one in parts):
            rows = zip(*(one.items or () for one in parts), strict=False)
            return Seq(tuple(sequence(row) for row in rows), each, length)
        return Seq(None, each, length)
    if function in (map, filter) and len(args) >= 2:
        parts = [as_sequence(one) for one in args[1:]]
        length = max(one.length for one in parts)
        given = (
            frame.walk.call(frame, node, args[0], [one.each for one in parts], {}) if args[0] != Known(None) else CONFIG
        )
        return Seq(None, given, length) if function is map else Seq(None, parts[0].each, max(length, truth_kind(given)))
    whole = as_sequence(args[0])
    if function is enumerate:
        numbered = sequence([Scalar(max(whole.length, Kind.CONFIG)), whole.each])
        if whole.items is not None:
            return Seq(tuple(sequence([Known(i), one]) for i, one in enumerate(whole.items)), numbered, whole.length)
        return Seq(None, numbered, whole.length)
    if function is sorted and _as_number(whole) >= Kind.SHAPE:
        frame.found(node, "sorted()", _as_number(whole))
    if function is reversed and whole.items is not None:
        return Seq(whole.items[::-1], whole.each, whole.length)
    return whole if function not in (set, frozenset, sorted) else Seq(None, whole.each, whole.length)


def as_sequence(value: Value) -> Seq:
    """Return what one gets by going through a value."""
    match value:
        case Seq():
            return value
        case Size():
            return Seq(None, Scalar(value.sizes), Kind.CONFIG)
        case Tensor():
            part = Tensor(value.sizes, value.last, value.truth, None if value.rank is None else value.rank - 1)
            return Seq(None, part, value.sizes)
        case Table():
            keys = sequence(Known(key) for key, _ in value.items)
            return keys if value.each is None else Seq(None, CONFIG, Kind.CONFIG)
        case Known(obj=obj):
            return _as_sequence_of(obj, value.kind)
        case Choice():
            parts = [as_sequence(one) for one in value.among if one != Known(None)]
            whole = join(parts)
            return whole if isinstance(whole, Seq) else Seq(None, Unknown(content_kind(whole)), content_kind(whole))
        case Instance():
            held = value.attributes.get("*")
            if isinstance(held, Seq):
                return held
            return Seq(None, join(value.attributes.values()) if value.attributes else EMPTY, Kind.SAFE)
    return Seq(None, Unknown(truth_kind(value)), truth_kind(value))


def _as_sequence_of(obj: Any, kind: Kind) -> Seq:
    if isinstance(obj, tuple | list | range | dict | set | frozenset | str) and len(obj) <= 64:
        return sequence(value_of(one, kind) for one in obj)
    if (modules := getattr(obj, "_modules", None)) is not None:
        return sequence(Known(one, Kind.CONFIG) for one in modules.values())
    return Seq(None, CONFIG, Kind.CONFIG)


def element_of(value: Value) -> Value:
    """Return what any one of a value's items is."""
    return as_sequence(value).each


def _is_instance(value: Value, kinds: Value) -> Value:
    answers = {_one_is_instance(one, kinds) for one in alternatives(value)}
    return answers.pop() if len(answers) == 1 else SAFE


def _one_is_instance(value: Value, kinds: Value) -> Value:
    classes = kinds.obj if isinstance(kinds, Known) else _classes(kinds)
    names = {one.__name__ for one in (classes if isinstance(classes, tuple) else (classes,)) if isinstance(one, type)}
    if names == {"FakeTensor"}:
        return During(frozenset(["export", "onnx"])) if isinstance(value, Tensor) else Known(False)
    if names == {"Proxy"}:
        return Known(False)
    try:
        match value:
            case Known():
                return Known(isinstance(value.obj, classes), value.kind)
            case Tensor():
                return Known(issubclass(torch.Tensor, classes) or "Tensor" in names)
            case Instance():
                return Known(issubclass(value.cls, classes)) if issubclass(value.cls, classes) else SAFE
            case Table():
                return Known(issubclass(dict, classes))
            case Size():
                return Known(issubclass(torch.Size, classes))
            case Seq() if not issubclass(tuple, classes) and not issubclass(list, classes):
                return Known(False)
            case Seq() if issubclass(tuple, classes) and issubclass(list, classes):
                return Known(True)
            case Scalar() if not any(issubclass(one, classes) for one in (int, float, bool, str)):
                return Known(False)
    except TypeError:
        pass
    return SAFE


def _classes(kinds: Value) -> tuple[type, ...]:
    if isinstance(kinds, Seq) and kinds.items is not None:
        return tuple(one.obj for one in kinds.items if isinstance(one, Known) and isinstance(one.obj, type))
    return ()


def type_of(value: Value) -> Value:
    """Return a value's class, if known."""
    match value:
        case Known():
            return Known(type(value.obj))
        case Instance():
            return Known(value.cls)
    return SAFE


def _has(frame: Frame, owner: Value, name: Value) -> Value:
    if isinstance(owner, Known) and isinstance(name, Known) and isinstance(name.obj, str):
        if frame.walk.written(owner.obj, name.obj) is not None:
            return SAFE
        try:
            return Known(hasattr(owner.obj, name.obj), Kind.SAFE)
        except Exception:
            return SAFE
    if isinstance(owner, Tensor) and isinstance(name, Known) and isinstance(name.obj, str):
        return Known(hasattr(torch.Tensor, name.obj))
    return SAFE


def _attribute(frame: Frame, node: ast.AST, function: Any, args: Args) -> Value:
    from hookpatch_export._attribute import attribute

    if len(args) < 2 or not isinstance(args[1], Known) or not isinstance(args[1].obj, str):
        return Unknown(Kind.CONFIG)
    if function is setattr:
        frame.walk.write(args[0], args[1].obj, args[2] if len(args) > 2 else EMPTY)
        return Known(None)
    default = args[2] if len(args) > 2 else None
    return attribute(frame, node, args[0], args[1].obj, default)


def _merged(table: Table, items: list[tuple[Any, Value]]) -> Table:
    return Table(tuple({**dict(table.items), **dict(items)}.items()), table.each)


def call_stdlib(frame: Frame, node: ast.AST, function: Any, args: Args, named: Named) -> Value:
    """Return what a function of the standard library gives."""
    module = getattr(function, "__module__", None) or type(getattr(function, "__self__", None)).__module__
    name = getattr(function, "__name__", type(function).__name__)
    given = [*args, *named.values()]
    if module.partition(".")[0] in ("random", "secrets") or (module == "time" and name != "sleep"):
        frame.found(node, f"{module}.{name}()", Kind.CALL)
        return Scalar(Kind.CONFIG)
    if module == "math" or function in (operator.index, operator.mul):
        kind = max(map(_as_number, given), default=Kind.CONFIG)
        if _plain(given):
            try:
                return Known(function(*_objects(args)), Kind.CONFIG)
            except Exception:
                return CONFIG
        if kind >= Kind.SHAPE:
            frame.found(node, f"{module}.{name}()" if module else name, kind)
        return Scalar(kind)
    if module == "copy" and args:
        return args[0]
    if function is collections.OrderedDict or function is collections.defaultdict:
        return args[0] if args and isinstance(args[0], Table | Seq) else Table(tuple(named.items()), EMPTY)
    if function in (collections.deque, itertools.chain, itertools.cycle, itertools.islice) and args:
        return as_sequence(args[0])
    if function in (itertools.product, itertools.combinations) and args:
        parts = [as_sequence(one) for one in args]
        return Seq(None, Seq(None, join(one.each for one in parts)), max(one.length for one in parts))
    if name == "partial" and args:
        return Bound(args[0], tuple(args[1:]), tuple(named.items()))
    if name in ("reduce",) and len(args) >= 2:
        return frame.walk.call(frame, node, args[0], [element_of(args[1])] * 2, {})
    if module == "warnings" or module.startswith("logging") or name in ("cast", "nullcontext", "suppress"):
        return args[-1] if name == "cast" and len(args) == 2 else Unknown(Kind.SAFE)
    if any(map(has_tensor, given)):
        return Unknown(max(Kind.SHAPE, *map(content_kind, given)))
    return Unknown(max(map(content_kind, given), default=Kind.CONFIG))


def call_outside(frame: Frame, node: ast.AST, function: Any, module: str, args: Args, named: Named) -> Value:
    """Return what a function gives that is neither Python's nor torch's and has no source in Python."""
    name = getattr(function, "__name__", type(function).__name__)
    given = [*args, *named.values()]
    kind = max(map(_as_number, given), default=Kind.CALL)
    tensors = any(map(has_tensor, given))
    frame.found(
        node, f"{module}.{name}()" if module else f"{name}()", max(kind, Kind.CALL) if kind >= Kind.SHAPE else Kind.CALL
    )
    return Unknown(Kind.DATA if tensors else max(kind, Kind.CONFIG) if kind is not Kind.CALL else Kind.CONFIG)


def _plain(values: Sequence[Value]) -> bool:
    return all(isinstance(one, Known) and isinstance(one.obj, (*PLAIN, tuple, list)) for one in values)


def _objects(values: Sequence[Value]) -> list[Any]:
    return [one.obj for one in values if isinstance(one, Known)]
