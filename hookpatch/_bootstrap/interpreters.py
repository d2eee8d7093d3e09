"""The other interpreters of this process (PEP 734): each interpreter has separate modules and patches."""

from __future__ import annotations

import sys
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.imports import begun_names

MODULE: Final = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"


def other_interpreters() -> frozenset[int]:
    """Return the numbers of the interpreters made by the program of this interpreter."""
    # Without an import of the module no interpreter was made. Importing the module here would slow each start.
    module: Any = imports.loaded(MODULE)
    if module is None:
        return frozenset()
    current = _number(module.get_current())
    return frozenset(map(_number, module.list_all())) - {current, 0}


def is_only_interpreter() -> bool:
    """Return True if this interpreter is the only one of the process."""
    global _list_all
    if MODULE not in begun_names:
        return True
    if _list_all is None and (module := imports.loaded(MODULE)) is not None:
        _list_all = module.list_all
    return _list_all is None or len(_list_all()) == 1


_list_all: Any = None  # the function that lists all interpreters, once known: this is asked at each block


def is_main() -> bool:
    """Return True in the first interpreter of the process."""
    try:
        module: Any = imports.fetch(MODULE)
    except ImportError:
        return True  # this Python cannot make interpreters
    return _number(module.get_current()) == _number(module.get_main())


def _number(interpreter: Any) -> int:
    return int(interpreter[0] if isinstance(interpreter, tuple) else interpreter)
