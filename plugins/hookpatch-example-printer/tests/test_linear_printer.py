"""linear_printer in the vendor's registry."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import hookpatch

pytestmark = pytest.mark.model

VENDOR = """
from torch import nn

class LinearPrinter:
    def __init__(self, name, module):
        self.name, self.module = name, module

class Conv2dPrinter(LinearPrinter):
    pass

PRINT_BY_MODULE_TYPE = {nn.Linear: LinearPrinter, nn.Conv2d: Conv2dPrinter}
"""


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module with a registry like the vendor's, imported anew."""
    (tmp_path / "third_party_api.py").write_text(VENDOR)
    monkeypatch.syspath_prepend(str(tmp_path))
    import third_party_api

    yield third_party_api
    del sys.modules["third_party_api"]


def test_registry_holds_a_subclass_inside_and_the_vendors_class_again_afterwards(vendor: ModuleType) -> None:
    """The key keeps its place, the other entry is not touched."""
    import torch

    registry = vendor.PRINT_BY_MODULE_TYPE
    before = list(registry.items())
    with hookpatch.active("linear_printer") as session:
        printer = registry[torch.nn.Linear]
        assert issubclass(printer, vendor.LinearPrinter)
        assert printer is not vendor.LinearPrinter
        assert list(registry) == [key for key, _ in before]
        assert registry[torch.nn.Conv2d] is vendor.Conv2dPrinter
    assert all(a[0] is b[0] and a[1] is b[1] for a, b in zip(registry.items(), before, strict=True))
    assert [patch.state for patch in session.report()] == ["restored"]


def test_lines_tell_the_shapes(vendor: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """With and without a bias."""
    import torch

    with hookpatch.active("linear_printer"):
        printer = vendor.PRINT_BY_MODULE_TYPE[torch.nn.Linear]
        printer("a", torch.nn.Linear(3, 5)).print_module_info()
        printer("b", torch.nn.Linear(3, 5, bias=False)).print_module_info()
    assert capsys.readouterr().out == "Linear a: weight [5, 3], bias [5]\nLinear b: weight [5, 3], no bias\n"


def test_plugin_imports_neither_torch_nor_the_vendor(tmp_path: Path) -> None:
    """The target's key is an address: torch is not imported for it before its time."""
    (tmp_path / "third_party_api.py").write_text(VENDOR)
    program = (
        "import hookpatch, sys\n"
        "with hookpatch.active('linear_printer'):\n"
        "    print([m for m in ('torch', 'third_party_api') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
