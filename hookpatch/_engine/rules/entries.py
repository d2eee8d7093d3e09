"""Find the names, keys and submodules of an object, without running code of the object."""

from __future__ import annotations

import dis
from collections.abc import Mapping, MutableSequence
from importlib.machinery import SourceFileLoader
from types import CodeType, FunctionType, ModuleType
from typing import Any

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import ErrorsOfCode
from hookpatch._engine.patch.describe import describe
from hookpatch._engine.patch.target import Item, Target
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.resolve import MISSING
from hookpatch._engine.slots.slot import ABSENT, along_mro


def submodules(holder: Any) -> dict[str, Any] | None:
    """Return the submodules of a torch module by name, also of a ModuleList; None for all else.

    torch keeps submodules in ``_modules``, and ``model.layers`` is found by a ``__getattr__``.
    """
    torch: Any = imports.loaded("torch.nn.modules.module")
    is_model = torch is not None and issubclass(type(holder), torch.Module)
    return vars(holder).get("_modules") if is_model else None


def value_without_code(owner: Any, name: str) -> Any:
    """Return an attribute's own or inherited value, or a submodule, without running a property; MISSING if absent."""
    own = AttributeSlot(owner, name).read()
    if own is not ABSENT or isinstance(owner, ModuleType):
        return MISSING if own is ABSENT else own
    if name in (modules := submodules(owner) or {}):
        return modules[name]
    inherited = along_mro(owner if isinstance(owner, type) else type(owner), name)
    return MISSING if inherited is ABSENT else inherited


def own_names(holder: Any) -> list[str]:
    """Return the names of an object's own attributes."""
    try:
        return [name for name in [*vars(holder)] if isinstance(name, str)]  # a copy: threads may add names
    except TypeError:  # no __dict__
        return []


def keys_of(holder: Any) -> list[Any]:
    """Return the keys of a mapping or list; none for all else."""
    if isinstance(holder, MutableSequence):
        return [*range(len(holder))]
    return [*holder] if isinstance(holder, Mapping) else []


def item_of(key: Any) -> Item:
    """Return the step of a key: as a literal if Python has a literal, else as the address of a class or function."""
    if isinstance(key, (type, FunctionType)):
        name, path = describe(key).split(":", 1)
        owner: Any = imports.module_named(name)
        for part in path.split("."):
            owner = vars(owner).get(part) if isinstance(owner, (ModuleType, type)) else None
        return Item(Target(f"{name}:{path}")) if owner is key else Item(key)
    return Item(key)


def assigned_names(module: ModuleType) -> frozenset[str]:
    """Return the names that the code of a module assigns, but for names that an import binds; none without source."""
    loader = getattr(imports.spec(module), "loader", None)
    code = None
    with ErrorsOfCode(ImportError, OSError, SyntaxError, ValueError):  # the file has gone, or is being written
        code = loader.get_code(loader.name) if isinstance(loader, SourceFileLoader) else None
    return frozenset() if code is None else _assigned_in(code)


def _assigned_in(code: CodeType) -> frozenset[str]:
    assigned, imported, before = set[str](), set[str](), ""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "STORE_NAME":
            (imported if before.startswith("IMPORT_") else assigned).add(instruction.argval)
        before = instruction.opname
    return frozenset(assigned - imported)
