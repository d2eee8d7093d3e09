"""Reloads: a patch holds in the new content of a module, and the end restores the new original values."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from importing import REAL_LOADERS, SOURCE, around, loaders, states

import hookpatch

MakeModule = Callable[[str, str], ModuleType]


# --- executed again


def test_reload_in_the_block_patches_the_new_and_restores_the_new(make_module: MakeModule) -> None:
    """After a reload the new function is patched, and the end restores the new function, not the old."""
    path = Path(str(make_module("again", SOURCE + "original = run\n").__file__))
    module = sys.modules["again"]
    before = module.run
    with hookpatch.active(hookpatch.wrap("again:run", around)) as session:
        path.write_text("def run():\n    return 'new'\noriginal = run\n")
        importlib.reload(module)
        assert module.run() == "patched(new)"
        assert loaders(module) == REAL_LOADERS
    assert module.run is module.original
    assert module.run() == "new"
    assert module.run is not before
    assert states(session) == ["restored"]


def test_reload_patches_classes_mappings_and_added_names_again(make_module: MakeModule) -> None:
    """Methods of the new class, entries of the new mapping and names that the source lacks are patched again."""
    module = make_module(
        "again", "class C:\n    def run(self):\n        return 'original'\nTABLE = {'a': 1, 'b': 2}\nLIMIT = 1000\n"
    )
    with hookpatch.active(
        hookpatch.wrap("again:C.run", around),
        hookpatch.remove("again:TABLE['a']"),
        hookpatch.replace("again:LIMIT", 5),
        hookpatch.replace("again:added", 6, add=True),
    ):
        old = module.C, module.TABLE
        for _ in range(2):
            importlib.reload(module)
            assert module.C is not old[0]
            assert module.C().run() == "patched(original)"
            assert (module.TABLE, module.LIMIT, module.added) == ({"b": 2}, 5, 6)
    new = module.C, module.TABLE
    for klass, table in (old, new):
        assert klass().run() == "original"
        assert list(table) == ["a", "b"]
    assert module.LIMIT == 1000
    assert not hasattr(module, "added")


def test_reload_with_two_sessions_open(make_module: MakeModule) -> None:
    """Both sessions hold after a reload; either can end first."""
    module = make_module("again", SOURCE + "original = run\n")
    for order in ((0, 1), (1, 0)):
        sessions = [hookpatch.active(hookpatch.wrap("again:run", around)).open() for _ in range(2)]
        importlib.reload(module)
        assert module.run() == "patched(patched(original))"
        sessions[order[0]].close()
        assert module.run() == "patched(original)"
        sessions[order[1]].close()
        assert module.run is module.original


def test_reload_after_the_end_is_not_patched(make_module: MakeModule) -> None:
    """A session that has ended hears of no reload."""
    module = make_module("again", SOURCE + "original = run\n")
    with hookpatch.active(hookpatch.wrap("again:run", around)):
        pass
    importlib.reload(module)
    assert module.run is module.original


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_module_imported_anew_is_patched_and_so_stays_the_old(make_module: MakeModule, reach: Any) -> None:
    """When a module is dropped from sys.modules and imported again, the old and the new are patched and restored."""
    old = make_module("again", SOURCE + "original = run\n")
    code = old.run.__code__
    with hookpatch.active(hookpatch.wrap("again:run", around, reach=reach)) as session:
        del sys.modules["again"]
        new = importlib.import_module("again")
        assert new is not old
        assert (old.run(), new.run()) == ("patched(original)", "patched(original)")
        assert states(session) == ["applied", "applied"]
    assert (old.run is old.original, new.run is new.original) == (True, True)
    assert old.run.__code__ is code
    assert (old.run(), new.run()) == ("original", "original")
    assert states(session) == ["restored", "restored"]


def test_reload_everywhere_patches_the_new_function_too(make_module: MakeModule) -> None:
    """With reach="everywhere" the function of before the reload and the new one are patched and restored."""
    module = make_module("again", SOURCE)
    old, code = module.run, module.run.__code__
    with hookpatch.active(hookpatch.wrap("again:run", around, reach="everywhere")):
        importlib.reload(module)
        new = module.run
        assert new is not old
        assert (old(), new()) == ("patched(original)", "patched(original)")
    assert (old(), new()) == ("original", "original")
    assert old.__code__ is code
    assert (vars(old), vars(new), old.__kwdefaults__, new.__kwdefaults__) == ({}, {}, None, None)


# --- odd imports, and concurrent changes


def test_function_taken_before_a_reload_passes_through_after_the_end(make_module: MakeModule) -> None:
    """A function taken before the reload stays patched until the end, and then calls the original."""
    module = make_module("again", SOURCE)
    with hookpatch.active(hookpatch.wrap("again:run", around)):
        leaked = module.run
        importlib.reload(module)
        assert leaked is not module.run
        assert leaked() == "patched(original)"
    assert leaked() == "original"


def test_reload_that_fails_half_way_leaves_the_patch_in_force(make_module: MakeModule, folder: Path) -> None:
    """A reload that raises half way leaves the new part patched; the end restores the new values."""
    source = "import os\n" + SOURCE + f"original = run\nif os.path.exists({str(folder / 'fail')!r}):\n    1 / 0\n"
    module = make_module("breaking", source)
    before = module.run
    with hookpatch.active(hookpatch.wrap("breaking:run", around)) as session:
        (folder / "fail").touch()
        with pytest.raises(ZeroDivisionError):
            importlib.reload(module)
        assert module.original is not before
        assert module.run() == "patched(original)"
        assert states(session) == ["applied"]
    assert module.run is module.original
    assert module.run() == "original"
    assert loaders(module) == REAL_LOADERS
    assert states(session) == ["restored"]
