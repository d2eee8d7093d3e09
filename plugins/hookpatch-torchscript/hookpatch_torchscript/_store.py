"""TorchScript's stores of types and functions: what is in them now, and putting that back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def kept_types() -> Callable[[], None]:
    """Note which concrete types torch holds; return what puts exactly those back.

    The store is changed in place: torch and its callers hold it by name. Where a release of torch has no such store
    there is nothing to put back.
    """
    from torch.jit import _recursive

    store: Any = getattr(_recursive, "concrete_type_store", None)
    if store is None:
        return _nothing
    types = {cls: (held, list(held)) for cls, held in store.type_store.items()}
    compiled = set(store.methods_compiled)

    def put_back() -> None:
        store.type_store.clear()
        for cls, (held, content) in types.items():
            held[:] = content
            store.type_store[cls] = held
        store.methods_compiled.clear()
        store.methods_compiled.update(compiled)

    return put_back


def kept_functions() -> Callable[[], None]:
    """Note which plain functions torch holds compiled; return what forgets those that have come since."""
    from torch.jit import _state

    functions: Any = getattr(_state, "_jit_caching_layer", None)
    if functions is None:
        return _nothing
    before = dict(functions)

    def put_back() -> None:
        for function in [one for one in functions if one not in before]:
            del functions[function]
        functions.update(before)

    return put_back


def is_known(thing: Any) -> bool:
    """Tell whether torch holds a function or class compiled."""
    from torch.jit import _state

    known = [getattr(_state, name, {}) for name in ("_jit_caching_layer", "_script_classes")]
    return any(thing in one for one in known)


@contextmanager
def untouched() -> Iterator[None]:
    """Have the stores hold at the end what they held at the beginning."""
    undo = kept_types(), kept_functions()
    try:
        yield
    finally:
        for put_back in undo:
            put_back()


def _nothing() -> None:
    return
