"""The cost of a patch for a model's step: an identity wrap on every norm and activation, eager and compiled.

A GPT-Neo block and a small ResNet, forward and backward, patched and unpatched in turn in one process. Compiled steps
are timed after the compilation. The recompilation after a switch is not part of a step.

usage: python tests/benchmarks/step_cost.py
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import torch
from torch import nn
from transformers import GPTNeoConfig
from transformers.models.gpt_neo.modeling_gpt_neo import GPTNeoBlock

import hookpatch

DEVICE: Final = "cuda" if torch.cuda.is_available() else "cpu"
CLOCK: Final = time.perf_counter if DEVICE == "cuda" else time.process_time  # so other processes do not count
ROUNDS: Final = 9
STEPS: Final = 20
GOALS: Final = {"eager": "at most 1.02", "compiled": "1.00"}


class Residual(nn.Module):
    """Two convolutions and a skip connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm, self.other_norm, self.act = nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(x + self.other_norm(self.second(self.act(self.norm(self.first(x))))))


def gpt_neo() -> tuple[nn.Module, torch.Tensor, list[str]]:
    """Return the block, an input of 4 x 64 tokens (batch x length x 256), and the targets."""
    config = GPTNeoConfig(hidden_size=256, num_heads=8, num_layers=2, attention_types=[[["global", "local"], 1]])
    config._attn_implementation = "eager"
    model = GPTNeoBlock(config, layer_id=0)
    activation = type(model.mlp.act)
    targets = ["torch.nn:LayerNorm.forward", f"{activation.__module__}:{activation.__qualname__}.forward"]
    return model, torch.randn(4, 64, 256), targets


def res_net() -> tuple[nn.Module, torch.Tensor, list[str]]:
    """Return a ResNet of four blocks, an input of 4 x 3 x 32 x 32 (batch x channels x pixels), and the targets."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        *(Residual(32) for _ in range(4)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    return model, torch.randn(4, 3, 32, 32), ["torch.nn:BatchNorm2d.forward", "torch.nn:ReLU.forward"]


def identity(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    """Do nothing but call."""
    return wrapped(*args, **kwargs)


def seconds_a_step(run: Callable[[torch.Tensor], Any], x: torch.Tensor) -> float:
    """Return the median seconds of a step, after three warm-up steps."""
    durations = []
    for number in range(-3, STEPS):
        start = CLOCK()
        result = run(x)
        (result[0] if isinstance(result, tuple) else result).sum().backward()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        if number >= 0:
            durations.append(CLOCK() - start)
    return statistics.median(durations)


def main() -> None:
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    where = torch.cuda.get_device_name() if DEVICE == "cuda" else "no GPU here: on the CPU"
    print(f"torch {torch.__version__}, {where}; medians of {ROUNDS} rounds of {STEPS} steps")
    for name, make in {"GPT-Neo block": gpt_neo, "ResNet": res_net}.items():
        torch.manual_seed(0)
        model, x, targets = make()
        model, x = model.to(DEVICE), x.to(DEVICE)
        patches = [hookpatch.wrap(target, identity) for target in targets]
        spans: dict[str, Callable[[], AbstractContextManager[Any]]] = {
            "unpatched": nullcontext,
            "patched": lambda patches=patches: hookpatch.active(*patches),  # type: ignore[misc]  # bound here
        }
        breaks = {}
        for way, span in spans.items():
            torch._dynamo.reset()
            with span():
                breaks[way] = torch._dynamo.explain(model)(x).graph_break_count
        torch._dynamo.reset()
        for mode, run in {"eager": model, "compiled": torch.compile(model)}.items():
            durations: dict[str, list[float]] = {way: [] for way in spans}
            for _ in range(ROUNDS):
                for way, span in spans.items():
                    with span():
                        durations[way].append(seconds_a_step(run, x))
            ratios = [
                patched / plain for plain, patched in zip(durations["unpatched"], durations["patched"], strict=True)
            ]
            print(
                f"{name:<14} {mode:<9} unpatched {statistics.median(durations['unpatched']) * 1e3:7.3f} ms   "
                f"patched {statistics.median(durations['patched']) * 1e3:7.3f} ms   "
                f"ratio {statistics.median(ratios):5.3f} ({min(ratios):5.3f} to {max(ratios):5.3f}), goal {GOALS[mode]}"
            )
        print(f"{name:<14} graph breaks: unpatched {breaks['unpatched']}, patched {breaks['patched']}")


if __name__ == "__main__":
    main()
