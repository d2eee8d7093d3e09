"""Evaluate the call of a class: make a layer, an object of a class with a source, a model from its class alone."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from types import FunctionType

import torch

from hookpatch_export._evaluate.calls.standard_library import call_stdlib
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._frames.source import belongs_to_python, belongs_to_torch
from hookpatch_export._values.elements import as_sequence
from hookpatch_export._values.join import join, table_of
from hookpatch_export._values.questions import is_function
from hookpatch_export._values.value import (
    UNKNOWN,
    Args,
    Instance,
    Keywords,
    Seq,
    Table,
    Tensor,
    Unknown,
    Value,
    value_of,
)


def construct(frame: Frame, node: ast.AST, cls: type, args: Args, named: Keywords) -> Value:
    """Return the object that a class makes.

    Args:
        frame: the frame of the caller.
        node: the call.
        cls: the class.
        args: the positional arguments.
        named: the keyword arguments.
    """
    if issubclass(cls, torch.nn.Module) and belongs_to_torch(cls.__module__):
        return _layer(cls, args)
    if cls is torch.Size:
        return as_sequence(args[0]) if args else UNKNOWN
    if belongs_to_torch(cls.__module__):
        if issubclass(cls, torch.Tensor) or cls.__name__.endswith("Tensor"):
            return next((arg for arg in args if isinstance(arg, Tensor)), Tensor(Kind.CONFIG, Kind.CONFIG))
        functions = [arg for arg in args if is_function(arg)]
        return functions[0] if functions else Unknown(Kind.SAFE)
    if belongs_to_python(cls.__module__) or cls.__module__ == "builtins":
        return call_stdlib(frame, node, cls, args, named)
    instance = Instance(cls, of_model=frame.walk.initializing)
    init = inspect.getattr_static(cls, "__init__", None)
    if dataclasses.is_dataclass(cls) or getattr(init, "__code__", None) is None:
        _fill(instance, cls, args, named)
        if not isinstance(init, FunctionType) or init.__code__.co_filename.startswith("<"):
            return instance
    if isinstance(init, FunctionType) and not belongs_to_torch(init.__module__):
        frame.walk.report_third_party(frame, node, cls, [instance, *args, *named.values()])
        _initialize(frame, node, init, [instance, *args], named)
    return instance


def model_of(frame: Frame, node: ast.AST, cls: type) -> Value:
    """Return a model made from its class alone: its ``__init__`` is walked with unknown settings."""
    model = Instance(cls, of_model=True)
    init = inspect.getattr_static(cls, "__init__", None)
    if isinstance(init, FunctionType) and not belongs_to_torch(init.__module__):
        count = init.__code__.co_argcount + init.__code__.co_kwonlyargcount - 1
        names = init.__code__.co_varnames[1 : count + 1]
        _initialize(frame, node, init, [model], {name: Unknown(Kind.CONFIG) for name in names})
    return model


def _initialize(frame: Frame, node: ast.AST, init: FunctionType, args: Args, named: Keywords) -> None:
    with frame.walk.initialize():
        frame.walk.enter(frame, node, init, args, named)


def _layer(cls: type, args: Args) -> Instance:
    layer = Instance(cls, of_model=True)
    if issubclass(cls, torch.nn.ModuleDict) and args and isinstance(args[0], Table):
        layer.attributes["*"] = args[0]
    elif issubclass(cls, torch.nn.ModuleList | torch.nn.ParameterList):
        layer.attributes["*"] = as_sequence(args[0]) if args else Seq((), UNKNOWN)
    elif issubclass(cls, torch.nn.Sequential):
        inside = args[0] if len(args) == 1 and isinstance(args[0], Table) else None
        items = [child for _, child in inside.items] if inside is not None else args
        layer.attributes["*"] = Seq(tuple(items), join(items) if items else UNKNOWN)
    return layer


def _fill(instance: Instance, cls: type, args: Args, named: Keywords) -> None:
    """Set the fields of a dataclass, a named tuple or the like to the arguments passed."""
    try:
        parameters = list(inspect.signature(cls).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [parameter.name for parameter in parameters]
    given = table_of(named)
    for name, value in [*zip(names, args, strict=False), *given.items]:
        instance.attributes[name] = value
    for parameter in parameters:
        if parameter.name not in instance.attributes and parameter.default is not parameter.empty:
            default = value_of(parameter.default)
            instance.attributes[parameter.name] = default if given.each is None else join([default, given.each])
