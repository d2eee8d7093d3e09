"""Compare `hookpatch onnx diff` with onnxsim's diff_graphs, a comparison by output names.

Each pair has a known difference: nodes lost, gained and changed. Times are the ratio of the two on the same models.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import onnxsim
import torch
from hookpatch_onnx._compare.compare import compare
from hookpatch_onnx._model.read import pruned
from hookpatch_onnx._picture.html_page import page_of
from onnxsim.model_info import diff_graphs
from picture_browser import Browser, chromium
from picture_models import norms, renamed
from rich.console import Console
from rich.table import Table
from transformers import GPTNeoConfig, GPTNeoForCausalLM

LAYERS = 12


def gpt_neo() -> onnx.ModelProto:
    """Return a narrow GPT-Neo with as many layers as the smallest published model: the same graph."""
    sizes = {"num_layers": LAYERS, "hidden_size": 32, "num_heads": 4, "vocab_size": 64, "max_position_embeddings": 32}
    config = GPTNeoConfig(attention_types=[[["global", "local"], LAYERS // 2]], use_cache=False, **sizes)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokens = torch.ones(1, 8, dtype=torch.int64)
        program = torch.onnx.export(GPTNeoForCausalLM(config).eval(), (tokens,), dynamo=True, verbose=False)
    return program.model_proto


def pairs() -> Iterator[tuple[str, onnx.ModelProto, onnx.ModelProto, str]]:
    """Yield the name of a pair, both models, and the difference: lost, gained, changed."""
    exported = gpt_neo()
    fused, unfused = (
        pruned(onnxsim.simplify(exported, skipped_optimizers=skipped)[0]) for skipped in (None, ["fuse_qkv"])
    )
    yield "itself", unfused, unfused, "0 0 0"
    yield "itself, other names and order", unfused, renamed(unfused), "0 0 0"
    yield "fuse_qkv off and on", unfused, fused, f"{3 * LAYERS} {2 * LAYERS} 0"
    yield "fuse_qkv off and on, other names", unfused, renamed(fused), f"{3 * LAYERS} {2 * LAYERS} 0"
    yield "RMSNorm as seven nodes and as one", norms(LAYERS, False), norms(LAYERS, True), f"{7 * LAYERS} {LAYERS} 0"


def counts_of_hookpatch(before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    """Return the counts of hookpatch."""
    graph = compare(before, after, ("before", "after")).graphs[0]
    return f"{len(graph.lost)} {len(graph.gained)} {len(graph.changed)}"


def counts_of_onnxsim(before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    """Return the counts of onnxsim."""
    diff = diff_graphs(before, after)
    return f"{len(diff.removed_nodes)} {len(diff.added_nodes)} {len(diff.changed_nodes)}"


def timed(find: Callable[[onnx.ModelProto, onnx.ModelProto], str], *models: onnx.ModelProto) -> tuple[str, float]:
    """Return the result, and the least seconds of three runs."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        result = find(*models)
        seconds.append(time.perf_counter() - start)
    return result, min(seconds)


def main() -> None:
    """Print the table."""
    table = Table("before and after", "nodes", "is (lost, gained, changed)", "hookpatch", "onnxsim", "time, ratio")
    for name, before, after, wanted in pairs():
        (our, our_time), (their, their_time) = (
            timed(counts_of_hookpatch, before, after),
            timed(counts_of_onnxsim, before, after),
        )
        nodes = f"{len(before.graph.node)}, {len(after.graph.node)}"
        table.add_row(name, nodes, wanted, our, their, f"{our_time / their_time:.1f}")
    Console(width=120).print(table)
    if chromium():
        before, after = norms(LAYERS * 9, False), norms(LAYERS * 9, True)
        nodes = f"{len(before.graph.node)} and {len(after.graph.node)} nodes"
        print(f"page of {nodes}: {opened(before, after):.2f} s of processor time")


def opened(before: onnx.ModelProto, after: onnx.ModelProto) -> float:
    """Return the processor seconds of the page's own scripts until the page is ready; the least of three."""
    seconds = []
    with TemporaryDirectory() as folder, Browser(Path(folder)) as browser:
        path = Path(folder) / "diff.html"
        path.write_text(page_of(compare(before, after, ("before", "after"))), encoding="utf-8")
        browser.call("Performance.enable", timeDomain="threadTicks")
        for _ in range(3):
            browser.open(path)
            measured = browser.call("Performance.getMetrics")["metrics"]
            seconds += [metric["value"] for metric in measured if metric["name"] == "ScriptDuration"]
    return min(seconds)


if __name__ == "__main__":
    main()
