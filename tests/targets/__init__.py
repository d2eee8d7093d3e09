"""Modules that tests patch."""

import sys
from collections.abc import Callable
from types import ModuleType

executed: list[Callable[[ModuleType], None]] = []


def tell(name: str) -> None:
    """Call what a test has put into ``executed``: what a module does as its last act."""
    for function in tuple(executed):
        function(sys.modules[name])
