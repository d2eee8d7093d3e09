"""Give each run the same state of the random number generators, and restore the earlier state afterwards."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

SEED: Final = 0


@contextmanager
def seeded(seed: int = SEED) -> Iterator[None]:
    """Seed torch (CUDA too if in use), NumPy if imported, and Python; restore the earlier states."""
    numpy = sys.modules.get("numpy.random")
    python, array = random.getstate(), numpy.get_state() if numpy is not None else None
    cuda: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch gives it no types
    devices = range(torch.cuda.device_count()) if cuda else ()
    try:
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            random.seed(seed)
            if numpy is not None:
                numpy.seed(seed)
            yield
    finally:
        random.setstate(python)
        if numpy is not None:
            numpy.set_state(array)
