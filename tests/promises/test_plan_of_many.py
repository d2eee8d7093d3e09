"""The plan of several patches of one target equals their run, whether the module is imported or not."""

from __future__ import annotations

import importlib
import itertools
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from snapshot import Snapshot

import hookpatch
from hookpatch import Patch
from hookpatch._engine.lock.lockfile import Lock, write_lock
from hookpatch._inspect.cache import LookOptions
from hookpatch._inspect.check import check, lockable
from hookpatch._inspect.plan import Plan, plan_of
from hookpatch._inspect.rehearsal import rehearse, with_matches
from hookpatch._session.ledger import Requested
from hookpatch._session.load import load_drift
from hookpatch.errors import HookpatchWarning

Row: TypeAlias = tuple[str, str, str, bool, str, str]  # target, verb, reach, required, state, reason
Place: TypeAlias = tuple[str, str, str]  # target, verb, reach

VENDOR: Final = """
def f(x, y=0): return "f", x, y
class C:
    def __init__(self, x, y=0): self.x = x, y
    def run(self): return "run"
class K:
    def m(self, x, y=0): return "m", x, y
class S(K): pass
table = {"f": f, "other": 1}
"""
VALUES: Final = """
def loud(wrapped, instance, args, kwargs): return "loud", wrapped(*args, **kwargs)
def same(x, y=0): return "same", x, y
def more(x, y=0, z=0): return "more", x, y, z
def fewer(x): return "fewer", x
def same_method(self, x, y=0): return "same", x, y
def more_method(self, x, y=0, z=0): return "more", x, y, z
def fewer_method(self, x): return "fewer", x
class Class:
    def __init__(self, x, y=0): pass
def over(below):
    def outer(*args, **kwargs): return "over", below(*args, **kwargs)
    return outer
def five(below): return 5
"""
KINDS: Final = {
    "function": "f",
    "class": "C",
    "method": "K.m",
    "entry": "table['f']",
    "absent": "new",
    "absent method": "K.new",
    "inherited": "S.m",
}
RULES: Final = {**dict.fromkeys(KINDS, "*"), "class": "C*", "method": "K.m*", "entry": "table[*]", "inherited": "S.m*"}
# By name: the verb, the name of the value, further facts.
VERBS: Final[dict[str, tuple[str, Any, dict[str, Any]]]] = {
    "wrap": ("wrap", "loud", {}),
    "wrap everywhere": ("wrap", "loud", {"reach": "everywhere"}),
    "wrap, y": ("wrap", "loud", {"expects": "y"}),
    "wrap, z": ("wrap", "loud", {"expects": "z"}),
    "same": ("replace", "same", {}),
    "same everywhere": ("replace", "same", {"reach": "everywhere"}),
    "same, some callers": ("replace", "same", {"callers": "somewhere.*"}),
    "more": ("replace", "more", {}),
    "fewer": ("replace", "fewer", {}),
    "fewer, unchecked": ("replace", "fewer", {"check_signature": False, "why": "a test"}),
    "number": ("replace", 5, {}),
    "class": ("replace", "Class", {}),
    "add": ("replace", "same", {"add": True}),
    "add a number": ("replace", 5, {"add": True}),
    "add if absent": ("replace", "same", {"add": "absent"}),
    "derive": ("derive", "over", {}),
    "derive a number": ("derive", "five", {}),
    "remove": ("remove", None, {}),
    "inject": ("inject", {"y": 5}, {}),
    "inject z": ("inject", {"z": 5}, {}),
    "inject z everywhere": ("inject", {"z": 5}, {"reach": "everywhere"}),
    "default": ("default", {"y": 6}, {}),
    "edit": ("edit", ("return", "return 'edited',"), {}),
    "edit the slot": ("edit", ("return", "return 'edited',"), {"reach": "slot"}),
    "rule": ("wrap", "loud", {"only": callable}),
    "rule of a number": ("replace", 5, {"only": callable}),
}
IN_A_CHILD: Final = ("derive", "derive a number", "edit", "edit the slot", "add", "add a number", "add if absent")
STATES: Final = {
    "fits": "applied",
    "skipped": "skipped",
    "unfit": "failed",
    "conflict": "failed",
    "not looked at": "waiting",
}


@pytest.fixture
def values(write_module: Callable[[str, str], Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The values of the patches; the module of the targets is on the path, and not imported."""
    monkeypatch.syspath_prepend(str(folder))
    write_module("many_vendor", VENDOR)
    write_module("many_values", VALUES)
    yield importlib.import_module("many_values")
    for name in ("many_vendor", "many_values"):
        sys.modules.pop(name, None)


def _patch(name: str, kind: str, values: Any, **facts: Any) -> Patch:
    verb, change, own = VERBS[name]
    target = f"many_vendor:{RULES[kind] if name.startswith('rule') else KINDS[kind]}"
    if type(change) is str:
        change = getattr(
            values,
            f"{change}_method" if "." in KINDS[kind] and change not in ("loud", "Class", "over", "five") else change,
        )
    arguments = () if change is None else change if verb == "edit" else (change,)
    make: Callable[..., Patch] = getattr(hookpatch, verb)
    return make(target, *arguments, **own, **facts)


def _without_ids(reason: str | None) -> str:
    return re.sub("0x[0-9a-f]+", "0x", reason or "")


def _planned(plan: Plan) -> tuple[list[Row], list[Place]]:
    """Return the rows of a plan, and the applied patches in their order."""
    patches = [(target.target, patch) for target in plan for patch in target.patches]
    rows = [
        (target, patch.verb, patch.reach, patch.required, STATES[patch.finding], _without_ids(patch.reason))
        for target, patch in patches
    ]
    return sorted(rows), [(target, patch.verb, patch.reach) for target, patch in patches if patch.place is not None]


def _ran(requests: Sequence[Requested], drift: Any = None) -> tuple[list[Row], list[Place]]:
    """Return the same of sessions opened in this process, each without the patches refused before."""
    outcomes = [*with_matches(requests, rehearse(requests, drift=drift))]
    rows = [
        (request.patch.address, request.patch.verb, request.patch.reach, request.patch.required, outcome.state)
        for request, outcome in outcomes
    ]
    reasons = [_without_ids(outcome.reason) for _, outcome in outcomes]
    targets = [*dict.fromkeys(request.patch.address for request, _ in outcomes)]
    in_order = sorted(
        (targets.index(request.patch.address), outcome.depth, number)
        for number, (request, outcome) in enumerate(outcomes)
        if outcome.depth is not None
    )
    return sorted((*row, reason) for row, reason in zip(rows, reasons, strict=True)), [
        rows[number][:3] for *_, number in in_order
    ]


def _differences(patches: Sequence[Patch], is_imported: bool) -> list[Any]:
    """Return where the plan differs from a run: in the state, the reason or the order; the module is as before."""
    snapshot = None
    try:
        if is_imported:
            snapshot = Snapshot(importlib.import_module("many_vendor"))
        rows, order = _planned(hookpatch.plan(*patches))
        assert snapshot is None or snapshot.changed() == []
        assert is_imported or "many_vendor" not in sys.modules
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HookpatchWarning)
            ran, ran_in_order = _ran([*map(Requested, patches)])
    finally:
        sys.modules.pop("many_vendor", None)
    return _unlike((rows, order), (ran, ran_in_order))


def _unlike(plan: tuple[list[Row], list[Place]], run: tuple[list[Row], list[Place]]) -> list[Any]:
    """Return the rows of a plan that a run has not, and the other way round; else the two orders, if they differ."""
    (rows, order), (ran, ran_in_order) = plan, run
    if rows != ran:
        return [row for row in rows if row not in ran] + [row for row in ran if row not in rows]
    of_layers = [place for place in order if place in ran_in_order]  # a rule itself has no layer
    return [] if of_layers == ran_in_order else [order, ran_in_order]


def _wrong(cells: Sequence[tuple[str, tuple[str, ...]]], values: Any, is_imported: bool = True) -> dict[Any, Any]:
    differences = {
        (kind, *names): _differences([_patch(name, kind, values) for name in names], is_imported)
        for kind, names in cells
    }
    return {cell: of_cell for cell, of_cell in differences.items() if of_cell}


def _sample(count: int, length: int, seed: int) -> list[tuple[str, tuple[str, ...]]]:
    """Return random cells, the same ones each time."""
    chosen = random.Random(seed)
    return [(chosen.choice([*KINDS]), tuple(chosen.choices([*VERBS], k=length))) for _ in range(count)]


@pytest.mark.parametrize(
    ("length", "count", "is_imported"),
    [
        (2, 40, True),
        (3, 20, True),
        (2, 8, False),
        pytest.param(3, 150, True, marks=pytest.mark.ends),
        pytest.param(2, 60, False, marks=pytest.mark.ends),
    ],
)
@pytest.mark.sampled(1)
def test_some_patches_of_one_target(length: int, count: int, is_imported: bool, values: Any) -> None:
    """Compare random pairs and triples."""
    assert _wrong(_sample(count, length, seed=length), values, is_imported) == {}


@pytest.mark.parametrize("is_imported", [True, False])
def test_pairs_that_were_planned_otherwise(is_imported: bool, values: Any) -> None:
    """Parts of a class that no session patches, a name that is there no more, and an edit beside a patch in place."""
    cells = [
        ("class", ("edit", "edit the slot")),
        ("function", ("add if absent", "remove")),
        ("function", ("wrap everywhere", "edit the slot")),
        ("function", ("rule", "add a number")),
    ]
    assert _wrong(cells, values, is_imported) == {}


@pytest.mark.ends
@pytest.mark.parametrize("first", [name for name in VERBS if "derive" not in name])
@pytest.mark.parametrize("kind", KINDS)
def test_each_pair(kind: str, first: str, values: Any) -> None:
    """Compare all ordered pairs of verbs; a factory is run by a child process, and the samples above have factories."""
    assert _wrong([(kind, (first, second)) for second in VERBS if "derive" not in second], values) == {}


@pytest.mark.parametrize(
    "pair", [("wrap", "remove"), ("wrap", "number"), ("more", "wrap, z"), ("wrap, z", "more"), ("number", "wrap")]
)
@pytest.mark.parametrize("optional", [(), (0,), (1,), (0, 1)])
def test_optional_patches(pair: tuple[str, str], optional: tuple[int, ...], values: Any) -> None:
    """An optional patch that the session skips is skipped in the plan, and the other patches stay."""
    patches = [
        _patch(name, "function", values, **({"required": False} if place in optional else {}))
        for place, name in enumerate(pair)
    ]
    assert _differences(patches, is_imported=True) == []


@pytest.mark.parametrize(
    "facts",
    [
        ({}, {}),
        ({"before": "two"}, {}),
        ({}, {"before": "one"}),
        ({"after": "two"}, {}),
        ({"before": "two"}, {"before": "one"}),
    ],
)
@pytest.mark.parametrize("kind", ["function", "method", "entry"])
def test_two_plugins(kind: str, facts: tuple[dict[str, str], dict[str, str]], values: Any) -> None:
    """Patches of two plugins, with a declared place or without: refused, skipped and ordered alike."""
    names = [name for name in VERBS if name not in IN_A_CHILD]
    wrong = {}
    for pair in random.Random(3).sample([*itertools.product(names, repeat=2)], 40):
        requests = [
            Requested(_patch(name, kind, values, **of_plugin), plugin, f"{plugin} 1.0")
            for name, plugin, of_plugin in zip(pair, ("one", "two"), facts, strict=True)
        ]
        importlib.import_module("many_vendor")
        items = [(str(request.plugin), [request]) for request in requests]
        rows, order = _planned(plan_of(items, {}, None, LookOptions(imports=False), looks_here=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HookpatchWarning)
            ran, ran_in_order = _ran(requests)
        del sys.modules["many_vendor"]
        if problems := _unlike((rows, order), (ran, ran_in_order)):
            wrong[pair] = problems
    assert wrong == {}


@pytest.mark.parametrize("policy", ["error", "skip", "warn"])
def test_a_lock_file(policy: Any, values: Any, folder: Path, write_module: Callable[[str, str], Path]) -> None:
    """A changed target refuses or skips a patch, and the other patches are looked at without the patch."""
    entries, _ = lockable([Requested(_patch("wrap", "function", values))])
    path = str(folder / "hookpatch.lock")
    write_lock(Lock((), {}, entries, path))
    del sys.modules["many_vendor"]
    write_module("many_vendor", VENDOR.replace("def f(x, y=0)", "def f(x, y=1)"))
    for pair in itertools.product(["wrap", "number", "more", "inject z", "remove"], repeat=2):
        importlib.import_module("many_vendor")
        patches = [_patch(name, "function", values) for name in pair]
        rows, order = _planned(hookpatch.plan(*patches, lock=path, on_drift=policy))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HookpatchWarning)
            assert (pair, rows, order) == (pair, *_ran([*map(Requested, patches)], load_drift((path, policy))))
        del sys.modules["many_vendor"]


def test_patches_of_an_open_session(values: Any) -> None:
    """A patch inside an open session lies over its value, in the plan, too."""
    importlib.import_module("many_vendor")
    with hookpatch.active(hookpatch.replace("many_vendor:f", 5), children="local"):
        wrap = _patch("wrap", "function", values)
        (target,) = hookpatch.plan(wrap)
        assert [(patch.finding, patch.reason) for patch in target.patches] == [
            ("unfit", "many_vendor:f holds an int, which cannot be called; take hookpatch.replace or hookpatch.derive")
        ]
        with pytest.raises(hookpatch.errors.TargetRefused, match="holds an int, which cannot be called"):
            hookpatch.active(wrap).open()


OWNERS: Final = """
import enum
def f(x, y=0): return x
class Sealed:
    def __init__(self): object.__setattr__(self, "f", f)
    def __setattr__(self, name, value): raise RuntimeError("sealed")
class Slotted:
    __slots__ = ("a",)
class Colour(enum.Enum): RED = 1
class Base:
    def m(self, x=1): return x
class Sub(Base): pass
sealed, slotted, pair = Sealed(), Slotted(), (1, 2)
"""


def test_owners_and_heirs(values: Any, write_module: Callable[[str, str], Path]) -> None:
    """The owner's code refuses a value, a subclass inherits what another patch puts; and check has a row for each."""
    write_module("many_vendor", OWNERS)
    selections = [
        [hookpatch.wrap("many_vendor:sealed.f", values.loud)],
        [hookpatch.replace("many_vendor:slotted.b", 1, add=True)],
        [hookpatch.replace("many_vendor:Colour.RED", 2)],
        [hookpatch.replace("many_vendor:f.__name__", 2)],
        [hookpatch.replace("many_vendor:pair[0]", 2)],
        [hookpatch.remove("many_vendor:Base.m"), hookpatch.wrap("many_vendor:Sub.m", values.loud)],
        [hookpatch.replace("many_vendor:Base.m", 5), hookpatch.wrap("many_vendor:Sub.m", values.loud)],
    ]
    for patches in selections:
        assert (patches, _differences(patches, is_imported=True)) == (patches, [])
        checked = check(map(Requested, patches))
        assert (patches, checked[-1].severity) == (patches, 2)
        sys.modules.pop("many_vendor", None)
