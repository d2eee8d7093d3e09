"""A patch that no call reaches is marked: an outer ``replace`` or ``remove`` hides the patches inside."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import ApplyError, PatchUnneededWarning
from hookpatch.testing import pristine

VENDOR: Final = """
    def function(a=0):
        marks = ["vendor"]
        return [a, *marks]

    class Kind:
        def method(self, a=0):
            marks = ["vendor"]
            return [a, *marks]

    class Child(Kind): pass

    table = {"f": function}
    """
TARGETS: Final = {
    "vendor:function": lambda vendor: vendor.function,
    "vendor:Kind.method": lambda vendor: vendor.Kind().method,
    "vendor:Child.method": lambda vendor: vendor.Child().method,
    "vendor:table['f']": lambda vendor: vendor.table["f"],
}


def _mark(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return [*wrapped(*args, **kwargs), "wrap"]


def _derived(original: Callable[..., Any]) -> Callable[..., Any]:
    def derived(*args: Any, **kwargs: Any) -> Any:
        return [*original(*args, **kwargs), "derive"]

    return derived


def _given(*args: Any, a: object = None) -> Any:
    return ["replaced", a]


PATCHES: Final[dict[str, Callable[[str, Any], hookpatch.Patch]]] = {
    "wrap": lambda address, reach: hookpatch.wrap(address, _mark, reach=reach),
    "derive": lambda address, reach: hookpatch.derive(
        address, _derived, reach=reach, check_signature=False, why="takes any call"
    ),
    "inject": lambda address, reach: hookpatch.inject(address, a="inject", reach=reach),
    "default": lambda address, reach: hookpatch.default(address, a="default", reach=reach),
    "edit": lambda address, reach: hookpatch.edit(
        address, "marks = ['vendor']", "marks = ['vendor', 'edit']", reach=reach
    ),
}


def _replace(address: str, reach: Any) -> hookpatch.Patch:
    return hookpatch.replace(address, _given, reach=reach, check_signature=False, why="takes any call")


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


def _states(*sessions: hookpatch.Session) -> dict[str, str]:
    return {row.verb: str(row) for session in sessions for row in session.report()}


@pytest.mark.parametrize(
    "is_one_session",
    [pytest.param(True, marks=pytest.mark.ends, id="one session"), pytest.param(False, id="two sessions")],
)
@pytest.mark.parametrize(
    "is_first", [True, pytest.param(False, marks=pytest.mark.ends)], ids=["patch first", "replace first"]
)
@pytest.mark.parametrize(
    ("reach", "other_reach"),
    [
        pytest.param(reach, other_reach, marks=[] if reach == other_reach else pytest.mark.ends)
        for reach, other_reach in product(["slot", "everywhere"], repeat=2)
    ],
)
@pytest.mark.parametrize("verb", PATCHES)
@pytest.mark.parametrize("address", TARGETS)
@pytest.mark.sampled(10)
def test_a_patch_has_its_effect_or_the_report_names_the_patch_over_it(
    vendor: ModuleType, address: str, verb: str, reach: Any, other_reach: Any, is_first: bool, is_one_session: bool
) -> None:
    """Each verb beside a ``replace``: effective, refused, or marked as without effect. The end restores the target."""
    patches = [PATCHES[verb](address, reach), _replace(address, other_reach)]
    patches = patches if is_first else patches[::-1]
    with pristine(), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        sessions = [hookpatch.active(*patches)] if is_one_session else [hookpatch.active(patch) for patch in patches]
        try:
            for session in sessions:
                session.open()
        except ApplyError:
            return
        else:
            result = TARGETS[address](vendor)()
            states = _states(*sessions)
        finally:
            for session in sessions[::-1]:
                session.close()
    assert (verb in result) != ("without effect" in states[verb]), (result, states)
    messages = [str(warning.message) for warning in heard if warning.category is PatchUnneededWarning]
    if is_one_session:
        assert bool(messages) == ("without effect" in states[verb]), messages


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize(("names", "is_hidden"), [("outer inner", True), ("inner outer", False)])
def test_plan_report_and_why_agree(
    vendor: ModuleType, make_distribution: Callable[..., Any], reach: str, names: str, is_hidden: bool
) -> None:
    """The first plugin selected lies outside. With the other order the wrapper runs around the replacement."""
    plugin = """
        import hookpatch

        def mark(wrapped, instance, args, kwargs):
            return [*wrapped(*args, **kwargs), "wrap"]

        def given(a=0):
            return ["replaced"]

        @hookpatch.hookimpl
        def hookpatch_patches():
            yield hookpatch.{patch}
        """
    declarations = {
        "outer": f"replace('vendor:function', given, reach={reach!r})",
        "inner": f"wrap('vendor:function', mark, reach={reach!r})",
    }
    for name, patch in declarations.items():
        source = plugin.replace("{patch}", patch)
        make_distribution(f"d-{name}", plugins={name: f"p_{name}"}, modules={f"p_{name}": source})
    (target,) = hookpatch.plan(*names.split()).targets
    planned = {patch.verb: any("without effect" in warning for warning in patch.warnings) for patch in target.patches}
    assert planned == {"replace": False, "wrap": is_hidden}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PatchUnneededWarning)
        session = hookpatch.active(*names.split())
        with session:
            assert vendor.function() == (["replaced"] if is_hidden else ["replaced", "wrap"])
            assert {verb: "without effect" in row for verb, row in _states(session).items()} == planned
            reached = {layer.kind: layer.reached for layer in hookpatch.why("vendor:function")}
            assert reached["wrap"] != is_hidden


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("verb", ["wrap", "inject", "default"])  # a derive or edit in the slot is a conflict
def test_the_warning_comes_once(vendor: ModuleType, verb: str, reach: Any) -> None:
    """A later session on the same target repeats no warning of an earlier session."""
    session = hookpatch.active(_replace("vendor:function", "slot"), PATCHES[verb]("vendor:function", reach))
    with pytest.warns(PatchUnneededWarning, match="without effect"):
        session.open()
    with session, hookpatch.active(hookpatch.wrap("vendor:function", _mark)):
        assert vendor.function() == ["replaced", None, "wrap"]
        assert "without effect" in _states(session)[verb]
    session.close()
