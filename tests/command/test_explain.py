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
    """In the order in which they are defined, each with a meaning, a message and what to do."""
    sections = list(_explain._sections(package.name, package / "messages.md"))
    assert [one.name for one in sections] == classes(PLUGINS[package])
    for one in sections:
        assert re.fullmatch(r"(?s).+\n\n```text\n.+\n```\n\nWhat to do: .+", one.text), one.name


@pytest.mark.repository
def test_no_two_have_one_name() -> None:
    """A name that a line on stderr tells is enough."""
    names = [name for path in [ROOT / "hookpatch" / "errors.py", *PLUGINS.values()] for name in classes(path)]
    assert len(names) > 40
    assert len({name.lower() for name in names}) == len(names)


def test_plugins_without_messages_have_no_errors_of_their_own() -> None:
    """The tests above look at every package that has some."""
    named = {path.parent.name for path in ROOT.glob("plugins/*/*/*.py") if "(HookpatchError)" in path.read_text()}
    assert named == {package.name for package in PLUGINS}


@pytest.mark.once
def test_pages_of_plugins_show_what_their_classes_write() -> None:
    """Letter by letter, for what is told in one line."""
    pytest.importorskip("hookpatch_onnx")
    from hookpatch_export.errors import ExportScanError, ExportWarning, FileError, ModelError
    from hookpatch_onnx.errors import CapturedWarning, ModelFileError, NodeError, NothingInCommonError, PictureError
    from hookpatch_torchscript.errors import NotWrittenWarning, RuntimesError

    line = "if (shape): frozen: the branch of the example's sizes is taken for all"
    instead = "decide outside of the model, or export one model for each branch; torch.cond keeps both; in Net.forward"
    found = "none of the 4 nodes of the one is among the 64 of the other, and input 'x' float32[8] → 'ids' int64[1, 8]"
    now = "ONNX has it from opset 20 on: export with opset_version=20 or higher, or without this plugin"
    no_model = "no model was recorded: neither torch.onnx.export nor onnxsim.simplify was called"
    examples = [
        ModelError("net.py:Nets", "net has no 'Nets'; did you mean 'Net'?"),
        FileError("scan.sarif", "Permission denied"),
        ExportScanError("torch.onnx.export", [], [f"net.py:7: {line}"]),
        ExportWarning("torch.jit.trace", f"{line}; instead: {instead}"),
        NodeError("gelu_node", "1", f"cannot be a Gelu node at opset 18; {now}"),
        CapturedWarning("rmsnorm_node", "ExportedProgram"),
        ModelFileError("m.onnx", "is not an ONNX model: it is text; give the binary .onnx file"),
        NothingInCommonError("norms.onnx", "neo.onnx", found),
        PictureError("out/plain and out/patched", no_model),
        NotWrittenWarning("/explained", "Permission denied"),
        RuntimesError("--batch", "'0' is no batch size; write whole numbers from 1, --batch 1,8"),
    ]
    for example in examples:
        assert f"```text\n{example}\n```" in _explain.message(type(example).__name__).text


# --- how a message leads there


def test_line_on_stderr_ends_with_what_to_type() -> None:
    """Several lines become one: a name with a line break forges no second line."""
    error = UnknownPlugin("fuse", "active()", [])
    assert for_stderr(error) == f"{error} [hookpatch explain UnknownPlugin]"
    assert for_stderr(HookpatchError("one\ntwo")) == r"one\ntwo [hookpatch explain HookpatchError]"


@pytest.mark.parametrize(
    "error", [UnknownPlugin("fuse", "active()", []), RestoreError([ValueError("no")])], ids=["error", "group"]
)
def test_traceback_ends_with_what_to_type(error: HookpatchError) -> None:
    """Once, also after it has crossed processes; the error's own text is as it was."""
    note = f"'hookpatch explain {type(error).__name__}' tells what it means, and what to do"
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert "".join(traceback.format_exception(one)).count(note) == 1
        assert note not in str(one)


def test_group_that_is_split_tells_it_once() -> None:
    """`except*` makes a group of the same class for what it takes."""
    group = RestoreError([ValueError("no"), TypeError("nor")])
    part, _ = group.split(ValueError)
    assert part is not None
    assert part.__notes__ == group.__notes__
    assert len(group.__notes__) == 1


# --- what is found


def test_name_is_found_however_it_is_written() -> None:
    """As a traceback has it, with its module; case does not matter."""
    found = _explain.message("UnknownPlugin")
    assert (found.name, found.distribution) == ("UnknownPlugin", "hookpatch")
    assert found.meaning == "No installed distribution has a plugin of this name."
    assert _explain.message("hookpatch.errors.UnknownPlugin") == _explain.message("unknownplugin") == found


def test_every_name_is_found() -> None:
    """All of the core."""
    ours = [one.name for one in _explain.messages() if one.distribution == "hookpatch"]
    assert ours == classes(Path(errors.__file__))


def test_unknown_name_is_refused_with_the_nearest() -> None:
    """An error like any other."""
    with pytest.raises(UnknownMessage) as told:
        _explain.message("UnknwonPlugin")
    assert str(told.value) == (
        "no error or warning 'UnknwonPlugin' is explained here; did you mean 'UnknownPlugin'? "
        "'hookpatch explain' lists all"
    )


# --- installed


@pytest.mark.repository
@pytest.mark.once
def test_wheels_have_their_messages_and_no_plugin_is_imported(installed_wheels: Environment) -> None:
    """Of hookpatch and of each plugin that has errors of its own."""
    program = (
        "import sys\nfrom hookpatch.command._explain import messages\n"
        "print(*sorted({one.distribution for one in messages()}), len(messages()))\n"
        "print([name for name in sys.modules if name.startswith('hookpatch_')])"
    )
    done = installed_wheels.run("-c", program)
    count = sum(len(classes(path)) for path in [ROOT / "hookpatch" / "errors.py", *PLUGINS.values()])
    expected = f"hookpatch hookpatch-export hookpatch-onnx hookpatch-torchscript {count}\n[]\n"
    assert (done.stdout, done.stderr) == (expected, "")
    assert (installed_wheels.site_packages / "hookpatch" / "messages.md").read_text() == (
        ROOT / "docs" / "messages.md"
    ).read_text()


@pytest.mark.once
def test_an_editable_install_reads_the_page_itself(tmp_path: Path) -> None:
    """It has no copy that could grow old, and leaves nothing but its own files in site-packages."""
    editable = Environment(tmp_path / "venv")
    editable.install("--editable", ROOT)
    assert not (editable.site_packages / "hookpatch").exists()
    done = editable.run("-m", "hookpatch", "explain", "UnknownPlugin")
    text = _explain.message("UnknownPlugin").text
    assert (done.stdout, done.stderr) == (f"UnknownPlugin  hookpatch\n\n{text}\n", "")


@pytest.mark.once
def test_a_source_distribution_has_the_page(tmp_path: Path) -> None:
    """A wheel that is built from it has it, too."""
    build(ROOT, tmp_path)  # a source distribution, and a wheel made of that
    (wheel,) = tmp_path.glob("*.whl")
    listed = subprocess.run([sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True)
    assert "hookpatch/messages.md" in listed.stdout


def test_command_prints_an_entry_and_a_list(environment: Environment) -> None:
    """Plain text, where it goes to no terminal; a misspelt name ends with status 78."""
    entry = environment.run("-m", "hookpatch", "explain", "hookpatch.errors.ConflictError")
    assert entry.stdout.startswith("ConflictError  hookpatch\n\nTwo plugins have a value each for the same slot")
    listed = environment.run("-m", "hookpatch", "explain", COLUMNS="300")
    assert "\nUnknownPlugin         No installed distribution has a plugin of this name." in listed.stdout
    assert [line.split()[0] for line in listed.stdout.splitlines() if line.strip()][1:] == classes(
        Path(errors.__file__)
    )
    told = json.loads(environment.run("-m", "hookpatch", "explain", "ConflictError", "--json").stdout)["messages"]
    assert [(one["name"], one["distribution"], one["text"] in entry.stdout) for one in told] == [
        ("ConflictError", "hookpatch", True)
    ]
    wrong = environment.run("-m", "hookpatch", "explain", "Conflict")
    assert (wrong.returncode, wrong.stderr) == (
        78,
        "hookpatch: error: no error or warning 'Conflict' is explained here; did you mean 'ConflictError'? "
        "'hookpatch explain' lists all [hookpatch explain UnknownMessage]\n",
    )
