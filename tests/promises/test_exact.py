"""Exact restore: slots of every kind hold their original values after every verb and every ending.

Each cell is a slot and a verb (cells.py), and each case a cell and an ending. After the ending, snapshot.py compares
all objects within reach of the module with before: the very keys and values of every owner, and their order. The
behaviour of the values is tested with slots and sites.

The matrix leaves out impossible cases:

- *inject* and *wrap* of a slot that cannot be called (a property, the descriptor of a member);
- any verb but *replace* of an absent name;
- *remove* of an inherited name, or in a list, where the neighbours would move;
- a subclass, if the slot is in no class with a subclass;
- a foreign wrapper over a removed name, and the return of our wrapper at a removed name;
- ``mock.patch`` in a list, and of a method behind a proxy: its end deletes the method, ours with the foreign value;
- the deletion of an attribute behind a proxy: the original is deleted, too;
- the deletion of an inherited name, and keys added to an object of ``__slots__``.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pytest
import targets
from cells import ALL, CALLS, CELLS, NAME, Cell, World
from endings import ENDINGS, LATE, states
from environments import ROOT
from layers import HIDES_PATCHES
from watching import watched

import hookpatch
from hookpatch import errors
from hookpatch._engine.site.sites import patched

# --- the matrix


def _fits(cell: Cell, ending: str) -> bool:
    """Return True if an ending applies to a cell; the module's docstring lists the exceptions."""
    if ending == "keys-added":
        return not cell.address.startswith("slotted.")
    if ending.startswith("subclass"):
        return cell.address.startswith("Child.") and cell.address.count(".") == 1
    if cell.address == "forwarding.method" and (ending.startswith("mock") or ending == "beneath-off-before-us"):
        return False  # where ours goes with theirs
    if ending.startswith("mock") and cell.address.startswith("rows"):
        return False
    if ending.endswith("death") and any(kind in cell.slot for kind in ("forwarded", "ObjectProxy", "OrderedDict")):
        return False  # no exchange inside the owner's own setter: the next look restores the slot
    if cell.verb == "remove":
        return ending.split("-")[0] not in ("wrapt", "closure", "deleted") and not ending.endswith("death")
    if ending != "deleted":
        return True
    return cell.slot != "forwarded attribute"  # whose deletion also removes the earlier value


@pytest.fixture(autouse=True)
def _nothing_open() -> Iterator[None]:
    """Leave neither a patch nor a module of a failed test."""
    yield
    targets.executed.clear()
    sys.modules.pop(NAME, None)
    for session in list(World.opened):
        with suppress(errors.RestoreError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session.close()


@pytest.mark.ends
@HIDES_PATCHES
@pytest.mark.parametrize(
    ("cell", "ending"),
    [pytest.param(cell, name, id=f"{cell}-{name}") for name in ENDINGS for cell in CELLS if _fits(cell, name)],
)
def test_slot_is_exact(cell: Cell, ending: str) -> None:
    """The slot holds its original afterwards, unless other code has written another value."""
    world = World(cell, imported=ending not in LATE)
    leftovers = ENDINGS[ending](world) or {}
    by_others = (cell.verb == "remove" and "after-us" in ending) or ending in ("beneath-off-before-us", "deleted")
    assert set(world.before.changed(world.moves(by_others))) == set(leftovers)
    assert [place for place, value in leftovers.items() if world.before.now(place) is not value] == []
    assert (sys.meta_path, watched(), patched()) == (world.finders, [], [])
    assert [vars(value) for value in world.given if vars(value)] == []


# --- ends of processes: this file runs as a script, without threads of a test run


def forked(cell: Cell) -> str:
    """Fork inside a session: return the outcome of child and parent, each with its own end."""
    world = World(cell)
    session = world.open()
    child = os.fork()
    status, well = os.waitpid(child, 0)[1] if child else 0, False
    try:
        was_patched = world.is_patched()  # in the parent after the child's end
        session.close()
        well = was_patched and world.before.changed(world.moves()) == [] and states(session) == {"restored"}
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
    outcomes = {}
    for cell in CELLS:
        try:
            outcomes[str(cell)] = forked(cell)
        except Exception as error:  # the others follow, and the cell's test shows the error
            outcomes[str(cell)] = repr(error)
    print(json.dumps(outcomes))


ENVIRONMENT: Final = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}  # with the modules of tests/


@functools.cache
def _all_forked() -> dict[str, str]:
    completed = subprocess.run(
        [sys.executable, "-X", "dev", __file__], env=ENVIRONMENT, stdout=subprocess.PIPE, check=True
    )
    outcomes: dict[str, str] = json.loads(completed.stdout)
    return outcomes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_slot_is_exact_after_a_fork(cell: Cell) -> None:
    """A child process forked inside a session and its parent each restore their slots."""
    assert _all_forked()[str(cell)] == "parent True, child True"


@pytest.mark.parametrize("status", [0, 7])
def test_interpreter_ends_in_silence_with_its_status(status: int) -> None:
    """The interpreter ends silently with an open session in every cell, and a session waiting for a module."""
    command = [sys.executable, "-X", "dev", __file__, str(status)]
    completed = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (completed.stdout, completed.stderr, completed.returncode) == ("", "", status)


# --- refused slots

BUT_REPLACE: Final = (*CALLS, "derive", "remove")

REFUSED: Final = [  # the slot, the verbs, and the message
    (f"{NAME}:shown['b']", ALL, f"{NAME}:shown is a read-only mappingproxy; patch the mapping or list behind it"),
    (
        "builtins:dict.get",
        (*BUT_REPLACE, "replace"),
        "builtins:dict.get is of a class written in C, which cannot be changed; put a subclass in place of the class, "
        "with hookpatch.derive where builtins:dict is used",
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
    """A refused slot has a reason, and earlier patches are restored."""
    world, built_in = World(CELLS[0]), list(vars(dict).items())
    with pytest.raises(errors.ApplyError) as caught, hookpatch.active(world.patch(), world.patch(verb, target)):
        pytest.fail("the block must not run")
    assert str(caught.value) == f"{problem} (target {target} of a patch given to active())".format(
        verb=verb, target=target
    )
    assert (world.before.changed(), list(vars(dict).items())) == ([], built_in)
    assert (sys.meta_path, watched(), patched()) == (world.finders, [], [])


if __name__ == "__main__":
    _main(*sys.argv[1:])
