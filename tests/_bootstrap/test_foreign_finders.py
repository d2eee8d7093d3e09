"""Foreign import finders: a patch is applied late where a foreign finder finds the module first."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from environments import Environment
from importing import REAL_LOADERS, SOURCE, around, loaders, states

import hookpatch
from hookpatch import errors

WriteModule = Callable[[str, str], Path]


# --- the finder and its watches


def test_finder_of_somebody_else_in_front_still_finds(
    write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A foreign finder in front without a result is asked as Python does, and the patch is applied."""
    write_module("later", SOURCE)

    class Front:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            return None

    with hookpatch.active(hookpatch.wrap("later:run", around)):
        monkeypatch.setattr(sys, "meta_path", [Front, *sys.meta_path])
        assert importlib.import_module("later").run() == "patched(original)"
        monkeypatch.undo()


# --- foreign finders before hookpatch's finder


@contextmanager
def _finder_before_ours(name: str) -> Iterator[None]:
    """Put a foreign finder that finds one module before hookpatch's finder."""

    class First:
        @staticmethod
        def find_spec(fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            return PathFinder.find_spec(fullname, path) if fullname == name else None

    sys.meta_path.insert(0, First)
    try:
        yield
    finally:
        sys.meta_path.remove(First)


HIDDEN = f"hidden was imported by {__name__}._finder_before_ours.<locals>.First, before hookpatch's finder"

LATE = f"applied late: {HIDDEN}"

LOOKS: dict[str, Callable[[hookpatch.Session], object]] = {
    "its report": lambda session: session.report(),
    "the report of all": lambda session: hookpatch.report(),
    "another session": lambda session: hookpatch.active(hookpatch.replace("hidden:x", 1, add=True)).open().close(),
    "the next import": lambda session: importlib.import_module("next_one"),
}


@pytest.mark.parametrize("look", LOOKS)
def test_module_that_another_finder_finds_first_is_patched_at_the_next_look(
    write_module: WriteModule, look: str
) -> None:
    """The next look applies the patch of an overlooked module, with a LateWarning."""
    write_module("hidden", SOURCE)
    write_module("next_one", SOURCE)
    with hookpatch.active(hookpatch.wrap("hidden:run", around)) as session, _finder_before_ours("hidden"):
        import hidden

        assert hidden.run() == "original"
        with pytest.warns(errors.LateWarning) as caught:
            LOOKS[look](session)
        message = f"hidden:run of a patch given to active(): {LATE}; code that ran before was not patched"
        assert [str(warning.message) for warning in caught] == [message]
        assert hidden.run() == "patched(original)"
        (patch,) = session.report()
        assert (patch.state, patch.warnings) == ("applied", (LATE,))
    assert hidden.run() == "original"
    assert states(session) == ["restored"]


def test_module_that_another_finder_finds_first_is_told_of_at_the_end(write_module: WriteModule) -> None:
    """Without a look inside, the end of the block warns of the patch; after an error the report has the state."""
    write_module("hidden", SOURCE)
    with (
        pytest.warns(errors.LateWarning, match="code that ran before was not patched"),
        hookpatch.active(hookpatch.wrap("hidden:run", around)) as session,
        _finder_before_ours("hidden"),
    ):
        importlib.import_module("hidden")
    assert states(session) == ["restored"]
    del sys.modules["hidden"]
    with (
        pytest.raises(RuntimeError),
        hookpatch.active(hookpatch.wrap("hidden:run", around)) as session,
        _finder_before_ours("hidden"),
    ):
        importlib.import_module("hidden")
        raise RuntimeError
    (patch,) = session.report()
    assert (patch.state, patch.reason) == ("unused", "hidden was imported past hookpatch's finder")


def test_module_put_into_sys_modules_is_patched_at_the_next_look(write_module: WriteModule) -> None:
    """No finder was asked at all."""
    with hookpatch.active(hookpatch.wrap("made:run", around)) as session:
        module = ModuleType("made")
        exec(SOURCE, vars(module))
        sys.modules["made"] = module
        with pytest.warns(errors.LateWarning, match="made was imported past hookpatch's finder"):
            assert states(session) == ["applied"]
        assert module.run() == "patched(original)"
    assert module.run() == "original"
    del sys.modules["made"]


def test_patch_that_does_not_fit_is_found_failed_at_the_next_look(write_module: WriteModule) -> None:
    """The report does not raise: the reason is the error that the import would have raised."""
    write_module("hidden", SOURCE)
    with hookpatch.active(hookpatch.wrap("hidden:rum", around)) as session, _finder_before_ours("hidden"):
        importlib.import_module("hidden")
        with pytest.warns(errors.HookpatchWarning) as caught:
            (patch,) = session.report()
    assert [warning.category for warning in caught] == [errors.LateWarning, errors.PatchFailedWarning]
    assert (patch.state, "did you mean 'run'?" in str(patch.reason)) == ("failed", True)


CHECKED = """
    import hookpatch
    def wrapper(wrapped, instance, args, kwargs):
        return "patched"
    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.wrap("helpers:check", wrapper)
"""
REWRITTEN = {
    "conftest.py": "import pytest\npytest.register_assert_rewrite('helpers')\n",
    "helpers.py": "def check():\n    return 'original'\n",
    "test_it.py": """
import warnings
import helpers
import colorsys
def test_helpers():
    assert helpers.check() == "patched"
""",
}


def test_module_that_pytest_rewrites_is_patched(environment: Environment, tmp_path: Path) -> None:
    """In a program patched from outside pytest's finder comes first; the patch is applied with a warning."""
    environment.add_plugin("checked", CHECKED)
    environment.work_in(tmp_path / "work", REWRITTEN)
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", environment.folder, "test_it.py"]
    completed = environment.run(*command, HOOKPATCH_PLUGINS="checked")
    assert "1 passed" in completed.stdout, completed.stdout + completed.stderr
    rewriting = "helpers was imported by _pytest.assertion.rewrite.AssertionRewritingHook, before hookpatch's finder"
    assert (
        f"LateWarning: helpers:check of plugin 'checked' from checked-dist 1.0: applied late: {rewriting}"
        in completed.stdout
    )


def test_program_whose_module_another_finder_finds_first_is_told_so_at_its_end(
    environment: Environment, tmp_path: Path
) -> None:
    """Without a later import, the end of the program is the next look."""
    environment.add_plugin("checked", CHECKED)
    script = """
import sys
from importlib.machinery import PathFinder
class First:
    find_spec = staticmethod(lambda name, path=None, target=None: PathFinder.find_spec(name, path, target))
sys.meta_path.insert(0, First)
import helpers
print(helpers.check())
"""
    environment.work_in(tmp_path / "work", {**REWRITTEN, "script.py": script})
    completed = environment.run("script.py", HOOKPATCH_PLUGINS="checked")
    assert completed.stdout == "original\n"
    late = "applied late: helpers was imported by __main__.First, before hookpatch's finder"
    message = f"LateWarning: helpers:check of plugin 'checked' from checked-dist 1.0: {late}"
    assert f"{message}; code that ran before was not patched" in completed.stderr


# --- odd imports, and concurrent changes


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

    with hookpatch.active(hookpatch.wrap("later:run", around)):
        monkeypatch.setattr(sys, "meta_path", [Asking, *sys.meta_path])
        later = importlib.import_module("later")
        assert later.run() == "patched(original)"
        assert loaders(later) == REAL_LOADERS
        monkeypatch.undo()
    assert later.run() == "original"
