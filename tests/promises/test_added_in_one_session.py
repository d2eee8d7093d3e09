"""A name that one patch of a session adds is there for the other patches, as it is for a session opened inside."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from snapshot import Snapshot

import hookpatch
from hookpatch import Patch, Report, Target
from hookpatch._inspect.check import check, lockable
from hookpatch._session.additions import additions
from hookpatch._session.ledger import Requested
from hookpatch.errors import ConflictError, MatchesError, PatchFailedWarning, TargetNotFound, TargetRefused

VENDOR: Final = """
class Base:
    def run(self): return "run"
class Sub(Base): pass
Alias = Base
base, sub = Base(), Sub()
table, names = {"there": len}, []
"""
VALUES: Final = """
def new(x, y=0): return "new", x, y
def method(self, x, y=0): return "method", x, y
class Kind:
    def run(self): return "run"
def added(wrapped, instance, args, kwargs): return "added", instance is None, args, kwargs
def loud(wrapped, instance, args, kwargs): return "loud", wrapped(*args, **kwargs)
def over(below):
    def outer(*args, **kwargs): return "over", function(*args, **kwargs)
    function = getattr(below, "__func__", below)
    return outer if function is below else staticmethod(outer)
"""
EDIT: Final = (
    'def run(self): return "run"',
    'def run(self): return "run"\n\ndef new(self, x, y=0): return "edited", x, y',
)
# The kind of place: the address of the patch that adds, how it adds, the address of the other patch, a call.
PLACES: Final[dict[str, tuple[str, str, str, str]]] = {
    "attribute": ("new", "new", "new", "new(1)"),
    "item": ("table['new']", "new", "table['new']", "table['new'](1)"),
    "method": ("Base.new", "method", "Base.new", "base.new(1)"),
    "static": ("Base.new", "static", "Base.new", "base.new(1)"),
    "alias": ("Base.new", "method", "Alias.new", "base.new(1)"),
    "inherited": ("Base.new", "method", "Sub.new", "sub.new(1)"),
    "object": ("base.new", "new", "base.new", "base.new(1)"),
    "instances": ("Base().new", "new", "Base().new", "base.new(1)"),
    "instances of the class": ("Base.new", "method", "Base().new", "base.new(1)"),
    "instances of subclasses": ("Base+().new", "new", "Base().new", "base.new(1)"),
    "braces": ("{new,newer}", "new", "new", "new(1)"),
    "source": ("new", "source", "new", "new(1)"),
    "absent": ("new", "absent", "new", "new(1)"),
    "edit": ("Base", "edit", "Base.new", "base.new(1)"),
    "wrapper": ("new", "wrap", "new", "new(1)"),
    "wrapper in item": ("table['new']", "wrap", "table['new']", "table['new'](1)"),
    "wrapper in class": ("Base.new", "wrap", "Base.new", "base.new(1)"),
    "wrapper, alias": ("Base.new", "wrap", "Alias.new", "base.new(1)"),
    "wrapper, inherited": ("Base.new", "wrap", "Sub.new", "sub.new(1)"),
    "wrapper of object": ("base.new", "wrap", "base.new", "base.new(1)"),
    "wrapper, instances": ("Base.new", "wrap", "Base().new", "base.new(1)"),
    "wrapper, absent": ("{new,newer}", "wrap absent", "new", "new(1)"),
}
# The other patch has a slot of its own, which lies outside in any order.
ELSEWHERE: Final = ("inherited", "wrapper, inherited")
MEETING: Final = ("absent", "wrap", "wrap absent")  # in no conflict with another value
VERBS: Final = ("wrap", "everywhere", "inject", "default", "derive", "edit", "remove")
OF_ONE: Final = ("everywhere", "edit")  # not for instances
# The address of an inherited name, which no patch removes there.
INHERITED: Final = [
    (place, "remove") for place in ("inherited", "instances of the class", "wrapper, inherited", "wrapper, instances")
]
PAIRS: Final = [
    (place, verb)
    for place in PLACES
    for verb in VERBS
    if ("()" not in PLACES[place][2] or verb not in OF_ONE) and (place, verb) not in INHERITED
    if not (PLACES[place][1].startswith("wrap") and verb in ("edit", "everywhere"))  # an edit lies inside of wrappers
]
CELLS: Final = [
    pytest.param(*pair, marks=[pytest.mark.ends, pytest.mark.once] if i % 10 else ()) for i, pair in enumerate(PAIRS)
]


@pytest.fixture
def values(write_module: Callable[[str, str], Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The values of the patches; the vendor's module is on the path, and not imported."""
    monkeypatch.syspath_prepend(str(folder))
    write_module("added_vendor", VENDOR)
    write_module("added_values", VALUES)
    return importlib.import_module("added_values")


@pytest.fixture(autouse=True)
def forget_modules() -> Iterator[None]:
    """Have the next test import the modules of its own folder."""
    yield
    for name in ("added_vendor", "added_values"):
        sys.modules.pop(name, None)


def _adding_patch(place: str, values: Any) -> Patch:
    address, how, _, _ = PLACES[place]
    target = f"added_vendor:{address}"
    if how == "edit":
        return hookpatch.edit(target, *EDIT)
    if how == "source":
        return hookpatch.replace(target, source="added_values:new", add=True)
    if how.startswith("wrap"):
        return hookpatch.wrap(target, values.added, add="absent" if "absent" in how else True)
    value = staticmethod(values.new) if how == "static" else values.method if how == "method" else values.new
    return hookpatch.replace(target, value, add="absent" if how == "absent" else True)


def _other_patch(place: str, verb: str, values: Any, **facts: Any) -> Patch:
    target = f"added_vendor:{PLACES[place][2]}"
    patches: dict[str, Callable[[], Patch]] = {
        "wrap": lambda: hookpatch.wrap(target, values.loud, **facts),
        "everywhere": lambda: hookpatch.wrap(target, values.loud, reach="everywhere", **facts),
        "inject": lambda: hookpatch.inject(target, y=5, **facts),
        "default": lambda: hookpatch.default(target, y=6, **facts),
        "derive": lambda: hookpatch.derive(target, values.over, **facts),
        "edit": lambda: hookpatch.edit(target, "return", "return 'other',", **facts),
        "remove": lambda: hookpatch.remove(target, **facts),
    }
    return patches[verb]()


def _vendor() -> ModuleType:
    return importlib.import_module("added_vendor")


def _result_of_call(vendor: ModuleType, place: str) -> str:
    """Return the result of the call in text, or the class of its error."""
    try:
        return repr(eval(PLACES[place][3], vars(vendor)))
    except (NameError, AttributeError, KeyError) as error:
        return type(error).__name__


def _result_inside(blocks: list[list[Patch]], place: str, is_imported: bool) -> tuple[str, list[str]]:
    """Return the result of the call inside of sessions, and the states of all patches; the vendor is as before."""
    snapshot = Snapshot(_vendor()) if is_imported else None
    with ExitStack() as stack:
        sessions = [stack.enter_context(hookpatch.active(*block, children="local")) for block in blocks]
        vendor = _vendor()
        states = [row.state for session in sessions for row in session.report()]
        result = _result_of_call(vendor, place)
    assert snapshot is None or snapshot.changed() == []
    assert _result_of_call(vendor, place) in ("NameError", "AttributeError", "KeyError")
    assert {row.state for session in sessions for row in session.report()} == {"restored"}
    if not is_imported:
        del sys.modules["added_vendor"]
    return result, states


@pytest.mark.filterwarnings("ignore:.*without effect. remove of:hookpatch.errors.PatchUnneededWarning")
@pytest.mark.parametrize("is_imported", [True, False], ids=["imported", "waiting"])
@pytest.mark.parametrize(("place", "verb"), CELLS)
@pytest.mark.sampled(6)
def test_the_other_patch_lies_outside(place: str, verb: str, is_imported: bool, values: Any) -> None:
    """The other patch is given before the adding patch: a call returns the same as in two nested sessions."""
    adding, other = _adding_patch(place, values), _other_patch(place, verb, values)
    expected, _ = _result_inside([[adding], [other]], place, is_imported)
    if verb == "remove" and PLACES[place][1] not in MEETING:
        with pytest.raises(ConflictError, match=r"puts a value into the same slot twice \(remove, replace"):
            hookpatch.active(other, adding).open() if is_imported else _import_inside(other, adding)
        return
    result, states = _result_inside([[other, adding]], place, is_imported)
    assert result == expected
    assert {*states} == {"applied"}
    for required in (True, False):
        optional = _other_patch(place, verb, values, required=required)
        assert _result_inside([[optional, adding]], place, is_imported)[0] == expected


def _import_inside(*patches: Patch) -> None:
    """Import the vendor inside a session; raise the first failure as an error of its class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PatchFailedWarning)
        with hookpatch.active(*patches, children="local") as session:
            _vendor()
            failed = [row for row in session.report() if row.state == "failed"]
    kinds = {"the same slot twice": ConflictError, "holds nothing": TargetRefused}
    for row in failed:
        kind = next(kind for text, kind in kinds.items() if text in str(row.reason))
        raise kind(row.target, "the session", str(row.reason))


def _refusal(place: str, verb: str) -> str:
    is_named = "item" not in place and "object" not in place
    slot = "(added_vendor:.*new|new of an instance of added_vendor:Base)" if is_named else ".*new.*"
    adder = "wrap" if PLACES[place][1].startswith("wrap") else "replace"
    how = "replace by an edit of added_vendor:Base" if place == "edit" else adder
    return (
        f"{slot} holds nothing, and the {how} of a patch given to active\\(\\) adds the name outside of this {verb}; "
        f"give the {verb} before the {adder}: the first of a session lies outside"
    )


@pytest.mark.parametrize("is_imported", [True, False], ids=["imported", "waiting"])
@pytest.mark.parametrize(("place", "verb"), CELLS)
@pytest.mark.sampled(8)
def test_the_other_patch_lies_inside(place: str, verb: str, is_imported: bool, values: Any) -> None:
    """The other patch is given after the adding patch: the slot inside is empty, and the error names the remedy."""
    adding, other = _adding_patch(place, values), _other_patch(place, verb, values)
    kind: type[Exception] = TargetRefused
    message = _refusal(place, verb.replace("everywhere", "wrap"))
    if place in ELSEWHERE:
        expected = _result_inside([[adding], [other]], place, is_imported)[0]
        assert _result_inside([[adding, other]], place, is_imported)[0] == expected
        return
    if verb in ("derive", "edit", "remove") and PLACES[place][1] not in MEETING:
        kind, message = ConflictError, r"puts a value into the same slot twice \(replace"
    if is_imported:
        snapshot = Snapshot(_vendor())
        with pytest.raises(kind, match=message):
            hookpatch.active(adding, other).open()
        assert snapshot.changed() == []
    else:
        with pytest.raises(kind, match=message):
            _import_inside(adding, other)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["outside", "inside"])
@pytest.mark.parametrize("is_imported", [True, False], ids=["imported", "waiting"])
@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("place", ["attribute", "item", "method", "instances", "edit"])
@pytest.mark.sampled(8)
def test_plan_and_check_are_the_run(
    place: str, required: bool, is_imported: bool, order: tuple[int, int], values: Any
) -> None:
    """The child process of a plan, a check and a lock file find of each patch what the session finds."""
    if is_imported:
        _vendor()
    both = _other_patch(place, "wrap", values, required=required), _adding_patch(place, values)
    patches = [both[index] for index in order]
    ran: Report
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PatchFailedWarning)
        session = hookpatch.active(*patches, children="local")
        try:
            with session:
                _vendor()
                ran = session.report()
        except TargetRefused:
            ran = session.report()
    states = {row.verb: (row.state, row.reason) for row in ran if row.rule is None}
    if not is_imported:
        del sys.modules["added_vendor"]
    planned = {patch.verb: patch for target in hookpatch.plan(*patches) for patch in target.patches}
    wrap, refused = planned["wrap"], "unfit" if required else "skipped"
    checked = {status for target in check(map(Requested, patches)) for status in [target.status]}
    _, problems = lockable(map(Requested, patches))
    if order == (0, 1):
        assert states["wrap"] == ("applied", None)
        assert (wrap.finding, wrap.reason) == ("fits", None)
        assert checked == {"fits"}
        assert problems == []
    else:
        assert states["wrap"][0] in ("failed", "skipped")
        assert wrap.finding == refused
        assert str(wrap.reason).partition("holds nothing")[2] in str(states["wrap"][1])
        assert refused in checked
        assert len(problems) == required
    assert {patch.finding for verb, patch in planned.items() if verb != "wrap"} == {"fits"}


def test_a_plan_without_the_value_says_so(values: Any) -> None:
    """No other process can have the value: the plan did not look, and says so; the name does not count as missing."""
    adding = hookpatch.replace("added_vendor:new", lambda x: x, add=True)
    planned = [
        p for target in hookpatch.plan(_other_patch("attribute", "wrap", values), adding) for p in target.patches
    ]
    assert {patch.finding for patch in planned} == {"not looked at"}
    reason = next(str(patch.reason) for patch in planned if patch.verb == "wrap")
    assert reason.startswith("the patch that may add the name was not looked at: ")


def test_a_name_that_no_patch_adds(values: Any) -> None:
    """A patch that adds another name is no help, nor is a skipped optional patch."""
    vendor = _vendor()
    snapshot = Snapshot(vendor)
    wrap = _other_patch("attribute", "wrap", values)
    added = hookpatch.replace("added_vendor:other", values.new, add=True)
    skipped = hookpatch.replace("added_vendor:new", values.new, add=True, requires="pytest<1", required=False)
    elsewhere = hookpatch.replace("added_vendor:Base.new", values.method, add=True)
    for adding in (added, skipped, elsewhere):
        with pytest.raises(TargetNotFound, match="added_vendor has no attribute 'new'"):
            hookpatch.active(wrap, adding).open()
        assert snapshot.changed() == []


def test_the_object_at_hand_and_the_address_are_one_slot(values: Any) -> None:
    """A name is added by the object, and patched by the address; an entry has a key at hand."""
    vendor: Any = _vendor()
    wrap = hookpatch.wrap("added_vendor:base.new", values.loud)
    adding = hookpatch.replace(Target.attribute(vendor.base, "new"), values.new, add=True)
    of_key = Target.item(vendor.table, vendor.base)
    with hookpatch.active(
        *(wrap, hookpatch.wrap(of_key, values.loud), adding, hookpatch.replace(of_key, values.new, add=True)),
        children="local",
    ):
        assert vendor.base.new(1) == ("loud", ("new", 1, 0))
        assert vendor.table[vendor.base](1) == ("loud", ("new", 1, 0))
    assert vars(vendor.base) == {}
    assert [*vendor.table] == ["there"]


class _Key:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("foreign code")

    def __hash__(self) -> int:
        return 1


def test_keys_are_compared_without_foreign_code() -> None:
    """The same object is the same key, and an equal address; another object is another key."""
    key, of_address = _Key(), "m:table[other:Class]"
    patches = [
        hookpatch.wrap(Target.item({}, key), print),
        hookpatch.wrap(of_address, print),
        hookpatch.replace(Target.item({}, key), 1, add=True),
        hookpatch.replace(of_address, 1, add=True),
        hookpatch.replace(Target.item({}, _Key()), 1, add=True),
        hookpatch.replace(of_address, 2, add="absent"),
    ]
    assert additions(patches) == {0: 2, 1: 5}


def test_a_removal_stays_when_the_name_beneath_has_gone(values: Any) -> None:
    """Three sessions: a name is added, removed and added again; the first ends first. No warning is due."""
    vendor: Any = _vendor()
    first = hookpatch.active(hookpatch.replace("added_vendor:new", 1, add=True), children="local").open()
    with hookpatch.active(hookpatch.remove("added_vendor:new"), children="local") as removing:
        with hookpatch.active(hookpatch.replace("added_vendor:new", 3, add=True), children="local"):
            first.close()
            assert vendor.new == 3
        assert not hasattr(vendor, "new")
        assert [row.state for row in removing.report()] == ["applied"]
    assert not hasattr(vendor, "new")


def test_a_reload_and_a_second_entrance(values: Any) -> None:
    """Both patches lie over the module executed anew, in the same order, and when the session is entered again."""
    vendor: Any = _vendor()
    session = hookpatch.active(
        _other_patch("method", "wrap", values), _adding_patch("method", values), children="local"
    )
    for _ in range(2):
        with session:
            assert vendor.base.new(1) == ("loud", ("method", 1, 0))
            importlib.reload(vendor)
            assert vendor.base.new(1) == ("loud", ("method", 1, 0))
        assert _result_of_call(vendor, "method") == "AttributeError"


PLUGIN: Final = """
import added_values, hookpatch
@hookpatch.hookimpl
def hookpatch_patches():
    yield hookpatch.{patch}
"""


@pytest.mark.parametrize(
    ("selected", "declared", "problem"),
    [
        (("wrapping", "adding"), "", None),
        (("adding", "wrapping"), "", "; select plugin 'wrapping' from added-wrapping 1.0 before plugin 'adding'"),
        (("adding", "wrapping"), ", before='adding'", None),
        (("wrapping", "adding"), ", after='adding'", "or declare the order with before= or after="),
    ],
)
def test_two_plugins(
    selected: tuple[str, str], declared: str, problem: str | None, values: Any, make_distribution: Callable[..., Path]
) -> None:
    """The order of plugins counts, selected or declared; the error names both; the plan says the same."""
    patches = {
        "wrapping": f"wrap('added_vendor:new', added_values.loud{declared})",
        "adding": "replace('added_vendor:new', added_values.new, add=True)",
    }
    for name, patch in patches.items():
        text = PLUGIN.format(patch=patch)
        make_distribution(f"added-{name}", "1.0", {name: f"added_plugin_{name}"}, {f"added_plugin_{name}": text})
    planned = {patch.plugin: patch for target in hookpatch.plan(*selected) for patch in target.patches}
    vendor: Any = _vendor()
    if problem is None:
        with hookpatch.active(*selected, children="local"):
            assert vendor.new(1) == ("loud", ("new", 1, 0))
        assert [planned[name].place for name in ("wrapping", "adding")] == [1, 2]
    else:
        with pytest.raises(TargetRefused) as caught:
            hookpatch.active(*selected, children="local").open()
        assert problem in caught.value.problem
        assert planned["wrapping"].reason == caught.value.problem
    assert not hasattr(vendor, "new")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["before", "after"])
@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("address", ["New.run", "New().run", "table['new'].run", "Ne*", "Base.New.run"])
@pytest.mark.sampled(5)
def test_an_address_through_an_added_name(address: str, required: bool, order: tuple[int, int], values: Any) -> None:
    """An address leads through no value that a patch has put there, and a rule matches none: plan and report say so."""
    added = {"table['new'].run": "table['new']", "Base.New.run": "Base.New"}.get(address, "New")
    adding = hookpatch.replace(f"added_vendor:{added}", values.Kind, add=True)
    both = hookpatch.wrap(f"added_vendor:{address}", values.loud, required=required), adding
    patches = [both[index] for index in order]
    for is_imported in (True, False):
        if is_imported:
            snapshot = Snapshot(_vendor())
        planned = {row.reason for target in hookpatch.plan(*patches) for row in target.patches if row.verb == "wrap"}
        session = hookpatch.active(*patches, children="local")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PatchFailedWarning)
            try:
                with session:
                    _vendor()
                    ran = session.report()
            except (TargetNotFound, MatchesError):
                assert required
                assert is_imported
                ran = session.report()
        if is_imported:
            assert snapshot.changed() == []
            del sys.modules["added_vendor"]
        states = {row.state for row in ran if row.verb == "wrap"}
        reasons = {
            str(row.reason).partition(" (target")[0] for row in ran if row.state in ("failed", "skipped", "waiting")
        }
        assert states & {"failed", "skipped", "waiting"}
        words = (
            "is added by a patch" if "*" in address else "a patch adds it, and an address leads through the program's"
        )
        assert any(words in reason for reason in reasons)
        assert any(reason in reasons for reason in planned)
