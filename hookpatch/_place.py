"""What a patch has done, and its undo: one layer at one site, or a context manager entered."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final
from weakref import ref

from hookpatch._hold import Ending
from hookpatch._imports import Watch
from hookpatch._layer import Layer
from hookpatch._ledger import Asked, Entry
from hookpatch._site import Site
from hookpatch._tally import Tally
from hookpatch.errors import DisplacedWarning, PatchFailedWarning


@final
@dataclass(slots=True, eq=False)
class Place:
    """One layer of a patch at one site. Lives from before it is laid there until what became of it is in its entry.

    Attributes:
        site: where it lies.
        layer: the layer.
        entry: its line in the ledger, None until it lies there.
        library: the watch for a library that is to know of what stands there.
    """

    site: Site
    layer: Layer
    entry: Entry | None = None
    library: Watch | None = None

    def note(self, entry: Entry, words: str | None, held: object, tally: Tally | None, warned: Sequence[str]) -> None:
        """Note that it lies there.

        Args:
            entry: its line in the ledger.
            words: the place in words, None for the patch's own target.
            held: what stood there.
            tally: what counts its calls, if they are counted.
            warned: what was said of the patch when it was applied.
        """
        self.entry = entry
        entry.become("applied")
        entry.place, entry.held, entry.put, entry.tally = words, held, self.layer.put, tally
        entry.warnings = () if words else tuple(warned)

    def left_out(self, error: Exception | None) -> Callable[[], None] | None:
        """Note that a patch that was applied has no effect, since another one beneath it has ended, or has it again."""
        assert self.entry is not None  # it lies there
        if error is None:
            self.entry.become("applied")
            return None
        self.entry.become("failed", f"no longer applied: {error}")
        said = f"{self.layer.patch.address} of {self.layer.owner}: {self.entry.reason}"
        return partial(warnings.warn, said, PatchFailedWarning, stacklevel=2)

    @property
    def held(self) -> Any:
        """What stood there, None for what is not looked for."""
        return None if self.entry is None else self.entry.held

    def let_go(self) -> None:
        """Keep nothing of it alive: the session may be kept for its report."""
        if self.entry is not None:
            self.entry.held, self.entry.put = None, ()

    def drop(self, asked: Asked) -> None:
        """Take it off, and note in its entry what became of the slot."""
        if self.library is not None:
            self.library.cancel()
        entry = self.entry or Entry(asked)  # none if another thread is about to lay it: it will not
        left_out = self.layer.is_left_out

        def note(ending: Ending) -> None:
            nonlocal entry
            entry = self.entry or entry
            if left_out:
                entry.become("failed", "was not applied when it ended: what it lay over had gone before")
            elif ending == "restored":
                entry.become("restored")
            else:
                entry.become(ending, _REASONS[ending].format(slot=self.site.slot))

        ending = self.site.drop(self.layer, note, partial(_given_back, ref(entry)))
        if ending == "displaced" and not left_out:
            said = f"{asked.patch.address} of {asked.owner}: {entry.reason}"
            warnings.warn(said, DisplacedWarning, stacklevel=2)


@final
@dataclass(slots=True, eq=False)
class Entered:
    """A context manager that was entered for a patch.

    Attributes:
        entry: its line in the ledger.
        stack: what leaves it.
    """

    entry: Entry
    stack: ExitStack

    def drop(self, asked: Asked) -> None:
        """Leave it."""
        self.stack.close()
        self.entry.become("restored")


def _given_back(entry: Callable[[], Entry | None]) -> None:
    """Note that a slot holds its original after all: weakly, for the entry knows the patch, which has what was put."""
    if (still_there := entry()) is not None and still_there.state in _REASONS:
        still_there.become("restored", "once what somebody else had put there was gone")


_REASONS: Final = {
    "unlinked": "somebody else's wrapper stands at {slot}; ours was taken out from beneath it",
    "dormant": "what somebody else put at {slot} lies over ours, which passes through from now on",
    "displaced": "somebody else changed {slot} meanwhile; it was left alone",
}
