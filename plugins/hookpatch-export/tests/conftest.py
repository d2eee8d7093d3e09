"""Fixtures: models in modules of their own, in a folder at the front of sys.path."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder on sys.path. Modules imported from the folder are removed from sys.modules at the end."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def write_module(folder: Path) -> Callable[[str, str], Path]:
    """Write a module's source into the folder; ``a.b`` makes package ``a``."""

    def write(name: str, source: str) -> Path:
        path = folder.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        if path.parent != folder:
            (path.parent / "__init__.py").touch()
        path.write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        return path

    return write


@pytest.fixture
def make_module(write_module: Callable[[str, str], Path]) -> Callable[[str, str], ModuleType]:
    """Write a module and import it."""

    def make(name: str, source: str) -> ModuleType:
        write_module(name, source)
        return importlib.import_module(name)

    return make


@pytest.fixture
def model(make_module: Callable[[str, str], ModuleType]) -> Callable[[str], type[torch.nn.Module]]:
    """Return a function that makes a class ``Net`` from its source. The source begins on line 4."""

    def make(source: str) -> type[torch.nn.Module]:
        head = "import torch\nfrom torch import nn\n\n"
        net: type[torch.nn.Module] = make_module("net", head + textwrap.dedent(source).lstrip("\n")).Net
        return net

    return make
