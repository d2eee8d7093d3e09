"""The state of one call of torch.onnx.export, which all plugins share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from hookpatch_onnx._export.receipt import Receipt, Wrapper
from hookpatch_onnx.errors import CapturedWarning, NodeError

if TYPE_CHECKING:
    import onnx_ir as ir  # imports numpy

_DEFAULT_OPSET: Final = 20  # torch.onnx._constants.ONNX_DEFAULT_OPSET of torch 2.13

_PLAIN: Final = (int, float, str, type(None))


@final
class State(NamedTuple):
    """What a run of a model can change: torch's random numbers, buffers, and numbers and texts in attributes."""

    random: Any
    buffers: dict[str, Any]
    values: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, model: Any) -> State:
        """Return a copy of the state."""
        import torch  # imported by now

        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        return cls(torch.get_rng_state(), buffers, {name: _plain(module) for name, module in model.named_modules()})

    def restore(self, model: Any) -> None:
        """Put the state back."""
        import torch  # imported by now

        torch.set_rng_state(self.random)
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                old = self.buffers.get(name)
                is_real = type(buffer) is torch.Tensor and not buffer.is_meta
                if is_real and old is not None and old.shape == buffer.shape and not torch.equal(old, buffer):
                    buffer.copy_(old)
        for name, module in model.named_modules():
            if (values := self.values.get(name)) is not None:
                for attribute in _plain(module).keys() - values:
                    del vars(module)[attribute]
                vars(module).update(values)


def _plain(module: Any) -> dict[str, Any]:
    """Return the numbers and texts in the attributes of a module, by name."""
    return {name: value for name, value in vars(module).items() if isinstance(value, _PLAIN)}


@final
class Export:
    """A running call of ``torch.onnx.export``.

    Attributes:
        model: the exported object, mostly a module.
        opset: the requested version of ONNX's own operators.
        dynamo: True if torch.export captures the model, False if TorchScript does.
        optimize: True if torch optimizes the model at the end (torch.export only).
        domains: the caller's versions of custom domains (``custom_opsets``).
        regions: the marked parts of the model by number, see ``region.py``.
        wanted: the plugins that have found parts to replace.
        receipts: the account of each plugin that gives one, by its name.
        keepers: each plugin with the wrapper of its patch of ``torch.onnx.export``, which keeps the receipt.
        refuted: why the node of a region would compute something else, by the number of the region; see ``proofs.py``.
        made: the number of the region for each node that a plugin has made.
        digests: the hash of each weight that is not in the finished model, by name.
        finished: the model after the export, if a plugin compares.
        state: the state before the export, for a second export; None if no plugin compares.
        refusal: the error that ends the export. Torch wraps errors; this error is raised unwrapped.
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        import torch  # imported by now

        self.model: Final[Any] = arguments["model"]
        is_module = isinstance(self.model, torch.nn.Module)
        self._was_captured: Final = not is_module or isinstance(self.model, torch.jit.ScriptModule)
        self.opset: Final[int] = arguments.get("opset_version") or _DEFAULT_OPSET
        self.dynamo: Final[bool] = arguments.get("dynamo", True) is True or not is_module
        self.optimize: Final[bool] = self.dynamo and arguments.get("optimize", True)
        self.domains: Final[dict[str, int]] = dict(arguments.get("custom_opsets") or {})
        self.regions: Final[dict[int, Any]] = {}
        self.wanted: Final[set[str]] = set()
        self.receipts: Final[dict[str, Receipt]] = {}
        self.keepers: Final[list[tuple[str, Wrapper]]] = []
        self.refuted: Final[dict[int, str]] = {}
        self.made: Final[dict[ir.Node, int]] = {}
        self.digests: Mapping[str, bytes] = {}
        self.finished: ir.Model | None = None
        self.state: State | None = None
        self.refusal: Exception | None = None

    def modules(self, plugin: str) -> Iterator[tuple[str, Any]]:
        """Yield the modules of the model with their names, without scripted or traced ones, which run no Python.

        Warn, and yield none, if the model was captured before.
        """
        if self.is_captured(plugin):
            return
        import torch  # imported by now

        for name, module in self.model.named_modules():
            if not isinstance(module, torch.jit.ScriptModule):
                yield name, module

    def first_names(self) -> dict[str, str]:
        """Return each name of a module of the model, with the first name of the same module."""
        first: dict[int, str] = {}
        every = self.model.named_modules(remove_duplicate=False)
        return {name: first.setdefault(id(module), name) for name, module in every}

    def is_captured(self, plugin: str) -> bool:
        """Return True, and warn, if the model was captured before: then a plugin finds no modules."""
        if self._was_captured:
            warnings.warn(CapturedWarning(plugin, type(self.model).__name__), stacklevel=2)
        return self._was_captured

    def account(self, receipt: Receipt) -> None:
        """Take the receipt of a plugin, unless the model was captured before."""
        if not self._was_captured:
            self.receipts[receipt.plugin] = receipt
            if receipt.compares and self.state is None:
                self.state = State.of(self.model)

    def close(self, model: ir.Model) -> None:
        """Look at the finished model for what the plugins have left, and check it.

        Raises:
            NodeError: a strict plugin has left something.
        """
        from hookpatch_onnx._export.checked import check  # imports onnx

        check(model, self.receipts)
        if self.state is not None:
            self.finished = model
        names = self.first_names() if self.receipts else {}
        for receipt in self.receipts.values():
            try:
                called = {region.part for region in self.regions.values() if region.plugin == receipt.plugin}
                receipt.close(model, names, called)
            except NodeError as error:
                raise self.refuse(error) from None

    def want(self, plugin: str, has_parts: bool = True) -> None:
        """Note that a plugin has found a part of the model that is to become a node."""
        if has_parts:
            self.wanted.add(plugin)

    def refuse(self, error: Exception) -> Exception:
        """Set the error that ends the export, unless one is set; return the error that is set."""
        self.refusal = self.refusal or error
        return self.refusal
