"""A value made by or given to a patch that a program keeps: the report after the end names who keeps it.

Verb x way to keep. The original is back in the slot; a name that was bound inside keeps the value of the patch.
"""

from __future__ import annotations

import functools
import importlib
import sqlite3
import sys
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch

MODULE: Final = """
    def function(): return "plain"
    class Shop:
        def price(self): return "plain"
    table, shop = {}, Shop()
"""
KEEPERS: Final[dict[str, tuple[Callable[[Any, Any], Any], str]]] = {
    "name": (lambda module, value: setattr(module, "alias", value), "made:alias"),
    "entry": (lambda module, value: module.table.setdefault("key", value), "made:table['key']"),
    "attribute": (lambda module, value: setattr(module.shop, "own", value), "made:shop.own"),
    "closure": (lambda module, value: setattr(module, "call", _closure(value)), "the closure variable 'value'"),
    "partial": (lambda module, value: setattr(module, "part", functools.partial(value)), "made:part.func"),
    "generator": (lambda module, value: setattr(module, "running", _running(value)), "a local variable of _generate"),
    "table of another": (lambda module, value: _table.append([value]), f"{__name__}:_table[0]"),
}
_table: Final[list[Any]] = []


def _closure(value: Any) -> Any:
    return lambda: value()


def _generate(value: Any) -> Any:
    yield 1
    yield value()


def _running(value: Any) -> Any:
    generator = _generate(value)
    next(generator)
    return generator


def _heir(original: Any) -> Any:
    return type("Heir", (original,), {})


def _given() -> hookpatch.Patch:
    function: Any = lambda: "patched"  # noqa: E731
    function.__module__ = "plugin_of_another"
    return hookpatch.replace("made:function", function)


PATCHES: Final[dict[str, Callable[[], hookpatch.Patch]]] = {
    "derive": lambda: hookpatch.derive("made:function", lambda original: lambda: "patched"),
    "derive a class": lambda: hookpatch.derive("made:Shop", _heir),
    "edit": lambda: hookpatch.edit("made:function", '"plain"', '"patched"', reach="slot"),
    "replace": _given,
    "replace a class": lambda: hookpatch.replace("made:Shop", type("Shop", (), {"__module__": "plugin_of_another"})),
}


@pytest.mark.parametrize("verb", PATCHES)
@pytest.mark.parametrize("way", KEEPERS)
@pytest.mark.sampled(8)
def test_who_keeps_a_value_is_named(make_module: Callable[[str, str], ModuleType], way: str, verb: str) -> None:
    module: Any = make_module("made", MODULE)
    keep, words = KEEPERS[way]
    with hookpatch.active(PATCHES[verb](), children="local") as session:
        keep(module, module.Shop if "class" in verb else module.function)
        assert session.report().patches[0].warnings == ()
    (row,) = session.report()
    assert row.state == "restored"
    lines = [text for text in row.warnings if "keeps the value of the ended patch" in text]
    assert any(text.startswith(words) for text in lines), row
    _table.clear()


@pytest.mark.parametrize("verb", PATCHES)
def test_without_a_keeper_nothing_is_told(make_module: Callable[[str, str], ModuleType], verb: str) -> None:
    make_module("made", MODULE)
    block = hookpatch.active(PATCHES[verb](), children="local")
    for _ in range(2):
        with block:
            pass
        assert [row.warnings for row in block.report()] == [()]
    with block, hookpatch.active(hookpatch.wrap("made:function", lambda *_: 1), children="local"):
        assert [row.warnings for row in block.report()] == [()]


def test_names_bound_inside_from_a_given_value_are_named(make_module: Callable[[str, str], ModuleType]) -> None:
    """A module imported inside keeps a number, text or list of the patch; names from before, and other equals, do not.

    The source decides: a number says of nobody where it is from.
    """
    make_module("made", "number, text, rows, derived, other = 1, 'one', [1], 10, 3")
    make_module("before", "from made import number, text, rows")
    values: dict[str, Any] = {"number": 2, "text": "two", "rows": [2]}
    patches = [hookpatch.replace(f"made:{name}", value) for name, value in values.items()]
    with hookpatch.active(
        *patches, hookpatch.derive("made:derived", lambda value: value + 1), children="local"
    ) as session:
        make_module("inside", "from made import number as n, text, rows, derived, other\nequal = 2")
    said = [tuple(text for text in row.warnings if "keeps" in text) for row in session.report()]
    names = ("n", "text", "rows", "derived")
    assert said == [(f"inside:{name} keeps the value of the ended patch",) for name in names]


def _of_c(value: Any) -> Any:
    connection = sqlite3.connect(":memory:")
    connection.create_function("value", 0, value)
    return connection


def _in_context(value: Any) -> Any:
    context = copy_context()
    context.run(ContextVar[Any]("held").set, value)
    return context


def _frame(value: Any) -> Any:
    return sys._getframe()


def _unlisted(value: Any) -> Any:
    module: Any = ModuleType("unlisted")
    module.held = value
    return module


HIDDEN: Final[dict[str, tuple[Callable[[Any], Any], str]]] = {
    "C code": (_of_c, "1 more reference than before, C code or a running function"),
    "iterators": (lambda value: (iter([value]), reversed([value])), "2 more references than before, a list[0]"),
    "context": (_in_context, "1 more reference than before"),
    "frame": (_frame, "1 more reference than before"),
    "module in no list": (_unlisted, "1 more reference than before, a dict['held']"),
}


@pytest.mark.parametrize("way", HIDDEN)
@pytest.mark.sampled(2)
def test_new_references_without_a_name_are_counted(make_module: Callable[[str, str], ModuleType], way: str) -> None:
    """A function of a module has places of its own, some without a name: new ones are counted."""
    plugin: Any = make_module("plugin", "def new(*_): return 'patched'\ntable = [[[[[iter([new])]]]]]")
    module: Any = make_module("made", "def function(*_): return 'plain'\ndef other(*_): ...")
    keep, words = HIDDEN[way]
    block = hookpatch.active(hookpatch.replace("made:function", plugin.new), children="local")
    with block as session:
        keeper = keep(module.function)
        assert session.report().patches[0].warnings == ()
    (line,) = block.report().patches[0].warnings
    assert line.startswith(f"a place without a name ({words}"), line
    assert line.endswith(") keeps the value of the ended patch")
    with hookpatch.active(hookpatch.replace("made:other", plugin.new), children="local") as other:
        assert block.report().patches[0].warnings == ()  # nobody can tell which block has kept the function
    assert other.report().patches[0].warnings == ()
    assert block.report().patches[0].warnings == (line,)
    getattr(keeper, "close", int)()
    del keeper
    assert block.report().patches[0].warnings == ()


def test_places_of_its_own_of_a_given_value_are_not_told(make_module: Callable[[str, str], ModuleType]) -> None:
    """A given function is in the tables of its module, in modules that import it, and in slots of other patches."""
    plugin: Any = make_module("plugin", "def new(): return 'patched'\ntable = {'new': new}\ndeep = [[[[iter([new])]]]]")
    connection = _of_c(plugin.new)
    make_module("importer", "from plugin import new")
    make_module("made", "def function(): ...\ndef other(): ...")
    block = hookpatch.active(hookpatch.replace("made:function", plugin.new), children="local")
    with hookpatch.active(hookpatch.replace("made:other", plugin.new), children="local"):
        for _ in range(2):
            with block:
                pass
            assert [row.warnings for row in block.report()] == [()]
    with block:
        make_module("late", "from plugin import new\nmore = {'new': new}")
        other = hookpatch.active(hookpatch.replace("made:other", plugin.new), children="local").open()
    assert [row.warnings for row in block.report()] == [()]
    other.close()
    assert [row.warnings for row in block.report()] == [()]
    connection.close()


def test_a_module_executed_anew_has_each_value_noted_once(write_module: Callable[[str, str], Path]) -> None:
    """Each entry notes the value of one execution: a report searches for the holders of each noted value."""
    write_module("made", "def function(): ...")
    with hookpatch.active(hookpatch.derive("made:function", lambda original: lambda: "patched"), children="local") as s:
        functions = []
        for _ in range(5):
            sys.modules.pop("made", None)
            functions.append(importlib.import_module("made").function)
    notes = [value for entry in s._ledger.entries for noted in entry.former if (value := noted()) is not None]
    assert sorted(map(id, notes)) == sorted(map(id, functions))
