"""linear_printer in the vendor's registry: the three tests of every plugin, and its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from hookpatch.testing import EffectOf, FreshProcess, Patched

pytestmark = pytest.mark.model

VENDOR = """
from torch import nn

class LinearPrinter:
    def __init__(self, name, module):
        self.name, self.module = name, module

    def print_module_info(self):
        print(f"Linear {self.name}: {self.module.in_features} -> {self.module.out_features}")

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


def test_lines_tell_the_shapes(vendor: ModuleType, patched: Patched, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines have the shapes, with and without a bias; the fixture compares the registry before and after."""
    import torch

    patched("linear_printer")
    printer = vendor.PRINT_BY_MODULE_TYPE[torch.nn.Linear]
    printer("a", torch.nn.Linear(3, 5)).print_module_info()
    printer("b", torch.nn.Linear(3, 5, bias=False)).print_module_info()
    assert capsys.readouterr().out == "Linear a: weight [5, 3], bias [5]\nLinear b: weight [5, 3], no bias\n"


PROGRAM = """
    import third_party_api
    from torch import nn

    for name, module in nn.Sequential(nn.Linear(3, 5)).named_children():
        third_party_api.PRINT_BY_MODULE_TYPE[type(module)](name, module).print_module_info()
"""


def test_unmodified_program_is_patched_from_outside(tmp_path: Path, fresh_process: FreshProcess) -> None:
    """An unmodified program prints the plugin's lines, and without the plugin the vendor's."""
    (tmp_path / "third_party_api.py").write_text(VENDOR)
    where = {"PYTHONPATH": str(tmp_path)}
    assert fresh_process(PROGRAM, env=where).check().output == "Linear 0: 3 -> 5\n"
    assert fresh_process(PROGRAM, "linear_printer", env=where).check().output == "Linear 0: weight [5, 3], bias [5]\n"


def test_captured_code_sees_the_entry(vendor: ModuleType, effect: EffectOf) -> None:
    """Code captured by torch gets the subclass from the registry inside, and the vendor's class outside."""
    import torch

    registry, vendors = vendor.PRINT_BY_MODULE_TYPE, vendor.LinearPrinter

    def asks(x: torch.Tensor) -> torch.Tensor:
        return x if registry[torch.nn.Linear] is vendors else -x

    effect(asks, torch.ones(3), what="linear_printer").check()


def test_registry_holds_a_subclass_in_the_place_of_the_vendors_class(vendor: ModuleType, patched: Patched) -> None:
    """The key keeps its position, and the other entry is unchanged."""
    import torch

    registry = vendor.PRINT_BY_MODULE_TYPE
    keys = list(registry)
    patched("linear_printer")
    printer = registry[torch.nn.Linear]
    assert issubclass(printer, vendor.LinearPrinter)
    assert printer is not vendor.LinearPrinter
    assert list(registry) == keys
    assert registry[torch.nn.Conv2d] is vendor.Conv2dPrinter


def test_plugin_imports_neither_torch_nor_the_vendor(fresh_process: FreshProcess) -> None:
    """The target's key is an address, so the plugin does not import torch."""
    program = "import sys; print([m for m in ('torch', 'third_party_api') if m in sys.modules])"
    completed = fresh_process(program, "linear_printer")
    assert (completed.status, completed.output) == (0, "[]\n")
