"""The vendor's export helper: installed, closed, and used as it is."""

import onnx
import onnxsim
import torch
from torch import nn


class LinearPrinter:
    """Prints one line for a Linear module."""

    def __init__(self, name: str, module: nn.Linear):
        self.name = name
        self.module = module

    def print_module_info(self) -> None:
        print(f"Linear {self.name}: {self.module.in_features} -> {self.module.out_features}")


class Conv2dPrinter:
    """Prints one line for a Conv2d module."""

    def __init__(self, name: str, module: nn.Conv2d):
        self.name = name
        self.module = module

    def print_module_info(self) -> None:
        print(f"Conv2d {self.name}: {self.module.in_channels} -> {self.module.out_channels}")


PRINT_BY_MODULE_TYPE = {
    nn.Linear: LinearPrinter,
    nn.Conv2d: Conv2dPrinter,
}


def prepare_model(model: nn.Module, dummy_input: torch.Tensor, path: str) -> onnx.ModelProto:
    """Print the modules the registry knows, export the model to ``path``, return it simplified."""
    for name, module in model.named_modules():
        printer = PRINT_BY_MODULE_TYPE.get(type(module))
        if printer is not None:
            printer(name, module).print_module_info()
    torch.onnx.export(model, (dummy_input,), path, verbose=False)
    simplified, agrees = onnxsim.simplify(onnx.load(path))
    if not agrees:
        raise RuntimeError("the simplified model computes something else")
    return simplified
