"""Shared by tests of imports: the source of a module, a wrapper, and the loaders of a module."""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

import hookpatch

SOURCE = "def run():\n    return 'original'\n"


def around(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> str:
    return f"patched({wrapped(*args, **kwargs)})"


def states(session: hookpatch.Session) -> list[str]:
    return [patch.state for patch in session.report()]


def loaders(module: ModuleType) -> tuple[type, type, type]:
    return type(module.__spec__), type(getattr(module.__spec__, "loader", None)), type(module.__loader__)


REAL_LOADERS = (ModuleSpec, SourceFileLoader, SourceFileLoader)
