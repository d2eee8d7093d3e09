"""Half imported modules, failing imports, and modules that replace themselves in sys.modules."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from importing import REAL_LOADERS, SOURCE, around, loaders, states

import hookpatch
from hookpatch import errors

WriteModule = Callable[[str, str], Path]

MakeModule = Callable[[str, str], ModuleType]


# --- executed again


def test_module_that_fails_to_import_the_first_time(write_module: WriteModule, folder: Path) -> None:
    """A failing import raises its own error and patches nothing; the next successful import is patched."""
    write_module("flaky", f"import os\nif not os.path.exists({str(folder / 'ready')!r}):\n    1 / 0\n{SOURCE}")
    with hookpatch.active(hookpatch.wrap("flaky:run", around)) as session:
        with pytest.raises(ZeroDivisionError):
            importlib.import_module("flaky")
        assert "flaky" not in sys.modules
        assert states(session) == ["waiting"]
        (folder / "ready").touch()
        flaky = importlib.import_module("flaky")
        assert flaky.run() == "patched(original)"
    assert flaky.run() == "original"
    assert loaders(flaky) == REAL_LOADERS


def test_undos_of_one_patch_that_fail_are_all_in_the_restore_error(make_module: MakeModule) -> None:
    """A patch on two contents of a module has two undos; RestoreError holds the errors of both."""
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
    assert states(session) == ["failed", "failed"]


# --- half imported modules


def test_module_half_imported_at_entry_is_patched_when_its_import_ends(write_module: WriteModule) -> None:
    """A session opened while the module runs waits for the end of the import."""
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
    assert loaders(half) == REAL_LOADERS
    session.close()
    assert half.run() == "original"
    assert loaders(half) == REAL_LOADERS


def test_session_closed_while_its_module_is_half_imported(write_module: WriteModule) -> None:
    """When the session ends before the import does, the module is never patched and keeps the spec."""
    write_module(
        "half",
        "import hookpatch\n"
        "session = hookpatch.active(hookpatch.wrap('half:run', lambda w, i, a, k: 'patched')).open()\n"
        "session.close()\n" + SOURCE,
    )
    half = importlib.import_module("half")
    assert half.run() == "original"
    assert loaders(half) == REAL_LOADERS
    assert states(half.session) == ["unused"]
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
    with hookpatch.active(hookpatch.wrap("cycle_a:run", around), hookpatch.wrap("cycle_b:run", around)):
        a = importlib.import_module("cycle_a")
        assert (a.run(), a.cycle_b.run()) == ("patched(original)", "patched(original)")
    assert (a.run(), a.cycle_b.run()) == ("original", "original")


def test_module_that_replaces_itself_in_sys_modules(write_module: WriteModule) -> None:
    """The replacement of a module is patched, not the discarded module."""
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
    with hookpatch.active(hookpatch.wrap("swapped:run", around)):
        swapped = importlib.import_module("swapped")
        assert type(swapped).__name__ == "Face"
        assert swapped.run() == "patched(original)"
        with hookpatch.active(hookpatch.wrap("swapped:run", around)):
            assert swapped.run() == "patched(patched(original))"
    assert swapped.run() == "original"


def test_lazy_face_of_a_package_is_refused_with_the_address_to_use(write_module: WriteModule) -> None:
    """Refuse a name that a self-replacing module fetches on demand; the message has the defining module."""
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
        "module lazy_pkg fetches 'Model' lazily and may be replaced at any import; take the address of the definition: "
        "lazy_pkg.defined:Model (target lazy_pkg:Model of a patch given to active())"
    )


# --- odd imports, and concurrent changes


def test_session_opened_while_another_thread_looks_for_the_module(
    write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that another thread has begun to import, but not to execute, is patched at the end of the import."""
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
    with hookpatch.active(hookpatch.wrap("slow:run", around)) as session:
        thread.join(60)
        assert sys.modules["slow"].run() == "patched(original)"
        assert states(session) == ["applied"]
    assert sys.modules["slow"].run() == "original"
    assert loaders(sys.modules["slow"]) == REAL_LOADERS
    monkeypatch.undo()
