"""`hookpatch new`: a new plugin passes the plugin's own tests, and after an error no file is left."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from environments import ROOT, Environment

from hookpatch._engine.patch.versions import releases_like
from hookpatch.command._new import write_plugin
from hookpatch.errors import NewPluginError, TargetSyntaxError

pytestmark = pytest.mark.once

# Target by plugin name: no target, the standard library, a method of a distribution, a module that is not installed.
PLUGINS = {
    "tell_mean": None,
    "tell_dumps": "json:dumps",
    "tell_get": "iniconfig:IniConfig.get",
    "tell_entry": """no_vendor.shop:PRICES["it's"]""",
}


@pytest.fixture
def at_home(environment: Environment, tmp_path: Path) -> Environment:
    """Return an environment with hookpatch and an empty folder."""
    environment.work_in(tmp_path / "work", {"empty/.keep": ""})
    (environment.folder / "empty" / ".keep").unlink()
    return environment


def hookpatch(environment: Environment, *words: str) -> subprocess.CompletedProcess[str]:
    return environment.run(environment.python.parent / "hookpatch", *words)


@pytest.mark.ends
def test_what_is_written_installs_passes_its_tests_has_its_effect_and_leaves_nothing(at_home: Environment) -> None:
    """A new plugin installs, passes the tests, patches, and uninstalls without leftovers.

    ruff and mypy --strict find no fault.
    """
    for name, target in PLUGINS.items():
        completed = hookpatch(at_home, "new", name, *(["--target", target] if target else []))
        assert (completed.stderr, completed.returncode) == ("", 0)
    written = sorted(path.name for path in at_home.folder.glob("hookpatch-*"))
    assert written == ["hookpatch-tell-dumps", "hookpatch-tell-entry", "hookpatch-tell-get", "hookpatch-tell-mean"]
    assert clean(at_home.folder, written) == ""

    before = set(os.listdir(at_home.site_packages))
    at_home.install(*(word for name in written for word in ("--editable", str(at_home.folder / name))))
    tested = at_home.run("-m", "pytest", "-p", "no:cacheprovider", "-q", *written)
    assert tested.stdout.splitlines()[-1].startswith("10 passed, 2 skipped in "), tested.stdout
    program = "import statistics; print(statistics.mean([1, 2, 3]))"
    completed = at_home.run("-c", program, HOOKPATCH_PLUGINS="tell_mean")
    assert (completed.stdout, completed.stderr) == ("2\n", "tell_mean: statistics:mean was called\n")
    plan = at_home.run(at_home.python.parent / "hookpatch", "list", COLUMNS="100")
    assert "iniconfig:IniConfig.get (iniconfig 2." in plan.stdout

    for name in written:
        at_home.uninstall(name)
    assert set(os.listdir(at_home.site_packages)) == before


def test_settings_of_a_folder_above_do_not_reach_the_tests(at_home: Environment) -> None:
    """A new plugin in the folder of another project has settings of pytest of its own."""
    (at_home.folder / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "--no-such-option"\n')
    assert hookpatch(at_home, "new", "tell_mean").returncode == 0
    package = str(at_home.folder / "hookpatch-tell-mean")
    words = ("-m", "pytest", "-p", "no:cacheprovider", "-q", "--collect-only", package)
    assert at_home.run(*words, PYTHONPATH=package).stdout.splitlines()[-1].startswith("3 tests collected")


def clean(folder: Path, written: list[str]) -> str:
    """Return the complaints of ruff and mypy about plugins, each in a separate folder.

    The order of isort is checked, too.
    """
    complaints = ""
    for words in (["check", "--quiet"], ["check", "--quiet", "--extend-select", "I,B,UP,SIM"], ["format", "--check"]):
        completed = subprocess.run(
            [sys.executable, "-m", "ruff", *words, *written], cwd=folder, capture_output=True, text=True
        )
        complaints += completed.stdout if completed.returncode else ""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--explicit-package-bases",
        "--cache-dir",
        os.devnull,
        *written,
    ]
    paths = os.pathsep.join([*written, str(ROOT)])
    completed = subprocess.run(
        command, cwd=folder, env={**os.environ, "MYPYPATH": paths}, capture_output=True, text=True
    )
    return complaints + (completed.stdout if completed.returncode else "")


def test_it_says_what_it_has_written_and_what_to_do_next(at_home: Environment) -> None:
    """The command lists the written files and the next steps.

    The folder may exist if empty, and a missing target is reported.
    """
    completed = hookpatch(at_home, "new", "tell_entry", "--target", "no_vendor:f", "--into", "empty")
    assert completed.stdout == (
        "empty:\n"
        "  LICENSE\n"
        "  README.md\n"
        "  hookpatch_tell_entry/__init__.py\n"
        "  hookpatch_tell_entry/py.typed\n"
        "  hookpatch_tell_entry/tell_entry.py\n"
        "  pyproject.toml\n"
        "  tests/test_tell_entry.py\n"
        "Note: there is no module no_vendor here; a module beside a program's script is found when the script runs. "
        "Without the module two tests of the plugin are skipped.\n"
        "The plugin prints each call of no_vendor:f. Lines to change are marked CHANGE. Next:\n"
        "  cd empty\n"
        "  python -m pip install --editable '.[test]'\n"
        "  python -m pytest\n"
        "  hookpatch plan tell_entry\n"
        "  HOOKPATCH_PLUGINS=tell_entry python program.py\n"
    )
    misspelt = hookpatch(at_home, "new", "tell_text", "--target", "emial.mime.text:MIMEText")
    note = (
        "Note: there is no module emial; did you mean 'email'? Without the module two tests of the plugin are skipped."
    )
    assert note in misspelt.stdout.splitlines()
    wrong = hookpatch(at_home, "new", "tell_entry", "--into", "empty")
    problem = "new plugin 'tell_entry': empty exists already and is not empty; name another folder with --into"
    assert (wrong.stdout, wrong.returncode) == ("", 78)
    assert wrong.stderr.startswith(f"hookpatch: error: {problem}")
    assert wrong.stderr.count("\n") == 1


def test_address_and_what_it_requires_stand_in_the_module(tmp_path: Path) -> None:
    """The module has the address and the required release. The metadata names the package that the plugin waits for."""
    release = metadata.version("pluggy")
    folder = write_plugin("mine", "pluggy._hooks:HookCaller.__call__", str(tmp_path / "mine")).folder
    source = (folder / "hookpatch_mine" / "mine.py").read_text()
    assert 'TARGET: Final = "pluggy._hooks:HookCaller.__call__"\n' in source
    assert f'requires="pluggy>={release},<2",\n' in source
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {
        "hookpatch": {"mine": "hookpatch_mine.mine"},
        "hookpatch.waits_for": {"mine": "pluggy"},
    }
    assert f"pluggy>={release},<2; tested on {release}.\n" in (folder / "README.md").read_text()


RULE = "a name is a letter, then letters, digits and single '_', no word of Python's own, since it names a module, too"


@pytest.mark.parametrize(
    ("name", "words", "problem"),
    [
        ("tell-mean", {}, f"not a valid plugin name; did you mean 'tell_mean'? {RULE}"),
        ("2fast", {}, f"not a valid plugin name; did you mean 'fast'? {RULE}"),
        ("class", {}, f"not a valid plugin name; {RULE}"),
        ("größe", {}, f"not a valid plugin name; did you mean 'gr_e'? {RULE}"),
        ("", {}, f"not a valid plugin name; {RULE}"),
        ("loud", {}, "loud-kit 1.0 has a plugin 'loud'; choose another name, or uninstall it"),
        ("Loud", {}, "loud-kit 1.0 has a plugin 'loud'; choose another name, or uninstall it"),
        (
            "kit",
            {},
            "the distribution hookpatch-kit 1.0 is installed, and the new plugin would replace the distribution; "
            "choose another name",
        ),
        ("mine", {"into": "full"}, "full exists already and is not empty; name another folder with --into"),
        ("mine", {"into": "a_file"}, "a_file exists already and is not empty; name another folder with --into"),
        (
            "mine",
            {"into": "no/where"},
            "no/where cannot be written (No such file or directory); name another one with --into",
        ),
        (
            "mine",
            {"address": "email.mime.txet:MIMEText"},
            "target 'email.mime.txet:MIMEText': there is no module email.mime.txet; did you mean 'email.mime.text'?",
        ),
    ],
)
def test_what_cannot_be_is_told_and_nothing_is_written(
    name: str,
    words: dict[str, str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_distribution: Callable[..., Path],
) -> None:
    """An impossible name, folder or target gives a full message. Existing files stay unchanged."""
    make_distribution("loud-kit", plugins={"loud": "loud_kit"})
    make_distribution("hookpatch-kit")
    work = tmp_path / "work"
    (work / "full").mkdir(parents=True)
    (work / "full" / "mine.txt").touch()
    (work / "a_file").touch()
    monkeypatch.chdir(work)
    before = sorted(work.rglob("*"))
    with pytest.raises(NewPluginError) as caught:
        write_plugin(name, **words)
    assert str(caught.value) == f"new plugin '{name}': {problem}"
    assert sorted(work.rglob("*")) == before


def test_address_that_cannot_be_read_is_the_error_of_each_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unreadable address raises the same TargetSyntaxError as a patch."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TargetSyntaxError) as caught:
        write_plugin("mine", "json.dumps")
    assert str(caught.value) == (
        "target 'json.dumps' has no colon between module and name; did you mean 'json:dumps'? write module:name, "
        "module:Class.method or module:mapping['key']"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_there", [False, True])
def test_what_fails_half_way_is_taken_back(is_there: bool, tmp_path: Path) -> None:
    """After a failed write the folder is restored, or absent if the folder did not exist before."""
    folder = tmp_path / "new"
    if is_there:
        folder.mkdir()
    name = "a" * 251  # with `.py` the file's name is longer than file systems allow
    with pytest.raises(NewPluginError) as caught:
        write_plugin(name, into=str(folder))
    assert str(caught.value) == (
        f"new plugin '{name}': {folder} cannot be written (File name too long); name another one with --into"
    )
    assert list(tmp_path.rglob("*")) == ([folder] if is_there else [])


@pytest.mark.parametrize(
    ("version", "requirement"),
    [
        ("0.8.1", "kit>=0.8.1,<0.9"),
        ("2.13.0+cpu", "kit>=2.13.0,<3"),
        ("1.0rc1", "kit>=1.0rc1,<2"),
        ("2004d-local", "kit"),
    ],
)
def test_required_is_the_installed_release_until_one_that_may_break(version: str, requirement: str) -> None:
    """The requirement excludes the next release that may break: before 1.0 each minor release may."""
    assert releases_like("kit", version) == requirement


@pytest.mark.repository
def test_template_is_among_the_plugins() -> None:
    """plugins/_template is a link to the template folder in the wheel."""
    link = ROOT / "plugins" / "_template"
    assert link.is_symlink()
    assert link.resolve() == ROOT / "hookpatch" / "command" / "_template"
