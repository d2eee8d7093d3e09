"""The README's pictures are small, fetch no file, and show the output of this release."""

from __future__ import annotations

import importlib.util
import xml.etree.ElementTree as ElementTree
from itertools import groupby
from pathlib import Path
from types import ModuleType

import pytest
from environments import ROOT

pytestmark = [pytest.mark.once, pytest.mark.model]  # needs onnxsim and its plugins, not torch

IMAGES = ROOT / "docs" / "images"


def script() -> ModuleType:
    """Import the script of the pictures."""
    spec = importlib.util.spec_from_file_location("pictures", IMAGES / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lines(svg: str) -> list[str]:
    """Return the lines of text of a terminal's picture."""
    texts = [node for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("}text")]
    rows = groupby(texts, key=lambda node: float(node.attrib["y"]))
    return ["".join(node.text or "" for node in row).replace("\xa0", " ").rstrip() for _, row in rows]


def test_terminal_shows_what_the_command_prints_now(tmp_path: Path) -> None:
    """The picture shows the plan with its colours; the rest takes a minute, and `make pictures` runs it."""
    pictures = script()
    plan, *_ = pictures.COMMANDS
    drawn = lines(pictures.draw([(plan, pictures.printed(plan, tmp_path))]))
    shown = lines((IMAGES / "session.svg").read_text())
    assert "fits" in "".join(drawn)
    assert shown[: len(drawn)] == drawn, "make pictures"
    assert [line for line in shown if line.startswith("$ ")] == [f"$ {command}" for command in pictures.COMMANDS]


def test_first_picture_shows_what_the_commands_print_now(tmp_path: Path) -> None:
    """All of it: a program without a timeout, and the same program with the plugin."""
    pictures = script()
    pictures.fetch(tmp_path)
    drawn = pictures.draw([(command, pictures.printed(command, tmp_path)) for command in pictures.TIMEOUT])
    assert lines(drawn) == lines((IMAGES / "timeout.svg").read_text()), "make pictures"


def test_pictures_are_small_and_fetch_nothing() -> None:
    """A README is read on a telephone, too."""
    nodes = [node for path in IMAGES.glob("*.svg") for node in ElementTree.fromstring(path.read_text()).iter()]
    for node in nodes:
        assert not node.tag.endswith("}script")
        if not node.tag.endswith("}text"):  # the text shows a link, and is none
            assert "http" not in " ".join([node.text or "", *node.attrib.values()])
        assert not any("href" in name or "http" in value for name, value in node.attrib.items())
    sizes = {path.name: path.stat().st_size for path in IMAGES.iterdir() if path.suffix in (".svg", ".png")}
    assert set(sizes) == {"timeout.svg", "session.svg", "graph.png"}
    assert max(sizes.values()) < 200_000
