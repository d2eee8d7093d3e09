"""The proxy of a callable that is no Python function; the only file that imports wrapt.

Apart from stand_in.py because wrapt takes tens of milliseconds to import, and most patches are on functions.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from operator import itemgetter
from pkgutil import resolve_name
from types import FunctionType
from typing import Any, cast, final

import wrapt

from hookpatch._engine.calls.trampoline import Wrapper, name_frames, pass_through
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.layers.rivals import Among
from hookpatch._engine.slots.attribute import AttributeSlot, LookUp
from hookpatch._engine.slots.slot import ABSENT, Slot, along_mro


def _itself(proxy: Any, memo: object = None) -> Any:
    return proxy


class _BoundProxy(wrapt.BoundFunctionWrapper[Any, Any]):
    """A proxy's method bound to an object: pickles as the object and the method's name."""

    __copy__ = __deepcopy__ = _itself

    def __reduce_ex__(self, protocol: object) -> Any:
        instance = self._self_instance
        if instance is None or self._self_binding in ("classmethod", "staticmethod"):
            return self._self_parent.__reduce_ex__(protocol)
        return getattr, (instance, self.__wrapped__.__name__)


class _Step(wrapt.CallableObjectProxy[Any]):
    """The callable for a wrapper with more wrappers inside: looks like the wrapped value, calls the next layer."""

    def __init__(self, wrapped: Any, instance: Any, inner: Wrapper) -> None:
        super().__init__(wrapped)
        self._self_instance = instance
        self._self_inner = inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._self_inner(self.__wrapped__, self._self_instance, args, kwargs)


def _around(inner: Wrapper, layer: Layer, call: Wrapper) -> Wrapper:
    """Return a wrapper that runs the call of a layer around another wrapper."""

    def run_layer(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        below = wrapped if inner is pass_through else _Step(wrapped, instance, inner)
        return (pass_through if layer.ended else call)(below, instance, args, kwargs)

    name_frames(cast(FunctionType, run_layer), layer.patch.address, layer.owner)
    return run_layer


def _calling(wrapper: Wrapper, below: Any) -> Any:
    """Return a plain function that calls a wrapper around ``below``."""

    def traced(*args: Any, **kwargs: Any) -> Any:
        return wrapper(below, None, args, kwargs)

    return traced


class Proxy(wrapt.FunctionWrapper[Any, Any]):
    """A wrapt.FunctionWrapper over layers that come and go; pickles and copies by reference."""

    __bound_function_wrapper__ = _BoundProxy
    __copy__ = __deepcopy__ = _itself

    def __new__(cls, value: Any, reference: tuple[str, str] | None, look_up: LookUp | None) -> Proxy:
        """Make a proxy of a class for a class."""
        return super().__new__(_ClassProxy if issubclass(type(value), type) else cls, value, reference, look_up)

    def __init__(self, value: Any, reference: tuple[str, str] | None, look_up: LookUp | None) -> None:
        """Make a proxy that passes through; without a reference for pickle it pickles as the value itself.

        ``look_up``: finds the callable for each call in place of the value; None for the value itself.
        """
        outermost: list[Any] = [pass_through, look_up]

        def dispatch(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            wrapper, look_up = outermost
            return wrapper(wrapped if look_up is None else look_up(wrapped, instance), instance, args, kwargs)

        super().__init__(value, dispatch)
        self._self_outermost = outermost
        self._self_reference = reference
        self._self_kept_alive: list[object] = []  # the objects that this proxy keeps alive
        self._self_point(())

    def _self_rest_on(self, value: Any, look_up: LookUp | None) -> None:
        """Call another value from now on."""
        self.__wrapped__ = value
        self._self_outermost[1] = look_up

    # wrapt keeps names that begin with _self_ on the proxy: another name would hide an attribute of the value.
    def _self_point(self, layers: Sequence[Layer]) -> None:
        """Run these layers from now on, the outermost first."""
        self._self_layers = tuple(layers)  # read by why()
        outermost: Wrapper = pass_through
        calls: list[Wrapper] = []  # the innermost first
        among = Among(layers) if layers and any(layer.depends_on_outer for layer in layers) else None
        for place, layer in reversed(list(enumerate(layers))):
            calls.append(layer.between(among, place))
            outermost = _around(outermost, layer, calls[-1])
        self._self_outermost[0] = outermost
        self._self_calls = calls
        self._self_trace(self.__wrapped__)

    def _self_trace(self, below: Any) -> None:
        """Note the same layers around a callable for torch.compile, which cannot trace wrapt's code."""
        traced = below
        self._self_traced_below = id(below)  # kept alive by the function; a reference would be a holder of the original
        for call in self._self_calls or [pass_through]:
            traced = _calling(call, traced)
        self._self_traced = traced

    def _self_follow(self) -> None:
        """Note the callable that a call looks up now for torch.compile."""
        look_up = self._self_outermost[1]
        if look_up is not None and id(below := look_up(self.__wrapped__, None)) != self._self_traced_below:
            self._self_trace(below)

    def __reduce_ex__(self, protocol: object) -> Any:
        # By functions of the standard library: a process without hookpatch can load the pickle.
        if self._self_reference is None:
            return itemgetter(0), ((self.__wrapped__,),)
        return resolve_name, (":".join(self._self_reference),)


@final
class _ClassProxy(Proxy):
    """A proxy of a class: ``Model.__init__`` is the method of the class, not of the proxy."""

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature of the class, for inspect: from Python 3.13 on it does not look through a proxy of a class."""
        return inspect.signature(self.__wrapped__)

    def __getattribute__(self, name: str) -> Any:
        wrapped = super().__getattribute__("__wrapped__")
        if name in ("__reduce_ex__", "__deepcopy__") or along_mro(wrapped, name) is ABSENT:
            return super().__getattribute__(name)
        return getattr(wrapped, name)


_ClassProxy.__name__ = "proxy of a class by hookpatch"  # Python's errors name the type


def reference(slot: Slot) -> tuple[str, str] | None:
    """Return the module and path by which pickle finds the value of a slot, None without a name."""
    if not isinstance(slot, AttributeSlot):
        return None
    if slot.in_class is not None:
        return slot.in_class.__module__, f"{slot.in_class.__qualname__}.{slot.name}"
    module = getattr(slot.owner, "__name__", None)
    return (module, slot.name) if isinstance(module, str) and hasattr(slot.owner, "__spec__") else None
