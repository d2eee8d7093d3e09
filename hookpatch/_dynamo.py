"""What Dynamo is told of the objects of ours that it would not understand. Imported when Dynamo is there.

It goes by ``__class__``, and so takes a proxy for what it stands for, past the patch. It traces no context variables.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from types import FunctionType
from typing import Any, cast

from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource
from torch._dynamo.variables import ConstantVariable, UserFunctionVariable
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import VariableBuilder

from hookpatch._proxy import Proxy
from hookpatch._tally import Tally
from hookpatch._task import Gate
from hookpatch._trampoline import HOOK


def build(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    """Have Dynamo see an object of ours for what it does; a wrapper of ``VariableBuilder._wrap``."""
    if issubclass(type(args[0]), Proxy):
        return _proxy(instance, args[0])
    if type(args[0]) is Tally:
        args[0].captured("export" if instance.tx.output.export else "compile")
        return _Counted()
    if type(args[0]) is Gate:
        return _gate(instance, args[0])
    if type(args[0]) is FunctionType and HOOK in (args[0].__kwdefaults__ or ()):
        # Changed in place: to be traced into even if it is torch's own, which else is called by the graph as it is.
        return UserFunctionVariable.create_with_source(args[0], instance.source)
    return wrapped(*args, **kwargs)


def _proxy(builder: VariableBuilder, proxy: Any) -> VariableTracker:
    """Return a proxy as the plain function that calls its layers; for a class that does this, else it is the class."""
    calling = AttrSource(builder.source, "_self_traced")
    called, value = proxy._self_traced, proxy.__wrapped__
    if not isinstance(proxy, type):
        return VariableBuilder(builder.tx, calling)(called)
    beneath = VariableBuilder(builder.tx, AttrSource(builder.source, "__wrapped__"))(value)
    patched: Any = copy(beneath)
    patched.source = builder.source
    patched.__class__ = type("PatchedClass", (_Called, type(beneath)), {})
    patched.hookpatch_called = called, calling
    return cast(VariableTracker, patched)


def _gate(builder: VariableBuilder, gate: Gate) -> VariableTracker:
    """Return what a gate is at this moment; what is compiled holds for that, and is guarded by it."""
    install_guard(AttrSource(builder.source, "is_open").make_guard(GuardBuilder.CONSTANT_MATCH))
    return ConstantVariable.create(gate.is_open)


class _Counted(VariableTracker):
    """A tally in compiled code, which counts nothing when it runs: its methods do nothing."""

    def call_method(self, tx: Any, name: str, args: Any, kwargs: Any) -> VariableTracker:
        """Trace nothing."""
        return ConstantVariable.create(None)


class _Called(VariableTracker):
    """A class in whose calls the layers run."""

    hookpatch_called: tuple[Any, AttrSource]

    def call_function(self, tx: Any, args: Any, kwargs: Any) -> VariableTracker:
        """Trace what the proxy calls."""
        function: VariableTracker = VariableTracker.build(tx, *self.hookpatch_called)
        return function.call_function(tx, args, kwargs)
