"""Imports: a patch waits for its module, follows every execution of it, and leaves no trace on it."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch import _imports, errors

WriteModule = Callable[[str, str], Path]
MakeModule = Callable[[str, str], ModuleType]

SOURCE = "def run():\n    return 'original'\n"


@pytest.fixture(autouse=True)
def _no_compiled_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that are rewritten within a second must not be taken from __pycache__."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def _around(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> str:
    return f"patched({wrapped(*args, **kwargs)})"


def _states(session: hookpatch.Session) -> list[str]:
    return [patch.state for patch in session.report()]


def _loaders(module: ModuleType) -> tuple[type, type, type]:
    return type(module.__spec__), type(getattr(module.__spec__, "loader", None)), type(module.__loader__)


REAL_LOADERS = (ModuleSpec, SourceFileLoader, SourceFileLoader)


# --- modules that come later


def test_module_imported_in_the_block_is_patched_and_restored(write_module: WriteModule) -> None:
    """A patch of a module that is not imported yet waits, is applied at its import, and is restored at the end."""
    write_module("later", SOURCE + "original = run\n")
    with hookpatch.active(hookpatch.wrap("later:run", _around)) as session:
        assert "later" not in sys.modules
        assert _states(session) == ["waiting"]
        later = importlib.import_module("later")
        assert later.run() == "patched(original)"
        assert _states(session) == ["applied"]
    assert later.run is later.original
    assert _states(session) == ["restored"]


def test_opening_imports_nothing(write_module: WriteModule) -> None:
    """Neither a target's module nor its package is imported by opening a session."""
    write_module("sleeping.deep.module", "raise AssertionError('imported')\n")
    before = set(sys.modules)
    with hookpatch.active(hookpatch.wrap("sleeping.deep.module:run", _around)) as session:
        assert {name for name in set(sys.modules) - before if name.startswith("sleeping")} == set()
    assert _states(session) == ["unused"]


def test_module_never_imported_is_reported_unused() -> None:
    """A patch whose module never came says so."""
    with hookpatch.active(hookpatch.wrap("never_there:run", _around)) as session:
        pass
    assert [(patch.state, patch.reason) for patch in session.report()] == [("unused", "never_there was never imported")]


@pytest.mark.parametrize(
    "statement", ["import pkg.sub.deep", "from pkg.sub import deep", "from pkg.sub.deep import run", "import pkg.all"]
)
def test_every_way_of_importing_a_submodule(write_module: WriteModule, statement: str) -> None:
    """However a submodule comes to be imported, the patch is there when the statement ends."""
    write_module("pkg.sub.deep", SOURCE)
    write_module("pkg.all", "from pkg.sub import deep\nfrom pkg.sub.deep import run\n")
    with hookpatch.active(hookpatch.wrap("pkg.sub.deep:run", _around)):
        scope: dict[str, Any] = {}
        exec(statement, scope)
        assert sys.modules["pkg.sub.deep"].run() == "patched(original)"
        if "run" in scope:
            assert scope["run"]() == "patched(original)"
        if statement == "import pkg.all":
            assert scope["pkg"].all.run() == "patched(original)"
    assert sys.modules["pkg.sub.deep"].run() == "original"


def test_name_imported_from_a_patched_module_passes_through_after_the_end(write_module: WriteModule) -> None:
    """A module that did ``from later import run`` in the block calls the original after it."""
    write_module("later", SOURCE)
    write_module("importer", "from later import run\n")
    with hookpatch.active(hookpatch.wrap("later:run", _around)):
        importer = importlib.import_module("importer")
        assert importer.run() == "patched(original)"
    assert importer.run() == "original"


def test_package_and_its_submodule_are_both_patched(write_module: WriteModule) -> None:
    """Patches of a package and of a module that it imports itself are both there."""
    write_module("pkg.sub", SOURCE)
    (Path(str(write_module("pkg.other", "")))).parent.joinpath("__init__.py").write_text(
        "from pkg import sub\n" + SOURCE
    )
    with hookpatch.active(hookpatch.wrap("pkg:run", _around), hookpatch.wrap("pkg.sub:run", _around)):
        pkg = importlib.import_module("pkg")
        assert (pkg.run(), pkg.sub.run()) == ("patched(original)", "patched(original)")
    assert (pkg.run(), pkg.sub.run()) == ("original", "original")


def test_two_sessions_wait_for_one_module_and_end_in_either_order(write_module: WriteModule) -> None:
    """Two sessions that wait for one module both get it; the later opened lies outside."""
    for name, order in (("either_a", (0, 1)), ("either_b", (1, 0))):
        write_module(name, SOURCE + "original = run\n")
        sessions = [
            hookpatch.active(hookpatch.wrap(f"{name}:run", lambda w, i, a, k, tag=tag: f"{tag}({w()})")).open()
            for tag in "ab"
        ]
        module = importlib.import_module(name)
        assert module.run() == "b(a(original))"
        sessions[order[0]].close()
        assert module.run() == f"{'ab'[order[1]]}(original)"
        sessions[order[1]].close()
        assert module.run is module.original


def test_built_in_and_extension_modules_can_be_waited_for() -> None:
    """Modules without a Python source are patched when they are imported."""
    code = """
        import sys, hookpatch
        for name in ("_bisect", "_heapq", "colorsys", "zipimport"):
            sys.modules.pop(name, None)
        wrapper = lambda w, i, a, k: ("patched", w(*a, **k))
        with hookpatch.active(hookpatch.wrap("_bisect:bisect_left", wrapper), hookpatch.replace("_heapq:__about__", 1)):
            import _bisect, _heapq
            print(_bisect.bisect_left([1, 2], 2), _heapq.__about__)
        print(_bisect.bisect_left([1, 2], 2))
    """
    assert _python(code) == "('patched', 1) 1\n1\n"


def test_module_imported_lazily_is_patched_when_it_is_executed(write_module: WriteModule) -> None:
    """With importlib's LazyLoader the patch is applied at the first use of the module."""
    write_module("lazily", SOURCE)
    with hookpatch.active(hookpatch.wrap("lazily:run", _around)) as session:
        spec = importlib.util.find_spec("lazily")
        assert spec is not None
        assert spec.loader is not None
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = importlib.util.module_from_spec(spec)
        sys.modules["lazily"] = module
        spec.loader.exec_module(module)
        assert _states(session) == ["waiting"]
        assert module.run() == "patched(original)"
        assert type(module.__loader__) is SourceFileLoader
    assert module.run() == "original"


def test_namespace_package_is_patched_when_it_is_imported(folder: Path) -> None:
    """A package without a file of its own is heard of too, and its spec is as it was."""
    (folder / "nameless").mkdir()
    importlib.invalidate_caches()
    with hookpatch.active(hookpatch.replace("nameless:x", 1)) as session:
        nameless = importlib.import_module("nameless")
        assert nameless.x == 1
    assert "x" not in vars(nameless)
    assert type(nameless.__spec__) is ModuleSpec
    assert _states(session) == ["restored"]
    del sys.modules["nameless"]


# --- executed again


def test_reload_in_the_block_patches_the_new_and_restores_the_new(make_module: MakeModule) -> None:
    """After a reload the new function is patched, and the end restores the new one, not that of before."""
    path = Path(str(make_module("again", SOURCE + "original = run\n").__file__))
    module = sys.modules["again"]
    before = module.run
    with hookpatch.active(hookpatch.wrap("again:run", _around)) as session:
        path.write_text("def run():\n    return 'new'\noriginal = run\n")
        importlib.reload(module)
        assert module.run() == "patched(new)"
        assert _loaders(module) == REAL_LOADERS
    assert module.run is module.original
    assert module.run() == "new"
    assert module.run is not before
    assert _states(session) == ["restored"]


def test_reload_patches_classes_mappings_and_added_names_again(make_module: MakeModule) -> None:
    """Methods of the new class, entries of the new mapping and names that the source lacks are patched again."""
    module = make_module(
        "again", "class C:\n    def run(self):\n        return 'original'\nTABLE = {'a': 1, 'b': 2}\nLIMIT = 1000\n"
    )
    with hookpatch.active(
        hookpatch.wrap("again:C.run", _around),
        hookpatch.remove("again:TABLE['a']"),
        hookpatch.replace("again:LIMIT", 5),
        hookpatch.replace("again:added", 6),
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
        sessions = [hookpatch.active(hookpatch.wrap("again:run", _around)).open() for _ in range(2)]
        importlib.reload(module)
        assert module.run() == "patched(patched(original))"
        sessions[order[0]].close()
        assert module.run() == "patched(original)"
        sessions[order[1]].close()
        assert module.run is module.original


def test_reload_after_the_end_is_not_patched(make_module: MakeModule) -> None:
    """A session that has ended hears of no reload."""
    module = make_module("again", SOURCE + "original = run\n")
    with hookpatch.active(hookpatch.wrap("again:run", _around)):
        pass
    importlib.reload(module)
    assert module.run is module.original


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_module_imported_anew_is_patched_and_so_stays_the_old(make_module: MakeModule, reach: Any) -> None:
    """When a module is dropped from sys.modules and imported again, the old and the new are patched and restored."""
    old = make_module("again", SOURCE + "original = run\n")
    code = old.run.__code__
    with hookpatch.active(hookpatch.wrap("again:run", _around, reach=reach)) as session:
        del sys.modules["again"]
        new = importlib.import_module("again")
        assert new is not old
        assert (old.run(), new.run()) == ("patched(original)", "patched(original)")
        assert _states(session) == ["applied", "applied"]
    assert (old.run is old.original, new.run is new.original) == (True, True)
    assert old.run.__code__ is code
    assert (old.run(), new.run()) == ("original", "original")
    assert _states(session) == ["restored", "restored"]


def test_reload_everywhere_patches_the_new_function_too(make_module: MakeModule) -> None:
    """With reach="everywhere" the function of before the reload and the new one are patched and restored."""
    module = make_module("again", SOURCE)
    old, code = module.run, module.run.__code__
    with hookpatch.active(hookpatch.wrap("again:run", _around, reach="everywhere")):
        importlib.reload(module)
        new = module.run
        assert new is not old
        assert (old(), new()) == ("patched(original)", "patched(original)")
    assert (old(), new()) == ("original", "original")
    assert old.__code__ is code
    assert (vars(old), vars(new), old.__kwdefaults__, new.__kwdefaults__) == ({}, {}, None, None)


def test_module_that_fails_to_import_the_first_time(write_module: WriteModule, folder: Path) -> None:
    """A failing import raises its own error and patches nothing; the next one that succeeds is patched."""
    write_module("flaky", f"import os\nif not os.path.exists({str(folder / 'ready')!r}):\n    1 / 0\n{SOURCE}")
    with hookpatch.active(hookpatch.wrap("flaky:run", _around)) as session:
        with pytest.raises(ZeroDivisionError):
            importlib.import_module("flaky")
        assert "flaky" not in sys.modules
        assert _states(session) == ["waiting"]
        (folder / "ready").touch()
        flaky = importlib.import_module("flaky")
        assert flaky.run() == "patched(original)"
    assert flaky.run() == "original"
    assert _loaders(flaky) == REAL_LOADERS


def test_undos_of_one_patch_that_fail_are_all_in_the_restore_error(make_module: MakeModule) -> None:
    """One patch on a module of before and after a new import: when both undos fail, RestoreError holds both."""
    old = make_module(
        "again",
        """
        class Stubborn(type):
            def __setattr__(cls, name, value):
                if name == "x" and "locked" in vars(cls):
                    raise RuntimeError("x is locked")
                super().__setattr__(name, value)
        class C(metaclass=Stubborn):
            x = 1
        """,
    )
    session = hookpatch.active(hookpatch.replace("again:C.x", 2)).open()
    del sys.modules["again"]
    new = importlib.import_module("again")
    old.C.locked = new.C.locked = True
    with pytest.raises(errors.RestoreError) as caught:
        session.close()
    assert [str(error) for error in caught.value.exceptions] == ["x is locked"] * 2
    assert _states(session) == ["failed", "failed"]


# --- modules that are half imported


def test_module_half_imported_at_entry_is_patched_when_its_import_ends(write_module: WriteModule) -> None:
    """A session opened while the module's own code runs waits for its end: nothing half made is patched."""
    write_module("half", "import opener\nopener.open()\ninside = 'run' in globals()\n" + SOURCE + "seen = run()\n")
    write_module(
        "opener",
        """
        import hookpatch
        def open():
            global session
            session = hookpatch.active(hookpatch.wrap("half:run", lambda w, i, a, k: f"patched({w()})")).open()
        """,
    )
    half = importlib.import_module("half")
    session = sys.modules["opener"].session
    assert half.seen == "original"
    assert half.run() == "patched(original)"
    assert _loaders(half) == REAL_LOADERS
    session.close()
    assert half.run() == "original"
    assert _loaders(half) == REAL_LOADERS


def test_session_closed_while_its_module_is_half_imported(write_module: WriteModule) -> None:
    """When the session ends before the import does, the module is never patched and its spec is as it was."""
    write_module(
        "half",
        "import hookpatch\n"
        "session = hookpatch.active(hookpatch.wrap('half:run', lambda w, i, a, k: 'patched')).open()\n"
        "session.close()\n" + SOURCE,
    )
    half = importlib.import_module("half")
    assert half.run() == "original"
    assert _loaders(half) == REAL_LOADERS
    assert _states(half.session) == ["unused"]
    assert "_initializing" not in vars(type(half.__spec__))


def test_half_imported_module_that_fails_is_patched_when_it_succeeds(write_module: WriteModule, folder: Path) -> None:
    """When the import under way at entry fails, the next one is patched."""
    write_module(
        "half",
        f"import os, opener\nopener.open()\nif not os.path.exists({str(folder / 'ready')!r}):\n    1 / 0\n{SOURCE}",
    )
    write_module(
        "opener",
        """
        import hookpatch
        session = None
        def open():
            global session
            if session is None:
                session = hookpatch.active(hookpatch.wrap("half:run", lambda w, i, a, k: f"patched({w()})")).open()
        """,
    )
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("half")
    (folder / "ready").touch()
    half = importlib.import_module("half")
    assert half.run() == "patched(original)"
    sys.modules["opener"].session.close()
    assert half.run() == "original"


def test_cycle_of_imports_is_patched(write_module: WriteModule) -> None:
    """Two modules that import each other are both patched when the outer import ends."""
    write_module("cycle_a", "import cycle_b\n" + SOURCE)
    write_module("cycle_b", "import cycle_a\n" + SOURCE)
    with hookpatch.active(hookpatch.wrap("cycle_a:run", _around), hookpatch.wrap("cycle_b:run", _around)):
        a = importlib.import_module("cycle_a")
        assert (a.run(), a.cycle_b.run()) == ("patched(original)", "patched(original)")
    assert (a.run(), a.cycle_b.run()) == ("original", "original")


def test_module_that_replaces_itself_in_sys_modules(write_module: WriteModule) -> None:
    """What a module puts in its place is patched, not the module that is thrown away."""
    write_module(
        "swapped",
        """
        import sys, types
        class Face(types.ModuleType):
            def run(self):
                return "method"
        face = Face(__name__)
        face.run = lambda: "original"
        sys.modules[__name__] = face
        """,
    )
    with hookpatch.active(hookpatch.wrap("swapped:run", _around)):
        swapped = importlib.import_module("swapped")
        assert type(swapped).__name__ == "Face"
        assert swapped.run() == "patched(original)"
        with hookpatch.active(hookpatch.wrap("swapped:run", _around)):
            assert swapped.run() == "patched(patched(original))"
    assert swapped.run() == "original"


def test_lazy_face_of_a_package_is_refused_with_the_address_to_use(write_module: WriteModule) -> None:
    """A name that a self-replacing module fetches on demand is refused: patch it where it is defined."""
    write_module("lazy_pkg.defined", "class Model:\n    pass\n").parent.joinpath("__init__.py").write_text(
        "import sys, types, importlib\n"
        "class Lazy(types.ModuleType):\n"
        "    def __getattr__(self, name):\n"
        "        if name == 'Model':\n"
        "            value = importlib.import_module('lazy_pkg.defined').Model\n"
        "            setattr(self, name, value)\n"
        "            return value\n"
        "        raise AttributeError(name)\n"
        "face = Lazy(__name__)\n"
        "face.__path__, face.__spec__ = __path__, __spec__\n"
        "sys.modules[__name__] = face\n"
    )
    importlib.import_module("lazy_pkg")
    with pytest.raises(errors.TargetRefused) as caught, hookpatch.active(hookpatch.replace("lazy_pkg:Model", 1)):
        pass
    assert str(caught.value) == (
        "module lazy_pkg fetches 'Model' lazily and may be replaced at any import; take the address where it is "
        "defined: lazy_pkg.defined:Model (target lazy_pkg:Model of a patch given to active())"
    )


# --- what the module sees


def test_module_sees_its_real_loader_during_and_after(write_module: WriteModule) -> None:
    """__loader__ and __spec__.loader are the real ones while the module's code runs, and afterwards."""
    path = write_module("looking", SOURCE + "import inspect\nseen = __loader__, __spec__.loader\n")
    with hookpatch.active(hookpatch.wrap("looking:run", _around)):
        looking = importlib.import_module("looking")
        assert _loaders(looking) == REAL_LOADERS
        assert looking.seen[0] is looking.__loader__
        assert looking.seen[1] is looking.__spec__.loader is looking.__loader__
        assert inspect.getsource(looking) == path.read_text()
    assert _loaders(looking) == REAL_LOADERS


def test_module_has_the_attributes_that_it_has_without_us(write_module: WriteModule) -> None:
    """A module imported under a watch has the same names in the same order, the same spec, path and file."""
    write_module("watched_pkg.mod", SOURCE)
    plain = importlib.import_module("watched_pkg.mod")
    for name in ("watched_pkg", "watched_pkg.mod"):
        del sys.modules[name]
    with hookpatch.active(hookpatch.wrap("watched_pkg.mod:run", _around), hookpatch.replace("watched_pkg:x", 1)):
        module = importlib.import_module("watched_pkg.mod")
    assert module is not plain
    assert list(vars(module)) == list(vars(plain))
    assert repr(module) == repr(plain)
    assert vars(module.__spec__).keys() == vars(plain.__spec__).keys()
    for attribute in ("name", "origin", "cached", "parent", "has_location", "submodule_search_locations"):
        assert getattr(module.__spec__, attribute) == getattr(plain.__spec__, attribute)


def test_find_spec_imports_nothing_and_answers_as_the_real_loader(write_module: WriteModule) -> None:
    """Asking for the spec of a watched module imports nothing; its loader gives source and code."""
    path = write_module("asked", "raise AssertionError('imported')\n")
    with hookpatch.active(hookpatch.wrap("asked:run", _around)):
        spec = importlib.util.find_spec("asked")
        assert spec is not None
        assert spec.origin == str(path)
        loader: Any = spec.loader
        assert loader.get_source("asked") == path.read_text()
        assert loader.get_code("asked").co_filename == str(path)
        assert loader.is_package("asked") is False
        assert importlib.util.find_spec("not_there_at_all") is None
    assert "asked" not in sys.modules


def test_missing_module_is_the_error_of_python(folder: Path) -> None:
    """Importing a watched module that does not exist is Python's own error."""
    with (
        pytest.raises(ModuleNotFoundError, match="No module named 'not_there'"),
        hookpatch.active(hookpatch.wrap("not_there:run", _around)),
    ):
        importlib.import_module("not_there")


# --- the finder and its watches


def test_finder_is_there_only_while_something_is_watched() -> None:
    """sys.meta_path is the same list with the same entries before and after, and has one more between."""
    meta_path, before = sys.meta_path, list(sys.meta_path)
    first = hookpatch.active(hookpatch.replace("never_a:x", 1), children="local").open()
    second = hookpatch.active(hookpatch.replace("never_b:x", 1), children="local").open()
    assert len(sys.meta_path) == len(before) + 1
    assert _imports.watched() == ["never_a", "never_b"]
    first.close()
    assert len(sys.meta_path) == len(before) + 1
    second.close()
    assert sys.meta_path is meta_path
    assert sys.meta_path == before
    assert _imports.watched() == []


def test_who_listens_hears_as_long_as_somebody_holds_the_finder(write_module: WriteModule) -> None:
    """To listen is no reason for the finder to be there: that goes with the last who holds it."""
    write_module("listened_to", SOURCE)
    heard: list[ModuleType] = []
    _imports.listen("listened_to", heard.append)
    before = list(sys.meta_path)
    module = importlib.import_module("listened_to")
    assert not heard
    _imports.hold()
    _imports.hold()
    assert importlib.reload(module) is module
    assert heard == [module]
    assert _imports.watched() == []
    _imports.release()
    del sys.modules["listened_to"]
    anew = importlib.import_module("listened_to")
    assert _loaders(anew) == REAL_LOADERS
    assert heard == [module, anew]
    _imports.release()
    assert sys.meta_path == before
    importlib.reload(anew)
    assert heard == [module, anew]


def test_finder_is_gone_when_entering_failed() -> None:
    """A session that could not be opened leaves no watch and no finder."""
    before = list(sys.meta_path)
    with (
        pytest.raises(errors.ApplyError),
        hookpatch.active(hookpatch.replace("never_a:x", 1), hookpatch.remove("string:not_there")),
    ):
        pass
    assert sys.meta_path == before
    assert _imports.watched() == []


def test_objects_at_hand_need_no_finder() -> None:
    """A patch that names no module watches none."""
    before = list(sys.meta_path)
    with hookpatch.active(hookpatch.replace(hookpatch.Target.item({}, "k"), 1), children="local"):
        assert sys.meta_path == before


def test_cancelled_watch_never_fires(write_module: WriteModule) -> None:
    """A watch that was cancelled hears of nothing; cancelling twice does no harm; others go on."""
    write_module("later", SOURCE)
    told: list[str] = []
    cancelled = _imports.watch("later", lambda module: told.append("cancelled"))
    kept = _imports.watch("later", lambda module: told.append("kept"))
    assert repr(cancelled) == "<Watch of later, waiting>"
    cancelled.cancel()
    cancelled.cancel()
    later = importlib.import_module("later")
    assert told == ["kept"]
    kept.cancel()
    importlib.reload(later)
    assert told == ["kept"]
    assert repr(kept) == "<Watch of later, cancelled>"


def test_watch_cancelled_by_an_earlier_one_does_not_fire(write_module: WriteModule) -> None:
    """A watch cancelled while the module's import is being told is not told any more."""
    write_module("later", SOURCE)
    told: list[str] = []

    def first(module: ModuleType) -> None:
        told.append("first")
        second.cancel()

    one = _imports.watch("later", first)
    second = _imports.watch("later", lambda module: told.append("second"))
    importlib.import_module("later")
    one.cancel()
    assert told == ["first"]


def test_watch_hears_of_each_execution_with_the_live_module(write_module: WriteModule) -> None:
    """A watch is told once for each import and reload, with what is in sys.modules."""
    write_module("later", SOURCE)
    told: list[ModuleType] = []
    watch = _imports.watch("later", told.append)
    first = importlib.import_module("later")
    importlib.import_module("later")
    importlib.reload(first)
    del sys.modules["later"]
    second = importlib.import_module("later")
    watch.cancel()
    assert [module is expected for module, expected in zip(told, [first, first, second], strict=True)] == [True] * 3


def test_one_watch_that_raises_keeps_no_other_from_its_module(write_module: WriteModule) -> None:
    """All watches are told, then the first error is raised in the import, which can be tried again."""
    write_module("later", SOURCE)
    told: list[str] = []

    def fail(name: str) -> Callable[[ModuleType], None]:
        def arrival(module: ModuleType) -> None:
            told.append(name)
            if len(told) <= 3:
                raise KeyError(name)

        return arrival

    watches = [_imports.watch("later", fail(name)) for name in "abc"]
    with pytest.raises(KeyError, match="a"):
        importlib.import_module("later")
    assert told == ["a", "b", "c"]
    assert "later" not in sys.modules
    later = importlib.import_module("later")
    assert told == ["a", "b", "c"] * 2
    assert _loaders(later) == REAL_LOADERS
    for watch in watches:
        watch.cancel()


def test_deferred_patch_that_fails_does_not_break_the_import(write_module: WriteModule) -> None:
    """When a patch does not fit a module imported later, the import goes on with a warning; the others are applied."""
    write_module("later", SOURCE)
    with hookpatch.active(hookpatch.wrap("later:missing", _around), hookpatch.wrap("later:run", _around)) as session:
        with pytest.warns(errors.PatchFailedWarning) as caught:
            later = importlib.import_module("later")
        assert later.run() == "patched(original)"
        assert _states(session) == ["failed", "applied"]
    assert [str(warning.message) for warning in caught] == [
        "not patched: later has no attribute 'missing' (target later:missing of a patch given to active())"
    ]
    assert later.run() == "original"
    assert _states(session) == ["failed", "restored"]


def test_deferred_patch_that_is_not_required_is_skipped(write_module: WriteModule) -> None:
    """A patch with required=False that does not fit is skipped with its reason, without a warning."""
    write_module("later", SOURCE)
    with hookpatch.active(hookpatch.wrap("later:missing", _around, required=False)) as session:
        importlib.import_module("later")
    (patch,) = session.report()
    assert (patch.state, patch.reason) == (
        "skipped",
        "later has no attribute 'missing' (target later:missing of a patch given to active())",
    )


def test_finder_of_somebody_else_in_front_still_finds(
    write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finder that was put before ours and finds nothing is asked as Python asks it, and the patch is applied."""
    write_module("later", SOURCE)

    class Front:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            return None

    with hookpatch.active(hookpatch.wrap("later:run", _around)):
        monkeypatch.setattr(sys, "meta_path", [Front, *sys.meta_path])
        assert importlib.import_module("later").run() == "patched(original)"
        monkeypatch.undo()


# --- enter


@contextmanager
def _entered(log: list[Any], module: ModuleType) -> Iterator[None]:
    log.append(("enter", module, module.run()))
    try:
        yield
    finally:
        log.append(("leave", module, module.run()))


def _kinds(log: list[Any]) -> list[str]:
    return [kind for kind, _, _ in log]


def test_enter_enters_at_once_when_the_module_is_there(make_module: MakeModule) -> None:
    """enter gets the module itself and leaves at the end, once."""
    module, log = make_module("entered", SOURCE), []
    session = hookpatch.active(hookpatch.enter("entered", lambda m: _entered(log, m))).open()
    assert log == [("enter", module, "original")]
    session.close()
    session.close()
    assert log == [("enter", module, "original"), ("leave", module, "original")]
    assert _states(session) == ["restored"]


def test_enter_waits_for_its_module(write_module: WriteModule) -> None:
    """enter runs when the module has been imported, to its end; without an import it never runs."""
    write_module("entered", SOURCE)
    log: list[Any] = []
    with hookpatch.active(hookpatch.enter("entered", lambda m: _entered(log, m))) as session:
        assert (log, _states(session)) == ([], ["waiting"])
        module = importlib.import_module("entered")
        assert log == [("enter", module, "original")]
    assert _kinds(log) == ["enter", "leave"]
    with hookpatch.active(hookpatch.enter("never_entered", lambda m: _entered(log, m))):
        pass
    assert _kinds(log) == ["enter", "leave"]


def test_enter_is_left_and_entered_again_at_a_reload(make_module: MakeModule) -> None:
    """When the module is executed anew, what was entered is left, and entered for the new content."""
    module, log = make_module("entered", SOURCE), []
    with hookpatch.active(hookpatch.enter("entered", lambda m: _entered(log, m))) as session:
        importlib.reload(module)
        assert _kinds(log) == ["enter", "leave", "enter"]
        assert _states(session) == ["applied"]
    assert _kinds(log) == ["enter", "leave", "enter", "leave"]


def test_enter_that_fails_restores_what_was_applied(make_module: MakeModule) -> None:
    """When entering raises, the session is not opened, and what was applied or entered before is left again."""
    module, log = make_module("entered", SOURCE + "original = run\n"), []

    @contextmanager
    def failing(module: ModuleType) -> Iterator[None]:
        raise KeyError("mine")
        yield

    with (
        pytest.raises(errors.ApplyError) as caught,
        hookpatch.active(
            hookpatch.wrap("entered:run", _around),
            hookpatch.enter("entered", lambda m: _entered(log, m)),
            hookpatch.enter("entered", failing),
        ),
    ):
        pass
    assert str(caught.value) == "the enter raised KeyError: 'mine' (target entered of a patch given to active())"
    assert log == [("enter", module, "patched(original)"), ("leave", module, "patched(original)")]
    assert module.run is module.original


def test_enter_that_fails_to_leave_keeps_nothing_else_from_its_end(make_module: MakeModule) -> None:
    """An error while leaving is in the RestoreError; the other patches are restored."""
    module = make_module("entered", SOURCE + "original = run\n")

    @contextmanager
    def failing(module: ModuleType) -> Iterator[None]:
        yield
        raise KeyError("mine")

    session = hookpatch.active(hookpatch.wrap("entered:run", _around), hookpatch.enter("entered", failing)).open()
    with pytest.raises(errors.RestoreError) as caught:
        session.close()
    assert [repr(error) for error in caught.value.exceptions] == ["KeyError('mine')"]
    assert module.run is module.original
    assert _states(session) == ["restored", "failed"]


# --- threads


def _python(code: str, *arguments: str) -> str:
    """Run a program in a process of its own and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", inspect.cleandoc(code), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_threads_that_import_hooked_modules_at_once_do_not_deadlock(write_module: WriteModule, folder: Path) -> None:
    """Five threads import a hooked package and its hooked submodules at the same time, round after round.

    Python itself, with nothing hooked, gives up one of 15,000 such imports that wait for each other in a circle.
    """
    names = ["pkg", *(f"pkg.sub{n}" for n in range(4))]
    for name in names[1:]:
        write_module(name, "import time\ntime.sleep(0.002)\nimport pkg\n" + SOURCE)
    (folder / "pkg" / "__init__.py").write_text("import time\ntime.sleep(0.002)\nfrom pkg import sub0\n" + SOURCE)
    code = f"""
        import faulthandler, importlib, sys, threading
        import hookpatch
        faulthandler.dump_traceback_later(90, exit=True)
        sys.path.insert(0, sys.argv[1])
        names = {names!r}
        def around(w, i, a, k):
            return f"patched({{w()}})"
        given_up = 0
        for _ in range(10):
            for name in names:
                sys.modules.pop(name, None)
            errors = []
            barrier = threading.Barrier(5)
            def load(name):
                barrier.wait()
                try:
                    importlib.import_module(name)
                    assert sys.modules[name].run() == "patched(original)", name
                except BaseException as error:
                    errors.append(error)
            with hookpatch.active(*(hookpatch.wrap(f"{{name}}:run", around) for name in names)):
                threads = [threading.Thread(target=load, args=(name,), daemon=True) for name in names]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            gave_up = any(type(error).__name__ == "_DeadlockError" for error in errors)
            assert gave_up or not errors, errors
            given_up += gave_up
            assert all(sys.modules[name].run() == "original" for name in names if not gave_up or name in sys.modules)
        print("no deadlock" if given_up <= 1 else f"{{given_up}} rounds given up")
    """
    assert _python(code, str(folder)) == "no deadlock\n"


# --- odd imports, and what others do at the same time


def test_function_taken_before_a_reload_passes_through_after_the_end(make_module: MakeModule) -> None:
    """What stood in the slot before a reload is patched as long as the session lasts, and calls its original after."""
    module = make_module("again", SOURCE)
    with hookpatch.active(hookpatch.wrap("again:run", _around)):
        leaked = module.run
        importlib.reload(module)
        assert leaked is not module.run
        assert leaked() == "patched(original)"
    assert leaked() == "original"


def test_reload_that_fails_half_way_leaves_the_patch_in_force(make_module: MakeModule, folder: Path) -> None:
    """What a reload executed before it raised is patched; its error is raised, and the end restores the new."""
    source = "import os\n" + SOURCE + f"original = run\nif os.path.exists({str(folder / 'fail')!r}):\n    1 / 0\n"
    module = make_module("breaking", source)
    before = module.run
    with hookpatch.active(hookpatch.wrap("breaking:run", _around)) as session:
        (folder / "fail").touch()
        with pytest.raises(ZeroDivisionError):
            importlib.reload(module)
        assert module.original is not before
        assert module.run() == "patched(original)"
        assert _states(session) == ["applied"]
    assert module.run is module.original
    assert module.run() == "original"
    assert _loaders(module) == REAL_LOADERS
    assert _states(session) == ["restored"]


def test_session_opened_while_another_thread_looks_for_the_module(
    write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that another thread has begun to import, but not to execute, is patched when it is there."""
    write_module("slow", SOURCE)
    looking, go_on = threading.Event(), threading.Event()

    class Slow:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            if name != "slow":
                return None
            spec = PathFinder.find_spec(name, path, target)
            looking.set()
            assert go_on.wait(60)
            return spec

    monkeypatch.setattr(sys, "meta_path", [Slow, *sys.meta_path])
    thread = threading.Thread(target=importlib.import_module, args=("slow",))
    thread.start()
    assert looking.wait(60)
    threading.Timer(0.05, go_on.set).start()
    with hookpatch.active(hookpatch.wrap("slow:run", _around)) as session:
        thread.join(60)
        assert sys.modules["slow"].run() == "patched(original)"
        assert _states(session) == ["applied"]
    assert sys.modules["slow"].run() == "original"
    assert _loaders(sys.modules["slow"]) == REAL_LOADERS
    monkeypatch.undo()


def test_finder_that_asks_the_others_as_we_do(write_module: WriteModule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two finders that ask all others do not ask each other for ever; the module is imported and patched."""
    write_module("later", SOURCE)

    class Asking:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            for finder in list(sys.meta_path):
                spec = finder.find_spec(name, path, target) if finder is not Asking else None
                if spec is not None:
                    return spec
            return None

    with hookpatch.active(hookpatch.wrap("later:run", _around)):
        monkeypatch.setattr(sys, "meta_path", [Asking, *sys.meta_path])
        later = importlib.import_module("later")
        assert later.run() == "patched(original)"
        assert _loaders(later) == REAL_LOADERS
        monkeypatch.undo()
    assert later.run() == "original"


def test_module_that_put_an_object_without_a_dict_in_its_place(
    write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object of __slots__ in sys.modules is patched and restored like a module."""
    write_module(
        "slim",
        """
        import sys
        class Slim:
            __slots__ = ("x",)
        slim = Slim()
        slim.x = 1000
        sys.modules[__name__] = slim
        """,
    )
    slim: Any = importlib.import_module("slim")
    del sys.modules["slim"]  # it has no __file__ by which it would be forgotten
    monkeypatch.setitem(sys.modules, "slim", slim)
    value = slim.x
    with hookpatch.active(hookpatch.replace("slim:x", 2)):
        assert slim.x == 2
    assert slim.x is value


def test_spec_of_a_watched_module_can_be_copied(write_module: WriteModule) -> None:
    """copy of the spec that importlib.util.find_spec gives does not run in a circle."""
    path = write_module("asked", "raise AssertionError('imported')\n")
    with hookpatch.active(hookpatch.replace("asked:x", 2)):
        spec = importlib.util.find_spec("asked")
        assert copy.deepcopy(spec).origin == copy.copy(spec).origin == str(path)
    assert "asked" not in sys.modules
