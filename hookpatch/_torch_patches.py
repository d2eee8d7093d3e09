"""The patches that hookpatch itself puts on torch, where torch would look past the patches of others.

They are patches like all others, in the report under the name ``torch``, and on only as long as some patch needs them.
Nothing here imports torch.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from types import FunctionType, ModuleType
from typing import Any, Final

from hookpatch._attribute_slot import AttributeSlot
from hookpatch._function_slot import FunctionSlot
from hookpatch._holders import classes_of
from hookpatch._ledger import Asked
from hookpatch._patch import Patch, Wrapper, wrap
from hookpatch._shared import Shared
from hookpatch._site import Site
from hookpatch._sites import over
from hookpatch._slot import Slot, inner, mro
from hookpatch._standing import is_proxy
from hookpatch._torchscript import ELSEWHERE, SCRIPT
from hookpatch.errors import BypassError


def carry(sites: Sequence[Site]) -> None:
    """Put on those patches of ours that the patches at these sites need, and take off those that none needs now."""
    _pending.append(sites)
    _carriers.settle(_needed)


def _needed() -> set[str]:
    """Note what has become of the pending sites; return the targets of ours that are needed now."""
    while _pending:
        for site in _pending.popleft():
            _counts.subtract(_needs.pop(site, ()))
            if needs := _needs_of(site):
                _needs[site] = needs
                _counts.update(needs)
    return {target for target, count in list(_counts.items()) if count > 0}


def _needs_of(site: Site) -> set[str]:
    """Return what has to be patched in torch because of the patches at a site."""
    needs: set[str] = set()
    if all(layer.owner in _OWN for layer in site.layers):
        return needs
    slot, methods_of = site.slot, _methods_of(site.slot)
    of_torch = isinstance(slot, FunctionSlot) and is_of_torch(slot.owner.__module__)
    of_module = not _NOT_COMPILED.isdisjoint(
        (base.__module__, base.__name__) for cls in methods_of for base in cls.__mro__
    )
    if is_proxy(site.stands) or of_torch or any(layer.is_gated for layer in site.layers):
        needs.add(_WRAP)
    if isinstance(site.stands, type) if is_proxy(site.stands) else methods_of and not of_module:
        needs.add(_CLASS)
    if of_module or any(callable(inner(value)) for layer in site.layers for value in layer.put):
        needs.add(_SCRIPTED)
    if isinstance(slot, AttributeSlot) and isinstance(slot.owner, ModuleType) and is_of_torch(slot.owner.__name__):
        needs.add(_NAMED)
    function = slot.copy if isinstance(slot, FunctionSlot) else inner(site.original)
    if type(function) is FunctionType and _DISPATCH in function.__code__.co_names:
        needs.add(f"{function.__module__}:{_DISPATCH}")
    return needs


def _methods_of(slot: Slot) -> list[type]:
    """Return the classes of which a slot is a method."""
    return [] if isinstance(slot, FunctionSlot) and not slot.binds else classes_of(slot)


def is_of_torch(module: object) -> bool:
    """Tell whether a module's name is one of torch's."""
    return isinstance(module, str) and module.partition(".")[0] == "torch"


def _carrier(target: str) -> Patch:
    wrapper, why = _CARRIERS.get(target.partition(":")[2]) or _CARRIERS[target]
    return wrap(target, wrapper, why=why, required=False)


def _see(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    from hookpatch._dynamo import build  # it imports torch, which is there when this is called

    return build(wrapped, instance, args, kwargs)


def _is_there_by_name(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    (thing,) = args
    return wrapped(thing) and not over(thing)


def _dispatch_once(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    # The function names itself, and finds the patch, which runs already: a mode or tensor subclass is to get what lies
    # beneath. Of a function changed in place that is a copy.
    function, *others = args
    for site in list(_needs):
        slot = site.slot
        if function is (slot.owner if isinstance(slot, FunctionSlot) else inner(site.stands)):
            function = slot.copy if isinstance(slot, FunctionSlot) else inner(site.original)
            break
    return wrapped(function, *others, **kwargs)


def _refuse_class(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    named: Any = args[0]
    if isinstance(named, type):
        bases = {*mro(inspect.unwrap(named))}
        asked = [site for site, needs in [*_needs.items()] if _CLASS in needs]
        met = [site for site in asked if site.stands is named or not bases.isdisjoint(_methods_of(site.slot))]
        if met:
            problem = (
                "TorchScript compiles a class from its text and calls nothing that is put around it or its methods"
            )
            raise BypassError(_targets(met), SCRIPT, f"{problem}; {ELSEWHERE}")
    return wrapped(*args, **kwargs)


def _name_patches(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    try:
        made = wrapped(*args, **kwargs)
    except Exception as error:
        said = [site for site, needs in [*_needs.items()] if _SCRIPTED in needs and _is_said(site, str(error))]
        if isinstance(error, BypassError) or not said:
            raise
        if all(layer.wraps for site in said for layer in site.layers):
            problem = "it calls a patched method in Python, with neither default values nor class methods"
            now = f"give all arguments, or {ELSEWHERE}"
        else:
            problem, now = "it cannot compile what was put there", f"put there what it can compile, or {ELSEWHERE}"
        raise BypassError(_targets(said), SCRIPT, f"{problem}; {now}") from error
    _tell_captured({cls for module in args[0].modules() for cls in type(module).__mro__})
    return made


def _tell_captured(inside: set[type]) -> None:
    """Have those patches of methods that count know that a module with these classes was scripted."""
    for site in list(_needs):
        for layer in site.layers:
            tally = getattr(layer.call, "tally", None)
            if tally is not None and not inside.isdisjoint(_methods_of(site.slot)):
                tally.captured("script")


def _is_said(site: Site, text: str) -> bool:
    """Tell whether torch fails for what is patched at a site."""
    slot, things = site.slot, [value for layer in site.layers for value in layer.put]
    names = {getattr(inner(thing), "__name__", None) for thing in things}
    if isinstance(slot, FunctionSlot):
        names.add(slot.owner.__name__)
        of_class = any(isinstance(vars(cls).get(slot.owner.__name__), classmethod) for cls in classes_of(slot))
    else:
        names.add(slot.name if isinstance(slot, AttributeSlot) else None)
        of_class = isinstance(site.original, classmethod)
    if of_class and "param_names" in text:
        return True  # torch's assertion names nothing
    return any(re.search(rf"\b{re.escape(name)}(\b|$)", text) for name in names if isinstance(name, str))


def _targets(sites: Iterable[Site]) -> str:
    return ", ".join(dict.fromkeys(layer.patch.address for site in sites for layer in site.layers))


_WRAP: Final = "torch._dynamo.variables.builder:VariableBuilder._wrap"
_NAMED: Final = "torch.fx.graph:_is_from_torch"
_DISPATCH: Final = "handle_torch_function"  # as every module that dispatches has imported it
_CLASS: Final = "torch._jit_internal:_qualified_name"  # under which TorchScript looks for what it has of a class
_SCRIPTED: Final = "torch.jit._recursive:create_script_module"
# Classes that TorchScript does not compile as such.
_NOT_COMPILED: Final = {("torch.nn.modules.module", "Module"), ("torch.autograd.function", "Function")}
_CARRIERS: Final[dict[str, tuple[Wrapper, str]]] = {
    _WRAP: (_see, "has Dynamo see patches that are no plain functions"),
    _NAMED: (_is_there_by_name, "has graphs call what they captured, and not what has its name"),
    _DISPATCH: (_dispatch_once, "keeps torch functions from running a patch again when they dispatch to themselves"),
    _CLASS: (_refuse_class, "keeps TorchScript from going past the patch of a class"),
    _SCRIPTED: (_name_patches, "names the patches for which TorchScript fails"),
}
# Of our own patches: those on torch, and those on what starts processes and threads, which no captured code calls.
_OWN: Final = {Asked(_carrier(_WRAP), name, "hookpatch").owner for name in ("torch", "hookpatch")}

_needs: Final[dict[Site, set[str]]] = {}
_counts: Final[Counter[str]] = Counter()  # how many sites need a target
_pending: Final[deque[Sequence[Site]]] = deque()
_carriers: Final = Shared(lambda target: Asked(_carrier(target), "torch", "hookpatch"), are_listed=True)
