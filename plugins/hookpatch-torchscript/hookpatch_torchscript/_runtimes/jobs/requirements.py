"""Check what a mode requires: a Python with TorchScript, packages, an execution provider."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Final

ONNX: Final = ("onnx", "onnxscript", "onnxruntime")
_LAST_PYTHON: Final = (3, 13)  # that torch.jit supports


class NotHereError(Exception):
    """A requirement of a mode is missing; the message is the whole reason."""


def without_torchscript(python: tuple[int, ...]) -> str | None:
    """Return why a Python has no TorchScript, None if it has.

    Args:
        python: the version, ``(3, 14)``.
    """
    if python[:2] <= _LAST_PYTHON:
        return None
    return f"torch does not support torch.jit on Python {python[0]}.{python[1]}"


def without_packages(names: Iterable[str]) -> str | None:
    """Return which packages are missing, and how to install them; None if none is missing."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    are = "is" if len(missing) == 1 else "are"
    return f"{', '.join(missing)} {are} not installed: pip install 'hookpatch-torchscript[onnxruntime]'"


def without_provider(name: str, release: str, providers: Iterable[str]) -> str | None:
    """Return why ONNX Runtime does not run on a device, None if it does.

    Args:
        name: the execution provider.
        release: the release of ONNX Runtime.
        providers: the available providers, or the providers that took the model.
    """
    if name in providers:
        return None
    return f"onnxruntime {release} did not take {name}, it has {', '.join(providers)}: install onnxruntime-gpu"
