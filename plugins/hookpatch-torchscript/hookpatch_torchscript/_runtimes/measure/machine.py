"""Describe the machine: processor, cores, threads, versions."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import torch


def machine(device: str) -> dict[str, Any]:
    """Return the processor, the cores, the number of threads, and the versions; for ``cuda`` the GPU, too."""
    about: dict[str, Any] = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }
    if device == "cuda" and torch.cuda.is_available():
        about["gpu"] = torch.cuda.get_device_name()
        about["cuda"] = torch.version.cuda
    return about


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
