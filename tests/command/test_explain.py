"""`hookpatch explain` shows the page of each error and warning, in every kind of install."""

from __future__ import annotations

import ast
import json
import pickle
import re
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from environments import ROOT, Environment, build

from hookpatch import errors
from hookpatch.command import _explain
from hookpatch.errors import HookpatchError, RestoreError, UnknownMessage, UnknownPlugin, for_stderr

PLUGINS = {path.parent: path for path in sorted(ROOT.glob("plugins/*/*/errors.py"))}


def classes(errors_file: Path) -> list[str]:
    return [node.name for node in ast.parse(errors_file.read_text()).body if isinstance(node, ast.ClassDef)]


@pytest.mark.parametrize("package", PLUGINS, ids=lambda package: package.name)
def test_each_error_of_a_plugin_has_its_entry_and_no_entry_is_too_many(package: Path) -> None:
    """The entries follow the order of the classes. Each has a meaning, a message and advice."""
    sections = list(_explain._sections(package.name, package / "messages.md"))
    assert [section.name for section in sections] == classes(PLUGINS[package])
    for section in sections:
        assert re.fullmatch(r"(?s).+\n\n```text\n.+\n```\n\nWhat to do: .+", section.text), section.name


@pytest.mark.repository
def test_no_two_have_one_name() -> None:
    """No two errors share a name, so the name in a stderr line is enough."""
    names = [name for path in [ROOT / "hookpatch" / "errors.py", *PLUGINS.values()] for name in classes(path)]
    assert len(names) > 40
    assert len({name.lower() for name in names}) == len(names)


def test_plugins_without_messages_have_no_errors_of_their_own() -> None:
    """Each plugin package with error classes has a messages page."""
    named = {path.parent.name for path in ROOT.glob("plugins/*/*/*.py") if "(HookpatchError)" in path.read_text()}
    assert named == {package.name for package in PLUGINS}


@pytest.mark.once
def test_pages_of_plugins_show_what_their_classes_write() -> None:
    """The example messages of the plugin pages equal the text of the error classes, for single-line errors."""
    pytest.importorskip("hookpatch_onnx")
    from hookpatch_export.errors import ExportScanError, ExportWarning, FileError, ModelError
    from hookpatch_onnx.errors import (
        CapturedWarning,
        ModelFileError,
        ModelRunError,
        NodeError,
        NothingInCommonError,
        PictureError,
    )
    from hookpatch_torchscript.errors import NotWrittenWarning, RuntimesError

    line = "if (shape): frozen: the branch of the example's sizes is taken for all"
    instead = "decide outside of the model, or export one model for each branch; torch.cond keeps both; in Net.forward"
    nothing_shared = (
        "none of the 4 nodes of the one is among the 64 of the other, and input 'x' float32[8] → 'ids' int64[1, 8]"
    )
    advice = "ONNX has it from opset 20 on: export with opset_version=20 or higher, or without this plugin"
    light = "weight 'fc.weight' has no data: a recorded model has none; compare the models themselves"
    no_model = "no model was recorded: neither torch.onnx.export nor onnxsim.simplify was called"
    examples = [
        ModelError("net.py:Nets", "net has no 'Nets'; did you mean 'Net'?"),
        FileError("scan.sarif", "Permission denied"),
        ExportScanError("torch.onnx.export", [], [f"net.py:7: {line}"]),
        ExportWarning("torch.jit.trace", f"{line}; instead: {instead}"),
        NodeError("gelu_node", "1", f"cannot be a Gelu node at opset 18; {advice}"),
        CapturedWarning("rmsnorm_node", "ExportedProgram"),
        ModelFileError("m.onnx", "is not an ONNX model: the file is text; give the binary .onnx file"),
        ModelRunError("out/plain/001-exported.onnx", light),
        NothingInCommonError("norms.onnx", "neo.onnx", nothing_shared),
        PictureError("out/plain and out/patched", no_model),
        NotWrittenWarning("/explained", "Permission denied"),
        RuntimesError("--batch", "'0' is no batch size; write whole numbers from 1, --batch 1,8"),
    ]
    for example in examples:
        assert f"```text\n{example}\n```" in _explain.message(type(example).__name__).text


# --- how a message leads to the page


def test_line_on_stderr_ends_with_what_to_type() -> None:
    """The stderr line ends with the explain command.

    Several lines become one, so a name with a line break cannot forge a second line.
    """
    error = UnknownPlugin("fuse", "active()", [])
    assert for_stderr(error) == f"{error} [hookpatch explain UnknownPlugin]"
    assert for_stderr(HookpatchError("one\ntwo")) == r"one\ntwo [hookpatch explain HookpatchError]"


@pytest.mark.parametrize(
    "error", [UnknownPlugin("fuse", "active()", []), RestoreError([ValueError("no")])], ids=["error", "group"]
)
def test_traceback_ends_with_what_to_type(error: HookpatchError) -> None:
    """A traceback ends with the explain command once, even after pickling. The error's own text is unchanged."""
    note = f"'hookpatch explain {type(error).__name__}' prints the meaning and the remedy"
    for shown in (error, pickle.loads(pickle.dumps(error))):
        assert "".join(traceback.format_exception(shown)).count(note) == 1
        assert note not in str(shown)


def test_group_that_is_split_tells_it_once() -> None:
    """A group that `except*` splits still has the note exactly once."""
    group = RestoreError([ValueError("no"), TypeError("nor")])
    part, _ = group.split(ValueError)
    assert part is not None
    assert part.__notes__ == group.__notes__
    assert len(group.__notes__) == 1


# --- search for a name


def test_name_is_found_however_it_is_written() -> None:
    """A name is found with or without the module path and in any letter case."""
    entry = _explain.message("UnknownPlugin")
    assert (entry.name, entry.distribution) == ("UnknownPlugin", "hookpatch")
    assert entry.meaning == "No installed distribution has a plugin of this name."
    assert _explain.message("hookpatch.errors.UnknownPlugin") == _explain.message("unknownplugin") == entry


def test_every_name_is_found() -> None:
    """Every error class of hookpatch has an entry."""
    ours = [entry.name for entry in _explain.messages() if entry.distribution == "hookpatch"]
    assert ours == classes(Path(errors.__file__))


def test_unknown_name_is_refused_with_the_nearest() -> None:
    """An unknown name raises UnknownMessage with the nearest name."""
    with pytest.raises(UnknownMessage) as caught:
        _explain.message("UnknwonPlugin")
    assert str(caught.value) == (
        "no error or warning 'UnknwonPlugin' is explained here; did you mean 'UnknownPlugin'? "
        "'hookpatch explain' lists all"
    )


# --- installed


@pytest.mark.repository
@pytest.mark.once
@pytest.mark.ends
def test_wheels_have_their_messages_and_no_plugin_is_imported(installed_wheels: Environment) -> None:
    """The wheels of hookpatch and of each plugin with errors contain messages.

    No plugin is imported to read the messages.
    """
    program = (
        "import sys\nfrom hookpatch.command._explain import messages\n"
        "print(*sorted({one.distribution for one in messages()}), len(messages()))\n"
        "print([name for name in sys.modules if name.startswith('hookpatch_')])"
    )
    completed = installed_wheels.run("-c", program)
    count = sum(len(classes(path)) for path in [ROOT / "hookpatch" / "errors.py", *PLUGINS.values()])
    expected = f"hookpatch hookpatch-export hookpatch-onnx hookpatch-torchscript {count}\n[]\n"
    assert (completed.stdout, completed.stderr) == (expected, "")
    assert (installed_wheels.site_packages / "hookpatch" / "messages.md").read_text() == (
        ROOT / "docs" / "messages.md"
    ).read_text()


@pytest.mark.once
def test_an_editable_install_reads_the_page_itself(tmp_path: Path) -> None:
    """An editable install has no copy of the page, and adds no hookpatch folder to site-packages."""
    editable = Environment(tmp_path / "venv")
    editable.install("--editable", ROOT)
    assert not (editable.site_packages / "hookpatch").exists()
    completed = editable.run("-m", "hookpatch", "explain", "UnknownPlugin")
    text = _explain.message("UnknownPlugin").text
    assert (completed.stdout, completed.stderr) == (f"UnknownPlugin  hookpatch\n\n{text}\n", "")


@pytest.mark.once
@pytest.mark.ends
def test_a_source_distribution_has_the_page(tmp_path: Path) -> None:
    """The page is in the wheel built from a source distribution."""
    build(ROOT, tmp_path)  # a source distribution, and a wheel from the source distribution
    (wheel,) = tmp_path.glob("*.whl")
    listed = subprocess.run([sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True)
    assert "hookpatch/messages.md" in listed.stdout


def test_command_prints_an_entry_and_a_list(environment: Environment) -> None:
    """The command prints plain text into a pipe. A misspelt name ends with status 78."""
    entry = environment.run("-m", "hookpatch", "explain", "hookpatch.errors.ConflictError")
    assert entry.stdout.startswith("ConflictError  hookpatch\n\nTwo plugins have a value each for the same slot")
    listed = environment.run("-m", "hookpatch", "explain", COLUMNS="300")
    assert "\nUnknownPlugin         No installed distribution has a plugin of this name." in listed.stdout
    assert [line.split()[0] for line in listed.stdout.splitlines() if line.strip()][1:] == classes(
        Path(errors.__file__)
    )
    messages = json.loads(environment.run("-m", "hookpatch", "explain", "ConflictError", "--json").stdout)["messages"]
    assert [(message["name"], message["distribution"], message["text"] in entry.stdout) for message in messages] == [
        ("ConflictError", "hookpatch", True)
    ]
    wrong = environment.run("-m", "hookpatch", "explain", "Conflict")
    assert (wrong.returncode, wrong.stderr) == (
        78,
        "hookpatch: error: no error or warning 'Conflict' is explained here; did you mean 'ConflictError'? "
        "'hookpatch explain' lists all [hookpatch explain UnknownMessage]\n",
    )
