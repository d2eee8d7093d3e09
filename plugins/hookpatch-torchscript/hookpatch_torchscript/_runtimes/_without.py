"""What a mode wants and this machine does not have."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Final

ONNX: Final = ("onnx", "onnxscript", "onnxruntime")
_LAST_PYTHON: Final = (3, 13)  # that torch.jit supports


class NotHereError(Exception):
    """A mode wants something that is not here; the message is the whole reason."""


def without_torchscript(python: tuple[int, ...]) -> str | None:
    """Return why there is no TorchScript on a Python, None if there is.

    Args:
        python: its version, ``(3, 14)``.
    """
    if python[:2] <= _LAST_PYTHON:
        return None
    return f"torch does not support torch.jit on Python {python[0]}.{python[1]}"


def without_packages(names: Iterable[str]) -> str | None:
    """Return which of these packages are missing, and how to get them; None if they are here."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    are = "is" if len(missing) == 1 else "are"
    return f"{', '.join(missing)} {are} not installed: pip install 'hookpatch-torchscript[onnxruntime]'"


def without_provider(name: str, release: str, here: Iterable[str]) -> str | None:
    """Return why ONNX Runtime does not run on a device, None if it does.

    Args:
        name: the execution provider.
        release: of ONNX Runtime.
        here: the providers that it has, or that took the model.
    """
    if name in here:
        return None
    return f"onnxruntime {release} did not take {name}, it has {', '.join(here)}: install onnxruntime-gpu"
