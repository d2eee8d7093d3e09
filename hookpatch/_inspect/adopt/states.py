"""Compare what is in no slot before and after an apply function: lists of hooks, handlers, variables, threads."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from hookpatch._bootstrap import environment, imports
from hookpatch._engine.slots.slot import ABSENT
from hookpatch._inspect.audit.snapshot import names_of_module

_LOOKS: Final[dict[str, Callable[[], Any]]] = {
    "the finders of imports": lambda: [*map(id, _held("sys", "meta_path"))],
    "the hooks of paths": lambda: [*map(id, _held("sys", "path_hooks"))],
    "sys.path": lambda: [*sys.path],
    "warnings.filters": lambda: [*map(str, _held("warnings", "filters") or ())],
    "variables of the environment": environment.without_ours,
    "the current folder": lambda: os.stat(os.curdir),
    "sys.settrace": sys.gettrace,
    "sys.setprofile": sys.getprofile,
    "the handlers of logging": lambda: [*map(id, getattr(_held("logging", "root"), "handlers", ()))],
    "the names of levels in logging": lambda: dict(_held("logging", "_nameToLevel") or {}),
    "functions for the exit": lambda: _held("atexit", "_ncallbacks")(),
    "threads": lambda: {thread.ident for thread in threading.enumerate()},
    "handlers of signals": lambda: {str(number): id(signal.getsignal(number)) for number in signal.valid_signals()},
}


def _held(module: str, name: str) -> Any:
    return names_of_module(imports.loaded(module)).get(name) if imports.loaded(module) is not None else None


class States:
    """What was in no slot at a moment."""

    def __init__(self) -> None:
        import atexit  # noqa: F401  # so that it is loaded

        self._before: Final = {name: _looked(look) for name, look in _LOOKS.items()}
        self._dispatchers: Final = {id(function): (function, of, size) for function, of, size in _dispatchers()}

    def changed(self) -> list[str]:
        """Return what is different now, in words."""
        names = [name for name, look in _LOOKS.items() if _looked(look) != self._before[name]]
        for function, address, size in _dispatchers():
            if id(function) in self._dispatchers and size != self._dispatchers[id(function)][2]:
                names.append(f"the implementations of {address}")
        return names


def _looked(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except Exception:  # foreign code, and a folder that is gone
        return ABSENT


def _dispatchers() -> Iterator[tuple[Any, str, int]]:
    """Yield each function of ``functools.singledispatch``, an address, and the number of its implementations."""
    for module_name, module in imports.modules():
        for name, value in [*names_of_module(module).items()]:
            own = getattr(value, "__dict__", {}) if type(value) is type(_dispatchers) else {}
            if "registry" in own and "dispatch" in own:
                yield value, f"{module_name}:{name}", len(own["registry"])
