"""Shared by tests of messages: the sections of docs/messages.md, and a module to patch."""

from __future__ import annotations

import re

from environments import ROOT

PAGE = ROOT / "docs" / "messages.md"


def sections() -> dict[str, str]:
    """Return the sections of docs/messages.md by heading."""
    parts = re.split(r"^##+ (.*)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def shown(kind: type[Exception]) -> str:
    """Return the message of a class in docs/messages.md."""
    (text,) = re.findall(r"^```text\n(.*)\n```$", sections()[kind.__name__], flags=re.MULTILINE)
    return str(text)


VENDOR = """
    import sys
    import types

    speed = 1
    table = {"fast": 1}
    entries = [1, 2]
    shown = types.MappingProxyType(table)
    pair = (1, 2)

    def simplify(model): return model

    class Model:
        def run(self): return 1
    """
