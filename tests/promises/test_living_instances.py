"""reach="everywhere" on a class: its living instances get the new class, and their own one back, or are counted."""

from __future__ import annotations

import gc
import importlib
import subprocess
import sys
import weakref
from collections.abc import Callable
from itertools import permutations
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.testing import pristine

KINDS: Final = """
    import collections, dataclasses, enum

    class Plain:
        def run(self): return "old"

    class Slotted:
        __slots__ = ("a", "__weakref__")
        def run(self): return "old"

    class Unset:
        def run(self): return "old"
        def __setattr__(self, name, value): raise AttributeError(name)

    @dataclasses.dataclass(frozen=True)
    class Frozen:
        a: int = 0
        def run(self): return "old"

    class Liar:
        __class__ = property(lambda self: int)
        def run(self): return "old"

    class Meta(type): pass
    class WithMeta(metaclass=Meta):
        def run(self): return "old"

    class Mapping(dict):
        def run(self): return "old"

    class Error(Exception):
        def run(self): return "old"

    class Unhashable:
        __hash__ = None
        def __eq__(self, other): raise RuntimeError
        def run(self): return "old"

    class Called:
        def __call__(self): return "old"
        run = __call__

    class Bare:
        __slots__ = ("a",)
        def run(self): return "old"

    class Base:
        def run(self): return "old"
    class Sub(Base): pass
    class Below(Sub): pass
    """
FOLLOW: Final = ["Plain", "Slotted", "Unset", "Frozen", "Liar", "WithMeta", "Mapping", "Error", "Unhashable", "Called"]


@pytest.fixture
def kinds(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    gc.collect()
    return make_module("kinds", KINDS)


def newer(name: str, **more: Any) -> Callable[[type], type]:
    """Return a factory of subclasses that answer with a name."""

    def factory(original: type) -> type:
        slots = {"__slots__": ()} if "__slots__" in vars(original) else {}
        return type(original)(name, (original,), {"run": lambda self: name, **slots, **more})

    return factory


def derived(name: str, what: str = "new", **facts: Any) -> hookpatch.Patch:
    return hookpatch.derive(f"kinds:{name}", newer(what), reach="everywhere", **facts)


@pytest.mark.parametrize("verb", ["replace", "derive"])
@pytest.mark.parametrize("name", FOLLOW)
def test_instances_follow_and_are_given_back(kinds: ModuleType, name: str, verb: str) -> None:
    cls = getattr(kinds, name)
    one, two = cls(), cls()
    patch = (
        derived(name) if verb == "derive" else hookpatch.replace(f"kinds:{name}", newer("new")(cls), reach="everywhere")
    )
    with pristine():
        with hookpatch.active(patch) as session:
            assert (one.run(), two.run()) == ("new", "new")
            assert type(one) is type(two) is getattr(kinds, name) is not cls
            made = getattr(kinds, name)()
            first, *others = session.report()  # a frozen dataclass keeps its class in closures, which are rows, too
            assert (first.state, first.stale) == ("applied", ())
            assert f"2 living instances of kinds:{name}" in [patch.place for patch in others]
        assert type(one) is type(two) is cls
        assert one.run() == "old"
        assert type(made).__name__ == "new"  # what was made inside is left as it is
        assert {patch.state for patch in session.report()} == {"restored"}


@pytest.mark.parametrize(
    ("name", "factory"),
    [
        ("Bare", newer("new")),  # cannot be held weakly
        ("Plain", newer("new", __slots__=("more",))),  # another layout
        ("Mapping", lambda original: type("new", (), {})),
        ("Plain", lambda original: lambda: "no class"),
    ],
)
def test_instances_that_cannot_follow_are_counted(kinds: ModuleType, name: str, factory: Any) -> None:
    cls = getattr(kinds, name)
    one, two = cls(), cls()
    with (
        pristine(),
        hookpatch.active(hookpatch.derive(f"kinds:{name}", factory, reach="everywhere")) as session,
    ):
        assert type(one) is type(two) is cls
        first, *others = session.report()
        assert (others, first.stale[-1]) == ([], "the class of 2 living instances")


def test_instances_of_a_class_in_c_are_counted() -> None:
    """Nothing of the instances of the interpreter's own classes can be set."""
    tree = importlib.import_module("xml.etree.ElementTree")
    held, longer = tree.Element("a"), type("Longer", (tree.Element,), {})
    with hookpatch.active(hookpatch.replace("xml.etree.ElementTree:Element", longer, reach="everywhere")) as session:
        assert type(held) is longer.__base__
        first, *_ = session.report()
        assert "living instance" in first.stale[-1]


def test_without_reach_or_narrowed_they_are_left_and_counted(kinds: ModuleType) -> None:
    one = kinds.Plain()
    for facts in ({"reach": "slot"}, {"reach": "everywhere", "except_in": ["elsewhere"]}):
        with pristine(), hookpatch.active(hookpatch.derive("kinds:Plain", newer("new"), **facts)) as session:
            assert one.run() == "old"
            assert session.report().patches[0].stale[-1] == "the class of 1 living instance"


def test_subclasses_are_named_with_their_instances(kinds: ModuleType) -> None:
    """Their bases stay: to change them would turn the order of ``__subclasses__`` round for good."""
    held = [kinds.Sub(), kinds.Below(), kinds.Below()]
    before = kinds.Base.__subclasses__()
    with pristine(), hookpatch.active(derived("Base")) as session:
        assert [one.run() for one in held] == ["old"] * 3
        assert "kinds:Sub (a subclass, 3 living instances)" in session.report().patches[0].stale
        held.clear()
        assert "kinds:Sub (a subclass)" in session.report().patches[0].stale
    assert kinds.Base.__subclasses__()[: len(before)] == before


@pytest.mark.parametrize("ends", [*permutations(range(3))])
def test_sessions_that_end_in_any_order(kinds: ModuleType, ends: tuple[int, ...]) -> None:
    """An instance has the class of the sessions that are open, and one that came inside the class that it came with."""
    first = kinds.Plain()
    made: list[Any] = [first]
    sessions: list[hookpatch.Session] = []
    with pristine():
        for number in range(3):
            sessions.append(hookpatch.active(derived("Plain", f"new{number}")).open())
            made.append(kinds.Plain())
        assert {one.run() for one in made} == {"new2"}
        own = [type(one).__mro__ for one in made[1:]]
        left = [*range(3)]
        for number in ends:
            sessions[number].close()
            left.remove(number)
            assert first.run() == (f"new{left[-1]}" if left else "old")
            assert type(first) is kinds.Plain
        assert [type(one).__name__ for one in made] == ["Plain", "new0", "new1", "new2"]
        assert own[-1][0] is type(made[-1])


def test_an_instance_whose_class_changed_meanwhile(kinds: ModuleType) -> None:
    """A foreign class is left alone, with a warning; an original class assigned by hand stays."""
    other, back, came = kinds.Base(), kinds.Base(), kinds.Sub()
    with hookpatch.active(derived("Base")) as session:
        other.__class__ = kinds.Below
        back.__class__ = kinds.Base.__mro__[1]
        came.__class__ = kinds.Base
    assert (type(other), type(back), type(came).__name__) == (kinds.Below, kinds.Base, "new")
    assert [patch.reason for patch in session.report()] == [
        None,
        "but for 1 with a class that other code has given, which was left alone",
    ]


def test_no_instance_is_kept_alive(kinds: ModuleType) -> None:
    one = kinds.Plain()
    with hookpatch.active(derived("Plain")):
        weak = weakref.ref(one)
        del one
        assert weak() is None


def test_a_refusal_in_the_midst_leaves_all_as_they_were() -> None:
    """An audit hook forbids the second instance: no instance has the new class, and the error has the count."""
    script = """
import sys, types, hookpatch
kinds = types.ModuleType("kinds"); sys.modules["kinds"] = kinds
class Plain: pass
kinds.Plain = Plain
held = [Plain(), Plain(), Plain()]
seen = []
def hook(event, args):
    if event == "object.__setattr__" and args[1] == "__class__" and seen is not None:
        seen.append(args[0])
        if len(seen) == 2:
            raise RuntimeError("not this one")
sys.addaudithook(hook)
patch = hookpatch.derive("kinds:Plain", lambda original: type("New", (original,), {}), reach="everywhere")
with hookpatch.active(patch) as session:
    print([type(one).__name__ for one in held], session.report().patches[0].stale[-1])
    print([patch.place for patch in session.report() if "living" in str(patch.place)])
print([type(one).__name__ for one in held])
"""
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert completed.stderr == ""
    assert completed.stdout.splitlines() == [
        "['Plain', 'Plain', 'Plain'] the class of 3 living instances",
        "[]",
        "['Plain', 'Plain', 'Plain']",
    ]


def test_a_class_that_comes_with_its_module(write_module: Any) -> None:
    """Instances made during the module's import follow, too."""
    write_module("late", "class Late:\n    def run(self): return 'old'\nmade = Late()\n")
    with pristine():
        with hookpatch.active(hookpatch.derive("late:Late", newer("new"), reach="everywhere")):
            late = importlib.import_module("late")
            assert late.made.run() == "new"
        assert late.made.run() == "old"


@pytest.mark.model
@pytest.mark.parametrize("compiled", ["before", "inside"])
def test_a_model_whose_part_has_the_class(make_module: Callable[[str, str], ModuleType], compiled: str) -> None:
    """Code compiled by torch before or inside follows the patch."""
    torch = importlib.import_module("torch")
    make_module(
        "norms",
        """
        import torch
        class Norm(torch.nn.Module):
            def forward(self, x): return x * 2
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = Norm()
            def forward(self, x): return self.norm(x) + 1
        """,
    )

    def factory(original: Any) -> Any:
        class Louder(original):  # type: ignore[misc]  # known at run time
            def forward(self, x: Any) -> Any:
                return super().forward(x) * 10

        return Louder

    model, one = sys.modules["norms"].Model(), torch.ones(1)
    run = torch.compile(model, backend="eager")
    if compiled == "before":
        assert run(one) == 3
    with hookpatch.active(hookpatch.derive("norms:Norm", factory, reach="everywhere")):
        assert (run(one), model(one)) == (21, 21)
    assert (run(one), model(one)) == (3, 3)
