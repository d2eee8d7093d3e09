"""The long descriptions of distributions have no link that only the repository's pages could follow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from environments import PROJECTS, ROOT
from long_description import relative_links, rewritten, source

pytestmark = [pytest.mark.once, pytest.mark.repository]


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
@pytest.mark.parametrize("address", ["", "https://example.org/home"])
def test_readme_of_a_distribution_has_no_relative_link(project: Path, address: str) -> None:
    """Without an address a link becomes its text; with an address the link names a file. Code blocks stay unchanged."""
    folder, text = project.relative_to(ROOT).as_posix(), (project / "README.md").read_text()
    built = rewritten(text, folder, address)
    assert [*relative_links(built)] == []
    code = re.compile(r"^```.*?^```|^    .*?$", re.MULTILINE | re.DOTALL)
    assert code.findall(built) == code.findall(text)
    names = re.findall(rf"{address}/(?:blob|raw)/HEAD/([^)#]*)", built) if address else []
    assert all((ROOT / name).is_file() for name in names)
    assert len(names) == (len([*relative_links(text)]) if address else 0)


@pytest.mark.parametrize(
    ("text", "without", "with_address"),
    [
        ("[a](docs/b.md#c)", "a", "[a](https://x.org/h/blob/HEAD/docs/b.md#c)"),
        ("![a\nb](docs/c.svg)", "a\nb", "![a\nb](https://x.org/h/raw/HEAD/docs/c.svg)"),
        ("[a](https://b.org), [c](#d)", "[a](https://b.org), [c](#d)", "[a](https://b.org), [c](#d)"),
        ("`x[0](docs)`", "`x[0](docs)`", "`x[0](docs)`"),
    ],
)
def test_links_of_each_kind(text: str, without: str, with_address: str) -> None:
    """Links, images, addresses and parts of the page; an expression in code is no link."""
    assert rewritten(text, ".", "") == without
    assert rewritten(text, ".", "https://x.org/h") == with_address


def test_link_that_is_left_is_found() -> None:
    """The check of `make dist` sees links, images and references."""
    text = "[a](other.md), ![b](c.png), [d][e], [f](https://g.org), [h](#i)\n\n[e]: ../j.md\n"
    assert [*relative_links(text)] == ["other.md", "c.png", "../j.md"]


def test_there_is_one_setting() -> None:
    """No plugin repeats the address: a copy would be forgotten at a move."""
    assert [path for path in PROJECTS[1:] if "project.urls" in (path / "pyproject.toml").read_text()] == []
    assert source() == "" or source().startswith("https://")
