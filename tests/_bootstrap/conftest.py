"""Fixtures of the tests of what runs when the interpreter starts."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def _no_compiled_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that are rewritten within a second must not be taken from __pycache__."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
