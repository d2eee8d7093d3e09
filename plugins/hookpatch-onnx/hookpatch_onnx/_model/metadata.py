"""Keys of hookpatch's metadata in ONNX models."""

from __future__ import annotations

from typing import Final

MADE_BY: Final = "hookpatch.plugin"  # of a node: the plugin behind the node
PATCHES: Final = "hookpatch.patches"  # of a model: the plugins with patches called before the model was recorded
