"""The public API of the plugins as users write programs with it. Not run: mypy --strict and pyright read the file."""

from __future__ import annotations

from pathlib import Path

import hookpatch_export
import hookpatch_onnx.errors
import hookpatch_onnx.onnx_function
import hookpatch_onnxsim.onnxsim_skip
import hookpatch_torchscript
import torch
from hookpatch_example_printer.linear_printer import with_shapes
from hookpatch_export import MODES, Finding, Kind, partings, scan
from hookpatch_export.errors import ExportScanError, ExportWarning, FileError, ModelError
from hookpatch_probe.changes import Change, applied, sizes, values, words
from hookpatch_probe.compare import Difference, Tolerance, difference
from hookpatch_probe.example import Example, flat
from hookpatch_probe.search import Search
from hookpatch_probe.seed import seeded
from hookpatch_torchscript import Explanation, Verdict, explain, guard
from hookpatch_torchscript.errors import RuntimesError, TraceGuardError, TraceGuardWarning
from hookpatch_torchscript.models import bert_base, resnet18

import hookpatch


def use_export(model: torch.nn.Module) -> list[str]:
    try:
        findings: list[Finding] = scan(model, root=Path())
    except ModelError as error:
        return [error.word, error.problem]
    bad = [finding for finding in findings if finding.kind >= Kind.SHAPE]
    line = partings(model, lambda: None)(lambda: None)
    places: list[tuple[Path, int, str]] = [
        (finding.file, finding.line, finding.consequence[mode]) for finding in bad for mode in MODES
    ]
    return [str(line), str(places), *(finding.instead for finding in bad)]


def use_torchscript(model: torch.nn.Module, traced: torch.jit.ScriptModule, example: torch.Tensor) -> None:
    explanation: Explanation = explain(model)
    failed: BaseException | None = explanation.error
    verdict: Verdict = guard(traced, model, (example,), probes=20, rtol=1e-3)
    good: bool = verdict.agrees
    net, inputs = resnet18(2)
    text, tokens, keywords = bert_base(2)
    print(failed, explanation.to_dict(), good, verdict, net(*inputs), text(*tokens, **keywords))


def use_probe(example: Example, model: torch.nn.Module) -> None:
    search = Search(example, lambda tensors: flat(model(*tensors)), {}, spent=lambda tried: tried >= 20)
    with seeded():
        search.run()
    changes: list[Change] = [*values(example), *(change for _, each in sizes(example) for change in each)]
    off: Difference | None = difference(flat(1), flat(2), Tolerance())
    print(words(changes), applied(changes, example.tensors), off)


def use_options() -> None:
    """Options are a mapping, or an instance of the plugin's Options class."""
    print(hookpatch_onnxsim.onnxsim_skip.Options(passes=["fuse_qkv"]))
    print(hookpatch_onnx.onnx_function.Options(functions=["Norm=my.models:Norm"]))
    print(with_shapes(type("Printer", (), {})))
    with hookpatch.active("onnxsim_skip", options={"onnxsim_skip": {"passes": ["fuse_qkv"]}}):
        pass


errors: tuple[type[hookpatch.errors.HookpatchError], ...] = (
    ExportScanError,
    FileError,
    RuntimesError,
    TraceGuardError,
    hookpatch_onnx.errors.NodeError,
)
warned: tuple[type[hookpatch.errors.HookpatchWarning], ...] = (ExportWarning, TraceGuardWarning)

# mypy and pyright report an unknown name, although the packages import names at first use.
print(hookpatch_export.scam)  # type: ignore[attr-defined]  # the test itself
print(hookpatch_torchscript.explian)  # type: ignore[attr-defined]  # likewise
