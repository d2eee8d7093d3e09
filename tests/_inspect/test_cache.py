"""The findings of a plan are kept until a file behind them changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import hookpatch
from hookpatch._inspect import cache

pytestmark = pytest.mark.once

WriteModule = Callable[[str, str], Path]
MakeDistribution = Callable[..., Path]

PLUGIN = """
    import hookpatch
    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.replace("vendor:value", 2)
    """


@pytest.fixture
def vendor(write_module: WriteModule, make_distribution: MakeDistribution) -> Path:
    """Make a module with a note of each import, a module imported there, and a plugin."""
    write_module("inner", "value = 1")
    make_distribution("d-put", plugins={"put": "plugin_put"}, modules={"plugin_put": PLUGIN})
    return write_module("vendor", "open(__file__ + '.imports', 'a').write('x')\nfrom inner import value")


def imports(vendor: Path) -> int:
    """Plan, and return how often the module has been imported."""
    assert hookpatch.plan("put").status == 0
    return len(Path(f"{vendor}.imports").read_text())


def test_second_plan_imports_nothing(vendor: Path) -> None:
    """Nor the third, when a file was touched and has the same content."""
    assert [imports(vendor), imports(vendor)] == [1, 1]
    os.utime(vendor)
    assert imports(vendor) == 1


@pytest.mark.parametrize("name", ["vendor", "inner", "plugin_put"])
def test_file_that_changed_is_looked_at_again(vendor: Path, name: str) -> None:
    """A changed file of the target, of the target's imports or of the plugin ends the kept result."""
    imports(vendor)
    path = vendor.with_name(f"{name}.py")
    path.write_text(f"{path.read_text()}\n# changed\n")
    assert [imports(vendor), imports(vendor)] == [2, 2]


def test_distribution_that_is_added_is_looked_at(vendor: Path, make_distribution: MakeDistribution) -> None:
    """Another version may meet a patch's requires."""
    imports(vendor)
    make_distribution("vendor-kit", "2.0")
    assert imports(vendor) == 2


def test_lock_file_and_policy_count(vendor: Path, tmp_path: Path) -> None:
    """Each is another question."""
    path = tmp_path / "hookpatch.lock"
    path.write_text("format = 1\nplugins = []\n")
    for number in (1, 1):
        hookpatch.plan("put", lock=path)
        assert len(Path(f"{vendor}.imports").read_text()) == number
    hookpatch.plan("put", lock=path, on_drift="error")
    path.write_text("format = 1\nplugins = ['other']\n")
    hookpatch.plan("put", lock=path)
    assert len(Path(f"{vendor}.imports").read_text()) == 3


def test_what_was_not_found_is_not_kept(write_module: WriteModule, make_distribution: MakeDistribution) -> None:
    """A failure is not kept, since the cause may be temporary."""
    make_distribution("d-put", plugins={"put": "plugin_put"}, modules={"plugin_put": PLUGIN})
    path = write_module("vendor", "import os\nvalue = os.environ['VENDOR_KEY']")
    assert hookpatch.plan("put").status == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VENDOR_KEY", "1")
        assert hookpatch.plan("put").status == 0
    assert path.exists()


@pytest.mark.parametrize("place", ["0", "/dev/null/cache"])
def test_nothing_is_kept_where_that_cannot_be(vendor: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """By the user's wish, or because the folder cannot be written: a plan is a plan."""
    monkeypatch.setenv("HOOKPATCH_CACHE", place)
    assert [imports(vendor), imports(vendor)] == [1, 2]


def test_folder_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest results are deleted; other files in the folder are ignored."""
    monkeypatch.setenv("HOOKPATCH_CACHE", str(tmp_path))
    for number in range(cache._MANY + 5):
        cache.keep(f"{number:032}", [], {})
    assert len(list((tmp_path / "plans").iterdir())) == cache._MANY
    for text in ("", "[]", '{"files": {"/no/file": [1, 2, "x"]}, "results": []}'):
        (tmp_path / "plans" / "key.json").write_text(text)
        assert cache.find("key") is None


def test_place_is_that_of_the_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vendor: Path) -> None:
    """Without a variable of ours: XDG_CACHE_HOME, else the home's .cache."""
    monkeypatch.delenv("HOOKPATCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert [imports(vendor), imports(vendor)] == [1, 1]
    assert len(list((tmp_path / "xdg" / "hookpatch" / "plans").iterdir())) == 1
