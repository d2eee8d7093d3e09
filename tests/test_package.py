"""What is in the wheels, and that every way to install them has the start-up file."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from environments import PROJECTS, ROOT, Environment, build

from hookpatch import __version__

STARTUP = {"hookpatch.pth", "hookpatch.start"}
PATCHED = "import hookpatch, sys; print('hookpatch._session' in sys.modules, hookpatch.__version__)"


def names_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_start_up_files_lie_in_the_root_of_the_wheel(wheels: Path) -> None:
    """There the interpreter looks for them; all else is the package and its metadata."""
    (wheel,) = wheels.glob("hookpatch-*.whl")
    top = {name.partition("/")[0] for name in names_in(wheel)}
    assert top == {"hookpatch", f"hookpatch-{__version__}.dist-info", *STARTUP}
    assert "hookpatch/py.typed" in names_in(wheel)


def test_start_up_line_is_one_line_that_imports_nothing_of_ours_when_unset(wheels: Path) -> None:
    """A reviewer reads it in the wheel: no exec, two looks at the environment."""
    (wheel,) = wheels.glob("hookpatch-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        line, end = archive.read("hookpatch.pth").decode().split("\n")
        start = archive.read("hookpatch.start").decode().splitlines()
    assert end == ""
    asked = 'any(map(os.environ.get, ("HOOKPATCH_PLUGINS", "HOOKPATCH_CONFIG", "HOOKPATCH_INHERIT")))'
    assert line.startswith(f"import os, sys; {asked} and not sys.flags.ignore_environment and ")
    assert "exec" not in line
    assert [entry for entry in start if not entry.startswith("#")] == ["hookpatch._startup:main"]


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_wheel_from_the_sdist_has_the_same_files(project: Path, wheels: Path, tmp_path: Path) -> None:
    """Who builds from the sdist gets what we build."""
    build(project, tmp_path)  # the sdist, and the wheel from it
    (direct,) = wheels.glob(f"{project.name.replace('-', '_') if project != ROOT else 'hookpatch'}-*.whl")
    (from_sdist,) = tmp_path.glob("*.whl")
    assert sorted(names_in(from_sdist)) == sorted(names_in(direct))


@pytest.mark.parametrize("way", ["folder", "editable", "sdist", "wheel"])
def test_every_install_has_the_start_up_file(way: str, wheels: Path, tmp_path: Path) -> None:
    """`pip install .`, `pip install -e .`, from an sdist and from a wheel; uninstalling takes it away."""
    source = tmp_path / "source"
    kept = shutil.ignore_patterns(".*", "docs", "plugins", "tests", "__pycache__")
    shutil.copytree(ROOT, source, ignore=kept)
    environment = Environment(tmp_path / "venv")
    if way == "sdist":
        build(source, tmp_path / "dist", "--sdist")
    what: dict[str, list[str | Path]] = {
        "folder": [source],
        "editable": ["--editable", source],
        "sdist": [*(tmp_path / "dist").glob("*.tar.gz")],
        "wheel": [*wheels.glob("hookpatch-*.whl")],
    }
    environment.install(*what[way])
    environment.add_plugin("quiet", "import hookpatch\n@hookpatch.hookimpl\ndef hookpatch_patches(): return []\n")
    on = environment.run("-c", PATCHED, HOOKPATCH_PLUGINS="quiet")
    off = environment.run("-c", PATCHED)
    assert (on.stdout, on.stderr) == (f"True {__version__}\n", "")
    assert (off.stdout, off.stderr) == (f"False {__version__}\n", "")
    environment.uninstall("hookpatch")
    assert not [name for name in STARTUP if (environment.site_packages / name).exists()]


def test_versions_agree(wheels: Path) -> None:
    """The face says the version of the distribution."""
    assert [wheel.name.split("-")[1] for wheel in wheels.glob("hookpatch-*.whl")] == [__version__]
