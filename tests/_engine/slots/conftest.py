"""Fixtures of the tests of slots."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from slot_kinds import SOURCE

MakeModule = Callable[[str, str], ModuleType]


@pytest.fixture
def kinds(make_module: MakeModule) -> ModuleType:
    """A module with a slot of every kind."""
    return make_module("kinds", SOURCE)
