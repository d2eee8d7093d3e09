"""The errors and warnings of exports with a plugin of hookpatch-onnx, and of the picture of a change."""

from __future__ import annotations

from typing import Final

from hookpatch.errors import HookpatchError, HookpatchWarning


class NodeError(HookpatchError):
    """A part of the model cannot become the node that a plugin was asked for. Nothing has been exported.

    With ``strict`` and ``compare`` also: outside of the nodes, the written model is not the plain export.

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
    """The model was captured before the call of torch.onnx.export, and lacks the parts that a plugin replaces.

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


class ModelFileError(HookpatchError):
    """A file is not an ONNX model, or cannot be read.

    Attributes:
        path: the file.
        problem: what is wrong with it, and what now.
    """

    def __init__(self, path: object, problem: str) -> None:
        self.path: Final = str(path)
        self.problem: Final = problem
        super().__init__(f"{path} {problem}")


class NothingInCommonError(HookpatchError):
    """Two models agree neither in nodes nor in inputs and outputs: a comparison would say nothing.

    Attributes:
        before: the one.
        after: the other.
        problem: what was compared.
    """

    def __init__(self, before: object, after: object, problem: str) -> None:
        self.before: Final = str(before)
        self.after: Final = str(after)
        self.problem: Final = problem
        super().__init__(
            f"{before} and {after} have nothing in common: {problem}; compare two versions of the same model"
        )


class PictureError(HookpatchError):
    """A picture cannot be made or written.

    Attributes:
        what: what was to be made.
        problem: why it cannot be, and what now.
    """

    def __init__(self, what: object, problem: str) -> None:
        self.what: Final = str(what)
        self.problem: Final = problem
        super().__init__(f"{what}: {problem}")


class ModelRunError(HookpatchError):
    """Two models cannot be run on one input, or their weights cannot be compared.

    Attributes:
        model: the model's file, or the input.
        problem: why not, and what now.
    """

    def __init__(self, model: object, problem: str) -> None:
        self.model: Final = str(model)
        self.problem: Final = problem
        super().__init__(f"{model} cannot be measured: {problem}")


class CheckerWarning(HookpatchWarning):
    """``onnx.checker`` refuses a model that plugins have changed. The model is written nevertheless.

    Attributes:
        plugin: the plugin's name.
        part: the operator, or the whole model.
        reason: the checker's own words.
    """

    def __init__(self, plugin: str, part: str, reason: str) -> None:
        self.plugin: Final = plugin
        self.part: Final = part
        self.reason: Final = reason
        super().__init__(f"plugin '{plugin}': onnx.checker refuses {part}: {reason}")
