"""Whether what stands in a slot is what its module's source has there: a guess where the source does not say it."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

from hookpatch import _imports
from hookpatch._attribute_slot import AttributeSlot
from hookpatch._function_slot import FunctionSlot
from hookpatch._location import Binding, bindings, file_of, location
from hookpatch._slot import Slot, inner


def origin(value: Any, slot: Slot) -> tuple[bool | None, str | None]:
    """Return whether somebody put a value where the module has another one, None if unknown; and what to say of it.

    A guess from the module's source, and told as such: the source says what was to stand there when it was written.
    """
    if isinstance(slot, FunctionSlot):
        return False, None
    found = _bound(slot)
    if not isinstance(slot, AttributeSlot) or found is None:
        return None, None
    owner = slot.in_class
    module = slot.owner if owner is None else _imports.loaded(owner.__module__)
    file, callee, place = file_of(module), inner(value), location(value)
    where = f"{file}:{found[-1].line}" if found else file
    defined = [one for one in found if one.kind in ("def", "class")]
    if any(place == f"{file}:{one.line}" for one in defined):
        return False, None
    if defined and (type(callee) is FunctionType or issubclass(type(callee), type)):
        if place is not None and not place.startswith("<") and len(defined) == len(found):
            return True, f"a guess: assigned by somebody, for the source defines another at {where}"
        return None, None
    if found:
        return None, f"{where} binds it: {found[-1].text}"
    if place is not None and place.startswith("<"):
        return None, "made while the program ran"
    return None, f"a guess: put there while the program ran, by its module or by somebody; {where} does not bind it"


def _bound(slot: Slot) -> list[Binding] | None:
    """Return what in its module's source binds a slot's name; None where that cannot be looked up."""
    if not isinstance(slot, AttributeSlot):
        return None
    if isinstance(slot.owner, ModuleType):
        return bindings(slot.owner, [slot.name])
    if slot.in_class is None:
        return None
    return bindings(_imports.loaded(slot.in_class.__module__), [*slot.in_class.__qualname__.split("."), slot.name])
