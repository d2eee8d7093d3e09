"""Docstrings, comments, texts in code and pages are plain: few pointing words, short sentences, verbs first."""

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
IN_STRINGS: Final = 0.05  # messages, help and headings in hookpatch/ and plugins/
SENTENCE: Final = 5  # words: a shorter text is a name or a piece of code
IN_PAGES: Final = 0.07  # on each page; the changelog's old entries have more
IN_THE_CHANGELOG: Final = 0.08
A_PAGE: Final = 1500  # words, at most; pages of reference may be longer
A_SCREEN: Final = 25  # lines
OF_REFERENCE: Final = ("Guarantees", "Reference", "Design", "Measured")  # headings of docs/index.md
FEW: Final = 50  # words: a file with fewer is not judged by itself
LONGEST: Final = 25  # words of a sentence; a colon or a semicolon ends a sentence, too, as in a list of cases
NO_VERB: Final = re.compile(
    "A|After|All|An|Each|For|How|If|In|Its?|No|None|One|Only|Our|That|The|This|Those|True|What|When|Where|Which|Who|Why"
)
VAGUE: Final = re.compile(
    r"all|any|asked|at|both|done|found|given|gone|held|here|it|kept|known|left|made|more|now|ones?|others?|put|rest|said"
    r"|same|seen|some|such|taken|that|then|there|these|things?|this|those|told|what|who"
)
VAGUE_NAMES: Final = 0.01  # at most, of all variables and parameters; 0.3 % of them are fields and terms of Python
BARE: Final = re.compile(  # the words of a function's or class's name that names no thing
    rf"{VAGUE.pattern}|as|ask|be|by|do|for|give|has|in|is|look|make|mine|no|not|of|on|ours|run|say|see|take|tell|theirs"
    r"|to|was|with"
)
BARE_NAMES: Final = 0.024  # at most, of all functions, methods and classes
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


@cache
def docstrings(source: str) -> list[tuple[str, str]]:
    """Return the docstrings of a source, each after the first lines of its function, which are empty for others."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, _DOCUMENTED)]
    return [(_head(node), text) for node in nodes if (text := ast.get_docstring(node))]


def _head(node: ast.AST) -> str:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    return "\n".join([*(f"@{ast.unparse(decorator)}" for decorator in node.decorator_list), f"def {node.name}"])


@cache
def comments(source: str) -> list[str]:
    """Return the comments of a source; comments alone on neighbouring lines are one."""
    blocks: list[str] = []
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text, is_alone = token.string.lstrip("# "), token.line.lstrip().startswith("#")
            if is_alone and token.start[0] == last + 1:
                blocks[-1] += f"\n{text}"
            else:
                blocks.append(text)
            last = token.start[0] if is_alone else -1
    return blocks


def strings(source: str) -> list[str]:
    """Return the texts of at least five words in a source that are no docstrings; a value in a text is one word."""
    nodes = list(ast.walk(ast.parse(source)))
    inner = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node) if part is not node}
    inner |= {node.value for node in nodes if isinstance(node, ast.Expr)}
    texts = [_text(node) for node in nodes if node not in inner]
    return [text for text in texts if Share.of([text]).words >= SENTENCE]


def _text(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else " `value` " for part in parts)
    return ""


def shares(source: str) -> tuple[Share, Share]:
    """Return the shares in the docstrings and in the comments of a source."""
    return Share.of([text for _, text in docstrings(source)]), Share.of(comments(source))


def long_sentences(source: str) -> list[str]:
    """Return the sentences of more than 25 words in the docstrings and comments of a source.

    An entry of a list or of ``Args:`` is a paragraph of its own; code between backquotes counts as a word.
    """
    texts = [text for _, text in docstrings(source)] + comments(source)
    paragraphs = [
        " ".join(re.sub(r"`+[^`]*`+", "X", paragraph).split())
        for text in texts
        for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*] |\w[\w, ]*: ))", text)
    ]
    sentences = [sentence for paragraph in paragraphs for sentence in re.split(r"(?<=[.!?:;])\s+", paragraph)]
    return [sentence for sentence in sentences if len(re.findall(r"[A-Za-z][\w']*", sentence)) > LONGEST]


def without_a_verb(source: str) -> list[str]:
    """Return the first lines of functions' docstrings that begin with a noun or a third person.

    Properties and fixtures name a value, and tests state a fact.
    """
    lines = [
        text.partition("\n")[0]
        for head, text in docstrings(source)
        if head and not re.search(r"@.*(?:property|fixture)|^def test_", head, re.MULTILINE)
    ]
    return [line for line in lines if not _is_command(line.split()[0].rstrip(",."))]


def _is_command(word: str) -> bool:
    return bool(re.fullmatch(r"[A-Z][a-z]*(?:[a-rt-z]|ss)", word)) and not NO_VERB.fullmatch(word)


def names(source: str) -> list[str]:
    """Return the names of the variables and parameters of a source, once for each assignment."""
    nodes = list(ast.walk(ast.parse(source)))
    stored = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return stored + [node.arg for node in nodes if isinstance(node, ast.arg)]


def definitions(source: str) -> list[str]:
    """Return the names of the functions, methods and classes of a source; ``__repr__`` and the like are Python's."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, _DOCUMENTED[1:])]
    return [node.name for node in nodes if not (node.name.startswith("__") and node.name.endswith("__"))]


def is_bare(name: str) -> bool:
    """Return True if no word of a name names an act and a thing, as in ``put``, ``_is_ours`` and ``Kept``."""
    words = re.findall(r"[A-Z]?[a-z0-9]+", name)
    return bool(words) and all(BARE.fullmatch(word.lower()) for word in words)


@cache
def sources() -> dict[Path, str]:
    """Return the text of each Python file of the project."""
    python = [path for folder in ("hookpatch", "plugins", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
    written = [path for path in python if not {"build", "_template"} & {*path.relative_to(ROOT).parts}]
    return {path.relative_to(ROOT): path.read_text("utf-8") for path in written}


@pytest.mark.parametrize(("kind", "most"), [(0, IN_DOCSTRINGS), (1, IN_COMMENTS)], ids=["docstrings", "comments"])
@pytest.mark.ends
def test_few_words_point(kind: int, most: float) -> None:
    """Over all files, and in no file more than twice as many."""
    of_files = {path: shares(source)[kind] for path, source in sources().items()}
    total = Share(sum(share.pointing for share in of_files.values()), sum(share.words for share in of_files.values()))
    assert total.words > 10_000
    assert total.part <= most, f"{total.part:.1%} of {total.words} words"
    worse = {path: share for path, share in of_files.items() if share.words >= FEW and share.part > 2 * most}
    assert not worse, "\n".join(f"{share.part:.1%} of {share.words} words: {path}" for path, share in worse.items())


@pytest.mark.ends
def test_few_words_of_messages_point() -> None:
    """Over all texts in code, and in no file more than twice as many; the texts of tests are not judged."""
    packages = {path: source for path, source in sources().items() if "tests" not in path.parts and path.parts[1:2]}
    of_files = {path: Share.of(strings(source)) for path, source in packages.items() if "test_" not in path.name}
    total = Share(sum(share.pointing for share in of_files.values()), sum(share.words for share in of_files.values()))
    assert total.words > 10_000
    assert total.part <= IN_STRINGS, f"{total.part:.1%} of {total.words} words"
    worse = {path: share for path, share in of_files.items() if share.words >= FEW and share.part > 2 * IN_STRINGS}
    assert not worse, "\n".join(f"{share.part:.1%} of {share.words} words: {path}" for path, share in worse.items())
    source = '"""It is what it is that."""\nx = f"{a} is what it is", "a b", "it is " "what it was"\n'
    assert [Share.of([text]) for text in strings(source)] == [(2, 5), (3, 5)]


def test_the_measure_sees_riddles() -> None:
    """A sentence of pointing words is found, in a docstring and in a comment; plain sentences are not."""
    riddle = '"""What it is that they are."""\n# what is there\n'
    plain = '"""Return the slot of a target."""\n# restored at the end of the session\n'
    assert [share.part > 0.5 for share in shares(riddle)] == [True, True]
    assert [share.part for share in shares(plain)] == [0, 0]


@pytest.mark.ends
def test_sentences_are_short() -> None:
    """No sentence of a docstring or comment has more than 25 words."""
    long = [f"{path}: {sentence}" for path, source in sources().items() for sentence in long_sentences(source)]
    assert not long, "\n".join(long)


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    """In hookpatch and the plugins; in tests/ many a function is a cell, and its docstring names the case."""
    packages = {path: source for path, source in sources().items() if path.parts[0] != "tests"}
    lines = [f"{path}: {line}" for path, source in packages.items() for line in without_a_verb(source)]
    assert not lines, "\n".join(lines)


def test_long_sentences_and_missing_verbs_are_seen() -> None:
    """The two tests above can fail, for a docstring, an entry of its arguments and a comment of two lines."""
    words = " word" * 13
    assert len(long_sentences(f'"""A{words}{words}."""')) == 1
    assert len(long_sentences(f'"""Short.\n\nArgs:\n    x: a{words}\n        and{words}.\n"""')) == 1
    assert len(long_sentences(f"#{words}\n#{words}\n")) == 1
    assert not long_sentences(f'"""A{words}. A{words}; a{words}."""\n#{words}\n\n#{words}\n')
    for line, is_bad in {"The slot.": True, "Returns a slot.": True, "Return a slot.": False, "Pass.": False}.items():
        assert bool(without_a_verb(f'def function():\n    """{line}"""\n')) is is_bad


@pytest.mark.ends
def test_few_names_are_vague() -> None:
    """Few variables are called ``one`` or ``found``; the files with the most are listed."""
    of_files = {path: names(source) for path, source in sources().items()}
    vague = {path: [name for name in names if VAGUE.fullmatch(name.strip("_"))] for path, names in of_files.items()}
    share = sum(map(len, vague.values())) / sum(map(len, of_files.values()))
    worst = sorted(vague, key=lambda path: -len(vague[path]))[:10]
    assert share <= VAGUE_NAMES, f"{share:.2%}; most in " + ", ".join(f"{path} ({len(vague[path])})" for path in worst)
    assert names("def a(one, *, b): found = [c for c in b]") == ["found", "c", "one", "b"]


@pytest.mark.ends
def test_few_functions_and_classes_have_bare_names() -> None:
    """Few are called ``put``, ``_is_ours`` or ``Kept``; the files with the most are listed."""
    of_files = {path: definitions(source) for path, source in sources().items()}
    bare = {path: [name for name in names if is_bare(name)] for path, names in of_files.items()}
    share = sum(map(len, bare.values())) / sum(map(len, of_files.values()))
    worst = sorted(bare, key=lambda path: -len(bare[path]))[:10]
    listed = "\n".join(f"{path}: {', '.join(bare[path])}" for path in worst)
    assert share <= BARE_NAMES, f"{share:.2%}; most in\n{listed}"
    source = "class A:\n    def put(self): ...\n    def __repr__(self): ...\nasync def b(): ..."
    assert definitions(source) == ["A", "b", "put"]
    assert list(map(is_bare, ["_said", "for_one", "_is_ours", "Kept", "X"])) == [True] * 4 + [False]
    assert not any(map(is_bare, ["write_value", "is_same_value", "LateRestore", "run_model", "test_it"]))


@cache
def pages() -> dict[Path, str]:
    """Return the text of each page of the project."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/*/README.md")]
    return {path.relative_to(ROOT): path.read_text("utf-8") for path in sorted(found)}


def prose(page: str) -> str:
    """Return a page without blocks of code, comments and the targets of links."""
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", page, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


@cache
def reference() -> set[Path]:
    """Return the pages of docs/reference and the pages under the headings of reference in docs/index.md."""
    index = pages()[Path("docs/index.md")]
    parts = re.split(r"^## (.+)$", index, flags=re.MULTILINE)[1:]
    listed = {
        heading: re.findall(r"\]\(([^)]+\.md)\)", text) for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }
    assert {*OF_REFERENCE} <= {*listed}
    links = [link for heading in OF_REFERENCE for link in listed[heading]]
    in_index = {(ROOT / "docs" / link).resolve().relative_to(ROOT) for link in links}
    return in_index | {path for path in pages() if path.is_relative_to("docs/reference")}


def test_few_words_of_a_page_point() -> None:
    """On each page; a row of a table is measured, too, and code is not."""
    assert len(pages()) > 60
    shares = {path: Share.of([prose(text)]) for path, text in pages().items()}
    most = {path: IN_THE_CHANGELOG if path.name == "CHANGELOG.md" else IN_PAGES for path in pages()}
    worse = {path: share for path, share in shares.items() if share.words >= FEW and share.part > most[path]}
    assert not worse, "\n".join(f"{share.part:.1%} of {share.words} words: {path}" for path, share in worse.items())
    assert Share.of([prose("It is [what](it.md) `it` was.\n\n```python\nit = that\n```\n")]) == (2, 5)


def test_pages_are_short() -> None:
    """A page that is no reference has at most 1,500 words."""
    long = {path: len(text.split()) for path, text in pages().items() if path not in reference()}
    assert not {path: words for path, words in long.items() if words > A_PAGE}


def guides() -> dict[Path, str]:
    """Return the pages of docs/ that answer one question each: all but the index and the reference."""
    docs = {path: text for path, text in pages().items() if path.parts[0] == "docs" and path.name != "index.md"}
    return {path: text for path, text in docs.items() if path not in reference()}


def test_a_page_answers_with_code_in_its_first_screen() -> None:
    """The first block of code begins in the first 25 lines of each guide."""
    assert len(guides()) > 35
    late = [path for path, text in guides().items() if not has_code(text.splitlines()[:A_SCREEN])]
    assert not late
    assert not has_code(["# Title", "", "    make figures"])


def has_code(lines: list[str]) -> bool:
    return any(re.match(r"```(?:python|console|toml)", line) for line in lines)


def test_a_page_leads_to_the_next_question() -> None:
    """The last ten lines of each guide have a link to another page."""
    ends = {path: "\n".join(text.splitlines()[-10:]) for path, text in guides().items()}
    assert not [path for path, end in ends.items() if not re.search(r"\]\([^)]+\.md(?:#[\w-]+)?\)", end)]
