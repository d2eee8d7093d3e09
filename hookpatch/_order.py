"""In which order the layers of a site lie, and which of them cannot lie there together."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

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
    if not any(layer.patch.before or layer.patch.after for layer in by_rank):
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


def _names(layer: Layer, names: Sequence[str]) -> bool:
    return layer.plugin is not None and normalise(layer.plugin) in map(normalise, names)


def _refuse_conflict(layers: Sequence[Layer], site: object) -> None:
    putting = [layer for layer in layers if not layer.wraps]
    for at, layer in enumerate(putting):
        for other in putting[at + 1 :]:
            placed = any(
                _names(b, a.patch.before) or _names(b, a.patch.after) for a, b in ((layer, other), (other, layer))
            )
            if layer.plugin and other.plugin and layer.owner != other.owner and not placed:
                raise ConflictError(
                    layer.patch.address,
                    layer.owner,
                    f"{other.owner} puts a value of its own there, too ({other.patch.verb}); "
                    "select one of them, or let one declare its place with before= or after=",
                )
