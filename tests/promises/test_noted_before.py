"""What Python or the program noted of a value before a patch: the report says so, or the program sees the patch.

Abstract methods, answers of isinstance(), cached properties, members of an Enum, __slots__, a module that ran twice.
"""

from __future__ import annotations

import functools
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch

MODULE: Final = """
    import abc, collections.abc, enum, functools, typing

    class Abstract(abc.ABC):
        @abc.abstractmethod
        def run(self): ...
        @classmethod
        def __subclasshook__(cls, other): return NotImplemented

    class Made(Abstract):
        def run(self): return "plain"

    class Unmade(Abstract):
        pass

    @typing.runtime_checkable
    class Running(typing.Protocol):
        def run_fast(self): ...

    class Sized:
        def __len__(self): return 1

    class Plain:
        @functools.cached_property
        def computed(self): return "plain"
        def __init_subclass__(cls): pass
        def __class_getitem__(cls, item): return "plain"

    class Named:
        def __set_name__(self, owner, name): self._name = name
        def __get__(self, instance, owner): return self._name

    class Told:
        described = Named()

    class Slots:
        __slots__ = ("value",)
        def __init__(self): self.value = "plain"

    class Colour(enum.Enum):
        RED = "plain"

    class Odd:
        shown = "plain"
        def __init__(self): self.shown = "own"
        def __getattribute__(self, name): return "plain" if name == "shown" else super().__getattribute__(name)

    plain, odd = Plain(), Odd()

    def tells(ask):
        try:
            return str(ask())
        except (TypeError, AttributeError, ValueError) as error:
            return type(error).__name__
"""


def _new(*args: Any, **kwargs: Any) -> str:
    return "patched"


def _replace(address: str, value: Any, **facts: Any) -> Callable[[], hookpatch.Patch]:
    return lambda: hookpatch.replace(f"noted:{address}", value, check_signature=False, why="any call", **facts)


# The patch, what the program asks, and words of the report.
CELLS: Final[dict[str, tuple[Callable[[], hookpatch.Patch], Callable[[Any], Any], str]]] = {
    "an abstract method is given": (_replace("Unmade.run", _new, add=True), lambda m: m.Unmade() and 1, "abstract"),
    "a method is abstract again": (lambda: hookpatch.remove("noted:Made.run"), lambda m: m.Made() and 1, "abstract"),
    "a hook of subclasses": (
        lambda: hookpatch.wrap("noted:Abstract.__subclasshook__", lambda wrapped, instance, args, kwargs: True),
        lambda m: issubclass(m.Plain, m.Abstract),
        "issubclass() keep",
    ),
    "an interface is given": (
        _replace("Plain.__len__", lambda self: 1, add=True),
        lambda m: isinstance(m.plain, m.collections.abc.Sized),
        "keep answers",
    ),
    "an interface is removed": (
        lambda: hookpatch.remove("noted:Sized.__len__"),
        lambda m: isinstance(m.Sized(), m.collections.abc.Sized),
        "keep answers",
    ),
    "an interface is None": (
        _replace("Sized.__len__", None),
        lambda m: isinstance(m.Sized(), m.collections.abc.Sized),
        "keep answers",
    ),
    "a protocol is kept": (
        _replace("Plain.run_fast", _new, add=True),
        lambda m: isinstance(m.plain, m.Running),
        "keep answers",
    ),
    "a cached property": (
        lambda: hookpatch.derive("noted:Plain.computed", lambda own: type(own)(_new)),
        lambda m: m.plain.computed,
        "cached_property",
    ),
    "the function of a cached property": (
        lambda: hookpatch.derive("noted:Plain.computed.func", lambda own: _new, check_signature=False, why="any call"),
        lambda m: m.plain.computed,
        "cached_property",
    ),
    "an attribute of __slots__": (_replace("Slots.value", "patched"), lambda m: m.Slots().value, "__slots__"),
    "the name of a given descriptor": (
        lambda: hookpatch.replace("noted:Told.described", sys.modules["noted"].Named()),
        lambda m: m.Told().described,
        "call value.__set_name__(Told, 'described') before",
    ),
    "a member of an Enum": (
        _replace("Colour.RED._value_", "patched"),
        lambda m: m.Colour("patched").name,
        "find members as noted",
    ),
    "an own __getattribute__": (_replace("odd.shown", "patched"), lambda m: m.odd.shown, "__getattribute__"),
    "an own __getattribute__ of instances": (_replace("Odd().shown", "patched"), lambda m: m.odd.shown, "__getattr"),
    "a hook of heirs": (
        _replace("Plain.__init_subclass__", lambda cls: None),
        lambda m: type("Heir", (m.Plain,), {}).__name__,
        "classmethod(function)",
    ),
    "a hook of brackets": (
        _replace("Plain.__class_getitem__", lambda cls, item: "patched"),
        lambda m: m.Plain[int],
        "classmethod(function)",
    ),
}


@pytest.mark.parametrize("asked_before", [True, False])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.sampled(8)
def test_the_report_says_what_was_noted_before(
    make_module: Callable[[str, str], ModuleType], cell: str, asked_before: bool
) -> None:
    module: Any = make_module("noted", MODULE)
    patch, ask, words = CELLS[cell]
    if asked_before:
        module.tells(lambda: ask(module))
    with hookpatch.active(patch(), children="local") as session:
        module.tells(lambda: ask(module))
        assert words in " ".join(session.report().patches[0].warnings)
    assert words in " ".join(session.report().patches[0].warnings)


@pytest.mark.parametrize("verb", ["wrap", "edit"])
def test_a_wrapper_or_edit_of_such_a_method_is_not_warned_of(
    make_module: Callable[[str, str], ModuleType], verb: str
) -> None:
    """The method stays abstract, and the class keeps its names."""
    module: Any = make_module("noted", MODULE)
    patches = {
        "wrap": [
            hookpatch.wrap(f"noted:{name}", lambda wrapped, i, args, kwargs: 7)
            for name in ("Made.run", "Sized.__len__")
        ],
        "edit": [hookpatch.edit("noted:Made.run", '"plain"', "7"), hookpatch.edit("noted:Sized.__len__", "1", "7")],
    }
    with hookpatch.active(*patches[verb], children="local") as session:
        assert (module.Made().run(), len(module.Sized())) == (7, 7)
        assert [row.warnings for row in session.report()] == [(), ()]


@pytest.mark.parametrize("way", ["told", "derived", "property", "cached property"])
def test_a_descriptor_with_its_name_is_not_warned_of(make_module: Callable[[str, str], ModuleType], way: str) -> None:
    module: Any = make_module("noted", MODULE)
    given = module.Named()
    if way == "told":
        given.__set_name__(module.Told, "described")
    elif way != "derived":
        given = {"property": property, "cached property": functools.cached_property}[way](lambda self: "described")
    address = "noted:Told.described"
    patch = hookpatch.derive(address, lambda own: given) if way == "derived" else hookpatch.replace(address, given)
    with hookpatch.active(patch, children="local") as session:
        assert module.Told().described == "described"
        assert not any("__set_name__" in words for words in session.report().patches[0].warnings)


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_second_copy_of_a_module_is_named(
    write_module: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, is_listed: bool
) -> None:
    """A program runs twice that a module of its own imports: ``python -m shop``. Some loaders list no copy."""
    path = write_module("shop", "LIMIT = 1\ndef price(): return 1\nclass Shop:\n    def name(self): return 1\n")
    copy = ModuleType("shop_as_main")
    vars(copy).update(runpy.run_path(str(path)), __file__=str(path), __name__="shop_as_main")
    if is_listed:
        monkeypatch.setitem(sys.modules, "shop_as_main", copy)
    patches = [
        hookpatch.replace("shop:LIMIT", 7),
        hookpatch.replace("shop:price", lambda: 7),
        hookpatch.replace("shop:Shop.name", lambda self: 7, reach="everywhere"),
    ]
    with hookpatch.active(*patches, children="local") as session:
        __import__("shop")
        for _ in range(2):
            assert [row.stale for row in session.report()] == [("shop_as_main (a second copy of the module)",)] * 3
