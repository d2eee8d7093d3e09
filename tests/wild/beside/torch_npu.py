"""transfer_to_npu's way, with a stand-in for the device: a loop of setattr over 104 names of torch.cuda."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from contextlib import suppress

import torch
from npu import npu

DISTRIBUTION, OWN = "", ("npu",)
SOURCES = ()  # the patch is written here

shop = types.ModuleType("shop")
exec("from torch.cuda import is_available, device_count\nASK = {'n': device_count}", vars(shop))
sys.modules["shop"] = shop


def apply() -> None:
    for name in npu.__all__:
        setattr(torch.cuda, name, getattr(npu, name))


def undo() -> None:
    """Do nothing: transfer_to_npu has no undo."""


def is_its(function: Callable[[], object]) -> bool:
    with suppress(Exception):  # torch.cuda raises errors without a GPU
        return str(function()).startswith("npu.")
    return False


def functions() -> list[Callable[[], object]]:
    """Return the functions of torch.cuda under the 104 names."""
    return [getattr(torch.cuda, name) for name in npu.__all__]


def observe() -> dict[str, bool]:
    return {
        "all 104 names": len(npu.__all__) == 104 and all(map(is_its, functions())),
        "a name bound before": is_its(shop.is_available) and is_its(shop.device_count),
        "a mapping": is_its(shop.ASK["n"]),
    }
