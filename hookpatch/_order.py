"""In which order the layers of a site lie, and which of them cannot lie there together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from typing import Final, final

from hookpatch._layer import Layer
from hookpatch._selection import normalise
from hookpatch.errors import ConflictError, OrderError


def ordered(layers: Sequence[Layer], site: object) -> list[Layer]:
    """Return layers from the outermost to the innermost.

    By ``before`` and ``after``, then by rank: a session opened later lies outside, and in one session the first
    selected does.

    Args:
        layers: the layers of one site, in any order.
        site: how messages name the site.

    Raises:
        OrderError: ``before`` and ``after`` form a cycle.
        ConflictError: two plugins put values of their own and neither declares its place.
    """
    by_rank = sorted(layers, key=lambda layer: layer.rank, reverse=True)
    _refuse_conflict(by_rank, site)
    if not any(map(_declares, by_rank)):
        return by_rank
    sorter: TopologicalSorter[Layer] = TopologicalSorter(dict.fromkeys(by_rank, ()))
    for layer in by_rank:
        for other in by_rank:
            if layer.owner != other.owner:
                if _names(other, layer.patch.before):
                    sorter.add(other, layer)
                if _names(other, layer.patch.after):
                    sorter.add(layer, other)
    try:
        sorter.prepare()
    except CycleError as error:
        raise OrderError(site, [layer.plugin or layer.owner for layer in error.args[1]]) from None
    result: list[Layer] = []
    ready: list[Layer] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()], key=lambda layer: layer.rank, reverse=True)
        first = ready.pop(0)
        result.append(first)
        sorter.done(first)
    return result


@final
class Pile:
    """The layers of one site in order. Frozen: one more or one less is another pile.

    Where nobody declares a place only a few layers are looked at, so that the thousandth takes as long as the first.

    Attributes:
        layers: the outermost first.
    """

    __slots__ = ("_by_rank", "layers")

    def __init__(self, layers: Sequence[Layer] = (), by_rank: bool = True) -> None:
        self.layers: Final = layers
        self._by_rank: Final = by_rank

    def with_one_more(self, layer: Layer, site: object) -> Pile:
        """Return the pile with a layer.

        Raises:
            OrderError, ConflictError: as ``ordered``.
        """
        by_rank = self._by_rank and not _declares(layer)
        if not by_rank or (layer.plugin and not layer.wraps):
            return Pile(ordered([*self.layers, layer], site), by_rank)
        at = place(self.layers, layer)
        return Pile([*self.layers[:at], layer, *self.layers[at:]])

    def with_one_less(self, layer: Layer) -> Pile:
        """Return the pile without a layer."""
        at = self.place(layer)
        if at is None:
            return Pile([other for other in self.layers if other is not layer], self._by_rank)
        return Pile([*self.layers[:at], *self.layers[at + 1 :]])

    def again(self) -> Pile:
        """Return another pile of those layers that have not ended."""
        return Pile([layer for layer in self.layers if not layer.ended], self._by_rank)

    def place(self, layer: Layer) -> int | None:
        """Return where a layer lies; None where it does not, or where that is not by rank."""
        if not self._by_rank:
            return None
        at = place(self.layers, layer)
        return at if self.layers[at : at + 1] == [layer] else None


def place(layers: Sequence[Layer], layer: Layer) -> int:
    """Return where among layers that lie by rank a layer has its place."""
    return bisect_left(layers, True, key=lambda other: other.rank <= layer.rank)


def _declares(layer: Layer) -> bool:
    return bool(layer.patch.before or layer.patch.after)


def _names(layer: Layer, names: Sequence[str]) -> bool:
    return layer.plugin is not None and normalise(layer.plugin) in map(normalise, names)


def _refuse_conflict(layers: Sequence[Layer], site: object) -> None:
    putting = [layer for layer in layers if layer.plugin and not layer.wraps]
    for outer, inner in combinations(putting, 2):
        placed = any(_names(b, a.patch.before) or _names(b, a.patch.after) for a, b in ((outer, inner), (inner, outer)))
        if outer.owner != inner.owner and not placed:
            raise ConflictError(
                outer.patch.address,
                outer.owner,
                f"{inner.owner} puts a value of its own there, too ({inner.patch.verb}); "
                "select one of them, or let one declare its place with before= or after=",
            )
