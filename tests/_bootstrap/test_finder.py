"""The import finder of hookpatch: its time on sys.meta_path, and its watches."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from importing import REAL_LOADERS, SOURCE, around, loaders, states
from watching import watched

import hookpatch
from hookpatch import errors
from hookpatch._bootstrap import imports

WriteModule = Callable[[str, str], Path]


def test_finder_is_there_only_while_something_is_watched() -> None:
    """sys.meta_path is the same list with equal entries before and after, with the finder between."""
    meta_path, before = sys.meta_path, list(sys.meta_path)
    first = hookpatch.active(hookpatch.replace("never_a:x", 1), children="local").open()
    second = hookpatch.active(hookpatch.replace("never_b:x", 1), children="local").open()
    assert len(sys.meta_path) == len(before) + 1
    assert watched() == ["never_a", "never_b"]
    first.close()
    assert len(sys.meta_path) == len(before) + 1
    second.close()
    assert sys.meta_path is meta_path
    assert sys.meta_path == before
    assert watched() == []


def test_who_listens_hears_as_long_as_somebody_holds_the_finder(write_module: WriteModule) -> None:
    """Listening alone does not keep the finder, which goes with its last holder."""
    write_module("listened_to", SOURCE)
    heard: list[ModuleType] = []
    imports.listen("listened_to", heard.append)
    before = list(sys.meta_path)
    module = importlib.import_module("listened_to")
    assert not heard
    imports.hold("first")
    imports.hold("second")
    assert importlib.reload(module) is module
    assert heard == [module]
    assert watched() == []
    imports.release("first")
    imports.release("first")
    del sys.modules["listened_to"]
    anew = importlib.import_module("listened_to")
    assert loaders(anew) == REAL_LOADERS
    assert heard == [module, anew]
    imports.release("second")
    assert sys.meta_path == before
    importlib.reload(anew)
    assert heard == [module, anew]


def test_who_listens_hears_after_the_watches_and_does_not_keep_the_finder(write_module: WriteModule) -> None:
    """A watch of the same module brings the finder, is called first, and takes the finder away with its end."""
    write_module("watched_too", SOURCE)
    heard: list[str] = []
    imports.listen("watched_too", lambda _: heard.append("listener"))
    before = list(sys.meta_path)
    watch = imports.watch("watched_too", lambda _: heard.append("watch"))
    try:
        importlib.import_module("watched_too")
        assert heard == ["watch", "listener"]
        assert watched() == ["watched_too"]
    finally:
        watch.cancel()
    assert sys.meta_path == before
    assert watched() == []


def test_finder_is_gone_when_entering_failed() -> None:
    """A session that failed to open leaves no watch and no finder."""
    before = list(sys.meta_path)
    with (
        pytest.raises(errors.ApplyError),
        hookpatch.active(hookpatch.replace("never_a:x", 1), hookpatch.remove("string:not_there")),
    ):
        pass
    assert sys.meta_path == before
    assert watched() == []


def test_objects_at_hand_need_no_finder() -> None:
    """A patch that names no module watches none."""
    before = list(sys.meta_path)
    with hookpatch.active(hookpatch.replace(hookpatch.Target.item({}, "k"), 1, add=True), children="local"):
        assert sys.meta_path == before


def test_cancelled_watch_never_fires(write_module: WriteModule) -> None:
    """A cancelled watch never fires; a second cancel does no harm; other watches go on."""
    write_module("later", SOURCE)
    calls: list[str] = []
    cancelled = imports.watch("later", lambda module: calls.append("cancelled"))
    watch = imports.watch("later", lambda module: calls.append("kept"))
    assert repr(cancelled) == "<Watch of later, waiting>"
    cancelled.cancel()
    cancelled.cancel()
    later = importlib.import_module("later")
    assert calls == ["kept"]
    watch.cancel()
    importlib.reload(later)
    assert calls == ["kept"]
    assert repr(watch) == "<Watch of later, cancelled>"


def test_watch_cancelled_by_an_earlier_one_does_not_fire(write_module: WriteModule) -> None:
    """A watch cancelled while the module's import is being told is not told any more."""
    write_module("later", SOURCE)
    calls: list[str] = []

    def first(module: ModuleType) -> None:
        calls.append("first")
        second.cancel()

    earlier = imports.watch("later", first)
    second = imports.watch("later", lambda module: calls.append("second"))
    importlib.import_module("later")
    earlier.cancel()
    assert calls == ["first"]


def test_watch_hears_of_each_execution_with_the_live_module(write_module: WriteModule) -> None:
    """A watch fires once for each import and reload, with the module in sys.modules."""
    write_module("later", SOURCE)
    modules: list[ModuleType] = []
    watch = imports.watch("later", modules.append)
    first = importlib.import_module("later")
    importlib.import_module("later")
    importlib.reload(first)
    del sys.modules["later"]
    second = importlib.import_module("later")
    watch.cancel()
    assert [module is expected for module, expected in zip(modules, [first, first, second], strict=True)] == [True] * 3


def test_one_watch_that_raises_keeps_no_other_from_its_module(write_module: WriteModule) -> None:
    """All watches fire, then the import raises the first error and may be tried again."""
    write_module("later", SOURCE)
    calls: list[str] = []

    def fail(name: str) -> Callable[[ModuleType], None]:
        def arrival(module: ModuleType) -> None:
            calls.append(name)
            if len(calls) <= 3:
                raise KeyError(name)

        return arrival

    watches = [imports.watch("later", fail(name)) for name in "abc"]
    with pytest.raises(KeyError, match="a"):
        importlib.import_module("later")
    assert calls == ["a", "b", "c"]
    assert "later" not in sys.modules
    later = importlib.import_module("later")
    assert calls == ["a", "b", "c"] * 2
    assert loaders(later) == REAL_LOADERS
    for watch in watches:
        watch.cancel()


def test_deferred_patch_that_fails_does_not_break_the_import(write_module: WriteModule) -> None:
    """When a patch does not fit a module imported later, the import goes on with a warning; the others are applied."""
    write_module("later", SOURCE)
    with hookpatch.active(hookpatch.wrap("later:missing", around), hookpatch.wrap("later:run", around)) as session:
        with pytest.warns(errors.PatchFailedWarning) as caught:
            later = importlib.import_module("later")
        assert later.run() == "patched(original)"
        assert states(session) == ["failed", "applied"]
    assert [str(warning.message) for warning in caught] == [
        "not patched: later has no attribute 'missing' (target later:missing of a patch given to active())"
    ]
    assert later.run() == "original"
    assert states(session) == ["failed", "restored"]


def test_deferred_patch_that_is_not_required_is_skipped(write_module: WriteModule) -> None:
    """A patch with required=False that does not fit is skipped with its reason, without a warning."""
    write_module("later", SOURCE)
    with hookpatch.active(hookpatch.wrap("later:missing", around, required=False)) as session:
        importlib.import_module("later")
    (patch,) = session.report()
    assert (patch.state, patch.reason) == (
        "skipped",
        "later has no attribute 'missing' (target later:missing of a patch given to active())",
    )
