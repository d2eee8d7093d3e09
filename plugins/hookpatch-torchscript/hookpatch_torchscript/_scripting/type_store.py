"""Save and restore TorchScript's stores of types and functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def kept_types() -> Callable[[], None]:
    """Save the concrete types held by torch, and return a function that restores exactly the saved types.

    The store is changed in place, since torch and callers of torch hold the store by name. For a torch without
    a store the returned function does nothing.
    """
    from torch.jit import _recursive

    store: Any = getattr(_recursive, "concrete_type_store", None)
    if store is None:
        return _nothing
    types = {cls: (stored, list(stored)) for cls, stored in store.type_store.items()}
    compiled = set(store.methods_compiled)

    def put_back() -> None:
        store.type_store.clear()
        for cls, (stored, content) in types.items():
            stored[:] = content
            store.type_store[cls] = stored
        store.methods_compiled.clear()
        store.methods_compiled.update(compiled)

    return put_back


def kept_functions() -> Callable[[], None]:
    """Save the plain functions compiled by torch, and return a function that removes functions compiled later."""
    from torch.jit import _state

    functions: Any = getattr(_state, "_jit_caching_layer", None)
    if functions is None:
        return _nothing
    before = dict(functions)

    def put_back() -> None:
        for function in [key for key in functions if key not in before]:
            del functions[function]
        functions.update(before)

    return put_back


def is_known(target: Any) -> bool:
    """Return True if torch holds a function or class compiled."""
    from torch.jit import _state

    stores = [getattr(_state, name, {}) for name in ("_jit_caching_layer", "_script_classes")]
    return any(target in store for store in stores)


@contextmanager
def untouched() -> Iterator[None]:
    """Restore both stores at the end of a block."""
    undo = kept_types(), kept_functions()
    try:
        yield
    finally:
        for put_back in undo:
            put_back()


def _nothing() -> None:
    return
