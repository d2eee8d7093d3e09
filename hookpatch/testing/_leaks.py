"""List the traces of hookpatch in the process: open sessions, layers, watches, late restores."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.imports import Watch
from hookpatch._engine.site.late_restore import LateRestore, late_restores
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.sites import all_sites, patched, restore_late
from hookpatch._processes import children
from hookpatch._session.session import Session, open_sessions


def footprint() -> set[object]:
    """Return a key for each trace; the key stays the same while the trace exists, and keeps no session alive."""
    return {key for key, _ in _traces()}


def lines_beyond(before: Collection[object]) -> Iterator[str]:
    """Yield a line for each trace whose key is not in ``before``."""
    if any(late_restore not in before for late_restore in late_restores() if late_restore.is_covered):
        gc.collect()  # ends the late restores of dead foreign values
    for key, trace in _traces():
        if key in before:
            continue
        if isinstance(trace, Session):
            yield f"{trace!r} is open"
        elif isinstance(trace, Site):
            assert isinstance(key, Layer)  # see _traces
            yield f"{trace.slot} is patched by {owner_in_words(key)}"
        elif isinstance(trace, Watch):
            yield f"module {trace.module} is waited for"
        elif isinstance(trace, LateRestore):
            yield f"{trace.slot} holds a foreign value, put over a patch that has ended since"
        else:
            yield "the finder of hookpatch is in place, and nobody waits for a module"


def held_by_sessions() -> set[object]:
    """Return the keys of the open sessions and of their layers, also in modules imported later."""
    numbers = open_sessions().keys()
    return numbers | {key for key, _ in _traces() if isinstance(key, Layer) and key.rank[0] in numbers}


def layers_at(key: tuple[object, ...]) -> list[Layer]:
    """Return the layers over the slot with the key, and over parts of its value; the outermost of each first."""
    return [layer for site in all_sites() if site.slot.key[-len(key) :] == key for layer in site.layers]


def owner_in_words(layer: Layer) -> str:
    """Return the owner and the patch of a layer in words."""
    return f"{layer.owner} ({layer.patch.verb} {layer.patch.address})"


def _traces() -> Iterator[tuple[object, object]]:
    """Yield a key and an object for each trace: for a layer the layer and its site."""
    restore_late()  # ends each late restore whose foreign value has gone
    yield from open_sessions().items()
    yield from ((layer, site) for site in patched() for layer in site.layers if not children.is_for_blocks(layer))
    yield from ((late_restore, late_restore) for late_restore in late_restores() if late_restore.is_covered)
    waiting = imports.pending()
    yield from ((watch, watch) for watch in waiting if not children.is_for_blocks(watch))
    yield from ((finder, finder) for finder in imports.finders(ours=True) if not (waiting or imports.holds_finder()))
