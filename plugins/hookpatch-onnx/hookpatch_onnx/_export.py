"""One call of torch.onnx.export: what plugins want of it, and where torch is patched for them while it runs.

Eager calls never get here: outside of an export nothing of torch but ``torch.onnx.export`` itself is patched.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, final

import hookpatch
from hookpatch_onnx.errors import CapturedWarning

Marking: TypeAlias = Callable[["Export"], Iterable[hookpatch.Patch]]

_DEFAULT_OPSET: Final = 20  # torch.onnx._constants.ONNX_DEFAULT_OPSET of torch 2.13
_running: Final[ContextVar[Export | None]] = ContextVar("hookpatch_onnx", default=None)


@final
class Export:
    """A call of ``torch.onnx.export``, as long as it runs.

    Attributes:
        model: what is exported.
        opset: the version of ONNX's own operators that was asked for.
        dynamo: whether by torch.export; else by TorchScript.
        optimize: whether torch optimizes the model at the end (torch.export only).
        domains: the versions that the caller gives for domains of his own (``custom_opsets``).
        regions: the marked parts of the model by their number, see ``_region.py``.
        wanted: the plugins that have found something in the model.
        refusal: why the export cannot be. Torch wraps the errors it meets; this one is raised as it is.
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.model: Final[Any] = arguments["model"]
        self.opset: Final[int] = arguments.get("opset_version") or _DEFAULT_OPSET
        self.dynamo: Final[bool] = arguments.get("dynamo", True) is True or not _is_module(self.model)
        self.optimize: Final[bool] = self.dynamo and arguments.get("optimize", True)
        self.domains: Final[dict[str, int]] = dict(arguments.get("custom_opsets") or {})
        self.regions: Final[dict[int, Any]] = {}
        self.wanted: Final[set[str]] = set()
        self.refusal: Exception | None = None

    def modules(self, plugin: str) -> Iterator[tuple[str, Any]]:
        """Yield the model's modules with their names; warn if they will not be called, since it is captured already."""
        if self.is_captured(plugin):
            return
        yield from self.model.named_modules()

    def is_captured(self, plugin: str) -> bool:
        """Tell whether the model was captured before: a plugin finds nothing in it then, which is warned of."""
        import torch  # here by now

        if _is_module(self.model) and not isinstance(self.model, torch.jit.ScriptModule):
            return False
        warnings.warn(CapturedWarning(plugin, type(self.model).__name__), stacklevel=2)
        return True

    def want(self, plugin: str, found: bool = True) -> None:
        """Note that a plugin has found something in the model that is to become a node."""
        if found:
            self.wanted.add(plugin)

    def refuse(self, error: Exception) -> Exception:
        """Keep the first error that the export is to end with, and return it."""
        self.refusal = self.refusal or error
        return self.refusal


def during_export(marking: Marking, why: str, upstream: str) -> hookpatch.Patch:
    """Return the patch that applies the patches of ``marking(export)`` while ``torch.onnx.export`` runs.

    They hold for the thread that called it alone.

    Args:
        marking: takes the ``Export``, returns the patches that it needs.
        why: what is wrong without it, in a line.
        upstream: the issue or change of torch that it is about, or why there is none.
    """

    def export(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if (running := _running.get()) is not None:  # another plugin has begun it
            with _patched(marking(running)):
                return wrapped(*args, **kwargs)
        from hookpatch_onnx._exporters import exporter_patches  # imports torch, which is here by now

        arguments = inspect.signature(wrapped).bind_partial(*args, **kwargs).arguments
        with _begun(arguments) as running, _patched([*exporter_patches(running), *marking(running)]):
            return wrapped(*args, **kwargs)

    return hookpatch.wrap(
        "torch.onnx:export", export, reach="everywhere", requires="torch>=2.13", why=why, upstream=upstream
    )


def loaded(name: str) -> Any:
    """Return a module if it has been imported, else None."""
    return sys.modules.get(name)


def _patched(patches: Iterable[hookpatch.Patch]) -> AbstractContextManager[object]:
    return hookpatch.active(*patches, scope="task", children="local")


@contextmanager
def _begun(arguments: dict[str, Any]) -> Iterator[Export]:
    running = Export(arguments)
    token = _running.set(running)
    try:
        yield running
    except Exception as error:
        if running.refusal is None or running.refusal is error:
            raise
        raise running.refusal from running.refusal.__cause__
    finally:
        _running.reset(token)


def _is_module(model: object) -> bool:
    import torch  # here by now

    return isinstance(model, torch.nn.Module)
