"""Explain why a model cannot be scripted, with ``explain``."""

from __future__ import annotations

from pathlib import Path

import torch

from hookpatch.errors import RequirementError
from hookpatch_torchscript._runtimes.jobs.job import TORCHSCRIPT
from hookpatch_torchscript._scripting.explain import explain


def script_reason(mode: str, model: torch.nn.Module) -> str | None:
    """Return the problem, with the attribute or line at fault, that prevents scripting a model.

    Returns:
        None for another mode, if scripting does not fail, and with a torch that ``explain`` does not know.
    """
    if mode not in TORCHSCRIPT or not mode.startswith("script"):
        return None
    try:
        failure = explain(model).failure
    except RequirementError:  # of an older torch
        return None
    if failure is None:
        return None
    subject = f"{failure.subject}: " if failure.subject else ""
    place = f" ({Path(failure.place.file).name}:{failure.place.line})" if failure.place else ""
    return f"{subject}{failure.problem}{place}"
