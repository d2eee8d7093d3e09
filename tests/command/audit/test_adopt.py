"""`hookpatch adopt` writes a plugin that does the work of an apply function, and lists the patches left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.once, pytest.mark.ends]

FIXES = """
import contextlib, functools, json, kept, logging, queue, textwrap, threading

def fast(value, **options):
    return "fast"

class Encoder(json.JSONEncoder): pass

def loud(original):
    @functools.wraps(original)
    def wrapper(*args, **options):
        return original(*args, **options).upper()
    return wrapper

def apply():
    def put(self, item):
        pass
    limit = 3
    def default(self, value):
        return limit
    @contextlib.contextmanager
    def around(value, *, end="!"):
        yield value + end
    def fill(text, width=70, *, mark="."):
        with around(text) as inside:
            held.append(mark)
            return inside + mark
    json.dumps = fast
    json.encoder.JSONEncoder.default = default
    queue.LifoQueue.put = put
    textwrap.dedent = loud(textwrap.dedent)
    del textwrap.shorten
    def get(self):
        return never
    queue.LifoQueue.get = get
    if not textwrap:
        never = 1
    held = kept.TEXTS
    textwrap.fill = fill
    logging._lock = threading.Lock()
    json.JSONEncoder = Encoder
    json.extra = 3

shorten = textwrap.shorten
def undo():
    textwrap.shorten = shorten
    del json.extra
"""
WRITTEN = [
    ("json:JSONEncoder", "replace"),
    ("json:dumps", "replace"),
    ("json:extra", "add"),
    ("queue:LifoQueue.put", "replace"),
    ("textwrap:dedent", "derive"),
    ("textwrap:fill", "replace"),
    ("textwrap:shorten", "remove"),
]
LOCK = "; a run of the function for it alone sets the lock logging:_lock"
UNWRITTEN = {  # a lock belongs to the state of one process, so no value is made by a run of the function
    "json.encoder:JSONEncoder.default": f"a function made in apply: no address leads to it{LOCK}",
    "logging:_lock": f"lock: no address leads to it{LOCK}",
    "queue:LifoQueue.get": f"a function made in apply: its variable never has no value{LOCK}",
}
USE = """
import json, kept, queue, textwrap, hookpatch
from hookpatch_fixed import fixed

def look():
    return json.dumps(1), json.JSONEncoder.__name__, hasattr(json, "extra"), hasattr(textwrap, "shorten"), \\
        textwrap.dedent(" a"), "put" in vars(queue.LifoQueue), textwrap.fill("a"), len(kept.TEXTS)

print(look())
with hookpatch.active(*fixed.hookpatch_patches()):
    print(look())
print(look())
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    path = os.pathsep.join((str(folder), str(folder / "hookpatch-fixed")))
    command = [sys.executable, *words]
    environment = {**clean, "PYTHONPATH": path}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def adopted(tmp_path: Path) -> Any:
    """Return the JSON output of the command for the apply function above."""
    (tmp_path / "fixes.py").write_text(FIXES)
    (tmp_path / "kept.py").write_text("TEXTS = []")
    words = ("-m", "hookpatch", "adopt", "fixes:apply", "--name", "fixed", "--undo", "fixes:undo", "--json")
    completed = run(tmp_path, *words)
    assert completed.returncode == 1, completed.stderr  # three patches are left out
    return json.loads(completed.stdout)


def test_the_plugin_does_what_the_function_does(adopted: Any, tmp_path: Path) -> None:
    """Each patch has the right verb, and the plugin's own tests pass.

    A session patches like apply and restores the rest.
    """
    assert [(entry["target"], entry["verb"]) for entry in adopted["patches"]] == WRITTEN
    assert {entry["target"]: entry["reason"] for entry in adopted["unsaid"]} == UNWRITTEN
    tested = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "hookpatch-fixed")
    assert tested.stdout.splitlines()[-1].startswith("7 passed"), tested.stdout
    (tmp_path / "use.py").write_text(USE)
    before = "('1', 'JSONEncoder', False, True, 'a', False, 'a', {})"
    inside = "('fast', 'Encoder', True, False, 'A', True, 'a!.', 1)"
    assert run(tmp_path, "use.py").stdout.splitlines() == [before.format(0), inside, before.format(1)]
    listed = (tmp_path / "hookpatch-fixed" / "hookpatch_fixed" / "fixed.py").read_text().count("# Not written: ")
    assert listed == len(UNWRITTEN)


def test_what_its_own_undo_forgets_is_told(adopted: Any) -> None:
    """The command names each slot that the undo function does not restore."""
    forgotten = {target for target, _ in WRITTEN} - {"textwrap:shorten", "json:extra"}
    assert set(adopted["left"]) == {*forgotten, *UNWRITTEN}


@pytest.mark.parametrize(
    ("apply", "problem"),
    [
        ("fixes:nothing", "AttributeError: module 'fixes' has no attribute 'nothing'"),
        ("no_fixes:apply", "ModuleNotFoundError: No module named 'no_fixes'"),
    ],
)
def test_a_function_that_cannot_be_run_is_one_line(tmp_path: Path, apply: str, problem: str) -> None:
    """An apply function that cannot run gives a single error line. No file is written."""
    (tmp_path / "fixes.py").write_text(FIXES)
    (tmp_path / "kept.py").write_text("TEXTS = []")
    completed = run(tmp_path, "-m", "hookpatch", "adopt", apply, "--name", "fixed")
    line = f"new plugin 'fixed': {apply} cannot be run here: {problem} [hookpatch explain NewPluginError]"
    assert (completed.returncode, completed.stderr) == (78, f"hookpatch: error: {line}\n")
    assert not (tmp_path / "hookpatch-fixed").exists()


@pytest.mark.parametrize(
    ("words", "culprit", "problem"),
    [
        (("--undo", "fixes:nothing"), "fixes:nothing", "AttributeError: module 'fixes' has no attribute 'nothing'"),
        (("--undo", "kept:refuse"), "kept:refuse", "OSError: not undone"),
        (("--undo", "nowhere:undo"), "nowhere:undo", "ModuleNotFoundError: No module named 'nowhere'"),
        (("--import", "nowhere"), "--import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
    ],
)
def test_the_error_names_what_cannot_be_run(tmp_path: Path, words: tuple[str, str], culprit: str, problem: str) -> None:
    """An undo or a module that fails is named, and not the apply function, which has run."""
    (tmp_path / "fixes.py").write_text("import json\ndef apply(): json.dumps = len\n")
    (tmp_path / "kept.py").write_text("def refuse(): raise OSError('not undone')")
    completed = run(tmp_path, "-m", "hookpatch", "adopt", "fixes:apply", "--name", "fixed", *words)
    line = f"new plugin 'fixed': {culprit} cannot be run here: {problem} [hookpatch explain NewPluginError]"
    assert (completed.returncode, completed.stderr) == (78, f"hookpatch: error: {line}\n")


NESTED = """
import functools, json, textwrap
def raw(function):
    @functools.wraps(function)
    def inner(*args): return function(*args)
    return inner
def around(original):
    count = 2
    @functools.wraps(original)
    @raw
    def inner(*args): return original(*args) * count
    return inner
def apply(): textwrap.dedent = around(textwrap.dedent)
def lost():
    import logging, threading
    logging._lock = threading.Lock()
"""


def test_a_wrapper_by_several_decorators_is_derived(tmp_path: Path) -> None:
    """The function that makes the wrapper is found behind its decorators; the plugin's tests pass."""
    (tmp_path / "fixes.py").write_text(NESTED)
    completed = run(tmp_path, "-m", "hookpatch", "adopt", "fixes:apply", "--name", "fixed", "--json")
    assert completed.returncode == 0, completed.stderr
    [patch] = json.loads(completed.stdout)["patches"]
    assert (patch["verb"], patch["target"], patch["source"]) == ("derive", "textwrap:dedent", "fixes:around")
    show = "print(textwrap.dedent(' a'))"
    block = f"with hookpatch.active(*fixed.hookpatch_patches()): {show}"
    use = f"import textwrap, hookpatch; from hookpatch_fixed import fixed\n{block}\n{show}"
    assert run(tmp_path, "-c", use).stdout.split() == ["aa", "a"]


def test_patches_that_cannot_be_written_at_all_are_named(tmp_path: Path) -> None:
    """If no patch can be written, the error tells the reason for each patch."""
    (tmp_path / "fixes.py").write_text(NESTED)
    completed = run(tmp_path, "-m", "hookpatch", "adopt", "fixes:lost", "--name", "fixed")
    reason = f"lock: no address leads to it{LOCK}"
    problem = f"no patch by fixes:lost can be written: logging:_lock: {reason}"
    line = f"hookpatch: error: new plugin 'fixed': {problem} [hookpatch explain NewPluginError]\n"
    assert (completed.returncode, completed.stderr) == (78, line)
