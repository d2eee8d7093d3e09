"""The report has the limits of a patch of a class or method: living instances, and overriding classes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch

SOURCE: Final = """
    class Base:
        def forward(self): return "base"
        @classmethod
        def of_class(cls): return "base"
        @staticmethod
        def static(): return "base"
        @property
        def prop(self): return "base"

    class Calls(Base):
        def forward(self): return super().forward()
        @classmethod
        def of_class(cls): return super().of_class()

    class Names(Base):
        def forward(self): return Base.forward(self)

    class Silent(Base):
        def forward(self): return "silent"
        @classmethod
        def of_class(cls): return "silent"
        @staticmethod
        def static(): return "silent"

    class Other(Base):
        def forward(self): return super().__init__()

    class Below(Silent):
        def forward(self): return super().forward()

    class Plain(Base): pass

    class Deep(Plain):
        def forward(self): return [self.forward for _ in ()]
    """


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    gc.collect()
    return make_module("vendor", SOURCE)


def around(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("Base.forward", "vendor:Deep, vendor:Other, vendor:Silent"),
        ("Base.of_class", "vendor:Silent"),
        ("Base.static", "vendor:Silent"),
        ("Silent.forward", ""),
        ("Plain.forward", "vendor:Deep"),
        ("Base.prop", None),
    ],
)
def test_subclasses_that_override_and_do_not_call(
    vendor: ModuleType, name: str, classes: str | None, reach: Any
) -> None:
    """Overriding subclasses are found by the names in their code; a subclass that calls super() is not named."""
    patch = hookpatch.wrap(f"vendor:{name}", around, reach=reach)
    if classes is None:
        patch = hookpatch.replace(f"vendor:{name}", property(lambda self: "new"))
    with hookpatch.active(patch) as session:
        warning = f"without effect on overrides without a super() call: {classes}"
        assert [patch.warnings for patch in session.report()] == [(warning,) if classes else ()]


def _over(original: Callable[..., Any]) -> Callable[..., Any]:
    def derived(self: object) -> Any:
        return original(self)

    return derived


OVER_INHERITED: Final[dict[str, Callable[[], hookpatch.Patch]]] = {
    "wrap": lambda: hookpatch.wrap("heirs:Heir.run", around),
    "wrap of instances": lambda: hookpatch.wrap("heirs:Heir().run", around),
    "replace of instances": lambda: hookpatch.replace("heirs:Heir().run", lambda self: "new"),
    "derive": lambda: hookpatch.derive("heirs:Heir.run", _over),
    "replace": lambda: hookpatch.replace("heirs:Heir.run", lambda self: "new"),
}


@pytest.mark.parametrize("is_first", [True, False], ids=["the base first", "the subclass first"])
@pytest.mark.parametrize("case", OVER_INHERITED)
def test_a_patch_of_an_inherited_method_is_no_override(
    make_module: Callable[[str, str], ModuleType], case: str, is_first: bool
) -> None:
    """A subclass is named only if its calls go past the patch of the base class."""
    heirs = make_module(
        "heirs", "class Base:\n    def run(self): return 'base'\nclass Heir(Base): pass\nclass Last(Heir): pass\n"
    )
    sessions = [
        hookpatch.active(hookpatch.wrap("heirs:Base.run", lambda wrapped, *_: [wrapped()]), children="local"),
        hookpatch.active(OVER_INHERITED[case](), children="local"),
    ]
    for session in sessions if is_first else reversed(sessions):
        session.open()
    called = {cls.__name__: cls().run() == ["base"] for cls in (heirs.Heir, heirs.Last)}
    [row] = sessions[0].report()
    for session in sessions:
        session.close()
    is_past = not (called["Heir"] or called["Last"])
    assert [text.endswith("heirs:Heir") for text in row.warnings] == [True] * is_past, (called, row.warnings)


def test_a_target_beneath_an_object(make_module: Callable[[str, str], ModuleType]) -> None:
    """For a target beneath an object no class is searched."""
    vendor = make_module(
        "vendor",
        """
        class Slotted:
            __slots__ = ("inside",)
            def run(self): return "plain"
        class Part:
            def run(self): return "plain"
        thing = Slotted()
        thing.inside = Part()
        """,
    )
    with hookpatch.active(hookpatch.wrap("vendor:thing.inside.run", around)) as session:
        assert vendor.thing.inside.run() == "plain"
        assert [(patch.state, patch.warnings) for patch in session.report()] == [("applied", ())]


def test_many_that_override_are_counted(make_module: Callable[[str, str], ModuleType]) -> None:
    lines = ["class Base:\n    def run(self): pass"]
    lines += [f"class C{number}(Base):\n    def run(self): pass" for number in range(9)]
    make_module("many", "\n".join(lines))
    with hookpatch.active(hookpatch.wrap("many:Base.run", around)) as session:
        (text,) = session.report().patches[0].warnings
        assert text.endswith(": many:C0, many:C1, many:C2 and 6 more")


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("verb", ["replace", "derive"])
def test_instances_that_were_made_before(vendor: ModuleType, verb: str, reach: Any) -> None:
    """With reach="slot" earlier instances keep their class; instances made inside have the new class."""
    old = [vendor.Plain(), vendor.Plain()]
    of_subclass = vendor.Deep()
    new = type("New", (vendor.Plain,), {"forward": lambda self: "new"})
    patch = (
        hookpatch.replace("vendor:Plain", new, reach=reach)
        if verb == "replace"
        else hookpatch.derive("vendor:Plain", lambda original: new, reach=reach)
    )
    with hookpatch.active(patch) as session:
        instance = vendor.Plain()
        before = "new" if reach == "everywhere" else "base"
        assert (instance.forward(), old[0].forward(), of_subclass.forward()) == ("new", before, [])
        if reach == "everywhere":
            assert "class of" not in str(session.report())
            return
        first = next(patch for patch in session.report() if patch.place is None)
        assert first.stale[-1] == "the class of 2 living instances"
        assert "stale   the class of 2 living instances holds the original still" in str(first)
        del old[0]
        assert session.report().patches[0].stale[-1] == "the class of 1 living instance"
        old.clear()
        assert "class of" not in str(session.report())


def test_overriding_classes_are_named_where_the_class_is_wrapped_too(make_module: Callable[..., ModuleType]) -> None:
    """A wrapped class lies beneath a proxy, which C code does not take for a class."""
    make_module("both", "class K:\n    def f(self): return 1\nclass L(K):\n    def f(self): return 2\n")

    def through(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs)

    with hookpatch.active(hookpatch.wrap("both:K.f", through), hookpatch.wrap("both:K", through)) as session:
        of_method, _ = session.report()
    assert of_method.warnings == ("without effect on overrides without a super() call: both:L",)


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("name", ["method", "of_class", "static"])
@pytest.mark.parametrize("verb", ["wrap", "replace", "derive", "inject"])
@pytest.mark.sampled(8)
def test_names_bound_to_what_is_inherited(make_module: Callable[..., Any], verb: str, name: str, reach: Any) -> None:
    """A bound method of the heir is named, and a name of a class's function; no other method of the base class."""
    make_module(
        "base",
        """
        class Base:
            def method(self, x=1): return "base", x
            @classmethod
            def of_class(cls, x=1): return "base", x
            @staticmethod
            def static(x=1): return "base", x
        class Heir(Base): pass
        class Sister(Base): pass
        class Grandchild(Heir): pass
        """,
    )
    make_module(
        "user",
        f"""
        import base
        of_heir, of_grandchild = base.Heir().{name}, base.Grandchild().{name}
        if {name != "static"}:
            of_sister, of_base = base.Sister().{name}, base.Base().{name}
        table = {{"heir": base.Heir().{name}}}
        """,
    )

    def new(*args: Any, **kwargs: Any) -> Any:
        return "new", 1

    address = f"base:Heir.{name}"
    kind: Any = {"of_class": classmethod, "static": staticmethod}.get(name, lambda function: function)
    patches: dict[str, Any] = {
        "wrap": lambda: hookpatch.wrap(address, around, reach=reach),
        "replace": lambda: hookpatch.replace(address, kind(new), reach=reach),
        "derive": lambda: hookpatch.derive(address, lambda original: kind(new), reach=reach),
        "inject": lambda: hookpatch.inject(address, x=5, reach=reach),
    }
    with hookpatch.active(patches[verb]()) as session:
        (report,) = session.report()
    names = {"user:of_heir", "user:of_grandchild"}
    assert set(report.stale) == (names if name == "static" else {*names, "user:table['heir']"})


NEW: Final[dict[str, Any]] = {
    "forward": lambda self: "new",
    "of_class": classmethod(lambda cls: "new"),
    "static": staticmethod(lambda: "new"),
}


@pytest.mark.parametrize("verb", ["wrap", "replace"])
@pytest.mark.parametrize("name", NEW)
@pytest.mark.sampled(2)
def test_a_name_bound_before_is_listed_in_each_block(
    name: str, verb: str, make_module: Callable[[str, str], ModuleType]
) -> None:
    """The report lists the name in the first block of a patch, in the next, and in one entered again."""
    make_module("bound_vendor", SOURCE)
    make_module("bound_user", f"from bound_vendor import Base\nbound = Base.{name}")
    target = f"bound_vendor:Base.{name}"
    patch = (
        hookpatch.replace(target, NEW[name]) if verb == "replace" else hookpatch.wrap(target, lambda w, i, a, k: w())
    )
    again = hookpatch.active(patch, children="local")
    for session in (hookpatch.active(patch, children="local"), again, again, again):
        with session:
            assert session.report().patches[0].stale == ("bound_user:bound",)


def test_entries_under_weak_keys_are_named_by_what_is_behind_the_key(
    make_module: Callable[[str, str], ModuleType],
) -> None:
    """functools.singledispatch notes the chosen function under weak references to classes."""
    module: Any = make_module(
        "chosen",
        """
        import functools
        @functools.singledispatch
        def choose(value): ...
        @choose.register
        def of_number(value: int): return "plain"
        """,
    )
    module.choose(1)
    with hookpatch.active(hookpatch.wrap("chosen:of_number", lambda *_: "patched"), children="local") as session:
        (row,) = session.report()
    assert sum(words.endswith("[builtins:int]") for words in row.stale) == 2
    assert not any("0x" in words for words in row.stale)


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("target", ["function", "Shop"])
def test_attributes_of_tables_are_holders(
    make_module: Callable[[str, str], ModuleType], target: str, reach: Any
) -> None:
    """A defaultdict holds its factory in no entry; a subclass of list may have __slots__."""
    module: Any = make_module(
        "tables",
        f"""
        import collections
        def function(): return "plain"
        class Shop: ...
        class Rows(list):
            __slots__ = ("factory",)
        table, rows = collections.defaultdict({target}), Rows()
        rows.factory = {target}
        """,
    )
    patch = hookpatch.replace(f"tables:{target}", type("Shop", (), {}) if target == "Shop" else lambda: 1, reach=reach)
    with hookpatch.active(patch, children="local") as session:
        of = {words for row in session.report() for words in row.stale}
        is_left = reach == "slot"
        assert of == ({"tables:table.default_factory", "tables:rows.factory"} if is_left else set())
        if target == "function":
            assert [module.table["key"], module.rows.factory()] == (["plain"] * 2 if is_left else [1, 1])
    assert module.table.default_factory is module.rows.factory is getattr(module, target)
