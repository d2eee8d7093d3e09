"""Exactness: slots of every kind, patched by every verb that fits, hold after every ending what they held.

Each cell is a slot and a verb (cells.py), and each case a cell and an ending. After it all that lies within reach of
the module is compared with before (snapshot.py): the very keys and objects of every owner, and their order. Not
behaviour; that is for the tests of slots and sites.

What is not in the matrix, since there is no such thing:

- *inject* and *wrap* where nothing is called (a property, the descriptor of a member), any verb but *replace* where
  nothing is, *remove* of what is not the owner's own, or in a list, where its neighbours would move;
- a subclass through which a slot is named, where the slot is in no class that has one;
- a wrapper of somebody's over a name that we have removed, and what was ours coming to light again there;
- ``mock.patch`` in a list; what ends by deleting a method through a proxy, where ours goes with theirs; and the
  deletion of an attribute through a proxy, with which goes what was there before us;
- the deletion of what is in no place of the owner's own, and keys added to an object of ``__slots__``.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any, Final
from unittest import mock

import pytest
import targets
import wrapt
from cells import ALL, CALLS, CELLS, NAME, Cell, World, around
from snapshot import ABSENT, Snapshot

import hookpatch
from hookpatch import Target, _imports, errors
from hookpatch._sites import patched

# An ending returns the places that hold something else at its end, and what; none if all is as before.
Left = dict[str, Any] | None


def _states(*sessions: hookpatch.Session) -> set[str]:
    return {patch.state for session in sessions for patch in session.report()}


@contextmanager
def _patched(world: World) -> Iterator[hookpatch.Session]:
    with hookpatch.active(world.patch()) as session:
        yield session
        assert world.is_patched()
    assert _states(session) == {"restored"}


# --- ours alone


def normal(world: World) -> None:
    """The block ends."""
    with _patched(world):
        pass


def raising(world: World, error: type[BaseException]) -> None:
    """The block raises, and its error is the caller's."""
    with pytest.raises(error, match="the block"), hookpatch.active(world.patch()) as session:
        assert world.is_patched()
        raise error("the block")
    assert _states(session) == {"restored"}


def undo_raises(world: World) -> None:
    """Undos fail before and after ours: ours is done, and one RestoreError tells of both."""

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
    """Nobody closes the session: the garbage collector does, with a warning."""
    session = world.open()
    assert world.is_patched()
    with pytest.warns(ResourceWarning, match=r"was dropped unclosed; use it in a with statement$"):
        del session


def overlapping(world: World, order: tuple[int, ...]) -> None:
    """Two sessions by the same verb, or three of which the second puts a value."""
    verbs = ("", "") if len(order) == 2 else ("", "replace", "")
    _close([world.open(verb) for verb in verbs], order, world)


def by_two_ways(world: World, order: tuple[int, ...]) -> None:
    """One place, by its address and by its owner at hand."""
    _close([world.open(), world.open("", world.at_hand())], order, world)


def through_subclass(world: World, opened: tuple[int, ...], order: tuple[int, ...]) -> None:
    """One name, in the class and in a subclass that inherits it."""
    address = world.cell.address.replace("Child", "Grandchild")
    ways = [("", ""), ("replace" if world.cell.verb == "remove" else "", f"{NAME}:{address}")]
    _close([world.open(*ways[at]) for at in opened], order, world, address)


def _close(sessions: list[hookpatch.Session], order: tuple[int, ...], world: World, *also: str) -> None:
    for at in order:
        assert world.is_patched(world.cell.place, *also)
        sessions[at].close()
    assert _states(*sessions) == {"restored"}


# --- somebody else


def _wrapper(kind: str, below: Any) -> Any:
    """Return what somebody else puts over a value."""
    if kind == "wrapt":
        return wrapt.FunctionWrapper(below, around)
    if isinstance(below, (staticmethod, classmethod)):
        return type(below)(_wrapper(kind, below.__func__))
    theirs = lambda *args, **kwargs: below(*args, **kwargs)  # noqa: E731 - theirs, no function of a module
    return functools.wraps(below)(theirs) if kind == "closure" else theirs


def _cover(world: World, kind: str) -> Callable[[], None]:
    """Put somebody else's on; return what takes it off as they do: they put back what they had saved."""
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


def _end(session: hookpatch.Session, world: World, kind: str = "", found: Any = None) -> None:
    """Close a session, and look at what it says became of its patch.

    Args:
        session: the session.
        world: its slot.
        kind: what of somebody else's lies over it.
        found: what lay in the slot when it was patched, if that was not the module's own.
    """
    there, found = world.there(), world.original if found is None else found
    if world.cell.verb == "everywhere" or there is found:
        state = "restored"  # ours lay in the function, whatever lies in the slot; or nothing is to be put back
    elif kind.startswith("wrapt") and found is not ABSENT and not world.cell.is_forwarded:
        state = "unlinked"  # else there is nothing of the owner's own that theirs could wrap
    else:
        state = "dormant" if world.cell.verb in CALLS and there is not ABSENT else "displaced"
    with pytest.warns(errors.DisplacedWarning, match="left alone$") if state == "displaced" else nullcontext():
        session.close()
    assert _states(session) == {state}


def off_before_us(world: World, kind: str) -> None:
    """Theirs comes and goes while we are there."""
    session = world.open()
    _cover(world, kind)()
    assert world.is_patched()
    _end(session, world, found=world.there())


def off_after_us(world: World, kind: str, seen_by: str) -> Left:
    """Theirs stays when we end; a proxy of wrapt's, the inner one of two, wraps the original from then on.

    Then they put back what they had saved, which is ours and dead: the slot is given back at the next look.
    """
    other = hookpatch.active(hookpatch.replace(Target.attribute(SimpleNamespace(x=1), "x"), 2))
    World.opened.add(other)
    if seen_by == "one that closes":
        other.open()
    session = world.open()
    take_off = _cover(world, kind)
    theirs = world.there()
    _end(session, world, kind)
    assert world.before.changed(world.moves(by_others=world.cell.verb == "remove")) == [world.cell.place]
    assert world.there() is theirs
    if _states(session) == {"unlinked"}:
        assert (theirs.__wrapped__.__wrapped__ if kind == "wrapt-twice" else theirs.__wrapped__) is world.original
    if world.cell.verb == "remove":
        other.close()
        return {world.cell.place: theirs}  # it put nothing there that could come to light
    if seen_by == "death":
        del theirs  # it dies as soon as it is taken off
    take_off()
    if seen_by == "report" or world.has_setter:
        hookpatch.report()
    elif seen_by != "death":
        other.close() if seen_by == "one that closes" else other.open()
    assert world.before.changed(world.moves()) == []
    assert _states(session) == {"restored"}
    other.close()
    return None


def beneath(world: World) -> None:
    """Theirs lay there before us: we restore it."""
    take_off = _cover(world, "lambda")
    theirs = world.there()
    with hookpatch.active(world.patch()) as session:
        pass
    assert _states(session) == {"restored"}
    assert world.there() is theirs
    take_off()


def beneath_and_off_before_us(world: World) -> None:
    """Theirs lay there before us and is taken off over our heads: what they put there is left alone.

    When ours comes to light once more, it is theirs that is put back.
    """
    take_off = _cover(world, "lambda")
    theirs = world.there()
    session = world.open()
    ours = world.there()
    take_off()
    left = world.there()
    _end(session, world, found=theirs)
    assert world.there() is left
    if world.cell.verb not in ("remove", "everywhere"):
        world.put(ours)
        hookpatch.report()
        assert world.there() is theirs
        take_off()


def deleted(world: World) -> None:
    """Somebody deletes the name or key: it stays deleted. When he puts ours back, the slot is given back."""
    session = world.open()
    ours = world.there()
    world.put(ABSENT)
    left = world.before.now(world.cell.place)  # in a list the next one
    _end(session, world)
    assert world.there() is left
    if isinstance(world.owner, list):
        world.owner.insert(world.key % 3, ours)
    else:
        world.put(ours)
    hookpatch.report()
    assert _states(session) == {"restored"}


def keys_added(world: World) -> Left:
    """Somebody adds keys: they are kept, behind those that were there, in the order in which they came."""
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


# --- imports


def imported(world: World) -> None:
    """The module is imported while the session waits for it."""
    with _patched(world) as session:
        assert _states(session) == {"waiting"}
        importlib.import_module(NAME)


def failing_first(world: World) -> None:
    """Its first import fails: what is left of that is not patched."""

    def fail(module: ModuleType) -> None:
        targets.executed.remove(fail)
        raise ZeroDivisionError

    targets.executed.append(fail)
    with _patched(world) as session:
        with pytest.raises(ZeroDivisionError):
            importlib.import_module(NAME)
        assert (_states(session), world.before.changed()) == ({"waiting"}, [])
        importlib.import_module(NAME)


def replacing_itself(world: World) -> None:
    """It puts another module in its place in sys.modules: that is patched, and so is all that the two share."""
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
    """It is imported when the session has ended: the watch is gone."""
    with hookpatch.active(world.patch()) as session:
        pass
    assert (_states(session), _imports.watched(), sys.meta_path) == ({"unused"}, [], world.finders)
    importlib.import_module(NAME)
    assert _states(session) == {"unused"}


def reloaded(world: World) -> None:
    """What the reload makes is patched and restored; so is what was there before, but for the module's own names."""
    old = world.before
    with _patched(world):
        importlib.reload(world.module)
    assert world.before is not old
    assert [place for place in old.changed(world.moves()) if "." in place or "[" in place] == []


def imported_anew(world: World) -> None:
    """It is dropped from sys.modules and imported again: the old and the new are patched and restored."""
    old = world.before
    with _patched(world):
        del sys.modules[NAME]
        importlib.import_module(NAME)
        assert set(old.changed()) == set(world.before.changed())
    assert world.before is not old
    assert old.changed(world.moves()) == []


# --- the matrix

SEEN_BY: Final = {
    "wrapt": ("death", "report"),
    "closure": ("death", "report", "one that opens", "one that closes"),
    "lambda": ("death", "report"),
    "wrapt-twice": ("report",),
    "mock": ("report",),  # it lies in a cycle, and dies when the garbage collector likes
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


def _fits(cell: Cell, ending: str) -> bool:
    """Tell whether there is such a thing: see the list above."""
    if ending == "keys-added":
        return not cell.address.startswith("slotted.")
    if ending.startswith("subclass"):
        return cell.address.startswith("Child.") and cell.address.count(".") == 1
    if cell.address == "forwarding.method" and (ending.startswith("mock") or ending == "beneath-off-before-us"):
        return False  # where ours goes with theirs
    if ending.startswith("mock") and cell.address.startswith("rows"):
        return False
    if ending.endswith("death") and any(kind in cell.slot for kind in ("forwarded", "ObjectProxy", "OrderedDict")):
        return False  # while its own code sets it nothing is exchanged: the next look sees that theirs has gone
    if cell.verb == "remove":
        return ending.split("-")[0] not in ("wrapt", "closure", "deleted") and not ending.endswith("death")
    if ending != "deleted":
        return True
    is_own = cell.verb != "everywhere" or not ("inherited" in cell.slot or cell.address == "lazy")
    return is_own and cell.slot != "forwarded attribute"  # with which goes what was there before us


@pytest.fixture(autouse=True)
def _nothing_open() -> Iterator[None]:
    """Leave no patch of a test that fails, and no module."""
    yield
    targets.executed.clear()
    sys.modules.pop(NAME, None)
    for session in list(World.opened):
        with suppress(errors.RestoreError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session.close()


@pytest.mark.ends
@pytest.mark.parametrize(
    ("cell", "ending"),
    [pytest.param(cell, name, id=f"{cell}-{name}") for name in ENDINGS for cell in CELLS if _fits(cell, name)],
)
def test_slot_is_exact(cell: Cell, ending: str) -> None:
    """What was there is there again and nothing else, wherever nobody else has put something since."""
    world = World(cell, imported=ending not in LATE)
    left = ENDINGS[ending](world) or {}
    by_others = (cell.verb == "remove" and "after-us" in ending) or ending in ("beneath-off-before-us", "deleted")
    assert set(world.before.changed(world.moves(by_others))) == set(left)
    assert [place for place, value in left.items() if world.before.now(place) is not value] == []
    assert (sys.meta_path, _imports.watched(), patched()) == (world.finders, [], [])
    assert [vars(given) for given in world.given if vars(given)] == []


# --- ends of processes: this file is run as a script, in which there are no threads of a test run


def forked(cell: Cell) -> str:
    """Fork inside a session: return how child and parent fared, of which each ends its own."""
    world = World(cell)
    session = world.open()
    child = os.fork()
    status, well = os.waitpid(child, 0)[1] if child else 0, False
    try:
        was_patched = world.is_patched()  # in the parent after the child's end
        session.close()
        well = was_patched and world.before.changed(world.moves()) == [] and _states(session) == {"restored"}
    finally:
        if not child:
            os._exit(not well)
    return f"parent {well}, child {not status}"


def _main(status: str = "") -> None:
    if status:
        worlds = map(World, CELLS)  # at hand, since an address would patch the next world's module too
        sessions = [world.open("", world.at_hand()) for world in worlds]
        vars(targets)["kept"] = [*sessions, hookpatch.active(hookpatch.replace("never_imported:x", 1)).open()]
        sys.exit(int(status))
    found = {}
    for cell in CELLS:
        try:
            found[str(cell)] = forked(cell)
        except Exception as error:  # the others follow, and the cell's test shows it
            found[str(cell)] = repr(error)
    print(json.dumps(found))


@functools.cache
def _all_forked() -> dict[str, str]:
    done = subprocess.run([sys.executable, "-X", "dev", __file__], stdout=subprocess.PIPE, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_slot_is_exact_after_a_fork(cell: Cell) -> None:
    """A child that was forked inside a session and its parent each restore their own."""
    assert _all_forked()[str(cell)] == "parent True, child True"


@pytest.mark.parametrize("status", [0, 7])
def test_interpreter_ends_in_silence_with_its_status(status: int) -> None:
    """With a session open in every cell at once, and one that waits for a module."""
    command = [sys.executable, "-X", "dev", __file__, str(status)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", status)


# --- slots that take no patch

BUT_REPLACE: Final = (*CALLS, "derive", "remove")
REFUSED: Final = [  # where, the verbs, and what is said
    (f"{NAME}:shown['b']", ALL, f"{NAME}:shown is a read-only mappingproxy; patch what it shows instead"),
    (
        "builtins:dict.get",
        (*BUT_REPLACE, "replace"),
        "the {verb} raised TypeError: cannot set 'get' attribute of immutable type 'dict'",
    ),
    (f"{NAME}:lists['added']", BUT_REPLACE, f"{NAME}:lists has no key 'added'"),
    (f"{NAME}:Child.added", BUT_REPLACE, f"{NAME}:Child has no attribute 'added'"),
    (f"{NAME}:slotted.unset", BUT_REPLACE, f"{NAME}:slotted has no attribute 'unset'"),
]


@pytest.mark.parametrize(
    ("target", "verb", "problem"),
    [
        pytest.param(target, verb, problem, id=f"{target}-{verb}")
        for target, verbs, problem in REFUSED
        for verb in verbs
    ],
)
def test_slot_that_takes_no_patch_is_exact(target: str, verb: str, problem: str) -> None:
    """It is refused with the reason, and what was applied before it is taken back."""
    world, built_in = World(CELLS[0]), list(vars(dict).items())
    with pytest.raises(errors.ApplyError) as caught, hookpatch.active(world.patch(), world.patch(verb, target)):
        pytest.fail("the block must not run")
    assert str(caught.value) == f"{problem} (target {target} of a patch given to active())".format(
        verb=verb, target=target
    )
    assert (world.before.changed(), list(vars(dict).items())) == ([], built_in)
    assert (sys.meta_path, _imports.watched(), patched()) == (world.finders, [], [])


if __name__ == "__main__":
    _main(*sys.argv[1:])
