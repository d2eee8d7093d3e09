"""Holders: find and report the holders of a patched object, without a change."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from threading import Event
from types import ModuleType
from typing import Any, Final

import pytest
from bound_names import HOLDERS, VENDOR, identities, marked, other, whole
from shared_targets import switching_often, together

import hookpatch
from hookpatch._engine.patch.describe import describe
from hookpatch._engine.slots.holders import _keys


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


def test_what_cannot_be_reached_is_listed(make_module: Callable[[str, str], ModuleType]) -> None:
    """An unreachable holder is listed with its name."""
    holder = make_module(
        "holder",
        """
        import functools
        from math import sqrt
        class Vector: pass
        class Longer(Vector): pass
        cached = functools.lru_cache(sqrt)
        keys, members = {sqrt: 1, Vector: 2}, {sqrt}
        def generate(function):
            yield
            yield function
        running = generate(sqrt)
        next(running)
        """,
    )
    reach: Any = {"reach": "everywhere"}
    with hookpatch.active(
        hookpatch.wrap("math:sqrt", marked, **reach), hookpatch.replace("holder:Vector", dict, **reach)
    ) as session:
        report = session.report()
    stale = {patch.target: patch.stale for patch in report if patch.place is None}
    assert stale == {
        "math:sqrt": (
            "a key of holder:keys",
            "a local variable of generate",
            "holder:cached (a _lru_cache_wrapper)",
            "holder:members (a set)",
        ),
        "holder:Vector": ("a key of holder:keys", "holder:Longer (a subclass)"),
    }
    assert {patch.place for patch in report if patch.target == "math:sqrt"} >= {None, "holder:sqrt"}
    assert holder.sqrt is __import__("math").sqrt


def test_stale_holders_of_a_patched_slot_are_reported(
    vendor: ModuleType, make_module: Callable[[str, str], ModuleType]
) -> None:
    """Stale holders are reported by module and name, unchanged; a patch everywhere has none."""
    holder = make_module("holder", HOLDERS.format(name="plain"))
    before = identities(whole(holder))
    with hookpatch.active(
        hookpatch.wrap("vendor:plain", marked), hookpatch.wrap("vendor:Kind.method", marked, reach="everywhere")
    ) as session:
        report = session.report()
        assert holder.thing() == ("plain", 1)
    plain, method = report
    assert method.stale == ()
    assert plain.stale == (
        "holder:Class.attribute",
        "holder:Class.prop.fget",
        "holder:Class.static",
        "holder:argument.args[1][0]",
        "holder:arguments.args[0]",
        "holder:arguments.keywords['function']",
        "holder:by_key['a']",
        "holder:by_key['deep']['b'][1]",
        "holder:in_list[1]",
        "holder:in_list[3]",
        "holder:in_tuple[1][0]",
        "holder:in_tuple[2]",
        "holder:instance.own",
        "holder:ordered['a']",
        "holder:part.func",
        "holder:queue[0]",
        "holder:renamed",
        "holder:slotted.own",
        "holder:thing",
        "the closure variable 'held' of holder:outer.<locals>.inner",
        "the defaults of holder:default",
        "the defaults of holder:keyword['function']",
    )
    assert str(report).splitlines()[:2] == [
        "applied   wrap    vendor:plain  (active())",
        "          stale   holder:Class.attribute holds the original still",
    ]
    assert identities(whole(holder)) == before


def test_looking_for_holders_wakes_nothing(vendor: ModuleType, make_module: Callable[[str, str], ModuleType]) -> None:
    """No lazy module, no property, no ``__class__`` of a proxy, no ``__eq__`` of a key or element."""
    make_module(
        "awake",
        """
        import sys, types
        from vendor import plain
        woken = []
        class Lazy(types.ModuleType):
            def __getattr__(self, name):
                woken.append(name)
                raise AttributeError(name)
        lazy = sys.modules["awake_lazy"] = Lazy("awake_lazy")
        class Proxy:
            def __init__(self): self.plain = plain
            @property
            def __class__(self): woken.append("__class__"); return int
            @property
            def value(self): woken.append("value")
            def __getattribute__(self, name):
                if name != "plain": woken.append(name)
                return object.__getattribute__(self, name)
            def __eq__(self, other): woken.append("=="); return False
            def __hash__(self): return 1
            def __bool__(self): woken.append("bool"); return True
        proxy = Proxy()
        table = {proxy: plain, "proxy": proxy}
        elements = [proxy, plain]
        woken.clear()
        """,
    )
    awake = sys.modules["awake"]
    try:
        with hookpatch.active(hookpatch.wrap("vendor:plain", marked)) as session:
            (patch,) = session.report()
    finally:
        del sys.modules["awake_lazy"]
    assert awake.woken == []
    assert patch.stale == (
        "awake:elements[1]",
        "awake:plain",
        "awake:proxy.plain",
        f"awake:table[{describe(awake.proxy)}]",
    )


def test_modules_that_the_collector_was_told_to_leave_out(
    vendor: ModuleType, make_module: Callable[[str, str], ModuleType]
) -> None:
    """After gc.freeze(), as in servers before a fork, names in modules and classes are still found."""
    holder = make_module("holder", HOLDERS.format(name="c"))
    c = holder.thing
    gc.freeze()
    try:
        with hookpatch.active(hookpatch.replace("vendor:c", other, reach="everywhere")):
            assert holder.thing is holder.renamed is vars(holder.Class)["attribute"] is other
    finally:
        gc.unfreeze()
    assert holder.thing is holder.renamed is vars(holder.Class)["attribute"] is c


@pytest.mark.ends
def test_one_look_for_all_patches(make_module: Callable[[str, str], ModuleType], monkeypatch: Any) -> None:
    """However many patches a session has, all objects are gone through once for each step to a name."""
    names = [f"f{number}" for number in range(200)]
    make_module("vendor", "\n".join(f"def {name}(): pass" for name in names))
    make_module("holder", f"from vendor import {', '.join(names)}")
    looks: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        look = getattr(gc, name)
        return lambda *arguments: looks.append(name) or look(*arguments)

    with hookpatch.active(*(hookpatch.wrap(f"vendor:{name}", marked) for name in names)) as session:
        for name in ("get_referrers", "get_objects"):
            monkeypatch.setattr(gc, name, counted(name))
        report = session.report()
        monkeypatch.undo()
    assert [patch.stale for patch in report] == [(f"holder:{name}",) for name in names]
    assert 1 <= len(looks) <= 4


@pytest.mark.ends
@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ("", None),
        ("renamed, again = upper, upper", "holder:renamed"),
        ("table = [upper]", "holder:table[0]"),
        ("def call(function=upper): return function('x')", "the defaults of holder:call"),
        ("class Holder: attribute = upper", "holder:Holder.attribute"),
    ],
)
def test_callables_that_modules_alone_hold_need_no_look(
    make_module: Callable[[str, str], ModuleType], monkeypatch: Any, lines: str, place: str | None
) -> None:
    """Of the callables of a session; a further holder is found: then a callable has more references than names."""
    make_module("vendor", "upper, lower = 'a'.upper, 'a'.lower")
    make_module("holder", f"from vendor import upper\n{lines}")
    looks: list[int] = []
    look = gc.get_referrers
    monkeypatch.setattr(gc, "get_referrers", lambda *objects: looks.append(len(objects)) or look(*objects))
    patches = [hookpatch.wrap(f"vendor:{name}", marked, reach="everywhere") for name in ("upper", "lower")]
    with hookpatch.active(*patches) as session:
        monkeypatch.undo()
        places = [patch.place for patch in session.report()]
    assert looks[:1] == [1] * (place not in (None, "holder:renamed"))  # of two callables, the one held elsewhere
    assert {"holder:upper", place} <= {*places, None}


@pytest.mark.ends
@pytest.mark.parametrize("other", ["function()", "[(cell,)]", "FunctionType(code, {}, None, (cell,), (CellType(1),))"])
@pytest.mark.parametrize("made", ["function(), {}", "{}, function()"])
def test_a_cell_in_several_tuples(make_module: Callable[[str, str], ModuleType], made: str, other: str) -> None:
    """The first tuple is looked for, and if it is no closure, the other ones. The collector's order is its own."""
    make_module("vendor", "upper = 'a'.upper")
    lines = ["from types import CellType, FunctionType", "from vendor import upper", "def outer(held):"]
    lines += ["    def inside(): return held", "    return inside", "code = outer(0).__code__", "def make(cell):"]
    lines += ["    function = lambda: FunctionType(code, globals(), None, None, (cell,))"]
    lines += [f"    return {made.format(other)}", "made = make(CellType(upper))"]
    holder = make_module("holder", "\n".join(lines))
    with hookpatch.active(hookpatch.wrap("vendor:upper", marked, reach="everywhere")) as session:
        assert "the closure variable 'held' of holder:outer.<locals>.inside" in [row.place for row in session.report()]
        held = [function() for function in holder.made if callable(function)]
        assert {value() for value in held if value != 1} == {("patched", "A")}


AFTER_ASYNCIO: Final = """
import asyncio, resource, sys, types, hookpatch
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

async def main():
    loop = asyncio.get_running_loop()
    async def one():
        future = loop.create_future()
        loop.call_soon(future.set_result, 1)
        return await future
    await asyncio.gather(*(one() for _ in range(50)))

asyncio.run(main())
module = sys.modules["vendor"] = types.ModuleType("vendor")
patches = []
for at in range(20):
    setattr(module, f"f{at}", lambda: 1)
    patches.append(hookpatch.wrap(f"vendor:f{at}", lambda wrapped, instance, args, kwargs: 2))
with hookpatch.active(*patches):
    for _ in range(3):
        print(len(hookpatch.report().patches))
"""


def test_iterators_that_asyncio_keeps_for_later_are_left_alone() -> None:
    """asyncio's dead iterators, visible to the collector, are left alone: a reference would hang the next look."""
    completed = subprocess.run([sys.executable, "-c", AFTER_ASYNCIO], capture_output=True, text=True, timeout=60)
    assert completed.stdout.split() == ["20"] * 3, completed.stderr


@pytest.mark.parametrize("make", ["threading.Lock()", "3", "Loud()"])
def test_a_proxy_of_an_object_without_attributes_is_no_error(
    make_module: Callable[[str, str], ModuleType], make: str
) -> None:
    """A wrapt proxy asks the wrapped object for ``__dict__``: the report named no holder, but raised the error."""
    keeper = make_module(
        "keeper",
        f"""
        import threading
        import wrapt
        from math import sqrt
        class Keeper(wrapt.ObjectProxy):
            def __init__(self, wrapped):
                super().__init__(wrapped)
                self._self_kept = sqrt
        class Loud:
            @property
            def __dict__(self):
                raise RuntimeError("asked for attributes")
        keeper = Keeper({make})
        """,
    )
    with hookpatch.active(hookpatch.replace("math:sqrt", other)) as session:
        [patch] = session.report()
        assert patch.state == "applied"
        assert "keeper:sqrt" in patch.stale
    assert keeper.keeper._self_kept is keeper.sqrt


def test_a_mapping_that_other_threads_change() -> None:
    """The keys of a referent are found while another thread adds and drops keys."""
    referent, stop = object(), Event()
    mapping = {**dict.fromkeys(range(500)), "here": referent}

    def add_and_drop() -> None:
        while not stop.is_set():
            mapping.update(dict.fromkeys(map(str, range(100))))
            for number in range(100):
                del mapping[str(number)]

    def look_for_keys() -> None:
        try:
            for _ in range(20_000):
                assert _keys(mapping, referent) == ["here"]
        finally:
            stop.set()

    with switching_often(9):
        together(look_for_keys, add_and_drop)


def test_a_holder_with_a_property_in_place_of_its_module(make_module: Callable[[str, str], ModuleType]) -> None:
    """A report names a subclass whose ``__module__`` is a property, as wrapt's ObjectProxy has one."""
    source = "class Given: pass\nclass Proxy(Given):\n    __module__ = property(lambda self: 'own')\nvalue = 1"
    proxied: Any = make_module("proxied", source)
    with hookpatch.active(hookpatch.replace("proxied:value", proxied.Given)) as session:
        assert [patch.state for patch in session.report()] == ["applied"]
    assert [patch.state for patch in session.report()] == ["restored"]
