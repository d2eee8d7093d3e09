"""Built-in plugin: has torch see what stands in patched slots, and drops what it made from what stood there before.

Torch guards most of what compiled code depends on: a function that is looked up by a name, an entry of a dict. It does
not guard what a class holds, the ``forward`` of a submodule for one, nor constants among a function's defaults; and
TorchScript keeps compiled methods by class, and functions by themselves, without any guard.

Nothing here imports torch, and nothing is done before somebody else has.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from types import CodeType, FunctionType
from typing import Any, Final

from hookpatch import _imports
from hookpatch._function_slot import FunctionSlot
from hookpatch._holders import classes_of
from hookpatch._referrers import classes
from hookpatch._site import Site
from hookpatch._slot import inner
from hookpatch._standing import is_proxy
from hookpatch._torch_patches import carry, is_of_torch
from hookpatch._trampoline import Swap
from hookpatch.errors import BypassWarning
from hookpatch.hookspecs import hookimpl

_IS_OBJECT: Final = re.compile(r"___check_obj_id\(.*, (\d+)\)")  # how torch writes that something is this very object
_codes: Final[dict[Site, list[CodeType]]] = {}  # what has stood there since the first layer came
_TENSORS: Final = {("torch", "Tensor"), ("torch._C", "TensorBase")}
_DEAD_ENTRIES: Final = 4  # at most: torch counts them when it limits recompilations, to 8 for each frame


@hookimpl
def hookpatch_changed(sites: Sequence[Site]) -> None:
    """Have torch see what stands at these sites; drop what was compiled or scripted from what stood there."""
    carry(sites)
    _warn_of_tensors(sites)
    if (frames := _imports.loaded("torch._dynamo.convert_frame")) is not None:
        _drop_compiled(frames, sites)
    if (scripting := _imports.loaded("torch.jit._recursive")) is not None:
        _drop_scripted(scripting, sites)


def _warn_of_tensors(sites: Sequence[Site]) -> None:
    """Say which patches are on methods of tensors: no code is captured from those, they are operators."""
    for site in sites:
        cls = site.slot.in_class
        if cls is not None and (cls.__module__, cls.__name__) in _TENSORS:
            for layer in site.layers:
                said = f"{layer.patch.address} of {layer.owner}: torch.compile, torch.export and torch.jit.script take "
                said += "methods of torch.Tensor for operators, and go past the patch or run it more than once; "
                said += "patch what calls it, or capture where the patch is not on"
                warnings.warn(said, BypassWarning, stacklevel=2)


# --- torch.compile and torch.export(strict=True)


def _drop_compiled(frames: Any, sites: Sequence[Site]) -> None:
    functions: Any = _imports.loaded("torch._dynamo.variables.functions")
    # Dynamo binds arguments by a layout that it keeps for each function it has inlined: so these were, and no others.
    inlined = functions._spec_cache
    suspects: set[int] = set()
    ended: set[int] = set()  # guarded by what is not there any more: in nobody's way, but torch counts them
    for site in sites:
        stood = [inner(value) for value in site.stood]
        if site.layers:
            _codes.setdefault(site, []).extend(_code_of(site.stands))
        else:
            ended.update(map(id, _codes.pop(site, ())))
        if any(type(value) is not FunctionType or value in inlined for value in stood):
            suspects.update(map(id, _unguarded(site)))
        if isinstance(site.slot, FunctionSlot):
            inlined.pop(site.slot.owner, None)  # its layout is another one
            if is_of_torch(site.slot.owner.__module__):
                suspects.add(id(site.slot.owner))  # it may be called by a graph, and guarded as this very object
    if suspects or ended:
        with frames.compile_lock:  # what another thread is compiling at this moment is dropped, too
            for code in [code for code in (weak() for weak in frames.input_codes.seen) if code is not None]:
                _drop_entries(code, suspects, ended)


def _unguarded(site: Site) -> Iterable[type]:
    """Return the classes whose guards are the only ones that compiled code has on what stands at a site."""
    for cls in classes_of(site.slot):
        yield from classes(cls)
        if issubclass(cls, type):
            yield from (one for one in classes() if isinstance(one, cls))


def _code_of(value: Any) -> list[CodeType]:
    """Return the code by which Dynamo knows what stands in a slot for call layers."""
    if isinstance(value, Swap):
        return [value.code]
    function = value._self_traced if is_proxy(value) else inner(value)
    return [function.__code__] if type(function) is FunctionType else []


def _drop_entries(code: Any, suspects: set[int], ended: set[int]) -> None:
    """Drop those compiled versions of a frame that met one of these classes; of many, what has ended as well."""
    eval_frame: Any = _imports.loaded("torch._C._dynamo.eval_frame")
    guards: Any = _imports.loaded("torch._dynamo.guards")
    entries = eval_frame._debug_get_cache_entry_list(code)
    if len(entries) > _DEAD_ENTRIES:
        suspects = suspects | ended
    if not suspects:
        return
    alive = [entry for entry in entries if not isinstance(entry.guard_manager, guards.DeletedGuardManagerWrapper)]
    stale = [entry for entry in alive if not suspects.isdisjoint(_met(entry.guard_manager))]
    if stale and (len(stale) == len(alive) or len(entries) - len(alive) + len(stale) > _DEAD_ENTRIES):
        eval_frame.reset_code(code)
        return
    for entry in stale:
        gone = guards.DeletedGuardManagerWrapper("a patch of hookpatch has changed what it was compiled from")
        entry.guard_manager.extra_state.invalidate(entry, gone)


def _met(wrapper: Any) -> Iterable[int]:
    """Yield the ``id`` of each class that compiled code met, itself or an instance of it, and of functions and code."""
    waiting = [wrapper.root]
    while waiting:
        guard = waiting.pop()
        kind = guard.get_type_of_guarded_value()
        yield id(kind)
        if issubclass(kind, (type, FunctionType, CodeType)):
            said = (part for leaf in guard.get_leaf_guards() for part in leaf.verbose_code_parts())
            yield from (int(number) for part in said for number in _IS_OBJECT.findall(part))
        waiting += guard.get_child_managers()
        if hasattr(guard, "get_key_value_managers"):  # of a dict
            waiting += [one for pair in guard.get_key_value_managers().values() for one in pair if one is not None]


# --- torch.jit.script


def _drop_scripted(scripting: Any, sites: Sequence[Site]) -> None:
    # Its compiled methods do not tell what they call, so all are dropped: what is scripted from now on is compiled
    # anew. What was scripted before goes on as it is.
    state: Any = _imports.loaded("torch.jit._state")
    store = scripting.concrete_type_store
    store.type_store.clear()
    store.methods_compiled.clear()
    for site in sites:
        changed_inside = [site.slot.owner] if isinstance(site.slot, FunctionSlot) else []
        for function in (*map(inner, site.stood), *changed_inside):
            if type(function) is FunctionType:
                state._jit_caching_layer.pop(function, None)
