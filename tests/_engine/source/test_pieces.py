"""A piece of code is found in any layout, and never by chance; the new piece gets the old indentation."""

from __future__ import annotations

import ast
from textwrap import dedent
from typing import Final

import pytest

from hookpatch._engine.patch.edit import Edit, hunks
from hookpatch._engine.source.pieces import Source, UnfitEdit, replaced

FILE: Final = dedent(
    '''\
    before = f(1, "a")

    def function(a, b=(1, 2)):
        x = call(a,
                 b)  # why
        if a:
            y = f(1, 'a'); z = 2
            if b: return "é" + y
            elif x == 3:
                return x
        text = """
    at the margin
    """
        return [f(1, "a")
                for _ in a]

    after = f(1, "a")
    '''
)


def edit(old: str, new: str, count: int | None = None) -> str:
    return change(Edit(((old, new),), count))


def change(edit: Edit) -> str:
    """Return the function's lines after an edit; lines around must be unchanged."""
    text = replaced(Source(FILE, ast.parse(FILE), 3, 15), edit)
    head, tail = FILE.index("def"), FILE.index("after")
    assert text.startswith(FILE[:head])
    assert text.endswith(FILE[tail:])
    ast.parse(text)
    return text[head : len(text) - len(FILE[tail:])]


FUNCTION: Final = FILE[FILE.index("def") : FILE.index("after")]


@pytest.mark.parametrize(
    ("old", "new", "piece", "instead"),
    [
        ("x = call(a, b)", "x = 1", "x = call(a,\n             b)", "x = 1"),
        ("z=2", "z = 3", "z = 2", "z = 3"),
        ("y = f(1, 'a'); z = 2", "y = 1\nz = 2", "y = f(1, 'a'); z = 2", "y = 1\n        z = 2"),
        ("return 'é' + y", "return y", 'return "é" + y', "return y"),
        ("b=(1,2)", "b=3", "b=(1, 2)", "b=3"),
        ("elif x == 3:", "elif x == 4:", "elif x == 3:", "elif x == 4:"),
        ("for _ in a", "for _ in b", "for _ in a", "for _ in b"),
        ("call(a,", "call(a + 1,", "call(a,", "call(a + 1,"),
        ("return x", "", "return x", "pass"),
        ('text = """\nat the margin\n"""', 'text = """\nother\n"""', '"""\nat the margin\n"""', '"""\nother\n"""'),
        ("  return x\n", "\n    if x:\n        return x\n", "return x", "if x:\n                return x"),
    ],
)
def test_one_place(old: str, new: str, piece: str, instead: str) -> None:
    assert edit(old, new) == FUNCTION.replace(piece, instead)
    assert FUNCTION.count(piece) == 1


@pytest.mark.parametrize(
    "old", ["xx", "argin", "wh", "why", "before = 1", "call(b, a)", "after", "return", "y + 'é'", "3)"]
)
def test_nothing_is_found_by_chance(old: str) -> None:
    with pytest.raises(UnfitEdit):
        edit(old, "0")


def test_count_says_how_often() -> None:
    assert edit("f(1, 'a')", "g()", 2) == FUNCTION.replace("f(1, 'a')", "g()").replace('f(1, "a")', "g()")
    with pytest.raises(UnfitEdit, match=r"is there twice \(line 7, 14\); say count=2 for all"):
        edit("f(1, 'a')", "g()")
    with pytest.raises(UnfitEdit, match=r"is there twice \(line 7, 14\), not 3 times"):
        edit("f(1, 'a')", "g()", 3)


def test_a_statement_that_stands_elsewhere_too_needs_a_count() -> None:
    text = "def f(x):\n    x\n    return x\n"
    source = Source(text, ast.parse(text), 1, 3)
    with pytest.raises(UnfitEdit, match="'x' is there as a statement once and in all 3 times"):
        replaced(source, Edit((("x", "y"),)))
    assert replaced(source, Edit((("x", "y"),), 1)) == "def f(x):\n    y\n    return x\n"
    assert replaced(source, Edit((("x", "y"),), 3)) == "def f(y):\n    y\n    return y\n"


def diff(text: str) -> str:
    return change(Edit(hunks(text), is_diff=True))


@pytest.mark.parametrize("margin", ["", "    ", "            "])
def test_a_hunk_may_be_indented_otherwise(margin: str) -> None:
    """A hunk may be indented differently as a whole."""
    head = "@@ -1 +1,3 @@ def function\n"
    lines = [" elif x == 3:", "-    return x", "+    if x:", "+        return [x]"]
    text = head + "".join(f"{line[0]}{margin}{line[1:]}\n" for line in lines)
    instead = "elif x == 3:\n            if x:\n                return [x]"
    assert diff(text) == FUNCTION.replace("elif x == 3:\n            return x", instead)


@pytest.mark.parametrize(
    ("hunk", "piece", "instead"),
    [
        # As git writes hunks: with lines around the function, at its last line and its first.
        ('             for _ in a]\n+    # the end\n \n after = f(1, "a")', "in a]\n", "in a]\n    # the end\n"),
        (' before = f(1, "a")\n \n-def function(a, b=(1, 2)):\n+def function(a, b=3):', "b=(1, 2)", "b=3"),
    ],
)
def test_context_may_lie_outside_the_function(hunk: str, piece: str, instead: str) -> None:
    assert diff(f"@@ -1,3 +1,3 @@\n{hunk}\n") == FUNCTION.replace(piece, instead)


@pytest.mark.parametrize(
    "hunk",
    ['-before = f(1, "a")\n+before = 1\n \n def function(a, b=(1, 2)):', "+# a comment\n def function(a, b=(1, 2)):"],
)
def test_what_changes_lies_in_the_function(hunk: str) -> None:
    with pytest.raises(UnfitEdit, match="is not in the source"):
        diff(f"@@ -1,3 +1,3 @@\n{hunk}\n")


def test_hunks_that_do_not_fit() -> None:
    again = "def f():\n    if a:\n        x = 2\n    x = 2\n"
    with pytest.raises(UnfitEdit, match="fits at the lines 3, 4; give it more lines"):
        replaced(Source(again, ast.parse(again), 1, 4), Edit(hunks("@@ -1 +1 @@\n-x = 2\n+x = 9\n"), is_diff=True))
    two = "@@ -1 +1 @@\n-elif x == 3:\n+elif x == 4:\n     return x\n"
    two += "@@ -1 +1 @@\n elif x == 3:\n-    return x\n+    return 4\n"
    with pytest.raises(UnfitEdit, match="two hunks of the diff meet"):
        diff(two)
