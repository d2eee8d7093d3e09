"""Each call of torch.jit.script tells what it did, and a failing one what caused it and the mend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import hookpatch


@dataclass(frozen=True)
class Options:
    """Where the explanations go.

    Attributes:
        to: ``stderr``; or a file, to which each is added; or a folder (a path that ends with ``/``, or that is one),
            which gets a file each.
        form: ``text``, a tree; or ``json``, a line each (in a folder a file each).
        failures_only: True for those alone that failed, or left out a decorator.
        prove: True to apply remedies to a copy of the model in memory, script the copy, and compare its answers. The
            model's forward runs on guessed inputs for that, after a failure alone.
    """

    to: str = "stderr"
    form: Literal["text", "json"] = "text"
    failures_only: bool = False
    prove: bool = True


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Take part in each call of torch.jit.script."""
    from hookpatch_torchscript._report.output import Output
    from hookpatch_torchscript._scripting.recording import Trial, recording

    yield recording(Output(options.to, options.form, options.failures_only), trial=Trial(options.prove))
