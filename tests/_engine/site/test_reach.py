"""reach="everywhere" patches names bound before the session."""

from __future__ import annotations

import asyncio
import importlib
import operator
import pkgutil
import sys
from collections import OrderedDict
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from bound_names import HOLDERS, VENDOR, WAYS, identities, marked, other, whole
from layers import HIDES_PATCHES
from watching import watched

import hookpatch
from hookpatch import Target
from hookpatch.errors import DisplacedWarning, TargetRefused


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


@pytest.mark.parametrize("verb", ["wrap", "replace", "derive"])
@pytest.mark.parametrize("name", ["plain", "c", "Kind"])
def test_every_name_bound_before_is_reached(
    vendor: ModuleType, make_module: Callable[[str, str], ModuleType], name: str, verb: str
) -> None:
    """Functions, C functions and classes are reached under every name, and restored to the identical object."""
    holder = make_module("holder", HOLDERS.format(name=name))
    unpatched = vars(vendor)[name]
    before = identities(whole(holder))
    patch = {
        "wrap": lambda: hookpatch.wrap(f"vendor:{name}", marked, reach="everywhere"),
        "replace": lambda: hookpatch.replace(f"vendor:{name}", other, reach="everywhere"),
        "derive": lambda: hookpatch.derive(f"vendor:{name}", lambda original: other, reach="everywhere"),
    }[verb]()
    argument = () if name == "Kind" else (4,)
    with hookpatch.active(patch) as session:
        for way, get in WAYS.items():
            answer = get(holder)(*argument)
            assert answer[0] == ("patched" if verb == "wrap" else "other"), way
        assert vars(vendor)[name](*argument)[0] == ("patched" if verb == "wrap" else "other")
        assert [stale for patch_report in session.report() for stale in patch_report.stale] == []
    assert identities(whole(holder)) == before
    assert vars(vendor)[name] is unpatched
    for way, get in WAYS.items():
        assert get(holder) is unpatched, way


def test_functions_are_reached_where_nothing_can_be_set(make_module: Callable[[str, str], ModuleType]) -> None:
    """A bound method kept in a variable, functools.lru_cache, a key, a set, a generator: a function changes inside."""
    make_module("vendor", VENDOR)
    holder = make_module(
        "holder",
        """
        import functools
        from vendor import plain, Kind
        bound, bound_class = Kind().method, Kind.of_class
        cached = functools.lru_cache(plain)
        keys, members = {plain: 1}, frozenset([plain])
        def generate(function):
            while True: yield function(5)
        running = generate(plain)
        """,
    )
    patches = [
        hookpatch.wrap(f"vendor:{name}", marked, reach="everywhere")
        for name in ("plain", "Kind.method", "Kind.of_class", "Kind.static")
    ]
    calls = [
        lambda: holder.bound(1),
        lambda: holder.bound_class(1),
        lambda: holder.cached.__wrapped__(1),
        lambda: next(iter(holder.keys))(1),
        lambda: next(iter(holder.members))(1),
        lambda: next(holder.running),
    ]
    with hookpatch.active(*patches) as session:
        assert [call()[0] for call in calls] == ["patched"] * 6
        assert holder.cached(2)[0] == "patched"
        assert all(patch.stale == () for patch in session.report())
    assert [call()[0] for call in calls] == [
        "plain" if index not in (0, 1) else ("method", "of_class")[index] for index in range(6)
    ]


def test_a_module_imported_inside_that_copies_the_name(
    vendor: ModuleType, write_module: Callable[[str, str], Path]
) -> None:
    """A module imported inside is patched; after the end the module has the original."""
    write_module("late", HOLDERS.format(name="Kind"))
    write_module("late_c", HOLDERS.format(name="c"))
    write_module("late_function", HOLDERS.format(name="plain"))
    kind, c, plain = vendor.Kind, vendor.c, vendor.plain
    patches = [
        hookpatch.derive("vendor:Kind", lambda kind: type("Better", (kind,), {}), reach="everywhere"),
        hookpatch.wrap("vendor:c", marked, reach="everywhere"),
        hookpatch.wrap("vendor:plain", marked, reach="everywhere"),
    ]
    with hookpatch.active(*patches):
        late, late_c, late_function = map(importlib.import_module, ("late", "late_c", "late_function"))
        assert late.thing.__name__ == "Better"
        assert late_c.thing(4)[0] == late_function.thing(4)[0] == "patched"
    for module, original in ((late, kind), (late_c, c), (late_function, plain)):
        for way, get in WAYS.items():
            assert get(module) is original, (module.__name__, way)


@pytest.mark.parametrize("verb", ["replace", "derive", "wrap"])
def test_a_module_whose_import_brings_the_target(verb: str, write_module: Callable[[str, str], Path]) -> None:
    """A half imported module copies the name after the patch is applied."""
    write_module("brought", "class Kind: pass")
    write_module("brings", "import brought\nfrom brought import Kind as copied")
    patches = {
        "replace": hookpatch.replace("brought:Kind", operator.add, reach="everywhere"),
        "derive": hookpatch.derive("brought:Kind", lambda kind: type("Better", (kind,), {}), reach="everywhere"),
        "wrap": hookpatch.wrap("brought:Kind", marked, reach="everywhere"),
    }
    with hookpatch.active(patches[verb]):
        brings: Any = importlib.import_module("brings")
        brought: Any = importlib.import_module("brought")
        inside = brought.Kind
        assert brings.copied is inside
    assert brings.copied is brought.Kind is not inside
    assert brought.Kind.__qualname__ == "Kind"


def test_a_value_in_its_own_home_stays(vendor: ModuleType, write_module: Callable[[str, str], Path]) -> None:
    """A class that is defined in a module imported inside was not copied from the patched name."""
    write_module("better", "class Better: pass")
    patch = hookpatch.derive("vendor:Kind", lambda kind: importlib.import_module("better").Better, reach="everywhere")
    with hookpatch.active(patch):
        better = sys.modules["better"]
        assert vendor.Kind is better.Better
    assert better.Better.__name__ == "Better"
    assert vendor.Kind is not better.Better


def test_a_factory_keeps_the_original_for_itself(make_module: Callable[[str, str], ModuleType]) -> None:
    """A derived class or wrapper keeps the original in a closure: no endless recursion."""
    vendor = make_module("vendor", VENDOR)
    kind, c = vendor.Kind, vendor.c

    def better(original: Any) -> Any:
        class Better(original):
            def method(self, x: Any) -> Any:
                return ("better", original.method(self, x))

        return Better

    def around(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        return ("around", c(*args))

    with hookpatch.active(
        hookpatch.derive("vendor:Kind", better, reach="everywhere"),
        hookpatch.wrap("vendor:c", around, reach="everywhere"),
    ):
        assert vendor.Kind().method(1) == ("better", ("method", 1))
        assert vendor.c(4) == ("around", 2)
    assert (vendor.Kind, vendor.c) == (kind, c)


@HIDES_PATCHES
def test_a_function_replaced_in_place(make_module: Callable[[str, str], ModuleType]) -> None:
    """A function replaced in place calls the given function, with its kind and signature, among other layers."""
    vendor = make_module(
        "vendor",
        """
        cell = 3
        def make():
            free = 5
            def closed(x): return free + x
            return closed
        closed = make()
        def plain(x): return x
        class Kind:
            def method(self, x): return x
            @staticmethod
            def static(x): return x
        """,
    )
    alias, method, bound = vendor.plain, vendor.Kind.method, vendor.Kind().method
    codes = [vars(vendor)[name].__code__ for name in ("plain", "closed")]

    async def later(x: int, y: int = 2) -> int:
        return x + y

    reach: Any = {"reach": "everywhere"}
    with hookpatch.active(hookpatch.replace("vendor:plain", later, **reach)):
        assert asyncio.run(alias(1)) == 3
        assert str(__import__("inspect").signature(alias)) == "(x: 'int', y: 'int' = 2) -> 'int'"
        with hookpatch.active(hookpatch.derive("vendor:plain", lambda below: lambda x: below, **reach)):
            assert asyncio.run(alias(0)(1)) == 3
        assert asyncio.run(alias(1)) == 3
    with hookpatch.active(
        hookpatch.wrap("vendor:closed", marked, **reach),
        hookpatch.replace("vendor:closed", max, **reach),
        hookpatch.wrap("vendor:closed", marked, **reach),
    ):
        assert vendor.closed(1, 2) == ("patched", 2)
    with hookpatch.active(
        hookpatch.derive("vendor:closed", lambda below: lambda x: ("derived", below(x)), **reach),
        hookpatch.wrap("vendor:closed", marked, **reach),
    ):
        assert vendor.closed(1) == ("derived", ("patched", 6))
    with hookpatch.active(
        hookpatch.wrap("vendor:Kind.method", marked, **reach),
        hookpatch.replace("vendor:Kind.method", lambda self, x: (type(self).__name__, x), **reach),
        hookpatch.replace("vendor:Kind.static", staticmethod(lambda x: ("static", x)), **reach),
    ):
        assert bound(1) == ("patched", ("Kind", 1))
        assert vendor.Kind.static(1) == ("static", 1)
    assert vars(vendor.Kind)["method"] is method
    assert (alias(1), bound(1), vendor.closed(1), vendor.Kind.static(1)) == (1, 1, 6, 1)
    assert [vars(vendor)[name].__code__ for name in ("plain", "closed")] == codes
    assert vars(alias) == {}
    assert alias.__kwdefaults__ is None


@pytest.mark.parametrize(
    "order", [(0, 2, 1), *(pytest.param(order, marks=pytest.mark.ends) for order in permutations(range(3)))]
)
def test_overlapping_sessions_everywhere(
    vendor: ModuleType, make_module: Callable[[str, str], ModuleType], order: tuple[int, ...]
) -> None:
    """Sessions with both reaches overlap and end in every order."""
    holder = make_module("holder", HOLDERS.format(name="c"))
    before, c = identities(whole(holder)), vendor.c

    def named(name: str) -> Any:
        return lambda wrapped, instance, args, kwargs: (name, wrapped(*args))

    sessions = [
        hookpatch.active(hookpatch.wrap("vendor:c", named("first"), reach="everywhere")).open(),
        hookpatch.active(hookpatch.wrap("vendor:c", named("slot"))).open(),
        hookpatch.active(hookpatch.replace("vendor:c", other, reach="everywhere")).open(),
    ]
    assert (vendor.c(4), holder.by_key["a"](4)) == (("other", 4), ("other", 4))
    for place in order:
        sessions[place].close()
    assert vendor.c is c
    assert identities(whole(holder)) == before


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        (
            hookpatch.remove("vendor:c", reach="everywhere"),
            "reach='everywhere' cannot remove: lists and defaults would get shorter; write a remove for each name",
        ),
        (
            hookpatch.replace("vendor:number", 3, reach="everywhere"),
            "reach='everywhere' looks for who holds an object, and an int may be held by chance; "
            "take reach='slot', and one patch for each place",
        ),
        (
            hookpatch.replace("vendor:function", 3, reach="everywhere"),
            "reach='everywhere' changes the function in place: the function can call plain functions only, not an "
            "int; take reach='slot'",
        ),
    ],
    ids=["remove", "number", "function"],
)
def test_refused(make_module: Callable[[str, str], ModuleType], patch: hookpatch.Patch, problem: str) -> None:
    """The error has a remedy, and no object is changed."""
    vendor = make_module("vendor", "from math import sqrt as c\nnumber = 7\ndef function(): pass")
    before = dict(vars(vendor)), vendor.function.__code__
    with pytest.raises(TargetRefused) as raised, hookpatch.active(patch):
        pass
    assert str(raised.value) == f"{problem} (target {patch.address} of a patch given to active())"
    assert (dict(vars(vendor)), vendor.function.__code__) == before


def test_a_reload_inside(make_module: Callable[[str, str], ModuleType]) -> None:
    """A reload starts a new search; at the end each holder has its own object again."""
    vendor = make_module("vendor", "class Kind: pass")
    holder = make_module("holder", "from vendor import Kind")
    first = holder.Kind
    with hookpatch.active(hookpatch.derive("vendor:Kind", lambda kind: type("B", (kind,), {}), reach="everywhere")):
        importlib.reload(vendor)
        assert (vendor.Kind.__name__, holder.Kind.__name__) == ("B", "B")
        assert vendor.Kind.__bases__[0] is not first
    assert holder.Kind is first
    assert vendor.Kind.__name__ == "Kind"
    assert vendor.Kind is not first
    assert watched() == []


def test_an_inherited_method_and_the_same_in_its_base(vendor: ModuleType) -> None:
    """Everywhere changes a class's own function in place; for an inherited function only the class's slot."""
    method, function = vars(vendor.Kind)["method"], vendor.Kind.method

    class Child(vendor.Kind):  # type: ignore[name-defined,misc]
        pass

    def named(name: str) -> Any:
        return lambda wrapped, instance, args, kwargs: (name, wrapped(*args))

    inherited = hookpatch.Target.attribute(Child, "method")
    with (
        hookpatch.active(hookpatch.wrap("vendor:Kind.method", named("base"), reach="everywhere")),
        hookpatch.active(hookpatch.wrap(inherited, named("child"), reach="everywhere")),
    ):
        assert function(vendor.Kind(), 1) == vendor.Kind().method(1) == ("base", ("method", 1))
        assert Child().method(1) == ("child", ("base", ("method", 1)))
    assert vars(vendor.Kind)["method"] is method
    assert "method" not in vars(Child)


def test_a_coroutine_function_is_not_made_to_call_what_is_none(make_module: Callable[[str, str], ModuleType]) -> None:
    """A change of a function's kind is refused on every Python, with a remedy."""
    vendor = make_module("vendor", "async def later(): return 1")
    code = vendor.later.__code__
    with (
        pytest.raises(TargetRefused) as raised,
        hookpatch.active(hookpatch.replace("vendor:later", lambda: 2, reach="everywhere")),
    ):
        pass
    assert str(raised.value) == (
        "reach='everywhere' changes the function in place: the function can call plain functions only, not a function "
        "of another kind (async, generator); take reach='slot' (target vendor:later of a patch given to active())"
    )
    assert vendor.later.__code__ is code


def test_a_parameter_of_our_name(make_module: Callable[[str, str], ModuleType]) -> None:
    """A function changed in place finds its patch by a hidden parameter; with reach="slot" the name is free."""
    vendor = make_module("vendor", "def price(__hookpatch__=3): return __hookpatch__")
    doubled = hookpatch.wrap("vendor:price", lambda wrapped, instance, args, kwargs: 2 * wrapped(*args, **kwargs))
    with hookpatch.active(doubled):
        assert (vendor.price(), vendor.price(__hookpatch__=4)) == (6, 8)
    with pytest.raises(
        TargetRefused, match=r"its variable __hookpatch__ has the name reserved for .*; take reach='slot'"
    ):
        hookpatch.active(hookpatch.replace("vendor:price", print, reach="everywhere")).open()
    assert vendor.price() == 3


def test_an_ordered_dict_is_not_set_while_it_is_being_set() -> None:
    """Theirs dies inside its __setitem__: the slot is given back at the next look, and the dict is whole."""
    owner = OrderedDict(a=1)
    session = hookpatch.active(hookpatch.replace(Target.item(owner, "b"), lambda: 2, add=True)).open()
    saved = owner["b"]
    owner["b"] = lambda: saved()
    with pytest.warns(DisplacedWarning):
        session.close()
    owner["b"] = saved
    hookpatch.report()
    assert list(owner.items()) == [("a", 1)]


@pytest.mark.parametrize("name", ["c", "Kind"])
def test_a_module_that_was_there_and_is_reloaded_inside(
    name: str, vendor: Any, make_module: Callable[[str, str], ModuleType]
) -> None:
    """A reloaded module copies our value, and holds the original at the end, without a warning."""
    user = make_module("user", f"from vendor import {name}")
    original = getattr(vendor, name)
    with hookpatch.active(
        hookpatch.wrap(f"vendor:{name}", lambda w, i, a, k: w(*a, **k), reach="everywhere")
    ) as session:
        importlib.reload(user)
        assert getattr(user, name) is getattr(vendor, name)
    assert getattr(user, name) is getattr(vendor, name) is original
    assert {patch.state for patch in session.report()} == {"restored"}


def test_what_another_patch_has_made_keeps_the_original_for_itself(vendor: Any) -> None:
    """A derived function or class that calls the original by name is not changed."""
    kind = vendor.Kind

    def derived_function(below: Any) -> Any:
        return lambda x: ("derived", below(x))

    def derived_class(below: Any) -> Any:
        class Kind(below):  # type: ignore[misc]  # mypy has no name for it
            base = below

            def method(self, x: Any) -> Any:
                return ("derived", below.method(self, x))

        return Kind

    def twice(below: Any) -> Any:
        return type("Twice", (below,), {})

    with (
        hookpatch.active(hookpatch.derive("vendor:c", derived_function)),
        hookpatch.active(hookpatch.derive("vendor:Kind", derived_class)),
    ):
        inner = vendor.Kind
        with hookpatch.active(
            hookpatch.wrap("vendor:c", lambda w, i, a, k: ("wrapped", w(*a, **k)), reach="everywhere"),
            hookpatch.derive("vendor:Kind", twice, reach="everywhere"),
        ):
            assert vendor.c(4) == ("wrapped", ("derived", 2.0))
            assert vendor.Kind.__mro__[1:3] == (inner, kind)
            assert inner.base is kind
            assert inner.method.__closure__[0].cell_contents is kind
    assert vendor.Kind is kind


def test_what_was_derived_and_has_ended_is_left_alone(vendor: Any) -> None:
    """A function derived by an ended patch lives on beneath a wrap, unchanged."""
    functions: list[Any] = []

    def derive(below: Any) -> Any:
        functions.append(lambda x: ("derived", below(x)))
        return functions[-1]

    around = hookpatch.wrap("vendor:c", lambda w, i, a, k: w(*a, **k))
    original = vendor.c
    low = hookpatch.active(hookpatch.derive("vendor:c", derive)).open()
    with hookpatch.active(around):
        low.close()
        with hookpatch.active(hookpatch.wrap("vendor:c", lambda w, i, a, k: w(*a, **k), reach="everywhere")):
            assert functions[0].__closure__[0].cell_contents is original


def test_objects_held_side_by_side_in_one_session(make_module: Callable[[str, str], ModuleType]) -> None:
    """The holders of all objects are looked for once, before the first is patched; each place gets its own patch."""
    m: Any = make_module(
        "held_beside",
        "from math import cos, sin, tan\nfrom functools import partial\npair = sin, (cos, sin)\nrow = [cos, sin]\n"
        "table = {'sin': sin, 'cos': cos}\npart = partial(sin, cos)\ndef call(x, f=sin, g=cos): return f(x), g(x)\n",
    )

    def doubled(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs) + 10

    before = {name: value for name, value in vars(m).items() if name != "__builtins__"}, m.call.__defaults__
    contents = list(m.row), dict(m.table), (m.part.func, *m.part.args)
    patches = [hookpatch.wrap(f"math:{name}", doubled, reach="everywhere") for name in ("sin", "cos", "tan")]
    for _ in range(2):
        with hookpatch.active(*patches) as session:
            assert (m.sin(0), m.cos(0), m.tan(0)) == (10, 11, 10)
            assert (m.pair[0](0), m.pair[1][0](0), m.pair[1][1](0)) == (10, 11, 10)
            assert [f(0) for f in (*m.row, *m.table.values())] == [11, 10, 10, 11]
            assert (m.part.func(0), m.part.args[0](0)) == (10, 11)
            assert m.call(0) == (10, 11)
            assert {patch.state for patch in session.report()} == {"applied"}
        after = {name: value for name, value in vars(m).items() if name != "__builtins__"}, m.call.__defaults__
        assert all(after[0][name] is value for name, value in before[0].items() if name != "pair")
        assert after == before
        assert (list(m.row), dict(m.table), (m.part.func, *m.part.args)) == contents
        assert [type(value) for value in (*m.pair[1], *m.call.__defaults__)] == [type(m.sin)] * 4


def test_a_module_imported_inside_that_copies_the_names_of_several_patches(
    write_module: Callable[[str, str], Path],
) -> None:
    """All copies are restored by a single look at the end."""
    write_module("copies", "from math import cos, sin\nboth = [sin, cos]\n")

    def doubled(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs) + 10

    with hookpatch.active(*(hookpatch.wrap(f"math:{n}", doubled, reach="everywhere") for n in ("sin", "cos"))):
        copies: Any = importlib.import_module("copies")
        assert [f(0) for f in (copies.sin, copies.cos, *copies.both)] == [10, 11, 10, 11]
    import math

    assert [copies.sin, copies.cos, *copies.both] == [math.sin, math.cos] * 2
    assert type(math.sin) is type(len)


@pytest.mark.parametrize("on_base", ["nobody", "foreign code", "a session"])
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_a_copy_of_an_inherited_method_follows_the_base_class(
    make_module: Callable[[str, str], ModuleType], reach: Any, on_base: str
) -> None:
    """Foreign code keeps our wrapper of an inherited method. After the end the wrapper finds the method of the base."""
    vendor = make_module("heirs", "class Base:\n    def own(self, x): return x\nclass Heir(Base): pass")
    original = vendor.Base.own
    base = hookpatch.active(hookpatch.wrap("heirs:Base.own", marked))
    with hookpatch.active(hookpatch.wrap("heirs:Heir.own", marked, reach=reach)):
        copy = vendor.Heir.own

        def foreign(self: Any, x: int) -> Any:
            return "foreign", copy(self, x)

        vendor.Heir.own = foreign
        if on_base == "foreign code":
            vendor.Base.own = lambda self, x: ("base", original(self, x))
        if on_base == "a session":
            base.open()
    try:
        wanted = {"nobody": 1, "foreign code": ("base", 1), "a session": ("patched", 1)}[on_base]
        assert vendor.Base().own(1) == wanted
        assert vendor.Heir().own(1) == ("foreign", wanted)
    finally:
        base.close()


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("importing", ["before the block", "inside"])
@pytest.mark.parametrize(
    ("given", "binds"),
    [
        ("dict", "own = dict"),
        ("dict", "import dataclasses\nfield = dataclasses.field(default_factory=dict)\nown = dict"),
        ("operator:add", "from operator import add as own"),
        ("given_home.part:Given", "from given_home.part import Given as own"),
        ("given_home.part:Given", "from given_home import part\nown = part.Given"),
        ("given_home.part:Given", "import given_home.part as home\nown = [home.Given][0]"),
    ],
)
@pytest.mark.sampled(8)
def test_a_given_value_that_a_module_has_from_elsewhere_stays(
    vendor: ModuleType, write_module: Callable[[str, str], Path], given: str, binds: str, importing: str, reach: Any
) -> None:
    """The end wrote the original over a value that a module, imported inside, had from the value's own home.

    The first cell spoilt hookpatch itself: ``replace("m:C", dict)`` left C in place of dict in its late modules.
    """
    home = write_module("given_home.part", "class Given: pass\n")
    (home.parent / "__init__.py").write_text("from given_home import part")
    value = pkgutil.resolve_name(given if ":" in given else f"builtins:{given}")
    write_module("owning", f"{binds}\nfrom vendor import Kind as copied")
    original = vendor.Kind
    if importing == "before the block":
        importlib.import_module("owning")
    with hookpatch.active(hookpatch.replace("vendor:Kind", value, reach=reach, check_signature=False, why="any class")):
        owning: Any = importlib.import_module("owning")
        assert owning.copied is (original if (importing, reach) == ("before the block", "slot") else value)
    assert owning.own is value
    assert vendor.Kind is original
    if (importing, reach) != ("inside", "slot"):
        assert owning.copied is original
    assert not hasattr(owning, "field") or owning.field.default_factory is dict
