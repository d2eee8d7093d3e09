"""The endings of tests/promises/test_exact.py: each changes a patched slot in a way of its own and ends the session."""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any, Final
from unittest import mock

import pytest
import targets
import wrapt
from cells import CALLS, NAME, World, around
from snapshot import ABSENT, Snapshot
from watching import watched

import hookpatch
from hookpatch import Target, errors
from hookpatch._session.report import report_of
from hookpatch._session.span.leftovers import look_again

# An ending returns the places that hold another value afterwards, each with the value; None if all is as before.
Left = dict[str, Any] | None


def states(*sessions: hookpatch.Session) -> set[str]:
    """Return the states of all patches, without the report's look at all objects: four times as long as a whole row."""
    look_again()
    return {patch.state for session in sessions for patch in report_of(session.entries, look=False)}


@contextmanager
def _patched(world: World) -> Iterator[hookpatch.Session]:
    with hookpatch.active(world.patch()) as session:
        yield session
        assert world.is_patched()
    assert states(session) == {"restored"}


def normal(world: World) -> None:
    """The block ends."""
    with _patched(world):
        pass


def raising(world: World, error: type[BaseException]) -> None:
    """The block raises, and the caller gets the same error."""
    with pytest.raises(error, match="the block"), hookpatch.active(world.patch()) as session:
        assert world.is_patched()
        raise error("the block")
    assert states(session) == {"restored"}


def undo_raises(world: World) -> None:
    """The undos before and after our patch fail: our patch is restored, and a single RestoreError lists both errors."""

    @contextmanager
    def stubborn(module: ModuleType) -> Iterator[None]:
        yield
        raise KeyError(module.__name__)

    enter = hookpatch.enter(NAME, stubborn)
    with pytest.raises(errors.RestoreError) as caught, hookpatch.active(enter, world.patch(), enter) as session:
        assert world.is_patched()
    assert [repr(error) for error in caught.value.exceptions] == [f"KeyError({NAME!r})"] * 2
    assert [patch.state for patch in session.report()] == ["failed", "restored", "failed"]


def collected(world: World) -> None:
    """The test drops the open session: the garbage collector closes the session with a warning."""
    session = world.open()
    assert world.is_patched()
    with pytest.warns(ResourceWarning, match=r"was dropped unclosed; use it in a with statement$"):
        del session


def overlapping(world: World, order: tuple[int, ...]) -> None:
    """Two sessions patch the slot by the same verb; or three sessions, with a replace by the second session."""
    verbs = ("", "") if len(order) == 2 else ("", "replace", "")
    _close([world.open(verb) for verb in verbs], order, world)


def by_two_ways(world: World, order: tuple[int, ...]) -> None:
    """Two sessions patch the same place: by its address, and by its owner at hand."""
    _close([world.open(), world.open("", world.at_hand())], order, world)


def through_subclass(world: World, opened: tuple[int, ...], order: tuple[int, ...]) -> None:
    """Two sessions patch the same name: in the class, and in an inheriting subclass."""
    address = world.cell.address.replace("Child", "Grandchild")
    ways = [("", ""), ("replace" if world.cell.verb == "remove" else "", f"{NAME}:{address}")]
    _close([world.open(*ways[index]) for index in opened], order, world, address)


def _close(sessions: list[hookpatch.Session], order: tuple[int, ...], world: World, *also: str) -> None:
    for index in order:
        assert world.is_patched(world.cell.place, *also)
        sessions[index].close()
    assert states(*sessions) == {"restored"}


def _wrapper(kind: str, below: Any) -> Any:
    """Return a foreign wrapper of a value."""
    if kind == "wrapt":
        return wrapt.FunctionWrapper(below, around)
    if isinstance(below, (staticmethod, classmethod)):
        return type(below)(_wrapper(kind, below.__func__))
    theirs = lambda *args, **kwargs: below(*args, **kwargs)  # noqa: E731 - a foreign wrapper, no function of a module
    return functools.wraps(below)(theirs) if kind == "closure" else theirs


def _cover(world: World, kind: str) -> Callable[[], None]:
    """Put a foreign wrapper over a slot; return a function that removes the wrapper by restoring the saved value."""
    if kind == "wrapt-twice":
        inner, outer = _cover(world, "wrapt"), _cover(world, "wrapt")
        return lambda: (outer(), inner())[0]
    saved = world.there()
    if kind == "mock":
        patcher: Any = (
            mock.patch.dict(world.owner, {world.key: mock.MagicMock()})
            if world.is_item
            else mock.patch.object(world.owner, world.key, create=saved is ABSENT)
        )
        patcher.__enter__()
        return partial(patcher.__exit__, None, None, None)
    world.put(_wrapper(kind, inspect.getattr_static(world.owner, str(world.key), None) if saved is ABSENT else saved))
    return partial(world.put, saved)


def _end(session: hookpatch.Session, world: World, kind: str = "", beneath: Any = None) -> str:
    """Close a session, check the reported state of its patch, and return the state.

    Args:
        session: the session.
        world: the world of the patched slot.
        kind: the kind of the foreign value over the slot.
        beneath: the value in the slot before the patch, unless the module's own value.
    """
    value, beneath = world.there(), world.original if beneath is None else beneath
    keeps = kind in ("wrapt", "wrapt-twice", "closure", "lambda") and world.cell.verb != "remove"
    if kind == "deleted" and not keeps:
        state = "overwritten"
    elif value is beneath or (world.cell.is_in_place and keeps):
        state = "restored"  # the foreign wrapper calls the function patched inside; or the slot is as before
    elif kind.startswith("wrapt") and beneath is not ABSENT and not world.cell.is_forwarded:
        state = "unlinked"  # otherwise the owner has no own value to wrap
    else:
        state = "overwritten" if not keeps else "dormant" if world.cell.verb in (*CALLS, "everywhere") else "displaced"
    is_told = state in ("overwritten", "displaced")
    with pytest.warns(errors.DisplacedWarning, match="left alone$") if is_told else nullcontext():
        session.close()
    assert states(session) == {state}
    return state


def off_before_us(world: World, kind: str) -> None:
    """A foreign wrapper comes and goes while our session is open."""
    session = world.open()
    _cover(world, kind)()
    assert world.is_patched()
    _end(session, world, beneath=world.there())


def off_after_us(world: World, kind: str, seen_by: str) -> Left:
    """A foreign wrapper stays when our session ends; a wrapt proxy, the inner proxy of two, then wraps the original.

    Later the foreign code restores its saved value, our dead wrapper: the next look restores the slot.
    """
    second = hookpatch.active(hookpatch.replace(Target.attribute(SimpleNamespace(x=1), "x"), 2))
    World.opened.add(second)
    if seen_by == "one that closes":
        second.open()
    session = world.open()
    take_off = _cover(world, kind)
    theirs = world.there()
    state = _end(session, world, kind)
    assert world.before.changed(world.moves(by_others=world.cell.verb == "remove")) == [world.cell.place]
    assert world.there() is theirs
    if states(session) == {"unlinked"}:
        assert (theirs.__wrapped__.__wrapped__ if kind == "wrapt-twice" else theirs.__wrapped__) is world.original
    if world.cell.verb == "remove":
        second.close()
        return {world.cell.place: theirs}  # a remove put no wrapper that could return
    if seen_by == "death":
        del theirs  # the wrapper dies as soon as the wrapper is removed
    take_off()
    if seen_by == "report" or world.has_setter:
        hookpatch.report()
    elif seen_by != "death":
        second.close() if seen_by == "one that closes" else second.open()
    assert world.before.changed(world.moves()) == []
    assert states(session) == {state if world.cell.is_in_place else "restored"}
    second.close()
    return None


def beneath(world: World) -> None:
    """The slot held a foreign wrapper before our session: our session restores the wrapper."""
    take_off = _cover(world, "lambda")
    theirs = world.there()
    with hookpatch.active(world.patch()) as session:
        pass
    assert states(session) == {"restored"}
    assert world.there() is theirs
    take_off()


def beneath_and_off_before_us(world: World) -> None:
    """A foreign wrapper from before our session is removed during the session: the value then written is left alone.

    When our wrapper returns to the slot, we restore the foreign wrapper.
    """
    take_off = _cover(world, "lambda")
    theirs = world.there()
    session = world.open()
    ours = world.there()
    take_off()
    rewritten = world.there()
    _end(session, world, beneath=theirs)
    assert world.there() is rewritten
    if world.cell.verb != "remove" and not world.cell.is_in_place:
        world.put(ours)
        hookpatch.report()
        assert world.there() is theirs
        take_off()


def deleted(world: World) -> None:
    """Foreign code deletes the name or key: we leave the slot alone. We restore the slot once our wrapper is back."""
    session = world.open()
    ours = world.there()
    world.put(ABSENT)
    successor = world.before.now(world.cell.place)  # in a list the next element
    state = _end(session, world, "deleted")
    assert world.there() is successor
    if isinstance(world.owner, list):
        world.owner.insert(world.key % 3, ours)
    else:
        world.put(ours)
    hookpatch.report()
    assert states(session) == {state if world.cell.is_in_place else "restored"}


def keys_added(world: World) -> Left:
    """Foreign code adds keys: the new keys are kept behind the earlier keys, in the order of their addition."""
    with hookpatch.active(world.patch()):
        for name, value in (("x", 1000), ("y", 2000)):
            if isinstance(world.owner, list):
                world.owner.append(value)
            elif world.is_item:
                world.owner[name] = value
            else:
                setattr(world.owner, name, value)
        places = [place for place in world.before.changed() if place not in world.changes]
    return dict(zip(places, (1000, 2000), strict=True))


def imported(world: World) -> None:
    """The module is imported while the session waits for it."""
    with _patched(world) as session:
        assert states(session) == {"waiting"}
        importlib.import_module(NAME)


def failing_first(world: World) -> None:
    """The first import of the module fails: we leave the remains of the failed import unpatched."""

    def fail(module: ModuleType) -> None:
        targets.executed.remove(fail)
        raise ZeroDivisionError

    targets.executed.append(fail)
    with _patched(world) as session:
        with pytest.raises(ZeroDivisionError):
            importlib.import_module(NAME)
        assert (states(session), world.before.changed()) == ({"waiting"}, [])
        importlib.import_module(NAME)


def replacing_itself(world: World) -> None:
    """The module replaces itself in sys.modules: we patch the new module, and all objects that both modules share."""
    thrown_away: list[Snapshot] = []

    def replace(module: ModuleType) -> None:
        thrown_away.append(Snapshot(module))
        sys.modules[NAME] = face = ModuleType(NAME)
        vars(face).update(vars(module))
        world.executed(face)

    targets.executed[:] = [replace]
    with _patched(world):
        importlib.import_module(NAME)
        assert sys.modules[NAME] is world.module
    assert thrown_away[0].changed(world.moves()) == []


def never_imported(world: World) -> None:
    """The module is imported when the session has ended: the watch is gone."""
    with hookpatch.active(world.patch()) as session:
        pass
    assert (states(session), watched(), sys.meta_path) == (
        {"unused"},
        [],
        world.finders,
    )
    importlib.import_module(NAME)
    assert states(session) == {"unused"}


def reloaded(world: World) -> None:
    """Patch and restore the objects of a reload, and the earlier objects as well, except the names of the module."""
    old = world.before
    with _patched(world):
        importlib.reload(world.module)
    assert world.before is not old
    assert [place for place in old.changed(world.moves()) if "." in place or "[" in place] == []


def imported_anew(world: World) -> None:
    """The module is dropped from sys.modules and imported again: both modules are patched and restored."""
    old = world.before
    with _patched(world):
        del sys.modules[NAME]
        importlib.import_module(NAME)
        assert set(old.changed()) == set(world.before.changed())
    assert world.before is not old
    assert old.changed(world.moves()) == []


SEEN_BY: Final = {
    "wrapt": ("death", "report"),
    "closure": ("death", "report", "one that opens", "one that closes"),
    "lambda": ("death", "report"),
    "wrapt-twice": ("report",),
    "mock": ("report",),  # in a cycle, so the garbage collector chooses the moment of death
}

PAIRS: Final = list(itertools.permutations(range(2)))

ORDERS: Final = [*PAIRS, *itertools.permutations(range(3))]

LATE: Final[dict[str, Callable[[World], Left]]] = {
    "imported": imported,
    "fails-first": failing_first,
    "replaces-itself": replacing_itself,
    "never-imported": never_imported,
}

_in = partial(functools.reduce, "{}{}".format)

ENDINGS: Final[dict[str, Callable[[World], Left]]] = {
    "normal": normal,
    **{error.__name__: partial(raising, error=error) for error in (ValueError, KeyboardInterrupt, SystemExit)},
    "undo-raises": undo_raises,
    "collected": collected,
    **{f"closed-{_in(order)}": partial(overlapping, order=order) for order in ORDERS},
    **{f"at-hand-closed-{_in(order)}": partial(by_two_ways, order=order) for order in PAIRS},
    **{
        f"subclass-opened-{_in(opened)}-closed-{_in(order)}": partial(through_subclass, opened=opened, order=order)
        for opened, order in itertools.product(PAIRS, PAIRS)
    },
    **{f"{kind}-off-before-us": partial(off_before_us, kind=kind) for kind in SEEN_BY},
    **{
        f"{kind}-off-after-us-seen-by-{seen_by.replace(' ', '-')}": partial(off_after_us, kind=kind, seen_by=seen_by)
        for kind, ways in SEEN_BY.items()
        for seen_by in ways
    },
    "beneath": beneath,
    "beneath-off-before-us": beneath_and_off_before_us,
    "deleted": deleted,
    "keys-added": keys_added,
    "reloaded": reloaded,
    "imported-anew": imported_anew,
    **LATE,
}
