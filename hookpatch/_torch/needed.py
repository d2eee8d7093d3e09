"""The targets in torch that need a patch of hookpatch, and the patched sites behind each target.

torch is not imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import write_notes
from hookpatch._engine.patch.patch import wrap
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.stand_in import is_proxy
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.holders import classes_of
from hookpatch._engine.slots.slot import Slot, inner, mro
from hookpatch._session.ledger import Requested

WRAP: Final = "torch._dynamo.variables.builder:VariableBuilder._wrap"
BOUND: Final = "torch._dynamo.variables.misc:MethodWrapperVariable.call_function"
FETCHED: Final = "torch._dynamo.variables.user_defined:UserDefinedObjectVariable.var_getattr"
NAMED: Final = "torch.fx.graph:_is_from_torch"
DISPATCH: Final = "handle_torch_function"  # imported by every dispatching module of torch
TRACED: Final = "torch.fx._symbolic_trace:Tracer.create_args_for_root"
CLASS: Final = "torch._jit_internal:_qualified_name"  # called by TorchScript to look up a compiled class
SCRIPTED: Final = "torch.jit._recursive:create_script_module"
# Base classes: TorchScript does not compile the methods of subclasses as part of a class.
NOT_COMPILED: Final = {("torch.nn.modules.module", "Module"), ("torch.autograd.function", "Function")}
# The owners of hookpatch's own patches: on torch, and on the start of processes and threads. No captured code calls
# functions with a patch of these owners.
_OWN: Final = {Requested(wrap(WRAP, print), name, "hookpatch").owner for name in ("torch", "hookpatch")}

sites: Final[dict[Site, set[str]]] = {}  # each site with the needed targets
users: Final[dict[str, dict[Site, None]]] = {}  # by target, the sites in need of the target


def noted() -> list[tuple[Site, set[str]]]:
    """Return each site with the needed targets, of the block on the fast path, too."""
    write_notes()
    return [*sites.items()]


def users_of(target: str) -> list[Site]:
    """Return the sites in need of a target, of the block on the fast path, too."""
    write_notes()
    return [*users.get(target, ())]


def note(site: Site, needs: set[str]) -> None:
    """Note the targets in torch to patch for a site; called again after an interrupt."""
    for target in sites.get(site, ()):
        users[target].pop(site, None)
    sites.pop(site, None)
    if needs:
        sites[site] = needs
        for target in needs:
            users.setdefault(target, {})[site] = None


def targets_needed(without: Sequence[Site] = ()) -> set[str]:
    """Return the targets in torch to patch, for all sites but the given ones."""
    return {target for site, targets in sites.copy().items() if site not in without for target in targets}


def needs_of(site: Site) -> set[str]:
    """Return the targets in torch to patch for a site, found out once for a layer that is applied again and again."""
    if (facts := site.facts) is None:
        return _needs_of(site)
    needs: set[str] | None = facts.get("torch")
    if needs is None or (TRACED not in needs and _names_torch(original(site))):
        needs = facts["torch"] = _needs_of(site)
    return needs


def names_to_need(site: Site) -> list[tuple[dict[str, Any], str]]:
    """Return the globals, and the name in these, with which a site would need more targets."""
    function = original(site)
    return [] if type(function) is not FunctionType or TRACED in needs_of(site) else [(function.__globals__, "torch")]


def _needs_of(site: Site) -> set[str]:
    needs: set[str] = set()
    slot, value, layers = site.slot, site.value, site.layers
    if not layers or slot.owner is None or all(layer.owner in _OWN for layer in layers):  # None: of a dead instance
        return needs
    classes, is_of_proxy = methods_of(slot), is_proxy(value)
    of_torch = isinstance(slot, FunctionSlot) and is_of_torch(slot.owner.__module__)
    of_module = not NOT_COMPILED.isdisjoint((base.__module__, base.__name__) for cls in classes for base in cls.__mro__)
    if is_of_proxy or of_torch or any(layer.is_gated for layer in layers):
        needs.add(WRAP)
    if not is_at_least(2, 13):  # Dynamo does not trace ``function.__get__(object)``, and looks into bound methods
        if classes:
            needs.add(BOUND)
        elif is_of_proxy and isinstance(value, MethodType):
            needs.add(FETCHED)
    if is_of_instance(site):
        needs.add(SCRIPTED)
    if isinstance(value, type) if is_of_proxy else classes and not of_module:
        needs.add(CLASS)
    if of_module or any(callable(inner(value)) for layer in layers for value in layer.values_in_slots):
        needs.add(SCRIPTED)
    in_module = isinstance(slot, AttributeSlot) and isinstance(slot.owner, ModuleType)
    if of_torch or (in_module and is_of_torch(slot.owner.__name__)):
        needs.add(NAMED)
    function = original(site)
    if type(function) is FunctionType and DISPATCH in function.__code__.co_names:
        needs.add(f"{function.__module__}:{DISPATCH}")
    if of_module or is_of_model(slot) or _names_torch(function):
        needs.add(TRACED)
    return needs


def _names_torch(function: Any) -> bool:
    """Return True for a function of a module that has imported torch by now."""
    return type(function) is FunctionType and "torch" in function.__globals__


def is_at_least(*release: int) -> bool:
    """Return True for a release of torch from this one on, or not yet set by torch: ``is_at_least(2, 13)``."""
    version: Any = imports.module_named("torch.version")
    return version is None or _numbers(version.__version__) >= release


@lru_cache(maxsize=1)
def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def is_of_instance(site: Site) -> bool:
    """Return True for one of our functions in the ``__dict__`` of a torch module."""
    return bool(site.stand_ins) and is_of_model(site.slot)


def is_of_model(slot: Slot) -> bool:
    """Return True for an attribute of one torch module, not of a class."""
    if not isinstance(slot, AttributeSlot) or slot.in_class is not None:
        return False
    return any((cls.__module__, cls.__name__) in NOT_COMPILED for cls in mro(type(slot.owner)))


def original(site: Site) -> Any:
    """Return the callable under the patches of a site; for a function patched in place the copy."""
    return site.slot.copy if isinstance(site.slot, FunctionSlot) else inner(site.original)


def methods_of(slot: Slot) -> list[type]:
    """Return the classes with a slot as a method."""
    return [] if isinstance(slot, FunctionSlot) and not slot.binds else classes_of(slot)


def is_of_torch(module: object) -> bool:
    """Return True if the name of a module belongs to torch."""
    return isinstance(module, str) and module.partition(".")[0] == "torch"
