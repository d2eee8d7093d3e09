"""Make stand-ins for lost originals: a function, class or code object with the original's name and place."""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any


def definition(module: str, file: str, name: str, node: Any) -> Any:
    """Return a stand-in for the function or class that a statement defines.

    Args:
        module: the name of the module.
        file: the file of the module.
        name: the name in the module, with dots inside of a class.
        node: the statement.
    """
    if hasattr(node, "bases"):
        return type(node.name, (), {"__module__": module, "__qualname__": name})
    return FunctionType(code(file, name, node), {"__name__": module})


def code(file: str, name: str, node: Any) -> CodeType:
    """Return a stand-in for the code of a function; see ``definition``."""
    return _model.__code__.replace(
        co_filename=file, co_name=name.rpartition(".")[2], co_firstlineno=node.lineno, co_qualname=name
    )


def _model() -> None:
    """Return None: only the code object is used."""
