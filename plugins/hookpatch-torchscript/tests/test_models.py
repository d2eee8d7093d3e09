"""script_explain on networks as torchvision and transformers have them, with few and narrow layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from hookpatch_torchscript import explain
from torch import Tensor, nn

# Torch reads all properties of a scripted module, and a property of transformers warns.
gradients = "ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"
pytestmark = [pytest.mark.model, pytest.mark.filterwarnings(gradients)]


class Residual(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None if inside == outside else nn.Conv2d(inside, outside, 1, stride)

    def forward(self, x):
        identity = x
        if self.downsample is not None:
            identity = self.downsample(x)
        x = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(x)) + identity)


def resnet() -> nn.Module:
    blocks = Residual(4, 4, 1), Residual(4, 4, 1), Residual(4, 8, 2), Residual(8, 8, 1)
    return nn.Sequential(
        nn.Conv2d(3, 4, 7, 2, 3), nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )


def vgg() -> nn.Module:
    layers: list[nn.Module] = []
    for inside, outside in ((3, 4), (4, 8)):
        layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2, 2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 64, 8), nn.Dropout(), nn.Linear(8, 2))


class Inverted(nn.Module):
    def __init__(self, inside: int, outside: int, expand: int) -> None:
        super().__init__()
        wide = inside * expand
        self.shortcut = inside == outside
        layers: list[nn.Module] = [] if expand == 1 else [nn.Conv2d(inside, wide, 1), nn.ReLU6()]
        layers += [nn.Conv2d(wide, wide, 3, 1, 1, groups=wide), nn.ReLU6(), nn.Conv2d(wide, outside, 1)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.conv(x) if self.shortcut else self.conv(x)


def mobilenet() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), Inverted(4, 4, 1), Inverted(4, 8, 2), Inverted(8, 8, 2))


class Dense(nn.Module):
    def __init__(self, inside: int, growth: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(
            {f"layer{i}": nn.Conv2d(inside + i * growth, growth, 3, padding=1) for i in range(count)}
        )

    def forward(self, x):
        features = [x]
        for layer in self.layers.values():
            features.append(torch.relu(layer(torch.cat(features, 1))))
        return torch.cat(features, 1)


def densenet() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), Dense(4, 2, 3), nn.Conv2d(10, 4, 1), nn.AvgPool2d(2), Dense(4, 2, 2))


class Inception(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(3, 2, size, padding=size // 2) for size in (1, 3, 5))
        self.aux = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        x = torch.cat([branch(x) for branch in self.branches], 1)
        aux: Tensor | None = None
        if self.training:
            aux = self.aux(x.mean((2, 3)))
        return x, aux


VISION = (resnet, vgg, mobilenet, densenet, Inception)


@pytest.mark.parametrize("make", VISION, ids=lambda make: make.__name__)
def test_vision_model_is_scripted_and_each_module_has_its_row(make: Callable[[], nn.Module]) -> None:
    """The rows are the model's modules, with all parameters and buffers. The scripted model answers as before."""
    torch.manual_seed(0)
    model = make().eval()
    explanation = explain(model)
    assert explanation.error is None
    assert [module.path for module in explanation.modules] == [path for path, _ in model.named_modules()]
    for kind, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        rows = [
            f"{module.path}.{attribute.name}".lstrip(".")
            for module in explanation.modules
            for attribute in module.attributes
            if attribute.known_by == kind and attribute.python_type != "None"
        ]
        assert rows == [name for name, _ in named]
    x = torch.randn(1, 3, 32, 32)
    torch.testing.assert_close(explanation.scripted(x), model(x))


SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 64}
LANGUAGE: dict[str, dict[str, Any]] = {
    "Bert": SIZES,
    "Roberta": SIZES,
    "Llama": SIZES,
    "Mistral": {**SIZES, "num_key_value_heads": 1},
    "Gemma": {**SIZES, "head_dim": 8},
    "ViT": {**SIZES, "image_size": 16, "patch_size": 8},
    "DistilBert": {"vocab_size": 64, "dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32},
    "GPT2": {"vocab_size": 64, "n_embd": 16, "n_layer": 1, "n_head": 2, "bos_token_id": 1, "eos_token_id": 2},
    "GPTNeo": {
        "hidden_size": 16,
        "intermediate_size": 32,
        "vocab_size": 64,
        "num_layers": 1,
        "num_heads": 2,
        "attention_types": [[["global"], 1]],
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "ResNet": {"embedding_size": 8, "hidden_sizes": [8], "depths": [1]},
}


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    """Return a function for each model of transformers, built from a configuration."""
    torch.manual_seed(0)
    built = {}
    for name, sizes in LANGUAGE.items():
        config = getattr(transformers, f"{name}Config")(**sizes)
        built[name] = getattr(transformers, f"{name}Model")(config).eval()
    return built


@pytest.mark.parametrize("name", LANGUAGE)
def test_configuration_is_named_that_torch_cannot_compile(models: dict[str, Any], name: str) -> None:
    """Torch says `Failed to get source for <function ...Config.__init__>`, without the attribute's name."""
    failure = explain(models[name]).failure
    assert failure is not None
    assert failure.attribute == "config"
    assert failure.problem == (
        f"torch compiles the class of the value, and {name}Config.__init__ has no source, being made by a program "
        "(a dataclass, exec)"
    )
    assert failure.place is not None
    assert failure.place.code == "self.config = config"
    owner = models[name].get_submodule(failure.path)
    assert failure.place.file in {inspect.getsourcefile(cls) for cls in type(owner).__mro__ if cls is not object}


@pytest.mark.parametrize("name", LANGUAGE)
def test_line_is_named_in_the_file_that_it_is_in(
    models: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the configuration ignored: forward takes **kwargs. Torch names the file of the decorator of forward."""
    model = models[name]
    for cls in {type(module) for module in model.modules()}:
        if cls.__module__.startswith("transformers."):
            monkeypatch.setattr(cls, "__jit_ignored_attributes__", ["config", "generation_config"], raising=False)
    failure = explain(model).failure
    assert failure is not None
    forward = inspect.unwrap(type(model.get_submodule(failure.path or "")).forward)
    lines, first = inspect.getsourcelines(forward)
    line_number = next(number for number, line in enumerate(lines, first) if line.strip().startswith("**kwargs"))
    assert failure.problem == "**kwargs takes arguments by any name, and TorchScript needs each by its name"
    assert failure.place is not None
    assert (failure.place.file, failure.place.line) == (inspect.getsourcefile(forward), line_number)
    assert failure.inside == forward.__qualname__


@pytest.mark.parametrize(
    ("name", "path"),
    [("GPTNeo", "h.0.mlp"), ("Bert", "encoder.layer.0.output"), ("Llama", "norm"), ("ResNet", "embedder.embedder")],
)
def test_parts_that_can_be_scripted_are(models: dict[str, Any], name: str, path: str) -> None:
    """The rows are the part's modules. The scripted part answers as in eager mode."""
    part = models[name].get_submodule(path)
    explanation = explain(part)
    assert explanation.error is None
    assert [module.path for module in explanation.modules] == [path for path, _ in part.named_modules()]
    inputs = [torch.randn(1, 3, 8, 8)] if name == "ResNet" else [torch.randn(2, 3, 16)]
    if name == "Bert":
        inputs = [torch.randn(2, 3, 32), torch.randn(2, 3, 16)]
    torch.testing.assert_close(explanation.scripted(*inputs), part(*inputs))
