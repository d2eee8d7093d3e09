"""Keys of the metadata that hookpatch writes into ONNX models."""

from __future__ import annotations

from typing import Final

MADE_BY: Final = "hookpatch.plugin"  # of a node: the plugin that made the node
PATCHES: Final = "hookpatch.patches"  # of a model: the plugins whose patches were called before the model was recorded
