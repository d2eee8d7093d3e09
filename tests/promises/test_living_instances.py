"""reach="everywhere" on a class: living instances get the new class, at the end the former class, or are counted."""

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


def newer(name: str, **namespace: Any) -> Callable[[type], type]:
    """Return a factory of subclasses that answer with a name."""

    def factory(original: type) -> type:
        slots = {"__slots__": ()} if "__slots__" in vars(original) else {}
        return type(original)(name, (original,), {"run": lambda self: name, **slots, **namespace})

    return factory


def derived(name: str, answer: str = "new", **facts: Any) -> hookpatch.Patch:
    return hookpatch.derive(f"kinds:{name}", newer(answer), reach="everywhere", **facts)


@pytest.mark.parametrize("verb", [pytest.param("replace", marks=pytest.mark.ends), "derive"])
@pytest.mark.parametrize("name", FOLLOW)
@pytest.mark.sampled(4)
def test_instances_follow_and_are_given_back(kinds: ModuleType, name: str, verb: str) -> None:
    cls = getattr(kinds, name)
    instance, sibling = cls(), cls()
    patch = (
        derived(name) if verb == "derive" else hookpatch.replace(f"kinds:{name}", newer("new")(cls), reach="everywhere")
    )
    with pristine():
        with hookpatch.active(patch) as session:
            assert (instance.run(), sibling.run()) == ("new", "new")
            assert type(instance) is type(sibling) is getattr(kinds, name) is not cls
            newcomer = getattr(kinds, name)()
            row, *further_rows = session.report()  # a frozen dataclass keeps its class in closures, which are rows, too
            assert (row.state, row.stale) == ("applied", ())
            assert f"2 living instances of kinds:{name}" in [patch.place for patch in further_rows]
        assert type(instance) is type(sibling) is cls
        assert instance.run() == "old"
        assert type(newcomer).__name__ == "new"  # what was made inside is left as it is
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
    instance, sibling = cls(), cls()
    with (
        pristine(),
        hookpatch.active(hookpatch.derive(f"kinds:{name}", factory, reach="everywhere")) as session,
    ):
        assert type(instance) is type(sibling) is cls
        row, *further_rows = session.report()
        assert (further_rows, row.stale[-1]) == ([], "the class of 2 living instances")


def test_instances_of_a_class_in_c_are_counted() -> None:
    """Nothing of the instances of the interpreter's own classes can be set."""
    tree = importlib.import_module("xml.etree.ElementTree")
    element, longer = tree.Element("a"), type("Longer", (tree.Element,), {})
    with hookpatch.active(hookpatch.replace("xml.etree.ElementTree:Element", longer, reach="everywhere")) as session:
        assert type(element) is longer.__base__
        first, *_ = session.report()
        assert "living instance" in first.stale[-1]


def test_without_reach_or_narrowed_they_are_left_and_counted(kinds: ModuleType) -> None:
    instance = kinds.Plain()
    for facts in ({"reach": "slot"}, {"reach": "everywhere", "except_in": ["elsewhere"]}):
        with pristine(), hookpatch.active(hookpatch.derive("kinds:Plain", newer("new"), **facts)) as session:
            assert instance.run() == "old"
            assert session.report().patches[0].stale[-1] == "the class of 1 living instance"


def test_subclasses_are_named_with_their_instances(kinds: ModuleType) -> None:
    """Their bases stay: to change them would turn the order of ``__subclasses__`` round for good."""
    instances = [kinds.Sub(), kinds.Below(), kinds.Below()]
    before = kinds.Base.__subclasses__()
    with pristine(), hookpatch.active(derived("Base")) as session:
        assert [instance.run() for instance in instances] == ["old"] * 3
        assert "kinds:Sub (a subclass, 3 living instances)" in session.report().patches[0].stale
        instances.clear()
        assert "kinds:Sub (a subclass)" in session.report().patches[0].stale
    assert kinds.Base.__subclasses__()[: len(before)] == before


@pytest.mark.parametrize(
    "ends", [(0, 2, 1), *(pytest.param(ends, marks=pytest.mark.ends) for ends in permutations(range(3)))]
)
def test_sessions_that_end_in_any_order(kinds: ModuleType, ends: tuple[int, ...]) -> None:
    """An instance has the class of the open sessions; an instance made inside keeps the class of its making."""
    first = kinds.Plain()
    instances: list[Any] = [first]
    sessions: list[hookpatch.Session] = []
    with pristine():
        for number in range(3):
            sessions.append(hookpatch.active(derived("Plain", f"new{number}")).open())
            instances.append(kinds.Plain())
        assert {instance.run() for instance in instances} == {"new2"}
        own = [type(instance).__mro__ for instance in instances[1:]]
        open_numbers = [*range(3)]
        for number in ends:
            sessions[number].close()
            open_numbers.remove(number)
            assert first.run() == (f"new{open_numbers[-1]}" if open_numbers else "old")
            assert type(first) is kinds.Plain
        assert [type(instance).__name__ for instance in instances] == ["Plain", "new0", "new1", "new2"]
        assert own[-1][0] is type(instances[-1])


def test_an_instance_whose_class_changed_meanwhile(kinds: ModuleType) -> None:
    """A foreign class is left alone, with a warning; an original class assigned by hand stays."""
    foreign, back, came = kinds.Base(), kinds.Base(), kinds.Sub()
    with hookpatch.active(derived("Base")) as session:
        foreign.__class__ = kinds.Below
        back.__class__ = kinds.Base.__mro__[1]
        came.__class__ = kinds.Base
    assert (type(foreign), type(back), type(came).__name__) == (kinds.Below, kinds.Base, "new")
    assert [patch.reason for patch in session.report()] == [
        None,
        "but for 1 with a class set by other code, left unchanged",
    ]


def test_no_instance_is_kept_alive(kinds: ModuleType) -> None:
    instance = kinds.Plain()
    with hookpatch.active(derived("Plain")):
        weak = weakref.ref(instance)
        del instance
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

    model, tensor = sys.modules["norms"].Model(), torch.ones(1)
    run = torch.compile(model, backend="eager")
    if compiled == "before":
        assert run(tensor) == 3
    with hookpatch.active(hookpatch.derive("norms:Norm", factory, reach="everywhere")):
        assert (run(tensor), model(tensor)) == (21, 21)
    assert (run(tensor), model(tensor)) == (3, 3)


def test_instances_die_during_a_report(make_module: Callable[[str, str], ModuleType]) -> None:
    """The garbage collector may run at each step of a report, and drops instances in cycles."""
    module: Any = make_module("dying", "class K:\n    def __init__(self): self.value, self.me = 1, self")
    threshold = gc.get_threshold()
    with hookpatch.active(hookpatch.replace("dying:K().value", 2), children="local") as session:
        try:
            for step in range(50, 500, 25):
                gc.disable()
                made = [module.K() for _ in range(300)]
                gc.collect(0)  # the next collection looks at these instances, after some steps
                del made
                gc.set_threshold(step, 0, 1_000)
                gc.enable()
                assert session.report().patches[0].state == "applied", step
                gc.collect()
        finally:
            gc.set_threshold(*threshold)
            gc.enable()
