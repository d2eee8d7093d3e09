"""Fixtures for the tests of several parts of the engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from refusals import VENDOR


@pytest.fixture
def vendor(make_module: Callable[..., ModuleType], make_distribution: Callable[..., Path]) -> ModuleType:
    """The module to patch, of the installed distribution vendor-kit 1.4."""
    make_distribution("vendor-kit", "1.4")
    return make_module("vendor", VENDOR)
