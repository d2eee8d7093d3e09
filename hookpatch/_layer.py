"""One patch at one site, ready to be put in order among the others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from types import FunctionType
from typing import Any, Final, Protocol, TypeAlias, final
from weakref import WeakValueDictionary

from hookpatch._beneath import beneath
from hookpatch._calls import takes
from hookpatch._function_slot import FunctionSlot
from hookpatch._guard import check_call, check_value
from hookpatch._patch import CALL_VERBS, Patch, Wrapper
from hookpatch._slot import ABSENT, Slot, inner
from hookpatch._trampoline import pass_through

Count: TypeAlias = Callable[[Any, Slot, "Layer"], Any]  # what makes of a value one whose calls are counted
Gate: TypeAlias = Callable[[Wrapper], Wrapper]  # what makes a wrapper ask at each call whether it is to run


class Notes(Protocol):
    """Notes what becomes of a layer."""

    def left_out(self, error: Exception | None) -> Callable[[], None] | None:
        """Note that it cannot lie there, and why, or that it lies there again.

        Returns:
            What is to be said of it once nothing of ours is locked.
        """


_NONE: Final[dict[int, Any]] = {}  # of those that have none, which are most; never written to


@final
class Layer:
    """One Patch at one Site. Lives until its session ends or its module is executed anew.

    Attributes:
        patch: the declaration.
        plugin: the plugin's name, None for a patch given to ``active``.
        distribution: the plugin's distribution with its version, None likewise.
        owner: how messages name who asked for it.
        wraps: True when it runs around calls, False when it puts a value of its own.
        rank: its place before ``before`` and ``after`` are looked at; the greater lies outside.
        ended: True when it passes through for good.
        is_left_out: True while it cannot lie over what is beneath it.
        notes: who is told when a layer beneath it has gone and it cannot lie over what is left, and when it can again.
        call: the wrapper it runs at each call; one that passes through once it has ended.
        standing: the Standing that is at its site for it and for those around the same, None if it puts a value.
    """

    __slots__ = (
        *("_count", "_counted", "_derived", "_gate", "call", "distribution", "ended", "is_left_out"),
        *("owner", "notes", "patch", "plugin", "rank", "standing", "wraps"),
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
    ) -> None:
        self.patch: Final = patch
        self.plugin: Final = plugin
        self.distribution: Final = distribution
        self.owner: Final = owner
        self.rank: Final = rank
        self.wraps: Final = patch.verb in CALL_VERBS
        self._gate: Final = gate
        self.call: Wrapper = pass_through
        if patch.verb == "wrap":
            self.call = patch.change if gate is None else gate(patch.change)
        # What was derived from what: once for each value below, so that a derived class is the same class as long as
        # the session lasts, and in all the slots that the patch goes to.
        self._derived: Final = _NONE if patch.verb != "derive" else {} if derived is None else derived
        self._count: Final = count
        # By the value that is counted, which the patch or _derived keeps.
        self._counted: Final[dict[int, Any]] = _NONE if count is None else {}
        self.ended = False
        self.is_left_out = False
        self.notes: Notes | None = None
        self.standing: Any = None

    @property
    def asks_for_object(self) -> bool:
        """True when its wrapper asks what object a method is called on; one that injects only hands arguments on."""
        return self.patch.verb == "wrap"

    @property
    def is_gated(self) -> bool:
        """True when at each call it asks whether it is to run, or counts."""
        return self._gate is not None or self._count is not None

    def value(self, below: Any, slot: Slot) -> Any:
        """Return what this layer puts over ``below`` in a slot: the value given, the value derived, or ABSENT.

        Raises:
            SignatureError: what was derived, for a slot that held a function, does not take what that takes.
        """
        if self.patch.verb == "replace":
            return self._as_counted(self.patch.change, slot)
        if self.patch.verb == "remove":
            return ABSENT
        if id(below) not in self._derived:
            made = self.patch.change(below)
            check_value(self.patch, slot, _original(slot), made, self.owner)
            self._derived.setdefault(id(below), (below, made))  # the first, if threads make two
            inside = inner(made)
            if isinstance(inside, (FunctionType, type)):
                _made[id(inside)] = inside
        return self._as_counted(self._derived[id(below)][1], slot)

    def _as_counted(self, value: Any, slot: Slot) -> Any:
        """Return what stands for a value whose calls are to be counted, the same each time."""
        if self._count is None:
            return value
        if id(value) not in self._counted:
            self._counted.setdefault(id(value), self._count(value, slot, self))
        return self._counted[id(value)]

    def seeing_to(self, call: Wrapper) -> Layer:
        """Return a layer of the same patch that runs something else around calls."""
        other = Layer(self.patch, self.plugin, self.owner, self.rank, distribution=self.distribution)
        other.call = call
        return other

    def fit(self, callee: Any, binds: bool, before: int) -> None:
        """Get ready to run around a callee.

        Args:
            callee: the function, or what else is called.
            binds: True when its first parameter is the object or class that it is called on.
            before: how many arguments a wrapper that asks for no object gets before those: that object, or none.

        Raises:
            SignatureError: it does not take an argument that is to be given, or has not a parameter that is expected.
        """
        if self.ended or (self.patch.verb != "inject" and not self.patch.expects):
            return
        parameters = takes(callee, binds)
        if parameters is not None:
            check_call(self.patch, parameters, self.owner)
        if self.patch.verb == "inject":
            call = _injector(self.patch.change, parameters or [], before)
            self.call = call if self._gate is None else self._gate(call)
        if self.ended:  # in another thread, meanwhile
            self.call = pass_through

    def derived_from(self, made: Any) -> Any:
        """Return what it has derived a value from, ABSENT if it has not."""
        derived = list(self._derived.values())
        return next((below for below, value in derived if made is self._counted.get(id(value), value)), ABSENT)

    @property
    def put(self) -> tuple[Any, ...]:
        """What it has put into its slots; nothing for one that runs around calls."""
        if self.wraps:
            return ()
        values = [derived for _, derived in list(self._derived.values())]
        if self.patch.verb != "derive":
            values = [self.patch.change]
        return tuple(self._counted.get(id(value), value) for value in values)

    def leave_out(self, error: Exception | None) -> Callable[[], None] | None:
        """Note whether it can lie at its site; return what is to be said of a change."""
        if (error is not None) == self.is_left_out:
            return None
        self.is_left_out = error is not None
        notes = self.notes  # another thread may end it
        return None if notes is None else notes.left_out(error)

    def end(self) -> None:
        """Pass through from now on, wherever its wrapper has got to."""
        self.ended = True
        self.call = pass_through
        self.notes = None

    def __repr__(self) -> str:
        return f"<Layer: {self.patch.verb} of {self.patch.address} by {self.owner}>"


def derived() -> list[FunctionType | type]:
    """Return the functions and classes that patches have made of what they found, and that somebody holds."""
    return list(_made.values())


_made: Final[WeakValueDictionary[int, FunctionType | type]] = WeakValueDictionary()


def _original(slot: Slot) -> Any:
    """Return what a slot holds without our layers: callers know that, and not what other patches made of it."""
    return (slot.copy or slot.owner) if isinstance(slot, FunctionSlot) else beneath(slot)


def _injector(arguments: Mapping[str, Any], parameters: Sequence[Parameter], before: int) -> Wrapper:
    by_place = [
        (place, parameter.name, parameter.kind is Parameter.POSITIONAL_ONLY)
        for place, parameter in enumerate(parameters, before)
        if parameter.name in arguments
        and parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]

    # A call with fewer arguments by place than this has none to be changed: most calls.
    least = min((place + 1 - positional_only for place, _, positional_only in by_place), default=sys.maxsize)

    def injected(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = {name: _fresh(value) for name, value in arguments.items()}
        if len(args) < least:
            return wrapped(*args, **{**kwargs, **given})
        placed = list(args)
        for place, name, positional_only in by_place:
            if place < len(placed):
                placed[place] = given.pop(name)
            elif positional_only and place == len(placed):
                placed.append(given.pop(name))
        return wrapped(*placed, **{**kwargs, **given})

    if any(_fresh(value) is not value for value in arguments.values()):
        return injected

    def added(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # The same for most calls, in a tenth less of their time: nothing to copy, and nothing of it is given already.
        if kwargs or len(args) >= least:
            return injected(wrapped, instance, args, kwargs)
        return wrapped(*args, **arguments)

    return added


def _fresh(value: Any) -> Any:
    """Return a copy of built-in containers, whatever else they hold as it is: tensors and models are not copied."""
    if type(value) is dict:
        return {key: _fresh(entry) for key, entry in value.items()}
    if type(value) in (list, set):
        return type(value)(map(_fresh, value))
    return value
