"""Fixtures: real modules in files, real distributions on sys.path."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from environments import PROJECTS, ROOT, Environment, build

from hookpatch.testing import pristine

# torch's threads wait for each other in loops: beside two other processes on two cores a step took four times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A source distribution has the core's tests alone; what looks at the rest of the repository is left out there.
IN_REPOSITORY = (ROOT / "plugins").is_dir()
collect_ignore = [] if IN_REPOSITORY else ["tests/docs/test_contributing.py", "tests/test_readme.py", "docs/examples"]

MakeModule = Callable[..., ModuleType]
MakeDistribution = Callable[..., Path]


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Every test leaves no patch, no watch and no finder behind."""
    with pristine():  # against before, not against nothing: a test that fails does not fail those after it
        yield


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What plans keep is kept for the tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOOKPATCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder at the front of sys.path; modules imported from it are forgotten at the end."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    before = set(sys.modules)
    yield site
    for name in set(sys.modules) - before:
        if str(site) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    for path in [path for path in sys.path_importer_cache if path.startswith(str(site))]:
        del sys.path_importer_cache[path]  # each invalidation goes through all folders that were ever searched


@pytest.fixture
def write_module(folder: Path) -> Callable[[str, str], Path]:
    """Write a module's source into the folder; ``a.b`` makes package ``a``."""

    def write(name: str, source: str) -> Path:
        path = folder.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        for package in [*path.parents][: name.count(".")]:
            (package / "__init__.py").touch()
        path.write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        return path

    return write


@pytest.fixture
def make_module(write_module: Callable[[str, str], Path]) -> MakeModule:
    """Write a module and import it."""

    def make(name: str, source: str) -> ModuleType:
        write_module(name, source)
        return importlib.import_module(name)

    return make


@pytest.fixture
def make_distribution(folder: Path, write_module: Callable[[str, str], Path]) -> MakeDistribution:
    """Install a distribution: its dist-info with entry points, and its modules."""

    def make(name: str, version: str = "1.0", plugins: Mapping[str, str] = {}, modules: Mapping[str, str] = {}) -> Path:
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = [f"{plugin} = {module}" for plugin, module in plugins.items()]
        (info / "entry_points.txt").write_text("\n".join(["[console_scripts]", "x = y:z", "", "[hookpatch]", *lines]))
        for module, source in modules.items():
            write_module(module, source)
        return info

    return make


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of hookpatch, and the wheel that is built from it: once, or by `make` for all parts."""
    out = tmp_path_factory.mktemp("wheels")
    _build(ROOT, out)
    return out


@pytest.fixture(scope="session")
def all_wheels(wheels: Path) -> Path:
    """The same folder, with the plugins' sdists and wheels in it, too."""
    for project in PROJECTS[1:]:
        _build(project, wheels)
    return wheels


def _build(project: Path, out: Path) -> None:
    """Build a project, or copy what `make` has built for all parts of the tests."""
    if "WHEELS" not in os.environ:
        return build(project, out)
    for file in Path(os.environ["WHEELS"], project.name).iterdir():
        shutil.copy(file, out)


@pytest.fixture(scope="session")
def installed_wheels(all_wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheels of hookpatch and its plugins. Not to be changed by tests."""
    environment = Environment(tmp_path_factory.mktemp("installed") / "venv")
    environment.install(*all_wheels.glob("*.whl"))
    return environment


@pytest.fixture(scope="session")
def _hookpatch_alone(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("alone") / "venv")
    environment.install(*wheels.glob("hookpatch-*.whl"))
    return environment


@pytest.fixture
def environment(_hookpatch_alone: Environment, tmp_path: Path) -> Environment:
    """An environment of the test's own with the wheel of hookpatch."""
    environment = Environment(tmp_path / "venv")
    environment.take_over(_hookpatch_alone)
    return environment


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What imports torch comes last: with its 360,000 objects each look at all objects takes ten times as long."""
    _sample(items)
    items.sort(key=lambda item: item.get_closest_marker("model") is not None)
    for item in items:
        if not IN_REPOSITORY and item.get_closest_marker("repository") is not None:
            item.add_marker(pytest.mark.skip(reason="it looks at files of the repository"))


def _sample(items: list[pytest.Item]) -> None:
    """Of a row marked ``sampled(count)`` leave so many to `make test`, spread over the row; others are `ends`."""
    rows: dict[tuple[Any, ...], list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None and item.get_closest_marker("ends") is None:
            rows.setdefault((item.nodeid.partition("[")[0], *mark.args), []).append(item)
    for (_, count), row in rows.items():
        kept = {place * len(row) // count for place in range(count)}
        for place, item in enumerate(row):
            if place not in kept:
                item.add_marker("ends")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Forget the deselected tests, of which pytest prints the number alone: looks at all objects take half the time."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    deselected = reporter.stats.get("deselected", []) if reporter else []
    deselected[:] = [session] * len(deselected)
    gc.collect()
