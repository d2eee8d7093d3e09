"""Sites: layers of several patches and sessions come off in any order, all or nothing, and nothing is left."""

from __future__ import annotations

import gc
import importlib
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import pytest
import wrapt
from hypothesis import given, settings
from hypothesis import strategies as st

import hookpatch
from hookpatch import Target, _slot, errors
from hookpatch._resolve import resolve
from hookpatch._sites import patched, site_at
from hookpatch._turn import Turn

MakeModule = Callable[[str, str], ModuleType]


def _tagged(tag: str) -> Callable[..., Any]:
    return lambda wrapped, instance, args, kwargs: f"{tag}({wrapped(*args, **kwargs)})"


class Stubborn(type):
    """A metaclass whose classes refuse, while ``locked``, to have an attribute set or deleted."""

    locked = False

    def __setattr__(cls, name: str, value: object) -> None:
        if type(cls).__dict__["locked"] and name != "free":
            raise RuntimeError(f"{name} is locked")
        super().__setattr__(name, value)

    def __delattr__(cls, name: str) -> None:
        if type(cls).__dict__["locked"]:
            raise RuntimeError(f"{name} is locked")
        super().__delattr__(name)


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Switch whether Stubborn classes can be changed."""

    def switch(locked: bool) -> None:
        monkeypatch.setattr(Stubborn, "locked", locked)

    return switch


# --- several patches, overlapping sessions


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("kind", ["own", "inherited", "class", "static", "item", "member", "instance"])
def test_overlapping_sessions_close_in_any_order(order: tuple[int, ...], kind: str) -> None:
    """Three sessions on one slot, closed in any order: the open ones hold, the last restores exactly."""

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
    sessions = [hookpatch.active(hookpatch.wrap(target, _tagged(tag))).open() for tag in "abc"]
    open_tags = ["a", "b", "c"]
    assert call() == "c(b(a(o)))"
    for at in order:
        sessions[at].close()
        open_tags.remove("abc"[at])
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
            owner: hookpatch.active(hookpatch.wrap(Target.attribute(owner, "run"), _tagged(owner.__name__))).open()
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
        hookpatch.wrap(Target.attribute(Left, "run"), _tagged("p")),
        hookpatch.wrap(Target.attribute(Left, "load"), _tagged("p")),
    ):
        assert (Diamond().run(), Diamond.load()) == ("p(right then base)", "p(right then base Diamond)")
        assert (Left().run(), Left.load()) == ("p(base)", "p(base Left)")
        assert Right().run() == "right then base"
    assert (Diamond().run(), Diamond.load()) == ("right then base", "right then base Diamond")


def test_inherited_slot_stands_on_the_base_whatever_lies_over_it() -> None:
    """Layers over an inherited slot never count as what is inherited: derived once each, the function one object."""

    class Base:
        limit = 1

        def run(self) -> str:
            return "o"

    class Child(Base):
        pass

    limit, run = Target.attribute(Child, "limit"), Target.attribute(Child, "run")
    with hookpatch.active(hookpatch.derive(limit, lambda below: below + 1), hookpatch.wrap(run, _tagged("a"))):
        held = Child.run
        with hookpatch.active(hookpatch.derive(limit, lambda below: below * 10), hookpatch.wrap(run, _tagged("b"))):
            assert Child.limit == 20
            assert Child.run is held
            assert held(Child()) == "b(a(o))"
        assert Child.limit == 2
        assert Child.run is held
    assert not {"limit", "run"} & set(vars(Child))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_remove_and_replace_overlap_in_either_order(order: tuple[int, int]) -> None:
    """A key removed by one session and given by another: each state is that of the sessions still open."""
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
    """A name that two sessions add holds the value of the one still open, and is absent when both are closed."""
    owner = SimpleNamespace()
    sessions = [hookpatch.active(hookpatch.replace(Target.attribute(owner, "x"), name)).open() for name in "ab"]
    assert owner.x == "b"
    sessions[order[0]].close()
    assert owner.x == "ab"[order[1]]
    sessions[order[1]].close()
    assert vars(owner) == {}


def test_replacing_by_the_same_object_changes_and_leaves_nothing() -> None:
    """A value that stands there already can be put there again, by any number of sessions."""
    value = object()
    owner = SimpleNamespace(x=value)
    target = Target.attribute(owner, "x")
    with hookpatch.active(hookpatch.replace(target, value)) as outer, hookpatch.active(hookpatch.replace(target, 1)):
        assert owner.x == 1
    assert owner.x is value
    assert [patch.state for patch in outer.report()] == ["restored"]


# --- all or nothing, and every undo


class Failing(Exception):
    """An error of foreign code."""


def _fails(below: object) -> object:
    raise Failing("no value")


def test_failing_patch_restores_what_was_applied_before_it() -> None:
    """When the third patch fails while it is applied, the first two are restored exactly and the session is closed."""

    class Owner:
        first = 1000

        def method(self) -> str:
            return "o"

        third = 3

    mapping = {"a": 1, "b": 2}
    before = list(vars(Owner).items())
    session = hookpatch.active(
        hookpatch.wrap(Target.attribute(Owner, "method"), _tagged("p")),
        hookpatch.remove(Target.item(mapping, "a")),
        hookpatch.replace(Target.attribute(Owner, "added"), 1),
        hookpatch.derive(Target.attribute(Owner, "third"), _fails),
        hookpatch.replace(Target.attribute(Owner, "first"), 2),
    )
    with pytest.raises(errors.ApplyError, match="raised Failing: no value"):
        session.open()
    assert list(vars(Owner).items()) == before
    assert all(vars(Owner)[name] is value for name, value in before)
    assert list(mapping.items()) == [("a", 1), ("b", 2)]
    assert patched() == []
    with pytest.raises(errors.SessionError):
        session.open()


def test_patch_that_cannot_fit_is_found_before_any_is_applied() -> None:
    """A missing name is seen before the first patch is applied: no factory runs, nothing is set."""
    owner = SimpleNamespace(x=1)
    ran: list[object] = []
    with (
        pytest.raises(errors.TargetNotFound),
        hookpatch.active(
            hookpatch.derive(Target.attribute(owner, "x"), ran.append),
            hookpatch.remove(Target.attribute(owner, "missing")),
        ),
    ):
        pass
    assert ran == []
    assert vars(owner) == {"x": 1}


def test_interrupt_while_entering_restores_what_was_applied() -> None:
    """Ctrl-C in a factory leaves nothing applied and reaches the caller."""
    owner = SimpleNamespace(x=1, y=2)

    def interrupted(below: object) -> object:
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        hookpatch.active(
            hookpatch.replace(Target.attribute(owner, "x"), 5),
            hookpatch.derive(Target.attribute(owner, "y"), interrupted),
        ),
    ):
        pass
    assert vars(owner) == {"x": 1, "y": 2}


def test_owner_that_refuses_is_an_apply_error_and_nothing_is_changed(lock: Callable[[bool], None]) -> None:
    """An owner that raises when it is set keeps its value, and so do the slots patched before it."""

    class Owner(metaclass=Stubborn):
        x = 1

    other = SimpleNamespace(x=1)
    lock(True)
    with (
        pytest.raises(errors.ApplyError, match="the replace raised RuntimeError: x is locked"),
        hookpatch.active(
            hookpatch.replace(Target.attribute(other, "x"), 2), hookpatch.replace(Target.attribute(Owner, "x"), 2)
        ),
    ):
        pass
    assert (Owner.x, other.x) == (1, 1)


def test_failing_undo_leaves_the_rest_restored(lock: Callable[[bool], None]) -> None:
    """When one slot cannot be restored, all others are; RestoreError holds the one error, the report tells it."""

    class Owner(metaclass=Stubborn):
        x = 1

    owner = SimpleNamespace(a=1, b=2)
    before = dict(vars(owner))
    session = hookpatch.active(
        hookpatch.replace(Target.attribute(owner, "a"), 10),
        hookpatch.replace(Target.attribute(Owner, "x"), 10),
        hookpatch.remove(Target.attribute(owner, "b")),
    ).open()
    lock(True)
    with pytest.raises(errors.RestoreError) as caught:
        session.close()
    lock(False)
    assert vars(owner) == before
    assert [str(error) for error in caught.value.exceptions] == ["x is locked"]
    assert [patch.state for patch in session.report()] == ["restored", "failed", "restored"]
    session.close()
    assert patched() == []


def test_each_failing_undo_is_in_the_restore_error(lock: Callable[[bool], None]) -> None:
    """Two undos that fail are two errors of one group, and what lies between them is restored."""

    class Owner(metaclass=Stubborn):
        x = 1
        y = 2

        def run(self) -> str:
            return "o"

    owner = SimpleNamespace(a=1)
    session = hookpatch.active(
        hookpatch.replace(Target.attribute(Owner, "x"), 10),
        hookpatch.replace(Target.attribute(owner, "a"), 10),
        hookpatch.remove(Target.attribute(Owner, "y")),
        hookpatch.wrap(Target.attribute(Owner, "run"), _tagged("p")),
    ).open()
    lock(True)
    with pytest.raises(errors.RestoreError, match="3 undos failed") as caught:
        session.close()
    assert sorted(str(error) for error in caught.value.exceptions) == ["run is locked", "x is locked", "y is locked"]
    assert owner.a == 1
    assert Owner().run() == "o"


def test_wrapper_that_could_not_be_taken_out_passes_through(lock: Callable[[bool], None]) -> None:
    """Where the slot cannot be set back, what stands in it runs no patch any more."""

    class Owner(metaclass=Stubborn):
        def run(self) -> str:
            return "o"

    session = hookpatch.active(hookpatch.wrap(Target.attribute(Owner, "run"), _tagged("p"))).open()
    assert Owner().run() == "p(o)"
    lock(True)
    with pytest.raises(errors.RestoreError):
        session.close()
    assert Owner().run() == "o"


def test_error_of_the_block_is_the_context_of_a_restore_error(lock: Callable[[bool], None]) -> None:
    """When the block raised as well, neither error is lost."""

    class Owner(metaclass=Stubborn):
        x = 1

    with (
        pytest.raises(errors.RestoreError) as caught,
        hookpatch.active(hookpatch.replace(Target.attribute(Owner, "x"), 2)),
    ):
        lock(True)
        raise Failing("the block")
    assert isinstance(caught.value.__context__, Failing)


def test_nothing_keeps_a_patched_object_alive() -> None:
    """After the end an owner that nobody else holds goes: no site keeps it."""

    class Owner:
        alive: Final[list[int]] = []

        def run(self) -> str:
            return "o"

        def __del__(self) -> None:
            self.alive.append(1)

    owner = Owner()
    with hookpatch.active(hookpatch.wrap(Target.attribute(owner, "run"), _tagged("p"))):
        assert owner.run() == "p(o)"
    del owner
    gc.collect()
    assert Owner.alive == [1]


def test_threads_see_the_layers_of_before_or_of_after() -> None:
    """Calls in other threads while sessions open and close see whole states only, and nothing is left at the end."""

    def function() -> str:
        return "o"

    owner = SimpleNamespace(f=function)
    target = Target.attribute(owner, "f")
    seen: set[str] = set()
    stop = threading.Event()

    def call() -> None:
        while not stop.is_set():
            seen.add(owner.f())

    def patch() -> None:
        for _ in range(50):
            with hookpatch.active(hookpatch.wrap(target, _tagged("p"))):
                pass

    caller = threading.Thread(target=call)
    patchers = [threading.Thread(target=patch) for _ in range(4)]
    caller.start()
    for thread in patchers:
        thread.start()
    for thread in patchers:
        thread.join()
    stop.set()
    caller.join()
    assert seen <= {"p(" * depth + "o" + ")" * depth for depth in range(5)}
    assert owner.f is function


# --- random sessions against a model

ABSENT: Final = "nothing"
VERBS: Final = {  # slot -> the verbs that are tried on it
    "function": ("wrap", "replace", "derive"),
    "method": ("wrap", "replace", "derive"),
    "static": ("wrap", "derive"),
    "inherited": ("wrap", "replace", "derive"),
    "entry": ("wrap", "replace", "derive"),
    "key": ("replace", "remove"),
    "key2": ("replace", "remove"),
    "value": ("replace", "remove"),
    "added": ("replace", "remove"),
}


class World:
    """Some owners with slots of several kinds, their contents noted, and a way to look at each slot."""

    def __init__(self) -> None:
        class Base:
            def inherited(self) -> str:
                return "o"

        class Owner(Base):
            first = 1

            def method(self) -> str:
                return "o"

            @staticmethod
            def static() -> str:
                return "o"

            last = 2

        def function() -> str:
            return "o"

        self.module = ModuleType("world")
        vars(self.module).update(function=function, value="o", after=1)
        self.owner = Owner
        self.mapping = {"before": 1, "entry": function, "key": "o", "key2": "o", "after": 2}
        self.owners = [vars(self.module), vars(Owner), vars(Base), self.mapping]
        self.before = [list(owner.items()) for owner in self.owners]

    def target(self, slot: str) -> Target:
        if slot in ("entry", "key", "key2"):
            return Target.item(self.mapping, slot)
        return Target.attribute(self.owner if slot in ("method", "static", "inherited") else self.module, slot)

    def look(self, slot: str) -> str:
        if slot in ("entry", "key", "key2"):
            found: Any = self.mapping.get(slot, ABSENT)
        elif slot in ("method", "static", "inherited"):
            found = getattr(self.owner(), slot, ABSENT)
        else:
            found = getattr(self.module, slot, ABSENT)
        return str(found()) if callable(found) else found

    def patch(self, verb: str, slot: str, tag: str) -> hookpatch.Patch:
        target = self.target(slot)
        if verb == "wrap":
            return hookpatch.wrap(target, _tagged(tag))
        if verb == "remove":
            return hookpatch.remove(target)
        if verb == "derive":
            return hookpatch.derive(target, lambda below: _derived(below, tag))
        plain = slot in ("key", "key2", "value", "added")
        return hookpatch.replace(target, tag if plain else lambda *self: tag)

    def assert_order_of_keys(self) -> None:
        assert list(self.mapping) == [key for key, _ in self.before[3] if key in self.mapping]

    def assert_as_before(self) -> None:
        for owner, contents in zip(self.owners, self.before, strict=True):
            now = dict(owner)
            assert set(now) == {key for key, _ in contents}
            assert all(now[key] is value for key, value in contents)
        assert list(self.mapping) == [key for key, _ in self.before[3]]
        kept = [key for key in vars(self.module) if key != "value"]  # a removed attribute comes back at the end
        assert kept == [key for key, _ in self.before[0] if key != "value"]
        assert list(vars(self.owner)) == [key for key, _ in self.before[1]]


def _derived(below: Any, tag: str) -> Any:
    if isinstance(below, staticmethod):
        return staticmethod(lambda: f"{tag}[{below.__func__()}]")
    return lambda *self: f"{tag}[{below(*self)}]"


Plan = list[tuple[str, str, str]]  # the verb, the slot and the tag of each patch of a session, in the order given


def _expected(slot: str, sessions: list[Plan]) -> str:
    """Return what the model says of a slot: sessions from the first opened, in each the last patch innermost."""
    value = ABSENT if slot == "added" else "o"
    for plan in sessions:
        for verb, at, tag in reversed(plan):
            if at == slot:
                value = {"wrap": f"{tag}({value})", "derive": f"{tag}[{value}]", "replace": tag, "remove": ABSENT}[verb]
    return value


def _fits(plan: Plan, opened: list[Plan]) -> bool:
    """Tell whether each patch finds something: the original, or what an open session may have put there."""
    added = any(slot == "added" for other in opened for _, slot, _ in other)
    return all(verb == "replace" or slot != "added" or added for verb, slot, _ in plan)


_patches = st.sampled_from([(verb, slot) for slot, verbs in VERBS.items() for verb in verbs])
_steps = st.lists(st.one_of(st.integers(0, 9), st.lists(_patches, min_size=1, max_size=4)), max_size=14)


@settings(max_examples=300, deadline=None)
@given(_steps)
def test_random_overlapping_sessions_agree_with_a_simple_model(steps: list[Any]) -> None:
    """Whatever sessions open and close in whatever order, each slot holds what the open ones say, and all is restored.

    A list opens a session of these patches, a number closes one of those open. A session in which a patch finds
    nothing must be refused and change nothing.
    """
    world, tags = World(), itertools.count()
    opened: list[tuple[Plan, hookpatch.Session]] = []
    with _closing(opened):
        for step in steps:
            if isinstance(step, int):
                if opened:
                    opened.pop(step % len(opened))[1].close()
            else:
                plan = [(verb, slot, f"t{next(tags)}") for verb, slot in step]
                session = hookpatch.active(*(world.patch(*patch) for patch in plan))
                if _fits(plan, [other for other, _ in opened]):
                    opened.append((plan, session.open()))
                else:
                    with pytest.raises(errors.TargetNotFound):
                        session.open()
            for slot in VERBS:
                assert world.look(slot) == _expected(slot, [plan for plan, _ in opened])
            world.assert_order_of_keys()
    world.assert_as_before()
    assert patched() == []


@contextmanager
def _closing(opened: list[tuple[Plan, hookpatch.Session]]) -> Iterator[None]:
    try:
        yield
    finally:
        while opened:
            opened.pop()[1].close()


# --- more than one site, and runs of layers that change


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("keys", [("b", "a"), ("a", "b"), ("b", "c"), ("c", "b"), ("a", "c"), ("c", "a")])
def test_overlapping_removes_restore_the_order(keys: tuple[str, str], order: tuple[int, int]) -> None:
    """Two keys of one mapping that two sessions removed are back at their positions, whichever comes back first."""
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
    """A patch on a method that a class has from C calls what super() finds: in a diamond the sibling's own method."""
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
    with hookpatch.active(hookpatch.wrap(target, _tagged("a"))):
        held = owner.run
        with hookpatch.active(hookpatch.wrap(target, _tagged("b"))):
            assert owner.run is held
            assert held() == "b(a(o))"
        assert held() == "a(o)"
    assert held() == "o"
    assert vars(owner) == {}


def test_function_stays_the_same_while_a_run_of_layers_below_it_goes() -> None:
    """What stands over a replaced value is the same object, whether or not a wrap lies beneath that value."""

    def original() -> str:
        return "o"

    owner = SimpleNamespace(run=original)
    target = Target.attribute(owner, "run")
    below = hookpatch.active(hookpatch.wrap(target, _tagged("a"))).open()
    between = hookpatch.active(hookpatch.replace(target, lambda: "given")).open()
    above = hookpatch.active(hookpatch.wrap(target, _tagged("b"))).open()
    held = owner.run
    below.close()
    assert owner.run is held
    assert held() == "b(given)"
    above.close()
    assert held() == "given"
    between.close()
    assert owner.run is original


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_method_of_a_wrapped_class_is_the_same_site(order: tuple[int, ...], make_module: MakeModule) -> None:
    """A method named through a class that is itself wrapped is that of the class beneath: one site for all."""
    module = make_module("wrapped_class", "class Model:\n    def run(self):\n        return 'o'\n")
    model, before = module.Model, list(vars(module.Model).items())
    sessions = [
        hookpatch.active(hookpatch.wrap("wrapped_class:Model.run", _tagged("a"))).open(),
        hookpatch.active(hookpatch.wrap("wrapped_class:Model", lambda w, i, a, k: w(*a, **k))).open(),
        hookpatch.active(hookpatch.wrap("wrapped_class:Model.run", _tagged("b"))).open(),
    ]
    assert module.Model().run() == "b(a(o))"
    for at in order:
        sessions[at].close()
    assert module.Model is model
    assert [name for name, _ in before] == list(vars(model))
    assert all(vars(model)[name] is value for name, value in before)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_method_named_through_a_derived_class(order: tuple[int, int], make_module: MakeModule) -> None:
    """A method patched through a class that a session derived is the original's: it holds when the derive ends."""
    module = make_module("derived_class", "class Model:\n    def run(self):\n        return 'o'\n")
    model, before = module.Model, vars(module.Model)["run"]
    sessions = [
        hookpatch.active(hookpatch.derive("derived_class:Model", lambda base: type("Model", (base,), {}))).open(),
        hookpatch.active(hookpatch.wrap("derived_class:Model.run", _tagged("p"))).open(),
    ]
    assert module.Model().run() == "p(o)"
    sessions[order[0]].close()
    assert module.Model().run() == ("p(o)" if order[0] == 0 else "o")
    sessions[order[1]].close()
    assert module.Model is model
    assert vars(model)["run"] is before


# --- layers that cannot lie over what is left


def _derived_class(below: type) -> type:
    return type("Derived", (below,), {})


def _states(session: hookpatch.Session) -> list[str]:
    return [patch.state for patch in session.report()]


def test_derive_that_cannot_be_made_of_what_is_left() -> None:
    """When a replace beneath a derive ends and the factory raises for the original, that is told and not raised."""
    value = 3000
    owner = SimpleNamespace(x=value)
    target = Target.attribute(owner, "x")
    lower = hookpatch.active(hookpatch.replace(target, object)).open()
    upper = hookpatch.active(hookpatch.derive(target, _derived_class)).open()
    assert owner.x.__mro__[1] is object
    with pytest.warns(errors.PatchFailedWarning, match="no longer applied: metaclass conflict"):
        lower.close()
    assert owner.x is value
    assert (_states(lower), _states(upper)) == (["restored"], ["failed"])
    upper.close()
    assert vars(owner) == {"x": value}
    assert owner.x is value
    assert patched() == []


def test_wrap_over_a_replace_that_ends_first() -> None:
    """A wrap is taken over what can be called; when the value beneath it turns out none, that is told, not raised."""
    value = 3000
    owner = SimpleNamespace(x=value)
    target = Target.attribute(owner, "x")
    lower = hookpatch.active(hookpatch.replace(target, lambda: "given")).open()
    upper = hookpatch.active(hookpatch.wrap(target, _tagged("p"))).open()
    assert owner.x() == "p(given)"
    with pytest.warns(errors.PatchFailedWarning, match=r"no longer applied: .* holds an int, which cannot be called"):
        lower.close()
    assert owner.x is value
    assert (_states(lower), _states(upper)) == (["restored"], ["failed"])
    upper.close()
    assert owner.x is value
    assert patched() == []


def test_layer_that_was_left_out_is_told_once_and_hinders_nobody() -> None:
    """Later sessions come and go; the report of the one left out says so to its end, unless its layer lies again."""
    owner = SimpleNamespace(x=3)
    target = Target.attribute(owner, "x")
    lower = hookpatch.active(hookpatch.replace(target, lambda: "given")).open()
    upper = hookpatch.active(hookpatch.wrap(target, _tagged("p"))).open()
    with pytest.warns(errors.PatchFailedWarning, match="no longer applied: "):
        lower.close()
    with hookpatch.active(hookpatch.replace(target, 9)):  # a second warning would be an error here
        assert owner.x == 9
    assert owner.x == 3
    assert _states(upper) == ["failed"]
    upper.close()
    (patch,) = upper.report()
    assert (patch.state, patch.reason) == ("failed", "was not applied when it ended: what it lay over had gone before")
    assert vars(owner) == {"x": 3}


def test_layer_that_lies_again_is_applied_again(make_module: MakeModule) -> None:
    """After a reload that brings something to call where there was none."""
    module = make_module("changing", "run = 3\n")
    lower = hookpatch.active(hookpatch.replace("changing:run", lambda: "given")).open()
    upper = hookpatch.active(hookpatch.wrap("changing:run", _tagged("p"))).open()
    with pytest.warns(errors.PatchFailedWarning):
        lower.close()
    assert module.__file__ is not None
    Path(module.__file__).write_text("def run():\n    return 'reloaded'\n")
    importlib.reload(module)
    assert module.run() == "p(reloaded)"
    assert _states(upper) == ["applied"]
    upper.close()
    assert module.run() == "reloaded"
    assert _states(upper) == ["restored"]


def test_warning_that_is_an_error_does_not_make_an_undo_one() -> None:
    """Under -W error the warning ends up in the RestoreError; the patch that ended is restored, and says so."""
    owner = SimpleNamespace(x=3)
    target = Target.attribute(owner, "x")
    lower = hookpatch.active(hookpatch.replace(target, lambda: "given")).open()
    uppers = [hookpatch.active(hookpatch.wrap(target, _tagged(tag))).open() for tag in "pq"]
    with pytest.raises(errors.RestoreError) as caught:  # warnings are errors in these tests
        lower.close()
    assert [type(error) for error in caught.value.exceptions] == [errors.PatchFailedWarning]
    assert [_states(session) for session in (lower, *uppers)] == [["restored"], ["failed"], ["failed"]]
    for session in uppers:
        session.close()
    assert vars(owner) == {"x": 3}


@pytest.mark.parametrize("verb", ["wrap", "derive"])
def test_layer_over_a_name_that_an_ended_session_had_added(verb: str) -> None:
    """When the session that added a name ends, a layer over it has nothing to lie on: told, and the name is absent."""
    owner = SimpleNamespace()
    target = Target.attribute(owner, "x")
    lower = hookpatch.active(hookpatch.replace(target, lambda: "given")).open()
    patch = {
        "wrap": lambda: hookpatch.wrap(target, _tagged("p")),
        "derive": lambda: hookpatch.derive(target, lambda below: lambda: f"p({below()})"),
    }[verb]()
    upper = hookpatch.active(patch).open()
    assert owner.x() == "p(given)"
    with pytest.warns(errors.PatchFailedWarning, match="no longer applied: "):
        lower.close()
    assert vars(owner) == {}
    assert (_states(lower), _states(upper)) == (["restored"], ["failed"])
    upper.close()
    assert vars(owner) == {}
    assert patched() == []


# --- somebody else's value over ours


def test_patch_that_would_not_show_beneath_somebody_elses_is_refused() -> None:
    """What is not ours is not written over, and a patch that has no effect is not reported as applied."""
    owner = SimpleNamespace(x=3)
    target = Target.attribute(owner, "x")
    lower = hookpatch.active(hookpatch.replace(target, 4)).open()
    owner.x = "theirs"
    place = f"<SimpleNamespace object at {id(owner):#x}>.x"
    with pytest.raises(errors.TargetRefused) as caught, hookpatch.active(hookpatch.replace(target, 5)):
        pass
    assert caught.value.problem == (
        f"{place} holds what somebody else put over an earlier patch, and a new one would not show; "
        "take theirs off first"
    )
    with pytest.warns(errors.DisplacedWarning):
        lower.close()
    assert vars(owner) == {"x": "theirs"}
    assert _states(lower) == ["displaced"]


def test_wrap_beneath_somebody_elses_wrapper_takes_part() -> None:
    """A function of ours that somebody wrapped stays the same object: later layers are run inside theirs."""

    def original() -> str:
        return "o"

    owner = SimpleNamespace(f=original)
    target = Target.attribute(owner, "f")
    lower = hookpatch.active(hookpatch.wrap(target, _tagged("1"))).open()
    ours = owner.f

    def theirs() -> str:
        return f"theirs({ours()})"

    owner.f = theirs
    with hookpatch.active(hookpatch.wrap(target, _tagged("2"))) as upper:
        assert owner.f() == "theirs(2(1(o)))"
    lower.close()
    assert owner.f is theirs
    assert owner.f() == "theirs(o)"
    assert (_states(lower), _states(upper)) == (["dormant"], ["restored"])


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
@pytest.mark.parametrize("verb", ["wrap", "derive"])
def test_patch_over_somebody_elses_proxy_of_a_static_or_class_method(kind: Any, verb: str) -> None:
    """Their proxy says that it is a static method; it is patched as the proxy that it is, and lies there again."""

    class Owner:
        run: Any = wrapt.FunctionWrapper(kind(lambda *args: "original"), lambda w, i, a, k: f"theirs({w(*a, **k)})")

    theirs = vars(Owner)["run"]
    assert isinstance(theirs, kind)
    target = Target.attribute(Owner, "run")
    with hookpatch.active(
        hookpatch.wrap(target, _tagged("ours"))
        if verb == "wrap"
        else hookpatch.derive(target, lambda below: wrapt.FunctionWrapper(below, _tagged("ours")))
    ):
        assert Owner.run() == Owner().run() == "ours(theirs(original))"
    assert vars(Owner)["run"] is theirs


def test_site_that_another_thread_is_about_to_change_can_be_looked_at() -> None:
    """A session notes its sites before it changes them; whoever is told of its sites meanwhile finds nothing there."""

    class Owner:
        def run(self) -> str:
            return "o"

    site = site_at(resolve(Target.attribute(Owner, "run"), None, "a test"))
    assert (site.layers, site.stood, site.original, site.stands) == ((), [_slot.ABSENT] * 2, *[_slot.ABSENT] * 2)
    with hookpatch.active(hookpatch.wrap(Target.attribute(Owner, "run"), _tagged("p"))):
        assert site.original is site.stood[0]
        assert len(site.layers) == 1


def test_error_of_a_change_that_was_put_off_is_not_swallowed() -> None:
    """Whatever the owner raises: an IndexError is no sign that there is nothing left to do."""

    def change() -> None:
        raise IndexError("of the owner")

    turn = Turn()
    assert turn.take()
    assert not turn.take()
    turn.later(change)
    with pytest.raises(IndexError, match="of the owner"):
        turn.end()
    assert turn.take()
    turn.end()
