"""A function or class made by a patch that a program keeps: the report after the end names who keeps it.

Verb x way to keep. The original is back in the slot; a name that was bound inside keeps the value of the patch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
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


PATCHES: Final[dict[str, Callable[[], hookpatch.Patch]]] = {
    "derive": lambda: hookpatch.derive("made:function", lambda original: lambda: "patched"),
    "derive a class": lambda: hookpatch.derive("made:Shop", _heir),
    "edit": lambda: hookpatch.edit("made:function", '"plain"', '"patched"', reach="slot"),
}


@pytest.mark.parametrize("verb", PATCHES)
@pytest.mark.parametrize("way", KEEPERS)
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
