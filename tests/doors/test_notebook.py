"""The magics of notebooks, in a real kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from environments import LOUD, Environment, furnished

EXECUTE = """
import json, os, sys
import nbclient, nbformat
os.environ["JUPYTER_PATH"] = "share"
cells = [nbformat.v4.new_code_cell(source) for source in json.load(sys.stdin)]
for cell in cells:
    cell["metadata"]["tags"] = ["raises-exception"]
notebook = nbformat.v4.new_notebook(cells=cells)
nbclient.NotebookClient(notebook, kernel_name="ours", timeout=60).execute()
print(json.dumps([cell.outputs for cell in cells]))
"""


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with two plugins, a kernel, and a folder with the vendor's module."""
    plugins = {"loud": LOUD, "twice": LOUD.replace(".upper()", " * 2")}
    files = {"vendor.py": "def speak(*_): return 'vendor'\n", "execute.py": EXECUTE}
    home = furnished(tmp_path_factory.mktemp("notebook"), wheels, plugins, files)
    kernel = home.folder / "share" / "kernels" / "ours" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    command = [str(home.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel.write_text(json.dumps({"argv": command, "display_name": "ours", "language": "python"}))
    return home


def execute(home: Environment, *cells: str) -> list[list[dict[str, Any]]]:
    """Run a notebook; return the outputs of its cells."""
    (home.folder / "cells.json").write_text(json.dumps(["import vendor", "%load_ext hookpatch", *cells]))
    code = "import sys; sys.stdin = open('cells.json'); exec(open('execute.py').read())"
    completed = home.run("-W", "ignore", "-c", code)
    assert completed.returncode == 0, completed.stderr
    outputs: list[list[dict[str, Any]]] = json.loads(completed.stdout.splitlines()[-1])
    assert outputs[:2] == [[], []]
    return outputs[2:]


def text(outputs: list[dict[str, Any]]) -> str:
    """Return the text of a cell's outputs."""
    return "\n".join(
        output.get("text") or output.get("evalue") or output["data"]["text/plain"] for output in outputs
    ).strip()


@pytest.mark.launcher
def test_plugins_are_switched_on_and_off(home: Environment) -> None:
    """Plugins are switched on and off each; the open plugins are shown, as a table if possible."""
    speak = "print(vendor.speak())"
    outputs = execute(
        home,
        *(speak, "%hookpatch on loud", speak, "%hookpatch on twice loud", speak, "%hookpatch off loud", speak),
        *("%hookpatch off", speak, "%hookpatch"),
    )
    texts = [text(cell) for cell in outputs]
    assert texts[::2][:5] == ["vendor", "VENDOR", "VENDORVENDOR", "vendorvendor", "vendor"]
    assert texts[1].splitlines() == [
        "plugin       patch",
        "loud    on   vendor:speak  applied",
        "twice   off",
    ]
    assert texts[-1].splitlines() == ["plugin       patch", "loud    off", "twice   off"]
    table = outputs[1][0]["data"]["text/html"]
    assert table.startswith("<table>")
    assert '<td style="text-align: left">vendor:speak</td>' in table


@pytest.mark.launcher
def test_the_audit_is_a_table(home: Environment) -> None:
    """The audit shows the notebook's own patches, and the plugins, as lines and as a table."""
    outputs = execute(home, "%hookpatch on loud", "import colorsys; colorsys.rgb_to_hsv = len", "%hookpatch audit")
    lines = text(outputs[2]).splitlines()
    assert "; by provenance alone, so some may be missing" in lines[0]
    assert {"replaced   colorsys:rgb_to_hsv  by Python", "replaced   vendor:speak  by hookpatch loud"} <= set(lines)
    table = outputs[2][0]["data"]["text/html"]
    assert '<td style="text-align: left">colorsys:rgb_to_hsv</td><td style="text-align: left">Python</td>' in table


@pytest.mark.launcher
def test_one_cell_is_run_with_plugins(home: Environment) -> None:
    """A cell with plugins shows its value; afterwards the plugins are off, also after an error, which is raised."""
    outputs = execute(
        home,
        "%%hookpatch loud twice\nword = vendor.speak()\nword",
        "print(word, vendor.speak())",
        "%%hookpatch loud\nprint(vendor.speak())\n1 / 0",
        "vendor.speak()",
        "%%hookpatch loud\ndef broken(:",
    )
    assert text(outputs[0]) == "'VENDORVENDOR'"
    assert text(outputs[1]) == "VENDORVENDOR vendor"
    assert [output["output_type"] for output in outputs[2]].count("error") >= 1
    assert outputs[2][0]["text"] == "VENDOR\n"
    assert outputs[2][-1]["ename"] == "ZeroDivisionError"
    shown = "\n".join("\n".join(output.get("traceback", ())) for output in outputs[2])
    assert shown.count("division by zero") == 1
    assert text(outputs[3]) == "'vendor'"
    assert outputs[4][-1]["ename"] == "SyntaxError"


@pytest.mark.launcher
def test_mistakes_are_one_line(home: Environment) -> None:
    """A mistake is a line without a traceback, and switches no plugin on."""
    usage = "write %hookpatch on NAME..., %hookpatch off [NAME...], %hookpatch for a table, "
    usage += "%hookpatch audit, %%hookpatch NAME... for a cell"
    outputs = execute(
        home,
        *("%hookpatch on lout", "%hookpatch on loud lout", "vendor.speak()", "%hookpatch off loud", "%hookpatch up"),
        *("%%hookpatch\nvendor.speak()", "%hookpatch on"),
    )
    unknown = "hookpatch: no plugin 'lout' (asked for by %hookpatch on); did you mean 'loud'? installed: loud, twice"
    assert [text(cell).removeprefix("UsageError: ") for cell in outputs] == [
        unknown,
        unknown,
        "'vendor'",
        "hookpatch: 'loud' was not switched on by %hookpatch on",
        f"hookpatch: 'up' is unknown; {usage}",
        f"hookpatch: name plugins; {usage}",
        f"hookpatch: 'on' is unknown; {usage}",
    ]


@pytest.mark.launcher
def test_extension_is_unloaded_and_loaded_again(home: Environment) -> None:
    """Unloading switches the notebook's plugins off, and no others; a second load keeps open plugins."""
    outputs = execute(
        home,
        "import hookpatch; other = hookpatch.active('twice').open()",
        "%hookpatch on loud",
        "%reload_ext hookpatch",
        "print(vendor.speak())",
        "%load_ext hookpatch",
        "%hookpatch on loud",
        "print(vendor.speak())",
        "%unload_ext hookpatch",
        "print(vendor.speak())",
    )
    assert [text(outputs[index]) for index in (3, 6, 8)] == ["vendorvendor", "VENDORVENDOR", "vendorvendor"]
