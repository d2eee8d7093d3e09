"""The other interpreters of this process (PEP 734): each has its own modules and its own patches."""

from __future__ import annotations

from typing import Any, Final

from hookpatch._bootstrap import imports

_NAMES: Final = ("_interpreters", "_xxsubinterpreters")  # from Python 3.13 on, and before


def others() -> frozenset[int]:
    """Return the numbers of the interpreters made by the program of this interpreter."""
    # Without an import of the module no interpreter was made. Importing the module here would slow each start.
    module: Any = next(filter(None, map(imports.loaded, _NAMES)), None)
    if module is None:
        return frozenset()
    current = _number(module.get_current())
    return frozenset(map(_number, module.list_all())) - {current, 0}


def is_main() -> bool:
    """Return True in the first interpreter of the process."""
    for name in _NAMES:
        try:
            module: Any = imports.fetch(name)
        except ImportError:
            continue
        return _number(module.get_current()) == _number(module.get_main())
    return True  # this Python cannot make interpreters


def _number(interpreter: Any) -> int:
    return int(interpreter[0] if isinstance(interpreter, tuple) else interpreter)
