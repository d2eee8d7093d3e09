"""In which order the layers of a site lie, and which of them cannot lie there together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise, permutations
from typing import Final, final

from hookpatch._layer import Layer
from hookpatch._selection import normalise
from hookpatch.errors import ConflictError, OrderError


def ordered(layers: Sequence[Layer], site: object) -> list[Layer]:
    """Return layers from the outermost to the innermost.

    By ``before`` and ``after``, then by rank: a session opened later lies outside, and in one session the first
    selected does.

    Args:
        layers: the layers of one site, as they came; it is of the last that an error tells.
        site: how messages name the site.

    Raises:
        OrderError: ``before`` and ``after`` form a cycle.
        ConflictError: two plugins put values of their own and neither declares its place.
    """
    _refuse_conflict(layers)
    by_rank = sorted(layers, key=lambda layer: layer.rank, reverse=True)
    if not any(map(_declares, by_rank)):
        return by_rank
    sorter: TopologicalSorter[Layer] = TopologicalSorter(dict.fromkeys(by_rank, ()))
    for outer, inner in permutations(by_rank, 2):
        if outer.owner != inner.owner and _declared(outer, inner):
            sorter.add(inner, outer)
    try:
        sorter.prepare()
    except CycleError as error:
        raise _order_error(site, error.args[1][:-1]) from None
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
    if not layers or layers[0] is layer:  # as it mostly is
        return 0
    return bisect_left(layers, True, key=lambda other: other.rank <= layer.rank)


def _declares(layer: Layer) -> bool:
    return bool(layer.patch.before or layer.patch.after)


def _order_error(site: object, around: Sequence[Layer]) -> OrderError:
    """Return the error of a cycle: from the first name of the alphabet on, in whatever order they were selected."""
    names = [layer.plugin or layer.owner for layer in around]
    first = names.index(min(names))
    cycle = [*around[first:], *around[: first + 1]]
    declared = [_declared(outer, inner) or "" for outer, inner in pairwise(cycle)]
    return OrderError(site, [layer.plugin or layer.owner for layer in cycle], declared)


def _declared(outer: Layer, inner: Layer) -> str | None:
    """Return in words which of two layers declares that it lies on this side of the other, None if neither does."""
    if name := _named(inner, outer.patch.before):
        return f"{outer.owner} declares before='{name}'"
    if name := _named(outer, inner.patch.after):
        return f"{inner.owner} declares after='{name}'"
    return None


def _named(layer: Layer, names: Sequence[str]) -> str | None:
    """Return the first of these names, of which some are ``name@distribution``, that is that of a layer's plugin."""
    if layer.plugin is None or not names:
        return None
    own, of = normalise(layer.plugin), normalise((layer.distribution or "").partition(" ")[0])
    for name in names:
        plain, _, distribution = name.partition("@")
        if normalise(plain) == own and normalise(distribution) in ("", of):
            return name
    return None


def _refuse_conflict(layers: Sequence[Layer]) -> None:
    putting = [layer for layer in layers if layer.plugin and not layer.wraps]
    for there, comes in combinations(putting, 2):
        if there.owner != comes.owner and not (_declared(there, comes) or _declared(comes, there)):
            raise ConflictError(
                comes.patch.address,
                comes.owner,
                f"{there.owner} puts a value of its own there, too ({there.patch.verb}); "
                "select one of them, or let one declare its place with before= or after=",
            )
