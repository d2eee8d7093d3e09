"""Keep patched values out of copies and pickles, and notice the instances made from copies and pickles.

A copy or pickle of an instance holds the original state. A copy made inside is patched as an instance of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from hookpatch._engine.instances.births import Born
from hookpatch._engine.instances.meant import IsMeant, Meant, OfInstances
from hookpatch._engine.instances.slot import InstanceSlot
from hookpatch._engine.patch.patch import Patch, replace, wrap
from hookpatch._engine.patch.target import Target
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.originals import beneath, patched_at
from hookpatch._engine.slots.slot import ABSENT, KEPT, along_mro, is_same_value, write_or_delete

_WHY: Final = "keeps patches of instances out of their copies and pickles"


# The listeners to new instances. Of several patches only the outer ``__setstate__`` is called: it calls all listeners.
_listeners: Final[dict[int, tuple[Meant, Born]]] = {}


def listen_for_states(meant: Meant, born: Born) -> Callable[[], object]:
    """Call ``born`` with each meant instance that gets a state by ``_set_state``; return the undo."""
    _listeners[id(born)] = meant, born
    return lambda: _listeners.pop(id(born), None)


def of_copies(of: OfInstances, born: Born) -> Iterator[tuple[AttributeSlot, Patch]]:
    """Yield the slots, each with a patch, that keep patched values out of copies and pickles, and notice new copies.

    A slot is yielded once.
    """
    for owner in of.meant.owners("__reduce_ex__").new_owners():
        yield _around(owner, "__reduce_ex__", partial(_reduce, of.name))
    for name in ("__copy__", "__deepcopy__"):
        for owner in of.meant.owners(name).new_owners():
            if along_mro(owner, name) is not ABSENT:
                yield _around(owner, name, partial(_copied, of.name, of.meant, born))
    for owner in of.meant.owners("__setstate__").new_owners():
        slot = AttributeSlot(owner, "__setstate__")
        if beneath(slot) is ABSENT:
            yield slot, replace(Target.attribute(owner, "__setstate__"), _set_state, add=True, why=_WHY)
        else:
            yield _around(owner, "__setstate__", partial(_after_state, of.meant.test_for(owner, "__setstate__"), born))


def _around(owner: type, name: str, wrapper: Any) -> tuple[AttributeSlot, Patch]:
    return AttributeSlot(owner, name), wrap(Target.attribute(owner, name), wrapper, why=_WHY)


def _reduce(name: str, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    reduced = wrapped(*args, **kwargs)
    if type(reduced) is not tuple or len(reduced) < 3:  # a call alone makes the copy, without a state
        return reduced
    state = reduced[2]
    if (values := _values(name, instance)) is not None:
        state = original_state(name, instance, state, *values)
    if state is None and hasattr(instance, "__dict__"):
        state = {}  # unpickling calls __setstate__, which notices the instance
    return (*reduced[:2], state, *reduced[3:])


def _values(name: str, instance: Any) -> tuple[Any, Any] | None:
    """Return our value in an instance and the original; None for an unpatched instance, and over a foreign value."""
    patched = patched_at(InstanceSlot(instance, name).key)
    return None if patched is None or patched.is_foreign else (patched.slot.read(), patched.original)


def original_state(name: str, instance: Any, state: Any, ours: Any, original: Any) -> Any:
    """Return the state of an instance with the original value in place of our value; the same state without ours."""
    if type(state) is tuple and len(state) == 2:  # the states of the __dict__ and of the __slots__
        in_slots = isinstance(along_mro(type(instance), name), KEPT)
        part = _without(name, state[in_slots], ours, original)
        if part is state[in_slots]:
            return state
        return (state[0], part) if in_slots else (part, state[1])
    return _without(name, state, ours, original)


def _without(name: str, state: Any, ours: Any, original: Any) -> Any:
    """Return a state with the original value in place of our value; the same state if our value is absent."""
    if not (state is None or isinstance(state, dict)) or not is_same_value((state or {}).get(name, ABSENT), ours):
        return state
    return {key: value for key, value in {**(state or {}), name: original}.items() if value is not ABSENT} or None


def _copied(name: str, meant: Meant, born: Born, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    copied = wrapped(*args, **kwargs)
    if copied is not instance and type(copied) is type(instance):
        values, slot = _values(name, instance), AttributeSlot(copied, name)
        if values is not None and is_same_value(slot.read(), values[0]):
            write_or_delete(slot, values[1])
        if meant.takes(copied):
            born(copied)
    return copied


def _after_state(is_meant: IsMeant, born: Born, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    result = wrapped(*args, **kwargs)
    if is_meant(instance):
        born(instance)
    return result


def _set_state(self: Any, state: Any) -> None:
    """Set a state as copy and pickle do for a class without ``__setstate__``."""
    parts = state if type(state) is tuple and len(state) == 2 else (state, None)
    if parts[0]:
        vars(self).update(parts[0])
    for name, value in (parts[1] or {}).items():
        AttributeSlot(self, name).write(value)
    for meant, born in list(_listeners.values()):
        if meant.takes(self):
            born(self)
