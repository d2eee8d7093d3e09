"""Skip optimizer passes of one's choice at every call of onnxsim.simplify."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import hookpatch
from hookpatch_onnxsim._passes import skip_passes


@dataclass(frozen=True)
class Options:
    """What the plugin can be told.

    Attributes:
        passes: names of the passes to skip, as ``onnxsim --list-default-optimizers`` prints them.
    """

    passes: list[str]


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Skip the chosen passes at every call of onnxsim.simplify."""
    yield skip_passes(options.passes, why="these passes are not wanted")
