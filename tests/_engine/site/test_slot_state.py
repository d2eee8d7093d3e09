"""Foreign values in a slot: a patch beneath a foreign value takes part, or is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import wrapt
from layers import states, tagged

import hookpatch
from hookpatch import Target, errors


def test_patch_that_would_not_show_beneath_somebody_elses_is_refused() -> None:
    """A foreign value is not overwritten, and a patch without effect is not reported as applied."""
    owner = SimpleNamespace(x=3)
    target = Target.attribute(owner, "x")
    lower = hookpatch.active(hookpatch.replace(target, 4)).open()
    owner.x = "theirs"
    place = f"<SimpleNamespace object at {id(owner):#x}>.x"
    with pytest.raises(errors.TargetRefused) as caught, hookpatch.active(hookpatch.replace(target, 5)):
        pass
    assert caught.value.problem == (
        f"{place} was replaced by other code after hookpatch had patched the slot; a new patch under the replacement "
        "would have no effect. Undo the replacement first, or open the session before"
    )
    with pytest.warns(errors.DisplacedWarning):
        lower.close()
    assert vars(owner) == {"x": "theirs"}
    assert states(lower) == ["overwritten"]


def test_wrap_beneath_somebody_elses_wrapper_takes_part() -> None:
    """Our wrapper beneath a foreign wrapper stays the same object, and runs later layers."""

    def original() -> str:
        return "o"

    owner = SimpleNamespace(f=original)
    target = Target.attribute(owner, "f")
    lower = hookpatch.active(hookpatch.wrap(target, tagged("1"))).open()
    ours = owner.f

    def theirs() -> str:
        return f"theirs({ours()})"

    owner.f = theirs
    with hookpatch.active(hookpatch.wrap(target, tagged("2"))) as upper:
        assert owner.f() == "theirs(2(1(o)))"
    lower.close()
    assert owner.f is theirs
    assert owner.f() == "theirs(o)"
    assert (states(lower), states(upper)) == (["dormant"], ["restored"])


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
@pytest.mark.parametrize("verb", ["wrap", "derive"])
def test_patch_over_somebody_elses_proxy_of_a_static_or_class_method(kind: Any, verb: str) -> None:
    """A foreign proxy of a static method is patched as a proxy, and restored."""

    class Owner:
        run: Any = wrapt.FunctionWrapper(kind(lambda *args: "original"), lambda w, i, a, k: f"theirs({w(*a, **k)})")

    theirs = vars(Owner)["run"]
    assert isinstance(theirs, kind)
    target = Target.attribute(Owner, "run")
    with hookpatch.active(
        hookpatch.wrap(target, tagged("ours"))
        if verb == "wrap"
        else hookpatch.derive(target, lambda below: wrapt.FunctionWrapper(below, tagged("ours")))
    ):
        assert Owner.run() == Owner().run() == "ours(theirs(original))"
    assert vars(Owner)["run"] is theirs
