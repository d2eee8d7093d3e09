"""Which commands run Python: of what a process starts, that is what may be patched and may leave a receipt."""

from __future__ import annotations

import os
import sys
from typing import Any


def python_command(args: Any = "", **_: Any) -> list[str]:
    """Return the words of a command that runs Python, or a script that is installed beside it; none of another."""
    words = os.fsdecode(args).split() if isinstance(args, (str, bytes, os.PathLike)) else [*map(os.fsdecode, args)]
    name = os.path.basename(words[0]) if words else ""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    runs_python = name.startswith("python") or (sys.prefix != sys.base_prefix and name and os.path.exists(beside))
    return words if runs_python else []
