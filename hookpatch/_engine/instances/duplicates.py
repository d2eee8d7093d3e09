"""Restore the copies of a patched object, and keep patched values out of the object's pickles.

copy and pickle ask ``copyreg.dispatch_table`` for the class of an object, so that no class is changed here. A copy made
inside has the patched value until the end. A value that calls the patched object itself would call it from the copy,
too, and stays out of the copy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from sys import _getframe
from typing import Any, Final, NamedTuple, final
from weakref import ref

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import Turn, is_interrupt
from hookpatch._engine.instances.travel import original_state
from hookpatch._engine.patch.patch import Patch, wrap
from hookpatch._engine.patch.target import Target
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.originals import is_patched, patched_at
from hookpatch._engine.slots.slot import ABSENT, is_class_of_program, is_same_value, mro, write_or_delete

_OURS_ALONE: Final = 2  # references: our attribute, and the argument of the question
_PICKLED: Final = "a pickle made inside has the original value"
_LEFT_OUT: Final = "a copy made inside has the original method: the address CLASS().NAME patches copies, too"
_ENDED: Final = "a copy made inside has the original value since the end of another patch"
_OF_RULE: Final = "a copy made inside has the patches of all instances of the class alone"
_OTHER: Final = "a copy made inside has a value of its own: of the code that makes copies"
_WHY: Final = "takes patched values out of the copies that a class makes itself"


class _Value(NamedTuple):
    """A patched value of an object, or of a copy."""

    of: Duplicates
    ours: Any
    original: Any
    stays_out: bool  # of copies


@final
class Duplicates:
    """The copies of an object with one patched attribute. Lives while the attribute has layers."""

    def __init__(self, slot: AttributeSlot) -> None:
        self.slot: Final = slot
        self.users: Final[list[tuple[Callable[[], bool], Callable[[str], object]]]] = []
        self.copies: Final[dict[int, _Copy]] = {}  # by the id of the copy. GIL: each change is one operation

    def notify(self, message: str) -> None:
        """Pass a message about a copy or pickle to the patches of the attribute, for their reports."""
        for _, note in [*self.users]:
            note(message)

    def drop_dead(self) -> None:
        """Drop the copies that only hookpatch keeps alive."""
        for number, copy in self.copies.copy().items():
            if copy.is_dead:
                self.copies.pop(number, None)
                _drop(_copies, number, self.slot.name)

    def restore(self) -> None:
        """Give the copies the original value, past every error; raise the first error."""
        first: Exception | None = None
        while self.copies:
            number, copy = next(iter(self.copies.copy().items()))
            try:
                copy.restore()
            except Exception as error:  # of the copy's own code
                if is_interrupt(error):
                    raise
                first = first or error
            self.copies.pop(number, None)
            _drop(_copies, number, self.slot.name)
        if first is not None:
            raise first


@final
class _Copy:
    """A living copy with our value, and the value that the copy would have without the patch."""

    def __init__(self, instance: Any, of: Duplicates, ours: Any, original: Any) -> None:
        number, name, copies = id(instance), of.slot.name, of.copies

        def died(_: object) -> None:
            copies.pop(number, None)
            _drop(_copies, number, name)

        self._kept: Any = None
        try:
            self.instance: Callable[[], Any] = ref(instance, died)
        except TypeError:  # no weak references
            self._kept, self.instance = instance, lambda: self._kept
        self.value: Final = _Value(of, ours, original, stays_out=False)

    @property
    def is_dead(self) -> bool:
        """True for a copy without weak references that nothing else refers to."""
        return self._kept is not None and sys.getrefcount(self._kept) <= _OURS_ALONE

    @property
    def is_intact(self) -> bool:
        """True if the copy has our value."""
        instance, name = self.instance(), self.value.of.slot.name
        return instance is not None and is_same_value(AttributeSlot(instance, name).read(), self.value.ours)

    def restore(self) -> None:
        """Write the original value, unless the copy has another value now."""
        if self.is_intact:
            write_or_delete(AttributeSlot(self.instance(), self.value.of.slot.name), self.value.original)


_followed: Final[dict[int, dict[str, Duplicates]]] = {}  # by the id of the object, then by attribute
_copies: Final[dict[int, dict[str, _Copy]]] = {}  # likewise
_reducers: Final[dict[type, _Reducer]] = {}  # in the table of copyreg
_lock: Final = Turn()


def _drop(table: dict[int, dict[str, Any]], number: int, name: str) -> None:
    """Drop the entry of an object's attribute. GIL: each change is one operation."""
    entries = table.get(number, {})
    entries.pop(name, None)
    if not entries:
        table.pop(number, None)


def follow(slot: AttributeSlot, calls_owner: Callable[[], bool], note: Callable[[str], object]) -> Callable[[], None]:
    """Follow the copies and pickles of an object with a patched attribute; return the undo, which may be called again.

    ``calls_owner``: returns True if the patched value calls the object. ``note`` is called with what the patch does not
    do for a copy or pickle.
    """
    kind, number, user = type(slot.owner), id(slot.owner), (calls_owner, note)
    with _lock:
        duplicates = _followed.setdefault(number, {}).setdefault(slot.name, Duplicates(slot))
        duplicates.users.append(user)
        reducer = _reducers.setdefault(kind, _Reducer(kind))
        reducer.followed.add(slot.key)
        reducer.begin()

    def stop() -> None:
        with _lock:
            if user in duplicates.users:
                duplicates.users.remove(user)
            if not duplicates.users:
                _drop(_followed, number, slot.name)
                reducer.followed.discard(slot.key)
            if not reducer.followed and _reducers.get(kind) is reducer:
                reducer.end()
                del _reducers[kind]
        if duplicates.copies:
            duplicates.notify(_ENDED)
            duplicates.restore()

    return stop


@final
class _Reducer:
    """The entry of a class in the table of copyreg."""

    def __init__(self, kind: type) -> None:
        with imports.for_ourselves():
            from copyreg import dispatch_table
        self._slot: Final = ItemSlot(dispatch_table, kind)
        self._before: Any = ABSENT
        self.followed: Final[set[tuple[Any, ...]]] = set()

    def begin(self) -> None:
        """Put the entry into the table; not over a patch of the table."""
        if not is_patched(self._slot) and (before := self._slot.read()) is not self:
            self._before = before
            self._slot.write(self)

    def end(self) -> None:
        """Restore the table, unless other code has put in another entry."""
        if self._slot.read() is self:
            write_or_delete(self._slot, self._before)

    def __call__(self, instance: Any) -> Any:
        """Reduce an instance for copy or pickle."""
        reduced = instance.__reduce_ex__(4) if self._before is ABSENT else self._before(instance)
        values = [*_values(instance)]
        if not values or type(reduced) is not tuple:
            return reduced
        parts: list[Any] = [*reduced, *[None] * (5 - len(reduced))]
        makes, args, state, entries, items, *rest = parts
        is_copied = _getframe(1).f_globals.get("__name__") == "copy"
        for value in values:
            before = state
            if value.stays_out or not is_copied or value.ours is ABSENT:  # a removed name is removed from the copy
                state = original_state(value.of.slot.name, instance, state, value.ours, value.original)
            if state is not before and (value.stays_out or not is_copied):
                value.of.notify(_LEFT_OUT if is_copied else _PICKLED)
        if not is_copied:
            return makes, args, state, entries, items, *rest
        made: list[Any] = []

        def make(*arguments: Any) -> Any:
            made.append(makes(*arguments))
            return made[0]

        def items_and_end() -> Iterator[Any]:  # the last act of copy
            yield from items or ()
            memo = _getframe(1).f_locals.get("memo")
            for value in values:
                if not value.stays_out:
                    _note_copy(made[0], value, memo)

        return make, args, state, entries, items_and_end()


def _values(instance: Any) -> Iterator[_Value]:
    """Yield the patched values of an object, or of a copy."""
    for copy in [*_copies.get(id(instance), {}).values()]:
        if copy.is_intact:
            yield copy.value
    for duplicates in [*_followed.get(id(instance), {}).values()]:
        patched = patched_at(duplicates.slot.key)
        if patched is not None and not patched.is_foreign and duplicates.slot.owner is instance:
            stays_out = any(calls_owner() for calls_owner, _ in [*duplicates.users])
            yield _Value(duplicates, duplicates.slot.read(), patched.original, stays_out)


def copy_at(slot: AttributeSlot) -> _Copy | None:
    """Return the noted copy with our value in a slot; None for any other slot."""
    copy = _copies.get(id(slot.owner), {}).get(slot.name)
    return copy if copy is not None and copy.instance() is slot.owner and copy.is_intact else None


def _note_copy(instance: Any, value: _Value, memo: dict[int, Any] | None) -> None:
    """Note a copy with our value; ``memo`` is of deepcopy, None for a shallow copy."""
    of, ours = value.of, value.ours
    slot = AttributeSlot(instance, of.slot.name)
    own = slot.read()
    if is_patched(slot):  # patched as an instance of its own, from the original value on
        return of.notify(_OF_RULE)
    if ours is ABSENT:
        original = _copied(value.original, memo) if own is ABSENT else own
        if own is not ABSENT:
            slot.delete()
    elif is_same_value(own, ours) or (memo is not None and memo.get(id(ours), ABSENT) is own):
        original = _copied(value.original, memo)
    else:
        return of.notify(_OTHER)
    copy = _Copy(instance, of, ABSENT if ours is ABSENT else own, original)
    _copies.setdefault(id(instance), {})[of.slot.name] = copy
    of.copies[id(instance)] = copy
    if (count := len(of.copies)) & (count - 1) == 0:  # seldom, since the copies are many
        of.drop_dead()
    if not of.users:  # the patch has ended in another thread
        of.restore()


def _copied(original: Any, memo: dict[int, Any] | None) -> Any:
    """Return the original for a copy: copied itself by deepcopy, if possible."""
    if memo is None or original is ABSENT:
        return original
    from copy import deepcopy  # the caller's caller

    try:
        return deepcopy(original, memo)
    except Exception as error:  # of the original, which cannot be copied
        if is_interrupt(error):
            raise
        return original


def hooks(slot: AttributeSlot) -> Iterator[tuple[AttributeSlot, Patch]]:
    """Yield the methods with which the class of an object makes copies itself, each with a patch of the copies."""
    for name in ("__copy__", "__deepcopy__"):
        owner = next((base for base in mro(type(slot.owner)) if name in vars(base)), None)
        if owner is not None and is_class_of_program(owner):
            yield AttributeSlot(owner, name), wrap(Target.attribute(owner, name), _take_over, why=_WHY)


def _take_over(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Make a copy with a method of its class."""
    made = wrapped(*args, **kwargs)
    memo = next((given for given in (*args, *kwargs.values()) if type(given) is dict), None)
    for value in _values(instance) if made is not instance and type(made) is type(instance) else ():
        if not value.stays_out:
            _note_copy(made, value, memo)
            continue
        slot = AttributeSlot(made, value.of.slot.name)
        if (own := slot.read()) is value.ours or (memo is not None and memo.get(id(value.ours), ABSENT) is own):
            write_or_delete(slot, _copied(value.original, memo))
            value.of.notify(_LEFT_OUT)
    return made
