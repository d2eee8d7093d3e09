"""Evaluate a call: choose the rule for a function with source, a layer, a class, Python's or torch's own function."""

from __future__ import annotations

import ast
import inspect
from types import BuiltinFunctionType, BuiltinMethodType, FunctionType, MethodType
from typing import Any

import torch

from hookpatch_export._evaluate.calls.builtin_functions import call_builtin, is_builtin
from hookpatch_export._evaluate.calls.construct import construct
from hookpatch_export._evaluate.calls.methods import call_method
from hookpatch_export._evaluate.calls.standard_library import call_outside, call_stdlib
from hookpatch_export._evaluate.calls.torch_functions import call_forward, call_torch
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._frames.source import belongs_to_python, belongs_to_torch
from hookpatch_export._torch_rules.layers import call_layer
from hookpatch_export._values.join import join
from hookpatch_export._values.questions import alternatives, content_kind, has_tensor, is_none
from hookpatch_export._values.value import (
    UNKNOWN,
    Args,
    Bound,
    Choice,
    Inherited,
    Instance,
    Keywords,
    Known,
    Local,
    Tensor,
    Unknown,
    Value,
    value_of,
)


def call(frame: Frame, node: ast.AST, function: Value, args: Args, named: Keywords) -> Value:
    """Return the result of a call.

    Args:
        frame: the frame to evaluate in.
        node: the call.
        function: the value that is called.
        args: the positional arguments.
        named: the keyword arguments.
    """
    match function:
        case Choice():
            candidates = [candidate for candidate in function.among if not is_none(candidate)]
            return join([call(frame, node, candidate, args, named) for candidate in candidates] or [UNKNOWN])
        case Bound(function=Known(obj=str() as name), first=(owner,)):
            return call_method(frame, node, owner, name, args, named)
        case Bound():
            return call(frame, node, function.function, [*function.first, *args], {**dict(function.named), **named})
        case Local():
            return frame.walk.enter(frame, node, function, args, named)
        case Instance():
            return _call_instance(frame, node, function, args, named)
        case Known():
            return _call_known(frame, node, function, args, named)
        case Inherited():
            return UNKNOWN
    arguments = [*args, *named.values()]
    if any(map(has_tensor, arguments)):
        if isinstance(function, Unknown):
            frame.walk.report_not_read(frame, node, _name_of(node), "the scan does not know which function is called")
        return Tensor(max(map(content_kind, arguments)), max(map(content_kind, arguments)))
    return Unknown(max([Kind.CONFIG, *map(content_kind, arguments)]))


def _call_known(frame: Frame, node: ast.AST, function: Known, args: Args, named: Keywords) -> Value:
    obj = function.obj
    module = _module_of(obj)
    if isinstance(obj, MethodType):
        return call(frame, node, Known(obj.__func__), [value_of(obj.__self__), *args], named)
    if isinstance(obj, torch.nn.Module):
        return _call_module(frame, node, function, type(obj), args, named)
    if obj is super:
        return _super(frame, args)
    if is_builtin(obj):
        return call_builtin(frame, node, obj, args, named)
    if isinstance(obj, type):
        return construct(frame, node, obj, args, named)
    if isinstance(obj, BuiltinFunctionType | BuiltinMethodType):
        owner = getattr(obj, "__self__", None)
        if type(owner).__module__ == "random":
            return call_stdlib(frame, node, obj, args, named)
        if owner is not None and not inspect.ismodule(owner) and not belongs_to_torch(module):
            return call_method(frame, node, value_of(owner), obj.__name__, args, named)
    if module is None and (home := getattr(obj, "__objclass__", None)) is not None:
        if args and not belongs_to_torch(home.__module__):
            return call_method(frame, node, args[0], obj.__name__, args[1:], named)
        return call_torch(frame, node, obj, args, named)
    if module == "collections.abc" and args:
        return call_method(frame, node, args[0], obj.__name__, args[1:], named)
    if belongs_to_torch(module):
        return call_torch(frame, node, obj, args, named)
    if module is not None and belongs_to_python(module) and not _wraps(obj):
        return call_stdlib(frame, node, obj, args, named)
    if module is not None and module.partition(".")[0] == "numpy":  # its arrays are no tensors
        return call_outside(frame, node, obj, module, args, named)
    if isinstance(obj, FunctionType):
        return frame.walk.enter(frame, node, obj, args, named)
    if hasattr(obj, "func") and hasattr(obj, "keywords"):
        first = [value_of(argument) for argument in obj.args]
        keywords = {key: value_of(argument) for key, argument in obj.keywords.items()}
        return call(frame, node, value_of(obj.func), [*first, *args], {**keywords, **named})
    inside = inspect.getattr_static(type(obj), "__call__", None)
    if isinstance(inside, FunctionType) and not belongs_to_torch(inside.__module__):
        return frame.walk.enter(frame, node, inside, [function, *args], named)
    wrapped = getattr(obj, "__wrapped__", None)  # functools.lru_cache, a patch's proxy
    if isinstance(wrapped, FunctionType):
        sizes = max(map(_hashed_kind, [*args, *named.values()]), default=Kind.SAFE)
        if hasattr(obj, "cache_info") and sizes >= Kind.SHAPE and "export" in frame.modes:
            frame.report(node, "lru_cache()", sizes)
        return frame.walk.enter(frame, node, wrapped, args, named)
    return call_outside(frame, node, obj, module or "", args, named)


def _call_module(
    frame: Frame, node: ast.AST, module: Known | Instance, cls: type, args: Args, named: Keywords
) -> Value:
    inside = inspect.getattr_static(cls, "__call__", None)
    if isinstance(inside, FunctionType) and not belongs_to_torch(inside.__module__):
        return frame.walk.enter(frame, node, inside, [module, *args], named)
    forward = inspect.getattr_static(cls, "forward", None)
    own = isinstance(module, Known) and "forward" in vars(module.obj)
    if not own and belongs_to_torch(getattr(forward, "__module__", None)):
        return call_layer(frame, node, module, _of_torch(cls), [*args, *named.values()])
    return call_forward(frame, node, module, args, named)


def _call_instance(frame: Frame, node: ast.AST, function: Instance, args: Args, named: Keywords) -> Value:
    if issubclass(function.cls, torch.nn.Module):
        return _call_module(frame, node, function, function.cls, args, named)
    inside = inspect.getattr_static(function.cls, "__call__", None)
    if isinstance(inside, FunctionType):
        return frame.walk.enter(frame, node, inside, [function, *args], named)
    return Tensor() if any(map(has_tensor, args)) else UNKNOWN


def _super(frame: Frame, args: Args) -> Value:
    if len(args) == 2 and isinstance(args[0], Known) and isinstance(args[0].obj, type):
        return Inherited(args[0].obj, args[1])
    inner: Frame | None = frame
    while inner is not None and inner.cls is None:
        inner = inner.outer
    arguments = inner.node.args if inner is not None else None
    first = [*arguments.posonlyargs, *arguments.args] if arguments is not None else []
    if inner is None or inner.cls is None or not first:
        return UNKNOWN
    return Inherited(inner.cls, inner.variables.get(first[0].arg, UNKNOWN))


def _of_torch(cls: type) -> type:
    """Return the class of torch that defines the ``forward`` of a layer's class."""
    return next(base for base in cls.__mro__ if "forward" in vars(base) or belongs_to_torch(base.__module__))


def _module_of(obj: Any) -> str | None:
    module = getattr(obj, "__module__", None)
    if module is None and (owner := getattr(obj, "__self__", None)) is not None:
        module = getattr(owner, "__name__", None) if inspect.ismodule(owner) else type(owner).__module__
    return module if isinstance(module, str) else None


def _wraps(obj: Any) -> bool:
    """Return True if an object of functools wraps a function that has a source."""
    return hasattr(obj, "__wrapped__") or (hasattr(obj, "func") and hasattr(obj, "keywords"))


def _hashed_kind(argument: Value) -> Kind:
    """Return the kind of the numbers in an argument that are hashed; a tensor is hashed by its identity."""
    return max(Kind.SAFE if isinstance(part, Tensor) else content_kind(part) for part in alternatives(argument))


def _name_of(node: ast.AST) -> str:
    return f"{ast.unparse(node.func)}()" if isinstance(node, ast.Call) else "a call"
