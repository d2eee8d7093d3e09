"""Sites: layers of several patches and sessions come off in any order."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from layers import tagged

import hookpatch
from hookpatch import Target
from hookpatch.errors import PatchUnneededWarning

MakeModule = Callable[[str, str], ModuleType]


# --- several patches, overlapping sessions


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("kind", ["own", "inherited", "class", "static", "item", "member", "instance"])
def test_overlapping_sessions_close_in_any_order(order: tuple[int, ...], kind: str) -> None:
    """Three sessions on a slot, closed in any order: open sessions hold, the last end restores exactly."""

    class Base:
        def inherited(self) -> str:
            return "o"

    class Child(Base):
        __slots__ = ("member",)

        def own(self) -> str:
            return "o"

        @classmethod
        def klass(cls) -> str:
            return "o"

        @staticmethod
        def static() -> str:
            return "o"

    child = Child()
    child.member = child.instance = lambda: "o"
    items = {"first": 1, "item": child.member, "last": 2}
    target, call = {
        "own": (Target.attribute(Child, "own"), lambda: child.own()),
        "inherited": (Target.attribute(Child, "inherited"), lambda: child.inherited()),
        "class": (Target.attribute(Child, "klass"), lambda: Child.klass()),
        "static": (Target.attribute(Child, "static"), lambda: Child.static()),
        "item": (Target.item(items, "item"), lambda: items["item"]()),
        "member": (Target.attribute(child, "member"), lambda: child.member()),
        "instance": (Target.attribute(child, "instance"), lambda: child.instance()),
    }[kind]
    owners = [vars(Child), vars(Base), vars(child), items]
    before = [list(owner.items()) for owner in owners]
    member = child.member
    sessions = [hookpatch.active(hookpatch.wrap(target, tagged(tag))).open() for tag in "abc"]
    open_tags = ["a", "b", "c"]
    assert call() == "c(b(a(o)))"
    for index in order:
        sessions[index].close()
        open_tags.remove("abc"[index])
        expected = "o"
        for tag in open_tags:
            expected = f"{tag}({expected})"
        assert call() == expected
    for owner, contents in zip(owners, before, strict=True):
        assert [key for key, _ in contents] == list(owner)
        assert all(owner[key] is value for key, value in contents)
    assert child.member is member
    assert [patch.state for session in sessions for patch in session.report()] == ["restored"] * 3


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_method_and_the_base_that_it_is_inherited_from(order: tuple[int, int]) -> None:
    """A patch on the inherited name and one on the base's own: both run, each ends alone, in either order."""

    class Base:
        def run(self) -> str:
            return "o"

    class Child(Base):
        pass

    before = vars(Base)["run"]
    for first, second in ((Child, Base), (Base, Child)):
        sessions = {
            owner: hookpatch.active(hookpatch.wrap(Target.attribute(owner, "run"), tagged(owner.__name__))).open()
            for owner in (first, second)
        }
        assert (Child().run(), Base().run()) == ("Child(Base(o))", "Base(o)")
        pair = [sessions[Child], sessions[Base]]
        pair[order[0]].close()
        assert (Child().run(), Base().run()) == (("Base(o)", "Base(o)") if order[0] == 0 else ("Child(o)", "o"))
        pair[order[1]].close()
        assert vars(Base)["run"] is before
        assert "run" not in vars(Child)


def test_inherited_method_follows_the_mro_of_its_object() -> None:
    """A patch on an inherited method calls what super() finds: in a diamond the sibling's own method."""

    class Base:
        def run(self) -> str:
            return "base"

        @classmethod
        def load(cls) -> str:
            return f"base {cls.__name__}"

    class Left(Base):
        pass

    class Right(Base):
        def run(self) -> str:
            return "right then " + super().run()

        @classmethod
        def load(cls) -> str:
            return "right then " + super().load()

    class Diamond(Left, Right):
        pass

    assert (Diamond().run(), Diamond.load()) == ("right then base", "right then base Diamond")
    with hookpatch.active(
        hookpatch.wrap(Target.attribute(Left, "run"), tagged("p")),
        hookpatch.wrap(Target.attribute(Left, "load"), tagged("p")),
    ):
        assert (Diamond().run(), Diamond.load()) == ("p(right then base)", "p(right then base Diamond)")
        assert (Left().run(), Left.load()) == ("p(base)", "p(base Left)")
        assert Right().run() == "right then base"
    assert (Diamond().run(), Diamond.load()) == ("right then base", "right then base Diamond")


def test_inherited_slot_stands_on_the_base_whatever_lies_over_it() -> None:
    """Layers over an inherited slot never count as the inherited value; each derive runs once."""

    class Base:
        limit = 1

        def run(self) -> str:
            return "o"

    class Child(Base):
        pass

    limit, run = Target.attribute(Child, "limit"), Target.attribute(Child, "run")
    with hookpatch.active(hookpatch.derive(limit, lambda below: below + 1), hookpatch.wrap(run, tagged("a"))):
        method = Child.run
        with hookpatch.active(hookpatch.derive(limit, lambda below: below * 10), hookpatch.wrap(run, tagged("b"))):
            assert Child.limit == 20
            assert Child.run is method
            assert method(Child()) == "b(a(o))"
        assert Child.limit == 2
        assert Child.run is method
    assert not {"limit", "run"} & set(vars(Child))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_remove_and_replace_overlap_in_either_order(order: tuple[int, int]) -> None:
    """A key removed by a session and replaced by another: each state follows the open sessions."""
    mapping = {"a": 1000, "k": 2000, "z": 3000}
    original = mapping["k"]
    sessions = [
        hookpatch.active(hookpatch.remove(Target.item(mapping, "k"))).open(),
        hookpatch.active(hookpatch.replace(Target.item(mapping, "k"), "given")).open(),
    ]
    assert list(mapping.items()) == [("a", 1000), ("k", "given"), ("z", 3000)]
    sessions[order[0]].close()
    assert mapping.get("k") == ("given" if order[0] == 0 else None)
    sessions[order[1]].close()
    assert list(mapping) == ["a", "k", "z"]
    assert mapping["k"] is original


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_name_added_by_two_sessions_is_absent_at_the_end(order: tuple[int, int]) -> None:
    """A name added by two sessions holds the open session's value, and is absent at the end."""
    owner = SimpleNamespace()
    sessions = [
        hookpatch.active(hookpatch.replace(Target.attribute(owner, "x"), name, add=True)).open() for name in "ab"
    ]
    assert owner.x == "b"
    sessions[order[0]].close()
    assert owner.x == "ab"[order[1]]
    sessions[order[1]].close()
    assert vars(owner) == {}


def test_replacing_by_the_same_object_changes_and_leaves_nothing() -> None:
    """The present value may be put into the slot again, by any number of sessions."""
    value = object()
    owner = SimpleNamespace(x=value)
    target = Target.attribute(owner, "x")
    outer = hookpatch.active(hookpatch.replace(target, value))
    with pytest.warns(PatchUnneededWarning, match="the slot held this value already"):
        outer.open()
    with outer, hookpatch.active(hookpatch.replace(target, 1)):
        assert owner.x == 1
    outer.close()
    assert owner.x is value
    assert [patch.state for patch in outer.report()] == ["restored"]


# --- several sites, and changing runs of layers


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("keys", [("b", "a"), ("a", "b"), ("b", "c"), ("c", "b"), ("a", "c"), ("c", "a")])
def test_overlapping_removes_restore_the_order(keys: tuple[str, str], order: tuple[int, int]) -> None:
    """Two removed keys of a mapping return to their positions, in either order."""
    mapping = {"a": 1000, "b": 2000, "c": 3000}
    before = list(mapping.items())
    sessions = [hookpatch.active(hookpatch.remove(Target.item(mapping, key))).open() for key in keys]
    assert not set(keys) & set(mapping)
    sessions[order[0]].close()
    assert list(mapping) == [key for key, _ in before if key != keys[order[1]]]
    sessions[order[1]].close()
    assert list(mapping) == ["a", "b", "c"]
    assert all(mapping[key] is value for key, value in before)


def test_inherited_c_method_follows_the_mro_of_its_object() -> None:
    """A patch on an inherited C method calls the next method of super(): in a diamond the sibling's."""
    ran: list[str] = []

    class Left:
        pass

    class Right:
        def __init__(self) -> None:
            ran.append("right")

    class Diamond(Left, Right):
        pass

    def noted(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
        ran.append("patch")
        return wrapped(*args, **kwargs)

    with hookpatch.active(hookpatch.wrap(Target.attribute(Left, "__init__"), noted)):
        Diamond()
        assert ran == ["patch", "right"]
        Left()
        assert ran == ["patch", "right", "patch"]
    assert "__init__" not in vars(Left)


def test_held_method_of_an_instance_sees_later_layers() -> None:
    """A method taken from a patched instance runs the patches that come later, and none after the end."""

    class Owner:
        def run(self) -> str:
            return "o"

    owner = Owner()
    target = Target.attribute(owner, "run")
    with hookpatch.active(hookpatch.wrap(target, tagged("a"))):
        method = owner.run
        with hookpatch.active(hookpatch.wrap(target, tagged("b"))):
            assert owner.run is method
            assert method() == "b(a(o))"
        assert method() == "a(o)"
    assert method() == "o"
    assert vars(owner) == {}


def test_function_stays_the_same_while_a_run_of_layers_below_it_goes() -> None:
    """A wrapper over a replaced value stays the same object, with or without a wrap beneath."""

    def original() -> str:
        return "o"

    owner = SimpleNamespace(run=original)
    target = Target.attribute(owner, "run")
    below = hookpatch.active(hookpatch.wrap(target, tagged("a"))).open()
    between = hookpatch.active(hookpatch.replace(target, lambda: "given")).open()
    above = hookpatch.active(hookpatch.wrap(target, tagged("b"))).open()
    function = owner.run
    below.close()
    assert owner.run is function
    assert function() == "b(given)"
    above.close()
    assert function() == "given"
    between.close()
    assert owner.run is original


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_method_of_a_wrapped_class_is_the_same_site(order: tuple[int, ...], make_module: MakeModule) -> None:
    """A method addressed through a wrapped class is the original class's method: a single site."""
    module = make_module("wrapped_class", "class Model:\n    def run(self):\n        return 'o'\n")
    model, before = module.Model, list(vars(module.Model).items())
    sessions = [
        hookpatch.active(hookpatch.wrap("wrapped_class:Model.run", tagged("a"))).open(),
        hookpatch.active(hookpatch.wrap("wrapped_class:Model", lambda w, i, a, k: w(*a, **k))).open(),
        hookpatch.active(hookpatch.wrap("wrapped_class:Model.run", tagged("b"))).open(),
    ]
    assert module.Model().run() == "b(a(o))"
    for index in order:
        sessions[index].close()
    assert module.Model is model
    assert [name for name, _ in before] == list(vars(model))
    assert all(vars(model)[name] is value for name, value in before)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_method_named_through_a_derived_class(order: tuple[int, int], make_module: MakeModule) -> None:
    """A method patched through a derived class is the original's, and holds after the derive's end."""
    module = make_module("derived_class", "class Model:\n    def run(self):\n        return 'o'\n")
    model, before = module.Model, vars(module.Model)["run"]
    sessions = [
        hookpatch.active(hookpatch.derive("derived_class:Model", lambda base: type("Model", (base,), {}))).open(),
        hookpatch.active(hookpatch.wrap("derived_class:Model.run", tagged("p"))).open(),
    ]
    assert module.Model().run() == "p(o)"
    sessions[order[0]].close()
    assert module.Model().run() == ("p(o)" if order[0] == 0 else "o")
    sessions[order[1]].close()
    assert module.Model is model
    assert vars(model)["run"] is before
