"""``add="absent"`` adds an absent name or key, and leaves an existing value alone: the report says so."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from snapshot import Snapshot

import hookpatch
from hookpatch._inspect.rehearsal import rehearse
from hookpatch._session.ledger import Requested
from hookpatch.errors import ApplyError, ConflictError, PatchError

VENDOR: Final = """
def given(x): return "given"
class Base:
    eps = 1
    def run(self): return "run"
    @property
    def size(self): return 1 / 0
class Norm(Base):
    own = 2
class Slotted:
    __slots__ = ("a", "b")
norm, slotted = Norm(), Slotted()
norm.mine = slotted.a = 3
table = {"there": 1}
def __getattr__(name):
    if name == "fetched": return "fetched"
    raise AttributeError(name)
"""
THERE: Final = {
    "given": "given(1)",
    "fetched": "fetched",
    "Norm.own": "Norm.own",
    "Norm.eps": "Norm.eps",
    "Norm.run": "norm.run()",
    "norm.mine": "norm.mine",
    "norm.eps": "norm.eps",
    "norm.size": "type(norm).size",
    "slotted.a": "slotted.a",
    "table['there']": "table['there']",
    "Norm().mine": "norm.mine",
    "Norm().run": "norm.run()",
    "Base+.run": "norm.run()",
}
ABSENT: Final = {
    "other": "other",
    "Norm.new": "norm.new",
    "norm.new": "norm.new",
    "slotted.b": "slotted.b",
    "table['new']": "table['new']",
    "Norm().new": "norm.new",
    "Base+().new": "norm.new",
}


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType], write_module: Callable[[str, str], Path]) -> Any:
    """The module to patch, beside a module with other values."""
    write_module("absent_source", "def function(x): return 'from source'\nVALUE = 7\nother = 8")
    return make_module("absent_vendor", VENDOR)


def _absent(address: str, value: object = 5, **options: Any) -> hookpatch.Patch:
    return hookpatch.replace(f"absent_vendor:{address}", value, add="absent", **options)


def _sourced(address: str, source: str = "VALUE") -> hookpatch.Patch:
    return hookpatch.replace(f"absent_vendor:{address}", source=f"absent_source:{source}", add="absent")


def _value(vendor: ModuleType, probe: str) -> Any:
    try:
        return eval(probe, vars(importlib.import_module("absent_vendor")) if vendor is None else vars(vendor))
    except (NameError, AttributeError, KeyError):
        return "absent"


def _probed(vendor: ModuleType, probe: str) -> Any:
    return vendor.__getattr__(probe) if probe == "fetched" else _value(vendor, probe)


@pytest.mark.parametrize("declare", [_absent, _sourced])
@pytest.mark.parametrize("address", THERE)
@pytest.mark.sampled(8)
def test_a_name_that_is_there_is_left_alone(address: str, declare: Any, vendor: Any) -> None:
    """No object changes, inside and after; plan and report say that the patch is not needed; nothing is a warning."""
    before, snapshot = _probed(vendor, THERE[address]), Snapshot(vendor)
    patch = declare(address)
    outcome = hookpatch.plan(patch)
    with hookpatch.active(patch, children="local") as session:
        assert _probed(vendor, THERE[address]) == before
        rows = [row for row in session.report() if row.rule is not None or not patch.is_rule]
        assert [*snapshot.changed()] == [] or "()" in address or address == "norm.size"
    assert {row.state for row in rows} == {"applied"}
    if "+" not in address and "()" not in address:  # a rule matches existing names, and owners without the name
        assert [(row.reason, row.warnings, row.stale) for row in rows] == [("not needed: already there", (), ())]
        ((planned,),) = [target.patches for target in outcome]
        assert (planned.finding, planned.reason) == ("fits", "not needed: already there")
    assert snapshot.changed() == []
    assert {row.state for row in session.report()} == {"restored"}


@pytest.mark.parametrize("declare", [_absent, _sourced])
@pytest.mark.parametrize("address", ABSENT)
def test_an_absent_name_is_added_and_removed(address: str, declare: Any, vendor: Any) -> None:
    """The slot holds the value inside the block, and nothing after; plan and report have no reason."""
    snapshot = Snapshot(vendor)
    patch = declare(address)
    ((planned,),) = [target.patches for target in hookpatch.plan(patch)]
    assert (planned.finding, planned.reason) == ("fits", None)
    with hookpatch.active(patch, children="local") as session:
        assert _value(vendor, ABSENT[address]) == (5 if declare is _absent else 7)
        assert [(row.state, row.reason) for row in session.report()] == [("applied", None)]
    assert _value(vendor, ABSENT[address]) == "absent"
    assert snapshot.changed() == []


@pytest.mark.parametrize("declare", [hookpatch.replace, hookpatch.wrap])
def test_a_name_that_comes_inside(declare: Any, make_module: Callable[[str, str], ModuleType]) -> None:
    """A name fetched by ``__getattr__``, which then stores the value: no warning, and the value stays."""
    text = "def __getattr__(name):\n    if name != 'late': raise AttributeError(name)\n"
    text += "    globals()[name] = len\n    return len"
    module: Any = make_module("absent_lazy", text)
    patch = declare("absent_lazy:late", lambda *call: "ours", add="absent")
    for come in (lambda: None, lambda: module.late):
        with hookpatch.active(patch, children="local") as session:
            come()
            assert [(row.state, row.reason) for row in session.report()] == [("applied", "not needed: already there")]
        assert [row.state for row in session.report()] == ["restored"]
    assert vars(module)["late"] is len


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that the user has set stays; another is set, also for programs started inside."""
    monkeypatch.setenv("ABSENT_GIVEN", "mine")
    monkeypatch.delenv("ABSENT_OTHER", raising=False)
    names = "os:environ['ABSENT_GIVEN']", "os:environ['ABSENT_OTHER']"
    code = "import os; print(os.environ['ABSENT_GIVEN'], os.environ['ABSENT_OTHER'])"
    with hookpatch.active(*(hookpatch.replace(name, "ours", add="absent") for name in names)):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("mine ours\n", "")
    assert hookpatch.why(names[0]).layers[0].by == "module"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_module_that_comes_and_is_executed_anew(is_there: bool, write_module: Callable[[str, str], Path]) -> None:
    """The name is looked for when the module has run, and again after a reload."""
    text = "name = 'own'" if is_there else ""
    path = write_module("absent_later", text)
    with hookpatch.active(hookpatch.replace("absent_later:name", "added", add="absent")) as session:
        module: Any = importlib.import_module("absent_later")
        assert module.name == ("own" if is_there else "added")
        path.write_text("" if is_there else "name = 'own now'")
        importlib.invalidate_caches()
        del module.name
        importlib.reload(module)
        assert module.name == ("added" if is_there else "own now")
        assert {row.state for row in session.report()} == {"applied"}
    assert getattr(module, "name", "absent") == ("absent" if is_there else "own now")


OTHERS: Final[dict[str, tuple[Callable[[], hookpatch.Patch], str]]] = {
    "add": (lambda: hookpatch.replace("absent_vendor:other", "theirs", add=True), "theirs"),
    "absent": (lambda: _absent("other", "theirs"), "either"),
    "source": (lambda: _sourced("other", "other"), "either"),
}


@pytest.mark.parametrize("ends_first", [0, 1])
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("other", OTHERS)
def test_additions_overlap(other: str, order: int, ends_first: int, vendor: Any) -> None:
    """Of two additions one is in the slot; when either ends, the other is; after both the slot is empty."""
    snapshot = Snapshot(vendor)
    declare, wins = OTHERS[other]
    patches = [_absent("other", "ours"), declare()]
    alone = ["ours", 8 if other == "source" else "theirs"]
    opened = [hookpatch.active(patches[i], children="local").open() for i in (order, 1 - order)]
    assert vendor.other == (wins if wins == "theirs" else alone[order])
    reasons = [row.reason for session in opened for row in session.report()]
    assert sorted(map(str, reasons)) == ["None", "not needed: already there"] or (other, order) == ("add", 0)
    remaining = alone[(order, 1 - order)[1 - ends_first]]
    opened.pop(ends_first).close()
    assert vendor.other == remaining
    opened.pop().close()
    assert snapshot.changed() == []


def test_a_name_that_another_patch_removes(vendor: Any) -> None:
    """Over a ``remove`` the name is absent, and is added."""
    with hookpatch.active(hookpatch.remove("absent_vendor:table['there']"), children="local"):
        with hookpatch.active(_absent("table['there']"), children="local"):
            assert vendor.table == {"there": 5}
        assert vendor.table == {}
    assert vendor.table == {"there": 1}


def test_a_wrapper_around_an_existing_function_stays(vendor: Any) -> None:
    """A needless addition hides no wrapper, whichever comes first."""
    louder = hookpatch.wrap("absent_vendor:given", lambda wrapped, instance, args, kwargs: f"<{wrapped(*args)}>")
    for patches in ([louder, _absent("given", len)], [_absent("given", len), louder]):
        with hookpatch.active(*patches, children="local") as session:
            assert vendor.given(1) == "<given>"
            assert {row.reason for row in session.report()} == {None, "not needed: already there"}


@pytest.fixture
def plugins(make_distribution: Callable[..., Path]) -> list[str]:
    """Two plugins that add the same name."""
    for name in ("one", "two"):
        text = "import hookpatch\n@hookpatch.hookimpl\ndef hookpatch_patches():\n"
        text += f"    yield hookpatch.replace('absent_vendor:other', {name!r}, add='absent')\n"
        make_distribution(
            f"absent-{name}", "1.0", {f"absent_{name}": f"absent_plugin_{name}"}, {f"absent_plugin_{name}": text}
        )
    return ["absent_one", "absent_two"]


def test_two_plugins_add_one_name(plugins: list[str], vendor: Any) -> None:
    """Two ``add="absent"`` are in no conflict: the inner patch adds the name. Two plain additions are in conflict."""
    with hookpatch.active(*plugins) as session:
        assert vendor.other == "two"
        assert [row.reason for row in session.report()] == ["not needed: already there", None]
    both = [hookpatch.replace("absent_vendor:other", value, add=True) for value in (1, 2)]
    with pytest.raises(ConflictError):
        hookpatch.active(*both).open()


def test_plan_and_child_have_it(vendor: Any) -> None:
    """A rehearsal has the reason of the report, and a program started inside decides for itself."""
    patch = _absent("given")
    assert pickle.loads(pickle.dumps(patch)) == patch
    assert [outcome.reason for outcome in rehearse([Requested(patch)])] == ["not needed: already there"]
    code = "import absent_vendor as v; print(v.given(1), v.other)"
    folder = Path(str(vendor.__file__)).parent
    with hookpatch.active(patch, _absent("other"), children="require"):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    assert (done.stdout, done.stderr) == ("given 5\n", "")


def test_why_says_that_it_is_not_needed(vendor: Any) -> None:
    """``why`` lists the module's value as reached, and the patch beside the value; no foreign layer."""
    for address in ("given", "table['there']", "Norm.own"):
        with hookpatch.active(_absent(address, 5), children="local"):
            layers = hookpatch.why(f"absent_vendor:{address}").layers
            assert sorted((layer.by, layer.reached) for layer in layers)[-1] == ("module", True)
            assert [layer.note for layer in layers if layer.by == "hookpatch"] == ["not needed: already there"]
            assert len(layers) == 2


def test_a_missing_source_counts_where_it_is_needed(vendor: Any) -> None:
    """The source is read for an absent name alone."""
    with hookpatch.active(_sourced("given", "nothing"), children="local"):
        assert vendor.given(1) == "given"
    with pytest.raises(ApplyError, match="the source absent_source:nothing leads nowhere"):
        hookpatch.active(_sourced("other", "nothing")).open()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"add": "missing"}, "add= is 'missing', and none of True, False and 'absent'"),
        ({"add": 1}, "add= is an int, and none of True, False and 'absent'"),
        (
            {"add": "absent", "reach": "everywhere"},
            "takes add='absent' for one slot: no other place holds an absent name",
        ),
        ({"add": "absent", "callers": "x"}, "takes add= or callers=, not both: a new name has no callers yet"),
    ],
)
def test_a_mistake_is_told_where_it_is_declared(options: dict[str, Any], problem: str) -> None:
    """Each mistake has its own message."""
    with pytest.raises(PatchError) as caught:
        hookpatch.replace("m:f", 1, **options)
    assert caught.value.problem == problem
