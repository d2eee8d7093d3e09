"""What each error and warning means, and what to do: the sections of the pages that distributions ship.

Ours is docs/messages.md, in a wheel messages.md beside this file; that of a distribution with plugins is messages.md in
their package. A page is read, nothing of a plugin is imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from hookpatch._discovery import installed
from hookpatch.errors import UnknownMessage

_HERE = Path(__file__).parent


class Message(NamedTuple):
    """What is written of one error or warning.

    Attributes:
        name: its class's name.
        distribution: the distribution that has it.
        text: the section below its heading, in Markdown.
    """

    name: str
    distribution: str
    text: str

    @property
    def meaning(self) -> str:
        """The first sentence: what has happened."""
        first = " ".join(self.text.partition("\n\n")[0].split())
        return re.split(r"(?<=\.) ", first)[0]


def messages() -> list[Message]:
    """Return what is written here of errors and warnings: ours first, then the plugins', by distribution."""
    pages = {"hookpatch": _HERE / "messages.md"}
    if not pages["hookpatch"].exists():  # an editable install, which has no copy that could grow old
        pages["hookpatch"] = _HERE.parent / "docs" / "messages.md"
    for plugin in sorted(installed(), key=lambda one: one.distribution):
        if plugin.distribution not in pages and (page := _page_beside(plugin.module)) is not None:
            pages[plugin.distribution] = page
    return [message for distribution, page in pages.items() for message in _sections(distribution, page)]


def message(name: str) -> Message:
    """Return what is written of an error or warning.

    Args:
        name: its class's name, as a traceback or a line on stderr has it; case does not matter, nor does its module.

    Raises:
        UnknownMessage: nothing is.
    """
    known = messages()
    last = name.rpartition(".")[2]
    for one in known:
        if one.name.lower() == last.lower():
            return one
    raise UnknownMessage(name, [one.name for one in known])


def _page_beside(module: str) -> Path | None:
    try:
        spec = find_spec(module.partition(".")[0])  # a package on the path: found, not imported
    except (ImportError, ValueError):
        return None
    folders = spec.submodule_search_locations if spec is not None else None
    return next((page for folder in folders or () if (page := Path(folder) / "messages.md").exists()), None)


def _sections(distribution: str, page: Path) -> Iterator[Message]:
    parts = re.split(r"^## (\w+)\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        yield Message(name, distribution, text.strip())
