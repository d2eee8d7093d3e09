"""Find the undo of an apply function, run the undo, and list the patches that the undo leaves."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any, Final, NamedTuple

from hookpatch._engine.slots.slot import ABSENT, along_mro

_METHODS: Final = ("stop", "undo", "uninstall", "uninstrument", "unpatch", "restore", "revert", "deactivate", "disable")


class Undo(NamedTuple):
    """The undo of an apply function.

    Attributes:
        way: ``function``, ``method`` or ``context``.
        name: the address of the function, or the name of the method; empty for a context manager.
        run: runs the undo.
    """

    way: str
    name: str
    run: Any


def undo_of(address: str | None, function: Any, result: Any, is_inert: bool) -> Undo | None:
    """Return the undo of an apply function: the given function, else a method of the result; None if there is none.

    A context manager is entered here, as a ``with`` statement does.

    Args:
        address: the address of the undo function; None if the user gave none.
        function: the undo function; None without an address.
        result: the result of the apply function.
        is_inert: True if the apply function has patched nothing: a context manager returned by it will.
    """
    is_context = all(along_mro(type(result), name) is not ABSENT for name in ("__enter__", "__exit__"))
    method = next((name for name in _METHODS if callable(along_mro(type(result), name))), None)
    if address is not None and not (is_context and is_inert):
        return Undo("function", address, function)
    if is_context and (is_inert or method is None):
        result.__enter__()
        return Undo("context", "", lambda: result.__exit__(None, None, None))
    return None if method is None else Undo("method", method, getattr(result, method))


def called(function: Any) -> Any:
    """Return the result of an apply function; refuse a function that needs arguments, or whose body does not run."""
    with suppress(ValueError):  # a function of C without a signature
        try:
            inspect.signature(function).bind()
        except TypeError as error:
            raise TypeError(f"{error}; name a function without arguments") from None
    result = function()
    kind = "a coroutine" if inspect.iscoroutine(result) else "a generator" if inspect.isgenerator(result) else None
    if kind is not None:
        result.close()
        raise TypeError(f"it returns {kind}, so its body has not run; name a function that patches when called")
    return result
