"""The configuration, `[tool.hookpatch]` and HOOKPATCH_CONFIG: when it is read, and which keys are refused."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from environments import ROOT, Environment, furnished

import hookpatch
from hookpatch._bootstrap import config as _config
from hookpatch._bootstrap import environment as _environment
from hookpatch._bootstrap import selection as _selection
from hookpatch._bootstrap.config import Config, nearest_config, read_config
from hookpatch._engine.lock.fingerprint import of_slot
from hookpatch._engine.lock.lockfile import Lock, Locked, write_lock
from hookpatch._engine.slots.resolve import resolve
from hookpatch.errors import DriftError, DriftWarning, NotAllowed, OptionsError, SettingError, UnknownPlugin

pytestmark = pytest.mark.once

MakeDistribution = Callable[..., Path]

TUNED = """
    '''Set a speed.'''
    from dataclasses import dataclass
    import hookpatch

    @dataclass(frozen=True)
    class Options:
        speed: int = 2
        unit: str = "mph"

    @hookpatch.hookimpl
    def hookpatch_patches(options):
        yield hookpatch.replace("vendor:speed", f"{options.speed} {options.unit}")
    """


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset all variables of hookpatch."""
    for variable in [name for name in os.environ if name.startswith("HOOKPATCH_")]:
        monkeypatch.delenv(variable)


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write a configuration, and set HOOKPATCH_CONFIG."""

    def write(text: str) -> Path:
        path = tmp_path / "pyproject.toml"
        path.write_text(text)
        monkeypatch.setenv("HOOKPATCH_CONFIG", str(path))
        return path

    return write


# --- the file


def test_each_key_is_read(tmp_path: Path) -> None:
    """A lock file's path begins at the folder of the file."""
    path = tmp_path / "pyproject.toml"
    path.write_text(
        '[project]\nname = "any"\n[tool.hookpatch]\nplugins = ["b", "a@kit"]\non_error = "warn"\non_drift = "skip"\n'
        'lock = "locks/../ours.lock"\nallow = ["a"]\n[tool.hookpatch.options.a]\npasses = ["x"]\nat = 1979-05-27\n'
    )
    config = read_config(str(path), "a test")
    assert (config.plugins, config.on_error, config.on_drift, config.allow) == (["b", "a@kit"], "warn", "skip", ["a"])
    assert config.lock == str(tmp_path / "ours.lock")
    assert config.options["a"]["passes"] == ["x"]
    assert config.where("plugins") == f"{path}: tool.hookpatch.plugins"


def test_nothing_is_said_by_an_empty_table(tmp_path: Path) -> None:
    """Each key may be left out."""
    path = tmp_path / "ours.toml"
    path.write_text("[tool.hookpatch]\n")
    config = read_config(str(path), "a test")
    assert {name: getattr(config, name) for name in Config.__slots__ if name != "path"} == {
        "plugins": [],
        "options": {},
        **dict.fromkeys(("on_error", "on_drift", "lock", "allow")),
    }


NAMES = 'it takes an array of plugin names, such as ["fuse_qkv_off"], not'
TABLES = "it takes a table for each plugin, such as [tool.hookpatch.options.onnxsim_skip], not"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "[tool.hookpatch",
            "{}: the file is no TOML: Expected ']' at the end of a table declaration (at end of document)",
        ),
        ("\n[tool.hookpatch]\nlock = x", "{}: the file is no TOML: Invalid value (at line 3, column 8)"),
        ("plugins = ['a']", "{}: the file has no table [tool.hookpatch]; a test takes a file with such a table"),
        ("tool = 3", "{}: the file has no table [tool.hookpatch]; a test takes a file with such a table"),
        ("[tool]\nhookpatch = 3", "{}: tool.hookpatch: it takes a table, not an integer"),
        (
            "[tool.hookpatch]\non-error = 'warn'",
            "{}: tool.hookpatch.on-error: there is no such key; did you mean 'on_error'? there are allow, lock, "
            "on_drift, on_error, options, plugins",
        ),
        (
            "[tool.hookpatch]\nzeal = 1",
            "{}: tool.hookpatch.zeal: there is no such key; there are allow, lock, on_drift, on_error, options, "
            "plugins",
        ),
        (
            "[tool.hookpatch]\non_error = 'stop'",
            "{}: tool.hookpatch.on_error: 'stop' is not a policy; it takes exit or warn",
        ),
        ("[tool.hookpatch]\non_error = true", "{}: tool.hookpatch.on_error: it takes exit or warn, not a boolean"),
        (
            "[tool.hookpatch]\non_drift = 'exit'",
            "{}: tool.hookpatch.on_drift: 'exit' is not a policy; it takes warn, skip or error",
        ),
        (
            "[tool.hookpatch]\nlock = ''",
            "{}: tool.hookpatch.lock: it takes a path, from the folder of this file, not an empty string",
        ),
        ("[tool.hookpatch]\nplugins = 'a,b'", f"{{}}: tool.hookpatch.plugins: {NAMES} a string"),
        ("[tool.hookpatch]\nplugins = ['a', 2.5]", f"{{}}: tool.hookpatch.plugins: {NAMES} an array with a float"),
        ("[tool.hookpatch]\nallow = ['']", f"{{}}: tool.hookpatch.allow: {NAMES} an array with an empty string"),
        ("[tool.hookpatch]\noptions = [1]", f"{{}}: tool.hookpatch.options: {TABLES} an array"),
        ("[tool.hookpatch.options]\na = 1979-05-27", f"{{}}: tool.hookpatch.options.a: {TABLES} a date or time"),
    ],
)
def test_mistake_is_told_with_its_file_and_key(tmp_path: Path, text: str, problem: str) -> None:
    """The message has file, key and the accepted values; for malformed TOML the line."""
    path = tmp_path / "ours.toml"
    path.write_text(text)
    with pytest.raises(SettingError) as caught:
        read_config(str(path), "a test")
    assert str(caught.value) == problem.format(path)


def test_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Missing, a folder, not UTF-8, relative."""
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    messages = []
    for path in (str(tmp_path / "none"), str(tmp_path), str(binary), "ours.toml"):
        with pytest.raises(SettingError) as caught:
            read_config(path, "HOOKPATCH_CONFIG")
        messages.append(str(caught.value))
    assert messages == [
        f"HOOKPATCH_CONFIG: there is no file {tmp_path / 'none'}",
        f"HOOKPATCH_CONFIG: {tmp_path} cannot be read: Is a directory",
        f"{binary}: the file is no TOML: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        "HOOKPATCH_CONFIG: 'ours.toml' is no absolute path, and child processes may have other current "
        'folders; write "$PWD/ours.toml"',
    ]


def test_nearest_pyproject_with_a_table_of_ours_counts(tmp_path: Path) -> None:
    """Pass over a pyproject that merely depends on hookpatch; a broken file with the name counts."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.hookpatch]\n")
    (inner / "pyproject.toml").write_text('[project]\ndependencies = ["hookpatch"]\n')
    assert nearest_config(str(inner)) == str(tmp_path / "pyproject.toml")
    (tmp_path / "a" / "pyproject.toml").write_text("broken = [")
    assert nearest_config(str(inner)) == str(tmp_path / "pyproject.toml")
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.hookpatch]\nbroken = [")
    assert nearest_config(str(inner)) == str(tmp_path / "a" / "pyproject.toml")


def test_settings_are_documented(tmp_path: Path) -> None:
    """docs/command.md has each key and each variable, and a valid example."""
    text = (ROOT / "docs" / "command.md").read_text()
    example = text.partition("```toml\n")[2].partition("```")[0]
    path = tmp_path / "pyproject.toml"
    path.write_text(example)
    assert read_config(str(path), "a test").options == {"onnxsim_skip": {"passes": ["fuse_bn_into_conv"]}}
    for key in _config._KEYS:
        assert re.search(rf"`{key} = |\[tool\.hookpatch\.{key}\.", text), key
    for name in ("PLUGINS", "OPTIONS", "CONFIG", "DISABLE", "ON_ERROR", "LOCK", "ON_DRIFT"):
        assert f"`{getattr(_environment, name)}" in text


# --- arguments, environment, configuration


def test_variable_comes_before_the_key(configured: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each variable for plugins, policies and lock file comes before its key; empty variables are ignored."""
    path = configured('[tool.hookpatch]\nplugins = ["a", "b"]\non_error = "warn"\non_drift = "skip"\nlock = "x.lock"\n')
    for variable in ("PLUGINS", "ON_ERROR", "ON_DRIFT", "LOCK"):
        monkeypatch.setenv(f"HOOKPATCH_{variable}", "")
    selection = _selection.from_environment()
    assert (selection.names, selection.asked_by) == (("a", "b"), f"{path}: tool.hookpatch.plugins")
    assert (_selection.on_error(), _selection.on_drift()) == ("warn", "skip")
    with pytest.raises(SettingError) as caught:
        _selection.lock()
    assert str(caught.value) == (
        f"{path}: tool.hookpatch.lock: there is no file {path.parent / 'x.lock'}; 'hookpatch lock NAME...' writes one"
    )
    (path.parent / "x.lock").touch()
    assert _selection.lock() == (str(path.parent / "x.lock"), "skip")
    for variable, value in {"PLUGINS": "c", "ON_ERROR": "exit", "ON_DRIFT": "error", "LOCK": str(path)}.items():
        monkeypatch.setenv(f"HOOKPATCH_{variable}", value)
    selection = _selection.from_environment()
    assert (selection.names, selection.asked_by) == (("c",), "HOOKPATCH_PLUGINS=c")
    assert (_selection.on_error(), _selection.lock()) == ("exit", (str(path), "error"))


@pytest.mark.parametrize(
    ("environment", "argument", "speed"),
    [
        ({}, {}, "3 kmh"),
        ({"speed": 4}, {}, "4 kmh"),
        ({"speed": 4}, {"unit": "knots"}, "4 knots"),
        ({"speed": 4, "unit": "kn"}, {"speed": 5, "unit": "m/s"}, "5 m/s"),
    ],
    ids=["configuration", "environment", "one by one", "argument"],
)
def test_options_are_merged_value_by_value(
    configured: Callable[[str], Path],
    make_distribution: MakeDistribution,
    make_module: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    environment: Mapping[str, object],
    argument: Mapping[str, object],
    speed: str,
) -> None:
    """Options of active() come first, then HOOKPATCH_OPTIONS, then the file; spellings of a name are equal."""
    configured("[tool.hookpatch.options.Tuned]\nspeed = 3\nunit = 'kmh'\n[tool.hookpatch.options.other]\nx = 1\n")
    monkeypatch.setenv("HOOKPATCH_OPTIONS", json.dumps({"tuned@kit": environment, "other": {"y": 2}}))
    make_distribution("kit", "1.0", {"tuned": "plugin_tuned"}, {"plugin_tuned": TUNED})
    vendor = make_module("vendor", "speed = 1")
    with hookpatch.active("tuned", options={"tuned": argument} if argument else None):
        assert vendor.speed == speed
    assert json.loads(hookpatch.environment("tuned")["HOOKPATCH_OPTIONS"]) == {
        "tuned": {"speed": 3, "unit": "kmh", **environment}
    }


def test_block_has_the_lock_file_and_the_policy(
    configured: Callable[[str], Path], make_module: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A block takes lock file and policy from the argument, else the variable, else the file."""
    configured("[tool.hookpatch]\nlock = 'ours.lock'\non_drift = 'skip'\n")
    make_module("earlier", "limit = 3")
    make_module("vendor", "limit = 5")
    target = hookpatch.Target("earlier:limit")
    fingerprint = of_slot(resolve(target, importlib.import_module("earlier"), "this test"))
    write_lock(Lock((), {}, {"vendor:limit": Locked(fingerprint)}, str(tmp_path / "ours.lock")))
    patch = hookpatch.replace("vendor:limit", 4)
    with hookpatch.active(patch) as session:
        assert [row.state for row in session.report()] == ["skipped"]
    monkeypatch.setenv("HOOKPATCH_ON_DRIFT", "error")
    with pytest.raises(DriftError):
        hookpatch.active(patch).open()
    with pytest.warns(DriftWarning), hookpatch.active(patch, on_drift="warn") as session:
        assert [row.state for row in session.report()] == ["applied"]
    write_lock(Lock((), {}, {}, str(tmp_path / "other.lock")))
    with hookpatch.active(patch, lock=tmp_path / "other.lock") as session:
        assert [row.state for row in session.report()] == ["applied"]


def test_wrong_option_of_a_file_is_told_with_its_key(
    configured: Callable[[str], Path], make_distribution: MakeDistribution
) -> None:
    """The message has the key, the plugin and the plugin's options."""
    path = configured("[tool.hookpatch.options.tuned]\nspeed = 'fast'\n")
    make_distribution("kit", "1.0", {"tuned": "plugin_tuned"}, {"plugin_tuned": TUNED})
    with pytest.raises(OptionsError) as caught:
        hookpatch.active("tuned")
    assert str(caught.value) == (
        "options of plugin 'tuned' (kit 1.0): Expected 'int', got 'str' - at 'speed'; it takes speed: int, unit: str "
        f"({path}: tool.hookpatch.options.tuned)"
    )


def test_allow_list_of_a_file_binds_whoever_asks(
    configured: Callable[[str], Path], make_distribution: MakeDistribution, make_module: Callable[..., Any]
) -> None:
    """A block too; `name@distribution` is a name."""
    make_distribution("kit", "1.0", {"tuned": "plugin_tuned"}, {"plugin_tuned": TUNED})
    make_module("vendor", "speed = 1")
    path = configured('[tool.hookpatch]\nallow = ["other"]\n')
    with pytest.raises(NotAllowed) as caught:
        hookpatch.active("tuned")
    assert str(caught.value) == (
        "plugin 'tuned' of kit 1.0 (asked for by active()) is not allowed here: "
        f"{path}: tool.hookpatch.allow does not name it"
    )
    _selection._configs.clear()
    configured('[tool.hookpatch]\nallow = ["tuned@kit"]\n')
    hookpatch.active("tuned").close()


def test_process_keeps_the_file_that_it_has_read(configured: Callable[[str], Path]) -> None:
    """A later change of the file holds for the next process, and does not break this process."""
    path = configured('[tool.hookpatch]\non_drift = "skip"\n')
    assert _selection.on_drift() == "skip"
    path.write_text("broken = [")
    assert _selection.on_drift() == "skip"


def test_kill_switch_wins_over_a_file(configured: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the kill switch the file is not read."""
    configured("broken = [")
    monkeypatch.setenv("HOOKPATCH_DISABLE", "1")
    assert not _environment.asks_for_patches()
    assert _selection.from_environment().names == ()
    assert (_selection.on_error(), _selection.lock(), _selection.asked_names()) == ("exit", None, [])


# --- real programs

CODE = "import vendor; print(vendor.speed)"
FILES = {
    "vendor.py": "speed = weight = 1",
    "script.py": CODE,
    "project/pyproject.toml": "[tool.hookpatch]\nplugins = ['tuned']\n[tool.hookpatch.options.tuned]\nspeed = 7\n",
    "project/deep/vendor.py": "speed = weight = 1",
    "project/deep/script.py": CODE,
    "options.toml": "[tool.hookpatch.options.tunde]\nspeed = 7\n",
    "unknown.toml": "[tool.hookpatch]\nplugins = ['tunde']\n",
    "lenient.toml": "[tool.hookpatch]\nplugins = ['tunde']\non_error = 'warn'\n",
    "policy.toml": "[tool.hookpatch]\non_error = 'stop'\n",
    "nothing.toml": "[tool.hookpatch]\non_drift = 'skip'\n",
    "site-packages/pip.py": "import os; print(os.environ.get('HOOKPATCH_CONFIG'))",
}


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with two plugins, and a folder with configurations."""
    plugins = {"tuned": TUNED, "light": TUNED.replace("vendor:speed", "vendor:weight")}
    return furnished(tmp_path_factory.mktemp("config"), wheels, plugins, FILES)


def output_of(home: Environment, *command: str, cwd: str = "", **variables: str) -> tuple[str, str, int]:
    """Return output, errors and status of a program."""
    completed = home.run(*command, cwd=home.folder / cwd, **variables)
    return completed.stdout.strip(), completed.stderr.strip(), completed.returncode


def test_named_file_is_enough(home: Environment) -> None:
    """A named file holds in the program and its child processes; not with -E, the kill switch, or in pip's builds."""
    path = str(home.folder / "project" / "pyproject.toml")
    assert output_of(home, "script.py", HOOKPATCH_CONFIG=path) == ("7 mph", "", 0)
    again = "import subprocess, sys; sys.path[0] = '..'; import vendor; "
    again += "subprocess.run([sys.executable, 'script.py'], cwd='..')"
    assert output_of(home, "-c", again, cwd="project", HOOKPATCH_CONFIG=path) == ("7 mph", "", 0)
    assert output_of(home, "-E", "script.py", HOOKPATCH_CONFIG=path) == ("1", "", 0)
    assert output_of(home, "script.py", HOOKPATCH_CONFIG=path, HOOKPATCH_DISABLE="1") == ("1", "", 0)
    assert output_of(home, "-m", "pip", cwd="site-packages", HOOKPATCH_CONFIG=path) == ("None", "", 0)


def test_file_that_nobody_names_is_nothing_to_python(home: Environment) -> None:
    """Neither a program nor a block reads a file of the working folder unless named."""
    code = "import sys, hookpatch; hookpatch.active('tuned').close(); print('tomllib' in sys.modules)"
    assert output_of(home, "script.py", cwd="project/deep") == ("1", "", 0)
    assert output_of(home, "-c", code, cwd="project/deep") == ("False", "", 0)


@pytest.mark.parametrize(
    ("name", "status", "error"),
    [
        (
            "unknown.toml",
            78,
            "error: no plugin 'tunde' (asked for by {}: tool.hookpatch.plugins); did you mean 'tuned'? installed: "
            "light, tuned [hookpatch explain UnknownPlugin]",
        ),
        (
            "options.toml",
            78,
            "error: no plugin 'tunde' (asked for by {}: tool.hookpatch.options.tunde); did you mean 'tuned'? "
            "installed: light, tuned [hookpatch explain UnknownPlugin]",
        ),
        (
            "policy.toml",
            78,
            "error: {}: tool.hookpatch.on_error: 'stop' is not a policy; it takes exit or warn "
            "[hookpatch explain SettingError]",
        ),
        (
            "lenient.toml",
            0,
            "warning: nothing is patched: no plugin 'tunde' (asked for by {}: tool.hookpatch.plugins); did you mean "
            "'tuned'? installed: light, tuned [hookpatch explain UnknownPlugin]",
        ),
        ("nothing.toml", 0, ""),
    ],
)
def test_mistake_ends_the_program_before_it_starts(home: Environment, name: str, status: int, error: str) -> None:
    """A mistake ends the program before its first line, unless the file sets on_error; not without plugins."""
    path = home.folder / name
    line = f"hookpatch: {error.format(path)}" if error else ""
    assert output_of(home, "script.py", HOOKPATCH_CONFIG=str(path)) == ("" if status else "1", line, status)


def test_command_takes_the_project_it_is_in(home: Environment) -> None:
    """`hookpatch run` takes the project's file; -p adds, -o comes before the file; the variable replaces the file."""
    names = "import os, vendor; print(vendor.speed, os.environ.get('HOOKPATCH_PLUGINS'))"
    deep = "project/deep"
    run = ("-m", "hookpatch", "run")
    assert output_of(home, *run, "script.py", cwd=deep) == ("7 mph", "", 0)
    assert output_of(home, *run, "-o", "tuned.unit=kmh", "-c", names, cwd=deep) == ("7 kmh None", "", 0)
    assert output_of(home, *run, "-p", "light", "-c", names, cwd=deep) == ("7 mph tuned,light", "", 0)
    assert output_of(home, *run, "-c", names, cwd=deep, HOOKPATCH_PLUGINS="light") == ("1 light", "", 0)
    wrong = output_of(home, *run, "-o", "tuned.speed=fast", "script.py", cwd=deep)
    assert wrong[1:] == (
        "hookpatch: error: options of plugin 'tuned' (tuned-dist 1.0): speed=fast: Expected 'int', and the text "
        "'fast' is none; it takes speed: int, unit: str [hookpatch explain OptionsError]",
        78,
    )
    named = str(home.folder / "nothing.toml")
    assert output_of(home, *run, "script.py", cwd=deep, HOOKPATCH_CONFIG=named) == ("1", "", 0)


def test_lock_and_check_take_what_the_project_asks_for(home: Environment) -> None:
    """lock and check take the project's plugins, options and lock file, written to the named place."""
    project = home.folder / "locking"
    project.mkdir()
    (project / "vendor.py").write_text("speed = 1")
    text = FILES["project/pyproject.toml"].replace("plugins", "lock = 'locks/ours.lock'\nplugins")
    (project / "pyproject.toml").write_text(text)
    (project / "locks").mkdir()
    path = project / "locks" / "ours.lock"
    locked = output_of(home, "-m", "hookpatch", "lock", cwd="locking", PYTHONPATH=str(project))
    assert locked == (f"no distribution  vendor:speed\n{path} written", "", 0)
    assert "speed = 7" in path.read_text()
    completed = output_of(home, "-m", "hookpatch", "check", "--json", cwd="locking", PYTHONPATH=str(project))
    answer = json.loads(completed[0])
    assert (answer["lock"], answer["status"], completed[2]) == (str(path), 0, 0)
    assert [target["target"] for target in answer["targets"]] == ["vendor:speed"]


def test_options_for_a_plugin_that_is_not_installed_are_refused(
    configured: Callable[[str], Path], make_distribution: MakeDistribution
) -> None:
    """Options for a missing plugin are an error; options for an unselected plugin are kept."""
    from hookpatch._bootstrap.installed import check_config

    make_distribution("kit", "1.0", {"tuned": "plugin_tuned"}, {"plugin_tuned": TUNED})
    path = configured("[tool.hookpatch.options.tuend]\nspeed = 3\n")
    with pytest.raises(UnknownPlugin) as caught:
        check_config()
    assert caught.value.asked_by == f"{path}: tool.hookpatch.options.tuend"
    _selection._configs.clear()
    configured("[tool.hookpatch.options.tuned]\nspeed = 3\n")
    check_config()
    assert _selection.from_environment().options == {}
