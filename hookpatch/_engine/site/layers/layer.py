"""One patch at one site.

Long because wrappers for calls and values for slots share the fitting, the end and the notes of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from inspect import Parameter
from types import FunctionType
from typing import Any, Final, Protocol, TypeAlias, final
from weakref import WeakValueDictionary

from hookpatch._bootstrap import imports
from hookpatch._engine.calls.callers import ASKS_CALLER, Callers, SeenFrom, instead
from hookpatch._engine.calls.giving import Given, Test, defaulting, injecting
from hookpatch._engine.calls.signatures import as_code_takes
from hookpatch._engine.calls.torchscript import GIVES_ALL
from hookpatch._engine.calls.trampoline import pass_through
from hookpatch._engine.patch.patch import GIVING_VERBS, MAKING_VERBS, NOT_NEEDED, Patch, Wrapper
from hookpatch._engine.patch.process_end import call_guarded
from hookpatch._engine.site.layers.rivals import Among, AnyGiver, differing, giving, in_words, overriding, test_of
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.guard import called, check_call, check_value
from hookpatch._engine.slots.originals import beneath
from hookpatch._engine.slots.resolve import has_value
from hookpatch._engine.slots.slot import ABSENT, Slot, alike, inner

Count: TypeAlias = Callable[[Any, Slot, "Layer"], Any]  # returns a stand-in for a value, which counts the calls
Gate: TypeAlias = Callable[[Wrapper], Wrapper]  # returns a wrapper that asks at each call whether to run


class Only(Protocol):
    """The only objects for which a layer in the slot of the class is in effect."""

    @property
    def takes(self) -> Callable[[Any], bool]:
        """Return True for an object with the layer in effect."""

    def is_for(self, value: Any) -> bool:
        """Return True for an object with the patch in effect, whichever slot has the layer for the object."""

    def covers(self, other: Any) -> bool:
        """Return True if the layer is in effect for all objects of another ``Only``."""

    def meets(self, other: Any) -> bool:
        """Return True if the layer may be in effect for an object of another ``Only``."""

    def entries(self) -> list[AttributeSlot]:
        """Return the slots of the objects that have a value of their own over the method of the class."""

    def around(self, wrapper: Wrapper) -> Wrapper:
        """Return a wrapper that passes calls through for all other objects."""

    def between(self, below: Any, value: Any) -> Any:
        """Return a function that calls a value for the meant objects, and the value below for all others."""


class Notes(Protocol):
    """The record of a layer in the session."""

    def left_out(self, error: Exception | None) -> Callable[[], None] | None:
        """Note why the layer no longer fits the site, None if the layer fits again; return a warning to make later."""


_Key: TypeAlias = tuple[tuple[int, ...], str]  # the rank of a layer, and the name of a parameter
_ALONE: Final = (), 0
_NONE: Final[dict[Any, Any]] = {}  # shared by most layers, and never written to


@final
class Layer:
    """One Patch at one Site. Lives until its session ends or its module is executed anew.

    Attributes:
        owner: the plugin or the block, in words for messages.
        wraps: True for a layer that runs around calls, False for a layer that puts a value into the slot.
        rank: session and place: the order without ``before`` and ``after``; the greater is the outer layer. A third
            number puts the layer outside of all layers without.
        ended: True when the layer passes through for good.
        is_left_out: True while the layer does not fit the value below.
        call: the wrapper to run at each call.
        only: the only objects with the layer in effect; None for all.
        callers: decides at a call whether the caller is meant; None for a patch of all calls.
        depends_on_outer: True when the wrapper depends on the layers outside.
        home: the target's slot and value, for a layer that changes the target's function in place; else None.
    """

    __slots__ = (
        *("_beside", "_count", "_counted", "_derived", "_effect", "_gate", "_injector", "_left", "_narrowed", "call"),
        *("callers", "depends_on_outer", "distribution", "ended", "is_left_out", "home", "only", "owner", "notes"),
        *("patch", "plugin", "rank", "wraps"),
    )

    def __init__(
        self,
        patch: Patch,
        plugin: str | None,
        owner: str,
        rank: tuple[int, ...],
        gate: Gate | None = None,
        derived: dict[int, tuple[Any, Any]] | None = None,
        distribution: str | None = None,
        count: Count | None = None,
        only: Only | None = None,
    ) -> None:
        self.patch: Final = patch
        self.plugin: Final = plugin
        self.distribution: Final = distribution
        self.owner: Final = owner
        self.rank = rank
        self.wraps: Final = patch.is_around_calls
        self.callers: Final = Callers(patch.is_for_calls_by, patch.is_for_calls_in) if patch.callers else None
        self.depends_on_outer: Final = self.callers is not None or patch.verb in GIVING_VERBS
        self._gate: Final = gate
        self.only: Final = only
        self.call: Wrapper = pass_through
        if patch.verb == "wrap":
            self.call = self._gated(patch.change)
        elif self.wraps and patch.verb == "replace":
            self.call = self._gated(instead(called(patch.change)))
        # The derived value of each value below, made once: a derived class stays the same class during the whole
        # session, and in all the slots of the patch.
        self._derived: Final = _NONE if patch.verb not in MAKING_VERBS else {} if derived is None else derived
        self._count: Final = count
        self._counted: Final[dict[int, Any]] = _NONE if count is None else {}  # by the id of the value
        # By the id of the value below.
        self._narrowed: Final[dict[int, tuple[Any, Any]]] = _NONE if only is None else {}
        self.ended = False
        self.is_left_out = False
        self._effect = ""
        self._injector: Callable[[Sequence[Given]], Wrapper] | None = None
        self._beside: tuple[Sequence[Layer], int] = _ALONE  # the layers of the last ``between``, and the place in them
        # At the last ``between`` with a value to leave alone: the layers that inject, and the number of outer ones; and
        # values that ended outer layers have injected, each with the rank of the layer and the name.
        self._left: tuple[tuple[Layer, ...], int, Mapping[_Key, Test]] | None = None
        self.notes: Notes | None = None
        self.home: tuple[Slot, Any] | None = None

    @property
    def asks_for_object(self) -> bool:
        """True when the wrapper gets the object of a method's call; the wrapper of ``inject`` needs no object."""
        return self.patch.verb == "wrap"

    @property
    def is_ready(self) -> bool:
        """True when the layer runs around the calls of any value below, without a ``fit``."""
        return self.patch.verb in ("wrap", "replace") and not (self.patch.expects or self.patch.is_for_absent)

    @property
    def is_gated(self) -> bool:
        """True when the wrapper counts calls, or asks at each call whether to run."""
        return self._gate is not None or self._count is not None or self.callers is not None

    @property
    def gives_plainly(self) -> bool:
        """True when the layer gives the arguments in all calls, whatever outer layers have given."""
        is_plain = not (self.ended or self.is_gated or self._left is not None) and self.only is None
        return is_plain and self.patch.verb in GIVING_VERBS

    def finds_value(self, below: Any, slot: Slot) -> bool:
        """Return True if a layer that adds a name finds a value there, and note that the layer is not needed."""
        if not self.patch.is_for_absent:
            return False
        self._effect = NOT_NEEDED if has_value(slot, below) else ""
        return bool(self._effect)

    def value(self, below: Any, slot: Slot, inherited: Callable[[], Any] | None = None) -> Any:
        """Return the value to put over ``below``: given, derived, or ABSENT.

        ``inherited``: makes the function that objects not meant call, if ``below`` is inherited.

        Raises:
            SignatureError: the derived value does not take the calls that the original takes.
        """
        if self.finds_value(below, slot):
            return below
        if self.patch.verb == "replace":
            is_itself = isinstance(slot, FunctionSlot) and inner(self.patch.change) is slot.owner
            change = below if is_itself else self.patch.change  # code in place calls the value below, not itself
            self._effect = _HELD_ALREADY if alike(change, below) else ""
            if type(change) is cached_property and change.attrname is None:
                _tell_its_name(change, slot)
            return self._as_narrowed(below, self._as_counted(change, slot), inherited)
        if self.patch.verb == "remove":
            return ABSENT
        if id(below) not in self._derived:
            new_value = self._new_value(below, slot)
            if new_value is not below:
                _tell_its_name(new_value, slot)
            # Callers know the original, and not the derived values of other patches.
            original = (slot.copy or slot.owner) if isinstance(slot, FunctionSlot) else beneath(slot)
            check_value(self.patch, slot, original, new_value, self.owner)
            self._derived.setdefault(id(below), (below, new_value))  # two threads: the first counts; GIL: one operation
            if isinstance(inner(new_value), (FunctionType, type)):
                _derived_values[id(inner(new_value))] = inner(new_value)
        new_value = self._derived[id(below)][1]
        self._effect = _RETURNED_ORIGINAL if alike(new_value, below) else ""
        return self._as_narrowed(below, self._as_counted(new_value, slot), inherited)

    def _new_value(self, below: Any, slot: Slot) -> Any:
        if self.patch.verb == "derive":
            return call_guarded(self.patch.change, below)
        with imports.for_ourselves():
            from hookpatch._engine.source.edited import edited  # few patches edit, and ast and tokenize are slow

        return edited(below, self.patch, self.owner, slot.in_class)

    def is_for_all_of(self, other: Layer) -> bool:
        """Return True if the layer is in effect for each object for which another layer is in effect."""
        return self.only is None or (other.only is not None and self.only.covers(other.only))

    def _as_narrowed(self, below: Any, value: Any, inherited: Callable[[], Any] | None) -> Any:
        """Return the function that calls a value for some objects, the same each time; the value itself if for all."""
        if self.only is None:
            return value
        if id(below) not in self._narrowed:
            for_others = below if inherited is None else inherited()
            self._narrowed.setdefault(id(below), (below, self.only.between(for_others, value)))
        return self._narrowed[id(below)][1]

    def _as_counted(self, value: Any, slot: Slot) -> Any:
        """Return the counting stand-in for a value, the same each time; the value itself if calls are not counted."""
        if self._count is None:
            return value
        if id(value) not in self._counted:
            self._counted.setdefault(id(value), self._count(value, slot, self))
        return self._counted[id(value)]

    def fit(self, callee: Any, binds: bool, before: int, parameters: list[Parameter] | None) -> None:
        """Prepare to run around a callee; ``binds``: the first parameter is the object or class of a method call.

        The wrapper of ``inject`` and of ``default`` gets ``before`` arguments of that kind: 0 or 1. ``parameters``:
        those that the callee takes, see ``takes``.

        Raises:
            SignatureError: the callee has no parameter that the patch gives or expects.
        """
        if self.ended or self.is_ready:
            return
        if parameters is not None and self.patch.verb in GIVING_VERBS:
            parameters = as_code_takes(callee, parameters, binds)
        check_call(self.patch, parameters, self.owner)
        if self.patch.verb == "inject":
            self._injector = partial(injecting, self.patch.change, parameters or [], before)
            self.call = self._gated(self._injector(()))
        if self.patch.verb == "default":
            self.call = self._gated(defaulting(self.patch.change, parameters or [], before))
            vars(self.call).setdefault("needs_the_call", GIVES_ALL)
        if self.ended:  # in another thread, meanwhile
            self.call = pass_through

    def between(self, among: Among[Layer] | None, place: int) -> Wrapper:
        """Return the wrapper to run at a place among layers, without the arguments given by an outer ``inject``.

        ``among``: None if no layer depends on the layers outside.
        """
        if self.callers is not None:
            self.callers.outside = place
        if self.patch.verb not in GIVING_VERBS or self.ended:
            return self.call
        assert among is not None  # this layer depends on the layers outside
        self._beside = among.layers, place
        if self._injector is None or not (given := among.given_outside(self, place)):
            return self.call
        # A running call may have the argument of an outer layer that has ended since: the layers between left the
        # argument unchanged. This layer keeps the argument, too, if another outer layer gives the same parameter.
        count = among.count(place)
        ended: dict[_Key, Test] = {}
        for came_at, layer in among.compared(() if self._left is None else self._left[0])[1]:
            if came_at < count and layer._left is not None:
                ended |= layer._ended(among)
        late = [(key, is_it) for key, is_it in (ended | self._ended(among)).items() if key[1] in given][-_MOST:]
        self._left = among.givers, count, dict(late)
        outside = [
            (name, [*(is_it for (_, of), is_it in late if of == name), *current], AnyGiver(gates))
            for name, (current, gates) in given.items()
        ]
        return self._gated(self._injector(outside))

    def _ended(self, among: Among[Layer]) -> dict[_Key, Test]:
        """Return the values that ended outer layers have injected and running calls may still have, the latest last."""
        if self._left is None:
            return {}
        givers, count, ended = self._left
        gone = [layer for place, layer in among.compared(givers)[0] if place < count]
        rivals = [layer for layer in gone if layer.patch.may_meet(self.patch)]
        latest = {(layer.rank, name): test_of(layer, name) for layer in rivals for name in differing(layer, self)}
        return {**ended, **latest}

    @property
    def without_effect(self) -> str:
        """Why the layer, or a given argument, has no effect at present, in words; empty if all is in effect."""
        layers, place = self._beside
        if not layers:  # mostly: only layers that give arguments are compared
            return self._effect
        outer, inner_layers = layers[:place], layers[place + 1 :]
        return self._effect or in_words(giving(outer, self), overriding(inner_layers, self))

    def _gated(self, wrapper: Wrapper) -> Wrapper:
        gated = wrapper if self._gate is None else self._gate(wrapper)
        if self.callers is None:
            return gated
        asking = self.callers.only(gated)
        vars(asking).update(vars(gated) if self._gate is not None else {}, needs_the_call=ASKS_CALLER)
        return asking

    def gate_seen_from(self, inside: int) -> object:
        """Return an object that is true in the calls of the layer, seen from the layer at a place inside."""
        gate: object = getattr(self.call, "gate", True)
        if self.callers is not None:
            return SeenFrom(self.callers, inside, gate)
        return gate

    def derived_from(self, derived_value: Any) -> Any:
        """Return the value from which the layer derived a value, ABSENT if another layer derived the value."""
        derived = list((self._narrowed or self._derived).values())
        return next((below for below, value in derived if derived_value is self._counted.get(id(value), value)), ABSENT)

    @property
    def is_needless(self) -> bool:
        """True if a patch that adds a name found the name there."""
        return self.patch.is_for_absent and self.without_effect == NOT_NEEDED

    @property
    def values_in_slots(self) -> tuple[Any, ...]:
        """The values that the layer has put into slots; empty for a layer around calls, and for a needless one."""
        if self.wraps or self.is_needless:
            return ()
        if self.only is not None:
            return tuple(value for _, value in list(self._narrowed.values()))
        if self.patch.verb in MAKING_VERBS:
            return tuple(self._counted.get(id(value), value) for _, value in list(self._derived.values()))
        return (self._counted.get(id(self.patch.change), self.patch.change),)

    @property
    def value_ids(self) -> set[int]:
        """The ids of the values that the layer has put into slots; of a descriptor the id of its function."""
        return {id(inner(value)) for value in self.values_in_slots}

    def given_over(self, below: Any) -> Any:
        """Return the value that the layer has put over the value below; ABSENT for a removed name."""
        known = self._narrowed or self._derived
        value = (
            known[id(below)][1] if id(below) in known else ABSENT if self.patch.verb == "remove" else self.patch.change
        )
        return self._counted.get(id(value), value)

    def leave_out(self, error: Exception | None) -> Callable[[], None] | None:
        """Note why the layer does not fit the value below, None if the layer fits; return a warning to make later."""
        if (error is not None) == self.is_left_out:
            return None
        self.is_left_out = error is not None
        notes = self.notes  # another thread may end the layer
        return None if notes is None else notes.left_out(error)

    def end(self) -> None:
        """Pass calls through from now on, for every holder of the wrapper."""
        self.ended = True
        self.call = pass_through
        self.notes = None
        self._beside = _ALONE

    def __repr__(self) -> str:
        return f"<Layer: {self.patch.verb} of {self.patch.address} by {self.owner}>"


_MOST: Final = 32  # the number of arguments of ended layers that a layer recognises
_HELD_ALREADY: Final = "without effect: the slot held this value already"
_RETURNED_ORIGINAL: Final = "without effect: the factory returned the original"


def _tell_its_name(value: Any, slot: Slot) -> None:
    """Call ``__set_name__`` of a new descriptor with class and name, as a class statement does."""
    if isinstance(slot, AttributeSlot) and slot.in_class is not None and hasattr(type(value), "__set_name__"):
        value.__set_name__(slot.in_class, slot.name)


def derived() -> list[FunctionType | type]:
    """Return the living functions and classes that patches have derived."""
    return list(_derived_values.values())


_derived_values: Final[WeakValueDictionary[int, FunctionType | type]] = WeakValueDictionary()
