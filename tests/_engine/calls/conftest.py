"""Fixtures of the tests of patched functions."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from function_kinds import SOURCE

MakeModule = Callable[[str, str], ModuleType]


@pytest.fixture
def kinds(make_module: MakeModule) -> ModuleType:
    """A module with a function of every kind."""
    return make_module("functions", SOURCE)
