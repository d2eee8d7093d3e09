"""Fixtures that several command tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from environments import LOUDER, SCRIPT, VENDOR, Environment


@pytest.fixture
def home(environment: Environment, tmp_path: Path) -> Environment:
    """An environment with a plugin, and a folder with the vendor's module and a script."""
    environment.add_plugin("loud", LOUDER)
    script = "import sys; print(sys.argv[1:]); " + SCRIPT
    environment.work_in(tmp_path / "work", {"vendor.py": VENDOR, "script.py": script})
    return environment
