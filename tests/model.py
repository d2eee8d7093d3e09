"""A model of what every slot must hold, without hookpatch's code, for promises/test_machine.py.

A Thing is an object that may lie in a place, and what a call of it answers. A Place is a slot: what lies there, and
the layers over it. The rules of the model are these:

- Over what lay there when the first layer came, layers lie in order. Those around calls that lie next to each other
  are one object of ours, which stays the same while they come and go, and passes through once they have ended.
- What belongs there is put there only where the original or an object of ours lies, be it beneath somebody's proxies.
- Where an object of ours comes to light again, what belongs there is put there: the original, if no layer is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final


class Refused(Exception):
    """The model says that a patch cannot be applied."""


class Locked(Exception):
    """The model says that the owner refuses to be set."""


class Thing:
    """An object that may lie in a place.

    Attributes:
        note: the object in a tuple, empty until it has been seen. In a tuple, because reach="everywhere" goes to
            attributes of objects, too, but takes a tuple without a name for what somebody noted down.
    """

    note: tuple[Any, ...] = ()

    def answer(self, x: str, here: bool) -> str:
        """Return what a call answers, with an argument, inside or outside of the task of this test."""
        raise NotImplementedError


class Nothing(Thing):
    """No object: the name or key is absent."""


NOTHING: Final = Nothing()


class Origin(Thing):
    """What a module made when it was executed. A function may have layers inside."""

    def __init__(self, thing: Any, takes: bool = True) -> None:
        self.note = (thing,)
        self.takes = takes
        self.inside = Place("inside", content=Text())

    def answer(self, x: str, here: bool) -> str:
        return self.inside.content.answer(x if self.takes else "", here)


class Text(Thing):
    """The code of a function."""

    def answer(self, x: str, here: bool) -> str:
        return f"o{x}"


class Given(Thing):
    """A value of a replace, or a foreign value."""

    def __init__(self, tag: str, thing: Any) -> None:
        self.tag: Final = tag
        self.note = (thing,)

    def answer(self, x: str, here: bool) -> str:
        return self.tag


class Derived(Thing):
    """What a derive made of what lay below."""

    def __init__(self, tag: str, below: Thing) -> None:
        self.tag: Final = tag
        self.below: Final = below

    def answer(self, x: str, here: bool) -> str:
        return f"{self.tag}[{self.below.answer(x, here)}]"


class Ours(Thing):
    """Our stand-in for layers around calls."""

    def __init__(self, below: Thing) -> None:
        self.below: Final = below
        self.layers: list[Layer] = []
        self.derived_by: set[Layer] = set()

    def answer(self, x: str, here: bool) -> str:
        return _around([layer for layer in self.layers if layer.is_open], self.below, x, here)


def _around(layers: Sequence[Layer], below: Thing, x: str, here: bool, is_given: bool = False) -> str:
    if not layers:
        return below.answer(x, here)
    layer, rest = layers[0], layers[1:]
    if layer.is_for_task and not here:
        return _around(rest, below, x, here, is_given)
    if layer.verb == "inject":
        return _around(rest, below, x if is_given else layer.tag, here, True)  # the outermost has the last word
    return f"{layer.tag}({_around(rest, below, x, here, is_given)})"


class Inherited(Thing):
    """What a class has from its base at the moment of a call."""

    def __init__(self, place: Place) -> None:
        self.place: Final = place

    def answer(self, x: str, here: bool) -> str:
        return self.place.found().answer(x, here)


class Foreign(Thing):
    """A foreign wrapper around the value that it found; ``is_proxy``: ``__wrapped__`` is the value that it calls."""

    def __init__(self, tag: str, below: Thing, is_proxy: bool) -> None:
        self.tag: Final = tag
        self.below = below
        self.is_proxy: Final = is_proxy

    def answer(self, x: str, here: bool) -> str:
        return f"{self.tag}<{self.below.answer(x, here)}>"


def leads(thing: Thing, wanted: Sequence[Thing]) -> bool:
    """Return True if a foreign wrapper, or what it wraps, calls one of these."""
    while isinstance(thing, (Foreign, Derived, Ours)):
        thing = thing.below
        if isinstance(thing, Inherited):
            thing = thing.place.beneath()
        if thing in wanted:
            return True
    return False


@dataclass(eq=False)
class Entry:
    """What the report says of one patch at one place."""

    state: str = "waiting"


@dataclass(eq=False)
class Lifecycle:
    """One patch of one session."""

    label: str
    verb: str
    reach: str
    owner: str | None
    in_words: bool
    tag: str
    rank: tuple[int, int] = (0, 0)
    is_for_task: bool = False
    value: Given | None = None
    module: str | None = None
    came_before: frozenset[str] = frozenset()
    entries: list[Entry] = field(default_factory=list)
    laid: list[tuple[Place, Layer]] = field(default_factory=list)
    derived: dict[Thing, Derived] = field(default_factory=dict)
    is_inside: bool = False  # of enter

    def entry(self) -> Entry:
        """Return the entry that waits, or a new one."""
        if self.entries and self.entries[-1].state == "waiting":
            return self.entries[-1]
        self.entries.append(Entry())
        return self.entries[-1]


class Layer:
    """One patch at one place."""

    def __init__(self, attempt: Lifecycle) -> None:
        self.attempt: Final = attempt
        self.verb, self.tag, self.rank = attempt.verb, attempt.tag, attempt.rank
        self.owner, self.is_for_task = attempt.owner, attempt.is_for_task
        self.is_open = True
        self.is_left_out = False
        self.home: tuple[Place, Thing, Thing] | None = None  # the target, if its function is changed inside
        self.entry: Entry | None = None  # None until it has been laid

    @property
    def is_around_calls(self) -> bool:
        return self.verb in ("wrap", "inject")

    def put_over(self, below: Thing) -> Thing:
        """Return what a replace, remove or derive puts there."""
        if self.verb == "remove":
            return NOTHING
        if self.verb == "replace":
            assert self.attempt.value is not None
            return self.attempt.value
        return self.attempt.derived.setdefault(below, Derived(self.tag, below))


def is_outside(one: str | None, other: str | None) -> bool:
    """Return True if the patches of an owner are declared to lie outside those of another."""
    return (one, other) == ("outer", "inner")


def in_order(layers: Iterable[Layer]) -> list[Layer]:
    """Return layers from the outermost to the innermost: the greatest rank first, but for what moves out of another.

    Raises:
        Refused: two plugins put values of their own, or give one argument, and neither declares its place.
    """
    rest = sorted(layers, key=lambda layer: layer.rank, reverse=True)
    for giving in (
        [layer for layer in rest if not layer.is_around_calls],
        [layer for layer in rest if layer.verb == "inject"],
    ):
        owners = {layer.owner for layer in giving} - {None}
        if "third" in owners and len(owners) > 1:
            raise Refused
    result: list[Layer] = []
    for layer in rest:
        for one in (*(other for other in rest if is_outside(other.owner, layer.owner)), layer):
            if one not in result:
                result.append(one)
    return result


class Place:
    """A slot.

    Attributes:
        content: what lies there.
        original: what lay there when its module was executed, and is to lie there at the very end.
        parent: the place of the base class, or of the class of an object, which has a name that is absent here.
        is_spoilt: True once its owner refused to have the original back.
    """

    def __init__(
        self,
        label: str,
        content: Thing,
        parent: Place | None = None,
        is_in_class: bool = False,
        is_stubborn: bool = False,
    ) -> None:
        self.label: Final = label
        self.content = self.original = content
        self.parent: Final = parent
        self.is_in_class: Final = is_in_class
        self.is_stubborn: Final = is_stubborn
        self.is_locked = False
        self.is_spoilt = False
        self.layers: list[Layer] = []
        self.warned: Counter[str] = Counter()
        self._foreign: list[tuple[Thing, Thing]] = []  # what was put there, and what it found there
        self._left: list[tuple[list[Thing], Thing, Entry]] = []  # ours, what is to take its place, who is to be told
        self._read_original()

    def _read_original(self) -> None:
        self.base = self.held = self.wanted = self.content
        self._below = self.found()
        self._ours: list[Ours] = []
        self._mine: list[Thing] = []  # all that we have put there
        self.was_taken = False

    def found(self) -> Thing:
        """Return what a user of the place gets."""
        if self.content is NOTHING and self.parent is not None:
            return self.parent.found()
        return self.content

    def beneath(self) -> Thing:
        """Return what a user of the place would get without our layers."""
        own = self.base if self.layers else self.content
        return self.parent.beneath() if own is NOTHING and self.parent is not None else own

    # --- our layers

    def add(self, layer: Layer) -> None:
        """Lay a layer."""
        if not self.layers:
            self._read_original()
        layers = in_order([*self.layers, layer])
        value, runs, left_out = self._laid(layers)
        if any(not one.is_left_out for one in left_out):
            raise Refused
        self._put(value, adding=True)
        self._commit(layers, value, runs, left_out)

    def drop(self, layer: Layer) -> None:
        """Take a layer off."""
        entry = layer.entry
        assert entry is not None
        is_overwritten = self.is_overwritten(layer)
        layer.is_open = False
        layers = [other for other in self.layers if other is not layer]
        value, runs, left_out = self._laid(layers)
        entry.state = "failed" if layer.is_left_out else "restored"
        self._commit(layers, value, runs, left_out)
        try:
            self._put(value)
        except Locked:
            entry.state = "failed"
            self.is_spoilt = self.is_spoilt or not layers
            raise
        if is_overwritten:
            entry.state = "overwritten"
            self.warned["DisplacedWarning"] += 1
        if layers:
            return
        if self.content is not self.base and not layer.is_left_out:
            if self._proxy_over([self.base]) is not None:
                self.warned["DisplacedWarning"] -= is_overwritten
                entry.state = "unlinked"
            elif is_overwritten:
                pass
            elif self.content is NOTHING or not layer.is_around_calls:
                entry.state = "displaced"
                self.warned["DisplacedWarning"] += 1
            else:
                entry.state = "dormant"
        if self._mine and (self.content is not self.base or self.was_taken):
            self._left.append((self._mine, self.base, entry))
        self._read_original()
        self.settle()

    def is_overwritten(self, layer: Layer) -> bool:
        """Return True if a foreign value lies there that does not lead to ours, or in the place of a layer's target."""
        if layer not in self.layers or layer.is_left_out:
            return False
        with suppress(Locked):
            self._put(self.wanted)
        if self.content is not self.held and not leads(self.content, [self.held, *self._mine]):
            return True
        if layer.home is None:
            return False
        home, own, thing = layer.home
        if home.content is own or home.content is thing:
            return False
        if home.layers and home.beneath() is thing:
            return home.is_overwritten(home.layers[0])
        return not leads(home.content, [thing])

    def refresh(self) -> None:
        """Lay the layers over the value that the slot holds now."""
        if self.layers and self.content is not self.held:
            self._read_original()
            value, runs, left_out = self._laid(self.layers)
            self._put(value)
            self._commit(self.layers, value, runs, left_out)

    def settle(self) -> None:
        """Restore the slot late, where our stand-in is back in it."""
        for left in list(self._left):
            ours, base, entry = left
            if self.content in ours:
                self.content = base
                if entry.state in ("unlinked", "dormant", "displaced", "overwritten"):
                    entry.state = "restored"
                self._left.remove(left)
        if self.layers:
            self._put(self.wanted)

    def _laid(self, layers: Sequence[Layer]) -> tuple[Thing, dict[Ours, list[Layer]], list[Layer]]:
        """Return what belongs there, which layers each object of ours runs, and which cannot lie there."""
        value = self._below
        run: list[Layer] = []
        runs: dict[Ours, list[Layer]] = {}
        left_out: list[Layer] = []
        for layer in reversed(layers):
            if layer.verb not in ("replace", "remove") and not run and value is NOTHING:
                left_out.append(layer)
            elif layer.is_around_calls:
                run = [layer, *run]
            else:
                over = self._over(value, run, runs, layers)
                if isinstance(over, Ours) and layer.verb == "derive":
                    over.derived_by.add(layer)
                value, run = layer.put_over(over), []
        is_untouched = not run and value is self._below
        return self.base if is_untouched else self._over(value, run, runs, layers), runs, left_out

    def _over(self, value: Thing, run: list[Layer], runs: dict[Ours, list[Layer]], layers: Sequence[Layer]) -> Thing:
        """Return what lies over a value for a run of layers: one that ran those of them that were there, and no other.

        A layer does not go from one object to another, for a call may be on its way through either. None comes to an
        object from which a layer that has gone derived: a call may be on its way from the derived value to the object.
        """
        if not run:
            return value
        inherits = value is self._below and self.base is NOTHING and self.is_in_class and self.parent is not None
        were_there = {layer for layer in run if layer in self.layers}
        for ours in self._ours:
            is_over_it = isinstance(ours.below, Inherited) if inherits else ours.below is value
            stays = ours.derived_by.issubset(layers) or were_there.issuperset(run)
            if is_over_it and stays and {layer for layer in ours.layers if layer in layers} == were_there:
                break
        else:
            ours = Ours(Inherited(self.parent) if inherits and self.parent is not None else value)
        runs[ours] = run
        return ours

    def _commit(
        self, layers: list[Layer], value: Thing, runs: dict[Ours, list[Layer]], left_out: Sequence[Layer]
    ) -> None:
        self.layers, self.wanted = layers, value
        for ours, run in runs.items():
            ours.layers = run
        # Somebody may hold one that stands there no more: it runs what it ran.
        self._ours = [
            ours for ours in dict.fromkeys([*runs, *self._ours]) if any(layer.is_open for layer in ours.layers)
        ]
        for layer in layers:
            if layer.is_left_out != (layer in left_out):
                layer.is_left_out = not layer.is_left_out
                if layer.entry is not None:
                    layer.entry.state = "failed" if layer.is_left_out else "applied"
                    self.warned["PatchFailedWarning"] += layer.is_left_out

    def _put(self, value: Thing, adding: bool = False) -> None:
        self.was_taken = self.was_taken or (self.content is value and self.held is not value)
        if self.content is not value:
            mine = [self.held, *self._mine]
            if self.content in mine:
                if self.is_locked:
                    raise Locked
                self.content = value
            elif (proxy := self._proxy_over(mine)) is not None and value is not NOTHING:
                proxy.below = value
            else:
                if adding and value is not self.held:
                    raise Refused
                return
            if value not in (NOTHING, self.base):
                self._mine.append(value)
        self.held = value

    def _proxy_over(self, wanted: list[Thing]) -> Foreign | None:
        thing = self.content
        while isinstance(thing, Foreign) and thing.is_proxy:
            if thing.below in wanted:
                return thing
            thing = thing.below
        return None

    # --- somebody else

    def is_changed_by_others(self) -> bool:
        """Return True if a foreign value is in the slot, or was there when our first layer came."""
        return bool(self._foreign) or (bool(self.layers) and self.base is not self.original)

    def put_foreign(self, thing: Thing) -> None:
        """Put a foreign value into the slot."""
        self._foreign.append((thing, self.content))
        self.content = thing

    def take_off_foreign(self) -> Thing:
        """Take the last one off; return what it puts back."""
        _, self.content = self._foreign.pop()
        return self.content
