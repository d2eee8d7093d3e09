"""Built-in plugin: show patched slots to torch, and drop code compiled from their earlier values.

torch guards most dependencies of compiled code, such as functions looked up by name and entries of a dict. torch does
not guard the content of classes, as the ``forward`` of a submodule, nor constants among the defaults of a function.
TorchScript keeps compiled methods by class, and functions by themselves, without any guard.

torch is not imported here, and all work waits until the program imports torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import CodeType, FunctionType
from typing import Any, Final
from weakref import WeakKeyDictionary

from hookpatch._bootstrap import imports
from hookpatch._engine.calls.trampoline import Swap
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.stand_in import is_proxy
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.holders import classes_of
from hookpatch._engine.slots.referrers import classes
from hookpatch._engine.slots.slot import inner
from hookpatch._plugins.notify import Hearer, hearers
from hookpatch._session.span.part import Quick
from hookpatch._torch.needed import is_at_least, is_of_torch, names_to_need
from hookpatch._torch.patches import carry, carry_again, carry_no_longer, may_carry_no_longer, of_blocks
from hookpatch._torch.triton import is_of_triton, names_of_triton, past_triton
from hookpatch.errors import BypassWarning, warn
from hookpatch.hookspecs import hookimpl

_IS_OBJECT: Final = re.compile(r"___check_obj_id\(.*, (\d+)\)")  # torch's guard on the identity of an object
# The code of all values of a site since its first layer.
_codes: Final[WeakKeyDictionary[Site, list[CodeType]]] = WeakKeyDictionary()
_TENSORS: Final = {("torch", "Tensor"), ("torch._C", "TensorBase")}
_OF_TENSOR: Final = (
    "torch.compile, torch.export and torch.jit.script take methods of torch.Tensor for operators, and go past the "
    "patch or run it more than once; patch the caller, or capture outside of the block"
)
_DEAD_ENTRIES: Final = 4  # at most: torch counts dead entries, too, and compiles a frame no more than 8 times


@hookimpl
def hookpatch_changed(sites: Sequence[Site]) -> None:
    """Show the values of these sites to torch; drop code compiled or scripted from their earlier values."""
    carry(sites)
    for site in sites:
        for text in _bypassed(site):
            warn(BypassWarning(text))
    if (frames := imports.loaded("torch._dynamo.convert_frame")) is not None:
        _drop_compiled(frames, sites)
    if (scripting := imports.loaded("torch.jit._recursive")) is not None:
        _drop_scripted(scripting, sites)


def _bypassed(site: Site) -> list[str]:
    """Return a message for each patch of a site that torch or Triton bypasses."""
    return [
        f"{layer.patch.address} of {layer.owner}: {problem}"
        for layer in site.layers
        if (problem := _OF_TENSOR if _is_of_tensor(site) else past_triton(site, layer))
    ]


def _is_of_tensor(site: Site) -> bool:
    cls = site.slot.in_class
    return cls is not None and (cls.__module__, cls.__name__) in _TENSORS


# --- a block that is entered again, on the fast path


def _begin(sites: Sequence[Site]) -> bool:
    """Apply the patches on torch for these sites; return False if torch has captured code from earlier values."""
    return _keeps_nothing(sites) and not any(map(_bypassed, sites)) and carry_again(sites)


def _may_end(sites: Sequence[Site]) -> bool:
    return _keeps_nothing(sites) and may_carry_no_longer(sites)


def _end(sites: Sequence[Site]) -> bool:
    """Restore the torch functions for these sites; return False if torch has captured code from their values."""
    return carry_no_longer(sites) and _keeps_nothing(sites)


def _quick(sites: Sequence[Site]) -> Quick | None:
    """Return the part of a block without notes; None if a look at the sites of a later block could find more."""
    if any(map(is_of_triton, sites)) or (own := of_blocks(sites)) is None:
        return None
    pairs, note = own
    absent = [place for site in sites for place in (*names_to_need(site), *names_of_triton(site))]

    def put() -> bool:
        for names, name in absent:
            if name in names:
                return False
        return _keeps_nothing(sites)

    return Quick(put, partial(_keeps_nothing, sites), note, pairs)


def _keeps_nothing(sites: Sequence[Site]) -> bool:
    """Return True if torch keeps no code that ``hookpatch_changed`` might have to drop."""
    frames: Any = imports.begun_module("torch._dynamo.convert_frame")
    if frames is not None and (codes := getattr(frames, "input_codes", None)) is not None and codes.seen:
        return False
    if not _scripting:
        if (recursive := imports.loaded("torch.jit._recursive")) is None:
            return True
        _scripting.append((recursive, imports.module_named("torch.jit._state")))
    recursive, state = _scripting[0]
    store, functions = recursive.concrete_type_store, state._jit_caching_layer
    if store.type_store or store.methods_compiled:
        return False
    if not getattr(functions, "data", functions):  # of a weak dict: to ask the dict itself takes longer
        return True
    return not any(_is_scripted(value, functions) for site in sites for value in site.known_values)


def _is_scripted(value: Any, functions: Mapping[Any, Any]) -> bool:
    return type(function := inner(value)) is FunctionType and function in functions


_scripting: Final[list[tuple[Any, Any]]] = []  # two modules of TorchScript once imported: asked for thrice a block
hearers.append(Hearer(_begin, _may_end, _end, _quick))


# --- torch.compile and torch.export(strict=True)


def _drop_compiled(frames: Any, sites: Sequence[Site]) -> None:
    if not is_at_least(2, 11):  # guards of earlier releases are not read
        eval_frame: Any = imports.loaded("torch._C._dynamo.eval_frame")
        for code in _compiled(frames):
            eval_frame.reset_code(code)
        return
    functions: Any = imports.loaded("torch._dynamo.variables.functions")
    # Dynamo caches a layout of arguments for each function that was inlined: the cache lists the inlined functions.
    inlined = functions._spec_cache
    suspects: set[int] = set()
    unguarded: list[Site] = []
    ended: set[int] = set()  # code of ended patches: harmless, but counted by torch
    for site in sites:
        earlier = [inner(value) for value in site.known_values]
        if site.layers:
            _codes.setdefault(site, []).extend(_code_of(site.value))
        else:
            ended.update(map(id, _codes.pop(site, ())))
        if any(type(value) is not FunctionType or value in inlined for value in earlier):
            unguarded.append(site)
        if isinstance(site.slot, FunctionSlot):
            inlined.pop(site.slot.owner, None)  # the layout has changed
            if is_of_torch(site.slot.owner.__module__):
                suspects.add(id(site.slot.owner))  # a graph may call the function, guarded by its identity
    if suspects or unguarded or ended:
        with frames.compile_lock:  # code that another thread is compiling now is dropped, too
            codes = _compiled(frames)
            if codes:  # else no class is looked for: the search through all classes takes 40 ms
                suspects.update(id(cls) for site in unguarded for cls in _unguarded(site))
            for code in codes:
                _drop_entries(code, suspects, ended)


def _compiled(frames: Any) -> list[CodeType]:
    """Return the living code that Dynamo has compiled."""
    return [code for code in (weak() for weak in frames.input_codes.seen) if code is not None]


def _unguarded(site: Site) -> Iterable[type]:
    """Yield the classes whose guards are the only guards of compiled code on a site."""
    for cls in classes_of(site.slot):
        yield from classes(cls)
        if issubclass(cls, type):
            yield from (instance for instance in classes() if isinstance(instance, cls))


def _code_of(value: Any) -> list[CodeType]:
    """Return the code by which Dynamo knows the value of a slot with wrap layers."""
    if isinstance(value, Swap):
        return [value.code]
    function = value._self_traced if is_proxy(value) else inner(value)
    return [function.__code__] if type(function) is FunctionType else []


def _drop_entries(code: Any, suspects: set[int], ended: set[int]) -> None:
    """Drop the compiled versions of a frame with guards on suspects; of many versions also those of ended patches."""
    eval_frame: Any = imports.loaded("torch._C._dynamo.eval_frame")
    guards: Any = imports.loaded("torch._dynamo.guards")
    entries = eval_frame._debug_get_cache_entry_list(code)
    if len(entries) > _DEAD_ENTRIES:
        suspects = suspects | ended
    if not suspects:
        return
    alive = [entry for entry in entries if not isinstance(entry.guard_manager, guards.DeletedGuardManagerWrapper)]
    stale = [entry for entry in alive if not suspects.isdisjoint(_guarded(entry.guard_manager))]
    if stale and (len(stale) == len(alive) or len(entries) - len(alive) + len(stale) > _DEAD_ENTRIES):
        eval_frame.reset_code(code)
        return
    for entry in stale:
        deleted = guards.DeletedGuardManagerWrapper("a patch of hookpatch has changed the compiled source")
        entry.guard_manager.extra_state.invalidate(entry, deleted)


def _guarded(wrapper: Any) -> Iterable[int]:
    """Yield the ids guarded by compiled code: of classes, of the classes of objects, of functions and code."""
    waiting = [wrapper.root]
    while waiting:
        guard = waiting.pop()
        kind = guard.get_type_of_guarded_value()
        yield id(kind)
        if issubclass(kind, (type, FunctionType, CodeType)):
            parts = (part for leaf in guard.get_leaf_guards() for part in leaf.verbose_code_parts())
            yield from (int(number) for part in parts for number in _IS_OBJECT.findall(part))
        waiting += guard.get_child_managers()
        if hasattr(guard, "get_key_value_managers"):  # of a dict
            waiting += [
                child for pair in guard.get_key_value_managers().values() for child in pair if child is not None
            ]


# --- torch.jit.script


def _drop_scripted(scripting: Any, sites: Sequence[Site]) -> None:
    # Compiled methods do not list the functions they call, so all are dropped. Modules scripted from now on are
    # compiled anew; modules scripted before stay as they are.
    state: Any = imports.loaded("torch.jit._state")
    store = scripting.concrete_type_store
    store.type_store.clear()
    store.methods_compiled.clear()
    for site in sites if state._jit_caching_layer else ():
        changed_inside = [site.slot.owner] if isinstance(site.slot, FunctionSlot) else []
        for function in (*map(inner, site.known_values), *changed_inside):
            if type(function) is FunctionType:
                state._jit_caching_layer.pop(function, None)
