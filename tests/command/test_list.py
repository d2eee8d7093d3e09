"""`hookpatch list` shows each plugin, the plugin's target, and whether the plugin fits."""

from __future__ import annotations

import json
import re
from importlib import metadata

import pytest
from command_plugins import COMMANDS, OPTIONS
from environments import LOUDER, VENDOR, Environment, hookpatch

pytestmark = pytest.mark.once


def rows(printed: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in printed.splitlines() if line.strip()]


def test_list_names_every_plugin_and_whether_it_fits(home: Environment) -> None:
    """Each row has description, target, distribution and verdict.

    A broken plugin and a plugin without a target module are listed too.
    """
    (home.site_packages / "vendor.py").write_text(VENDOR)
    home.add_plugin("mine", OPTIONS)
    home.add_plugin("lost", LOUDER.replace("vendor:speak", "nowhere:speak"))
    home.add_plugin("misspelt", LOUDER.replace("vendor:speak", "vendor:speek"))
    home.add_plugin("broken", "raise RuntimeError('no')")
    home.add_plugin("old", LOUDER.replace("louder)", "louder, requires='pluggy<1')"))
    home.add_plugin("done", LOUDER.replace("louder)", "louder, until='pluggy>=1')"))
    completed = hookpatch(home, "list", COLUMNS="300")
    assert (completed.stderr, completed.returncode) == ("", 0)
    assert ["loud", "Speak louder.", "not looked at"] in rows(completed.stdout)
    completed = hookpatch(home, "list", "--look", COLUMNS="300")
    assert (completed.stderr, completed.returncode) == ("", 0)
    assert hookpatch(home, "list", COLUMNS="300").stdout == completed.stdout  # the verdicts are cached
    table = {
        row[0]: row[1:] for row in reversed(rows(completed.stdout))
    }  # the first line of each row, not the folded lines
    assert table["plugin"] == ["description, distribution, targets", "fits"]
    assert table["loud"] == ["Speak louder.", "yes"]
    assert table["mine"] == ["Say a word of one's own.", "yes"]
    broken = "plugin 'broken' (broken-dist 1.0) raised RuntimeError when it was loaded: no"
    broken += " (broken_dist_broken.py, line 1); fix or uninstall it"
    assert table["broken"] == [broken, "broken"]
    missing = "there is no module nowhere here; a module beside a program's script is found when the script runs"
    assert table["lost"][-1] == missing
    assert table["misspelt"][-1].startswith("vendor has no attribute 'speek'; did you mean 'speak'?")
    assert table["old"][-1].startswith(f"made for pluggy<1, but pluggy {metadata.version('pluggy')} is installed; ")
    assert table["done"][-1].startswith("not needed from pluggy>=1")
    lines = rows(completed.stdout)
    index = [line[0] for line in lines].index("loud")
    assert lines[index + 1 : index + 3] == [["loud-dist 1.0"], ["vendor:speak"]]
    plugins = {plugin["name"]: plugin for plugin in json.loads(hookpatch(home, "list", "--json").stdout)["plugins"]}
    assert plugins["loud"] == {
        "name": "loud",
        "distribution": "loud-dist",
        "version": "1.0",
        "description": "Speak louder.",
        "status": "fits",
        "reason": None,
        "patches": [{"verb": "wrap", "target": "vendor:speak", "release": ""}],
    }
    assert (plugins["broken"]["status"], plugins["broken"]["reason"]) == ("broken", broken)
    assert (plugins["old"]["status"], plugins["done"]["status"]) == ("does not fit", "not needed")
    assert (plugins["lost"]["status"], plugins["misspelt"]["status"]) == ("not found", "does not fit")


def test_second_list_imports_what_it_prints_with(home: Environment) -> None:
    """The second list needs no pydantic and no rich; no engine, plugin or child process: the facts are kept."""
    first, second = (hookpatch(home, "list", PYTHONPROFILEIMPORTTIME="1") for _ in range(2))
    imported = {line.rpartition("|")[2].strip() for line in second.stderr.splitlines()}
    assert second.stdout == first.stdout
    assert {"typer", "hookpatch._inspect.cache"} <= imported
    unwanted = {
        "pydantic",
        "rich.cells",
        "rich.console",
        "rich.text",
        "pluggy",
        "msgspec",
        "hookpatch._processes.aside",
        "hookpatch._inspect.plan",
        "hookpatch._session.session",
    }
    assert imported & unwanted == set()


def test_list_tells_a_plugin_of_commands_alone_by_its_word(home: Environment) -> None:
    """A plugin that only has commands and no patches is listed without a fault."""
    home.add_plugin("measure", COMMANDS)
    lines = hookpatch(home, "list", COLUMNS="300").stdout.splitlines()
    words = next(line.split() for line in lines if line.startswith("measure"))
    assert words == ["measure", "Measure", "and", "compare.", "hookpatch", "measure"]


def test_list_tells_a_plugin_whose_commands_lack_a_package(home: Environment) -> None:
    """Commands that need a package, as declared by the distribution, are not shown as usable without the package."""
    home.add_plugin("measure", COMMANDS, waits_for="packaging")
    home.add_plugin("weigh", COMMANDS, waits_for="nowhere")
    lines = rows(hookpatch(home, "list", COLUMNS="300").stdout)
    assert ["measure", "Measure and compare.", "hookpatch measure"] in lines
    assert ["weigh", "Measure and compare.", "hookpatch weigh needs nowhere, which is not installed"] in lines
    found = hookpatch(home, "doctor").stdout
    assert "commands: hookpatch weigh needs nowhere, which is not installed" in found
    assert "commands: hookpatch measure\n" in found


@pytest.mark.repository
@pytest.mark.once
def test_list_tells_the_version_of_the_target(installed_wheels: Environment) -> None:
    """The list names the distribution and version of a target without an import of the target."""
    completed = hookpatch(installed_wheels, "list", COLUMNS="300")
    assert re.search(r"^ *onnxsim\.onnx_simplifier:simplify( \(onnxsim [\d.]+\))? ", completed.stdout, re.MULTILINE)
    needs = re.search(r"^onnxsim_skip .* needs options \(passes: .*\) *$", completed.stdout, re.MULTILINE)
    assert needs is not None


def test_list_without_plugins_says_how_they_come(home: Environment) -> None:
    """Without any plugin, the list tells a newcomer where plugins come from."""
    for info in home.site_packages.glob("loud*"):
        if info.is_dir():
            (info / "entry_points.txt").unlink()
    completed = hookpatch(home, "list")
    assert completed.stdout == "No plugins are installed. Plugins come as distributions, such as hookpatch-onnxsim.\n"
