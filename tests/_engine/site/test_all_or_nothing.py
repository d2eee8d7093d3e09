"""All or nothing: a failing patch restores the earlier patches, and each failing undo is reported."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Final

import pytest
from layers import Stubborn, tagged

import hookpatch
from hookpatch import Target, errors
from hookpatch._engine.site.sites import patched


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Switch whether Stubborn classes can be changed."""

    def switch(locked: bool) -> None:
        monkeypatch.setattr(Stubborn, "locked", locked)

    return switch


class Failing(Exception):
    """An error of foreign code."""


def _fails(below: object) -> object:
    raise Failing("no value")


def test_failing_patch_restores_what_was_applied_before_it() -> None:
    """When the third patch fails while it is applied, the first two are restored exactly, each time."""

    class Owner:
        first = 1000

        def method(self) -> str:
            return "o"

        third = 3

    mapping = {"a": 1, "b": 2}
    before = list(vars(Owner).items())
    session = hookpatch.active(
        hookpatch.wrap(Target.attribute(Owner, "method"), tagged("p")),
        hookpatch.remove(Target.item(mapping, "a")),
        hookpatch.replace(Target.attribute(Owner, "added"), 1, add=True),
        hookpatch.derive(Target.attribute(Owner, "third"), _fails),
        hookpatch.replace(Target.attribute(Owner, "first"), 2),
    )
    for _ in range(2):
        with pytest.raises(errors.ApplyError, match="raised Failing: no value"):
            session.open()
        assert list(vars(Owner).items()) == before
        assert all(vars(Owner)[name] is value for name, value in before)
        assert list(mapping.items()) == [("a", 1), ("b", 2)]
        assert patched() == []


def test_patch_that_cannot_fit_is_found_before_any_is_applied() -> None:
    """A missing name is seen before the first patch is applied: no factory runs, nothing is set."""
    owner = SimpleNamespace(x=1)
    ran: list[object] = []
    with (
        pytest.raises(errors.TargetNotFound),
        hookpatch.active(
            hookpatch.derive(Target.attribute(owner, "x"), ran.append),
            hookpatch.remove(Target.attribute(owner, "missing")),
        ),
    ):
        pass
    assert ran == []
    assert vars(owner) == {"x": 1}


def test_interrupt_while_entering_restores_what_was_applied() -> None:
    """Ctrl-C in a factory leaves no patch, and reaches the caller."""
    owner = SimpleNamespace(x=1, y=2)

    def interrupted(below: object) -> object:
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        hookpatch.active(
            hookpatch.replace(Target.attribute(owner, "x"), 5),
            hookpatch.derive(Target.attribute(owner, "y"), interrupted),
        ),
    ):
        pass
    assert vars(owner) == {"x": 1, "y": 2}


def test_owner_that_refuses_is_an_apply_error_and_nothing_is_changed(lock: Callable[[bool], None]) -> None:
    """An owner that refuses a value keeps its own, as do the slots patched before."""

    class Owner(metaclass=Stubborn):
        x = 1

    willing = SimpleNamespace(x=1)
    lock(True)
    with (
        pytest.raises(errors.ApplyError, match="the replace raised RuntimeError: x is locked"),
        hookpatch.active(
            hookpatch.replace(Target.attribute(willing, "x"), 2), hookpatch.replace(Target.attribute(Owner, "x"), 2)
        ),
    ):
        pass
    assert (Owner.x, willing.x) == (1, 1)


def test_failing_undo_leaves_the_rest_restored(lock: Callable[[bool], None]) -> None:
    """If a slot cannot be restored, all others are; RestoreError and the report have the error."""

    class Owner(metaclass=Stubborn):
        x = 1

    owner = SimpleNamespace(a=1, b=2)
    before = dict(vars(owner))
    session = hookpatch.active(
        hookpatch.replace(Target.attribute(owner, "a"), 10),
        hookpatch.replace(Target.attribute(Owner, "x"), 10),
        hookpatch.remove(Target.attribute(owner, "b")),
    ).open()
    lock(True)
    with pytest.raises(errors.RestoreError) as caught:
        session.close()
    lock(False)
    assert vars(owner) == before
    assert [str(error) for error in caught.value.exceptions] == ["x is locked"]
    assert [patch.state for patch in session.report()] == ["restored", "failed", "restored"]
    session.close()
    assert patched() == []


def test_each_failing_undo_is_in_the_restore_error(lock: Callable[[bool], None]) -> None:
    """Two failing undos are two errors of a group; the undos between succeed."""

    class Owner(metaclass=Stubborn):
        x = 1
        y = 2

        def run(self) -> str:
            return "o"

    owner = SimpleNamespace(a=1)
    session = hookpatch.active(
        hookpatch.replace(Target.attribute(Owner, "x"), 10),
        hookpatch.replace(Target.attribute(owner, "a"), 10),
        hookpatch.remove(Target.attribute(Owner, "y")),
        hookpatch.wrap(Target.attribute(Owner, "run"), tagged("p")),
    ).open()
    lock(True)
    with pytest.raises(errors.RestoreError, match="3 undos failed") as caught:
        session.close()
    assert sorted(str(error) for error in caught.value.exceptions) == ["run is locked", "x is locked", "y is locked"]
    assert owner.a == 1
    assert Owner().run() == "o"


def test_wrapper_that_could_not_be_taken_out_passes_through(lock: Callable[[bool], None]) -> None:
    """A wrapper left in the slot passes calls through."""

    class Owner(metaclass=Stubborn):
        def run(self) -> str:
            return "o"

    session = hookpatch.active(hookpatch.wrap(Target.attribute(Owner, "run"), tagged("p"))).open()
    assert Owner().run() == "p(o)"
    lock(True)
    with pytest.raises(errors.RestoreError):
        session.close()
    assert Owner().run() == "o"


def test_error_of_the_block_is_the_context_of_a_restore_error(lock: Callable[[bool], None]) -> None:
    """When the block raised as well, neither error is lost."""

    class Owner(metaclass=Stubborn):
        x = 1

    with (
        pytest.raises(errors.RestoreError) as caught,
        hookpatch.active(hookpatch.replace(Target.attribute(Owner, "x"), 2)),
    ):
        lock(True)
        raise Failing("the block")
    assert isinstance(caught.value.__context__, Failing)


def test_nothing_keeps_a_patched_object_alive() -> None:
    """After the end no site keeps an owner alive."""

    class Owner:
        alive: Final[list[int]] = []

        def run(self) -> str:
            return "o"

        def __del__(self) -> None:
            self.alive.append(1)

    owner = Owner()
    with hookpatch.active(hookpatch.wrap(Target.attribute(owner, "run"), tagged("p"))):
        assert owner.run() == "p(o)"
    del owner
    gc.collect()
    assert Owner.alive == [1]


def test_threads_see_the_layers_of_before_or_of_after() -> None:
    """Calls in other threads while sessions open and close see whole states only, and nothing is left at the end."""

    def function() -> str:
        return "o"

    owner = SimpleNamespace(f=function)
    target = Target.attribute(owner, "f")
    results: set[str] = set()
    stop = threading.Event()

    def call() -> None:
        while not stop.is_set():
            results.add(owner.f())

    def patch() -> None:
        for _ in range(50):
            with hookpatch.active(hookpatch.wrap(target, tagged("p"))):
                pass

    caller = threading.Thread(target=call)
    patchers = [threading.Thread(target=patch) for _ in range(4)]
    caller.start()
    for thread in patchers:
        thread.start()
    for thread in patchers:
        thread.join()
    stop.set()
    caller.join()
    assert results <= {"p(" * depth + "o" + ")" * depth for depth in range(5)}
    assert owner.f is function
