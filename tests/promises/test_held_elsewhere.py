"""Holders that no name or attribute leads to: C code, iterators, queues, tables deep in tables, running functions.

A call through the holder has the patch, or the report tells of the holder: way of holding x reach.
"""

from __future__ import annotations

import collections
import contextvars
import ctypes
import functools
import itertools
import queue
import selectors
import signal
import socket
import sqlite3
import threading
import types
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NamedTuple

import pytest

import hookpatch
from hookpatch._engine.site.sites import patched

MODULE: Final = """
    def function(*args):
        heard.append("plain")
        return 1

    heard = []
"""


class Pair(NamedTuple):
    first: Any


def _nested(value: Any, depth: int = 8) -> Any:
    for _ in range(depth):
        value = {"k": value}
    return value


def _innermost(value: Any) -> Any:
    while isinstance(value, dict):
        value = value["k"]
    return value


def _signal(function: Any) -> Any:
    before = signal.signal(signal.SIGUSR1, function)
    return lambda: signal.raise_signal(signal.SIGUSR1), lambda: signal.signal(signal.SIGUSR1, before)


def _completer(function: Any) -> Any:
    readline = pytest.importorskip("readline")
    before = readline.get_completer()
    readline.set_completer(function)
    return lambda: readline.get_completer()(), lambda: readline.set_completer(before)


def _sqlite(way: str, query: str, *arguments: Any) -> Callable[[Any], Any]:
    def hold_function(function: Any) -> Any:
        connection = sqlite3.connect(":memory:")
        getattr(connection, way)(*arguments, function)
        return lambda: connection.execute(query).fetchall(), connection.close

    return hold_function


def _selector(function: Any) -> Any:
    ends, selector = socket.socketpair(), selectors.DefaultSelector()
    selector.register(ends[0], selectors.EVENT_READ, function)

    def close() -> None:
        selector.close()
        for end in ends:
            end.close()

    return lambda: selector.get_key(ends[0]).data(), close


def _generator(function: Any) -> Any:
    def generate() -> Any:
        while True:
            yield function()

    running = generate()
    next(running)
    return functools.partial(next, running), running.close


def _thread(function: Any) -> Any:
    asked, answered = queue.SimpleQueue[bool](), queue.SimpleQueue[Any]()

    def run_calls(local: Any) -> None:
        while asked.get():
            answered.put(local())

    thread = threading.Thread(target=run_calls, args=(function,), daemon=True)
    thread.start()

    def call_in_thread() -> Any:
        asked.put(True)
        return answered.get(timeout=60)

    def end_thread() -> None:
        asked.put(False)
        thread.join(60)

    return call_in_thread, end_thread


def _simple_queue(function: Any) -> Any:
    holder = queue.SimpleQueue[Any]()
    for _ in range(3):
        holder.put(function)
    return lambda: holder.get()(), lambda: None


def _held_in(make: Callable[[Any], Any], call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def hold_function(function: Any) -> Any:
        holder = make(function)
        return lambda: call(holder), lambda: None

    return hold_function


_HELD: Final[dict[str, Callable[[Any], Any]]] = {
    "signal handler": _signal,
    "completer of readline": _completer,
    "function of sqlite": _sqlite("create_function", "select f()", "f", 0),
    "trace of sqlite": _sqlite("set_trace_callback", "select 1"),
    "callback of ctypes": _held_in(ctypes.CFUNCTYPE(ctypes.c_int), lambda holder: holder()),
    "selector": _selector,
    "generator": _generator,
    "thread": _thread,
    "queue": _simple_queue,
    "iterator of a list": _held_in(lambda function: iter([function] * 9), lambda holder: next(holder)()),
    "iterator of a tuple": _held_in(lambda function: iter((function,) * 9), lambda holder: next(holder)()),
    "reversed": _held_in(lambda function: reversed([function] * 9), lambda holder: next(holder)()),
    "islice": _held_in(lambda function: itertools.islice([function] * 9, 9), lambda holder: next(holder)()),
    "cycle": _held_in(lambda function: itertools.cycle([function]), lambda holder: next(holder)()),
    "map": _held_in(lambda function: map(function, itertools.count()), next),
    "view": _held_in(lambda function: {"k": function}.values(), lambda holder: next(iter(holder))()),
    "read-only mapping": _held_in(
        lambda function: types.MappingProxyType({"k": function}), lambda holder: holder["k"]()
    ),
    "named tuple": _held_in(Pair, lambda holder: holder.first()),
    "set": _held_in(lambda function: {function}, lambda holder: next(iter(holder))()),
    "list": _held_in(lambda function: [function], lambda holder: holder[0]()),
    "deque": _held_in(lambda function: collections.deque([function]), lambda holder: holder[0]()),
    "tables": _held_in(_nested, lambda holder: _innermost(holder)()),
    "module without a name": _held_in(
        lambda function: vars(types.ModuleType("nameless")).setdefault("function", function), lambda holder: holder()
    ),
    "context": _held_in(lambda function: _context(function), lambda holder: holder[1][holder[0]]()),
    "order of keys": _held_in(functools.cmp_to_key, lambda holder: holder(1) < holder(2)),
}


def _context(function: Any) -> Any:
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("held")
    context = contextvars.copy_context()
    context.run(variable.set, function)
    return variable, context


def _wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    wrapped.__globals__["heard"].append("patched")
    return wrapped(*args, **kwargs)


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("way", _HELD)
@pytest.mark.sampled(10)
def test_a_holder_is_patched_or_told_of(make_module: Callable[[str, str], ModuleType], way: str, reach: Any) -> None:
    module: Any = make_module("held_elsewhere", MODULE)
    call, end = _HELD[way](module.function)
    try:
        with hookpatch.active(hookpatch.wrap("held_elsewhere:function", _wrapper, reach=reach), children="local") as s:
            module.heard.clear()
            call()
            assert "plain" in module.heard
            stale = s.report().patches[0].stale
            assert ("patched" in module.heard) == (reach == "everywhere")
            assert bool(stale) == (reach == "slot"), stale
        module.heard.clear()
        call()
        assert "patched" not in module.heard
    finally:
        end()
    assert patched() == []


def test_without_a_holder_nothing_is_told(make_module: Callable[[str, str], ModuleType]) -> None:
    """References of hookpatch itself are no holders; neither is a call that is running."""
    module: Any = make_module("held_elsewhere", MODULE)
    patches = [hookpatch.wrap("held_elsewhere:function", _wrapper) for _ in range(3)]
    with hookpatch.active(patches[0], children="local") as outer, hookpatch.active(*patches[1:], children="local") as s:
        module.function()
        assert [row.stale for session in (outer, s) for row in session.report()] == [(), (), ()]

    reports: list[Any] = []
    module.heard = types.SimpleNamespace(append=lambda _: reports.append(s.report()))
    with hookpatch.active(
        hookpatch.derive("held_elsewhere:function", functools.partial(_derived)), children="local"
    ) as s:
        module.function()
    assert [row.stale for report in reports for row in report] == [()]


def test_a_class_that_was_made_twice_is_told_of_once(make_module: Callable[[str, str], ModuleType]) -> None:
    """The class from before ``@dataclass(slots=True)`` has the same name and methods: it is garbage, no holder."""
    lines = "import dataclasses\n@dataclasses.dataclass(slots=True)\nclass Slots:\n    def run(self): return 1\n"
    module: Any = make_module("held_elsewhere", lines)
    with hookpatch.active(hookpatch.wrap("held_elsewhere:Slots.run", lambda *_: 7), children="local") as session:
        assert module.Slots().run() == 7
        assert session.report().patches[0].stale == ()


def _derived(original: Any) -> Any:
    return lambda *args: original(*args)
