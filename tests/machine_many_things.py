"""The objects of the machine of many places: patches, functions, foreign functions, classes and slots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from machine_many_slots import EDITS
from machine_slots import MISSING
from model import NOTHING, Call, Foreign, Given, Lifecycle, Origin, Ours, Place, Thing

import hookpatch


@dataclass(eq=False)
class Asked(Lifecycle):
    """A patch of a session; the label is the address."""

    seen: set[Place] = field(default_factory=set)  # the slots of a rule that were matched
    edited: list[list[Asked]] = field(default_factory=list)
    bases: list[Kind] = field(default_factory=list)  # the classes of an address with instances, one for each reload
    adopted: list[Instance] = field(default_factory=list)  # the instances found

    @property
    def is_of_module(self) -> bool:
        return ":" not in self.label

    @property
    def path(self) -> str:
        return self.label.partition(":")[2]

    @property
    def is_of_instances(self) -> bool:
        return "()" in self.label

    @property
    def is_rule(self) -> bool:
        return not self.is_of_instances and ("*" in self.label or "+" in self.label)

    def patch(self) -> hookpatch.Patch:
        tag, facts, address = self.tag, {"why": self.tag}, self.label
        if self.verb == "edit":
            return hookpatch.edit(address, '"c" + first', f'"c{tag}" + first', why=tag, reload=True)
        if self.verb == "transform":
            changed: Any = lambda text: text.replace('return "d', f'return "d{tag}')  # noqa: E731 - typed
            before = {"before": "many-inner"} if self.owner == "outer" else {}
            return hookpatch.transform(address, changed, why=tag, reload=True, **before)  # type: ignore[arg-type]
        if self.owner == "outer" and self.verb not in EDITS:  # an edit lies innermost
            facts["before"] = "many-inner"
        if self.is_rule:
            facts["matches"] = ">=0"  # type: ignore[assignment]  # mixed values
        if self.verb in EDITS:
            old = {"first": '"1"', "second": '"2"'}[self.verb]
            return hookpatch.edit(address, f"{self.verb} = {old}", f"{self.verb} = {tag!r}", **facts)  # type: ignore[arg-type]
        facts["reach"] = self.reach
        declare: Any = getattr(hookpatch, self.verb)
        if self.verb == "wrap":
            return declare(address, lambda w, i, a, k: f"{tag}({w(*a, **k)})", **facts)
        if self.verb in ("inject", "default"):
            return declare(address, {"x": tag}, **facts)
        if self.path.endswith(".n"):
            self.value = Given(tag, tag)
            return declare(address, tag if self.verb == "replace" else lambda was: f"{tag}[{was}]", **facts)
        make = made_method if self.path.endswith("run") else made
        if self.verb == "replace":
            value = make(tag)
            self.value = Given(tag, value)
            return declare(address, value, **facts)
        return declare(address, lambda low: make(tag, low), **facts)


def made(tag: str, low: Any = None) -> Callable[..., str]:
    def made(x: str = "") -> str:
        return f"{tag}[{low(x=x) if x else low()}]" if low else tag

    return made


def made_method(tag: str, low: Any = None) -> Callable[..., str]:
    def made(self: Any, x: str = "") -> str:
        return f"{tag}[{low(self, x=x) if x else low(self)}]" if low else tag

    return made


class Body(Thing):
    """The code of a function of a module: its letter, its edits, the place of the method called by super."""

    def __init__(self, letter: str, above: Place | None) -> None:
        self.letter: Final = letter
        self.above: Final = above
        self.edits: Final[dict[str, list[Asked]]] = {"first": [], "second": []}

    def answer(self, x: str, call: Call) -> str:
        pieces = [edits[-1].tag if edits else number for number, edits in zip("12", self.edits.values(), strict=True)]
        if self.above is not None:
            pieces.append(self.above.found().answer("", call))
        return self.letter + "".join(pieces) + x


class Value(Thing):
    """The own value of an instance."""

    def __init__(self, name: str, value: Any) -> None:
        self.name: Final = name
        self.note = (value,)

    def answer(self, x: str, call: Call) -> str:
        return "n" if self.name == "n" else f"g{x}"


class Function(Origin):
    """A function of a module."""

    def __init__(self, value: Any, letter: str, above: Place | None = None) -> None:
        super().__init__(value)
        self.body: Final = Body(letter, above)
        self.inside = Place("inside", self.body)


class Wrapping(Foreign):
    """A foreign function around the value found in the slot. The function may have layers inside."""

    def __init__(self, tag: str, below: Thing, home: str) -> None:
        super().__init__(tag, below, is_proxy=False)
        self.home: Final = home
        self.inside = Place("inside", Foreign(tag, below, is_proxy=False))

    def answer(self, x: str, call: Call) -> str:
        return self.inside.content.answer(x, call)


class Alien(Given):
    """A foreign function in place of the value found in the slot. The function may have layers inside."""

    def __init__(self, tag: str, value: Any) -> None:
        super().__init__(tag, value)
        self.inside = Place("inside", Given(tag, value))

    def answer(self, x: str, call: Call) -> str:
        return self.inside.content.answer(x, call)


@dataclass(eq=False)
class Kind:
    """A class of the model; a reload makes another class of the same name."""

    name: str
    cls: type
    base: Kind | None
    place: Place  # of the method

    @property
    def mro(self) -> list[Kind]:
        return [self, *([] if self.base is None else self.base.mro)]


@dataclass(eq=False)
class Spot:
    """A slot of a module, a class or a table, read without hookpatch."""

    place: Place
    owner: Any
    name: str

    @property
    def label(self) -> str:
        return self.place.label

    def raw(self) -> Any:
        return (self.owner if type(self.owner) is dict else vars(self.owner)).get(self.name, MISSING)

    def set(self, value: Any) -> None:
        if type(self.owner) is dict:
            self.owner[self.name] = value
        elif value is not MISSING:
            setattr(self.owner, self.name, value)
        elif self.raw() is not MISSING:
            delattr(self.owner, self.name)


class Instance:
    """An instance, with a place for each name: the method has an own value by foreign code only."""

    def __init__(self, value: Any, kind: Kind, called: Any, is_of_module: bool = False) -> None:
        self.value: Final = value
        self.is_of_module: Final = is_of_module
        self.spots: Final[dict[str, Spot]] = {}
        self.origins: Final = {"n": Value("n", "n"), "call": Value("call", called)}
        for name in ("n", "call"):
            self.put(name, self.origins[name])
        self.become(kind)

    def become(self, kind: Kind) -> None:
        """Take a class."""
        self.kind = kind
        self.put("run", NOTHING)

    def put(self, name: str, content: Thing) -> None:
        """Begin a place with a value."""
        parent = self.kind.place if name == "run" else None
        self.spots[name] = Spot(Place(f"{name} of an instance", content, parent), self.value, name)


def innermost(value: Thing) -> Thing:
    """Return the function inside its decorators."""
    while isinstance(value, (Foreign, Ours)) and not (isinstance(value, Wrapping) and value.home != "wraps"):
        value = value.below
    return value


def is_at_home(value: Thing) -> bool:
    """Return True if no other module claims a value: functools.wraps copies the module's name, a proxy has none."""
    return (isinstance(value, Foreign) and value.is_proxy) or isinstance(innermost(value), Function)


def own(place: Place) -> Thing:
    """Return the value that the owner itself has without our layers."""
    return place.base if place.layers else place.content


def called(get: Callable[[], Any], x: str) -> str:
    return str(get()(x=x) if x else get()())


def without_layers(place: Place) -> Thing:
    """Return the value in a slot; the value without our layers if the slot holds our value."""
    return place.base if place.layers and place.content is place.wanted else place.content
