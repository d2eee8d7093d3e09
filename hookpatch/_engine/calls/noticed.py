"""Find out if a call reads the stack, where a patched call differs."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, Final

from hookpatch._engine.calls.kept import names_in

_NAMES: Final = ("_getframe", "_getframemodulename", "currentframe", "extract_stack", "getouterframes")
_DEPTH: Final = 8  # decorators
_LEVEL: Final = "stacklevel"
# C functions that read the frame of the caller, by module.
_OF_C: Final = {
    "sys": ("_getframe", "_getframemodulename"),
    "_warnings": ("warn",),
    "builtins": ("dir", "eval", "exec", "globals", "locals", "vars"),
}


def reads_caller_by(callee: Any) -> str:
    """Return the name by which a callable reads the caller from the stack; empty if the callable does not.

    Functions that the callable calls are not searched.
    """
    return next(filter(None, map(_function_reads_by, _functions_run_by(callee))), "")


def _functions_run_by(callee: Any) -> Iterator[Any]:
    """Yield the functions that a call of a callable runs: constructors of a class, the function in a decorator."""
    for _ in range(_DEPTH):
        if isinstance(callee, type):
            methods = (vars(cls).get(name) for name in ("__init__", "__new__") for cls in type.mro(callee))
            yield from (getattr(method, "__func__", method) for method in methods)
            return
        if isinstance(callee, MethodType):
            callee = callee.__func__
        elif not isinstance(callee, (FunctionType, BuiltinFunctionType)):
            callee = vars(type(callee)).get("__call__")
        yield callee
        if not isinstance(callee, FunctionType) or "__wrapped__" not in vars(callee):
            return
        callee = vars(callee)["__wrapped__"]


def _function_reads_by(callee: Any) -> str:
    if not isinstance(callee, FunctionType):
        name, module = getattr(callee, "__name__", ""), getattr(callee, "__module__", "")
        return name if name in _OF_C.get(module, ()) else ""
    names = {*names_in(callee.__code__)}
    if used_name := next((name for name in _NAMES if name in names), ""):
        return used_name
    return _LEVEL if any(map(_gives_level, _codes(callee.__code__))) else ""


def _codes(code: CodeType) -> list[CodeType]:
    """Return a code and all nested codes."""
    inside = [nested for const in code.co_consts if isinstance(const, CodeType) for nested in _codes(const)]
    return [code, *inside]


def _gives_level(code: CodeType) -> bool:
    """Return True if a code passes ``stacklevel=`` to a call, or a number to ``warn`` as the third argument."""
    if any(type(const) is tuple and _LEVEL in const for const in code.co_consts):
        return True
    if "warn" not in code.co_names:
        return False
    before: Any = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "CALL" and instruction.arg == 3 and type(before) is int:
            return True
        if instruction.opname not in ("PRECALL", "CALL"):
            before = instruction.argval if instruction.opname.startswith("LOAD_") else None
    return False
