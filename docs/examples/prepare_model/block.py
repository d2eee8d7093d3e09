"""Patch the vendor's helper for a block, and show that afterwards everything is what it was."""

import argparse
import contextlib
import io
import json
import tempfile
from collections import Counter
from pathlib import Path

import onnxsim
import third_party_api
import torch
from export import build_model

import hookpatch


def prepare(model: torch.nn.Module) -> dict:
    """Call the vendor's helper; return how often each operation occurs in the graph, and what was printed."""
    token_ids = torch.arange(16).reshape(1, 16)
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        graph = third_party_api.prepare_model(model, token_ids, str(Path(folder, "exported.onnx"))).graph
    lines = [line for line in printed.getvalue().splitlines() if line.startswith("Linear ")]
    return {"ops": Counter(node.op_type for node in graph.node), "lines": lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="2 layers of width 64 instead of 125M parameters")
    parser.add_argument("--output", help="a JSON file for what was found, besides the lines printed")
    arguments = parser.parse_args()

    model = build_model(arguments.small)
    simplify, code = onnxsim.simplify, onnxsim.simplify.__code__
    registry = third_party_api.PRINT_BY_MODULE_TYPE
    printer, keys = registry[torch.nn.Linear], list(registry)

    with hookpatch.active("fuse_qkv_off", "linear_printer") as session:
        inside = prepare(model)
        print(session.report())
    print(session.report())
    after = prepare(model)

    found = {
        "inside": inside,
        "after": after,
        "same": {
            "onnxsim.simplify is the object of before": onnxsim.simplify is simplify,
            "... and runs the code of before": onnxsim.simplify.__code__ is code,
            "the registry entry is the object of before": registry[torch.nn.Linear] is printer,
            "the registry has the keys of before, in order": list(registry) == keys,
        },
        "report": session.report().to_dict(),
    }
    for name in ("inside", "after"):
        ops = found[name]["ops"]
        print(f"{name}: {ops['MatMul']} MatMul, {ops['Split']} Split; {found[name]['lines'][0]}")
    for what, holds in found["same"].items():
        print(f"{what}: {holds}")
    if arguments.output:
        Path(arguments.output).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
