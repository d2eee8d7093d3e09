"""Find the functions that wrap a bound method by ``functools.wraps``, and copied our ``__signature__``."""

from __future__ import annotations

import gc
import sys
from types import FunctionType, MethodType
from typing import Final

from hookpatch._engine.calls.trampoline import is_changed_in_place

_NAME: Final = "__signature__"
_OURS: Final = 3  # references: of the function's dict, of the Swap, and of the trampoline's dict


def names_of_wraps(function: FunctionType) -> list[str]:
    """Return the names of the functions that wrap a bound method of a function that is changed in place.

    Such a function shows the object or class as a parameter: it copied the signature of the function.
    """
    signature = vars(function).get(_NAME)
    if signature is None or not is_changed_in_place(function) or sys.getrefcount(signature) <= _OURS + 2:
        return []
    found: list[str] = []
    for attributes in gc.get_referrers(signature):
        if type(attributes) is not dict or not isinstance(wrapped := attributes.get("__wrapped__"), MethodType):
            continue
        if wrapped.__func__ is function and attributes.get(_NAME) is signature:
            found += [_name(one) for one in gc.get_referrers(attributes) if type(one) is FunctionType]
    return sorted(found)


def _name(function: FunctionType) -> str:
    """Return where a function is defined: its own names are copied from the method."""
    return f"{function.__globals__.get('__name__')}:{function.__code__.co_qualname}"
