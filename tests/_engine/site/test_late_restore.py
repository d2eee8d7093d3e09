"""Late restore: a slot that a foreign value covers at the end of a session is restored when our wrapper is back."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import wrapt

import hookpatch
from hookpatch import Target
from hookpatch._engine.site import late_restore
from hookpatch.errors import DisplacedWarning, PatchFailedWarning, RestoreError


def _around(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return f"patched({wrapped(*args, **kwargs)})"


class Owner:
    """An owner that refuses new values while ``locked``."""

    locked = False

    def __setattr__(self, name: str, value: object) -> None:
        if type(self).locked:
            raise RuntimeError(f"{name} is locked")
        super().__setattr__(name, value)


def _original() -> str:
    return "original"


def _given() -> str:
    return "given"


@pytest.fixture
def owner() -> SimpleNamespace:
    """Make an owner of an attribute ``x`` alone."""
    return SimpleNamespace(x=_original)


def test_any_object_of_ours_that_comes_to_light_is_known(owner: SimpleNamespace) -> None:
    """Any earlier wrapper of ours is recognised, not only the last: foreign code may have saved any of these."""
    target = Target.attribute(owner, "x")
    low = hookpatch.active(hookpatch.wrap(target, _around)).open()
    up = hookpatch.active(hookpatch.wrap(target, _around), hookpatch.replace(target, _given)).open()
    saved = owner.x
    owner.x = lambda: "theirs"
    with pytest.warns(DisplacedWarning):
        up.close()
    with pytest.warns(DisplacedWarning):
        low.close()
    del up, low
    gc.collect()
    owner.x = saved
    hookpatch.report()
    assert owner.x is _original


def _beneath_their_proxy(owner: SimpleNamespace) -> tuple[hookpatch.Session, hookpatch.Session, Any]:
    """Patch, put a foreign proxy over the wrapper, replace the value beneath; return the value that the proxy saved."""
    target = Target.attribute(owner, "x")
    low = hookpatch.active(hookpatch.wrap(target, _around)).open()
    saved = owner.x
    owner.x = wrapt.FunctionWrapper(saved, lambda w, i, a, k: w(*a, **k))
    return low, hookpatch.active(hookpatch.replace(target, _given)).open(), saved


def test_proxy_of_theirs_that_puts_back_what_it_had_found(owner: SimpleNamespace) -> None:
    """The value beneath a foreign proxy may differ from the value that the foreign code saved."""
    low, up, saved = _beneath_their_proxy(owner)
    owner.x = saved
    hookpatch.report()
    assert owner.x is _given
    low.close()
    up.close()
    assert owner.x is _original


@pytest.mark.ends
def test_looking_often_forgets_nothing(owner: SimpleNamespace) -> None:
    """A slot under a foreign proxy is restored late after any number of looks."""
    low, up, saved = _beneath_their_proxy(owner)
    for _ in range(34):  # more than a site remembers of its own values
        hookpatch.report()
    low.close()
    up.close()
    owner.x = saved
    hookpatch.report()
    assert owner.x is _original


def test_value_that_is_put_there_again_over_theirs(owner: SimpleNamespace) -> None:
    """A given value written anew over a foreign value is a foreign write, not a leftover of ours."""
    target, theirs = Target.attribute(owner, "x"), lambda: "theirs"
    with pytest.warns(DisplacedWarning), hookpatch.active(hookpatch.replace(target, _given)):
        owner.x = theirs
    with hookpatch.active(hookpatch.replace(target, _given)):
        hookpatch.report()
        assert owner.x is _given
    assert owner.x is theirs
    owner.x = _given  # the foreign code restores the value that it found
    hookpatch.report()
    assert owner.x is _original


def test_deleted_by_somebody_who_puts_ours_back(owner: SimpleNamespace) -> None:
    """A name absent before and at the end does not come back with an ended patch."""
    target = Target.attribute(owner, "added")
    session = hookpatch.active(hookpatch.replace(target, _given, add=True)).open()
    saved = owner.added
    del owner.added
    with pytest.warns(DisplacedWarning):
        session.close()
    assert [patch.state for patch in session.report()] == ["overwritten"]
    owner.added = saved
    hookpatch.report()
    assert vars(owner) == {"x": _original}


def test_deleted_by_somebody_who_puts_theirs_back_over_ours(owner: SimpleNamespace) -> None:
    """A patch of a name absent at its begin does not go beneath a foreign proxy with an older wrapper."""
    target = Target.attribute(owner, "x")
    older = hookpatch.active(hookpatch.wrap(target, _around)).open()
    owner.x = theirs = wrapt.FunctionWrapper(owner.x, lambda wrapped, instance, args, kwargs: f"theirs({wrapped()})")
    del owner.x
    with pytest.warns(DisplacedWarning):
        older.close()
    newer = hookpatch.active(hookpatch.replace(target, lambda: "given", add=True)).open()
    assert owner.x() == "given"
    owner.x = theirs
    hookpatch.report()
    assert owner.x() == "theirs(original)"
    with pytest.warns(DisplacedWarning):
        newer.close()
    del newer  # with its value, which no code can write back any more
    hookpatch.report()
    assert owner.x is theirs
    assert owner.x() == "theirs(original)"
    owner.x = theirs.__wrapped__
    hookpatch.report()
    assert owner.x is _original


def test_deleted_while_another_patch_lies_over_it(owner: SimpleNamespace) -> None:
    """A deleted name stays deleted at the end of a patch without a value beneath."""
    target = Target.attribute(owner, "added")
    low = hookpatch.active(hookpatch.replace(target, _given, add=True)).open()
    up = hookpatch.active(hookpatch.wrap(target, _around)).open()
    saved = owner.added
    del owner.added
    with (
        pytest.warns(DisplacedWarning, match="other code deleted"),
        pytest.warns(PatchFailedWarning, match="no longer applied"),
    ):
        low.close()
    up.close()
    owner.added = saved
    hookpatch.report()
    assert vars(owner) == {"x": _original}


def test_what_a_look_cannot_give_back_is_given_back_by_the_next() -> None:
    """An owner that refuses at a look raises no error in the looking code."""
    owner = Owner()
    owner.x = _original  # type: ignore[attr-defined]
    low = hookpatch.active(hookpatch.replace(Target.attribute(owner, "x"), "low", add=True)).open()
    up = hookpatch.active(hookpatch.replace(Target.attribute(owner, "x"), _given, add=True)).open()
    Owner.locked = True
    with pytest.raises(RestoreError):
        up.close()
    hookpatch.report()
    assert vars(owner) == {"x": _given}
    Owner.locked = False
    hookpatch.report()
    assert vars(owner) == {"x": "low"}
    low.close()
    assert vars(owner) == {"x": _original}


def test_owner_is_not_kept_alive() -> None:
    """Neither the given value, which lives in the plugin, nor the foreign value keeps the owner alive."""

    class Plain:
        """An owner with weak references."""

    owner: Any = Plain()
    session = hookpatch.active(hookpatch.replace(Target.attribute(owner, "x"), _given, add=True)).open()
    owner.x = lambda ours=owner.x: ours()
    with pytest.warns(DisplacedWarning):
        session.close()
    assert [late_restore.slot is not None for late_restore in late_restore.late_restores()] == [True]
    weak = weakref.ref(owner)
    del owner, session
    gc.collect()
    assert weak() is None
    hookpatch.report()
    assert late_restore.late_restores() == []
    assert late_restore._unborne == set()


def test_each_of_many_is_given_back() -> None:
    """A hundred slots are restored late, one by one, and no late restore is left."""
    owners = [SimpleNamespace(x=_original) for _ in range(100)]
    saved = []
    for owner in owners:
        session = hookpatch.active(hookpatch.wrap(Target.attribute(owner, "x"), _around)).open()
        saved.append(owner.x)
        owner.x = lambda: "theirs"
        with pytest.warns(DisplacedWarning):
            session.close()
    assert len(late_restore.late_restores()) == 100
    for owner, ours in zip(owners, saved, strict=True):
        owner.x = ours
    hookpatch.report()
    assert all(owner.x is _original for owner in owners)
    assert late_restore.late_restores() == []
