"""The other interpreters of this process (PEP 734): each interpreter has separate modules and patches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from hookpatch._bootstrap import imports

MODULES: Final = ("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters",)


def _loaded() -> Iterator[Any]:
    return filter(None, map(imports.loaded, MODULES))


def other_interpreters() -> frozenset[int]:
    """Return the numbers of the interpreters made by the program of this interpreter."""
    # Without an import of the module no interpreter was made. Importing the module here would slow each start.
    module = next(_loaded(), None)
    if module is None:
        return frozenset()
    current = _number(module.get_current())
    return frozenset(map(_number, module.list_all())) - {current, 0}


def is_alone() -> bool:
    """Return True if this interpreter is the only one of the process."""
    if not _lists:
        _lists.extend(module.list_all for module in _loaded())
    return not _lists or len(_lists[0]()) == 1


_lists: Final[list[Any]] = []  # the function that lists all interpreters, once known


def is_main() -> bool:
    """Return True in the first interpreter of the process."""
    for name in MODULES:
        try:
            module: Any = imports.fetch(name)
        except ImportError:
            continue
        return _number(module.get_current()) == _number(module.get_main())
    return True  # this Python cannot make interpreters


def _number(interpreter: Any) -> int:
    return int(interpreter[0] if isinstance(interpreter, tuple) else interpreter)
