"""The contract of each distribution in plugins/: all have the same shape."""

from __future__ import annotations

import importlib
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import plugins_table
import pytest
from environments import ROOT
from packaging.requirements import Requirement
from plugin_facts import OPTIONS, PROJECTS, Project, facts, project

import hookpatch
from hookpatch.command._new import write_plugin
from hookpatch.testing import pristine

HEADINGS = ["What it changes", "Install", "Use", "Check that it works", "If it does not", "Versions"]

Declared = Mapping[str, Mapping[str, Any]]


@pytest.mark.once
@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_distribution_can_be_installed_from_a_clone(project: Project) -> None:
    """None is on an index: a distribution needs hookpatch alone, or its README names the folders of the others."""
    words = tomllib.loads((project.folder / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {Requirement(word).name for word in words if word.startswith("hookpatch")} - {"hookpatch"}
    command = re.search(r"^From a clone: `pip install (.*)`", (project.folder / "README.md").read_text(), re.MULTILINE)
    assert names == set() or command is not None
    assert all(f"./plugins/{name}" in str(command and command[1]).split() for name in names)


def problems(project: Project, declared: Declared) -> Iterator[str]:
    """Yield a distribution's violations: of its files, and of its plugins' declarations."""
    headings = re.findall(r"^## (.+)$", (project.folder / "README.md").read_text(), re.MULTILINE)
    if [heading for heading in headings if heading in HEADINGS] != HEADINGS:
        yield f"README.md: its headings are {', '.join(headings)}; among them, in this order: {', '.join(HEADINGS)}"
    for path in (project.folder / "LICENSE", project.package / "py.typed"):
        if not path.is_file():
            yield f"{path.relative_to(project.folder)} is missing"
    if project.version != hookpatch.__version__:
        yield f"its version is {project.version}, that of hookpatch {hookpatch.__version__}"
    if not project.plugins:
        yield "it has no plugin"
    modules, hooks = set(project.plugins.values()), project.modules_with_hooks()
    yield from (f"{module} is an entry point and no module with a hook" for module in sorted(modules - hooks))
    yield from (f"{module} has a hook and no entry point" for module in sorted(hooks - modules))
    yield from (
        f"waits_for names {name}, which is no plugin of it"
        for name in sorted({*project.waits_for} - {*project.plugins})
    )
    for name in project.plugins:
        yield from (f"{name}: {problem}" for problem in problems_of_plugin(declared[name], name in OPTIONS))


def problems_of_plugin(plugin: Mapping[str, Any], is_always_given_options: bool) -> Iterator[str]:
    """Yield a plugin's violations."""
    if not plugin["description"]:
        yield "its module says nothing in its docstring"
    if plugin["imported"]:
        yield f"it imports its target: {', '.join(plugin['imported'])}"
    # A plugin with options is loaded at once, to check the options.
    if plugin["patches"] and not plugin["waits_for"] and not is_always_given_options:
        yield "it waits for nothing"
    for patch in plugin["patches"]:
        if not patch["why"]:
            yield f"{patch['target']}: why= is missing"
        if not is_link_or_reason(patch["upstream"]):
            yield f"{patch['target']}: upstream= is neither a link nor the reason why there is none"
        distribution, _ = patch["release"]
        if distribution and not any(re.match(rf"{distribution}\b", requirement) for requirement in patch["requires"]):
            yield f"{patch['target']}: requires= does not name {distribution}"


def is_link_or_reason(upstream: str | None) -> bool:
    return bool(
        upstream and (re.fullmatch(r"https://\S+", upstream) or re.match(r"no issue( is known)?: \w+ ", upstream))
    )


@pytest.fixture(scope="session")
def declared() -> Declared:
    """Return the declarations of the installed plugins, read in a process without the targets."""
    return facts()


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_distribution_keeps_the_contract(project: Project, declared: Declared) -> None:
    """Check README, licence, types, version and entry points; descriptions, targets and facts of the plugins."""
    assert list(problems(project, declared)) == []
    assert metadata.version(project.name) == project.version


def test_every_plugin_here_is_installed_and_every_target_is_known(declared: Declared) -> None:
    """Every plugin is installed, and every target known: the tests above are not empty."""
    assert {*declared} >= {name for project in PROJECTS for name in project.plugins}
    targets = [patch["module"] for plugin in declared.values() for patch in plugin["patches"]]
    assert {"torch.onnx", "onnxsim.onnx_simplifier", "third_party_api"} <= {*targets}


PATCHING = sorted({name for project in PROJECTS for name in project.plugins} - {"runtimes", "scan"})


@pytest.fixture(scope="session")
def _finders() -> None:
    """Import what adds a finder of its own to ``sys.meta_path``, which each test compares."""
    for name in ("six", "botocore.vendored.six", "transformers.models.llama.modeling_llama"):
        importlib.import_module(name)


@pytest.mark.model
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: no build for this Python")
@pytest.mark.usefixtures("_finders")
@pytest.mark.parametrize("name", PATCHING)
def test_plugin_is_applied_and_leaves_nothing_behind(
    name: str, declared: Declared, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A plugin is applied to its targets' modules, which are as before afterwards, exactly."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples" / "prepare_model"))
    patches = declared[name]["patches"]
    modules = [importlib.import_module(patch["module"]) for patch in patches]
    with pristine(*modules):
        with hookpatch.active(name, options={name: OPTIONS[name]} if name in OPTIONS else None) as session:
            assert {patch.state for patch in session.report()} == {"applied"}
        assert {patch.state for patch in session.report()} == {"restored"}


def test_plugins_with_commands_alone_are_those(declared: Declared) -> None:
    """The test above leaves out only plugins without patches."""
    assert [name for name in PATCHING if not declared[name]["patches"]] == []
    assert {name for name, plugin in declared.items() if not plugin["patches"]} & {"runtimes", "scan"} == {
        "runtimes",
        "scan",
    }


def test_table_is_up_to_date(declared: Declared) -> None:
    """plugins/README.md equals the output of `make plugins-table`."""
    assert plugins_table.PAGE.read_text() == plugins_table.page(declared)


# --- the contract can be broken


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a plugin within the contract: by `hookpatch new`, with the author's parts filled in."""
    folder = write_plugin("mine", "iniconfig:IniConfig.get", str(tmp_path_factory.mktemp("new") / "mine")).folder
    module = folder / "hookpatch_mine" / "mine.py"
    link = '"https://example.org/1"'
    module.write_text(re.sub(r'"CHANGE: a link .*"', link, module.read_text()))
    (folder / "hookpatch_mine-0.1.0.dist-info").mkdir()
    (folder / "hookpatch_mine-0.1.0.dist-info" / "entry_points.txt").write_text(
        "[hookpatch]\nmine = hookpatch_mine.mine\n[hookpatch.waits_for]\nmine = iniconfig\n"
    )
    return folder


def test_what_hookpatch_new_writes_keeps_it(written: Path) -> None:
    """A plugin by `hookpatch new` keeps the contract."""
    assert list(problems(project(written), facts(written))) == []


def _without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _changed(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return change


MODULE = "hookpatch_mine/mine.py"
TARGET = "iniconfig:IniConfig.get"


@pytest.mark.parametrize(
    ("breaking", "problem"),
    [
        (_without("LICENSE"), "LICENSE is missing"),
        (_without("hookpatch_mine/py.typed"), "hookpatch_mine/py.typed is missing"),
        (
            _changed("README.md", "## Versions", "## Releases"),
            f"README.md: its headings are {', '.join([*HEADINGS[:-1], 'Releases'])}; among them, in this order: "
            f"{', '.join(HEADINGS)}",
        ),
        (_changed("pyproject.toml", 'version = "0.1.0"', 'version = "9"'), "its version is 9, that of hookpatch 0.1.0"),
        (
            _changed("pyproject.toml", 'mine = "iniconfig"', 'yours = "iniconfig"'),
            "waits_for names yours, which is no plugin of it",
        ),
        (_changed(MODULE, "import sys\n", "import sys\nimport iniconfig\n"), "mine: it imports its target: iniconfig"),
        (_changed(MODULE, "why=", "until="), f"mine: {TARGET}: why= is missing"),
        (
            _changed(MODULE, '"https://example.org/1"', '"somewhere"'),
            f"mine: {TARGET}: upstream= is neither a link nor the reason why there is none",
        ),
        (_changed(MODULE, '"iniconfig>=', '"onnx>='), f"mine: {TARGET}: requires= does not name iniconfig"),
    ],
)
@pytest.mark.sampled(3)
def test_what_breaks_it_is_told(breaking: Callable[[Path], None], problem: str, written: Path, tmp_path: Path) -> None:
    """Each clause is checked with a plugin that breaks this clause alone."""
    folder = tmp_path / "broken"
    shutil.copytree(written, folder)
    breaking(folder)
    assert list(problems(project(folder), facts(folder))) == [problem]
