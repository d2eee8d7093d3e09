"""Recognise foreign wrappers by their types and attributes. Calls no foreign code."""

from __future__ import annotations

import functools
from types import FunctionType, MethodType
from typing import Any, Final, NamedTuple

from hookpatch._bootstrap import imports
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.slot import ABSENT, KEPT, Slot, along_mro, attributes_of, inner
from hookpatch._engine.source.location import in_words, location, short_name

_MOCKS: Final = ("unittest.mock", "mock.mock")

_MOST_LAYERS: Final = 20


class Wrapping(NamedTuple):
    """A foreign wrapper and the object wrapped."""

    kind: str  # the type, such as wrapt.FunctionWrapper
    name: str  # the function that a call runs
    place: str | None  # file and line of the function
    below: Any  # the wrapped object, ABSENT if unknown
    note: str | None = None
    is_called: bool = True  # False if the wrapper does not call the wrapped object


def wrapping(value: Any, slot: Slot) -> Wrapping | None:
    """Return the foreign wrapper that a slot's value is; None if the value wraps no object."""
    callee = inner(value)
    kind = type(callee)
    if (mock := _mock_of(callee)) is not None:
        return _of_mock(mock, slot)
    if issubclass(kind, functools.partial):
        arguments = [
            *map(in_words, callee.args),
            *(f"{name}={in_words(value)}" for name, value in callee.keywords.items()),
        ]
        note = f"gives {', '.join(arguments)}" if arguments else None
        return Wrapping("functools.partial", short_name(callee.func), location(callee.func), callee.func, note)
    if issubclass(kind, functools.partialmethod):
        return Wrapping("functools.partialmethod", short_name(callee.func), location(callee.func), callee.func)
    if issubclass(kind, MethodType):
        note = f"of {short_name(callee.__self__)}"
        return Wrapping("bound method", short_name(callee), location(callee), callee.__func__, note)
    if isinstance(along_mro(kind, "__wrapped__"), KEPT):
        return _of_proxy(callee)
    if (below := _own_names(callee).get("__wrapped__", ABSENT)) is ABSENT:
        return None
    if kind is FunctionType:  # functools.wraps has copied the name of the wrapped function: take the name in the code
        name = f"{callee.__globals__.get('__name__')}:{callee.__code__.co_qualname}"
        return Wrapping("functools.wraps", name, location(callee), below)
    return Wrapping(f"{kind.__module__}.{kind.__qualname__}", short_name(below), location(callee), below)


def layers_over(before: Any, after: Any, slot: Slot) -> tuple[int, str | None]:
    """Return the number of wrappers over the original, 0 without the original beneath, and the way of the undo."""
    value, undo = after, None
    for count in range(1, _MOST_LAYERS):
        if value is ABSENT or (wrapper := wrapping(value, slot)) is None:
            return 0, None
        undo = undo or ("mock" if "mock" in wrapper.kind else "__wrapped__")
        value = wrapper.below
        if value is before or inner(value) is inner(before):
            return count, undo
    return 0, None


def _mock_of(callee: Any) -> Any:
    """Return the mock that an object is, or the mock of a function made by autospec; else None."""
    bases = tuple(vars(module)["NonCallableMock"] for name in _MOCKS if (module := imports.loaded(name)) is not None)
    if issubclass(type(callee), bases):
        return callee
    mock = vars(callee).get("mock") if type(callee) is FunctionType else None
    return mock if issubclass(type(mock), bases) else None


def _of_mock(mock: Any, slot: Slot) -> Wrapping:
    kind = f"{type(mock).__module__}.{type(mock).__qualname__}"
    wraps = vars(mock).get("_mock_wraps")
    if wraps is not None:
        return Wrapping(kind, short_name(wraps), None, wraps, "a mock that calls the original")
    note = "a mock without a call of the original"
    return Wrapping(kind, short_name(mock), None, _replaced(slot), note, is_called=False)


def _replaced(slot: Slot) -> Any:
    """Return the value that a started patcher of ``unittest.mock`` will restore; ABSENT if no patcher is known."""
    for module in filter(None, map(imports.loaded, _MOCKS)):
        for patcher in map(vars, list(vars(module)["_patch"]._active_patches)):
            if patcher.get("target") is slot.owner and patcher.get("attribute") == getattr(slot, "name", None):
                return patcher.get("temp_original", ABSENT)
    return ABSENT


def _of_proxy(callee: Any) -> Wrapping:
    kind = type(callee)
    below = AttributeSlot(callee, "__wrapped__").read()
    home = kind.__module__  # a property in the classes of wrapt without C code
    home = "wrapt" if type(home) is not str or home.partition(".")[0] in ("_wrappers", "wrapt") else home
    name = f"{home}.{kind.__qualname__}"
    if along_mro(kind, "_self_wrapper") is not ABSENT:
        wrapper = AttributeSlot(callee, "_self_wrapper").read()
        if wrapper is not ABSENT:
            return Wrapping(name, short_name(wrapper), location(wrapper), below)
    return Wrapping(name, short_name(below), location(callee), below)


def _own_names(callee: Any) -> dict[str, Any]:
    """Return the ``__dict__`` of an object that is no class, read without any code of the object's class."""
    own = attributes_of(callee)
    return own if type(own) is dict or type(callee) is FunctionType else {}
