"""The other interpreters of this process (PEP 734): each interpreter has separate modules and patches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from hookpatch._bootstrap import imports

MODULE: Final = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"


def other_interpreters() -> frozenset[int]:
    """Return the numbers of the interpreters made by the program of this interpreter."""
    # Without an import of the module no interpreter was made. Importing the module here would slow each start.
    module: Any = imports.loaded(MODULE)
    if module is None:
        return frozenset()
    current = _number(module.get_current())
    return frozenset(map(_number, module.list_all())) - {current, 0}


def are_several() -> bool:
    """Return True if this process has other interpreters. Asked once ``MODULE`` is imported."""
    return len(_list_all()) > 1


def _find_and_list() -> Sequence[Any]:
    global _list_all
    if (module := imports.loaded(MODULE)) is not None:
        _list_all = module.list_all
    return () if module is None else module.list_all()


_list_all: Callable[[], Sequence[Any]] = _find_and_list  # of the module, once found: this is asked at each block


def is_main() -> bool:
    """Return True in the first interpreter of the process."""
    try:
        module: Any = imports.fetch(MODULE)
    except ImportError:
        return True  # this Python cannot make interpreters
    return _number(module.get_current()) == _number(module.get_main())


def _number(interpreter: Any) -> int:
    return int(interpreter[0] if isinstance(interpreter, tuple) else interpreter)
