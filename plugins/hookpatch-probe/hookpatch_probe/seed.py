"""One state of the random number generators for each run, and afterwards the one that was there before."""

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
    """Seed torch (CUDA too if it is in use), NumPy if it is imported, and Python; put back what was there."""
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
