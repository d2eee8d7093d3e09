"""``replace("m:f", source="n:g")``: the value is taken from another address at the moment of the patch."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from snapshot import Snapshot

import hookpatch
from hookpatch.errors import ApplyError, PatchError, PatchFailedWarning, SignatureError

VENDOR: Final = """
def f(x): return ["own", x]
def callers(): return f(1)
class C:
    eps = 1
    def run(self, x): return ["own", type(self).__name__, x]
c = C()
table = {"a": 1}
"""
SOURCE: Final = """
def g(x): return ["source", x]
def run(self, x): return ["source", type(self).__name__, x]
class Inner:
    value = 5
mapping = {"k": 6}
"""
CELLS: Final[dict[str, tuple[str, str, Any]]] = {
    "f": ("g", "f(1)", ["source", 1]),
    "other": ("g", "other(1)", ["source", 1]),
    "C.run": ("run", "C().run(2)", ["source", "C", 2]),
    "C().run": ("run", "c.run(2)", ["source", "C", 2]),
    "C().eps": ("Inner.value", "c.eps", 5),
    "c.eps": ("Inner.value", "c.eps", 5),
    "table['a']": ("mapping['k']", "table['a']", 6),
    "table['b']": ("Inner.value", "table['b']", 5),
}


@pytest.fixture
def names(write_module: Callable[[str, str], Path]) -> None:
    """The module to patch and the module of the values, not imported."""
    write_module("sourced_vendor", VENDOR)
    write_module("sourced_values", SOURCE)


def _declared(address: str, source: str, **options: Any) -> hookpatch.Patch:
    is_new = address in ("other", "table['b']")
    return hookpatch.replace(f"sourced_vendor:{address}", source=f"sourced_values:{source}", add=is_new, **options)


@pytest.mark.parametrize(
    "there", ["both", "neither", *(pytest.param(there, marks=pytest.mark.ends) for there in ("target", "source"))]
)
@pytest.mark.parametrize("address", CELLS)
def test_the_value_of_another_address(address: str, there: str, names: None) -> None:
    """Each kind of slot, whichever module is there before: the value of the source inside, the original after."""
    source, probe, expected = CELLS[address]
    if there in ("both", "source"):
        importlib.import_module("sourced_values")
    if there in ("both", "target"):
        importlib.import_module("sourced_vendor")
    with hookpatch.active(_declared(address, source), children="local") as session:
        vendor: Any = importlib.import_module("sourced_vendor")
        snapshot = Snapshot(vendor)
        assert eval(probe, vars(vendor)) == expected
        ((row),) = session.report()
        assert (row.state, row.target, row.warnings) == ("applied", f"sourced_vendor:{address}", ())
    if there in ("both", "target"):
        importlib.reload(vendor)
    assert repr(vendor.f(1)) == "['own', 1]"
    assert not hasattr(vendor, "other")
    assert vendor.table == {"a": 1}
    assert (vendor.c.eps, vendor.c.run(2)) == (1, ["own", "C", 2])
    assert snapshot is not None


@pytest.mark.parametrize("address", CELLS)
def test_each_object_is_back(address: str, names: None) -> None:
    """The originals are the same objects again, in the same order; the second block does the same."""
    source, probe, expected = CELLS[address]
    vendor = importlib.import_module("sourced_vendor")
    snapshot, patch = Snapshot(vendor), _declared(address, source)
    for _ in range(3):
        with hookpatch.active(patch, children="local"):
            assert eval(probe, vars(vendor)) == expected
        assert snapshot.changed() == []


@pytest.mark.parametrize("is_there", [True, False])
def test_the_plan_is_the_report(is_there: bool, names: None) -> None:
    """The source is read in the child process: the plan imports nothing here, and says what the block says."""
    if is_there:
        importlib.import_module("sourced_vendor")
    for source, finding, reason in (
        ("g", "fits", None),
        (
            "gg",
            "unfit",
            "the source sourced_values:gg leads nowhere: sourced_values has no attribute 'gg'; did you mean 'g'?",
        ),
        ("Inner.value", "fits", None),
    ):
        sys.modules.pop("sourced_values", None)
        ((planned,),) = [target.patches for target in hookpatch.plan(_declared("f", source))]
        assert (planned.finding, planned.reason) == (finding, reason)
        assert "sourced_values" not in sys.modules
    importlib.import_module("sourced_vendor")
    with pytest.raises(ApplyError) as caught:
        hookpatch.active(_declared("f", "gg")).open()
    assert caught.value.problem.startswith("the source sourced_values:gg leads nowhere")


def test_a_source_that_cannot_be_imported(names: None) -> None:
    """At entering an error names the source; at a later import a warning does, and an optional patch is skipped."""
    patch = hookpatch.replace("sourced_vendor:f", source="sourced_none:g")
    problem = "the source sourced_none:g cannot be imported: No module named 'sourced_none'"
    with hookpatch.active(patch, children="local") as session:
        with pytest.warns(PatchFailedWarning, match=problem):
            vendor = importlib.import_module("sourced_vendor")
        assert (vendor.f(1), session.report().patches[0].state) == (["own", 1], "failed")
    with pytest.raises(ApplyError, match=problem):
        hookpatch.active(patch).open()
    optional = hookpatch.replace("sourced_vendor:f", source="sourced_none:g", required=False)
    with hookpatch.active(optional, children="local") as session:
        assert (session.report().patches[0].state, session.report().patches[0].reason) == (
            "skipped",
            f"{problem} (target sourced_vendor:f of a patch given to active())",
        )


def test_the_value_has_to_fit(names: None) -> None:
    """The signature of the found function is checked like that of a given function."""
    importlib.import_module("sourced_vendor")
    with pytest.raises(SignatureError, match="what replace puts at sourced_vendor:f takes"):
        hookpatch.active(_declared("f", "run")).open()


def test_a_module_that_is_executed_anew(names: None) -> None:
    """After a reload the value is in its place again: the value of the moment at which the patch was applied."""
    vendor, values = importlib.import_module("sourced_vendor"), importlib.import_module("sourced_values")
    with hookpatch.active(_declared("f", "g"), children="local") as session:
        values.g = lambda x: ["newer", x]
        importlib.reload(vendor)
        assert vendor.f(1) == ["source", 1]
        assert {row.state for row in session.report()} == {"applied"}
    assert vendor.f(1) == ["own", 1]


def test_an_alias_in_the_same_module(names: None) -> None:
    """A name of a module becomes another name of it; a patch of the first name is not copied."""
    vendor = importlib.import_module("sourced_vendor")
    original, snapshot = vendor.f, Snapshot(vendor)
    wrapper = hookpatch.wrap("sourced_vendor:f", lambda wrapped, instance, args, kwargs: "wrapped")
    alias = hookpatch.replace("sourced_vendor:other", source="sourced_vendor:f", add=True)
    with hookpatch.active(wrapper, alias, children="local"):
        assert vendor.other is original
        assert vendor.f(1) == "wrapped"
    assert snapshot.changed() == []


def test_a_source_that_imports_the_package_of_the_target(write_module: Callable[[str, str], Path]) -> None:
    """The source waits for the end of the package's import, instead of a half import."""
    write_module("sourced_pack.__init__", "from sourced_pack import inner\ndone = True\n")
    write_module("sourced_pack.inner", "def name(): return 'inner'\n")
    write_module("sourced_npu", "import sourced_pack\nassert sourced_pack.done\ndef name(): return 'npu'\n")
    with hookpatch.active(hookpatch.replace("sourced_pack.inner:name", source="sourced_npu:name")) as session:
        pack: Any = importlib.import_module("sourced_pack")
        assert pack.inner.name() == "npu"
        assert [row.state for row in session.report()] == ["applied"]
    assert pack.inner.name() == "inner"


def test_names_in_braces_take_their_own_names(make_module: Callable[[str, str], Any]) -> None:
    """``*`` of the source is each name from the braces; a new name is added with add=True."""
    module = make_module("sourced_many", "class Meta:\n    def a(self): return 'a'\n    def b(self): return 'b'\n")
    make_module("sourced_more", "def a(self): return 'A'\ndef b(self): return 'B'\ndef c(self): return 'C'\n")
    with hookpatch.active(hookpatch.replace("sourced_many:Meta.{a,b,c}", source="sourced_more:*", add=True)) as session:
        assert (module.Meta().a(), module.Meta().b(), module.Meta().c()) == ("A", "B", "C")
        assert len(session.report().patches) == 3
    assert (module.Meta().a(), hasattr(module.Meta, "c")) == ("a", False)


@pytest.mark.parametrize("ends_first", [0, 1])
def test_blocks_overlap(ends_first: int, names: None) -> None:
    """A value of a source and a wrapper overlap, and end in any order."""
    vendor = importlib.import_module("sourced_vendor")
    snapshot = Snapshot(vendor)
    wrapper = hookpatch.wrap("sourced_vendor:f", lambda wrapped, instance, args, kwargs: ["over", wrapped(*args)])
    sessions = [hookpatch.active(patch, children="local").open() for patch in (_declared("f", "g"), wrapper)]
    assert vendor.f(1) == ["over", ["source", 1]]
    sessions.pop(ends_first).close()
    assert vendor.f(1) == (["source", 1] if ends_first else ["over", ["own", 1]])
    sessions.pop().close()
    assert snapshot.changed() == []


def test_calls_of_some_callers(names: None) -> None:
    """With callers= the value of the source is called for these callers alone, also in a task."""
    vendor = importlib.import_module("sourced_vendor")
    for scope in ("process", "task"):
        with hookpatch.active(_declared("f", "g", callers="sourced_vendor"), scope=scope, children="local"):
            assert (vendor.callers(), vendor.f(1)) == (["source", 1], ["own", 1])


def test_everywhere(names: None, make_module: Callable[[str, str], Any]) -> None:
    """With reach="everywhere" each holder gets the value of the source."""
    importlib.import_module("sourced_vendor")
    early = make_module("sourced_early", "from sourced_vendor import f\n")
    with hookpatch.active(_declared("f", "g", reach="everywhere"), children="local") as session:
        assert early.f(1) == ["source", 1]
        assert [row.stale for row in session.report()] == [()]
    assert early.f(1) == ["own", 1]


def test_a_child_process_finds_the_value_itself(names: None, folder: Path) -> None:
    """The address is handed on, not the value."""
    patch = _declared("f", "g")
    assert pickle.loads(pickle.dumps(patch)) == patch
    with hookpatch.active(patch, children="require"):
        code = "import sourced_vendor as v; print(v.f(1))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    assert (done.stdout.strip(), done.stderr) == ("['source', 1]", "")


@pytest.mark.parametrize(
    ("target", "source", "problem"),
    [
        ("m:f", "n:*", "source='n:*' has more '*' than m:f"),
        ("m:f", "n:C+.g", "source='n:C+.g' has a sign that stands for no name: write names and '*'"),
        ("m:f", "n:C().g", "source='n:C().g' has a sign that stands for no name: write names and '*'"),
    ],
)
def test_a_mistake_is_told_where_it_is_declared(target: str, source: str, problem: str) -> None:
    """Each mistake has its own message."""
    with pytest.raises(PatchError) as caught:
        hookpatch.replace(target, source=source)
    assert caught.value.problem == problem
