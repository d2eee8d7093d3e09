"""Foreign code runs without hookpatch's locks: the code may wait for threads that patch and import."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
import threading
import warnings
from collections import UserDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any, Final, TypeAlias

import pytest

import hookpatch
from hookpatch import Target

MakeModule: TypeAlias = Callable[[str, str], ModuleType]
WriteModule: TypeAlias = Callable[[str, str], Path]

PATIENCE: Final = float(os.environ.get("PATIENCE", "20"))


def _around(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return f"patched({wrapped(*args, **kwargs)})"


class Elsewhere:
    """Foreign code that waits for a thread with patches, imports and a report.

    Attributes:
        ended: for each time, whether the thread came to its end; one that waits for a lock of ours does not.
    """

    def __init__(self, write_module: WriteModule) -> None:
        self._write = write_module
        write_module("elsewhere", "def run():\n    return 'original'\n")
        importlib.import_module("elsewhere")
        self._names = map("imported_elsewhere{}".format, itertools.count())
        self.ended: list[bool] = []

    def __call__(self, *further: hookpatch.Patch, all_of_it: bool = True) -> None:
        came: list[bool] = []
        thread = Thread(target=lambda: came.append(self._patch(further, all_of_it)), daemon=True)
        thread.start()
        thread.join(PATIENCE)
        self.ended.append(came == [True])

    def _patch(self, further: tuple[hookpatch.Patch, ...], all_of_it: bool) -> bool:
        name = next(self._names)
        self._write(name, "def run():\n    return 'original'\n")
        patches = hookpatch.wrap("elsewhere:run", _around), hookpatch.wrap(f"{name}:run", _around), *further
        with hookpatch.active(*patches) as session:
            patched = sys.modules["elsewhere"].run() == "patched(original)"
            if all_of_it:
                patched &= importlib.import_module(name).run() == "patched(original)"
                hookpatch.report()
                session.report()
        return patched and sys.modules["elsewhere"].run() == "original"


Scene: TypeAlias = Callable[[Elsewhere, MakeModule, pytest.MonkeyPatch], None]
SCENES: Final[dict[str, Scene]] = {}


def _scene(scene: Scene) -> Scene:
    SCENES[scene.__name__] = scene
    return scene


@_scene
def setter_of_a_class(elsewhere: Elsewhere, make_module: MakeModule, monkeypatch: pytest.MonkeyPatch) -> None:
    class Kind(type):
        def __setattr__(cls, name: str, value: object) -> None:
            elsewhere()
            super().__setattr__(name, value)

        def __delattr__(cls, name: str) -> None:
            elsewhere()
            super().__delattr__(name)

    class Base:
        def inherited(self) -> str:
            return "original"

    class Owner(Base, metaclass=Kind):
        def own(self) -> str:
            return "original"

    for name in ("own", "inherited"):
        with hookpatch.active(hookpatch.wrap(Target.attribute(Owner, name), _around)):
            assert getattr(Owner(), name)() == "patched(original)"
    assert "inherited" not in vars(Owner)
    assert len(elsewhere.ended) == 4


@_scene
def setter_of_an_instance(elsewhere: Elsewhere, make_module: MakeModule, monkeypatch: pytest.MonkeyPatch) -> None:
    class Owner:
        def __setattr__(self, name: str, value: object) -> None:
            elsewhere()
            super().__setattr__(name, value)

    owner = Owner()
    vars(owner)["value"] = 1
    with hookpatch.active(hookpatch.replace(Target.attribute(owner, "value"), 2)):
        assert owner.value == 2
    assert vars(owner) == {"value": 1}


class _Mapping(UserDict[str, Any]):
    """A mapping of another class than dict, with methods set by a test."""

    act: Callable[[], None] = staticmethod(lambda: None)

    def __getitem__(self, key: str) -> Any:
        self.act()
        return self.data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.act()
        self.data[key] = value

    def __delitem__(self, key: str) -> None:
        self.act()
        del self.data[key]

    def __contains__(self, key: object) -> bool:
        self.act()
        return key in self.data


@_scene
def methods_of_a_mapping(elsewhere: Elsewhere, make_module: MakeModule, monkeypatch: pytest.MonkeyPatch) -> None:
    mapping = _Mapping(a=1, b=2)
    # It is called some seventy times; an import and a report in every fifth takes long enough.
    mapping.act = lambda: elsewhere(all_of_it=len(elsewhere.ended) % 5 == 0)  # type: ignore[method-assign]
    with hookpatch.active(
        hookpatch.replace(Target.item(mapping, "a"), 3),
        hookpatch.replace(Target.item(mapping, "c"), 4, add=True),
        hookpatch.remove(Target.item(mapping, "b")),
    ):
        assert mapping.data == {"a": 3, "c": 4}
    assert list(mapping.data.items()) == [("a", 1), ("b", 2)]


@_scene
def getattr_of_a_module(elsewhere: Elsewhere, make_module: MakeModule, monkeypatch: pytest.MonkeyPatch) -> None:
    m: Any = make_module("served", "act = None\ndef __getattr__(name):\n    act()\n    return str.upper\n")
    m.act = elsewhere
    with hookpatch.active(hookpatch.wrap("served:name", _around)):
        assert m.name("x") == "patched(X)"
    assert "name" not in vars(m)


@_scene
def factory(elsewhere: Elsewhere, make_module: MakeModule, monkeypatch: pytest.MonkeyPatch) -> None:
    m = make_module("made", "def run():\n    return 'original'\n")
    before = m.run

    def derive(original: Any) -> Any:
        elsewhere(hookpatch.wrap("made:run", _around))
        return lambda: f"derived({original()})"

    @contextmanager
    def enter(module: ModuleType) -> Iterator[None]:
        elsewhere(hookpatch.wrap("made:run", _around), hookpatch.enter("made", lambda module: nullcontext()))
        yield
        elsewhere(hookpatch.wrap("made:run", _around))

    with hookpatch.active(hookpatch.derive("made:run", derive), hookpatch.enter("made", enter)) as session:
        assert m.run() == "derived(original)"
    assert m.run is before
    assert [patch.state for patch in session.report()] == ["restored"] * 2


@_scene
def factory_at_an_import(elsewhere: Elsewhere, make_module: MakeModule, monkeypatch: pytest.MonkeyPatch) -> None:
    def derive(original: Any) -> Any:
        elsewhere(hookpatch.wrap("made:run", _around))
        return lambda: f"derived({original()})"

    with hookpatch.active(hookpatch.derive("made:run", derive)):
        m = make_module("made", "def run():\n    return 'original'\noriginal = run\n")
        assert m.run() == "derived(original)"
    assert m.run is m.original


@_scene
def wrapper(elsewhere: Elsewhere, make_module: MakeModule, monkeypatch: pytest.MonkeyPatch) -> None:
    m = make_module("wrapped", "def run():\n    return 'original'\nupper = str.upper\n")

    def around(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
        elsewhere(hookpatch.wrap("wrapped:run", _around), hookpatch.wrap("wrapped:upper", _around))
        return f"outer({wrapped(*args, **kwargs)})"

    with hookpatch.active(hookpatch.wrap("wrapped:run", around), hookpatch.wrap("wrapped:upper", around)):
        assert m.run() == "outer(original)"
        assert m.upper("x") == "outer(X)"


@_scene
def module_body(elsewhere: Elsewhere, make_module: MakeModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.elsewhere_of_a_test", elsewhere, raising=False)
    with hookpatch.active(hookpatch.wrap("body:run", _around)):
        m = make_module("body", "elsewhere_of_a_test()\ndef run():\n    return 'original'\n")
        assert m.run() == "patched(original)"
        importlib.reload(m)
        assert m.run() == "patched(original)"
    assert len(elsewhere.ended) == 2


@_scene
def finder(elsewhere: Elsewhere, make_module: MakeModule, monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        """Asked under the lock of Python's own imports: a thread that imports would wait without us, too."""

        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> None:
            if name == "found":
                elsewhere(all_of_it=False)

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    with hookpatch.active(hookpatch.wrap("found:run", _around)):
        assert make_module("found", "def run():\n    return 'original'\n").run() == "patched(original)"


@_scene
def warning(elsewhere: Elsewhere, make_module: MakeModule, monkeypatch: pytest.MonkeyPatch) -> None:
    table: dict[str, Any] = {}
    outer = hookpatch.active(hookpatch.wrap(Target.item(table, "key"), _around))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda *args, **kwargs: elsewhere())
        with hookpatch.active(hookpatch.replace(Target.item(table, "key"), str, add=True)):
            outer.open()
        monkeypatch.undo()
    outer.close()
    assert table == {}


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.sampled(4)
def test_no_lock_is_held_while_foreign_code_runs(
    scene: str, write_module: WriteModule, make_module: MakeModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever's code we call may wait for a thread that patches another target, imports, and asks for a report."""
    elsewhere = Elsewhere(write_module)
    SCENES[scene](elsewhere, make_module, monkeypatch)
    assert elsewhere.ended
    assert all(elsewhere.ended)


def test_plugin_may_wait_for_a_thread(
    write_module: WriteModule, make_distribution: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin's module, options and hook run without hookpatch's locks."""
    elsewhere = Elsewhere(write_module)
    monkeypatch.setattr("builtins.elsewhere_of_a_test", elsewhere, raising=False)
    source = """
        import dataclasses
        import hookpatch
        elsewhere_of_a_test()
        @dataclasses.dataclass
        class Options:
            size: int = 1
            def __post_init__(self):
                elsewhere_of_a_test()
        @hookpatch.hookimpl
        def hookpatch_patches(options):
            elsewhere_of_a_test()
            yield hookpatch.replace("elsewhere:run", options.size)
    """
    make_distribution("waiting", "1.0", {"waiting": "waiting_plugin"}, {"waiting_plugin": source})
    with hookpatch.active("waiting"):
        assert sys.modules["elsewhere"].run == 1
    assert elsewhere.ended == [True] * 3


def test_setter_of_a_slot_that_waits_for_somebody_else_s_value(write_module: WriteModule) -> None:
    """A setter of the owner may wait for a thread that patches, also where a slot is still to be given back."""
    elsewhere = Elsewhere(write_module)

    class Kind(type):
        def __setattr__(cls, name: str, value: object) -> None:
            if threading.current_thread() is threading.main_thread():
                elsewhere()
            super().__setattr__(name, value)

    class Owner(metaclass=Kind):
        def run(self) -> str:
            return "original"

    original = Owner.run
    with hookpatch.active(hookpatch.wrap(Target.attribute(Owner, "run"), _around)):
        ours = Owner.run
        type.__setattr__(Owner, "run", lambda self: f"theirs({ours(self)})")
    with hookpatch.active(hookpatch.wrap(Target.attribute(Owner, "run"), _around)):
        assert Owner().run() == "patched(theirs(original))"
    type.__setattr__(Owner, "run", ours)
    hookpatch.report()  # the slot is given back
    assert Owner.run is original
    assert len(elsewhere.ended) >= 3
    assert all(elsewhere.ended)
