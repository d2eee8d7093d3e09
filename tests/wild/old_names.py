"""Import onnx-diagnostic although transformers has renamed a class: the old name exists during the import."""

from __future__ import annotations

from transformers.models.idefics.modeling_idefics import IdeficsRotaryEmbedding

import hookpatch

OLD = hookpatch.replace(
    "transformers.models.idefics.modeling_idefics:IdeficsEmbedding", IdeficsRotaryEmbedding, add=True
)
with hookpatch.active(OLD):
    from onnx_diagnostic.torch_export_patches.onnx_export_errors import torch_export_patches
    from onnx_diagnostic.torch_export_patches.patches import patch_torch, patch_transformers

__all__ = ["patch_torch", "patch_transformers", "torch_export_patches"]
