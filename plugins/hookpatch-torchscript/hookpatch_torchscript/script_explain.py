"""Explain each call of torch.jit.script: what was compiled, and the cause and the remedy of a failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import hookpatch


@dataclass(frozen=True)
class Options:
    """The options of the plugin.

    Attributes:
        to: ``stderr``; or a file, to which each explanation is added; or a folder (an existing folder, or a path with a
            final ``/``), which gets a file for each explanation.
        form: ``text``, a tree; or ``json``, a line for each explanation (in a folder a file).
        failures_only: True to write only explanations of calls that failed or left out a decorator.
        prove: True to apply remedies to a copy of the model in memory, script the copy, and compare the answers. The
            model's forward then runs on guessed inputs, but only after a failure.
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
