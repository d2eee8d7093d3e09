"""Why a model cannot be scripted, as script_explain tells it."""

from __future__ import annotations

from pathlib import Path

import torch

from hookpatch_torchscript._explain import explain
from hookpatch_torchscript._runtimes._job import TORCHSCRIPT


def script_reason(mode: str, model: torch.nn.Module) -> str | None:
    """Return the attribute or line that keeps a model from being scripted, in a line.

    Returns:
        None for another mode, and where scripting is not what failed.
    """
    if mode not in TORCHSCRIPT or not mode.startswith("script"):
        return None
    failure = explain(model).failure
    if failure is None:
        return None
    subject = f"{failure.subject}: " if failure.subject else ""
    place = f" ({Path(failure.place.file).name}:{failure.place.line})" if failure.place else ""
    return f"{subject}{failure.problem}{place}"
