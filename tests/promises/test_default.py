"""``default`` gives an argument where the caller gave none, as Python binds; ``inject`` overrides the caller."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import subprocess
import sys
from collections.abc import Callable
from inspect import iscoroutine, isgenerator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import ConflictError, PatchError, SignatureError
from hookpatch.testing import pristine

VENDOR: Final = """
    import functools

    def function(a=0, b=0): return a, b
    def by_keyword(a=0, *, b=0): return a, b
    def by_place(a=0, b=0, /): return a, b
    def mixed(a=0, /, b=0): return a, b
    def collected(a=0, *more, b=0): return (a, *more, b)
    def keywords(a=0, **more): return a, more.get("b", 0)
    async def coroutine(a=0, b=0): return a, b
    def generator(a=0, b=0): yield a, b
    partial = functools.partial(function)
    decorated = functools.lru_cache(function)
    def no_way(a, b=0, /, c=0): return a, b, c

    class Kind:
        def __init__(self, a=0, b=0): self.pair = a, b
        def method(self, a=0, b=0): return a, b
        def method_by_place(self, a=0, b=0, /): return a, b
        @classmethod
        def of_class(cls, a=0, b=0): return a, b
        @staticmethod
        def static(a=0, b=0): return a, b
        def __call__(self, a=0, b=0): return a, b

    class Child(Kind): pass

    def made(*args, **kwargs): return Kind(*args, **kwargs).pair
    thing = Kind()
    table = {"f": function}
    """
KINDS: Final = {  # the address, and the caller
    "function": ("vendor:function", lambda vendor: vendor.function),
    "keyword only": ("vendor:by_keyword", lambda vendor: vendor.by_keyword),
    "by place alone": ("vendor:by_place", lambda vendor: vendor.by_place),
    "by place and free": ("vendor:mixed", lambda vendor: vendor.mixed),
    "any keyword": ("vendor:keywords", lambda vendor: vendor.keywords),
    "coroutine function": ("vendor:coroutine", lambda vendor: vendor.coroutine),
    "generator function": ("vendor:generator", lambda vendor: vendor.generator),
    "method": ("vendor:Kind.method", lambda vendor: vendor.Kind().method),
    "method on the class": ("vendor:Kind.method", lambda vendor: functools.partial(vendor.Kind.method, vendor.thing)),
    "method by place": ("vendor:Kind.method_by_place", lambda vendor: vendor.Kind().method_by_place),
    "inherited method": ("vendor:Child.method", lambda vendor: vendor.Child().method),
    "class method": ("vendor:Kind.of_class", lambda vendor: vendor.Kind.of_class),
    "static method": ("vendor:Kind.static", lambda vendor: vendor.Kind.static),
    "constructor": ("vendor:Kind.__init__", lambda vendor: vendor.made),
    "class": ("vendor:Kind", lambda vendor: vendor.made),
    "partial": ("vendor:partial", lambda vendor: vendor.partial),
    "cached": ("vendor:decorated", lambda vendor: vendor.decorated),
    "callable object": ("vendor:thing", lambda vendor: vendor.thing),
    "registry entry": ("vendor:table['f']", lambda vendor: vendor.table["f"]),
}
EVERYWHERE: Final = (
    *(
        "function",
        "keyword only",
        "by place alone",
        "any keyword",
        "coroutine function",
        "generator function",
        "method",
    ),
    *("method on the class", "class method", "static method", "constructor"),
)
CELLS: Final = [(kind, "slot") for kind in KINDS] + [(kind, "everywhere") for kind in EVERYWHERE]
BY_PLACE: Final = {"by place alone", "method by place"}  # neither argument has a keyword
FIRST_BY_PLACE: Final = {*BY_PLACE, "by place and free"}


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


def called(callee: Any, *args: Any, **kwargs: Any) -> Any:
    result = callee(*args, **kwargs)
    if isgenerator(result):
        return next(result)
    return asyncio.run(result) if iscoroutine(result) else result


@pytest.mark.parametrize("scope", ["process", "task"])
@pytest.mark.parametrize(("kind", "reach"), CELLS)
def test_given_where_the_caller_gave_none(vendor: ModuleType, kind: str, reach: Any, scope: Any) -> None:
    """A default counts for calls by place, by keyword and by partial; a caller's None stays; the end restores."""
    address, find = KINDS[kind]
    gives_b_by_place = kind not in ("keyword only", "any keyword")
    with pristine():
        with hookpatch.active(hookpatch.default(address, b=5, reach=reach), scope=scope):
            callee = find(vendor)
            assert called(callee) == (0, 5)
            assert called(callee, 1) == (1, 5)
            if gives_b_by_place:
                assert called(callee, 1, 2) == (1, 2)
                assert called(callee, 1, None) == (1, None)
                assert called(functools.partial(callee, 1, 2)) == (1, 2)
            if kind not in BY_PLACE:
                assert called(callee, 1, b=2) == (1, 2)
                assert called(callee, b=None) == (0, None)
                assert called(functools.partial(callee, b=2), 1) == (1, 2)
            if kind not in FIRST_BY_PLACE:
                assert called(callee, a=1) == (1, 5)
            elsewhere = contextvars.Context().run(lambda: called(callee))
            assert elsewhere == ((0, 5) if scope == "process" else (0, 0))
        assert called(find(vendor)) == (0, 0)


def test_a_gap_before_it_is_filled_with_the_defaults(vendor: ModuleType) -> None:
    """A positional-only default fills earlier parameters with the function's defaults; a required one stays missing."""
    with hookpatch.active(hookpatch.default("vendor:no_way", b=5, c=6)):
        assert vendor.no_way(1) == (1, 5, 6)
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
            vendor.no_way()
    with hookpatch.active(hookpatch.default("vendor:collected", b=5)):
        assert vendor.collected(1, 2, 3) == (1, 2, 3, 5)
        assert vendor.collected(1, 2, b=3) == (1, 2, 3)


def test_what_the_function_refused_it_still_refuses(vendor: ModuleType) -> None:
    with hookpatch.active(hookpatch.default("vendor:function", b=5)):
        with pytest.raises(TypeError, match="got multiple values for argument 'a'"):
            vendor.function(1, a=2)
        with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
            vendor.function(c=2)


def test_each_call_gets_a_list_of_its_own(make_module: Callable[[str, str], ModuleType]) -> None:
    module = make_module(
        "lists", "def function(names=(), /, more=()): names.append(1); more.append(1); return names, more"
    )
    with hookpatch.active(hookpatch.default("lists:function", names=[], more=[])):
        assert module.function() == module.function() == ([1], [1])


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("is_default_outside", [True, False])
def test_inject_beats_default(vendor: ModuleType, is_default_outside: bool, reach: Any) -> None:
    """inject beats default in any order; the default gives the other arguments, and reports the overruled."""
    default = hookpatch.default("vendor:function", a=1, b=2, reach=reach)
    inject = hookpatch.inject("vendor:function", b=9, reach=reach)
    patches = (default, inject) if is_default_outside else (inject, default)
    for together in (True, False):
        with pristine():
            sessions = (
                [hookpatch.active(*patches)] if together else [hookpatch.active(patch) for patch in patches[::-1]]
            )
            for session in sessions:
                session.open()
            assert vendor.function() == (1, 9)
            assert vendor.function(3, 4) == (3, 9)
            entries = [entry for session in sessions for entry in session.report()]
            notes = {entry.verb: "; ".join(entry.warnings) for entry in entries}
            where = ", which lies outside" if not is_default_outside else ""
            how = "given" if where else "injected"
            assert notes["default"] == f"without effect on b: {how} by a patch given to active(){where}"
            assert not notes["inject"]
            for session in sessions:
                session.close()


def test_two_plugins_with_two_defaults_are_a_conflict(
    vendor: ModuleType, make_distribution: Callable[..., Path]
) -> None:
    """Two defaults for a parameter conflict unless a plugin declares its place; other parameters get both."""
    sources = {
        "one": "default('vendor:function', b=1)",
        "two": "default('vendor:function', b=2)",
        "outer": "default('vendor:function', b=3, before='one')",
        "other": "default('vendor:function', a=4)",
        "same": "default('vendor:function', b=1)",
    }
    for name, patch in sources.items():
        source = f"import hookpatch\n@hookpatch.hookimpl\ndef hookpatch_patches():\n    yield hookpatch.{patch}\n"
        make_distribution(f"d-{name}", plugins={name: f"plugin_{name}"}, modules={f"plugin_{name}": source})
    with pytest.raises(ConflictError, match=r"plugin 'one' from d-one 1\.0 also puts a value for b"):
        hookpatch.active("one", "two").open()
    with hookpatch.active("one", "outer"):
        assert vendor.function() == (0, 3)
    with hookpatch.active("one", "other", "same"):
        assert vendor.function() == (4, 1)
    with pytest.raises(ConflictError, match="puts a value for b twice"):
        hookpatch.active(hookpatch.default("vendor:function", b=1), hookpatch.default("vendor:function", b=2)).open()


def test_a_wrapper_sees_the_default_where_it_lies_inside(vendor: ModuleType) -> None:
    calls = []

    def note(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        calls.append((args, kwargs))
        return wrapped(*args, **kwargs)

    with hookpatch.active(hookpatch.wrap("vendor:function", note), hookpatch.default("vendor:function", b=5)):
        assert vendor.function() == (0, 5)
    with hookpatch.active(hookpatch.default("vendor:function", b=5), hookpatch.wrap("vendor:function", note)):
        assert vendor.function() == (0, 5)
    assert calls == [((), {}), ((), {"b": 5})]


def test_bad_input(vendor: ModuleType) -> None:
    with pytest.raises(PatchError, match=r"default\(\): no argument to give; write default\(target, name=value\)"):
        hookpatch.default("vendor:function")
    with pytest.raises(SignatureError, match=r"takes no argument 'bb'; did you mean 'b'\?"):
        hookpatch.active(hookpatch.default("vendor:function", bb=1)).open()
    with pytest.raises(SignatureError, match="shows no signature, and the names of positional arguments are unknown"):
        hookpatch.active(hookpatch.default("builtins:getattr", default=1)).open()
    with pytest.raises(SignatureError, match=r"default\(target, \{'whys': ...\}\)"):
        hookpatch.active(hookpatch.default("vendor:keywords", whys="x")).open()
    with hookpatch.active(hookpatch.default("vendor:function", {"b": 4}, why="mapping"), count=True):
        assert vendor.function() == (0, 4)


def test_counted_planned_and_explained(vendor: ModuleType) -> None:
    """Plan, report and why show the arguments of a default."""
    with hookpatch.active(hookpatch.default("vendor:function", b=5, required_calls=1), count=True) as session:
        vendor.function()
        (entry,) = session.report()
        assert (entry.verb, entry.calls) == ("default", {"eager": 1})
        assert hookpatch.why("vendor:function").layers[0].arguments == {"b": "5"}


def test_a_child_process_has_it(write_module: Callable[[str, str], Path]) -> None:
    folder = write_module("shop", "def order(item, timeout=None): return timeout").parent
    program = "import shop; print(shop.order(1), shop.order(1, None))"
    with hookpatch.active(hookpatch.default("shop:order", timeout=30)):
        child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=folder, check=True)
    assert child.stdout == "30 None\n"
