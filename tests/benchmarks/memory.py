"""The memory of a patch while declared, while applied, and after; and the memory of a patch by other tools.

usage: python tests/benchmarks/memory.py
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial, wraps
from typing import Any
from unittest import mock

import wrapt
from _timing import heading, table, vendor

import hookpatch

COUNT = 1_000


def around(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
    """Do nothing but call."""
    return wrapped(*args, **kwargs)


def functions() -> list[str]:
    """Return the addresses of functions that were never patched before."""
    name = vendor("\n".join(f"def f{number}(x, y=1): return x" for number in range(COUNT))).__name__
    return [f"{name}:f{number}" for number in range(COUNT)]


def entries() -> list[hookpatch.Target]:
    """Return the addresses of the same number of entries of a dict."""
    registry = dict.fromkeys(range(COUNT))
    return [hookpatch.Target.item(registry, key) for key in registry]


def in_use() -> int:
    """Return the bytes in use, without unreachable cycles."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def bytes_of_hookpatch(targets: Sequence[Any], declare: Callable[[Any], hookpatch.Patch]) -> list[int]:
    """Return the bytes in use at six points: before, declared, applied, closed, session dropped, patches dropped."""
    bytes_used = [in_use()]
    patches = [declare(target) for target in targets]
    bytes_used.append(in_use())
    session = hookpatch.active(*patches).open()
    bytes_used.append(in_use())
    session.close()
    bytes_used.append(in_use())
    del session
    bytes_used.append(in_use())
    del patches
    bytes_used.append(in_use())
    return bytes_used


def bytes_of_tool(targets: Sequence[str], patch: Callable[[str], Callable[[], object]]) -> list[int]:
    """Return the bytes in use before, while patched, and after the undo."""
    bytes_used = [in_use()]
    with ExitStack() as stack:
        for target in targets:
            stack.callback(patch(target))
        bytes_used.append(in_use())
    bytes_used.append(in_use())
    return bytes_used


def mocked(target: str) -> Callable[[], object]:
    """Patch with mock.patch and return the undo function."""
    patcher = mock.patch(target.replace(":", "."))
    patcher.start()
    return patcher.stop


def wrapped_by_wrapt(target: str) -> Callable[[], object]:
    """Wrap with wrapt and return the undo function."""
    owner, name, function = wrapt.resolve_path(*target.split(":"))
    wrapt.wrap_function_wrapper(owner, name, around)
    return partial(setattr, owner, name, function)


def wrapped_by_hand(target: str) -> Callable[[], object]:
    """Write a closure into the slot and return the undo function."""
    owner, name, function = wrapt.resolve_path(*target.split(":"))

    @wraps(function)
    def closure(*args: Any, **kwargs: Any) -> Any:
        return around(function, None, args, kwargs)

    setattr(owner, name, closure)
    return partial(setattr, owner, name, function)


OURS: dict[str, tuple[Callable[[], Sequence[Any]], Callable[[Any], hookpatch.Patch]]] = {
    "wrap, of a function": (functions, lambda target: hookpatch.wrap(target, around)),
    "wrap, of a function in place": (functions, lambda target: hookpatch.wrap(target, around, reach="everywhere")),
    "replace, of a dict's entry": (entries, lambda target: hookpatch.replace(target, 1)),
}
THEIRS = {
    'mock.patch("m.f")': mocked,
    "wrapt.FunctionWrapper": wrapped_by_wrapt,
    "a closure by hand": wrapped_by_hand,
}


def main() -> None:
    tracemalloc.start()
    heading(f"bytes a patch, of {COUNT:,} in one session")
    rows = [("", "declared", "on", "taken back", "session dropped", "patches dropped")]
    for title, (targets, declare) in OURS.items():
        bytes_of_hookpatch(targets(), declare)  # makes the objects that are made once and kept
        before, *bytes_used = bytes_of_hookpatch(targets(), declare)
        rows.append((title, *(f"{(bytes_ - before) / COUNT:,.1f}" for bytes_ in bytes_used)))
    table(rows)
    heading(f"bytes a patch of others, of {COUNT:,}")
    rows = [("", "on", "taken back")]
    for title, patch in THEIRS.items():
        bytes_of_tool(functions(), patch)
        before, *bytes_used = bytes_of_tool(functions(), patch)
        rows.append((title, *(f"{(bytes_ - before) / COUNT:,.1f}" for bytes_ in bytes_used)))
    table(rows)


if __name__ == "__main__":
    main()
