"""Wheels and sdists: their files and requirements, and the start-up file in every way to install them."""

from __future__ import annotations

import importlib.metadata
import shutil
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import pytest
from environments import PROJECTS, ROOT, Environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hookpatch import __version__

STARTUP = {"hookpatch.pth"}
PATCHED = "import hookpatch, sys; print('hookpatch._session.session' in sys.modules, hookpatch.__version__)"


each_project = pytest.mark.parametrize("project", PROJECTS, ids=lambda project: settings_of(project)["name"])


def settings_of(project: Path) -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    return settings


def package_of(project: Path) -> str:
    return str(settings_of(project)["name"]).replace("-", "_")


def wheel_of(project: Path, wheels: Path) -> Path:
    (wheel,) = wheels.glob(f"{package_of(project)}-*.whl")
    return wheel


def names_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def metadata_in(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(path).decode())


def files_below(folder: Path) -> set[str]:
    """Return the files of a folder by their paths from its parent, without caches of Python and its tools."""
    return {
        path.relative_to(folder.parent).as_posix()
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part == "__pycache__" or part.startswith(".") for part in path.parts[len(ROOT.parts) :])
    }


def brought_by(name: str) -> Iterator[str]:
    """Yield the distributions that pip installs with a distribution: all requirements, without extras."""
    for line in importlib.metadata.requires(name) or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)
            yield from brought_by(requirement.name)


def test_start_up_files_lie_in_the_root_of_the_wheel(wheels: Path) -> None:
    """Start-up files lie in the wheel's root, for the interpreter; the rest is the package and its metadata."""
    (wheel,) = wheels.glob("hookpatch-*.whl")
    top = {name.partition("/")[0] for name in names_in(wheel)}
    assert top == {"hookpatch", f"hookpatch-{__version__}.dist-info", *STARTUP}
    assert "hookpatch/py.typed" in names_in(wheel)


def test_start_up_line_is_one_line_that_imports_nothing_of_ours_when_unset(wheels: Path) -> None:
    """A reviewer reads the start-up line in the wheel: no exec, two looks at the environment."""
    (wheel,) = wheels.glob("hookpatch-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        line, end = archive.read("hookpatch.pth").decode().split("\n")
    assert end == ""
    condition = 'any(map(os.environ.get, ("HOOKPATCH_PLUGINS", "HOOKPATCH_CONFIG", "HOOKPATCH_INHERIT")))'
    assert line.startswith(f"import os, sys; {condition} and not sys.flags.ignore_environment and ")
    assert "exec" not in line


@pytest.mark.once
@each_project
@pytest.mark.sampled(2)
def test_wheel_from_the_sdist_has_the_whole_package_and_nothing_else(project: Path, all_wheels: Path) -> None:
    """The wheel has each file of its packages, without tests, caches and settings; the packages are typed."""
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    packages = settings["tool"]["hatch"]["build"]["targets"]["wheel"].get("packages", [package_of(project)])
    packed = {name for name in names_in(wheel_of(project, all_wheels)) if ".dist-info/" not in name}
    from_docs = {"hookpatch/messages.md"} if project == ROOT else set()  # docs/messages.md, for `hookpatch explain`
    of_packages = {file for package in packages for file in files_below(project / package)}
    assert packed - STARTUP == of_packages | from_docs
    assert {f"{package}/py.typed" for package in packages} <= packed


@pytest.mark.once
@each_project
def test_sdist_has_its_tests_and_what_they_need(project: Path, all_wheels: Path) -> None:
    """An sdist has its tests, as `make test-dist` runs; no test of a plugin lies outside the project."""
    (sdist,) = all_wheels.glob(f"{package_of(project)}-*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    needed = files_below(project / "tests") | {"README.md", "LICENSE", "pyproject.toml"}
    if project == ROOT:
        needed |= {"conftest.py", "CHANGELOG.md", "startup/hookpatch.pth"} | files_below(ROOT / "docs")
    assert needed <= packed
    assert not {name for name in packed if name.endswith(".pyc")}


@pytest.mark.once
@each_project
def test_licence_is_whole_and_goes_along(project: Path, all_wheels: Path) -> None:
    """The licence is MIT, the same text for all; foreign libraries in hookpatch-onnx's pages have their licences."""
    wheel = wheel_of(project, all_wheels)
    files = metadata_in(wheel).get_all("License-File", [])
    foreign = [name for name in names_in(wheel) if name.endswith(".LICENSE") and "/licenses/" not in name]
    assert files == ["LICENSE", *foreign]
    assert len(foreign) == (2 if project.name == "hookpatch-onnx" else 0)
    with zipfile.ZipFile(wheel) as archive:
        (folder,) = {name.partition("/")[0] for name in names_in(wheel) if ".dist-info/" in name}
        texts = {file: archive.read(f"{folder}/licenses/{file}").decode() for file in files}
    assert texts["LICENSE"] == (ROOT / "LICENSE").read_text()
    for text in texts.values():
        words = " ".join(text.split())
        assert "Permission is hereby granted, free of charge, to any person obtaining a copy of this software" in words
        assert "shall be included in all copies or substantial portions of the Software" in words
        assert "WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED" in words
        assert "OUT OF OR IN CONNECTION WITH THE SOFTWARE" in words


@pytest.mark.once
@each_project
def test_what_an_index_shows_is_true_of_all(project: Path, all_wheels: Path) -> None:
    """Version and licence are hookpatch's, the text is the README's; no address is given without a home.

    Of the Pythons a plugin names those that its tests run on: torch is at hand for one of them alone.
    """
    ours, metadata = settings_of(ROOT), metadata_in(wheel_of(project, all_wheels))
    assert (metadata["Version"], metadata["Requires-Python"]) == (__version__, ours["requires-python"])
    assert (metadata["License-Expression"], metadata["Description-Content-Type"]) == ("MIT", "text/markdown")
    assert metadata.get_payload() == (project / "README.md").read_text()
    shared = {line for line in ours["classifiers"] if line.startswith(("Programming Language", "Development Status"))}
    newest = {f"Programming Language :: Python :: {version}" for version in ("3.14", "3.15")}
    assert shared - newest < {*metadata.get_all("Classifier", [])}
    if project in (ROOT, ROOT / "plugins" / "hookpatch-onnxsim"):
        assert newest < shared & {*metadata.get_all("Classifier", [])}
    assert metadata["Summary"]
    assert metadata["Keywords"]
    assert metadata.get_all("Project-URL") is None


@pytest.mark.once
def test_hookpatch_brings_neither_torch_nor_onnx() -> None:
    """`pip install hookpatch` installs six libraries with their requirements, and no development tool."""
    direct = {canonicalize_name(Requirement(line).name) for line in settings_of(ROOT)["dependencies"]}
    assert direct == {"pluggy", "wrapt", "packaging", "msgspec", "typer", "rich"}
    brought = {*brought_by("hookpatch")}
    assert direct < brought  # rich needs more
    developed_with = {*(ROOT / "requirements-dev.txt").read_text().split()}
    assert {"torch", "onnx", "transformers"} < developed_with
    assert not brought & {*developed_with, "numpy"}


@pytest.mark.once
@pytest.mark.parametrize("project", PROJECTS[1:], ids=lambda project: project.name)
def test_plugin_brings_no_torch(project: Path) -> None:
    """A plugin waits for the user's torch, and requires torch only for its tests."""
    needs = [canonicalize_name(Requirement(line).name) for line in settings_of(project)["dependencies"]]
    assert {name for name in needs if not name.startswith("hookpatch")} <= {"onnx", "rich"}
    for name in needs:
        if not name.startswith("hookpatch"):
            assert not {"torch", "transformers", "onnxsim", "onnxruntime"} & {*brought_by(name)}


@pytest.mark.once
def test_git_ignores_the_libraries_of_pages() -> None:
    """Files fetched by hookpatch-onnx's build never get into the repository."""
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert "plugins/hookpatch-onnx/hookpatch_onnx/_picture/page/libraries/" in ignored


@pytest.mark.parametrize(
    "way",
    [
        "editable",
        "wheel",
        *(pytest.param(way, marks=[pytest.mark.once, pytest.mark.ends]) for way in ("folder", "sdist")),
    ],
)
@pytest.mark.sampled(1)
def test_every_install_has_the_start_up_file(way: str, wheels: Path, tmp_path: Path) -> None:
    """`pip install .` and `-e .`, from sdist and wheel, install the start-up file; uninstalling removes the file."""
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns(".*", "docs", "plugins", "tests", "__pycache__")
    shutil.copytree(ROOT, source, ignore=ignored)
    environment = Environment(tmp_path / "venv")
    arguments: dict[str, list[str | Path]] = {
        "folder": [source],
        "editable": ["--editable", source],
        "sdist": [*wheels.glob("hookpatch-*.tar.gz")],
        "wheel": [*wheels.glob("hookpatch-*.whl")],
    }
    environment.install(*arguments[way])
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
