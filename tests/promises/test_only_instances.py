"""``only=`` of a patch of instances: the patch holds for the instances for which the function returns a true value."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest
from snapshot import Snapshot

import hookpatch
from hookpatch.errors import ApplyError, ConflictError, PatchError, PatchFailedWarning

VENDOR: Final = """
def called(x=1): return "own", x
class Rope:
    shared = "shared"
    def __init__(self, kind="plain"):
        self.kind, self.n, self.own = kind, 0, called
    def f(self, x=1): return self.kind, x
class Child(Rope):
    def f(self, x=1): return "child", *super().f(x)
class Whole:
    def __init__(self): self.parts = [Rope("long"), Rope("plain"), Child("long")]
whole, other = Whole(), Whole()
def all_parts(): return [*whole.parts, *other.parts]
"""


def is_long(rope: Any) -> bool:
    """Choose instances by a value."""
    return bool(rope.kind == "long")


def loud(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Mark the result of a call."""
    return ("loud", *wrapped(*args, **kwargs))


def new(self: Any, x: int = 1) -> Any:
    """Stand for a method."""
    return "new", self.kind, x


def _with_mark(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: ("made", *original(*args, **kwargs))


def _f(rope: Any) -> Any:
    return rope.f()


VERBS: Final[dict[str, tuple[Callable[..., hookpatch.Patch], Callable[[Any], Any]]]] = {
    "wrap": (lambda to, **how: hookpatch.wrap(f"{to}.f", loud, **how), _f),
    "wrap own": (lambda to, **how: hookpatch.wrap(f"{to}.own", loud, **how), lambda rope: rope.own()),
    "inject": (lambda to, **how: hookpatch.inject(f"{to}.f", x=3, **how), _f),
    "default": (lambda to, **how: hookpatch.default(f"{to}.f", x=3, **how), _f),
    "replace method": (lambda to, **how: hookpatch.replace(f"{to}.f", new, **how), _f),
    "replace value": (lambda to, **how: hookpatch.replace(f"{to}.n", 5, **how), lambda rope: rope.n),
    "add": (lambda to, **how: hookpatch.replace(f"{to}.z", 5, add=True, **how), lambda rope: vars(rope).get("z")),
    "absent": (
        lambda to, **how: hookpatch.replace(f"{to}.z", 5, add="absent", **how),
        lambda rope: vars(rope).get("z"),
    ),
    "source": (lambda to, **how: hookpatch.replace(f"{to}.n", source="only_vendor:called", **how), lambda rope: rope.n),
    "derive method": (lambda to, **how: hookpatch.derive(f"{to}.f", _with_mark, **how), _f),
    "derive value": (lambda to, **how: hookpatch.derive(f"{to}.n", lambda n: n + 5, **how), lambda rope: rope.n),
    "remove": (lambda to, **how: hookpatch.remove(f"{to}.n", **how), lambda rope: "n" in vars(rope)),
}
ADDRESSES: Final = ("only_vendor:Rope()", "only_vendor:Rope+()", "only_*:Rope()")


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> Any:
    """The module to patch."""
    return make_module("only_vendor", VENDOR)


def _differing(ropes: list[Any], before: list[Any], probe: Callable[[Any], Any]) -> list[int]:
    return [index for index, (rope, value) in enumerate(zip(ropes, before, strict=True)) if probe(rope) != value]


@pytest.mark.parametrize("is_narrowed", [pytest.param(True, marks=pytest.mark.ends), False])
@pytest.mark.parametrize("address", [*ADDRESSES[:2], pytest.param(ADDRESSES[2], marks=pytest.mark.ends)])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.sampled(8)
def test_the_chosen_instances_alone(verb: str, address: str, is_narrowed: bool, vendor: Any) -> None:
    """Of living instances and those made inside, also of subclasses, and of the parts of one object."""
    declare, probe = VERBS[verb]
    ropes, snapshot = vendor.all_parts(), Snapshot(vendor)
    before = [probe(rope) for rope in ropes]
    parts = [*range(3)] if is_narrowed else [*range(6)]
    chosen = [i for i in parts if is_long(ropes[i]) and (type(ropes[i]) is vendor.Rope or "+" in address)]
    options = {"of": vendor.whole} if is_narrowed else {}
    with hookpatch.active(declare(address, only=is_long, **options), children="local") as session:
        assert _differing(ropes, before, probe) == chosen
        made = [vendor.Rope("long"), vendor.Rope("plain"), vendor.Child("long"), vendor.Child("plain")]
        meant = [] if is_narrowed else [0, 2] if "+" in address else [0]
        like = [ropes[0], ropes[1], ropes[2], ropes[2]]
        for index in meant:
            assert probe(made[index]) == probe(like[index])
        for index in {0, 1, 2} - {*meant}:
            assert probe(made[index]) == before[index]
        (alive,) = [row.instances for row in session.report() if row.instances]
        assert alive.partition(" ")[0] == str(len(chosen) + len(meant))
    assert _differing(ropes, before, probe) == []
    assert [probe(rope) for rope in made[:3]] == before[:3]
    order = "order of" if verb == "remove" else "-"  # an attribute comes back as the last
    assert [place for place in snapshot.changed() if not place.startswith(order)] == []


@pytest.mark.parametrize("travels", [copy.copy, copy.deepcopy, lambda rope: pickle.loads(pickle.dumps(rope))])
def test_copies_are_chosen_anew(travels: Callable[[Any], Any], vendor: Any) -> None:
    """A copy made inside is asked about by itself, and restored."""
    with hookpatch.active(hookpatch.replace("only_vendor:Rope().n", 5, only=is_long), children="local"):
        long, plain = (travels(vendor.whole.parts[index]) for index in (0, 1))
        assert (long.n, plain.n) == (5, 0)
    assert (long.n, plain.n) == (0, 0)


def test_a_method_asks_at_each_call(vendor: Any) -> None:
    """Without of= a method asks at the call, a value when the instance is found; with of= both ask once."""
    rope = vendor.whole.parts[1]
    patches = [
        hookpatch.wrap("only_vendor:Rope().f", loud, only=is_long),
        hookpatch.replace("only_vendor:Rope().n", 5, only=is_long),
    ]
    with hookpatch.active(*patches, children="local"):
        rope.kind = "long"
        assert (rope.f(), rope.n) == (("loud", "long", 1), 0)
        rope.kind = "plain"
        assert rope.f() == ("plain", 1)
    with hookpatch.active(
        hookpatch.wrap("only_vendor:Rope().f", loud, only=is_long, of=vendor.whole), children="local"
    ):
        rope.kind = "long"
        assert rope.f() == ("long", 1)
        vendor.whole.parts[0].kind = "plain"
        assert vendor.whole.parts[0].f() == ("loud", "plain", 1)


def test_a_task_alone(vendor: Any) -> None:
    """scope="task" holds for the chosen instances, and not in a thread that ran before."""
    long, plain, _ = vendor.whole.parts
    heard: list[Any] = []
    is_on = threading.Event()
    thread = threading.Thread(target=lambda: is_on.wait(10) and heard.append(long.f()))
    thread.start()
    with hookpatch.active(hookpatch.wrap("only_vendor:Rope().f", loud, only=is_long), scope="task", children="local"):
        assert (long.f(), plain.f()) == (("loud", "long", 1), ("plain", 1))
        is_on.set()
        thread.join()
    assert heard == [("long", 1)]


@pytest.mark.parametrize("ends_first", [0, 1])
def test_blocks_overlap(ends_first: int, vendor: Any) -> None:
    """Two choices overlap, and end in any order."""
    long, plain, _ = vendor.whole.parts
    both = [is_long, lambda rope: True]
    declared = [hookpatch.wrap("only_vendor:Rope().f", loud, only=only) for only in both]
    sessions = [hookpatch.active(patch, children="local").open() for patch in declared]
    assert (long.f(), plain.f()) == (("loud", "loud", "long", 1), ("loud", "plain", 1))
    sessions.pop(ends_first).close()
    assert (long.f(), plain.f()) == (("loud", "long", 1), ("plain", 1) if ends_first else ("loud", "plain", 1))
    sessions.pop().close()
    assert (long.f(), plain.f()) == (("long", 1), ("plain", 1))


def test_values_of_different_choices_are_no_conflict(vendor: Any) -> None:
    """Two choices may mean different instances; two values of one choice conflict."""
    long, plain, _ = vendor.whole.parts
    other = hookpatch.replace("only_vendor:Rope().f", lambda self, x=1: "other", only=lambda rope: not is_long(rope))
    with hookpatch.active(hookpatch.replace("only_vendor:Rope().f", new, only=is_long), other, children="local"):
        assert (long.f(), plain.f()) == (("new", "long", 1), "other")
    twice = [hookpatch.replace("only_vendor:Rope().f", value, only=is_long) for value in (new, lambda self, x=1: 3)]
    with pytest.raises(ConflictError, match="twice"):
        hookpatch.active(*twice).open()


def test_no_instance_is_kept_alive(vendor: Any) -> None:
    """A chosen instance dies as soon as it is dropped."""
    with hookpatch.active(hookpatch.replace("only_vendor:Rope().n", 5, only=is_long), children="local") as session:
        rope = vendor.Rope("long")
        number = id(rope)
        assert rope.n == 5
        del rope
        assert number not in {id(found) for found in gc.get_referrers(vendor.Rope)}
        assert "1 made inside" in str(session.report())


def test_an_error_of_the_function(vendor: Any) -> None:
    """At entering it refuses the block, for an instance made inside it is a warning, at a call it is the caller's."""

    def fails(rope: Any) -> bool:
        return bool(rope.kind and 1 / (rope.kind != "bad"))

    vendor.whole.parts[0].kind = "bad"
    for options in ({}, {"of": vendor.whole}):
        with pytest.raises(ApplyError, match=r"only= raised ZeroDivisionError for a Rope: division by zero"):
            hookpatch.active(hookpatch.replace("only_vendor:Rope().n", 5, only=fails, **options)).open()
        assert [rope.n for rope in vendor.all_parts()] == [0] * 6
    vendor.whole.parts[0].kind = "long"
    with hookpatch.active(hookpatch.replace("only_vendor:Rope().n", 5, only=fails), children="local"):
        with pytest.warns(PatchFailedWarning, match="only= raised ZeroDivisionError"):
            made = vendor.Rope("bad")
        assert (made.n, vendor.whole.parts[0].n) == (0, 5)
    made.kind = "plain"
    with hookpatch.active(hookpatch.wrap("only_vendor:Rope().f", loud, only=fails), children="local"):
        vendor.whole.parts[0].kind = "bad"
        with pytest.raises(ZeroDivisionError):
            vendor.whole.parts[0].f()


def test_only_is_for_rules_and_instances() -> None:
    """A single slot is named or not; the message has the signs of an address of many."""
    with pytest.raises(PatchError, match=r"only= is for a rule or for instances, and m:C\.f has no"):
        hookpatch.wrap("m:C.f", loud, only=is_long)
    with pytest.raises(
        PatchError, match="only= is an int, not a function that takes the original value, or an instance"
    ):
        hookpatch.wrap("m:C().f", loud, only=3)  # type: ignore[arg-type]


@pytest.mark.model
def test_submodules_of_a_model_are_exchanged_by_choice() -> None:
    """``derive`` exchanges the chosen Linear alone; eager, compiled and afterwards."""
    import torch
    from torch import nn

    class Doubled(nn.Module):
        def __init__(self, base: Any) -> None:
            super().__init__()
            self.base = base

        def forward(self, x: Any) -> Any:
            return self.base(x) * 2

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    kept = {"2"}

    def is_wanted(linear: Any) -> bool:
        return next(name for name, part in model.named_modules() if part is linear) not in kept

    children, x = [*model.children()], torch.ones(1, 4)
    before = model(x)
    with hookpatch.active(
        hookpatch.derive("torch.nn:Linear()", Doubled, of=model, only=is_wanted), children="local"
    ) as session:
        assert [type(part).__name__ for part in model] == ["Doubled", "ReLU", "Linear"]
        assert session.report().patches[0].instances == "1 exchanged"
    assert [*model.children()] == children
    assert torch.equal(model(x), before)
    choice = hookpatch.wrap(
        "torch.nn:Linear().forward", lambda wrapped, i, a, k: wrapped(*a, **k) + 1, of=model, only=is_wanted
    )
    narrow = hookpatch.wrap(
        "torch.nn:Linear().forward", lambda w, i, a, k: w(*a, **k) + 1, only=lambda part: part.out_features == 4
    )
    for patch in (choice, narrow):
        with hookpatch.active(patch, children="local"):
            inside = model(x)
            compiled = torch.compile(model, backend="eager")(x)
        assert torch.equal(inside, compiled)
        assert torch.equal(inside, model[2](model[1](model[0](x) + 1)))


FAMILY: Final = """
class Module:
    def forward(self, *input): raise NotImplementedError
class Norm(Module):
    def forward(self, x=1, y=0): return "norm", x, y
class Late(Norm): pass
class Act(Module):
    def forward(self, x=1, y=0): return "act", x, y
class Script(Module):
    forward = property(lambda self: None)
class Other(Module):
    def forward(self, name, /): return name
class Net(Module):
    def __init__(self): self.parts = [Norm(), Act(), Late()]
net, other = Net(), Net()
"""
OF_PARTS: Final[dict[str, Callable[[str], hookpatch.Patch]]] = {
    "wrap": lambda to: hookpatch.wrap(to, loud, of="family:net", only=_has_forward),
    "inject": lambda to: hookpatch.inject(to, y=5, of="family:net", only=_has_forward),
    "default": lambda to: hookpatch.default(to, y=5, of="family:net", only=_has_forward),
    "replace": lambda to: hookpatch.replace(to, _forward, of="family:net", only=_has_forward),
    "derive": lambda to: hookpatch.derive(to, _with_mark_at, of="family:net", only=_has_forward),
}


def _has_forward(part: Any) -> bool:
    return type(part).__name__ != "Net"


def _forward(self: Any, x: int = 1, y: int = 0) -> Any:
    return "new", x, y


def _with_mark_at(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, x=1, y=0: ("made", *original(self, x, y))


@pytest.mark.parametrize("verb", OF_PARTS)
def test_classes_of_no_part_are_left_alone(make_module: Callable[[str, str], ModuleType], verb: str) -> None:
    """With of= no class without a part is patched, and none refuses: a stub, a property, another signature."""
    family = make_module("family", FAMILY)
    before = [part.forward() for part in family.net.parts]
    with_patch = {
        "wrap": [("loud", *result) for result in before],
        "inject": [(*result[:2], 5) for result in before],
        "default": [(*result[:2], 5) for result in before],
        "replace": [("new", 1, 0) for _ in before],
        "derive": [("made", *result) for result in before],
    }[verb]
    untouched = [Snapshot(cls) for cls in (family.Module, family.Script, family.Other, family.Late, family.Net)]
    everything = Snapshot(family)
    with hookpatch.active(OF_PARTS[verb]("family:Module+().forward"), children="local") as session:
        assert [part.forward() for part in family.net.parts] == with_patch
        assert [part.forward() for part in family.other.parts] == before
        assert [place for snapshot in untouched for place in snapshot.changed()] == []
        assert session.report().patches[0].instances == "3 alive"
        changed = family.net.parts[0]
        changed.__class__ = type("Parametrized", (family.Norm,), {})  # as torch does
        assert changed.forward() == with_patch[0]
    assert [part.forward() for part in family.net.parts] == before
    family.net.parts[0].__class__ = family.Norm
    assert everything.changed() == []
