"""Wrappers that are not ours: what stands there, and what it says that it wraps. Looked at, never called."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Final, final

from hookpatch import _imports
from hookpatch._attribute_slot import AttributeSlot
from hookpatch._location import described, in_words, location
from hookpatch._slot import ABSENT, KEPT, Slot, along_mro, inner


@final
@dataclass(frozen=True, slots=True)
class Wrapping:
    """Something that stands over something else. Frozen.

    Attributes:
        kind: what it is, such as ``wrapt.FunctionWrapper`` or ``functools.partial``.
        name: what runs at a call of it.
        place: where that is defined, as ``file:line``; None if nobody can tell.
        below: what it stands over, ABSENT if it does not tell.
        note: what else is known of it, or only guessed.
        is_called: False if a call of it does not get to what is below.
    """

    kind: str
    name: str
    place: str | None
    below: Any
    note: str | None = None
    is_called: bool = True


def wrapping(value: Any, slot: Slot) -> Wrapping | None:
    """Return what a value is that stands over something else, None if it does not.

    Args:
        value: the value, as it lies in the slot.
        slot: where it lies.
    """
    callee = inner(value)
    kind = type(callee)
    if (mock := _mock_of(callee)) is not None:
        return _of_mock(mock, slot)
    if issubclass(kind, functools.partial):
        given = [*map(in_words, callee.args), *(f"{name}={in_words(one)}" for name, one in callee.keywords.items())]
        note = f"gives {', '.join(given)}" if given else None
        return Wrapping("functools.partial", described(callee.func), location(callee.func), callee.func, note)
    if issubclass(kind, functools.partialmethod):
        return Wrapping("functools.partialmethod", described(callee.func), location(callee.func), callee.func)
    if issubclass(kind, MethodType):
        note = f"of {described(callee.__self__)}"
        return Wrapping("bound method", described(callee), location(callee), callee.__func__, note)
    if isinstance(along_mro(kind, "__wrapped__"), KEPT):
        return _of_proxy(callee)
    own = _own_names(callee)
    if (below := own.get("__wrapped__", ABSENT)) is not ABSENT:
        if kind is FunctionType:
            return Wrapping("functools.wraps", _code_name(callee), location(callee), below)
        return Wrapping(f"{kind.__module__}.{kind.__qualname__}", described(below), location(callee), below)
    return None


def kept_in_closure(function: Any, known: Any) -> tuple[str, Any] | None:
    """Return what a function without ``__wrapped__`` keeps in a variable of its closure and most likely calls.

    Args:
        function: the function.
        known: tells whether a value is one that stood in the slot.
    """
    if type(function) is not FunctionType:
        return None
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            content = cell.cell_contents
        except ValueError:
            continue
        if known(content):
            return name, content
    return None


_MOCKS: Final = ("unittest.mock", "mock.mock")


def _mock_of(callee: Any) -> Any:
    """Return the mock that something is, or that stands behind a function made by autospec; None if there is none."""
    bases = tuple(vars(module)["NonCallableMock"] for name in _MOCKS if (module := _imports.loaded(name)) is not None)
    if issubclass(type(callee), bases):
        return callee
    behind = vars(callee).get("mock") if type(callee) is FunctionType else None
    return behind if issubclass(type(behind), bases) else None


def _of_mock(mock: Any, slot: Slot) -> Wrapping:
    kind = f"{type(mock).__module__}.{type(mock).__qualname__}"
    wraps = vars(mock).get("_mock_wraps")
    if wraps is not None:
        return Wrapping(kind, described(wraps), None, wraps, "a mock that calls what it wraps")
    was = _replaced(slot)
    note = "a mock, which calls nothing beneath it"
    return Wrapping(kind, described(mock), None, was, note, is_called=False)


def _replaced(slot: Slot) -> Any:
    """Return what a patcher of unittest.mock that was started keeps to put back, ABSENT if none is known."""
    for module in filter(None, map(_imports.loaded, _MOCKS)):
        for patcher in list(vars(module)["_patch"]._active_patches):
            of = vars(patcher)
            if of.get("target") is slot.owner and of.get("attribute") == getattr(slot, "name", None):
                return of.get("temp_original", ABSENT)
    return ABSENT


def _of_proxy(callee: Any) -> Wrapping:
    kind = type(callee)
    below = AttributeSlot(callee, "__wrapped__").read()
    runs = AttributeSlot(callee, "_self_wrapper").read() if along_mro(kind, "_self_wrapper") is not ABSENT else ABSENT
    home = "wrapt" if kind.__module__.partition(".")[0] in ("_wrappers", "wrapt") else kind.__module__
    name = f"{home}.{kind.__qualname__}"
    if runs is ABSENT:
        return Wrapping(name, described(below), location_of_kind(kind), below)
    return Wrapping(name, described(runs), location(runs), below)


def location_of_kind(kind: type) -> str | None:
    """Return where a proxy's class is defined, if its own ``__call__`` is written in Python."""
    call = along_mro(kind, "__call__")
    return location(call) if type(call) is FunctionType else None


def _own_names(callee: Any) -> dict[str, Any]:
    """Return the names that an object has itself, read past any code of its class."""
    if type(callee) is FunctionType:
        return vars(callee)
    names = along_mro(type(callee), "__dict__")
    found = names.__get__(callee) if isinstance(names, KEPT) and not issubclass(type(callee), type) else None
    return found if type(found) is dict else {}


def _code_name(function: FunctionType) -> str:
    """Return the name of a function that has taken over another one's: that of its code."""
    module = function.__globals__.get("__name__")
    return f"{module}:{function.__code__.co_qualname}"
