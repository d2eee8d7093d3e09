"""The facts that `hookpatch list` and `hookpatch doctor` show of a plugin are kept, and are true after any change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import hookpatch
from hookpatch._bootstrap.installed import installed
from hookpatch._inspect.cache import LookOptions
from hookpatch._inspect.seen import PluginFacts, facts_of_plugins

pytestmark = pytest.mark.once

PLUGIN = """
    '''Put a two.'''
    import os, pathlib
    import hookpatch
    here = pathlib.Path(__file__).parent
    with open(here / "loads.txt", "a") as file:
        file.write("x")
    if (here / "data.txt").read_text() != "well":
        raise RuntimeError("no")
    if "forbidden" in os.listdir(here) or "PUT_FORBIDDEN" in os.environ:
        raise RuntimeError("no")
    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.replace("vendor.inner:value", 2)
    """


@pytest.fixture
def folder(write_module: Callable[[str, str], Path], make_distribution: Callable[..., Path], tmp_path: Path) -> Path:
    """Make a plugin that reads files and a folder, and the plugin's target; return their folder."""
    make_distribution("d-put", plugins={"put": "plugin_put"}, modules={"plugin_put": PLUGIN})
    place = write_module("placeholder", "").parent
    (place / "vendor").mkdir()
    (place / "vendor" / "__init__.py").touch()
    (place / "vendor" / "inner.py").write_text("value = 1")
    (place / "data.txt").write_text("well")
    return place


def look() -> PluginFacts:
    plugins = [plugin for plugin in installed() if plugin.name == "put"]
    (facts,) = facts_of_plugins(plugins, LookOptions(imports=False), "a test")
    return facts


def verdict() -> str:
    """Return the state of the plugin, else the finding on its patch."""
    facts = look()
    return facts.planned[0]["finding"] if facts.status == "patches" else facts.status


def loads(folder: Path) -> int:
    return len((folder / "loads.txt").read_text())


def test_second_look_loads_no_plugin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The facts are equal. What a shell changes from command to command does not count."""
    first = look()
    monkeypatch.setenv("COLUMNS", "300")
    assert look() == first
    assert (first.description, loads(folder)) == ("Put a two.", 1)


def test_plan_between_two_looks_counts(folder: Path) -> None:
    """The plan's finding is told; after a change of the target there is none again."""
    assert verdict() == "not looked at"
    assert hookpatch.plan("put").status == 0
    assert [verdict(), verdict()] == ["fits", "fits"]
    count = loads(folder)
    assert [verdict(), loads(folder)] == ["fits", count]
    (folder / "vendor" / "inner.py").write_text("value = 3")
    assert verdict() == "not looked at"


def spoil_plugin(folder: Path) -> None:
    (folder / "plugin_put.py").write_text("raise RuntimeError")


def spoil_data(folder: Path) -> None:
    (folder / "data.txt").write_text("ill!")  # the same size


def lose_data(folder: Path) -> None:
    (folder / "data.txt").unlink()


def add_to_a_folder(folder: Path) -> None:
    (folder / "forbidden").touch()


def lose_the_module(folder: Path) -> None:
    (folder / "plugin_put.py").unlink()


@pytest.mark.ends
@pytest.mark.parametrize("spoil", [spoil_plugin, spoil_data, lose_data, add_to_a_folder, lose_the_module])
def test_plugin_that_loads_no_more_is_broken(folder: Path, spoil: Callable[[Path], None]) -> None:
    """Any file read by the plugin when loaded; the plugin fits again after the change is undone."""
    assert hookpatch.plan("put").status == 0
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != "loads.txt"}
    assert [verdict(), verdict()] == ["fits", "fits"]
    spoil(folder)
    assert [verdict(), verdict()] == ["broken", "broken"]
    (folder / "forbidden").unlink(missing_ok=True)
    for path, content in before.items():
        path.write_bytes(content)
    assert look().status == "patches"


@pytest.mark.ends
def test_variable_of_the_environment_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin may read any variable when it is loaded."""
    assert verdict() == "not looked at"
    monkeypatch.setenv("PUT_FORBIDDEN", "1")
    assert verdict() == "broken"
    monkeypatch.delenv("PUT_FORBIDDEN")
    assert verdict() == "not looked at"


@pytest.mark.ends
def test_module_of_a_target_that_comes_or_goes_counts(folder: Path) -> None:
    """No module was imported: whether it can be found is known from the folder."""
    (folder / "vendor" / "inner.py").rename(folder / "vendor" / "other.py")
    assert [verdict(), verdict()] == ["absent", "absent"]
    (folder / "vendor" / "other.py").rename(folder / "vendor" / "inner.py")
    assert verdict() == "not looked at"


@pytest.mark.ends
def test_allow_list_that_comes_counts(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A list of the configuration: an environment's list belongs to all tests."""
    config = tmp_path / "allow.toml"
    config.write_text("[tool.hookpatch]\n")
    monkeypatch.setenv("HOOKPATCH_CONFIG", str(config))
    assert verdict() == "not looked at"
    config.write_text("[tool.hookpatch]\nallow = []\n")
    assert verdict() == "not allowed"


@pytest.mark.ends
def test_plugin_that_is_broken_is_looked_at_each_time(folder: Path) -> None:
    """The cause may be no file: this plugin ends the process, and counts the loads."""
    text = "import os\nwith open(os.path.join(os.path.dirname(__file__), 'loads.txt'), 'a') as file: file.write('x')\n"
    for end in ("raise RuntimeError", "os._exit(0)"):
        (folder / "plugin_put.py").write_text(text + end)
        (folder / "loads.txt").write_text("")
        assert [verdict(), verdict(), loads(folder)] == ["broken", "broken", 2]
