"""Selection: the plugins and options requested by the environment and active(), and no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hookpatch._bootstrap import environment as _environment
from hookpatch._bootstrap import selection as _selection
from hookpatch._bootstrap.environment import split_names
from hookpatch._bootstrap.selection import Selection, normalise
from hookpatch._plugins.variables import environment_with
from hookpatch.errors import HookpatchError, SettingError

MakeDistribution = Callable[..., Path]
Python = Callable[..., subprocess.CompletedProcess[str]]

FORM = 'write a JSON object by plugin, such as {"onnxsim_skip": {"passes": ["fuse_qkv"]}}'

TUNED = """
    from dataclasses import dataclass
    import hookpatch

    @dataclass(frozen=True)
    class Options:
        speed: int = 2

    @hookpatch.hookimpl
    def hookpatch_patches(options):
        yield hookpatch.replace("vendor:speed", options.speed)
    """


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset all variables of hookpatch."""
    for variable in [name for name in os.environ if name.startswith("HOOKPATCH_")]:
        monkeypatch.delenv(variable)


@pytest.fixture
def python(
    folder: Path, make_distribution: MakeDistribution, write_module: Callable[[str, str], Path], tmp_path: Path
) -> Python:
    """Run a real interpreter with the plugin ``tuned``, the module ``vendor`` and variables."""
    make_distribution("kit", "1.0", {"tuned": "plugin_tuned"}, {"plugin_tuned": TUNED})
    write_module("vendor", "speed = 1")

    def run(*flags: str, code: str = "import vendor; print(vendor.speed)", **variables: str) -> object:
        environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **variables}
        command = [sys.executable, *flags, "-c", code]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run  # type: ignore[return-value]  # the type of subprocess.run depends on its arguments


def result(completed: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    """Return status, output and errors of a program."""
    return completed.returncode, completed.stdout.strip(), completed.stderr.strip()


# --- names


@pytest.mark.parametrize(
    "name", ["fuse-qkv-off", "fuse_qkv_off", "Fuse.QKV.Off", "fuse-_.qkv__off", "-fuse-qkv-off-", "FUSE_QKV-OFF"]
)
def test_names_are_normalised_as_distributions_names(name: str) -> None:
    """Names are in lower case, with a dash for each run of separators (PEP 503)."""
    assert normalise(name) == "fuse-qkv-off"


def test_normalised_name_is_stable() -> None:
    """Normalising again changes nothing."""
    assert normalise(normalise("A__b.C")) == normalise("A__b.C") == "a-b-c"


def test_names_keep_their_order_and_spelling() -> None:
    """The order of selection is the order of layers."""
    assert Selection(["b", "C_c", "a"], {}, "a test").names == ("b", "C_c", "a")


def test_name_given_twice_counts_once() -> None:
    """Two spellings of a name count once, at the first place."""
    assert Selection(["fuse_qkv", "trim", "Fuse-QKV", "trim"], {}, "a test").names == ("fuse_qkv", "trim")


def test_same_name_of_two_distributions_counts_twice() -> None:
    """``name@distribution`` is another name for each distribution."""
    assert Selection(["trim@b", "trim@a"], {}, "a test").names == ("trim@b", "trim@a")


def test_options_are_copied() -> None:
    """A later change of the user's mapping does not change the selection."""
    options = {"trim": {"times": 1}}
    selection = Selection(["trim"], options, "a test")
    options["trim"]["times"] = 2
    assert selection.options == {"trim": {"times": 1}}


def test_selection_shows_what_was_asked_for() -> None:
    """The repr has the names, the options and the asker."""
    assert repr(Selection(["trim"], {"trim": {"times": 1}}, "a test")) == (
        "Selection(['trim'], {'trim': {'times': 1}}, asked_by='a test')"
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [("", []), (" , ,", []), ("a", ["a"]), ("a,b", ["a", "b"]), (" a ,\tb, ", ["a", "b"]), ("a@kit,b", ["a@kit", "b"])],
)
def test_comma_list_is_split_into_names(text: str, names: list[str]) -> None:
    """Blanks around names and empty names are dropped."""
    assert split_names(text) == names


# --- the environment, read


def test_nothing_is_asked_for_by_an_empty_environment() -> None:
    """Unset variables ask for nothing and have their defaults."""
    assert not _environment.asks_for_patches()
    assert not _environment.disabled()
    selection = _selection.from_environment()
    assert (selection.names, selection.options) == ((), {})
    assert _selection.on_error() == "exit"
    assert _environment.report_folder() is None


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_empty_variable_asks_for_nothing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Empty means the same as unset, for each variable."""
    for variable in ("PLUGINS", "OPTIONS", "DISABLE", "ON_ERROR", "REPORT"):
        monkeypatch.setenv(f"HOOKPATCH_{variable}", text if variable == "PLUGINS" else text.replace(",", ""))
    assert not _environment.asks_for_patches()
    assert _selection.from_environment().names == ()
    assert (_selection.on_error(), _environment.report_folder(), _environment.disabled()) == ("exit", None, False)


def test_variables_say_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, options, policy and report folder come from the environment; the asker is the variable with its text."""
    monkeypatch.setenv("HOOKPATCH_PLUGINS", " trim, fuse@kit ")
    monkeypatch.setenv("HOOKPATCH_OPTIONS", '{"trim": {"times": 3}}')
    monkeypatch.setenv("HOOKPATCH_ON_ERROR", "warn")
    monkeypatch.setenv("HOOKPATCH_REPORT", "reports")
    selection = _selection.from_environment()
    assert _environment.asks_for_patches()
    assert (selection.names, selection.options) == (("trim", "fuse@kit"), {"trim": {"times": 3}})
    assert selection.asked_by == "HOOKPATCH_PLUGINS=trim, fuse@kit"
    assert (_selection.on_error(), _environment.report_folder()) == ("warn", "reports")


@pytest.mark.parametrize(("text", "disabled"), [("1", True), ("yes", True), ("0", False), ("", False), (" 1 ", True)])
def test_kill_switch_is_set_by_anything_but_zero(monkeypatch: pytest.MonkeyPatch, text: str, disabled: bool) -> None:
    """With the kill switch set no plugin is requested."""
    monkeypatch.setenv("HOOKPATCH_PLUGINS", "trim")
    monkeypatch.setenv("HOOKPATCH_DISABLE", text)
    assert _environment.disabled() is disabled
    assert _environment.asks_for_patches() is not disabled


def refused(call: Callable[[], object], setting: str) -> str:
    """Return the message with which a setting is refused."""
    with pytest.raises(SettingError) as caught:
        call()
    assert caught.value.setting == setting
    assert str(caught.value) == f"{setting}: {caught.value.problem}"
    assert isinstance(caught.value, HookpatchError)
    return str(caught.value)


def test_options_that_are_not_json_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the place of the mistake and the expected form."""
    monkeypatch.setenv("HOOKPATCH_OPTIONS", "passes=fuse_qkv")
    assert refused(_selection.from_environment, "HOOKPATCH_OPTIONS") == (
        f"HOOKPATCH_OPTIONS: not JSON (Expecting value: line 1 column 1 (char 0)); {FORM}"
    )


@pytest.mark.parametrize("text", ["[]", "3", '"trim"', "null", '{"trim": 3}', '{"trim": ["times"]}', '{"trim": null}'])
def test_options_that_are_no_object_of_objects_are_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Options are given by plugin and by name."""
    monkeypatch.setenv("HOOKPATCH_OPTIONS", text)
    assert refused(_selection.from_environment, "HOOKPATCH_OPTIONS") == (
        f"HOOKPATCH_OPTIONS: not an object of objects; {FORM}"
    )


@pytest.mark.parametrize("word", ["ignore", "EXIT", "1"])
def test_unknown_policy_is_refused(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """An unknown policy is refused; two words are valid."""
    monkeypatch.setenv("HOOKPATCH_ON_ERROR", word)
    assert refused(_selection.on_error, "HOOKPATCH_ON_ERROR") == (
        f"HOOKPATCH_ON_ERROR: '{word}' is not a policy; it takes exit or warn"
    )


# --- the environment, written for a program to start


def test_environment_for_a_program_asks_for_the_plugins() -> None:
    """The copy has the selection; without options and report the copy lacks these variables."""
    environment = environment_with(["trim", "fuse"], {})
    assert environment["HOOKPATCH_PLUGINS"] == "trim,fuse"
    assert not {"HOOKPATCH_OPTIONS", "HOOKPATCH_REPORT"} & environment.keys()
    assert {name: text for name, text in environment.items() if not name.startswith("HOOKPATCH_")} == dict(os.environ)
    assert "HOOKPATCH_PLUGINS" not in os.environ


def test_environment_for_a_program_adds_to_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """New plugins come last, each once; options are merged by name, and new values win."""
    monkeypatch.setenv("HOOKPATCH_PLUGINS", "first")
    monkeypatch.setenv("HOOKPATCH_OPTIONS", '{"first": {"a": 1, "b": 1}, "other": {}}')
    environment = environment_with(["First", "second"], {"first": {"b": 2}, "second": {"c": 3}}, "/reports")
    assert environment["HOOKPATCH_PLUGINS"] == "first,second"
    assert json.loads(environment["HOOKPATCH_OPTIONS"]) == {"first": {"a": 1, "b": 2}, "other": {}, "second": {"c": 3}}
    assert environment["HOOKPATCH_REPORT"] == "/reports"


def test_forgetting_takes_our_requests_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child processes of an installer are not patched."""
    monkeypatch.setenv("HOOKPATCH_PLUGINS", "trim")
    monkeypatch.setenv("HOOKPATCH_OPTIONS", "{}")
    _environment.forget()
    _environment.forget()
    assert not {"HOOKPATCH_PLUGINS", "HOOKPATCH_OPTIONS"} & os.environ.keys()


# --- a real program


def test_program_is_patched_as_the_environment_asks(python: Python) -> None:
    """An unmodified program has the plugin, with its options, and nothing without the variable."""
    options = '{"Tuned": {"speed": 7}}'
    assert result(python()) == (0, "1", "")
    assert result(python(HOOKPATCH_PLUGINS="tuned")) == (0, "2", "")
    assert result(python(HOOKPATCH_PLUGINS=" tuned ,", HOOKPATCH_OPTIONS=options)) == (0, "7", "")
    assert result(python(HOOKPATCH_PLUGINS="TUNED@kit", HOOKPATCH_OPTIONS=options)) == (0, "7", "")


def test_kill_switch_holds_for_blocks_too(python: Python) -> None:
    """With HOOKPATCH_DISABLE set no patch is applied, and the report says why."""
    code = """if True:
        import hookpatch, vendor
        with hookpatch.active("tuned") as session:
            print(vendor.speed, *session.report())"""
    completed = python(code=code, HOOKPATCH_PLUGINS="no_such_plugin", HOOKPATCH_DISABLE="1")
    assert result(completed) == (0, "1 skipped   replace vendor:speed  (tuned): HOOKPATCH_DISABLE is set", "")


@pytest.mark.parametrize("flag", ["-E", "-I"])
def test_interpreter_that_ignores_the_environment_is_not_patched(python: Python, flag: str) -> None:
    """-E and -I are for our variables as for Python's own; wrong ones are not even refused."""
    code = (
        "from hookpatch._bootstrap import environment as e, selection as s\n"
        "print(e.asks_for_patches(), e.disabled(), s.on_error(), e.report_folder())"
    )
    completed = python(
        flag,
        code=code,
        HOOKPATCH_PLUGINS="no_such_plugin",
        HOOKPATCH_DISABLE="1",
        HOOKPATCH_ON_ERROR="?",
        HOOKPATCH_REPORT="reports",
    )
    assert result(completed) == (0, "False False exit None", "")


def test_wrong_request_ends_the_program_before_it_starts(python: Python) -> None:
    """The message names the variable and its text; the status is 78."""
    status, output, errors = result(python(HOOKPATCH_PLUGINS="tuend"))
    assert (status, output) == (78, "")
    assert errors.startswith(
        "hookpatch: error: no plugin 'tuend' (asked for by HOOKPATCH_PLUGINS=tuend); did you mean 'tuned'? installed: "
    )


def test_wrong_option_ends_the_program_before_it_starts(python: Python) -> None:
    """Options are looked at before the first line of the program runs."""
    completed = python(HOOKPATCH_PLUGINS="tuned", HOOKPATCH_OPTIONS='{"tuned": {"speed": "fast"}}')
    assert result(completed) == (
        78,
        "",
        "hookpatch: error: options of plugin 'tuned' (kit 1.0): Expected 'int', got 'str' - at 'speed'; "
        "it takes speed: int [hookpatch explain OptionsError]",
    )


def test_policy_warn_lets_the_program_run_unpatched(python: Python) -> None:
    """With HOOKPATCH_ON_ERROR=warn the program runs, with the error as a warning."""
    completed = python(HOOKPATCH_PLUGINS="tuned", HOOKPATCH_OPTIONS="[]", HOOKPATCH_ON_ERROR="warn")
    assert result(completed) == (
        0,
        "1",
        f"hookpatch: warning: nothing is patched: HOOKPATCH_OPTIONS: not an object of objects; {FORM} "
        "[hookpatch explain SettingError]",
    )


def test_unknown_policy_ends_the_program_before_it_starts(python: Python) -> None:
    """A misspelt policy ends the program, and is not taken for warn."""
    completed = python(HOOKPATCH_PLUGINS="tuned", HOOKPATCH_ON_ERROR="Warn")
    assert result(completed) == (
        78,
        "",
        "hookpatch: error: HOOKPATCH_ON_ERROR: 'Warn' is not a policy; it takes exit or warn "
        "[hookpatch explain SettingError]",
    )
