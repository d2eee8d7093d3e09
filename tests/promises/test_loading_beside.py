"""Changed sources beside those who rewrite or show sources: pytest's assertions, beartype's import hook, pdb."""

from __future__ import annotations

import importlib
import io
import pdb
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hookpatch

SOURCE = """
LIMIT = 8

class Kind:
    size = 8

def check(x: int) -> int:
    y = x + 1
    assert y == 8
    return y
"""
CHANGES = {  # each gives 9 in place of 8, or lets `check` take 6
    "module": "hookpatch.edit('rewritten', 'LIMIT = 8', 'LIMIT = 9', reload=True)",
    "transform": "hookpatch.transform('rewritten', lambda text: text.replace('8', '9'), reload=True)",
    "function": "hookpatch.edit('rewritten:check', 'x + 1', 'x + 2')",
    "class": "hookpatch.edit('rewritten:Kind', 'size = 8', 'size = 9')",
}
REFUSALS = {
    "module": "its loader (_pytest.assertion.rewrite.AssertionRewritingHook)",
    "transform": "its loader (_pytest.assertion.rewrite.AssertionRewritingHook)",
    "function": "the source of check is not what runs",
}


@pytest.mark.once
def test_modules_whose_assertions_pytest_rewrites(tmp_path: Path) -> None:
    """Their loader compiles by itself, and their functions run no source: both are refused. A class is edited."""
    (tmp_path / "rewritten.py").write_text(SOURCE)
    (tmp_path / "conftest.py").write_text("import pytest\npytest.register_assert_rewrite('rewritten')\n")
    (tmp_path / "test_it.py").write_text(
        f"""
import hookpatch, pytest, rewritten
from hookpatch.errors import EditError

CHANGES, REFUSALS = {CHANGES!r}, {REFUSALS!r}

@pytest.mark.parametrize("what", CHANGES)
def test_it(what):
    session = hookpatch.active(eval(CHANGES[what]))
    if what in REFUSALS:
        with pytest.raises(EditError) as raised:
            session.open()
        assert REFUSALS[what] in str(raised.value)
    else:
        with session:
            assert rewritten.Kind.size == 9
    assert (rewritten.LIMIT, rewritten.Kind.size, rewritten.check(7)) == (8, 8, 8)
    with pytest.raises(AssertionError, match="assert 9 == 8"):
        rewritten.check(8)
"""
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    completed = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "4 passed" in completed.stdout, completed.stdout


CHECKED = """
import importlib
import pytest
import hookpatch

def seen():
    module = importlib.import_module("checked.rewritten")
    with pytest.raises(Exception, match="type hint") as raised:
        module.check("text")
    assert type(raised.value).__name__ == "BeartypeCallHintParamViolation"
    right = next(x for x in (6, 7, 8) if passes(module.check, x))
    return [module.LIMIT, module.Kind.size, right]

def passes(check, x):
    try:
        check(x)
    except AssertionError:
        return False
    return True

before = seen()
assert before == [8, 8, 7]
with hookpatch.active(PATCH):
    print(seen())
assert seen() == before
"""


@pytest.mark.parametrize("change", CHANGES)
def test_package_whose_types_beartype_checks(change: str, tmp_path: Path) -> None:
    """The change and beartype's checks hold, and afterwards the checks alone. beartype's hook stays in its process."""
    pytest.importorskip("beartype")
    (tmp_path / "checked").mkdir()
    hook = "from beartype.claw import beartype_this_package\nbeartype_this_package()\n"
    (tmp_path / "checked" / "__init__.py").write_text(hook)
    (tmp_path / "checked" / "rewritten.py").write_text(SOURCE)
    patch = CHANGES[change].replace("'rewritten", "'checked.rewritten")
    (tmp_path / "program.py").write_text(CHECKED.replace("PATCH", patch))
    completed = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    inside = {"module": [9, 8, 7], "transform": [9, 9, 8], "function": [8, 8, 6], "class": [8, 9, 7]}
    assert (completed.stdout, completed.returncode) == (f"{inside[change]}\n", 0), completed.stderr


@pytest.mark.parametrize("kind", ["module", "function"])
def test_pdb_shows_the_edited_lines(kind: str, write_module: Callable[[str, str], Any]) -> None:
    write_module("stepped", SOURCE)
    module: Any = importlib.import_module("stepped")
    edit = ("y = x + 1", "y = x + 2  # edited")
    whole = hookpatch.edit("stepped", *edit, reload=True)
    with hookpatch.active(whole if kind == "module" else hookpatch.edit("stepped:check", *edit)):
        shown = io.StringIO()
        debugger = pdb.Pdb(stdin=io.StringIO("list 1, 12\ncontinue\n"), stdout=shown, nosigint=True)
        debugger.use_rawinput = False
        assert debugger.runcall(module.check, 6) == 8
    assert "y = x + 2  # edited" in shown.getvalue()
    assert "edited by a patch given to active()" in shown.getvalue()
