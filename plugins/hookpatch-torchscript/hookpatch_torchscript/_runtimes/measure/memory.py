"""Measure the peak memory of this process, phase by phase."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Final, final

import torch

_STATUS: Final = Path("/proc/self/status")
_FORGET: Final = Path("/proc/self/clear_refs")
_PEAK: Final = "5"  # writing this to clear_refs resets the peak (Linux, man 5 proc_pid_clear_refs)


@final
class Watch:
    """Measures the peak of each phase, above the memory at the start.

    On a CPU this is the resident memory of the process: on Linux the peak of the phase alone, elsewhere the peak since
    the start of the process. On CUDA this is the memory of torch's allocator, and unknown for ONNX Runtime.

    Args:
        device: ``cpu`` or ``cuda``.
        mode: the mode that is measured, one of ``MODES``.
    """

    def __init__(self, device: str, mode: str) -> None:
        gc.collect()
        self._cuda: Final = device == "cuda"
        self._unknown: Final = self._cuda and mode == "onnxruntime"
        self._forget()
        peak = self._peak()
        self._before: Final = torch.cuda.memory_allocated() if self._cuda else peak

    def phase(self) -> int | None:
        """Return the peak of the phase in bytes, None if unknown, and start the next phase."""
        peak = self._peak()
        self._forget()
        return None if self._unknown or peak is None or self._before is None else max(peak - self._before, 0)

    def _peak(self) -> int | None:
        if self._cuda:
            torch.cuda.synchronize()
            return torch.cuda.max_memory_allocated()
        try:
            lines = _STATUS.read_text(encoding="utf-8").splitlines()
        except OSError:
            return _since_the_beginning()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)

    def _forget(self) -> None:
        if self._cuda:
            torch.cuda.reset_peak_memory_stats()
        elif _FORGET.exists():
            try:
                _FORGET.write_text(_PEAK, encoding="utf-8")
            except OSError:  # not allowed: peaks count since the start of the process
                return


def _since_the_beginning() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
