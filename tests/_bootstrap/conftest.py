"""Fixtures for the tests of the interpreter's start."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def _no_compiled_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write no __pycache__: sources are rewritten within a second."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
