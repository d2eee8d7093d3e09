"""The parts of an object: the modules of a torch model, or all objects that the object leads to."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._engine.slots.item import ItemSlot

# Objects of these types lead to the rest of the program, and are no parts of an object.
_BEYOND: Final = (type, ModuleType, FunctionType, BuiltinFunctionType, FrameType)


def is_model(value: Any) -> bool:
    """Return True if an object is a torch module; torch is not imported for that."""
    torch: Any = imports.loaded("torch.nn.modules.module")
    return torch is not None and issubclass(type(value), torch.Module)


def parts_of(whole: Any) -> dict[int, Any]:
    """Return the parts of an object by id, the object included."""
    if is_model(whole):
        return {id(module): module for module in whole.modules()}
    parts: dict[int, Any] = {}
    waiting = [whole]
    while waiting:
        part = waiting.pop()
        if id(part) not in parts and not issubclass(type(part), _BEYOND):
            parts[id(part)] = part
            waiting += gc.get_referents(part)
    return parts


def submodule_places(model: Any) -> Iterator[tuple[ItemSlot, Any]]:
    """Yield the places of the submodules of a torch model, each with its submodule."""
    for parent in model.modules():
        for name, module in parent._modules.copy().items():
            if module is not None:
                yield ItemSlot(parent._modules, name), module
