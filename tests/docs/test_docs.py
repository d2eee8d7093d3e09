"""Each code block of the documentation is run, page by page, as a reader would run it."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import pytest
import typer
from environments import ROOT, Environment
from house import PACKAGE, ROOMS

from hookpatch.command import app
from hookpatch.command.run import _words

pytest.importorskip("sybil")  # installed on the first Python alone

from pages import PAGES, Reader, blocks, difference, imports_torch, name_of, why_not

pytestmark = pytest.mark.once

# The most blocks shown without a run, each with a reason in the comment before.
NOT_RUN_AT_MOST = 10


@pytest.fixture(scope="session")
def with_wheels(wheels: Path, installed_wheels: Environment) -> Environment:
    """Make an environment with all of hookpatch, for pages without an install."""
    installed_wheels.add_scripts()
    return installed_wheels


def reader(page: Path, folder: Path, wheels: Path, with_wheels: Environment) -> Reader:
    """Return the reader of a page, with an environment of its own for a page with an install."""
    if not installs(page):
        return Reader(folder, with_wheels, wheels)
    environment = Environment(folder / "venv")
    if "pip install hookpatch" not in typed(page):
        environment.take_over(with_wheels)
    environment.add_scripts()
    return Reader(folder, environment, wheels)


def typed(page: Path) -> str:
    """Return the commands of a page."""
    return "\n".join(source for language, source in parsed(page) if language == "console")


def installs(page: Path) -> bool:
    """Return True for a page with an install."""
    return "pip install" in typed(page) or "pip uninstall" in typed(page)


def parsed(page: Path) -> list[tuple[str, str]]:
    return [region.parsed for _, region in blocks(page).regions]


def marks(page: Path) -> list[pytest.MarkDecorator]:
    """Return the marks of a page: the gallery and the pages with an install take longest. The README is always read."""
    heavy, is_long = imports_torch(page), "gallery" in page.parts or (installs(page) and page != ROOT / "README.md")
    return [*[pytest.mark.model] * heavy, *[pytest.mark.ends] * (is_long and not heavy)]


def read(page: Path, reader: Reader) -> None:
    for example in blocks(page, reader).examples():
        example.evaluate()


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=marks(page)) for page in PAGES if parsed(page)],
    ids=name_of,
)
@pytest.mark.sampled(8)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, wheels: Path, with_wheels: Environment) -> None:
    """Programs and commands print the text below, files parse; in order, in the page's own folder."""
    read(page, reader(page, tmp_path, wheels, with_wheels))


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    """Blocks in need of a cluster or a graphics card are marked, and few."""
    reasons = [
        f"{name_of(page)}: {reason}"
        for page in PAGES
        for document in [blocks(page)]
        for _, region in document.regions
        if (reason := why_not(document, region))
    ]
    assert len(reasons) <= NOT_RUN_AT_MOST, "\n".join(reasons)
    assert all(len(reason.split()) > 3 for reason in reasons), "\n".join(reasons)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "the page says\n2\nand it is\n1"),
        ("```python\nraise SystemExit('no')\n```\n", "status 1\nno"),
        ("```python\nimport warnings\nwarnings.warn('old')\n```\n", "UserWarning: old"),
        ("```console\n$ echo one\ntwo\n```\n", "$ echo one\nthe page says\ntwo\nand it is\none"),
        ("```console\n$ hookpatch lits\n```\n", "no command and no plugin 'lits'"),
        ("```toml\n[tool\n```\n", "Expected ']'"),
        ("```python\n# broken.py\ndef\n```\n", "invalid syntax"),
        ("```julia\nprintln(1)\n```\n", "nobody knows how to run a block of julia"),
    ],
)
def test_a_page_that_is_wrong_is_found(
    text: str, problem: str, tmp_path: Path, wheels: Path, with_wheels: Environment
) -> None:
    """The test above can fail, for each kind of block."""
    page = tmp_path / "wrong.md"
    page.write_text(text)
    with pytest.raises(Exception) as caught:
        read(page, Reader(tmp_path, with_wheels, wheels))
    assert problem in str(caught.value)


@pytest.mark.ends
def test_a_page_is_read_in_one_shell_and_one_folder(tmp_path: Path, wheels: Path, with_wheels: Environment) -> None:
    """Files, the current folder, variables and an environment made on the page go on to what follows."""
    page = tmp_path / "right.md"
    page.write_text(
        textwrap.dedent(
            """\
            ```python
            # shop/vendor.py
            PRICE = 3
            ```

            ```python
            from shop.vendor import PRICE

            print(PRICE)
            ```

            It prints

            ```text
            3
            ```

            ```console
            $ cd shop
            $ export WORD=here
            $ python -m venv .venv && . .venv/bin/activate
            ```

            ```console
            $ echo $WORD; ls
            here
            vendor.py
            $ python -c "import hookpatch"
            Traceback (most recent call last):
            ...
            ModuleNotFoundError: No module named 'hookpatch'
            $ pip install hookpatch
            Looking in links: ...
            ...
            Successfully installed hookpatch-0.1.0
            $ hookpatch \\
                  --version
            hookpatch 0.1.0
            $ python -c "import hookpatch; print(hookpatch.__file__)"
            .../work/shop/.venv/lib/.../hookpatch/__init__.py
            ```

            <!-- not run: it needs a machine that nobody has -->

            ```console
            $ launch --nodes 1000
            ```
            """
        )
    )
    read(page, Reader(tmp_path, with_wheels, wheels))


SHOWN = re.compile(r"^    (?:\w+=\S+ )*hookpatch (\S.*)", re.MULTILINE)


def parse(line: str) -> None:
    """Parse a hookpatch command line without a run."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("hookpatch", [], resilient_parsing=True)
    context.resilient_parsing = False
    name, *words = shlex.split(line, comments=True)
    if name == "run":
        _words.parsed(words)
        return
    command = group.get_command(context, name)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.get_command(context, words.pop(0))
    command.make_context(name, words, parent=context)


@pytest.mark.model
def test_commands_that_are_only_shown_can_be_typed() -> None:
    """Each command in an indented block exists, with the options shown."""
    lines = [line for page in PAGES for line in SHOWN.findall(page.read_text())]
    assert len(lines) > 10
    for line in lines:
        parse(line)
    for wrong in ("check --agianst", "lits", "onnx diff a b --outptu"):
        with pytest.raises(Exception, match=r"agianst|lits|outptu"):
            parse(wrong)


def test_three_dots_stand_for_what_varies() -> None:
    """A line of dots stands for any lines, or none; dots in a line for a part of the line."""
    assert difference("a\n...\nc\n", "a\nb\nb\nc\n") is None
    assert difference("a\n...\nc\n", "a\nc\n") is None
    assert difference("took ... s\n", "took 3.2 s\n") is None
    assert difference("took ... s\n", "took 3.2\n1 s\n") is not None
    assert difference("a\n...\nc\n", "a\nb\n") is not None
    assert difference("a.c\n", "abc\n") is not None
    assert difference("a\n\nb\n", "a  \n \nb \n") is None
    assert difference("a\nb\n", " a\nb\n") is not None


def test_readme_is_short_and_has_the_two_commands() -> None:
    """A newcomer finds them under "From a clone"."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 90
    clone = text.partition("## From a clone\n")[2].partition("\n## ")[0]
    assert re.findall(r"^    (make \w+)", clone, re.MULTILINE) == ["make demo", "make test"]


def test_readme_compares_as_it_was_measured() -> None:
    """Its rows are those of docs/why.md that are answered by yes or no, for some of the tools there."""
    measured, shown = (table(page) for page in ("docs/why.md", "README.md"))
    assert len(shown) == 15
    assert {name: {tool: measured[name][tool] for tool in row} for name, row in shown.items()} == shown
    assert [name for name, row in measured.items() if row["hookpatch"] == "yes"] == [*shown]


def table(page: str) -> dict[str, dict[str, str]]:
    """Return the rows of the table of tools on a page, by their first cells."""
    (text,) = re.findall(r"^\|  ?\| hookpatch \|.*\n(?:\|.*\n)+", (ROOT / page).read_text(), re.MULTILINE)
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Each link to a file of this repository finds the file, and the heading if named."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        path, _, heading = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), target
        assert not heading or linked.suffix != ".md" or heading in anchors(linked), target


def anchors(page: Path) -> set[str]:
    """Return GitHub's anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_each_room_has_a_page_in_the_design() -> None:
    """Rooms come in the order of the house; each class among a page's nouns is of the room, or an error."""
    page = (ROOT / "docs" / "design.md").read_text()
    form = r"^## `(\S+)`: .*\n\n\*\*Law\.\*\* (?s:.*?)^\*\*Nouns\.\*\* ((?:.+\n)+)"
    pages = re.findall(form, page, re.MULTILINE)
    assert [room for room, _ in pages] == [room for room in ROOMS if (PACKAGE / room).is_dir()]
    for room, nouns in pages:
        source = "\n".join(path.read_text() for path in [*(PACKAGE / room).rglob("*.py"), PACKAGE / "errors.py"])
        classes = {*re.findall(r"^(?:class )?([A-Z]\w+)\b", source, re.MULTILINE)}
        assert {*re.findall(r"`([A-Z]\w+)`", nouns)} <= classes, room


def test_the_design_is_short() -> None:
    """The design is short, and ends with the user's nouns."""
    page = (ROOT / "docs" / "design.md").read_text()
    assert len(page.split()) <= 6000
    glossary = page.partition("\n## Glossary\n")[2]
    entries = re.findall(r"^- \*\*([\w, ]+)\*\*: (.+(?:\n  .+)*)", glossary, re.MULTILINE)
    assert len(entries) == 15
