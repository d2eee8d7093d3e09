"""Measure what the plugins cost an export of a model of 0.5 GB: processor time and peak memory, with both exporters.

Each export runs in a process of its own, by turns plain, patched, and patched and compared with the plain export;
the least of the runs counts. The peak is the peak resident memory less the resident memory before the export.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

PLUGINS: Final = ("rmsnorm_node", "gelu_node")
GOAL: Final = 1.15
HOWS: Final = ("plain", "patched", "compared")


def measured(exporter: str, how: str, layers: int) -> dict[str, Any]:
    """Export the model in this process; return seconds and megabytes."""
    import torch
    from exported import quiet
    from tiny_models import Masked
    from transformers import GemmaConfig, GemmaForCausalLM

    import hookpatch

    sizes = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": layers, "num_attention_heads": 12}
    config = GemmaConfig(**sizes, vocab_size=32000, num_key_value_heads=12, head_dim=64, use_cache=False)
    config.tie_word_embeddings = False
    model = Masked(GemmaForCausalLM(config)).eval()
    ids = torch.ones(1, 16, dtype=torch.int64)
    plugins = () if how == "plain" else PLUGINS
    options = {plugin: {"compare": how == "compared"} for plugin in plugins}
    with tempfile.TemporaryDirectory() as folder, quiet(), hookpatch.active(*plugins, options=options):
        before, start = _resident(), time.process_time()
        torch.onnx.export(
            model, (ids, torch.ones_like(ids)), str(Path(folder, "m.onnx")), dynamo=exporter == "dynamo", verbose=False
        )
        seconds = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    weights = sum(weight.nbytes for weight in model.parameters()) / 2**20
    return {"seconds": seconds, "peak": peak - before, "weights": weights}


def _resident() -> float:
    """Return the resident memory in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measured(*arguments.one, arguments.layers)))
        return
    times = ["plain, s", "patched, s", f"ratio (goal {GOAL})", "compared, s", "ratio"]
    table = Table("exporter", "weights, MB", *times, "plain peak, MB", "patched", "compared")
    for exporter in ("dynamo", "torchscript"):
        runs: dict[str, list[dict[str, Any]]] = {how: [] for how in HOWS}
        for _ in range(arguments.runs):
            for how, results in runs.items():
                command = [sys.executable, __file__, "--one", exporter, how, "--layers", str(arguments.layers)]
                results.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        plain, patched, compared = ([min(run[key] for run in runs[how]) for key in ("seconds", "peak")] for how in HOWS)
        words = [f"{runs['plain'][0]['weights']:.0f}", f"{plain[0]:.1f}"]
        words += [word for how in (patched, compared) for word in (f"{how[0]:.1f}", f"{how[0] / plain[0]:.2f}")]
        table.add_row(exporter, *words, *(f"{how[1]:.0f}" for how in (plain, patched, compared)))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
