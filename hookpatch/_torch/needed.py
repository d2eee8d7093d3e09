"""The targets in torch that have to be patched besides, and the patched sites that need each.

torch is not imported here.
"""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any, Final

from hookpatch._engine.patch.patch import wrap
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.stand_in import is_proxy
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.holders import classes_of
from hookpatch._engine.slots.slot import Slot, inner, mro
from hookpatch._session.ledger import Requested

WRAP: Final = "torch._dynamo.variables.builder:VariableBuilder._wrap"
NAMED: Final = "torch.fx.graph:_is_from_torch"
DISPATCH: Final = "handle_torch_function"  # imported by every module of torch that dispatches
TRACED: Final = "torch.fx._symbolic_trace:Tracer.create_args_for_root"
CLASS: Final = "torch._jit_internal:_qualified_name"  # called by TorchScript to look up a compiled class
SCRIPTED: Final = "torch.jit._recursive:create_script_module"
# Base classes whose methods TorchScript does not compile as part of a class.
NOT_COMPILED: Final = {("torch.nn.modules.module", "Module"), ("torch.autograd.function", "Function")}
# The owners of our own patches: on torch, and on the start of processes and threads, called by no captured code.
_OWN: Final = {Requested(wrap(WRAP, print), name, "hookpatch").owner for name in ("torch", "hookpatch")}

sites: Final[dict[Site, set[str]]] = {}  # with the targets that each needs
users: Final[dict[str, dict[Site, None]]] = {}  # by target, the sites that need it


def note(site: Site, needs: set[str]) -> None:
    """Note the targets in torch that have to be patched for one site; interrupted, this is called again."""
    for target in sites.get(site, ()):
        users[target].pop(site, None)
    sites.pop(site, None)
    if needs:
        sites[site] = needs
        for target in needs:
            users.setdefault(target, {})[site] = None


def targets_needed() -> set[str]:
    """Return the targets in torch that have to be patched for any site."""
    return {target for target, users in users.copy().items() if users}


def needs_of(site: Site) -> set[str]:
    """Return the targets in torch that have to be patched for one site."""
    needs: set[str] = set()
    slot, stands, layers = site.slot, site.stands, site.layers
    if all(layer.owner in _OWN for layer in layers):
        return needs
    classes, is_of_proxy = methods_of(slot), is_proxy(stands)
    of_torch = isinstance(slot, FunctionSlot) and is_of_torch(slot.owner.__module__)
    of_module = not NOT_COMPILED.isdisjoint((base.__module__, base.__name__) for cls in classes for base in cls.__mro__)
    if is_of_proxy or of_torch or any(layer.is_gated for layer in layers):
        needs.add(WRAP)
    if is_of_instance(site):
        needs.add(SCRIPTED)
    if isinstance(stands, type) if is_of_proxy else classes and not of_module:
        needs.add(CLASS)
    if of_module or any(callable(inner(value)) for layer in layers for value in layer.put):
        needs.add(SCRIPTED)
    in_module = isinstance(slot, AttributeSlot) and isinstance(slot.owner, ModuleType)
    if of_torch or (in_module and is_of_torch(slot.owner.__name__)):
        needs.add(NAMED)
    function = original(site)
    if type(function) is FunctionType and DISPATCH in function.__code__.co_names:
        needs.add(f"{function.__module__}:{DISPATCH}")
    if of_module or (type(function) is FunctionType and "torch" in function.__globals__):
        needs.add(TRACED)
    return needs


def is_of_instance(site: Site) -> bool:
    """Return True for a function of ours in the ``__dict__`` of a torch module."""
    if not isinstance(site.slot, AttributeSlot) or site.slot.in_class is not None or not site.stand_ins:
        return False
    return any((cls.__module__, cls.__name__) in NOT_COMPILED for cls in mro(type(site.slot.owner)))


def original(site: Site) -> Any:
    """Return the callable that a site's patches lie over: of a function patched in place the copy."""
    return site.slot.copy if isinstance(site.slot, FunctionSlot) else inner(site.original)


def methods_of(slot: Slot) -> list[type]:
    """Return the classes that have a slot as a method."""
    return [] if isinstance(slot, FunctionSlot) and not slot.binds else classes_of(slot)


def is_of_torch(module: object) -> bool:
    """Return True if the name of a module belongs to torch."""
    return isinstance(module, str) and module.partition(".")[0] == "torch"
