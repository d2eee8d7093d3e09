"""Export a small network, quantize it statically, count the quantizers. It knows nothing of hookpatch."""

import argparse
import json
import logging
import tempfile
import warnings
from pathlib import Path

import numpy
import onnx
import onnxruntime
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
from torch import nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

BATCH, WIDTH = 64, 32
NORMS = {"Gemma": GemmaRMSNorm, "Llama": LlamaRMSNorm}


class Batches(CalibrationDataReader):
    """Four batches of random inputs, to calibrate with."""

    def __init__(self, name: str) -> None:
        generator = torch.Generator().manual_seed(1)
        self.feeds = iter([{name: torch.randn(BATCH, WIDTH, generator=generator).numpy()} for _ in range(4)])

    def get_next(self) -> dict | None:
        return next(self.feeds, None)


def build(kind: str) -> nn.Sequential:
    """Return a Linear, an RMSNorm and a Linear."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), NORMS[kind](WIDTH), nn.Linear(WIDTH, WIDTH)).eval()


def quantizers_of_the_norm(model: onnx.ModelProto) -> int:
    """Return how many QuantizeLinear there are, each with its DequantizeLinear, behind what computes the norm."""
    maker = {output: node.op_type for node in model.graph.node for output in node.output}
    quantized = [maker.get(node.input[0]) for node in model.graph.node if node.op_type == "QuantizeLinear"]
    return sum(op is not None and op != "Gemm" for op in quantized)  # None: the model's input; Gemm: a Linear


def measure(kind: str, opset: int, folder: Path) -> dict:
    """Return what is in a model for its norm, and how far the quantized model is from the exported one."""
    network, path = build(kind), folder / "model.onnx"
    torch.onnx.export(network, (torch.randn(BATCH, WIDTH),), path, opset_version=opset, verbose=False)
    exported = onnx.load(path)
    name = exported.graph.input[0].name
    quantize_static(path, folder / "quantized.onnx", Batches(name), quant_format=QuantFormat.QDQ)
    feed = {name: torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(2)).numpy()}
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # without it and without VNNI sums overflow
    sessions = (onnxruntime.InferenceSession(one, options) for one in (path, folder / "quantized.onnx"))
    y, quantized = (session.run(None, feed)[0] for session in sessions)
    return {
        "nodes": sum(node.op_type != "Gemm" for node in exported.graph.node),
        "pairs": quantizers_of_the_norm(onnx.load(folder / "quantized.onnx")),
        "error": float(numpy.abs(quantized - y).mean() / numpy.abs(y).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--opset", type=int, default=20)
    parser.add_argument("--output", required=True, help="where the figures are written, as JSON")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)  # onnxruntime recommends a preparation that changes nothing here
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as folder:
        found = {kind: measure(kind, arguments.opset, Path(folder)) for kind in NORMS}
    Path(arguments.output).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
