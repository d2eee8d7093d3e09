"""Show what changed in an ONNX model: hookpatch onnx diff, and a recorder of the models that a program makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import hookpatch
from hookpatch_onnx._record.recorder import recorder

if TYPE_CHECKING:
    import typer


@dataclass(frozen=True)
class Options:
    """The options of the plugin.

    Attributes:
        folder: where the recorded models go.
    """

    folder: str


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Keep each model that comes out of torch.onnx.export, and goes into and comes out of onnxsim.simplify."""
    yield from recorder(options.folder)


@hookpatch.hookimpl
def hookpatch_commands(app: typer.Typer) -> None:
    """Add ``hookpatch onnx diff``."""
    from hookpatch_onnx._picture.command import diff  # needs onnx and rich, which a recorder does not

    app.command("diff")(diff)


@hookpatch.hookimpl
def hookpatch_run(value: str, run: Any) -> int:
    """Run a program plain and patched, and compare the models it makes: ``hookpatch run --graph-diff FOLDER``."""
    from hookpatch_onnx._picture.graph_diff import run_twice  # likewise

    return run_twice(value, run)
