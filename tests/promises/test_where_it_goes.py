"""reach="everywhere" reaches the target's value within only_in= and except_in=, and no other place."""

from __future__ import annotations

import functools
import importlib
import inspect
import queue
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import PatchError, TargetRefused
from hookpatch.testing import pristine

WriteModule = Callable[..., Path]


def adding_name(name: str) -> Any:
    """Return a wrapper that adds a name to the result from beneath."""
    return lambda wrapped, instance, args, kwargs: (name, wrapped(*args, **kwargs))


# --- inherited names belong to another owner


KINDS: Final = """
    class Norm:
        def method(self): return "method"
        @classmethod
        def of_class(cls): return cls.__name__
        @staticmethod
        def static(): return "static"
        async def later(self): return "later"
        def __call__(self): return "call"

    class Mine(Norm): pass
    class Other(Norm): pass
    class Below(Mine): pass
    class Mapping(dict): pass
    class Text(str): pass
    class Bare: pass

    class Lazy:
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda: name

    norm, mine, other, mapping, lazy = Norm(), Mine(), Other(), Mapping(a=1), Lazy()
    unrelated = [object.__init__, dict.get, str.upper, Norm.method]
    """
# The address, the changed places, and the unchanged places.
INHERITED: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "Mine.method": (
        lambda kinds: (kinds.mine.method(), kinds.Below().method()),
        lambda kinds: (kinds.norm.method(), kinds.other.method()),
    ),
    "Mine.of_class": (
        lambda kinds: (kinds.Mine.of_class(), kinds.Below.of_class()),
        lambda kinds: (kinds.Norm.of_class(), kinds.Other.of_class()),
    ),
    "Mine.static": (
        lambda kinds: (kinds.Mine.static(), kinds.Below.static()),
        lambda kinds: (kinds.Norm.static(), kinds.Other.static()),
    ),
    "Mine.__call__": (
        lambda kinds: (kinds.mine(), kinds.Below()()),
        lambda kinds: (kinds.norm(), kinds.other()),
    ),
    "mine.method": (
        lambda kinds: (kinds.mine.method(), kinds.mine.method()),
        lambda kinds: (kinds.Mine().method(), kinds.norm.method()),
    ),
    "Mapping.get": (
        lambda kinds: (kinds.mapping.get("a"), kinds.Mapping().get("b")),
        lambda kinds: ({"a": 1}.get("a"), kinds.unrelated[1]({}, 1)),
    ),
    "mapping.get": (
        lambda kinds: (kinds.mapping.get("a"), kinds.mapping.get("b")),
        lambda kinds: (kinds.Mapping().get("a"), {}.get("b")),
    ),
    "Text.upper": (
        lambda kinds: (kinds.Text("a").upper(), kinds.Text("b").upper()),
        lambda kinds: ("a".upper(), kinds.unrelated[2]("b")),
    ),
    "lazy.name": (
        lambda kinds: (kinds.lazy.name(), kinds.lazy.name()),
        lambda kinds: (kinds.lazy.other(), kinds.Lazy().name()),
    ),
}


@pytest.fixture
def kinds(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("kinds", KINDS)


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("verb", ["wrap", "replace", pytest.param("derive", marks=pytest.mark.ends)])
@pytest.mark.parametrize("name", INHERITED)
@pytest.mark.sampled(9)
def test_what_is_inherited_is_patched_where_it_was_addressed(
    kinds: ModuleType, name: str, verb: str, reach: Any
) -> None:
    """The base class, its other children and holders of the same object are unchanged, with both reaches."""
    patched, unpatched = INHERITED[name]
    plain, unchanged = patched(kinds), unpatched(kinds)
    unrelated = list(kinds.unrelated)

    def replaced(*args: Any) -> Any:
        return "new"

    patch = {
        "wrap": lambda: hookpatch.wrap(f"kinds:{name}", adding_name("new"), reach=reach),
        "replace": lambda: hookpatch.replace(f"kinds:{name}", of_kind(replaced), reach=reach),
        "derive": lambda: hookpatch.derive(f"kinds:{name}", lambda original: of_kind(replaced), reach=reach),
    }

    def of_kind(function: Any) -> Any:
        return {"Mine.of_class": classmethod, "Mine.static": staticmethod}.get(name, lambda value: value)(function)

    with pristine():
        with hookpatch.active(patch[verb]()) as session:
            wanted = tuple(("new", result) for result in plain) if verb == "wrap" else ("new", "new")
            assert patched(kinds) == wanted
            assert unpatched(kinds) == unchanged
            assert all(value is before for value, before in zip(kinds.unrelated, unrelated, strict=True))
            (report,) = session.report()
            assert (report.state, report.place) == ("applied", None)
        assert patched(kinds) == plain


def test_init_that_a_class_does_not_have_itself(kinds: ModuleType) -> None:
    """An inherited ``__init__`` is object's, perhaps held in a list by chance."""
    names = []

    def noting(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> None:
        names.append(type(instance).__name__)
        wrapped(*args, **kwargs)

    unrelated = kinds.unrelated[0]
    with pristine(), hookpatch.active(hookpatch.wrap("kinds:Bare.__init__", noting, reach="everywhere")) as session:
        kinds.Bare()
        kinds.Norm()
        assert kinds.unrelated[0] is unrelated
        assert [(patch.state, patch.place) for patch in session.report()] == [("applied", None)]
    assert names == ["Bare"]


# --- only_in and except_in


VENDOR: Final = """
    import functools, math
    def function(): return "plain"
    class Thing:
        def __call__(self): return "plain"
    thing = Thing()
    c_function = functools.partial(str, "plain")
    class Kind:
        def __init__(self): self.name = "plain"
    """
USER: Final = """
    from vendor import function, thing, c_function, Kind
    table = {"f": function, "t": thing, "c": c_function, "k": Kind}
    """
HELD: Final = {"function": "f", "thing": "t", "c_function": "c", "Kind": "k"}


@pytest.fixture
def shop(write_module: WriteModule) -> ModuleType:
    """Make three modules with the vendor's names: shop.cart, shop.till and stock."""
    write_module("vendor", VENDOR)
    write_module("shop", "")
    for name in ("shop.cart", "shop.till", "stock", "shop.late", "store"):
        write_module(name, USER)
    for name in ("vendor", "shop.cart", "shop.till", "stock"):
        importlib.import_module(name)
    return sys.modules["shop"]


def patched_places(name: str, *modules: str) -> dict[str, list[bool]]:
    """Return for each module whether name and table have the patch."""
    return {
        module: [
            "new" in str(getattr(value(), "name", None) or value())
            for value in (getattr(sys.modules[module], name), *tables(module, name))
        ]
        for module in modules
    }


def tables(module: str, name: str) -> list[Any]:
    table = getattr(sys.modules[module], "table", None)
    return [] if table is None else [table[HELD[name]]]


def patch_of(name: str, verb: str, **where: Any) -> hookpatch.Patch:
    def derived(original: Any) -> Any:
        if name == "Kind":
            return type("Kind", (original,), {"__init__": lambda self: setattr(self, "name", "new")})
        return lambda: ("new", original())

    if verb == "wrap" and name == "Kind":
        return hookpatch.wrap(
            "vendor:Kind", lambda w, i, a, k: [setattr(instance := w(), "name", "new"), instance][1], **where
        )
    if verb == "wrap":
        return hookpatch.wrap(f"vendor:{name}", adding_name("new"), **where)
    if verb == "derive":
        return hookpatch.derive(f"vendor:{name}", derived, **where)
    return hookpatch.replace(f"vendor:{name}", derived(getattr(sys.modules["vendor"], name)), **where)


@pytest.mark.parametrize("verb", ["wrap", "replace", "derive"])
@pytest.mark.parametrize("name", HELD)
@pytest.mark.sampled(4)
def test_only_these_modules_and_no_others(shop: ModuleType, name: str, verb: str) -> None:
    """The target's own slot counts like any place; modules imported later follow."""
    with pristine():
        patch = patch_of(name, verb, reach="everywhere", only_in=["shop.*", "store"])
        with hookpatch.active(patch) as session:
            importlib.import_module("shop.late")
            importlib.import_module("store")
            modules = patched_places(name, "vendor", "shop.cart", "shop.till", "stock")
            assert modules == {
                "vendor": [False],
                "shop.cart": [True, True],
                "shop.till": [True, True],
                "stock": [False, False],
            }
            assert patched_places(name, "shop.late", "store") == {"shop.late": [True, False], "store": [True, False]}
            stale = [text for patch in session.report() for text in patch.stale]
            assert {text.partition(":")[0] for text in stale} == {"shop.late", "store"}, stale  # their tables
        assert not any(any(flags) for flags in patched_places(name, *modules, "shop.late", "store").values())
        for module in ("shop.late", "store"):
            del sys.modules[module]


@pytest.mark.parametrize("verb", ["wrap", "replace", "derive"])
@pytest.mark.parametrize("name", HELD)
@pytest.mark.sampled(4)
def test_these_modules_excepted(shop: ModuleType, name: str, verb: str) -> None:
    """An excepted module imported later gets the original."""
    with pristine():
        patch = patch_of(name, verb, reach="everywhere", except_in="shop.*")
        with hookpatch.active(patch) as session:
            importlib.import_module("shop.late")
            importlib.import_module("store")
            modules = patched_places(name, "vendor", "shop.cart", "shop.till", "stock", "store")
            assert modules == {
                "vendor": [True],
                "shop.cart": [False, False],
                "shop.till": [False, False],
                "stock": [True, True],
                "store": [True, True],
            }
            assert patched_places(name, "shop.late")["shop.late"][0] is False
            assert [text for patch in session.report() for text in patch.stale] == []
        assert not any(any(flags) for flags in patched_places(name, *modules, "shop.late").values())
        for module in ("shop.late", "store"):
            del sys.modules[module]


def test_time_is_frozen_but_for_who_waits() -> None:
    """Without the exception queue.Queue.get(timeout=...) would wait for ever."""
    frozen = time.monotonic()
    patch = hookpatch.replace(
        "time:monotonic", lambda: frozen, reach="everywhere", except_in=["queue", "threading", "selectors", "asyncio.*"]
    )
    with pristine(), hookpatch.active(patch):
        with pytest.raises(queue.Empty):
            queue.Queue().get(timeout=0.01)
        assert time.monotonic() == time.monotonic() == frozen


def test_a_function_that_its_patch_keeps_is_not_changed_inside(shop: ModuleType) -> None:
    """A function kept in a closure, in defaults or by another patch of the session is called unchanged."""
    vendor = sys.modules["vendor"]
    original = vendor.function
    closure = hookpatch.wrap("vendor:function", lambda w, i, a, k: ("new", original()), reach="everywhere")
    default = hookpatch.wrap("vendor:function", lambda w, i, a, k, own=original: ("new", own()), reach="everywhere")
    beside = hookpatch.replace("vendor:thing", lambda: original(), reach="everywhere")
    plain = hookpatch.wrap("vendor:function", adding_name("new"), reach="everywhere")
    for patches in ((closure,), (default,), (beside, plain)):
        with pristine(), hookpatch.active(*patches):
            assert vendor.function() == sys.modules["stock"].function() == ("new", "plain")
            assert sys.modules["stock"].table["f"]() == ("new", "plain")
            if beside in patches:
                assert vendor.thing() == "plain"
    assert vendor.function is original


AUTHOR: Final = """
    from vendor import function as real
    def around(wrapped, instance, args, kwargs): return "new", _below()
    def instead(): return "new", _below()
    def from_it(original): return instead
    def _below(): return real()
    """


@pytest.mark.parametrize("value", [None, 5, "text", ()], ids=["None", "int", "str", "tuple"])
def test_an_excepted_module_keeps_equal_values_of_its_own(write_module: WriteModule, value: Any) -> None:
    """Many names hold None or a number: only those imported from the target get the original."""
    write_module("plain_home", "class Kind: pass\n")
    own = {"nothing": None, "five": 5, "text": "text", "empty": ()}
    lines = [f"{name} = {of_module!r}" for name, of_module in own.items()]
    write_module("plain_later", "\n".join(["from plain_home import Kind, Kind as Other", *lines]))
    home = importlib.import_module("plain_home")
    kind = home.Kind
    how: Any = {"except_in": ["plain_later"], "check_signature": False, "why": "a value in place of a class"}
    with hookpatch.active(hookpatch.replace("plain_home:Kind", value, reach="everywhere", **how)):
        later = importlib.import_module("plain_later")
        assert (home.Kind, later.Kind, later.Other) == (value, kind, kind)
    assert (home.Kind, {name: getattr(later, name) for name in own}, later.__doc__) == (kind, own, None)


@pytest.mark.parametrize("name", ["function", "partial"])
@pytest.mark.parametrize("verb", ["wrap", "replace"])
@pytest.mark.parametrize(
    "where",
    [
        {"only_in": ["way"]},
        {"only_in": ["way", "direct"]},
        {"only_in": ["direct"]},
        {"except_in": ["through", "direct"]},
        {"except_in": ["way", "through"]},
    ],
    ids=str,
)
def test_a_module_that_copies_from_a_patched_place(
    write_module: WriteModule, name: str, verb: str, where: dict[str, Any]
) -> None:
    """A module imported later gets the patched value only if the patch goes to the module, wherever it copies from."""
    write_module("origin", "from functools import partial\ndef function(): return 1\npartial = partial(int, '1')\n")
    for module, source in {"way": "origin", "through": "way", "direct": "origin"}.items():
        write_module(module, f"from {source} import {name}\n")
    modules = {module: importlib.import_module(module) for module in ("origin", "way")}
    change = {"wrap": _tenfold, "replace": lambda: 10}[verb]
    patch = getattr(hookpatch, verb)(f"origin:{name}", change, reach="everywhere", **where)
    with pristine(), hookpatch.active(patch):
        modules |= {module: importlib.import_module(module) for module in ("through", "direct")}
        results = {module: getattr(imported, name)() for module, imported in modules.items()}
        assert results == {module: 10 if patch.goes_to(module) else 1 for module in modules}
    assert {getattr(imported, name)() for imported in modules.values()} == {1}
    for module in ("through", "direct"):
        del sys.modules[module]


def _tenfold(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs) * 10


@pytest.mark.parametrize("verb", ["replace", "derive"])
@pytest.mark.parametrize("where", [{"only_in": ["holds"]}, {"except_in": ["uses_both"]}], ids=str)
def test_a_value_from_its_own_module_is_left_alone(write_module: WriteModule, verb: str, where: dict[str, Any]) -> None:
    """A module without the patch imports the patch's value from the module that defines the value."""
    write_module("slow_home", "def run(): return 'slow'\n")
    write_module("fast_home", "def fast(): return 'fast'\n")
    write_module("holds", "from slow_home import run\n")
    write_module("uses_both", "from fast_home import fast\nfrom slow_home import run\nimport slow_home\n")
    holds, fast = importlib.import_module("holds"), importlib.import_module("fast_home").fast
    change = {"replace": fast, "derive": lambda run: fast}[verb]
    with hookpatch.active(getattr(hookpatch, verb)("slow_home:run", change, reach="everywhere", **where)):
        both = importlib.import_module("uses_both")
        assert (holds.run(), both.run(), both.fast()) == ("fast", "slow", "fast")
    assert (holds.run(), both.run(), both.fast()) == ("slow", "slow", "fast")
    del sys.modules["uses_both"]


FIRST: Final = """
import sys, hookpatch, kinds, holding

def around(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs)

with hookpatch.active(hookpatch.wrap("kinds:Kind", around, reach="everywhere", only_in=["holding"])) as session:
    print(kinds.Kind is kinds.original, holding.Kind is kinds.original)
    print([patch.place for patch in session.report()])
ours = [module for name, module in sys.modules.items() if name.partition(".")[0] == "hookpatch"]
print([module.__name__ for module in ours if kinds.original in vars(module).values()])
"""


def test_modules_of_hookpatch_are_no_modules_of_the_program(write_module: WriteModule) -> None:
    """The first proxy of a program, and the report, import modules of hookpatch inside the block."""
    write_module("kinds", "class Kind: pass\noriginal = Kind\n")
    write_module("holding", "from kinds import Kind\n")
    script = write_module("first_proxy", FIRST)
    completed = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert completed.stdout.splitlines() == ["True False", "['holding:Kind']", "[]"]


@pytest.mark.parametrize("is_at_once", [True, False])
@pytest.mark.parametrize("change", ["around", "instead", "from_it"])
def test_a_global_name_by_which_a_patch_calls_the_original(
    shop: ModuleType, write_module: WriteModule, change: str, is_at_once: bool
) -> None:
    """A patch given to active() that calls the original by a name of its own module called itself without an end."""
    write_module("author", AUTHOR)
    author, vendor = importlib.import_module("author"), sys.modules["vendor"]
    original, how = id(vendor.function), {"around": hookpatch.wrap, "instead": hookpatch.replace}.get(change)
    patch = (how or hookpatch.derive)("vendor:function", getattr(author, change), reach="everywhere")
    beside = hookpatch.wrap("vendor:thing", adding_name("other"), reach="everywhere")
    with pristine(), hookpatch.active(*((patch,) if is_at_once else (beside, patch))) as session:
        assert vendor.function() == sys.modules["stock"].function() == ("new", "plain")
        assert sys.modules["stock"].table["f"]() == ("new", "plain")
        assert id(author.real) == original
        stale = {text for row in session.report() if "function" in row.target for text in row.stale}
        assert stale == {"author:real"}
    assert id(vendor.function) == id(sys.modules["stock"].function) == original
    del sys.modules["author"]


def test_an_attribute_of_the_same_name_is_no_name_of_the_patch(shop: ModuleType, write_module: WriteModule) -> None:
    """A patch that reads ``other.function`` does not keep the function of its own module from being patched."""
    text = "import types, vendor\nfrom vendor import function\nother = types.SimpleNamespace(function=None)\n"
    write_module("author", f"{text}def around(wrapped, instance, args, kwargs): return other.function, wrapped()\n")
    author = importlib.import_module("author")
    with pristine(), hookpatch.active(hookpatch.wrap("vendor:function", author.around, reach="everywhere")):
        assert author.function() == (None, "plain")
    del sys.modules["author"]


@pytest.mark.parametrize("where", ["from vendor import function as real", "import vendor; real = vendor.function"])
@pytest.mark.parametrize("name", ["function", "thing"])
def test_modules_of_a_plugin_keep_the_original(
    shop: ModuleType, make_distribution: Callable[..., Path], name: str, where: str
) -> None:
    """A plugin's own imports, in its module or its package, are not patched by the plugin."""
    source = """
        import hookpatch
        from kit_plugin import own

        def new():
            return ("new", own.real(), real())

        {where}

        @hookpatch.hookimpl
        def hookpatch_patches():
            yield hookpatch.replace("vendor:{name}", new, reach="everywhere")
        """
    where = where.replace("function", name)
    make_distribution(
        "kit",
        plugins={"calling": "kit_plugin.calling"},
        modules={
            "kit_plugin": "",
            "kit_plugin.own": where,
            "kit_plugin.calling": source.format(where=where, name=name),
        },
    )
    with pristine(), hookpatch.active("calling"):
        assert getattr(sys.modules["stock"], name)() == ("new", "plain", "plain")
        assert getattr(sys.modules["vendor"], name)() == ("new", "plain", "plain")


def test_a_pattern_that_no_module_can_match_is_an_error(shop: ModuleType) -> None:
    for pattern in ("shpo", "shpo.*", "shop.crat"):
        patch = hookpatch.wrap("vendor:function", adding_name("new"), reach="everywhere", only_in=pattern)
        with pytest.raises(TargetRefused, match="only_in= names the modules to go to, and there is no module"):
            hookpatch.active(patch).open()
        with hookpatch.active(
            hookpatch.wrap("vendor:function", adding_name("x"), reach="everywhere", except_in=pattern)
        ):
            assert sys.modules["stock"].function() == ("x", "plain")


def test_nothing_holds_it_yet(shop: ModuleType) -> None:
    """The patch waits, and names the awaited module."""
    patch = hookpatch.wrap("vendor:function", adding_name("new"), reach="everywhere", only_in="store")
    with hookpatch.active(patch) as session:
        (report,) = session.report()
        assert (report.state, report.reason) == (
            "waiting",
            "no module that only_in= and except_in= allow holds the target",
        )
        assert importlib.import_module("store").function() == ("new", "plain")
        assert session.report().patches[0].state == "applied"
    assert importlib.import_module("store").function() == "plain"
    session = hookpatch.active(
        hookpatch.wrap("vendor:function", adding_name("new"), reach="everywhere", only_in="shop")
    )
    with session:
        pass
    assert [patch.state for patch in session.report()] == ["unused"]


@pytest.mark.parametrize("option", ["only_in", "except_in"])
def test_options_that_cannot_be(option: str) -> None:
    with pytest.raises(PatchError, match=f"{option}= says where reach='everywhere' goes, and reach is 'slot'"):
        hookpatch.replace("vendor:function", print, **{option: "shop"})
    with pytest.raises(PatchError, match=f"{option}= takes a pattern of modules or several, not"):
        hookpatch.replace("vendor:function", print, reach="everywhere", **{option: 3})


@pytest.mark.parametrize("name", ["Norm.method", "Norm.of_class", "Norm.static"])
def test_a_replacement_that_wraps_the_original(kinds: ModuleType, name: str) -> None:
    """The replacement keeps the original in its closure and in ``__wrapped__``; neither is changed."""
    cls, attribute = kinds.Norm, name.partition(".")[2]
    original = vars(cls)[attribute]
    callee = getattr(original, "__func__", original)

    @functools.wraps(callee)
    def newer(*args: Any, **kwargs: Any) -> Any:
        return "new", callee(*args, **kwargs)

    replacement = newer if original is callee else type(original)(newer)
    del original  # the report counts a local variable
    plain = getattr(kinds.norm, attribute)()
    with pristine():
        with hookpatch.active(hookpatch.replace(f"kinds:{name}", replacement, reach="everywhere")) as session:
            assert getattr(kinds.norm, attribute)() == ("new", plain)
            assert newer.__wrapped__ is callee
            assert inspect.signature(newer) == inspect.signature(callee)
            assert {patch.stale for patch in session.report()} == {()}
        assert getattr(kinds.norm, attribute)() == plain


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("name", ["method", "of_class", "static"])
@pytest.mark.parametrize("way", ["imported inside", "kept in a table"])
def test_an_inherited_method_that_was_bound_inside(
    make_module: Callable[[str, str], Any], name: str, reach: Any, way: str
) -> None:
    """The end restores the base class's function, or lets the wrapper pass through, without an error."""
    base = make_module(
        "base",
        """
        class Base:
            def method(self): return "base"
            @classmethod
            def of_class(cls): return "base"
            @staticmethod
            def static(): return "base"
        class Heir(Base): pass
        """,
    )
    with hookpatch.active(hookpatch.wrap(f"base:Heir.{name}", lambda wrapped, *_: "new", reach=reach)):
        user = make_module("user", f"import base\nbound = base.Heir().{name}")
        table = {"bound": user.bound if way == "imported inside" else getattr(base.Heir(), name)}
        assert (user.bound(), table["bound"]()) == ("new", "new")
    assert (user.bound(), table["bound"]()) == ("base", "base")
    assert name not in vars(base.Heir)
