"""Evaluate calls of torch's functions: a call of the model, a question about the capture, a tensor."""

from __future__ import annotations

import ast
import inspect
from types import FunctionType
from typing import Any, Final

import torch

from hookpatch_export._evaluate.calls.builtin_functions import call_builtin
from hookpatch_export._evaluate.expressions.attributes import attribute
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._torch_rules.capture_questions import modes_answering_yes
from hookpatch_export._torch_rules.tensors import call_on_tensors
from hookpatch_export._values.elements import as_sequence
from hookpatch_export._values.join import join
from hookpatch_export._values.questions import content_kind, has_tensor, is_function
from hookpatch_export._values.value import NONE, UNKNOWN, Args, Instance, Keywords, Known, Seq, TrueIn, Unknown, Value

_MODULE_CALLS: Final = frozenset(["__call__", "_wrapped_call_impl", "_call_impl"])
_REGISTERS: Final = frozenset(["register_buffer", "register_parameter", "register_module", "add_module"])
_HIGHER_ORDER: Final = frozenset(
    ["checkpoint", "vmap", "cond", "while_loop", "scan", "map", "associative_scan", "compile"]
)
_AROUND: Final = frozenset(
    ["no_grad", "enable_grad", "inference_mode", "autocast", "record_function", "set_grad_enabled"]
)
_NOTHING: Final = frozenset(
    ["__init__", "__setattr__", "__init_subclass__", "_check", "_assert", "_assert_async", "check"]
)
_SPREAD: Final = 8  # operands, if their number is not known; a function takes as many as it can


def call_torch(frame: Frame, node: ast.AST, obj: Any, args: Args, named: Keywords) -> Value:
    """Return the result of a function or a method of torch.

    Args:
        frame: the frame of the caller.
        node: the call.
        obj: the function.
        args: the positional arguments; of a method the object comes first.
        named: the keyword arguments.
    """
    name = getattr(obj, "__name__", type(obj).__name__)
    if name == "is_current_stream_capturing":
        return Known(False)
    if (modes := modes_answering_yes(name)) is not None:
        return TrueIn(modes)
    if name in _MODULE_CALLS and args:
        return call_forward(frame, node, args[0], args[1:], named)
    if name == "apply" and (function := _autograd_function(args)) is not None:
        forward = inspect.getattr_static(function, "forward", None)
        inner = getattr(forward, "__func__", forward)
        context = [] if "setup_context" in vars(function) else [Instance(object)]
        return frame.walk.call(frame, node, Known(inner), [*context, *args[1:]], named)
    if name in _REGISTERS and len(args) >= 2:
        value = args[2] if len(args) > 2 else named.get("tensor", named.get("param", named.get("module", UNKNOWN)))
        if isinstance(args[1], Known) and isinstance(args[1].obj, str):
            frame.walk.write(args[0], args[1].obj, value)
        return NONE
    functions = [arg for arg in [*args, *named.values()] if is_function(arg)]
    if name in _HIGHER_ORDER and functions:
        return _higher_order(frame, node, name, functions, args, named)
    if name in _AROUND:
        return args[0] if args and is_function(args[0]) else Unknown(Kind.SAFE)
    if name in _NOTHING:
        return NONE
    if name in ("append", "extend", "insert") and args and isinstance(args[0], Instance):
        children = as_sequence(args[0].attributes.get("*", Seq((), UNKNOWN)))
        args[0].attributes["*"] = Seq(None, join([children.each, *args[1:]]), children.length)
        return args[0]
    if name == "is_tensor" and args:
        return call_builtin(frame, node, isinstance, [args[0], Known(torch.Tensor)], {})
    arguments = [*args, *named.values()]
    if isinstance(obj, FunctionType) and not any(map(has_tensor, arguments)):
        return Unknown(max(map(content_kind, arguments), default=Kind.CONFIG))  # reads a setting
    return call_on_tensors(frame, node, name, args, named)


def _autograd_function(args: Args) -> type | None:
    """Return the subclass of torch.autograd.Function whose ``apply`` is called."""
    cls = args[0].obj if args and isinstance(args[0], Known) else None
    return cls if isinstance(cls, type) and issubclass(cls, torch.autograd.Function) else None


def _higher_order(frame: Frame, node: ast.AST, name: str, functions: list[Value], args: Args, named: Keywords) -> Value:
    if name in ("vmap", "compile"):
        return functions[0]
    other_args = [arg for arg in args if arg not in functions]
    if name == "checkpoint":
        keywords = {key: arg for key, arg in named.items() if key not in ("use_reentrant", "preserve_rng_state")}
        return frame.walk.call(frame, node, functions[0], other_args, keywords)
    operands = as_sequence(other_args[-1]) if other_args else Seq((), UNKNOWN)
    operand_values = list(operands.items) if operands.items is not None else [operands.each] * _SPREAD
    return join(frame.walk.call(frame, node, function, operand_values, {}) for function in functions)


def call_forward(frame: Frame, node: ast.AST, owner: Value, args: Args, named: Keywords) -> Value:
    """Return the result of a layer's ``forward``."""
    return frame.walk.call(frame, node, attribute(frame, node, owner, "forward"), args, named)
