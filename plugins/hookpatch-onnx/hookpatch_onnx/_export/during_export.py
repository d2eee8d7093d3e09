"""Apply the patches of plugins while torch.onnx.export runs.

Outside of an export only ``torch.onnx.export`` itself is patched, so eager calls run unpatched.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

import hookpatch
from hookpatch_onnx._export.export import Export
from hookpatch_onnx._export.receipt import keep

Marking: TypeAlias = Callable[[Export], Iterable[hookpatch.Patch]]

_running: Final[ContextVar[Export | None]] = ContextVar("hookpatch_onnx", default=None)
_is_plain: Final[ContextVar[bool]] = ContextVar("hookpatch_onnx_plain", default=False)


def during_export(plugin: str, marking: Marking, why: str, upstream: str) -> hookpatch.Patch:
    """Return the patch that applies the patches of ``marking(export)`` while ``torch.onnx.export`` runs.

    These patches hold in the calling thread alone.

    Args:
        plugin: the plugin's name.
        marking: takes the ``Export``, returns the patches of the plugin.
        why: what is wrong without the plugin, in a line.
        upstream: the related issue or change of torch, or why none is known.
    """

    def export(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _is_plain.get():
            return wrapped(*args, **kwargs)
        if (running := _running.get()) is not None:  # another plugin's patch has begun the export
            running.keepers.append((plugin, export))
            with _patched(marking(running)):
                return wrapped(*args, **kwargs)
        from hookpatch_onnx._export.exporters import exporter_patches  # imports torch, which is imported by now

        arguments = inspect.signature(wrapped).bind_partial(*args, **kwargs).arguments
        with _begun(arguments) as running:
            running.keepers.append((plugin, export))
            with _patched([*exporter_patches(running), *marking(running)]):
                result = wrapped(*args, **kwargs)
            if running.finished is not None:
                from hookpatch_onnx._export.plain_export import compare_with_plain

                with _plain():
                    compare_with_plain(running, wrapped, args, kwargs)
            return result

    return hookpatch.wrap(
        "torch.onnx:export", export, reach="everywhere", requires="torch>=2.13", why=why, upstream=upstream
    )


def loaded(name: str) -> Any:
    """Return a module that has been imported, else None."""
    return sys.modules.get(name)


def _patched(patches: Iterable[hookpatch.Patch]) -> AbstractContextManager[object]:
    return hookpatch.active(*patches, scope="task", children="local")


@contextmanager
def _plain() -> Iterator[None]:
    token = _is_plain.set(True)
    try:
        yield
    finally:
        _is_plain.reset(token)


@contextmanager
def _begun(arguments: dict[str, Any]) -> Iterator[Export]:
    running = Export(arguments)
    token = _running.set(running)
    try:
        yield running
        for plugin, wrapper in running.keepers:
            if plugin in running.receipts:
                keep(running.receipts[plugin], wrapper)
    except Exception as error:
        if running.refusal is None or running.refusal is error:
            raise
        raise running.refusal from running.refusal.__cause__
    finally:
        _running.reset(token)
