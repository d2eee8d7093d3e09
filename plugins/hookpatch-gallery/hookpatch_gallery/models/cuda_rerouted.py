"""Route calls for the device cuda to another device: the move of a module, and the wait for its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import hookpatch


@dataclass(frozen=True)
class Options:
    """The options of the plugin.

    Attributes:
        device: where ``cuda()`` puts a module.
    """

    device: str = "cpu"


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Wrap both functions; torch is imported when they are called."""

    def move(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return instance.to(options.device)

    def wait(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        import torch

        torch.get_device_module(options.device).synchronize()

    for target, function in {"torch.nn.modules.module:Module.cuda": move, "torch.cuda:synchronize": wait}.items():
        yield hookpatch.wrap(
            target,
            function,
            requires="torch>=2.3",
            why="a script with cuda() ends on a machine without a CUDA device",
            upstream="https://github.com/pytorch/pytorch/issues/28111",
        )
