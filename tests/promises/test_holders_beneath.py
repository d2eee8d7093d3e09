"""A name that holds a function inside another object is found, too, while the name itself is patched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch._engine.site.sites import patched

SOURCE: Final = """
    import functools, types

    def function(x="x"):
        return x

    class Deco:
        def __init__(self, function):
            self.function = function
        def __call__(self, *args):
            return self.function(*args)

    class Plain:
        def method(self, x="x"):
            return x

    bound = Plain().method
    part = functools.partial(function)
    keyed = functools.partial(max, key=function)
    cached = functools.lru_cache(function)
    decorated = Deco(function)
    rows = [function]
    table = {"f": function}
    pair = (function, 1)
    deep = {"f": [(function,)]}
    space = types.SimpleNamespace(f=function)
    bag = {function}

    class Owner:
        part = functools.partial(function)
        decorated = Deco(function)
        pair = (function, 1)
        table = {"f": function}
"""
HELD: Final = {
    "part": "part.func",
    "keyed": "keyed.keywords['key']",
    "cached": "cached.__wrapped__",
    "decorated": "decorated.function",
    "rows": "rows[0]",
    "table": "table['f']",
    "pair": "pair[0]",
    "deep": "deep['f'][0][0]",
    "space": "space.f",
    "bag": "bag (a set)",
    "Owner.part": "Owner.part.func",
    "Owner.decorated": "Owner.decorated.function",
    "Owner.pair": "Owner.pair[0]",
    "Owner.table": "Owner.table['f']",
    "bound": "bound",
}
CALLED: Final = {"part", "keyed", "cached", "decorated", "Owner.part", "Owner.decorated", "bound"}


def _through(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def _new(*args: Any) -> Any:
    return args


OVER: Final[dict[str, Callable[[str], hookpatch.Patch]]] = {
    "wrap": lambda address: hookpatch.wrap(address, _through),
    "replace": lambda address: hookpatch.replace(address, _new, check_signature=False, why="a test"),
    "derive": lambda address: hookpatch.derive(address, lambda original: _new, check_signature=False, why="a test"),
    "remove": hookpatch.remove,
}
CELLS: Final = [cell for cell in product(HELD, OVER) if cell[1] != "wrap" or cell[0] in CALLED]


@pytest.fixture
def beneath(make_module: Callable[[str, str], ModuleType]) -> Iterator[Any]:
    yield make_module("beneath", SOURCE)
    assert patched() == []


@pytest.mark.parametrize(("name", "over"), CELLS)
@pytest.mark.sampled(8)
def test_a_patched_name_still_names_the_holder(beneath: Any, name: str, over: str) -> None:
    """Stale names are those from before the patch of the name, whichever of the two patches comes first."""
    target = "Plain.method" if name == "bound" else "function"
    inner = hookpatch.active(hookpatch.wrap(f"beneath:{target}", _through), children="local")
    outer = hookpatch.active(OVER[over](f"beneath:{name}"), children="local")
    with inner:
        before = inner.report().patches[0].stale
    assert any(text.startswith(f"beneath:{HELD[name]}") for text in before)
    for first, second in ((outer, inner), (inner, outer)):
        with first, second:
            assert inner.report().patches[0].stale == before


ENTRIES: Final = """
    import collections

    nest = {"k": functools.partial(function), "d": Deco(function), "t": (function, 1), "l": [function]}
    lines = [functools.partial(function), (function, 2)]
    ordered = collections.OrderedDict(a=functools.partial(function))
    data = collections.UserDict(a=functools.partial(function))
    space = types.SimpleNamespace(p=functools.partial(function), d={"q": functools.partial(function)})
    thing = Deco(functools.partial(function))
    thing.table = {"x": functools.partial(function)}
"""
HELD_IN_ENTRIES: Final = {
    "nest['k']": ".func",
    "nest['d']": ".function",
    "nest['t']": "[0]",
    "nest['l']": "[0]",
    "lines[0]": ".func",
    "lines[1]": "[0]",
    "ordered['a']": ".func",
    "data.data['a']": ".func",
    "space.p": ".func",
    "space.d['q']": ".func",
    "thing.function": ".func",
    "thing.table['x']": ".func",
    "Owner.table['f']": None,  # holds the function itself: the new value is called in its place
}


@pytest.mark.parametrize(("name", "suffix"), HELD_IN_ENTRIES.items())
@pytest.mark.sampled(4)
def test_a_patched_entry_still_names_the_holder(make_module: Any, name: str, suffix: str | None) -> None:
    """The entry is named by its address, once, beneath a patch too, and each report says the same."""
    beneath = make_module("beneath", SOURCE + ENTRIES)
    inner = hookpatch.active(hookpatch.wrap("beneath:function", _through), children="local")
    outer = hookpatch.active(OVER["replace"](f"beneath:{name}"), children="local")
    with inner:
        before = inner.report().patches[0].stale
        assert inner.report().patches[0].stale == before
    place = f"beneath:{name}{suffix or ''}"
    assert before.count(place) == 1
    kept = id(eval(name, vars(beneath)))  # not the value: the report counts a local variable that holds the original
    for first, second in ((outer, inner), (inner, outer)):
        with first, second:
            stale = inner.report().patches[0].stale
            assert stale == (before if suffix else tuple(text for text in before if text != place))
    assert id(eval(name, vars(beneath))) == kept
    assert patched() == []


@pytest.mark.parametrize("name", [name for name in HELD if name not in ("bag", "cached", "bound")])
def test_everywhere_reaches_a_holder_beneath_a_patch(make_module: Callable[[str, str], ModuleType], name: str) -> None:
    """With reach="everywhere" a holder beneath the patch of its name is patched, or named as stale."""
    source = SOURCE.replace("import functools", "import functools, operator").replace(
        "    class Deco",
        "    function = operator.itemgetter(0)  # no Python function, which is changed in place\n\n    class Deco",
    )
    beneath = make_module("beneath", source)
    original = eval(HELD[name], vars(beneath))
    session = hookpatch.active(hookpatch.replace("beneath:function", _new, reach="everywhere"), children="local")
    with hookpatch.active(OVER["replace"](f"beneath:{name}"), children="local"), session:
        report = session.report()
        places = {row.place for row in report if row.place} | set(report.patches[0].stale)
        assert any(place.startswith(f"beneath:{HELD[name]}") for place in places)
    assert eval(HELD[name], vars(beneath)) is original is beneath.function
    assert patched() == []


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("verb", ["replace", "derive"])
@pytest.mark.parametrize("name", ["function", "Plain"])
def test_an_entry_of_a_weak_dictionary_is_named(
    make_module: Callable[[str, str], ModuleType], name: str, verb: str, reach: Any
) -> None:
    """The collector shows no weak references: a WeakValueDictionary kept the original, and no row said so."""
    weak = f"\n    import weakref\n    weak = weakref.WeakValueDictionary(held={name})\n"
    module = make_module("beneath", SOURCE + weak)
    original = vars(module)[name]
    new: Any = _new if name == "function" else type("New", (), {})
    patch = OVER[verb] if name == "function" else lambda address: hookpatch.replace(address, new)
    with hookpatch.active(replace(patch(f"beneath:{name}"), reach=reach), children="local") as session:
        assert module.weak["held"] is original
        if name == "function" and reach == "everywhere":  # changed in place
            assert original("y") == ("y",)
            return
        assert "beneath:weak.data['held'] (a weak reference)" in session.report().patches[0].stale
    assert vars(module)[name] is module.weak["held"] is original
