"""A model of the value that every slot must hold, without hookpatch's code, for promises/test_machine.py.

A `Thing` is an object that a place may hold, with the answer of a call. A `Place` is a slot: its object, and the
layers over the object. The rules of the model:

- Layers lie in order over the object that the place held when the first layer came. Neighbouring layers around calls
  share a stand-in of ours. The stand-in stays the same object while layers come and go, and passes calls through once
  all its layers have ended.
- We write the wanted value only where the slot holds the original or a stand-in of ours, also beneath foreign proxies.
- A stand-in over a value of ours calls what lies beneath the value, once the value's layer has ended.
- Where a stand-in of ours returns to the slot, we write the wanted value: the original, if no layer is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple


class Refused(Exception):
    """The model says that a patch cannot be applied."""


class Locked(Exception):
    """The model says that the owner refuses to be set."""


class Call(NamedTuple):
    """A call: inside or outside of the task of this test, and the class of the instance, if of an instance."""

    is_inside: bool
    kind: str = ""


class Thing:
    """An object that may lie in a place.

    Attributes:
        note: the object in a tuple, empty until the test has seen the object. The tuple
            hides the object: reach="everywhere" changes attributes of objects, but leaves a tuple without a name alone.
    """

    note: tuple[Any, ...] = ()

    def answer(self, x: str, call: Call) -> str:
        """Return the answer of a call with an argument."""
        raise NotImplementedError


class Nothing(Thing):
    """No object: the name or key is absent."""


NOTHING: Final = Nothing()


class Origin(Thing):
    """An object that a module made when the module was executed. A function may have layers inside."""

    def __init__(self, value: Any, takes: bool = True) -> None:
        self.note = (value,)
        self.takes = takes
        self.inside = Place("inside", content=Text())

    def answer(self, x: str, call: Call) -> str:
        return self.inside.content.answer(x if self.takes else "", call)


class Text(Thing):
    """The code of a function."""

    def answer(self, x: str, call: Call) -> str:
        return f"o{x}"


class Given(Thing):
    """A value of a replace, or a foreign value."""

    def __init__(self, tag: str, value: Any) -> None:
        self.tag: Final = tag
        self.note = (value,)

    def answer(self, x: str, call: Call) -> str:
        return self.tag


class Derived(Thing):
    """A value that a derive made of the value below."""

    def __init__(self, tag: str, below: Thing) -> None:
        self.tag: Final = tag
        self.below: Final = below

    def answer(self, x: str, call: Call) -> str:
        return f"{self.tag}[{self.below.answer(x, call)}]"


class Between(Thing):
    """The function that chooses at each call: the value of a layer for the meant instances, else the value below."""

    def __init__(self, layer: Layer, value: Thing, below: Thing) -> None:
        self.layer: Final = layer
        self.value: Final = value
        self.below: Final = below

    def answer(self, x: str, call: Call) -> str:
        is_meant = self.layer.kinds is not None and call.kind in self.layer.kinds
        return (self.value if is_meant else self.below).answer(x, call)


class Ours(Thing):
    """A stand-in of ours for layers around calls."""

    def __init__(self, below: Thing) -> None:
        self.below = below
        self.layers: list[Layer] = []
        self.derived_by: set[Layer] = set()

    def answer(self, x: str, call: Call) -> str:
        return _around([layer for layer in self.layers if layer.is_open], self.below, x, call)


def _around(layers: Sequence[Layer], below: Thing, x: str, call: Call, is_given: bool = False) -> str:
    if not layers:
        return below.answer(x, call)
    layer, inner = layers[0], layers[1:]
    if layer.is_for_task and not call.is_inside:
        return _around(inner, below, x, call, is_given)
    if layer.kinds is not None and call.kind not in layer.kinds:
        is_of_subclass = layer.verb == "inject" and x == layer.tag and layer.attempt.is_for(call.kind)
        return _around(inner, below, x, call, is_given or is_of_subclass)
    if layer.verb == "inject":
        return _around(inner, below, x if is_given else layer.tag, call, True)  # the outermost has the last word
    if layer.verb == "default":
        return _around(inner, below, x or layer.tag, call, is_given)
    return f"{layer.tag}({_around(inner, below, x, call, is_given)})"


class Inherited(Thing):
    """The value that a class inherits from its base at the moment of a call."""

    def __init__(self, place: Place) -> None:
        self.place: Final = place

    def answer(self, x: str, call: Call) -> str:
        return self.place.found().answer(x, call)


class Foreign(Thing):
    """A foreign wrapper around the value found in the slot; ``is_proxy``: ``__wrapped__`` is the value called."""

    def __init__(self, tag: str, below: Thing, is_proxy: bool) -> None:
        self.tag: Final = tag
        self.below = below
        self.is_proxy: Final = is_proxy

    def answer(self, x: str, call: Call) -> str:
        return f"{self.tag}<{self.below.answer(x, call)}>"


def take_off(foreign: list[tuple[Any, Callable[[], None]]], index: int) -> None:
    """Remove one of the foreign values, in each slot the last value first: the removal restores the value found."""
    spot = foreign[index][0]
    last = max(place for place, (candidate, _) in enumerate(foreign) if candidate is spot)
    _, off = foreign.pop(last)
    off()
    spot.place.take_off_foreign()


def leads(value: Thing, wanted: Sequence[Thing]) -> bool:
    """Return True if a foreign wrapper, or any value beneath, calls a wanted value."""
    while isinstance(value, (Foreign, Derived, Between, Ours)):
        value = value.below
        if isinstance(value, Inherited):
            value = value.place.beneath()
        if value in wanted:
            return True
    return False


@dataclass(eq=False)
class Entry:
    """The state that the report gives for a patch at a place."""

    state: str = "waiting"


@dataclass(eq=False)
class Lifecycle:
    """A patch of a session, from its opening to its end."""

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
    is_inside: bool = False  # for the verb enter

    def is_for(self, kind: str) -> bool:
        """Return True if the instances of a class are meant."""
        return any(kind in layer.kinds for _, layer in self.laid if layer.kinds is not None)

    def entry(self) -> Entry:
        """Return the waiting entry, or a new entry."""
        if self.entries and self.entries[-1].state == "waiting":
            return self.entries[-1]
        self.entries.append(Entry())
        return self.entries[-1]


class Layer:
    """A patch at a place."""

    def __init__(self, attempt: Lifecycle) -> None:
        self.attempt: Final = attempt
        self.verb, self.tag, self.rank = attempt.verb, attempt.tag, attempt.rank
        self.owner, self.is_for_task = attempt.owner, attempt.is_for_task
        self.is_open = True
        self.is_left_out = False
        self.home: tuple[Place, Thing, Thing] | None = None  # the target's place, if its function is changed inside
        self.entry: Entry | None = None  # None until the layer has been laid
        self.derived = attempt.derived
        self.kinds: set[str] | None = None  # the classes of the meant instances, if of instances
        self.between: dict[Thing, Between] = {}

    @property
    def is_around_calls(self) -> bool:
        return self.verb in ("wrap", "inject", "default")

    @property
    def written_values(self) -> list[Thing]:
        """The values that the layer has written, without the absent value of a remove."""
        if self.kinds is not None:
            return [*self.between.values()]
        return [*self.derived.values(), *([] if self.attempt.value is None else [self.attempt.value])]

    def put_over(self, below: Thing, for_others: Thing) -> Thing:
        """Return the value that a replace, remove or derive writes over the value below."""
        value = self._value_over(below)
        return value if self.kinds is None else self.between.setdefault(below, Between(self, value, for_others))

    def _value_over(self, below: Thing) -> Thing:
        if self.verb == "remove":
            return NOTHING
        if self.verb == "replace":
            assert self.attempt.value is not None
            return self.attempt.value
        return self.derived.setdefault(below, Derived(self.tag, below))


def is_outside(outer: str | None, inner: str | None) -> bool:
    """Return True if the patches of an owner are declared to lie outside the patches of another owner."""
    return (outer, inner) == ("outer", "inner")


def in_order(layers: Iterable[Layer]) -> list[Layer]:
    """Return layers from the outermost to the innermost: by falling rank, except where an owner is declared outside.

    Raises:
        Refused: two plugins put values, or give the same argument, and neither plugin declares its place.
    """
    ranked = sorted(layers, key=lambda layer: layer.rank, reverse=True)
    result: list[Layer] = []
    for layer in ranked:
        for candidate in (*(outer for outer in ranked if is_outside(outer.owner, layer.owner)), layer):
            if candidate not in result:
                result.append(candidate)
    for giving in (
        [layer for layer in result if not layer.is_around_calls],
        [layer for layer in result if layer.verb == "inject"],
        [layer for layer in result if layer.verb == "default"],
    ):
        for place, inner in enumerate(giving):
            # A layer of some instances leaves the other instances to the layer inside.
            owners = {outer.owner for outer in giving[:place] if outer.kinds is None} - {None, inner.owner}
            if owners and inner.owner is not None and "third" in {*owners, inner.owner}:
                raise Refused
    return result


class Place:
    """A slot.

    Attributes:
        content: the object in the slot now.
        original: the object in the slot when its module was executed, to be restored at the very end.
        parent: the place of the base class, or of the class of an object, from where an absent name is inherited.
        is_spoilt: True once its owner refused to have the original restored.
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
        self._foreign: list[tuple[Thing, Thing]] = []  # the foreign value, and the value found in the slot
        self._left: list[tuple[list[Thing], Thing, Entry]] = []  # our values, the value to restore, the entry to update
        self._former: list[tuple[list[Ours], dict[Layer, Thing]]] = []  # of the module before each new execution
        self._read_original()

    def _read_original(self) -> None:
        self.base = self.held = self.wanted = self.content
        self._below = self.found()
        self._ours: list[Ours] = []
        self._beneath: dict[Layer, Thing] = {}  # the value beneath each layer that gives a value
        self._beneath_next = self._beneath
        self._mine: list[Thing] = []  # all values that we have written
        self.was_taken = False

    def found(self) -> Thing:
        """Return the value that a user of the place gets."""
        if self.content is NOTHING and self.parent is not None:
            return self.parent.found()
        return self.content

    def beneath(self) -> Thing:
        """Return the value that a user of the place would get without our layers."""
        own = self.base if self.layers else self.content
        return self.parent.beneath() if own is NOTHING and self.parent is not None else own

    # --- our layers

    def add(self, layer: Layer) -> None:
        """Lay a layer."""
        if not self.layers:
            self._read_original()
        layers = in_order([*self.layers, layer])
        value, runs, left_out = self._laid(layers)
        if any(not skipped.is_left_out for skipped in left_out) or self._removes_nothing(layer, layers):
            raise Refused
        self._put_value(value, adding=True)
        self._commit(layers, value, runs, left_out)

    def _removes_nothing(self, layer: Layer, layers: Sequence[Layer]) -> bool:
        """Return True for a new remove of an absent name that a layer outside adds."""
        is_over_nothing = layer.verb == "remove" and self.base is NOTHING and self._beneath_next[layer] is NOTHING
        return is_over_nothing and any(outer.verb == "replace" for outer in layers[: layers.index(layer)])

    def drop(self, layer: Layer) -> None:
        """Remove a layer."""
        entry = layer.entry
        assert entry is not None
        is_overwritten = self.is_overwritten(layer)
        layer.is_open = False
        layers = [remaining for remaining in self.layers if remaining is not layer]
        value, runs, left_out = self._laid(layers)
        entry.state = "failed" if layer.is_left_out else "restored"
        self._call_beneath(layer, runs)
        self._commit(layers, value, runs, left_out)
        try:
            self._put_value(value)
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
        self._former.clear()
        self._read_original()
        self.settle()

    def _call_beneath(self, ended: Layer, runs: dict[Ours, list[Layer]]) -> None:
        """Let the stand-ins that leave the slot call what lies beneath the value of an ended layer."""
        for stand_ins, values_beneath in [*self._former, (self._ours, self._beneath)]:
            beneath = values_beneath.get(ended, NOTHING)
            for ours in stand_ins if beneath is not NOTHING and not ended.is_left_out else ():
                if ours.below in ended.written_values and ours not in runs:
                    ours.below = beneath
                    ours.derived_by.add(ended)
            for layer, value in values_beneath.items():
                if value in ended.written_values:
                    values_beneath[layer] = beneath

    def is_overwritten(self, layer: Layer) -> bool:
        """Return True if a foreign value that does not call our stand-in is in the slot or at the target of a layer."""
        if layer not in self.layers or layer.is_left_out:
            return False
        if self._is_past([self.wanted, *self._values_of(layer)]):
            return True
        if layer.home is None:
            return False
        home, own, value = layer.home
        if home.content is own or home.content is value:
            return False
        if home.layers and home.beneath() is value:
            return home._is_past([home.wanted, value])
        return not leads(home.content, [value])

    def _is_past(self, wanted: Sequence[Thing]) -> bool:
        """Return True if the slot holds a foreign value that does not call a wanted value."""
        with suppress(Locked):
            self._put_value(self.wanted)
        return self.content not in [self.held, *self._mine] and not leads(self.content, wanted)

    def _values_of(self, layer: Layer) -> list[Thing]:
        """Return our values that run or hold a layer: a foreign value that leads to another of ours overwrites."""
        known = dict.fromkeys([*self._mine, *self._ours])
        runs: list[Thing] = [value for value in known if isinstance(value, Ours) and layer in value.layers]
        given = [] if layer.attempt.value is None else [layer.attempt.value]
        return [*runs, *given, *layer.derived.values()]

    def refresh(self) -> None:
        """Lay the layers over the value that the slot holds now."""
        if self.layers and self.content is not self.held:
            self._former.append((self._ours, self._beneath))
            self._read_original()
            value, runs, left_out = self._laid(self.layers)
            self._put_value(value)
            self._commit(self.layers, value, runs, left_out)

    def settle(self) -> None:
        """Restore the slot late, where our stand-in is back in the slot."""
        for leftover in list(self._left):
            ours, base, entry = leftover
            if self.content in ours:
                self.content = base
                if entry.state in ("unlinked", "dormant", "displaced", "overwritten"):
                    entry.state = "restored"
                self._left.remove(leftover)
        if self.layers:
            self._put_value(self.wanted)

    def _laid(self, layers: Sequence[Layer]) -> tuple[Thing, dict[Ours, list[Layer]], list[Layer]]:
        """Return the wanted value, the layers that each stand-in of ours runs, and the layers left out."""
        value = self._below
        run: list[Layer] = []
        runs: dict[Ours, list[Layer]] = {}
        left_out: list[Layer] = []
        self._beneath_next = {}
        for layer in reversed(layers):
            if layer.verb not in ("replace", "remove") and not run and value is NOTHING:
                left_out.append(layer)
            elif layer.is_around_calls:
                run = [layer, *run]
            else:
                over = self._over(value, run, runs, layers)
                if isinstance(over, Ours) and over in runs and layer.verb == "derive":  # not of a base class's place
                    over.derived_by.add(layer)
                for_others = Inherited(self.parent) if self._inherits(over) and self.parent is not None else over
                self._beneath_next[layer] = for_others
                value, run = layer.put_over(over, for_others), []
        is_untouched = not run and value is self._below
        return self.base if is_untouched else self._over(value, run, runs, layers), runs, left_out

    def _inherits(self, value: Thing) -> bool:
        is_base = value is self._below and self.base is NOTHING
        return is_base and self.is_in_class and self.parent is not None

    def _over(self, value: Thing, run: list[Layer], runs: dict[Ours, list[Layer]], layers: Sequence[Layer]) -> Thing:
        """Return the stand-in over a value for a run of layers: the stand-in of the earlier layers, or a new stand-in.

        A layer never moves to another stand-in: a call may be on its way through either stand-in. A stand-in from
        which an ended layer derived gets no new layer: a call may be on its way from the derived value to the stand-in.
        """
        if not run:
            return value
        inherits = self._inherits(value)
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
        self.layers, self.wanted, self._beneath = layers, value, self._beneath_next
        for ours, run in runs.items():
            ours.layers = run
        # Foreign code may hold a stand-in that has left the slot: the stand-in runs the same layers as before.
        self._ours = [
            ours
            for ours in dict.fromkeys([*runs, *self._ours])
            if any(layer.is_open for layer in ours.layers)
            or any(ours.below in layer.written_values for layer in layers)
        ]
        for layer in layers:
            if layer.is_left_out != (layer in left_out):
                layer.is_left_out = not layer.is_left_out
                if layer.entry is not None:
                    layer.entry.state = "failed" if layer.is_left_out else "applied"
                    self.warned["PatchFailedWarning"] += layer.is_left_out

    def _put_value(self, value: Thing, adding: bool = False) -> None:
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
                if adding and not (value is self.held and leads(self.content, [value])):
                    raise Refused
                return
            if value not in (NOTHING, self.base):
                self._mine.append(value)
        self.held = value

    def _proxy_over(self, wanted: list[Thing]) -> Foreign | None:
        value = self.content
        while isinstance(value, Foreign) and value.is_proxy:
            if value.below in wanted:
                return value
            value = value.below
        return None

    def execute(self, value: Thing) -> None:
        """Take the value of a new execution of the module, which throws away foreign values."""
        self.content = self.original = value
        self._foreign.clear()

    # --- foreign values

    def is_changed_by_others(self) -> bool:
        """Return True if a foreign value is in the slot, or was in the slot when our first layer came."""
        return bool(self._foreign) or (bool(self.layers) and self.base is not self.original)

    def put_foreign(self, value: Thing) -> None:
        """Put a foreign value into the slot."""
        self._foreign.append((value, self.content))
        self.content = value

    def take_off_foreign(self) -> Thing:
        """Remove the last foreign value; return the value that the removal restores."""
        _, self.content = self._foreign.pop()
        return self.content
