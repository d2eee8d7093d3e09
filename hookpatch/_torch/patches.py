"""hookpatch's own patches on torch, for places where torch would go past the patches of plugins.

Reports list these patches under the name ``torch``. A patch on torch is applied only while another patch needs the
patch. torch is not imported here.
"""

from __future__ import annotations

import inspect
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, takewhile
from types import FunctionType, MethodType
from typing import Any, Final

from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.calls.callers import ASKS_CALLER
from hookpatch._engine.calls.kept import names_in
from hookpatch._engine.calls.torchscript import ELSEWHERE, SCRIPT
from hookpatch._engine.patch.patch import Patch, Wrapper, wrap
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.site import Site
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.holders import classes_of
from hookpatch._engine.slots.slot import along_mro, inner, mro
from hookpatch._session.ledger import Requested
from hookpatch._session.own_patches import OwnPatches
from hookpatch._session.span.part import Pairs
from hookpatch._torch import needed
from hookpatch.errors import BypassError


def carry(sites: Sequence[Site]) -> None:
    """Apply the patches on torch needed for these sites, and restore the torch functions no longer needed."""
    _pending.append(sites)
    _carriers.update(_needed)


def _needed() -> set[str]:
    """Take up the pending sites; return all targets in torch to patch."""
    for site in [site for site in list(needed.sites) if site.slot.owner is None]:  # of a dead instance
        needed.note(site, set())
    while _pending:
        for site in _pending.popleft():
            needed.note(site, needed.needs_of(site))
    return needed.targets_needed()


def carry_again(sites: Sequence[Site]) -> bool:
    """Act as ``carry`` for the sites of a block entered again; return False if a lock is needed. On the fast path.

    ``carry_no_longer`` is the undo, also after a failure in the middle.
    """
    if _pending:
        return False
    for site in sites:
        needed.note(site, needs := needed.needs_of(site))
        if needs and not _carriers.begin_again(needs):
            return False
    return True


def of_blocks(sites: Sequence[Site]) -> tuple[Pairs, Callable[[int], object]] | None:
    """Return the patches on torch needed for sites, as ``OwnPatches.of_blocks`` does."""
    needs = {site: needed.needs_of(site) for site in sites}
    if (own := _carriers.of_blocks({target for targets in needs.values() for target in targets})) is None:
        return None
    pairs, note_carriers = own

    def note(number: int) -> None:
        for site in sites:
            needed.note(site, needs[site])
        note_carriers(number)

    return pairs, note


def may_carry_no_longer(sites: Sequence[Site]) -> bool:
    """Return True if ``carry_no_longer`` can restore the torch functions of sites. Asked on the fast path."""
    if not _carriers.sessions:
        return True
    return not _pending and _carriers.may_end_again(needed.targets_needed(without=sites))


def carry_no_longer(sites: Sequence[Site]) -> bool:
    """Restore the torch functions that only these sites need; return False if a lock is needed. On the fast path."""
    for site in sites:
        needed.note(site, set())
    return not _carriers.sessions or _carriers.end_again(needed.targets_needed())


def _carrier(target: str) -> Patch:
    wrapper, why = _CARRIERS.get(target.partition(":")[2]) or _CARRIERS[target]
    return wrap(target, wrapper, why=why, required=False)


def _show_to_dynamo(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    from hookpatch._torch.dynamo import build  # imports torch, already imported when this wrapper is called

    return build(wrapped, instance, args, kwargs)


def _bind(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    from hookpatch._torch.dynamo import bind

    return bind(wrapped, instance, args, kwargs)


def _fetch(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    from hookpatch._torch.dynamo import fetch

    return fetch(wrapped, instance, args, kwargs)


def _trace(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    from hookpatch._torch.fx import trace  # most programs do not trace, and need not read the file

    return trace(wrapped, instance, args, kwargs)


def _is_there_by_name(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    (value,) = args
    # Only sites in modules of torch: a graph of many nodes asks for each node.
    return wrapped(value) and not any(value is needed.original(site) for site in needed.users_of(needed.NAMED))


def _dispatch_once(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    # A torch function passes itself, found by name: our wrapper, which is running already. A mode or tensor subclass
    # must get the original instead; for a function patched in place the copy.
    function, *arguments = args
    for site, _ in needed.noted():
        slot = site.slot
        if function is (slot.owner if isinstance(slot, FunctionSlot) else inner(site.value)):
            function = needed.original(site)
            break
    return wrapped(function, *arguments, **kwargs)


def _refuse_class(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    named: Any = args[0]
    if isinstance(named, type):
        bases = {*mro(inspect.unwrap(named))}
        of_classes = [site for site, needs in needed.noted() if needed.CLASS in needs]
        met = [site for site in of_classes if site.value is named or not bases.isdisjoint(needed.methods_of(site.slot))]
        if met:
            problem = "TorchScript compiles a class from the source, and calls no wrapper of the class or its methods"
            raise BypassError(_targets(met), SCRIPT, f"{problem}; {ELSEWHERE}")
    return wrapped(*args, **kwargs)


def _name_patches(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    try:
        module = wrapped(*args, **kwargs)
    except Exception as error:
        scripted = [site for site, needs in needed.noted() if needed.SCRIPTED in needs]
        blamed = [site for site in scripted if _is_blamed(site, str(error))]
        if isinstance(error, BypassError) or not blamed or is_interrupt(error):
            raise
        if all(layer.wraps for site in blamed for layer in site.layers):
            problem = "it calls a patched method in Python, with neither default values nor class methods"
            remedy = f"give all arguments, or {ELSEWHERE}"
        else:
            problem, remedy = (
                "TorchScript cannot compile the new value",
                f"use a value written for TorchScript, or {ELSEWHERE}",
            )
        raise BypassError(_targets(blamed), SCRIPT, f"{problem}; {remedy}") from error
    # The tallies of patched methods note a module scripted with their classes.
    parts = dict(args[0].named_modules())
    classes = {cls for part in parts.values() for cls in mro(type(part))}
    met = {
        site: patched_classes
        for site, _ in needed.noted()
        if (patched_classes := classes.intersection(needed.methods_of(site.slot)))
    }
    for layer in chain.from_iterable(site.layers for site in met):
        if (tally := getattr(layer.call, "tally", None)) is not None:
            tally.captured("script")
    is_traced = kwargs.get("is_tracing")
    of_instances = [
        site for site, _ in needed.noted() if needed.is_of_instance(site) and site.slot.owner in parts.values()
    ]
    of_instances += [site for site in met if any(_is_for_parts(layer, parts.values()) for layer in site.layers)]
    if of_instances and not is_traced:
        problem = "TorchScript compiles the class, and calls its methods with another object than the instance"
        raise BypassError(_targets(of_instances), SCRIPT, f"{problem}; {ELSEWHERE}")
    asking = [site for site in met if any(layer.callers is not None for layer in site.layers)]
    if asking and not is_traced:
        raise BypassError(_targets(asking), SCRIPT, f"{ASKS_CALLER}; {ELSEWHERE}")
    in_python = {site: patched_classes for site, patched_classes in met.items() if site.stand_ins and not is_traced}
    for name, scripted in module.named_modules() if in_python else ():
        classes_here = mro(type(parts[name])) if name in parts else ()
        if of_part := [
            site for site, patched_classes in in_python.items() if not patched_classes.isdisjoint(classes_here)
        ]:
            _complete(parts[name], scripted, of_part, is_whole=scripted is module)
    return module


def _is_for_parts(layer: Layer, parts: Iterable[Any]) -> bool:
    """Return True if a layer is in effect for one of some modules, and not for all objects of the class."""
    return layer.only is not None and any(map(layer.only.takes, parts))


def _complete(part: Any, scripted: Any, sites: Sequence[Site], is_whole: bool) -> None:
    """Set the attributes that patched methods use in a scripted module: patched methods are called in Python.

    TorchScript takes over only compiled attributes. A submodule is a new Python object at each call, so no attribute
    can be set in a submodule.

    Raises:
        BypassError: the code of a patched method of a submodule names an attribute that the submodule lacks.
    """
    classes = takewhile(lambda cls: (cls.__module__, cls.__name__) not in needed.NOT_COMPILED, mro(type(part)))
    names = {name for owner in (part, *classes) for name in vars(owner) if not name.startswith("__")}
    lacking = {
        name: getattr(part, name)
        for name in names
        if not isinstance(along_mro(type(part), name), property) and not hasattr(scripted, name)
    }
    if not is_whole:
        functions = [stand_in.base for site in sites for stand_in in site.stand_ins]
        functions += [layer.patch.change for site in sites for layer in site.layers]
        functions += [needed.original(site) for site in sites if not any(_hides(layer) for layer in site.layers)]
        codes = [function.__code__ for function in map(inner, functions) if type(function) is FunctionType]
        if used := sorted(lacking.keys() & chain.from_iterable(map(names_in, codes))):
            problem = f"it calls a patched method of a submodule in Python, where the submodule lacks {', '.join(used)}"
            raise BypassError(_targets(sites), SCRIPT, f"{problem}; {ELSEWHERE}")
        return
    for name, value in lacking.items():
        is_method = isinstance(value, MethodType) and value.__self__ is part
        AttributeSlot(scripted, name).write(value.__func__.__get__(scripted) if is_method else value)


def _hides(layer: Layer) -> bool:
    """Return True if no call reaches the value below a layer."""
    return layer.patch.verb == "replace" and not layer.wraps


def _is_blamed(site: Site, text: str) -> bool:
    """Return True if an error text of torch names the patched function of a site."""
    slot, values = site.slot, [value for layer in site.layers for value in layer.values_in_slots]
    names = {getattr(inner(value), "__name__", None) for value in values}
    if isinstance(slot, FunctionSlot):
        names.add(slot.owner.__name__)
        of_class = any(isinstance(vars(cls).get(slot.owner.__name__), classmethod) for cls in classes_of(slot))
    else:
        names.add(slot.name if isinstance(slot, AttributeSlot) else None)
        of_class = isinstance(site.original, classmethod)
    if of_class and "param_names" in text:
        return True  # torch's assertion names no function
    return any(re.search(rf"\b{re.escape(name)}(\b|$)", text) for name in names if isinstance(name, str))


def _targets(sites: Iterable[Site]) -> str:
    return ", ".join(dict.fromkeys(layer.patch.address for site in sites for layer in site.layers))


_CARRIERS: Final[dict[str, tuple[Wrapper, str]]] = {
    needed.WRAP: (_show_to_dynamo, "has Dynamo see patches that are no plain functions"),
    needed.BOUND: (_bind, "has Dynamo bind a patched method to its object, as torch 2.13 does"),
    needed.FETCHED: (_fetch, "has Dynamo see the patched method of one object, as torch 2.13 does"),
    needed.TRACED: (_trace, "has torch.fx see the parameters of a patched function"),
    needed.NAMED: (_is_there_by_name, "makes graphs call the captured function, whatever its name holds"),
    needed.DISPATCH: (
        _dispatch_once,
        "keeps torch functions that dispatch to themselves from running a patch again",
    ),
    needed.CLASS: (_refuse_class, "keeps TorchScript from going past the patch of a class"),
    needed.SCRIPTED: (_name_patches, "names the patches for which TorchScript fails"),
}
_pending: Final[deque[Sequence[Site]]] = deque()
_carriers: Final = OwnPatches(lambda target: Requested(_carrier(target), "torch", "hookpatch"), are_listed=True)
