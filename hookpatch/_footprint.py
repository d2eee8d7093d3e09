"""What hookpatch has in this process at a moment: open sessions, layers, watches, and what it could not take away."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator

from hookpatch import _children, _imports
from hookpatch._imports import Watch
from hookpatch._layer import Layer
from hookpatch._leftover import Leftover, leftovers
from hookpatch._session import Session, open_sessions
from hookpatch._site import Site
from hookpatch._sites import known, settle


def footprint() -> set[object]:
    """Return a key for each thing of ours that is there.

    It is the same at another moment if the thing is. No key keeps a session alive: that has to end when it is dropped.
    """
    return {key for key, _ in _things()}


def lines_beyond(before: Collection[object]) -> Iterator[str]:
    """Yield a line for each thing of ours that is there and is not among these keys."""
    if any(leftover not in before for leftover in leftovers() if leftover.is_covered):
        gc.collect()  # beneath what nobody holds any more there is no trace
    for key, thing in _things():
        if key in before:
            continue
        if isinstance(thing, Session):
            yield f"{thing!r} is open"
        elif isinstance(thing, Site):
            assert isinstance(key, Layer)  # a site has one thing for each of them
            yield f"{thing.slot} is patched by {by(key)}"
        elif isinstance(thing, Watch):
            yield f"module {thing.module} is waited for"
        elif isinstance(thing, Leftover):
            yield f"{thing.slot} holds what somebody else put over a patch that has ended since"
        else:
            yield "the finder of hookpatch is in place, and nobody waits for a module"


def held_by_sessions() -> set[object]:
    """Return the keys of the open sessions, and of their layers in modules that came since they were opened."""
    numbers = open_sessions().keys()
    return numbers | {key for key, _ in _things() if isinstance(key, Layer) and key.rank[0] in numbers}


def layers_at(key: tuple[object, ...]) -> list[Layer]:
    """Return the layers over the slot of that key, and over parts of what it holds; the outermost of each first."""
    return [layer for site in known() if site.slot.key[-len(key) :] == key for layer in site.layers]


def by(layer: Layer) -> str:
    """Return how messages name a patch and who asked for it."""
    return f"{layer.owner} ({layer.patch.verb} {layer.patch.address})"


def _things() -> Iterator[tuple[object, object]]:
    settle()  # what can be given back by now is no trace
    yield from open_sessions().items()
    yield from ((layer, site) for site in known() for layer in site.layers if not _children.is_for_blocks(layer))
    yield from ((leftover, leftover) for leftover in leftovers() if leftover.is_covered)
    waiting = _imports.pending()
    yield from ((watch, watch) for watch in waiting if not _children.is_for_blocks(watch))  # those are told themselves
    yield from ((finder, finder) for finder in _imports.finders(ours=True) if not (waiting or _imports.is_held()))
