"""An address with braces, ``m:{a,b}``, is a patch of ``m:a`` and a patch of ``m:b``, and nothing else."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from snapshot import Snapshot

import hookpatch
from hookpatch._inspect.check import lockable
from hookpatch._session.load import load, selection_for
from hookpatch.errors import ConflictError, PatchError, TargetNotFound, TargetSyntaxError

VENDOR: Final = """
def get_a(x=0): return ("a", x)
def get_b(x=0): return ("b", x)
def get_c(x=0): return ("c", x)
class One:
    def run(self, x=0): return ("one", x)
    def stop(self, x=0): return ("stop", x)
class Two(One):
    pass
one = One()
TABLE = {"a": get_a}
"""
ADDRESSES: Final = {
    "braced.first:{get_a,get_b}": ["braced.first:get_a", "braced.first:get_b"],
    "braced.first:get_{b, a}": ["braced.first:get_b", "braced.first:get_a"],
    "braced.{first,second}:get_a": ["braced.first:get_a", "braced.second:get_a"],
    "{braced.first,braced.second}:get_{a,c}": [
        *("braced.first:get_a", "braced.first:get_c", "braced.second:get_a", "braced.second:get_c")
    ],
    "braced.first:One.{run,stop}": ["braced.first:One.run", "braced.first:One.stop"],
    "braced.first:{One,Two}.run": ["braced.first:One.run", "braced.first:Two.run"],
    "braced.first:{One.run,get_c}": ["braced.first:One.run", "braced.first:get_c"],
    "braced.first:One().{run,stop}": ["braced.first:One().run", "braced.first:One().stop"],
    "braced.first:One+.{run,stop}": ["braced.first:One+.run", "braced.first:One+.stop"],
    "braced.*:get_{a,c}": ["braced.*:get_a", "braced.*:get_c"],
    "braced.first:{get_a}": ["braced.first:get_a"],
}
PROBES: Final = (
    "get_a()",
    "get_a(x=4)",
    "get_b(1)",
    "get_c()",
    "One().run()",
    "Two().run(2)",
    "one.stop()",
    "TABLE['a']()",
)


def louder(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Mark the result of a call."""
    return "louder", wrapped(*args, **kwargs)


def new(*args: Any, x: int = 7) -> Any:
    """Stand for any function or method."""
    return "new", x


def with_mark(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function around another."""
    return lambda *args, **kwargs: ("made", original(*args, **kwargs))


VERBS: Final[dict[str, Callable[[str], hookpatch.Patch]]] = {
    "wrap": lambda to: hookpatch.wrap(to, louder),
    "wrap everywhere": lambda to: hookpatch.wrap(to, louder, reach="slot" if "()" in to else "everywhere"),
    "wrap for callers": lambda to: hookpatch.wrap(to, louder, callers="test_*"),
    "inject": lambda to: hookpatch.inject(to, x=3),
    "default": lambda to: hookpatch.default(to, x=3),
    "replace": lambda to: hookpatch.replace(to, new),
    "derive": lambda to: hookpatch.derive(to, with_mark),
    "remove": lambda to: hookpatch.remove(to, required=False),
    "edit": lambda to: hookpatch.edit(to.replace("()", ""), "return", "return 'edited',"),
}


@pytest.fixture
def names(write_module: Callable[[str, str], Path]) -> list[str]:
    """The names of two modules alike, not imported."""
    for name in ("first", "second"):
        write_module(f"braced.{name}", VENDOR)
    return ["braced.first", "braced.second"]


def _loaded(names: list[str]) -> list[ModuleType]:
    return [importlib.import_module(name) for name in names]


def _answer(module: ModuleType, probe: str) -> Any:
    try:
        return eval(probe, vars(module))
    except (NameError, AttributeError) as error:
        return type(error).__name__


def _answers(names: list[str]) -> list[Any]:
    return [_answer(module, probe) for module in _loaded(names) for probe in PROBES]


def _rows(report: hookpatch.Report) -> list[Any]:
    """Return the rows of a report without the times."""
    return [replace(row, applied_at=None, ended_at=None) for row in report]


def _outcome_of_block(patches: list[hookpatch.Patch], names: list[str], is_there: bool, scope: Any) -> Any:
    """Return what a block of patches does, and what becomes of the patches; the modules are as before."""
    for name in names:
        sys.modules.pop(name, None)
    snapshots = [Snapshot(module) for module in _loaded(names)] if is_there else []
    before = _answers(names) if is_there else []
    heard: list[Any] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            with hookpatch.active(*patches, scope=scope, children="local") as session:
                inside = _answers(names)
                thread = threading.Thread(target=lambda: heard.extend(_answers(names)))
                thread.start()
                thread.join()
                during = _rows(session.report())
        except hookpatch.errors.HookpatchError as error:
            return type(error).__name__, str(error)
    if is_there:
        assert _answers(names) == before
        moved = "order of " if patches[0].verb == "remove" else "-"  # an attribute comes back as the last
        places = [place for snapshot in snapshots for place in snapshot.changed()]
        assert [place for place in places if not place.startswith(moved)] == []
    return inside, heard, during, _rows(session.report()), [*map(str, (warning.message for warning in warned))]


CELLS: Final = [(verb, *how) for verb in VERBS for how in ((True, "process"), (False, "process"), (True, "task"))]
AT_ONCE: Final = [("wrap", True, "task"), ("inject", True, "process"), ("replace", False, "process")]


@pytest.mark.parametrize(
    ("verb", "is_there", "scope"),
    [pytest.param(*cell, marks=[] if cell in AT_ONCE else [pytest.mark.ends, pytest.mark.once]) for cell in CELLS],
)
@pytest.mark.sampled(1)
def test_braces_are_the_patches_of_the_names(verb: str, is_there: bool, scope: str, names: list[str]) -> None:
    """Effect, threads, report and end, or the refusal, are those of one patch for each name."""
    worked = 0
    for address, named in ADDRESSES.items():
        expected = _outcome_of_block([VERBS[verb](name) for name in named], names, is_there, scope)
        assert _outcome_of_block([VERBS[verb](address)], names, is_there, scope) == expected, address
        worked += len(expected) == 5
    is_of_calls = verb in ("wrap", "wrap everywhere", "wrap for callers", "inject", "default")
    assert worked >= 7 or not (scope == "process" or is_of_calls)


@pytest.mark.parametrize(
    "address", [*[*ADDRESSES][:4], *(pytest.param(address, marks=pytest.mark.ends) for address in [*ADDRESSES][4:])]
)
def test_a_plugin_with_braces(address: str, names: list[str], make_distribution: Callable[..., Path]) -> None:
    """Plan, lock file and report of a plugin with braces are those of a plugin with the names."""
    text = (
        "import hookpatch\ndef louder(wrapped, *call): return 'louder'\n@hookpatch.hookimpl\ndef hookpatch_patches():\n"
    )
    pages = []
    for which, addresses in (("braces", [address]), ("apart", ADDRESSES[address])):
        yields = "".join(f"    yield hookpatch.wrap({each!r}, louder)\n" for each in addresses)
        make_distribution(f"kit-{which}", "1.0", {which: f"kit_{which}"}, {f"kit_{which}": f"{text}{yields}"})
        for name in names:
            sys.modules.pop(name, None)
        plan = hookpatch.plan(which)
        locked, problems = lockable(
            request for of in load(selection_for([which], None, "a test"))[1].values() for request in of
        )
        assert problems == []
        with hookpatch.active(which) as session:
            _loaded(names)
            rows = session.report()
        assert [row.target for row in rows if row.rule is None] == ADDRESSES[address]
        pages.append([str(each).replace(which, "kit") for each in (plan, locked, rows)])
    assert pages[0] == pages[1]


def test_a_misspelt_name_is_an_error(names: list[str]) -> None:
    """Each name is asked for by name: the error has the near name, and no other name is patched."""
    first, _ = _loaded(names)
    with pytest.raises(TargetNotFound, match=r"braced\.first has no attribute 'get_bb'; did you mean 'get_b'\?"):
        hookpatch.active(hookpatch.wrap("braced.first:{get_a,get_bb}", louder)).open()
    assert _answer(first, "get_a()") == ("a", 0)
    outcomes = [
        target.patches[0].finding for target in hookpatch.plan(hookpatch.wrap("braced.first:{get_a,get_bb}", louder))
    ]
    assert outcomes == ["fits", "unfit"]


def test_names_that_may_be_missing(names: list[str]) -> None:
    """With required=False a missing name is skipped by itself, and with add=True it is added."""
    first, _ = _loaded(names)
    with hookpatch.active(hookpatch.wrap("braced.first:{get_a,get_bb}", louder, required=False)) as session:
        assert _answer(first, "get_a()") == ("louder", ("a", 0))
        assert [row.state for row in session.report()] == ["applied", "skipped"]
    with hookpatch.active(hookpatch.replace("braced.first:{get_a,get_bb}", new, add=True)):
        assert _answer(first, "get_bb()") == ("new", 7)
    assert _answer(first, "get_bb()") == "NameError"


def test_names_of_several_modules_come_one_by_one(names: list[str]) -> None:
    """A name waits for its own module, and a reload of the module has the patch again."""
    with hookpatch.active(hookpatch.wrap("braced.{first,second}:get_a", louder)) as session:
        first = importlib.import_module("braced.first")
        assert [row.state for row in session.report()] == ["applied", "waiting"]
        importlib.reload(first)
        assert _answer(first, "get_a()") == ("louder", ("a", 0))
        second = importlib.import_module("braced.second")
        assert _answer(second, "get_a()") == ("louder", ("a", 0))
    assert [_answer(module, "get_a()") for module in (first, second)] == [("a", 0)] * 2


@pytest.mark.parametrize("ends_first", [0, 1])
@pytest.mark.parametrize("other", ["braced.first:get_a", "braced.first:{get_b,get_a}", "braced.first:get_*"])
def test_blocks_overlap(other: str, ends_first: int, names: list[str]) -> None:
    """Braces and another patch of the same names overlap, and end in any order."""
    first, _ = _loaded(names)
    before = Snapshot(first)
    sessions = [
        hookpatch.active(hookpatch.wrap("braced.first:{get_a,get_b}", louder), children="local").open(),
        hookpatch.active(
            hookpatch.wrap(other, lambda wrapped, *call: ["over", wrapped(*call[1])]), children="local"
        ).open(),
    ]
    assert _answer(first, "get_a()") == ["over", ("louder", ("a", 0))]
    sessions.pop(ends_first).close()
    assert _answer(first, "get_a()") == (("louder", ("a", 0)) if ends_first else ["over", ("a", 0)])
    sessions.pop().close()
    assert before.changed() == []


def test_two_values_for_a_name_are_a_conflict(names: list[str]) -> None:
    """A name in braces, and the same name beside it, conflict as two patches do."""
    _loaded(names)
    both = hookpatch.replace("braced.first:{get_a,get_b}", new), hookpatch.replace("braced.first:get_b", None)
    with pytest.raises(ConflictError, match="puts a value into the same slot twice"):
        hookpatch.active(*both).open()


def test_a_child_process_has_each_name(names: list[str], folder: Path) -> None:
    """A program started inside the block waits for the modules of all names; the patch can be pickled."""
    patch = hookpatch.inject("braced.{first,second}:get_{a,b}", x=3)
    assert pickle.loads(pickle.dumps(patch)) == patch
    code = "import braced.first as m, braced.second as n; print([f() for f in (m.get_a, m.get_b, n.get_a, m.get_c)])"
    with hookpatch.active(patch, children="require"):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    assert (done.stdout.strip(), done.stderr) == ("[('a', 3), ('b', 3), ('a', 3), ('c', 0)]", "")


def test_calls_are_required_of_each_name(names: list[str]) -> None:
    """required_calls= is for each name, as each name is a patch of its own."""
    first, _ = _loaded(names)
    session = hookpatch.active(hookpatch.wrap("braced.first:{get_a,get_b}", louder, required_calls=1)).open()
    first.get_a()
    with pytest.raises(hookpatch.errors.CallsError, match=r"^braced\.first:get_b of .* never called"):
        session.close()


def test_a_rule_with_braces_fills_the_source(names: list[str], make_module: Callable[[str, str], Any]) -> None:
    """Each ``*`` of a source takes the text of a star, or a name from braces."""
    first, second = _loaded(names)
    make_module("braced_source", "def a_a(x=0): return 'from a'\ndef c_c(x=0): return 'from c'\nget_c = c_c")
    with hookpatch.active(
        hookpatch.replace("braced.*:get_{a,c}", source="braced_source:*_a", matches=">=0")
    ) as session:
        assert [_answer(module, "get_a()") for module in (first, second)] == ["from a"] * 2
        assert _answer(first, "get_c()") == ("c", 0)
        assert [row.target for row in session.report()][:2] == ["braced.*:get_a", "braced.first:get_a"]


def test_an_object_is_asked_about(names: list[str]) -> None:
    """``why`` names the slots; a key with braces is no list of names."""
    _loaded(names)
    assert str(hookpatch.why("braced.first:{get_a,get_b}").note) == (
        "stands for braced.first:get_a, braced.first:get_b here; ask for one slot"
    )
    assert hookpatch.remove("braced.first:TABLE['{a,b}']").written_out() == (
        hookpatch.remove("braced.first:TABLE['{a,b}']"),
    )


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("m:{a,{b,c}}", "has a '{' without its partner; braces do not go into braces"),
        ("m:{a", "has a '{' without its partner; braces do not go into braces"),
        ("m:{}", "has '' in braces, where names stand, as in {a,b}"),
        ("m:{a,}", "has '' in braces, where names stand, as in {a,b}"),
        ("m:{a*,b}", "has 'a*' in braces, where names stand, as in {a,b}"),
        ("m:{a:b,c}", "has 'a:b' in braces, where names stand, as in {a,b}"),
        ("m:{a,b,a}", "has 'a' in braces twice"),
        ("m:T[n:{a,b}]", "has the key n:{a,b}, which stands for several objects"),
    ],
)
def test_braces_that_cannot_be_read(address: str, problem: str) -> None:
    """Each mistake has its own message, at the declaration."""
    with pytest.raises(TargetSyntaxError) as caught:
        hookpatch.remove(address)
    assert (caught.value.problem, caught.value.address) == (problem, address)


@pytest.mark.parametrize(
    ("declare", "problem"),
    [
        (lambda: hookpatch.remove("m:{a,b}", matches=2), "matches= is for a rule, and m:{a,b} has no '*' and no '+'"),
        (lambda: hookpatch.remove("m:{a,b}", only=callable), "only= is for a rule or for instances, and m:{a,b} has"),
        (lambda: hookpatch.replace("m:{a,b}*", source="n:{a,b}*"), "has braces; write '*', which takes each name"),
        (lambda: hookpatch.replace("m:{a,b}*", source="n:*.*.*"), "has more '*' than m:{a,b}*"),
        (lambda: hookpatch.wrap("m:C().f", louder, of="m:{a,b}"), "of='m:{a,b}' stands for several objects"),
    ],
)
def test_a_mistake_is_told_where_it_is_declared(declare: Callable[[], Any], problem: str) -> None:
    """Options for the matches of a rule, and a source with braces, are refused."""
    with pytest.raises(PatchError) as caught:
        declare()
    assert problem in caught.value.problem


@pytest.mark.parametrize("verb", ["wrap", "derive"])
@pytest.mark.parametrize(("first", "second"), [("f", "g"), ("h", "i"), ("C.a", "C.b")])
def test_two_names_of_one_function_are_told(
    make_module: Callable[[str, str], ModuleType], verb: str, first: str, second: str
) -> None:
    """With reach="everywhere" a patch of each name runs in each call: the report says so, and the end is exact."""
    vendor = make_module(
        "aliases",
        "import math\ndef f(x): return [x]\ng = f\nh = math.erfc\ni = h\n"
        "class C:\n    def a(self): return 1\n    b = a",
    )
    before = Snapshot(vendor)
    change = (lambda value: lambda *args, **kwargs: value(*args, **kwargs)) if verb == "derive" else louder
    head, _, last = first.rpartition(".")
    names = f"aliases:{head}{'.' * bool(head)}{{{last},{second.rpartition('.')[2]}}}"
    for reach in ("slot", "everywhere"):
        with hookpatch.active(getattr(hookpatch, verb)(names, change, reach=reach), children="local") as session:
            told = [warning for row in session.report() for warning in row.warnings if "once more" in warning]
        expected = [f"runs once more in each call: aliases:{first} names the same value"]
        assert told == (expected if reach == "everywhere" else [])
        assert before.changed() == []
    with hookpatch.active(getattr(hookpatch, verb)(f"aliases:{first}", change, reach="everywhere")) as session:
        assert "once more" not in str(session.report())
