"""Layers without a fitting value after the end of another session."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from layers import states, tagged

import hookpatch
from hookpatch import Target, errors
from hookpatch._engine.site.sites import patched

MakeModule = Callable[[str, str], ModuleType]


def _derived_class(below: type) -> type:
    return type("Derived", (below,), {})


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
    assert (states(lower), states(upper)) == (["restored"], ["failed"])
    upper.close()
    assert vars(owner) == {"x": value}
    assert owner.x is value
    assert patched() == []


def test_wrap_over_a_replace_that_ends_first() -> None:
    """A wrap over a value that stops being callable is a warning, not an error."""
    value = 3000
    owner = SimpleNamespace(x=value)
    target = Target.attribute(owner, "x")
    lower = hookpatch.active(hookpatch.replace(target, lambda: "given")).open()
    upper = hookpatch.active(hookpatch.wrap(target, tagged("p"))).open()
    assert owner.x() == "p(given)"
    with pytest.warns(errors.PatchFailedWarning, match=r"no longer applied: .* holds an int, which cannot be called"):
        lower.close()
    assert owner.x is value
    assert (states(lower), states(upper)) == (["restored"], ["failed"])
    upper.close()
    assert owner.x is value
    assert patched() == []


def test_layer_that_was_left_out_is_told_once_and_hinders_nobody() -> None:
    """The report of a left-out layer says so until the end, unless the layer is applied again."""
    owner = SimpleNamespace(x=3)
    target = Target.attribute(owner, "x")
    lower = hookpatch.active(hookpatch.replace(target, lambda: "given")).open()
    upper = hookpatch.active(hookpatch.wrap(target, tagged("p"))).open()
    with pytest.warns(errors.PatchFailedWarning, match="no longer applied: "):
        lower.close()
    with hookpatch.active(hookpatch.replace(target, 9)):  # a second warning would be an error here
        assert owner.x == 9
    assert owner.x == 3
    assert states(upper) == ["failed"]
    upper.close()
    (patch,) = upper.report()
    assert (patch.state, patch.reason) == ("failed", "was not applied at its end: the value underneath had gone before")
    assert vars(owner) == {"x": 3}


def test_layer_that_lies_again_is_applied_again(make_module: MakeModule) -> None:
    """A left-out layer is applied again after a reload with a callable."""
    module = make_module("changing", "run = 3\n")
    lower = hookpatch.active(hookpatch.replace("changing:run", lambda: "given")).open()
    upper = hookpatch.active(hookpatch.wrap("changing:run", tagged("p"))).open()
    with pytest.warns(errors.PatchFailedWarning):
        lower.close()
    assert module.__file__ is not None
    Path(module.__file__).write_text("def run():\n    return 'reloaded'\n")
    importlib.reload(module)
    assert module.run() == "p(reloaded)"
    assert states(upper) == ["applied"]
    upper.close()
    assert module.run() == "reloaded"
    assert states(upper) == ["restored"]


def test_warning_that_is_an_error_does_not_make_an_undo_one() -> None:
    """Under -W error the warning is in the RestoreError; the ended patch is restored and reported."""
    owner = SimpleNamespace(x=3)
    target = Target.attribute(owner, "x")
    lower = hookpatch.active(hookpatch.replace(target, lambda: "given")).open()
    uppers = [hookpatch.active(hookpatch.wrap(target, tagged(tag))).open() for tag in "pq"]
    with pytest.raises(errors.RestoreError) as caught:  # warnings are errors in these tests
        lower.close()
    assert [type(error) for error in caught.value.exceptions] == [errors.PatchFailedWarning]
    assert [states(session) for session in (lower, *uppers)] == [["restored"], ["failed"], ["failed"]]
    for session in uppers:
        session.close()
    assert vars(owner) == {"x": 3}


@pytest.mark.parametrize("verb", ["wrap", "derive"])
def test_layer_over_a_name_that_an_ended_session_had_added(verb: str) -> None:
    """A layer over an added name is left out, with a warning, when the adding session ends."""
    owner = SimpleNamespace()
    target = Target.attribute(owner, "x")
    lower = hookpatch.active(hookpatch.replace(target, lambda: "given", add=True)).open()
    patch = {
        "wrap": lambda: hookpatch.wrap(target, tagged("p")),
        "derive": lambda: hookpatch.derive(target, lambda below: lambda: f"p({below()})"),
    }[verb]()
    upper = hookpatch.active(patch).open()
    assert owner.x() == "p(given)"
    with pytest.warns(errors.PatchFailedWarning, match="no longer applied: "):
        lower.close()
    assert vars(owner) == {}
    assert (states(lower), states(upper)) == (["restored"], ["failed"])
    upper.close()
    assert vars(owner) == {}
    assert patched() == []


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_call_on_its_way_from_a_derived_value_meets_no_later_patch(make_module: MakeModule, reach: Any) -> None:
    """A call in flight sees one state: never the derive of a session that ended before another session was opened."""
    module: Any = make_module("flight", "def run():\n    return 'original'\n")
    target = "flight:run"
    meanwhile: list[Callable[[], object]] = []

    def factory(below: Callable[[], str]) -> Callable[[], str]:
        def derived() -> str:
            for change in meanwhile:
                change()
            return f"derived({below()})"

        return derived

    beneath = hookpatch.active(hookpatch.wrap(target, tagged("beneath"), reach=reach)).open()
    derive = hookpatch.active(hookpatch.derive(target, factory, reach=reach)).open()
    assert module.run() == "derived(beneath(original))"
    later = hookpatch.active(hookpatch.wrap(target, tagged("later"), reach=reach))
    meanwhile += [derive.close, later.open]
    assert module.run() == "derived(beneath(original))"
    assert module.run() == "later(beneath(original))"
    later.close()
    beneath.close()
    assert patched() == []
