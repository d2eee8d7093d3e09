"""Name the function inside a value that an edit cannot edit: of a partial, a decorator, a descriptor of a class."""

from __future__ import annotations

from functools import partial
from types import FunctionType
from typing import Any

from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.target import Attribute
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.originals import own_beneath
from hookpatch._engine.slots.slot import ABSENT, attributes_of, mro


def remedy(problem: str, value: Any, patch: Patch, in_class: type | None) -> str:
    """Return in words the edit of the function inside a value; empty if the problem is another one."""
    is_hidden = "has no Python source" in problem
    is_decorator = "is not in the source" in problem and type(value) is FunctionType and bool(_cells_inside(value))
    if not (is_hidden or is_decorator):
        return ""
    about = "" if is_hidden else f"; the source is that of {value.__qualname__}, a decorator's function"
    if is_hidden and (home := _home(patch, in_class)) is not None:
        address = f"{home.__module__}:{home.__qualname__}"
        return f"; edit the class: hookpatch.edit('{address}', ..., reach='everywhere')"
    if address := _address_inside(value, patch.address):
        return f"{about}; edit the function inside: hookpatch.edit('{address}', ..., reach='everywhere')"
    return f"{about}; name a function or class written in Python, or edit the module before its import"


def _home(patch: Patch, in_class: type | None) -> type | None:
    """Return the class that defines the patched attribute of a class."""
    step = None if patch.target is None else patch.target.slot
    if in_class is None or not isinstance(step, Attribute):
        return None
    return next((base for base in mro(in_class) if own_beneath(AttributeSlot(base, step.name)) is not ABSENT), None)


def _address_inside(value: Any, address: str) -> str:
    """Return the address of the only function inside a value; empty for none or several."""
    if type(value) is partial and type(value.func) is FunctionType:
        return f"{address}.func"
    if type(value) is FunctionType:
        inside = [f"{address}.__closure__[{place}].cell_contents" for place in _cells_inside(value)]
    else:
        attributes = attributes_of(value) or {}
        inside = [f"{address}.{name}" for name, held in attributes.items() if type(held) is FunctionType]
    return inside[0] if len(inside) == 1 else ""


def _cells_inside(function: FunctionType) -> list[int]:
    """Return the places of the closure's cells with a Python function."""
    return [place for place, cell in enumerate(function.__closure__ or ()) if _holds_function(cell)]


def _holds_function(cell: Any) -> bool:
    try:
        return type(cell.cell_contents) is FunctionType
    except ValueError:  # an empty cell
        return False
