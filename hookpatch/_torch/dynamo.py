"""Show our objects to Dynamo as the functions that run at a call. Imported when torch._dynamo is imported.

Dynamo goes by ``__class__``: one of our proxies would be taken for the original value, past the patch. Dynamo also
traces no context variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from types import FunctionType
from typing import Any, cast

from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource
from torch._dynamo.variables import ConstantVariable, UserFunctionVariable, UserMethodVariable
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import VariableBuilder

from hookpatch._engine.calls.beneath import LOOK_UP
from hookpatch._engine.calls.callers import ASKS_CALLER, Callers, Frame, caller_in
from hookpatch._engine.calls.trampoline import is_changed_in_place
from hookpatch._engine.site.layers.call_count import Tally
from hookpatch._engine.site.proxy import Proxy
from hookpatch._session.task import Gate
from hookpatch.errors import BypassError


def build(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    """Return Dynamo's variable of one of our objects; a wrapper of ``VariableBuilder._wrap``."""
    value = args[0]
    if issubclass(type(value), Proxy):
        return _proxy(instance, value)
    if type(value) is Tally:
        value.captured("export" if instance.tx.output.export else "compile")
        return _Counted()
    if type(value) is Callers:
        return _Asking(value)
    if type(value) is Gate:
        # The code is compiled for the present state of the gate, and guarded by the state.
        install_guard(AttrSource(instance.source, "is_open").make_guard(GuardBuilder.CONSTANT_MATCH))
        return ConstantVariable.create(value.is_open)
    if type(value) is FunctionType and LOOK_UP in vars(value):
        return VariableTracker.build(instance.tx, vars(value)[LOOK_UP](value, None))
    if type(value) is FunctionType and is_changed_in_place(value):
        # A function patched in place is traced, even a function of torch: graphs call torch functions without tracing.
        return UserFunctionVariable.create_with_source(value, instance.source)
    return wrapped(*args, **kwargs)


def bind(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    """Return Dynamo's variable of a method that ``__get__`` binds; around ``MethodWrapperVariable.call_function``."""
    binding = instance.method_wrapper
    if binding.__name__ != "__get__" or type(binding.__self__) is not FunctionType:
        return wrapped(*args, **kwargs)
    _, (target, *_), _ = args
    source = AttrSource(instance.source, "__self__")
    function = UserFunctionVariable.create_with_source(binding.__self__, source)
    return UserMethodVariable(function.fn, target)


def fetch(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    """Return Dynamo's variable of one object's patched method; around ``UserDefinedObjectVariable.var_getattr``.

    Before torch 2.13 Dynamo takes the function out of the bound method, past the patch.
    """
    tx, name = args
    own = vars(instance.value).get(name) if hasattr(instance.value, "__dict__") else None
    if instance.source is not None and issubclass(type(own), Proxy):
        return VariableTracker.build(tx, own, AttrSource(instance.source, name))
    return wrapped(*args, **kwargs)


def _proxy(builder: VariableBuilder, proxy: Any) -> VariableTracker:
    """Return a proxy as the plain function that calls the layers; of a class, as the class with layers at each call."""
    proxy._self_follow()  # torch guards _self_traced: the class of an object may be patched since
    traced_source = AttrSource(builder.source, "_self_traced")
    traced, original = proxy._self_traced, proxy.__wrapped__
    if not isinstance(proxy, type):
        return VariableBuilder(builder.tx, traced_source)(traced)
    variable = VariableBuilder(builder.tx, AttrSource(builder.source, "__wrapped__"))(original)
    patched: Any = copy(variable)
    patched.source = builder.source
    patched.__class__ = type("PatchedClass", (_Called, type(variable)), {})
    patched.hookpatch_called = traced, traced_source
    return cast(VariableTracker, patched)


class _Counted(VariableTracker):
    """A tally in compiled code: the methods have no effect, and no call is counted."""

    def call_method(self, tx: Any, name: str, args: Any, kwargs: Any) -> VariableTracker:
        return ConstantVariable.create(None)


class _Asking(VariableTracker):
    """The test of the caller in compiled code: Dynamo knows the caller from the inlined frames."""

    def __init__(self, callers: Callers) -> None:
        super().__init__()
        self.callers = callers

    def call_method(self, tx: Any, name: str, args: Any, kwargs: Any) -> VariableTracker:
        names = caller_in(_frames(tx), self.callers.outside)
        is_meant = self.callers.are_meant(names) or self.callers.is_inside(_frames(tx))
        if not (is_meant or names) or (not is_meant and self.callers.names_function):  # the stack outside is unknown
            raise BypassError("a patched function", "torch.compile", f"{ASKS_CALLER}; capture the caller instead")
        return ConstantVariable.create(is_meant)


def _frames(tx: Any) -> Iterator[Frame]:
    """Yield the frames inlined by Dynamo, the innermost first, without stand-ins for C code."""
    while tx is not None:
        if not str(tx.f_globals.get("__name__")).startswith("torch._dynamo."):
            yield tx.f_code, tx.f_globals
        tx = getattr(tx, "parent", None)


class _Called(VariableTracker):
    """A class with our layers at each call."""

    hookpatch_called: tuple[Any, AttrSource]

    def call_function(self, tx: Any, args: Any, kwargs: Any) -> VariableTracker:
        function: VariableTracker = VariableTracker.build(tx, *self.hookpatch_called)
        return function.call_function(tx, args, kwargs)
