"""Fixtures for the tests of lock files."""

from __future__ import annotations

from pathlib import Path

import pytest
from environments import LOUD, Environment


@pytest.fixture
def home(environment: Environment, tmp_path: Path) -> Environment:
    """An environment with a plugin, a locked module, and the module changed since."""
    environment.add_plugin("loud", LOUD)
    environment.work_in(tmp_path / "work", {"vendor.py": "def speak(): return 'vendor'\n"})
    assert environment.run("-m", "hookpatch", "lock", "loud").returncode == 0
    environment.work_in(environment.folder, {"vendor.py": "def speak(): return 'vendor!'\n"})
    return environment
