"""`hookpatch doctor` finds causes of patches without effect, and names the repair."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from environments import Environment

from hookpatch._bootstrap.environment import LINE

LOUD = """
    '''Speak louder.'''
    import hookpatch

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.wrap("vendor:speak", max, requires="pip>=1")
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(environment: Environment) -> Environment:
    """Make an environment with a plugin and its target."""
    environment.add_plugin("loud", LOUD)
    (environment.site_packages / "vendor.py").write_text("def speak(word): return word\n")
    return environment


def doctor(home: Environment, status: int, **variables: str) -> list[tuple[str, str, str]]:
    """Return the rows of the table: mark, subject, finding with its repair."""
    completed = home.run("-m", "hookpatch", "doctor", COLUMNS="1000", **variables)
    assert (completed.stderr, completed.returncode) == ("", status), completed.stdout
    heading, *rows, end = completed.stdout.splitlines()
    assert heading.split() == ["checked", "result"]
    findings: list[tuple[str, str, str]] = []
    for row in rows:
        mark, about, text = [*re.split(r"\s{2,}", row.strip(), maxsplit=2), "", ""][:3]
        if mark in ("ok", "fix"):
            findings.append((mark, about, text))
        else:
            findings[-1] = (*findings[-1][:2], f"{findings[-1][2]} {row.strip()}")
    wrong = sum(mark == "fix" for mark, *_ in findings)
    assert end == (f"{wrong} problem{'s' * (wrong > 1)}" if wrong else "all is well")
    return findings


def wrong(home: Environment, **variables: str) -> list[tuple[str, str]]:
    """Return the findings with an error or warning."""
    return [(about, text) for mark, about, text in doctor(home, 1, **variables) if mark == "fix"]


def test_line_is_that_of_the_start_up_file() -> None:
    """doctor compares with the start-up line of the wheel."""
    assert (ROOT / "startup" / "hookpatch.pth").read_text() == LINE


def test_all_is_well(home: Environment) -> None:
    """doctor lists the start-up file and its folder, the variables, and the plan of each plugin."""
    findings = doctor(home, 0, HOOKPATCH_PLUGINS="loud", HOOKPATCH_REPORT=str(home.folder / "reports"))
    package = home.site_packages / "hookpatch"
    assert [about for _, about, _ in findings] == [
        *("python", "start-up file", "start-up", "HOOKPATCH_PLUGINS", "HOOKPATCH_REPORT", "plugin loud"),
    ]
    assert [text for *_, text in findings][1:] == [
        str(home.site_packages / "hookpatch.pth"),
        f"active in a new Python, from {package}",
        "loud from loud-dist 1.0",
        str(home.folder / "reports"),
        "wrap vendor:speak, not looked at",
    ]


@pytest.mark.ends
def test_what_a_plan_has_found_is_told(home: Environment) -> None:
    """doctor reports a kept plan until a file changes; a missing module always."""
    assert home.run("-m", "hookpatch", "plan", "loud").returncode == 0
    assert doctor(home, 0)[-1] == ("ok", "plugin loud", "wrap vendor:speak")
    (home.site_packages / "vendor.py").write_text("def speak_up(word): return word\n")
    assert doctor(home, 0)[-1] == ("ok", "plugin loud", "wrap vendor:speak, not looked at")
    assert home.run("-m", "hookpatch", "plan", "loud").returncode == 2
    assert wrong(home) == [
        ("plugin loud", "wrap vendor:speak -> vendor has no attribute 'speak'; did you mean 'speak_up'?")
    ]
    (home.site_packages / "vendor.py").unlink()
    missing = "there is no module vendor here; a module beside a program's script is found when the script runs"
    assert wrong(home) == [("plugin loud", f"wrap vendor:speak -> {missing}")]


def test_start_up_file_that_is_gone(home: Environment) -> None:
    """Without the start-up file the variables have no effect."""
    (home.site_packages / "hookpatch.pth").unlink()
    assert wrong(home) == [
        (
            "start-up file",
            "none in a site-packages folder -> install hookpatch with pip into this Python; until then "
            "HOOKPATCH_PLUGINS does nothing here, and `hookpatch run` does without",
        )
    ]


def test_start_up_file_that_was_changed(home: Environment) -> None:
    """The start-up file is of another version, or broken."""
    path = home.site_packages / "hookpatch.pth"
    path.write_text("# nothing\n")
    assert wrong(home) == [
        ("start-up file", f"{path} -> it is of another version, or was changed: install hookpatch anew"),
        ("start-up", "not active in a new Python -> install hookpatch anew: its start-up file does nothing"),
    ]


def test_package_that_is_cut_off(home: Environment) -> None:
    """A start-up module that is imported, but was cut off before its function, is not active."""
    path = home.site_packages / "hookpatch" / "_startup.py"
    text = path.read_text()
    path.unlink()
    path.write_text(text[:1000])
    assert wrong(home) == [
        ("start-up", "not active in a new Python -> install hookpatch anew: its start-up file does nothing"),
    ]


@pytest.mark.skipif(sys.version_info < (3, 15), reason="Python reads .start files from 3.15 on (PEP 829)")
def test_file_that_switches_the_start_up_line_off(home: Environment) -> None:
    """Python leaves out the line of a .pth file beside which a .start file of the same name lies."""
    path = home.site_packages / "hookpatch.start"
    path.write_text("# of another version\n")
    anew = "the file is of another version; install hookpatch anew"
    assert wrong(home) == [
        ("start-up file", f"{path} -> Python 3.15 and later ignore hookpatch.pth in the same folder: {anew}"),
        ("start-up", "not active in a new Python -> install hookpatch anew: its start-up file does nothing"),
    ]


@pytest.mark.ends
def test_two_installations(home: Environment, wheels: Path, tmp_path: Path) -> None:
    """An installation on PYTHONPATH hides the other."""
    import subprocess
    import sys

    elsewhere = tmp_path / "other"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(elsewhere)]
    subprocess.run([*command, *map(str, wheels.glob("hookpatch-*.whl"))], check=True, capture_output=True)
    findings = doctor(home, 0, PYTHONPATH=str(elsewhere))
    assert ("ok", "start-up", f"active in a new Python, from {elsewhere / 'hookpatch'}") in findings


@pytest.mark.ends
def test_each_setting_is_told_with_where_it_comes_from(home: Environment) -> None:
    """A variable, or a key of the file; and the file: named, or found by the command. As JSON, too."""
    config = home.folder / "pyproject.toml"
    config.write_text(
        "[tool.hookpatch]\nplugins = ['loud']\non_error = 'warn'\non_drift = 'skip'\nallow = ['loud']\n"
        "[tool.hookpatch.options.loud]\n"
    )
    texts = {about: text for _, about, text in doctor(home, 0, HOOKPATCH_ON_ERROR="exit")}
    assert texts["configuration"] == (
        f"{config}, found from the current folder; only 'hookpatch run' reads the file, plain python does not"
    )
    assert (texts["tool.hookpatch.plugins"], texts["tool.hookpatch.on_drift"]) == ("loud from loud-dist 1.0", "skip")
    assert texts["HOOKPATCH_ON_ERROR"] == "exit"
    assert texts["tool.hookpatch.on_error"] == "warn; HOOKPATCH_ON_ERROR comes first"
    assert (texts["tool.hookpatch.options.loud"], texts["tool.hookpatch.allow"]) == ("", "loud")
    named = home.run("-m", "hookpatch", "doctor", "--json", HOOKPATCH_CONFIG=str(config), HOOKPATCH_PLUGINS="loud")
    answer = json.loads(named.stdout)
    assert (answer["status"], named.returncode) == (0, 0)
    assert {key for finding in answer["findings"] for key in finding} == {"about", "found", "mend"}
    texts = {finding["about"]: finding["found"] for finding in answer["findings"]}
    assert texts["configuration"] == f"{config}, named by HOOKPATCH_CONFIG"
    assert texts["tool.hookpatch.plugins"] == "loud; HOOKPATCH_PLUGINS comes first"
    config.write_text("[tool.hookpatch]\non_error = 1\n")
    assert wrong(home) == [
        (
            "variables",
            f"{config}: tool.hookpatch.on_error: it takes exit or warn, not an integer -> correct the value, or unset "
            "the variable",
        )
    ]


@pytest.mark.parametrize(
    ("variables", "about", "text"),
    [
        (
            {"HOOKPATCH_PLUGIN": "loud"},
            "HOOKPATCH_PLUGIN",
            "no variable of hookpatch; did you mean 'HOOKPATCH_PLUGINS'? -> correct or unset the variable",
        ),
        (
            {"HOOKPATCH_PLUGINS": "lout"},
            "HOOKPATCH_PLUGINS",
            "no plugin 'lout' (asked for by HOOKPATCH_PLUGINS); did you mean 'loud'? installed: loud -> correct the "
            "name, or install the plugin",
        ),
        (
            {"HOOKPATCH_PLUGINS": "loud", "HOOKPATCH_OPTIONS": "{"},
            "variables",
            "HOOKPATCH_OPTIONS: not JSON",
        ),
        (
            {"HOOKPATCH_PLUGINS": "loud", "HOOKPATCH_OPTIONS": '{"loud": {"x": 1}}'},
            "HOOKPATCH_OPTIONS",
            "options of plugin 'loud' (loud-dist 1.0): the plugin has no options, but 'x' was given "
            "-> correct the options",
        ),
        ({"HOOKPATCH_ON_ERROR": "panic"}, "variables", "HOOKPATCH_ON_ERROR: 'panic' is not a policy"),
        (
            {"HOOKPATCH_DISABLE": "1"},
            "HOOKPATCH_DISABLE",
            "set: no patch is applied -> unset HOOKPATCH_DISABLE",
        ),
        (
            {"HOOKPATCH_REPORT": "/dev/null/reports"},
            "HOOKPATCH_REPORT",
            "/dev/null/reports -> /dev/null cannot be written: name another folder",
        ),
    ],
)
@pytest.mark.sampled(3)
def test_variable_that_is_wrong(home: Environment, variables: dict[str, str], about: str, text: str) -> None:
    """The line has the variable's value and the remedy."""
    ((found_about, found_text),) = wrong(home, **variables)
    assert found_about == about
    assert found_text.startswith(text)


def test_plugin_that_is_wrong(home: Environment) -> None:
    """A plugin is broken, of a wrong version, a twin, or not allowed; required options are no finding."""
    home.add_plugin("broken", "raise RuntimeError('no')")
    home.add_plugin("old", LOUD.replace("pip>=1", "pip<1"))
    home.add_plugin("loud", LOUD, "twin-dist")
    options = "import dataclasses, hookpatch\n@dataclasses.dataclass(frozen=True)\nclass Options:\n    word: str\n"
    home.add_plugin("asks", f"'''Asks.'''\n{options}@hookpatch.hookimpl\ndef hookpatch_patches(options): return ()\n")
    findings = wrong(home)
    assert [about for about, _ in findings] == ["plugin broken", "plugin loud", "plugin loud", "plugin old"]
    texts = [text for _, text in findings]
    assert texts[0].startswith("plugin 'broken' (broken-dist 1.0) raised RuntimeError when it was loaded: no")
    assert texts[1] == (
        "loud-dist 1.0 shares its name with a plugin of another distribution -> ask for loud@loud-dist, or uninstall "
        "one of the two"
    )
    assert texts[3].startswith("wrap vendor:speak -> made for pip<1, but pip ")
    (home.python.parents[1] / "hookpatch.allow").write_text("loud@loud-dist\n")
    assert sum("is not allowed here" in text for _, text in wrong(home)) == 4


def test_signature_that_is_not_checked_on_purpose_is_well(home: Environment) -> None:
    """The plugin gives the reason, and nothing is to be mended."""
    patch = 'hookpatch.replace("vendor:speak", lambda: 1, check_signature=False, why="it takes no word")'
    home.add_plugin("mute", f"import hookpatch\n\n@hookpatch.hookimpl\ndef hookpatch_patches():\n    yield {patch}\n")
    text = "replace vendor:speak, not looked at, the signature is not checked (check_signature=False)"
    assert ("ok", "plugin mute", text) in doctor(home, 0)


def test_plugin_that_has_commands_alone_is_well(home: Environment) -> None:
    """A plugin without patches is no finding."""
    home.add_plugin(
        "rule",
        """
        import hookpatch

        @hookpatch.hookimpl
        def hookpatch_commands(app):
            app.command()(lambda: None)
        """,
    )
    assert ("ok", "plugin rule", "commands: hookpatch rule") in doctor(home, 0)
