"""Each plugin of the gallery has its page, which shows the plugin as it is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PLUGINS: dict[str, str] = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"][
    "entry-points"
]["hookpatch"]
PAGES = ROOT / "docs" / "gallery"
HEADINGS = ["Upstream", "The patch", "The proof", "Other releases", "When to remove it"]

pytestmark = pytest.mark.skipif(not PAGES.is_dir(), reason="the pages are in the repository alone")


def test_there_are_fifteen_of_each() -> None:
    """Each plugin has one page and one row of the index."""
    pages = {path.relative_to(PAGES).as_posix() for path in PAGES.glob("*/*.md")}
    assert len(pages) == 15
    assert pages == {f"{module.split('.')[1]}/{name.replace('_', '-')}.md" for name, module in PLUGINS.items()}
    assert {*re.findall(r"\]\((\w+/[\w-]+\.md)\)", (PAGES / "index.md").read_text())} == pages


@pytest.mark.parametrize("name", PLUGINS)
def test_page_shows_the_plugin(name: str) -> None:
    """Its source, its reason, two releases or the reason for fewer; the headings are the same on all pages."""
    _, room, _ = PLUGINS[name].split(".")
    text = (PAGES / room / f"{name.replace('_', '-')}.md").read_text()
    source = (Path(__file__).parents[1] / "hookpatch_gallery" / room / f"{name}.py").read_text()
    assert source.partition("from __future__ import annotations\n\n")[2] in text
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    releases = text.partition("## Other releases")[2]
    assert len(re.findall(r" fits$", releases, re.MULTILINE)) >= 1
    if "--against" in releases and "figures" in releases:
        assert len(re.findall(r"^\w\S* [\d.]+ +fits$", releases, re.MULTILINE)) == 2
    link = re.search(r'upstream="(https://[^"]+)"', source)
    assert link is None or link[1] in text
