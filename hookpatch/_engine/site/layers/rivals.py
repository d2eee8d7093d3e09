"""Compare the arguments that layers give: which of two layers has the last word, and what an outer layer gives."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from itertools import dropwhile, takewhile
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, final

from hookpatch._engine.calls.giving import Test
from hookpatch._engine.patch.describe import PLAIN
from hookpatch._engine.patch.patch import GIVING_VERBS, MAKING_VERBS, Patch
from hookpatch._engine.slots.slot import alike


class Rival(Protocol):
    """What is compared of a layer."""

    ended: bool
    rank: tuple[int, ...]

    @property
    def patch(self) -> Patch: ...

    @property
    def owner(self) -> object: ...

    @property
    def wraps(self) -> bool: ...

    @property
    def only(self) -> Any:
        """The only objects with the layer in effect, an ``Only``; None for all."""

    def gate_seen_from(self, inside: int) -> object:
        """Return an object that is true in the calls of the layer, seen from the layer at a place inside."""


RivalT = TypeVar("RivalT", bound=Rival)
_Gate: TypeAlias = tuple[Rival, object]  # a layer, and an object that is true while the layer injects
_BELOW: Final = " in the original"


def lost(outer: Sequence[Rival], layer: Rival, inner: Sequence[Rival]) -> str:
    """Return in words the given arguments without effect between other layers; empty if all are in effect."""
    if layer.patch.verb not in GIVING_VERBS:
        return ""
    outer = [*takewhile(_wraps, reversed(outer))]  # further out and in the calls pass a new value
    return in_words(giving(outer, layer), overriding([*takewhile(_wraps, inner)], layer))


def lost_beneath(layer: Rival, inner: Sequence[Rival]) -> str:
    """Return in words the given arguments that other patches inject beneath a value between; empty without any.

    The value between is derived or edited and may call the original, or is for some objects alone.
    """
    if layer.patch.verb not in GIVING_VERBS:
        return ""
    beneath = [*dropwhile(_wraps, inner)]
    reached = takewhile(lambda inner_layer: _wraps(inner_layer) or _calls_on(inner_layer), beneath)
    return in_words((), _rivals([*filter(_injects, reached)], layer), _BELOW)


def lost_inside(layer: Rival, inside: Sequence[Rival]) -> str:
    """Return in words the given arguments that patches of the function in place override; empty without any."""
    return in_words((), _rivals([*filter(_injects, inside)], layer))


def _wraps(layer: Rival) -> bool:
    return layer.wraps


def _injects(layer: Rival) -> bool:
    return layer.patch.verb == "inject"


def _calls_on(layer: Rival) -> bool:
    """Return True if calls may go from the value of a layer to the value below."""
    return layer.patch.verb in MAKING_VERBS or layer.only is not None


def in_words(
    giving: Sequence[tuple[Rival, list[str]]], overriding: Sequence[tuple[Rival, list[str]]], where: str = ""
) -> str:
    reasons = [
        f"{', '.join(names)}: given by {giver.owner}{giver.patch.in_calls}, which lies outside"
        for giver, names in giving
    ]
    reasons += [
        f"{', '.join(names)}: injected by {overrider.owner}{overrider.patch.in_calls}"
        for overrider, names in overriding
    ]
    return f"without effect{where} on {'; '.join(reasons)}" if reasons else ""


def giving(outer: Sequence[Rival], layer: Rival) -> list[tuple[Rival, list[str]]]:
    """Return the outer layers that give another value for an argument of a layer, each with the arguments' names."""
    givers = ("inject",) if layer.patch.verb == "inject" else ("inject", "default")
    return _rivals([outer_layer for outer_layer in outer if outer_layer.patch.verb in givers], layer)


def overriding(inner: Sequence[Rival], layer: Rival) -> list[tuple[Rival, list[str]]]:
    """Return the inner layers that override the arguments of a ``default``, each with the arguments' names."""
    return _rivals(
        [inner_layer for inner_layer in inner if inner_layer.patch.verb == "inject" and layer.patch.verb == "default"],
        layer,
    )


def _rivals(rivals: Sequence[Rival], layer: Rival) -> list[tuple[Rival, list[str]]]:
    rivals = [rival for rival in rivals if not rival.ended and rival.patch.may_meet(layer.patch)]
    return [(rival, names) for rival in rivals if (names := differing(rival, layer))]


def contested(layer: Rival, rival: Rival) -> list[str]:
    """Return the names of the parameters for which two layers of ``inject``, or of ``default``, differ."""
    return differing(layer, rival) if layer.patch.verb == rival.patch.verb in GIVING_VERBS else []


def differing(layer: Rival, rival: Rival) -> list[str]:
    ours, theirs = layer.patch.change, rival.patch.change
    if ours.keys().isdisjoint(theirs):  # mostly: the fastest check
        return []
    return sorted(name for name in ours.keys() & theirs if not alike(ours[name], theirs[name]))


@final
class Among(Generic[RivalT]):
    """The layers of a run, and the arguments that each gives to those inside. Lives as long as a change of the run.

    Each layer asks for all outside: answers are parts of lists that all layers share.

    Attributes:
        givers: the layers that inject, the outermost first.
    """

    __slots__ = ("_by_name", "_compared", "_places", "givers", "layers")

    def __init__(self, layers: Sequence[RivalT]) -> None:
        self.layers: Final = layers
        injecting = [(place, layer) for place, layer in enumerate(layers) if _injects(layer) and not layer.ended]
        self._places: Final = [place for place, _ in injecting]
        self.givers: Final = tuple(layer for _, layer in injecting)
        self._by_name: Final[dict[str, _Rivals]] = {}
        self._compared: Final[dict[int, tuple[list[tuple[int, RivalT]], list[tuple[int, RivalT]]]]] = {}

    def count(self, place: int) -> int:
        """Return the number of layers that inject outside of a place."""
        return bisect_left(self._places, place)

    def given_outside(self, layer: Rival, place: int) -> dict[str, tuple[list[Test], list[_Gate]]]:
        """Return the arguments for which outer layers inject other values, each with tests for the values, and gates.

        A gate is true in the calls in which the layer injects.
        """
        count = self.count(place)
        names = [name for name in layer.patch.change if count and self._rivals(name).is_outside(place)]
        given = {name: self._rivals(name).outside(layer, place) for name in names}
        return {name: entry for name, entry in given.items() if entry[0]}

    def _rivals(self, name: str) -> _Rivals:
        if name not in self._by_name:
            injecting = zip(self._places, self.givers, strict=True)
            self._by_name[name] = _Rivals(
                name, [(place, layer) for place, layer in injecting if name in layer.patch.change]
            )
        return self._by_name[name]

    def compared(self, before: tuple[RivalT, ...]) -> tuple[list[tuple[int, RivalT]], list[tuple[int, RivalT]]]:
        """Return which of earlier layers that inject have gone, and which layers have come since."""
        if (known := self._compared.get(id(before))) is None:
            earlier, now = {*before}, {*self.givers}
            gone, came = list(enumerate(before)), list(enumerate(self.givers))
            if [layer for layer in before if layer in now] == [layer for layer in self.givers if layer in earlier]:
                gone = [(place, layer) for place, layer in gone if layer not in now]
                came = [(place, layer) for place, layer in came if layer not in earlier]
            known = self._compared[id(before)] = gone, came
        return known


@final
class _Rivals:
    """The layers that inject one parameter, the outermost first. Lives as long as a change."""

    __slots__ = ("_asks_callers", "_by_value", "_gates", "_layers", "_name", "_places", "_tests")

    def __init__(self, name: str, placed: Sequence[tuple[int, Rival]]) -> None:
        self._name: Final = name
        self._places: Final = [place for place, _ in placed]
        self._layers: Final = [layer for _, layer in placed]
        self._asks_callers: Final = any(layer.patch.callers for layer in self._layers)
        self._tests: Final = [test_of(layer, name) for layer in self._layers]
        # With scope="task" another layer gives in some calls alone.
        self._gates: Final[list[_Gate]] = [(layer, layer.gate_seen_from(0)) for layer in self._layers]
        self._by_value: Final[dict[object, list[int]]] = {}  # of alike values: the numbers of the layers
        for number, layer in enumerate(self._layers):
            self._by_value.setdefault(_kind(layer.patch.change[name]), []).append(number)

    def is_outside(self, place: int) -> bool:
        """Return True if a layer is outside of a place."""
        return bool(self._places) and self._places[0] < place

    def outside(self, layer: Rival, place: int) -> tuple[list[Test], list[_Gate]]:
        """Return tests and gates of the outer layers that give another value than a layer at a place."""
        count, value = bisect_left(self._places, place), layer.patch.change[self._name]
        of_value = self._by_value.get(_kind(value), ())
        alike_ones = of_value[: bisect_left(of_value, count)]
        if self._asks_callers or (alike_ones and type(value) not in PLAIN):
            rivals = [rival for rival, names in _rivals(self._layers[:count], layer) if self._name in names]
            gates = [(rival, rival.gate_seen_from(place)) for rival in rivals]
            return [test_of(rival, self._name) for rival in rivals], gates
        tests, gates = self._tests[:count], self._gates[:count]
        for number in reversed(alike_ones):
            del tests[number], gates[number]
        return tests, gates


def _kind(value: Any) -> object:
    """Return a key: values with different keys are not ``alike``, and plain values with one key are."""
    kind = type(value)
    if kind in (list, tuple):
        return kind, tuple(map(_kind_inside, value))
    if kind is dict:
        return kind, tuple(map(_kind_inside, value)), tuple(map(_kind_inside, value.values()))
    return kind if kind in (set, frozenset) else _kind_inside(value)


def _kind_inside(value: Any) -> object:
    kind = type(value)
    return (kind, value) if kind in PLAIN else kind if kind in (list, tuple, set, frozenset, dict) else id(value)


def test_of(layer: Rival, name: str) -> Test:
    """Return a test for the value that a layer injects, in a call of an object with the layer in effect."""
    return partial(_is_injected, layer.patch.change[name], layer.only)


def _is_injected(injected: Any, only: Any, value: Any, of: Any) -> bool:
    """Return True for the value that a layer injects, in a call of an object with the layer in effect."""
    return alike(injected, value) and (only is None or only.is_for(of))


@final
class AnyGiver:
    """True in the calls in which one of some layers gives an argument. Lives as long as a link with it.

    A layer that another thread ends passes calls through, perhaps before the links follow.
    """

    __slots__ = ("_givers",)

    def __init__(self, givers: Sequence[_Gate]) -> None:
        self._givers: Final = givers

    def __bool__(self) -> bool:
        return any(gate for giver, gate in self._givers if not giver.ended)
