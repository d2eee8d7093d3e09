"""Model classes of transformers, built tiny from their configurations with random weights."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto
from truth.case import Case, Inputs, Refused, eager

from bench.own_inputs import Size, own_inputs
from bench.sizes import LEFT_ALONE, OWN, PARTS, SIZES


def configuration(of: type) -> Any:
    """Return a small configuration of a class, with small parts."""
    default = of()
    names = SIZES.keys() - LEFT_ALONE.get(of.__name__, set())
    values = {name: SIZES[name] for name in SIZES if name in names and _fits(default, name, SIZES[name])}
    for name in PARTS:
        part = getattr(default, name, None)
        if isinstance(part, transformers.PreTrainedConfig):
            values[name] = configuration(type(part)).to_dict()
    return of(**(values | OWN.get(of.__name__, {})))


def _fits(default: Any, name: str, value: Any) -> bool:
    setting = getattr(default, name, None)
    stands = getattr(type(default), name, None)
    if isinstance(stands, property) and stands.fset is None:
        return False
    if name.endswith("_token_id"):
        return isinstance(setting, int)
    return (
        setting is not None
        and isinstance(setting, type(value))
        and not (isinstance(setting, bool) and value is not False)
    )


def built(name: str) -> torch.nn.Module:
    """Return a tiny model of a class of transformers, always with the same weights."""
    of = getattr(transformers, name)
    torch.manual_seed(0)
    model: torch.nn.Module = of(configuration(of.config_class))
    return model.eval()


def case(name: str) -> Case:
    """Return a model class of transformers as a case.

    Raises:
        Refused: the model does not build, or does not run on two inputs of other shapes.
    """
    build = partial(built, name)
    try:
        model = build()
    except Exception as error:
        raise Refused(f"{name} does not build: {type(error).__name__}: {str(error)[:200]}") from error
    problems = []
    for sizes in PAIRS:
        try:
            inputs = [_inputs(model, size, seed) for seed, size in enumerate((*sizes, sizes[0]))]
            for example in inputs:
                eager(model, example)
        except Exception as error:
            problems.append(f"{type(error).__name__}: {str(error)[:160]}")
            continue
        return Case(f"transformers:{name}", build, inputs)
    raise Refused(f"{name} does not run: {problems[0]}")


# The capture's sizes, and another input's.
PAIRS: tuple[tuple[Size, Size], ...] = (
    ((2, 8, 32, 2000, 32), (3, 12, 64, 2800, 48)),
    ((2, 8, 32, 2000, 32), (3, 12, 32, 2800, 32)),
    ((2, 8, 64, 2000, 32), (3, 12, 96, 2800, 32)),
    ((2, 8, 64, 2000, 32), (3, 12, 64, 2800, 32)),
)


def _inputs(model: torch.nn.Module, size: Size, seed: int) -> Inputs:
    """Return inputs for the parameters of a model's forward, of a size, with values from a seed."""
    batch, length, side, samples, frames = size
    random = torch.Generator().manual_seed(seed)
    config: Any = model.config
    parameters = inspect.signature(model.forward).parameters
    text = getattr(config, "text_config", config)
    vocabulary = getattr(text, "vocab_size", 100)

    def tokens() -> torch.Tensor:
        return torch.randint(3, min(vocabulary, 90), (batch, length), generator=random)

    values: Inputs = {}
    main = getattr(model, "main_input_name", "input_ids")
    if main == "pixel_values" or {"pixel_values", "input_ids"} <= set(parameters):
        channels = getattr(getattr(config, "vision_config", config), "num_channels", 3)
        values["pixel_values"] = torch.randn(batch, channels, side, side, generator=random)
    if main == "input_values":
        values["input_values"] = torch.randn(batch, samples, generator=random)
    elif main == "input_features":
        bins = getattr(config, "num_mel_bins", None) or getattr(config, "input_feat_per_channel", 16)
        shape = (batch, bins, frames) if "Whisper" in type(model).__name__ else (batch, frames, bins)
        values["input_features"] = torch.randn(shape, generator=random)
    elif "input_ids" in parameters:
        values["input_ids"] = tokens()
        if "attention_mask" in parameters:
            mask = torch.ones(batch, length, dtype=torch.int64)
            if seed:  # without padding for the capture, with padding for later inputs
                mask[0, -2:] = 0
            values["attention_mask"] = mask
    if "decoder_input_ids" in parameters:
        values["decoder_input_ids"] = tokens()[:, : length - 3]
    return own_inputs(model, values, size, random)


def base_models() -> list[str]:
    """Return the classes that ``AutoModel`` can build."""
    names: list[str] = []
    for value in modeling_auto.MODEL_MAPPING_NAMES.values():
        names += [value] if isinstance(value, str) else list(value)
    return sorted(set(names))
