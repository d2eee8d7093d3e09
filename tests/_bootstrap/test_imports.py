"""Imports: a patch waits for its module; the module does not notice."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import random
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any

import pytest
from importing import REAL_LOADERS, SOURCE, around, loaders, states

import hookpatch
from hookpatch._bootstrap import imports

WriteModule = Callable[[str, str], Path]


# --- later imports


def test_module_imported_in_the_block_is_patched_and_restored(write_module: WriteModule) -> None:
    """A patch waits for the import of its module, is applied at the import, and is restored at the end."""
    write_module("later", SOURCE + "original = run\n")
    with hookpatch.active(hookpatch.wrap("later:run", around)) as session:
        assert "later" not in sys.modules
        assert states(session) == ["waiting"]
        later = importlib.import_module("later")
        assert later.run() == "patched(original)"
        assert states(session) == ["applied"]
    assert later.run is later.original
    assert states(session) == ["restored"]


def test_opening_imports_nothing(write_module: WriteModule) -> None:
    """Neither a target's module nor its package is imported by opening a session."""
    write_module("sleeping.deep.module", "raise AssertionError('imported')\n")
    before = set(sys.modules)
    with hookpatch.active(hookpatch.wrap("sleeping.deep.module:run", around)) as session:
        assert {name for name in set(sys.modules) - before if name.startswith("sleeping")} == set()
    assert states(session) == ["unused"]


def test_module_never_imported_is_reported_unused() -> None:
    """A patch of a module never imported is unused in the report."""
    with hookpatch.active(hookpatch.wrap("never_there:run", around)) as session:
        pass
    assert [(patch.state, patch.reason) for patch in session.report()] == [("unused", "never_there was never imported")]


@pytest.mark.parametrize(
    "statement", ["import pkg.sub.deep", "from pkg.sub import deep", "from pkg.sub.deep import run", "import pkg.all"]
)
def test_every_way_of_importing_a_submodule(write_module: WriteModule, statement: str) -> None:
    """However a submodule comes to be imported, the patch is there when the statement ends."""
    write_module("pkg.sub.deep", SOURCE)
    write_module("pkg.all", "from pkg.sub import deep\nfrom pkg.sub.deep import run\n")
    with hookpatch.active(hookpatch.wrap("pkg.sub.deep:run", around)):
        scope: dict[str, Any] = {}
        exec(statement, scope)
        assert sys.modules["pkg.sub.deep"].run() == "patched(original)"
        if "run" in scope:
            assert scope["run"]() == "patched(original)"
        if statement == "import pkg.all":
            assert scope["pkg"].all.run() == "patched(original)"
    assert sys.modules["pkg.sub.deep"].run() == "original"


def test_name_imported_from_a_patched_module_passes_through_after_the_end(write_module: WriteModule) -> None:
    """A module with ``from later import run`` in the block calls the original after the block."""
    write_module("later", SOURCE)
    write_module("importer", "from later import run\n")
    with hookpatch.active(hookpatch.wrap("later:run", around)):
        importer = importlib.import_module("importer")
        assert importer.run() == "patched(original)"
    assert importer.run() == "original"


def test_package_and_its_submodule_are_both_patched(write_module: WriteModule) -> None:
    """Patches of a package and of its own submodule are both applied."""
    write_module("pkg.sub", SOURCE)
    (Path(str(write_module("pkg.other", "")))).parent.joinpath("__init__.py").write_text(
        "from pkg import sub\n" + SOURCE
    )
    with hookpatch.active(hookpatch.wrap("pkg:run", around), hookpatch.wrap("pkg.sub:run", around)):
        pkg = importlib.import_module("pkg")
        assert (pkg.run(), pkg.sub.run()) == ("patched(original)", "patched(original)")
    assert (pkg.run(), pkg.sub.run()) == ("original", "original")


def test_two_sessions_wait_for_one_module_and_end_in_either_order(write_module: WriteModule) -> None:
    """Two sessions wait for the same module; the later session's patch lies outside."""
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
    with hookpatch.active(hookpatch.wrap("lazily:run", around)) as session:
        spec = importlib.util.find_spec("lazily")
        assert spec is not None
        assert spec.loader is not None
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = importlib.util.module_from_spec(spec)
        sys.modules["lazily"] = module
        spec.loader.exec_module(module)
        assert states(session) == ["waiting"]
        assert module.run() == "patched(original)"
        assert type(module.__loader__) is SourceFileLoader
    assert module.run() == "original"


def test_namespace_package_is_patched_when_it_is_imported(folder: Path) -> None:
    """A package without an own file is noticed, too, and keeps the spec."""
    (folder / "nameless").mkdir()
    importlib.invalidate_caches()
    with hookpatch.active(hookpatch.replace("nameless:x", 1, add=True)) as session:
        nameless = importlib.import_module("nameless")
        assert nameless.x == 1
    assert "x" not in vars(nameless)
    assert type(nameless.__spec__) is ModuleSpec
    assert states(session) == ["restored"]
    del sys.modules["nameless"]


# --- what the module notices


def test_module_sees_its_real_loader_during_and_after(write_module: WriteModule) -> None:
    """__loader__ and __spec__.loader are the real ones while the module's code runs, and afterwards."""
    path = write_module("looking", SOURCE + "import inspect\nseen = __loader__, __spec__.loader\n")
    with hookpatch.active(hookpatch.wrap("looking:run", around)):
        looking = importlib.import_module("looking")
        assert loaders(looking) == REAL_LOADERS
        assert looking.seen[0] is looking.__loader__
        assert looking.seen[1] is looking.__spec__.loader is looking.__loader__
        assert inspect.getsource(looking) == path.read_text()
    assert loaders(looking) == REAL_LOADERS


def test_module_has_the_attributes_that_it_has_without_us(write_module: WriteModule) -> None:
    """A module imported under a watch has the same names in the same order, the same spec, path and file."""
    write_module("watched_pkg.mod", SOURCE)
    plain = importlib.import_module("watched_pkg.mod")
    for name in ("watched_pkg", "watched_pkg.mod"):
        del sys.modules[name]
    with hookpatch.active(
        hookpatch.wrap("watched_pkg.mod:run", around), hookpatch.replace("watched_pkg:x", 1, add=True)
    ):
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
    with hookpatch.active(hookpatch.wrap("asked:run", around)):
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
        hookpatch.active(hookpatch.wrap("not_there:run", around)),
    ):
        importlib.import_module("not_there")


# --- threads


def _python(code: str, *arguments: str) -> str:
    """Run a program in a new process and return the output."""
    completed = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", inspect.cleandoc(code), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    return completed.stdout


# --- odd imports, and concurrent changes


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
    del sys.modules["slim"]  # without a __file__ the fixture would keep the module
    monkeypatch.setitem(sys.modules, "slim", slim)
    value = slim.x
    with hookpatch.active(hookpatch.replace("slim:x", 2)):
        assert slim.x == 2
    assert slim.x is value


def test_spec_of_a_watched_module_can_be_copied(write_module: WriteModule) -> None:
    """copy.copy of a watched module's spec ends, without recursion."""
    path = write_module("asked", "raise AssertionError('imported')\n")
    with hookpatch.active(hookpatch.replace("asked:x", 2)):
        spec = importlib.util.find_spec("asked")
        assert copy.deepcopy(spec).origin == copy.copy(spec).origin == str(path)
    assert "asked" not in sys.modules


# --- patterns of names


WORDS = (
    "pkg",
    "pkg.mod",
    "pkg.mod_a",
    "pkg.sub.mod_a",
    "a.pkg.mod",
    "mod_a",
    "pkgs.mod",
    "a.b.c",
    "pk.gmod",
    "x.mod_a.y",
)
PATTERNS = (
    *(
        "pkg.*",
        "pkg.*.mod_a",
        "pkg*",
        "pkg*.mod",
        "*",
        "*.mod",
        "*.mod_*",
        "*mod*",
        "*_a",
        "*.pkg.*",
        "a.*.c",
        "*.b.*",
        "*g*m*",
    ),
    *("p*g.mod*", "**", "*.*", "x*.y", "*.*.*", "mod*a"),
)


@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("count", [7, 8, 50])
def test_many_patterns_with_a_part_of_a_name(count: int, length: int) -> None:
    """A name is heard of if and only if it has a part, at whatever place and in a name of whatever length."""
    chance = random.Random(count * length)
    letters = "abc."
    parts = {"".join(chance.choices("abc", k=length + place % 3)) for place in range(count)}
    watches = {f"*{part}*": imports.watch(f"*{part}*", lambda module: None) for part in sorted(parts)}
    try:
        for size in [*range(1, 30), 198, 199, 200, 201, 260]:
            for _ in range(40):
                name = "".join(chance.choices(letters, k=size))
                if chance.random() < 0.5:
                    place = chance.randrange(size)
                    name = f"{name[:place]}{chance.choice(sorted(parts))}{name[place:]}"
                heard = {watch.module for watch in imports._of_globs(name)}
                assert heard == {pattern for pattern in watches if pattern[1:-1] in name}
    finally:
        for watch in watches.values():
            watch.cancel()
    assert not imports._of_globs("abcabc")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_watched_pattern_hears_of_each_module_that_it_matches_and_of_no_other(pattern: str) -> None:
    """The quick look at module names overlooks no match, alone and among other patterns."""
    alone = imports.watch(pattern, lambda module: None)
    other_watches = [
        imports.watch(other_pattern, lambda module: None) for other_pattern in PATTERNS if other_pattern != pattern
    ]
    try:
        for watches in (other_watches, []):
            heard = [name for name in WORDS if pattern == imports.ANY or alone in imports._of_globs(name)]
            assert heard == [name for name in WORDS if fnmatchcase(name, pattern)]
            for watch in watches:
                watch.cancel()
    finally:
        alone.cancel()
    assert not imports._of_globs("pkg.mod")


@pytest.mark.parametrize("pattern", [imports.ANY, "twice_*"])
def test_a_pattern_watched_amid_an_import_hears_of_the_module_once(write_module: WriteModule, pattern: str) -> None:
    """A watch begun by the callback of another watch: both hear of the module once."""
    write_module("twice_heard", SOURCE)
    heard: list[str] = []
    late = imports.Watch(pattern, lambda module: heard.append(f"late: {module.__name__}"))

    def arrive(module: Any) -> None:
        heard.append(f"first: {module.__name__}")
        late.begin()

    first = imports.Watch("twice_heard", arrive)
    first.begin()
    try:
        importlib.import_module("twice_heard")
    finally:
        first.cancel()
        late.cancel()
    assert heard == ["first: twice_heard", "late: twice_heard"]
