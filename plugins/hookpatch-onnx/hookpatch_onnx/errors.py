"""What can go wrong in an export that a plugin of hookpatch-onnx takes part in."""

from __future__ import annotations

from typing import Final

from hookpatch.errors import HookpatchError, HookpatchWarning


class NodeError(HookpatchError):
    """A part of the model cannot become the node that a plugin was asked for. Nothing has been exported.

    Attributes:
        plugin: the plugin's name.
        part: which part of the model.
        problem: why, and what now.
    """

    def __init__(self, plugin: str, part: str, problem: str) -> None:
        self.plugin: Final = plugin
        self.part: Final = part
        self.problem: Final = problem
        super().__init__(f"plugin '{plugin}': {part} {problem}")


class CapturedWarning(HookpatchWarning):
    """The model was captured before torch.onnx.export was called: what a plugin looks for is not in it any more.

    Remedy: export the module itself.

    Attributes:
        plugin: the plugin's name.
        kind: what was exported.
    """

    def __init__(self, plugin: str, kind: str) -> None:
        self.plugin: Final = plugin
        self.kind: Final = kind
        super().__init__(
            f"plugin '{plugin}' has no effect: the model was captured before, as "
            f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}; export the module itself"
        )
