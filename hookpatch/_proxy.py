"""What stands in a slot for something to call that is no Python function; the only file that imports wrapt.

Apart from _trampoline.py because wrapt costs tens of milliseconds to import, and most patches are on functions.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Any, final

import wrapt

from hookpatch._layer import Layer


def by_reference(module: str, path: str) -> Any:
    """Return what an address names: how a pickled proxy is found again, patched or not in the process that loads it."""
    return attrgetter(path)(import_module(module))


class _BoundProxy(wrapt.BoundFunctionWrapper[Any, Any]):
    """A proxy's method bound to an object: pickles as the object and the method's name."""

    def __reduce_ex__(self, protocol: object) -> Any:
        instance = self._self_instance
        if instance is None or self._self_binding in ("classmethod", "staticmethod"):
            return self._self_parent.__reduce_ex__(protocol)
        return getattr, (instance, self.__wrapped__.__name__)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self


class _Step(wrapt.CallableObjectProxy[Any]):
    """What a wrapper calls when more wrappers lie inside it: looks like the wrapped, calls the next layer."""

    def __init__(self, wrapped: Any, instance: Any, inner: tuple[Layer, ...]) -> None:
        super().__init__(wrapped)
        self._self_instance = instance
        self._self_inner = inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _run(self.__wrapped__, self._self_instance, self._self_inner, args, kwargs)


def _run(
    wrapped: Callable[..., Any], instance: Any, layers: tuple[Layer, ...], args: tuple[Any, ...], kwargs: Any
) -> Any:
    if not layers:
        return wrapped(*args, **kwargs)
    outermost, *inner = layers
    return outermost.call(_Step(wrapped, instance, tuple(inner)) if inner else wrapped, instance, args, kwargs)


@final
class Proxy(wrapt.FunctionWrapper[Any, Any]):
    """A wrapt.FunctionWrapper over layers that come and go; pickles and copies by reference."""

    __bound_function_wrapper__ = _BoundProxy

    def __init__(self, value: Any, reference: tuple[str, str] | None) -> None:
        """Make one that passes through.

        Args:
            value: what it calls.
            reference: the module and path under which pickle finds it, None when it has no such name; it then
                pickles as the value itself.
        """
        layers: list[tuple[Layer, ...]] = [()]

        def dispatch(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            return _run(wrapped, instance, layers[0], args, kwargs)

        super().__init__(value, dispatch)
        self._self_layers = layers
        self._self_reference = reference

    def point(self, layers: tuple[Layer, ...]) -> None:
        """From now on run these layers, the outermost first."""
        self._self_layers[0] = layers

    def __reduce_ex__(self, protocol: object) -> Any:
        if self._self_reference is None:
            return _same, (self.__wrapped__,)
        return by_reference, self._self_reference

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self


def _same(value: Any) -> Any:
    return value
