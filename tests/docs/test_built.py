"""The site is built without a warning, has every page, and every link in it leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from environments import ROOT

import hookpatch
from hookpatch import errors

pytest.importorskip("sphinx")  # installed on the first Python alone

pytestmark = [pytest.mark.once, pytest.mark.model]  # the site imports the plugins for their docstrings

SOURCES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("plugins/README.md"),
    *ROOT.glob("plugins/*/README.md"),
    *ROOT.glob("plugins/*/*/messages.md"),
]


class Page(HTMLParser):
    """A page's links, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.places.add(value)
            elif name in ("href", "src") and value and not re.match(r"[a-z]+:|//", value):
                self.links.append(unquote(value))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does; each warning is an error."""
    out = tmp_path_factory.mktemp("site")
    command = "-m sphinx --quiet --fail-on-warning --keep-going --conf-dir docs"
    doctrees = tmp_path_factory.mktemp("doctrees")
    completed = subprocess.run(
        [sys.executable, *command.split(), "--doctree-dir", str(doctrees), str(ROOT), str(out)],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    return out


@pytest.fixture(scope="module")
def pages(built: Path) -> Mapping[Path, Page]:
    return {path: Page(path) for path in built.rglob("*.html")}


def test_every_page_is_there(built: Path) -> None:
    """Each Markdown page of the repository is in the site."""
    assert len(SOURCES) > 15
    missing = [page for page in SOURCES if not (built / page.relative_to(ROOT)).with_suffix(".html").exists()]
    assert not missing


def test_every_link_leads_somewhere(pages: Mapping[Path, Page]) -> None:
    """Each relative link finds its file and anchor."""
    broken = []
    for path, page in pages.items():
        for link in page.links:
            to, place = urldefrag(link)
            linked = (path.parent / to.partition("?")[0]).resolve() if to else path
            if not linked.exists() or (place and linked in pages and place not in pages[linked].places):
                broken.append((path.name, link))
    assert not broken


def test_every_page_is_reached_from_the_index(built: Path, pages: Mapping[Path, Page]) -> None:
    """Every page is reached by links from the site's first page."""
    reached: set[Path] = set()
    ahead = [built / "index.html", built / "docs" / "index.html"]  # the first goes on to the second by itself
    while ahead:
        path = ahead.pop()
        if path in pages and path not in reached:
            reached.add(path)
            ahead += [(path.parent / urldefrag(link)[0]).resolve() for link in pages[path].links]
    assert set(pages) - reached <= {built / "search.html"}


def test_each_public_name_has_an_entry(built: Path, pages: Mapping[Path, Page]) -> None:
    """All of the face, and of the errors; and each command."""
    reference = built / "docs" / "reference"
    python, classes = pages[reference / "python.html"].places, pages[reference / "errors.html"].places
    assert {f"hookpatch.{name}" for name in hookpatch.__all__} - python == {"hookpatch.errors", "hookpatch.testing"}
    assert {f"hookpatch.errors.{name}" for name in vars(errors) if re.match("[A-Z].*(Error|Warning)$", name)} <= classes
    assert "module-hookpatch.testing" in pages[reference / "testing.html"].places
    assert "module-hookpatch.hookspecs" in pages[reference / "testing.html"].places
    help_text = subprocess.run(
        [sys.executable, "-m", "hookpatch", "--help"], capture_output=True, text=True, check=True
    ).stdout
    commands = re.findall(r"^  ([a-z]+)  ", help_text.partition("Commands:")[2], re.MULTILINE)
    assert len(commands) > 8
    assert {f"hookpatch-{name}" for name in commands} <= pages[reference / "commands.html"].places


def test_facts_is_a_link(built: Path) -> None:
    """Each verb names the options that all verbs take, and leads there."""
    text = (built / "docs" / "reference" / "python.html").read_text()
    assert (
        len(re.findall(r'href="#hookpatch\._engine\.patch\.patch\.Facts"[^>]*><code.*?>Facts</span></code></a>', text))
        >= 9
    )
    assert not re.search(r"Facts</span></code>(?!</a>)", text)


def test_only_the_reference_needs_the_site() -> None:
    """Only generated pages have directives; the others read alike on GitHub."""
    directives = [page for page in SOURCES if re.search(r"^(```+|:::+)\{", page.read_text(), re.MULTILINE)]
    assert {page.parent for page in directives} == {ROOT / "docs" / "reference"}
