"""Recognise a copy of a function with a few changed lines, and return the diff from the original to the copy."""

from __future__ import annotations

import ast
import builtins
import difflib
import dis
import inspect
from collections.abc import Mapping
from textwrap import dedent
from types import CodeType, FunctionType
from typing import Any, Final

from hookpatch._engine.patch.patch import edit
from hookpatch._engine.slots.slot import ABSENT, alike
from hookpatch._engine.source.edited import edited
from hookpatch._inspect.audit.snapshot import Change
from hookpatch.errors import HookpatchError

_SHARE: Final = 3  # a copy has at most every third line changed
_CONTEXT: Final = 3  # lines around a change
_GLOBAL: Final = ("LOAD_GLOBAL", "LOAD_NAME")
_COUNTS: Final = ("co_argcount", "co_kwonlyargcount", "co_posonlyargcount")
_PARTS: Final = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_exceptiontable", *_COUNTS)
_FLAGS: Final = 0x3FF  # without the flags of ``from __future__``, which belong to the file


def diff_to(target: str, changes: Mapping[str, Change]) -> str | None:
    """Return the diff from a function's source to a copy's source; None if an edit would not give the same function.

    Args:
        target: the address of the slot.
        changes: the changes of all patched slots, by address.
    """
    owner, _, original, copy = changes[target]
    if type(copy) is not FunctionType or type(original) is not FunctionType or copy.__closure__:
        return None
    (head, body), (copied_head, copied_body) = _lines(original), _lines(copy)
    if alike(copy.__defaults__, original.__defaults__) and alike(copy.__kwdefaults__, original.__kwdefaults__):
        copied_head = head  # of another name, and maybe without annotations, which no edit changes
    else:
        copied_head = [line.replace(f"def {copy.__name__}(", f"def {original.__name__}(") for line in copied_head]
    rows = [*difflib.unified_diff([*head, *body], [*copied_head, *copied_body], n=_CONTEXT, lineterm="")][2:]
    changed = max(sum(row[0] == sign for row in rows) for sign in "+-") if rows else 0
    if not (head and copied_head and 0 < changed * _SHARE <= len(head) + len(body)):
        return None
    diff = "\n".join(row.rstrip() for row in rows)
    try:
        patch = edit(target, diff=diff, reach="slot")
        result = edited(original, patch, "adopt", owner if issubclass(type(owner), type) else None)
    except HookpatchError:
        return None
    return diff if _is_equal_function(result, copy, changes) else None


def _lines(function: FunctionType) -> tuple[list[str], list[str]]:
    """Return the lines of a function's head without decorators, and of the body; none without a readable source."""
    try:
        lines = dedent(inspect.getsource(function)).splitlines()
        [statement] = ast.parse("\n".join(lines)).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return [], []
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return [], []
    first, body = statement.lineno - 1, statement.body[0].lineno - 1
    return lines[first:body], lines[body:]


def _is_equal_function(function: FunctionType, copy: FunctionType, changes: Mapping[str, Change]) -> bool:
    """Return True if two functions run the same instructions, with equal defaults and the same global values."""
    values, copied_values = _globals_of(function, changes), _globals_of(copy, changes)
    docs = function.__doc__, copy.__doc__
    return (
        inspect.cleandoc(docs[0] or "") == inspect.cleandoc(docs[1] or "")  # a method's is further indented
        and _is_same_code(function.__code__, copy.__code__, docs)
        and alike(function.__defaults__, copy.__defaults__)
        and alike(function.__kwdefaults__, copy.__kwdefaults__)
        and values.keys() == copied_values.keys()
        and all(alike(value, copied_values[name]) for name, value in values.items())
    )


def _is_same_code(code: CodeType, copied: CodeType, docs: tuple[str | None, str | None]) -> bool:
    """Return True if two codes have the same instructions and constants; names of functions and lines do not count."""
    return (
        all(getattr(code, part) == getattr(copied, part) for part in _PARTS)
        and code.co_flags & _FLAGS == copied.co_flags & _FLAGS
        and len(code.co_consts) == len(copied.co_consts)
        and all(_is_same_constant(*pair, docs) for pair in zip(code.co_consts, copied.co_consts, strict=True))
    )


def _is_same_constant(value: Any, copied: Any, docs: tuple[str | None, str | None]) -> bool:
    if type(value) is type(copied) is CodeType:
        return _is_same_code(value, copied, docs)
    return (alike(value, copied) and repr(value) == repr(copied)) or (value, copied) == docs  # 0.0 is not -0.0


def _globals_of(function: FunctionType, changes: Mapping[str, Change]) -> dict[str, Any]:
    """Return the values of the global names that a function and its inner functions read, as they were before."""
    codes, names = [function.__code__], set[str]()
    for code in codes:  # grows
        names |= {step.argval for step in dis.get_instructions(code) if step.opname in _GLOBAL}
        codes += [const for const in code.co_consts if type(const) is CodeType]
    module, values = function.__globals__.get("__name__"), {**vars(builtins), **function.__globals__}
    before = {name: changes[address].before for name in names if (address := f"{module}:{name}") in changes}
    return {name: values.get(name, ABSENT) for name in names} | before
