"""Make inputs for the model classes that take more than a text, an image or a sound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

Values = dict[str, torch.Tensor]
# Batch, length of a text, side of an image, length of a sound in samples, frames of features.
Size = tuple[int, int, int, int, int]


def own_inputs(model: torch.nn.Module, values: Values, size: Size, random: torch.Generator) -> Values:
    """Return a model's inputs, made of the inputs that most models take.

    Args:
        model: the model.
        values: the common inputs.
        size: the sizes of the common inputs.
        random: the source of random numbers.
    """
    make = _OWN.get(type(model).__name__)
    return values if make is None else make(model.config, values, size, random)


def _image_tokens(config: Any, values: Values, size: Size, random: torch.Generator) -> Values:
    """Begin each text with a token for each part of its image."""
    reduced = getattr(config, "scale_factor", None) or round(1 / getattr(config, "downsample_ratio", 1))
    count = (size[2] // 8 // reduced) ** 2
    images = values["pixel_values"]
    if config.model_type == "idefics3":
        images = images[:, None]
    return {**_with_images(config, values, count), "pixel_values": images}


def _with_images(config: Any, values: Values, count: int) -> Values:
    batch = values["input_ids"].shape[0]
    images = torch.full((batch, count), config.image_token_id)
    values["input_ids"] = torch.cat([images, values["input_ids"]], 1)
    values["attention_mask"] = torch.cat([torch.ones_like(images), values["attention_mask"]], 1)
    return values


def _patches(config: Any, values: Values, size: Size, random: torch.Generator) -> Values:
    """Give each text an image of patches, a longer text a wider image."""
    batch, length = size[:2]
    high, wide = 4, length // 4 * 2
    values = _with_images(config, values, high * wide // 4)
    values["pixel_values"] = torch.randn(batch * high * wide, 3 * 2 * 8 * 8, generator=random)
    values["image_grid_thw"] = torch.tensor([[1, high, wide]] * batch)
    values["mm_token_type_ids"] = (values["input_ids"] == config.image_token_id).int()
    return values


def _boxes(config: Any, values: Values, size: Size, random: torch.Generator) -> Values:
    """Add a box for each word."""
    corners = torch.randint(0, 30, (*values["input_ids"].shape, 4), generator=random)
    corners[..., 2:] += 30
    boxes = corners / 100 if config.model_type == "bros" else corners
    return {**values, "bbox": boxes}


def _masked_images(config: Any, values: Values, size: Size, random: torch.Generator) -> Values:
    """Put the image's embeddings at the beginning of each text."""
    mask = torch.zeros_like(values["input_ids"])
    mask[:, : config.latent_query_num] = 1
    return {**values, "image_embeds_position_mask": mask}


def _one_channel(config: Any, values: Values, size: Size, random: torch.Generator) -> Values:
    return {"input_values": values["input_values"][:, None]}


def _frames(config: Any, values: Values, size: Size, random: torch.Generator) -> Values:
    batch = size[0]
    return {"pixel_values": torch.randn(batch, 4, 3, size[2], size[2], generator=random)}


def _series(config: Any, values: Values, size: Size, random: torch.Generator) -> Values:
    return {"past_values": torch.randn(size[0], config.context_length, config.num_input_channels, generator=random)}


def _trajectory(config: Any, values: Values, size: Size, random: torch.Generator) -> Values:
    batch, length = size[:2]

    def numbers(width: int) -> torch.Tensor:
        return torch.randn(batch, length, width, generator=random)

    return {
        "states": numbers(config.state_dim),
        "actions": numbers(config.act_dim),
        "rewards": numbers(1),
        "returns_to_go": numbers(1),
        "timesteps": torch.arange(length).repeat(batch, 1),
        "attention_mask": torch.ones(batch, length, dtype=torch.int64),
    }


_OWN: Final[dict[str, Callable[[Any, Values, Size, torch.Generator], Values]]] = {
    **dict.fromkeys(("LlavaModel", "PaliGemmaModel", "InternVLModel", "Idefics3Model"), _image_tokens),
    "Qwen2VLModel": _patches,
    **dict.fromkeys(("LayoutLMv3Model", "LiltModel", "BrosModel"), _boxes),
    "Kosmos2Model": _masked_images,
    **dict.fromkeys(("EncodecModel", "DacModel"), _one_channel),
    **dict.fromkeys(("VideoMAEModel", "TimesformerModel", "VivitModel"), _frames),
    **dict.fromkeys(("PatchTSTModel", "PatchTSMixerModel"), _series),
    "DecisionTransformerModel": _trajectory,
}
