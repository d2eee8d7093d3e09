"""Docstrings and comments name their subject: few words merely point to another word."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from environments import ROOT

pytestmark = [pytest.mark.once, pytest.mark.repository]

POINTING: Final = re.compile(
    r"its?|that|what|there|ones?|this|those|these|they|them|such|so|then|things?|something|nothing|somebody"
    r"|who|whose|which"
)
IN_DOCSTRINGS: Final = 0.07  # at most, of all words
IN_COMMENTS: Final = 0.08
FEW: Final = 50  # words: a file with fewer is not judged by itself
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Share(NamedTuple):
    """The pointing words among some words."""

    pointing: int
    words: int

    @classmethod
    def of(cls, texts: list[str]) -> Share:
        """Return the share in some texts; code between backquotes counts as a word that does not point."""
        words = [word.lower() for text in texts for word in re.findall(r"[A-Za-z']+", re.sub(r"`[^`]*`", "X", text))]
        return cls(sum(POINTING.fullmatch(word) is not None for word in words), len(words))

    @property
    def part(self) -> float:
        return self.pointing / max(1, self.words)


def shares(source: str) -> tuple[Share, Share]:
    """Return the shares in the docstrings and in the comments of a source."""
    documented = [node for node in ast.walk(ast.parse(source)) if isinstance(node, _DOCUMENTED)]
    docstrings = [text for node in documented if (text := ast.get_docstring(node))]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return Share.of(docstrings), Share.of([token.string for token in tokens if token.type == tokenize.COMMENT])


@cache
def files() -> dict[Path, tuple[Share, Share]]:
    """Return the shares of each Python file of the project."""
    found = [path for folder in ("hookpatch", "plugins", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
    written = [path for path in found if not {"build", "_template"} & {*path.relative_to(ROOT).parts}]
    return {path.relative_to(ROOT): shares(path.read_text("utf-8")) for path in written}


@pytest.mark.parametrize(("kind", "most"), [(0, IN_DOCSTRINGS), (1, IN_COMMENTS)], ids=["docstrings", "comments"])
def test_few_words_point(kind: int, most: float) -> None:
    """Over all files, and in no file more than twice as many."""
    of_files = {path: both[kind] for path, both in files().items()}
    total = Share(sum(share.pointing for share in of_files.values()), sum(share.words for share in of_files.values()))
    assert total.words > 10_000
    assert total.part <= most, f"{total.part:.1%} of {total.words} words"
    worse = {path: share for path, share in of_files.items() if share.words >= FEW and share.part > 2 * most}
    assert not worse, "\n".join(f"{share.part:.1%} of {share.words} words: {path}" for path, share in worse.items())


def test_the_measure_sees_riddles() -> None:
    """A sentence of pointing words is found, in a docstring and in a comment; plain sentences are not."""
    riddle = '"""What it is that they are."""\n# what is there\n'
    plain = '"""Return the slot of a target."""\n# restored at the end of the session\n'
    assert [share.part > 0.5 for share in shares(riddle)] == [True, True]
    assert [share.part for share in shares(plain)] == [0, 0]
