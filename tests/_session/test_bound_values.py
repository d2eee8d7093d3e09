"""Numbers and texts bound before the block: the report names the modules with the old value, by their source."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hookpatch

WriteModule = Callable[..., Path]
IMPORTERS = {
    "plain": ("from vendor import LIMIT", ["LIMIT"]),
    "renamed": ("from vendor import LIMIT as MOST", ["MOST"]),
    "starred": ("from vendor import *", ["LIMIT"]),
    "guarded": ("try:\n    from vendor import LIMIT\nexcept ImportError:\n    LIMIT = 0", ["LIMIT"]),
    "twice": ("from vendor import LIMIT, LIMIT as other", ["LIMIT", "other"]),
    "package.inside": ("from .base import LIMIT as far", ["far"]),
    "through": ("from plain import LIMIT", ["LIMIT"]),
    "whole": ("import vendor\nLIMIT = 30000", []),  # an equal number from the module itself
    "changed": ("from vendor import LIMIT\nLIMIT = LIMIT + 1", []),
    "inside": ("def f():\n    from vendor import LIMIT\n    return LIMIT", []),
    "other": ("from vendor import OTHER as LIMIT", []),  # an equal number of another name
}


@pytest.fixture
def vendor(write_module: WriteModule) -> ModuleType:
    write_module("vendor", "LIMIT = 30000\nOTHER = 30000\nNAME = 'a name'\nRATE = 0.25\nRAW = b'raw'\nNOTHING = None\n")
    write_module("package", "")
    write_module("package.base", "from vendor import LIMIT")
    for name, (source, _) in IMPORTERS.items():
        write_module(name, source)
    return importlib.import_module("vendor")


def stale_of(session: hookpatch.Session) -> list[str]:
    return [name for patch in session.report() for name in patch.stale]


def test_names_that_were_bound_from_the_target(vendor: ModuleType) -> None:
    """Find names bound directly, by another name, by a star, in a package, or through a module; not equal values."""
    for name in IMPORTERS:
        importlib.import_module(name)
    expected = sorted(f"{module}:{name}" for module, (_, names) in IMPORTERS.items() for name in names)
    with hookpatch.active(hookpatch.replace("vendor:LIMIT", 5)) as session:
        assert stale_of(session) == sorted([*expected, "package.base:LIMIT"])
        assert "stale   through:LIMIT holds the original still" in str(session.report())
        importlib.import_module("plain").LIMIT = 5  # corrected by the module
        assert "plain:LIMIT" not in stale_of(session)


@pytest.mark.parametrize("name", ["NAME", "RATE", "RAW", "LIMIT"])
@pytest.mark.parametrize("verb", ["replace", "derive"])
def test_kinds_of_values(vendor: ModuleType, write_module: WriteModule, name: str, verb: str) -> None:
    write_module("user", f"from vendor import {name}")
    importlib.import_module("user")
    new: Any = {"NAME": "another", "RATE": 0.5, "RAW": b"x", "LIMIT": 1}[name]
    patch = hookpatch.replace(f"vendor:{name}", new) if verb == "replace" else None
    with hookpatch.active(patch or hookpatch.derive(f"vendor:{name}", lambda original: new)) as session:
        assert stale_of(session) == [f"user:{name}"]
        importlib.reload(importlib.import_module("user"))
        assert stale_of(session) == []


def test_default_of_a_dataclass(make_module: Callable[[str, str], ModuleType]) -> None:
    """It was baked into __init__ when the class was made; a field with a factory has none."""
    vendor = make_module(
        "vendor",
        """
        from dataclasses import dataclass, field
        class Outer:
            @dataclass
            class Config:
                limit: int = 3
                kept: int = field(default=3, init=False)
                made: list = field(default_factory=list)
        """,
    )
    for name, stale in (("limit", ["the default 'limit' of vendor:Outer.Config.__init__"]), ("kept", [])):
        with hookpatch.active(hookpatch.replace(f"vendor:Outer.Config.{name}", 5)) as session:
            assert stale_of(session) == stale
            assert vendor.Outer.Config().limit == 3


def test_source_that_cannot_be_read(vendor: ModuleType, make_module: Callable[[str, str], ModuleType]) -> None:
    """Pass over a module without a readable source."""
    importlib.import_module("plain")
    Path(str(importlib.import_module("renamed").__file__)).write_text("from vendor import (LIMIT")
    make_module("bare", "from vendor import LIMIT").__spec__ = None
    with hookpatch.active(hookpatch.replace("vendor:LIMIT", 5)) as session:
        assert stale_of(session) == ["plain:LIMIT"]
