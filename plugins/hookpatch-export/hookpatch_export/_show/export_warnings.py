"""Show findings at an export: those that matter for the call, as warnings or as one error."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Final

import torch

from hookpatch.errors import HookpatchError
from hookpatch_export._findings.finding import Finding, Kind
from hookpatch_export._findings.ignore_comments import Remark, apply_ignores
from hookpatch_export._scan.scan import scan
from hookpatch_export._show.format import format_place, format_route, is_harmless
from hookpatch_export.errors import ExportScanError, ExportWarning

_MODES: Final = {
    "torch.onnx.export": "onnx",
    "torch.export.export": "export",
    "torch.jit.trace": "trace",
    "torch.jit.script": "script",
}
# The parameters for the inputs of the model, in order and by name.
_INPUTS: Final = {
    "torch.onnx.export": ("args", "kwargs"),
    "torch.export.export": ("args", "kwargs"),
    "torch.jit.trace": ("example_inputs", "example_kwarg_inputs"),
}
_ON_THE_WAY: Final = ("hookpatch", "torch.jit._script")  # frames between a call of torch.jit.script and its wrapper
_CAPTURED: Final = (torch.jit.ScriptModule, torch.fx.GraphModule, torch.export.ExportedProgram)


def scan_and_warn(
    call: str, model: Any, args: Sequence[Any], keywords: Mapping[str, Any], *, level: str, fail: bool
) -> None:
    """Scan a model before its capture, and warn of the findings. A failure of the scan itself is a warning.

    Args:
        call: the function that captures, such as ``torch.onnx.export``.
        model: the object to capture.
        args: the positional arguments of the call.
        keywords: the keyword arguments of the call.
        level: the least kind to warn of.
        fail: whether a finding is an error.

    Raises:
        ExportScanError: there are findings, and ``fail`` is true.
    """
    module = _module(call, model)
    if module is None:
        return
    try:
        everything, remarks = apply_ignores(scan(module, **_example(call, args, keywords)), ())
    except Exception as error:  # of any class: a defect of the scan must not stop the export
        prefix = "" if isinstance(error, HookpatchError) else f"{type(error).__name__}: "
        _warn(ExportWarning(call, f"the model could not be scanned: {prefix}{error}; it is exported all the same"))
        return
    mode = "trace" if call == "torch.onnx.export" and keywords.get("dynamo", True) is False else _MODES[call]
    least = next(kind for kind in Kind if str(kind) == level)
    shown = _distinct(
        [finding for finding in everything if finding.kind >= least and not is_harmless(_consequence(finding, mode))]
    )
    if fail and shown:
        worst = sorted(shown, key=lambda finding: -finding.kind)
        raise ExportScanError(call, worst, [f"{format_place(finding)}: {_message(finding, mode)}" for finding in worst])
    for finding in shown:
        _warn(ExportWarning(call, _message(finding, mode), finding), finding)
    _warn_of_rest(call, [finding for finding in everything if finding not in shown], remarks)


def names_of_caller() -> Callable[[str], Any]:
    """Return a function that looks names up in the caller of torch.jit.script, for a class to compile.

    Torch counts frames to find the caller, and would count frames of hookpatch, too.
    """
    above, frame = 0, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_ON_THE_WAY):
        above, frame = above + 1, frame.f_back
    callback: Callable[[str], Any] = torch._jit_internal.createResolutionCallbackFromFrame(above)
    return callback


def _example(call: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of the model in a call that captures, as arguments for the scan; none if not certain."""
    if call not in _INPUTS:
        return {}
    name, by_name = _INPUTS[call]
    inputs = args[1] if len(args) > 1 else keywords.get(name)
    named = args[2] if call == "torch.export.export" and len(args) > 2 else keywords.get(by_name)
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    # The last argument of torch.onnx.export may be a dict of keywords.
    if not isinstance(inputs, tuple | list | None) or (inputs and isinstance(inputs[-1], dict)):
        return {}
    return {"inputs": inputs, "keywords": named}


def _warn_of_rest(call: str, unshown: Sequence[Finding], remarks: Sequence[Remark]) -> None:
    """Warn in one line of code that was not read, and of wrong comments."""
    unread = [finding for finding in unshown if finding.kind is Kind.NOT_READ]
    if unread:
        first = f"{format_place(unread[0])}, {unread[0].construct}"
        suffix = f" (and {len(unread) - 1} more)" if len(unread) > 1 else ""
        _warn(
            ExportWarning(
                call, f"the scan could not read all of the model: {first}{suffix}; 'hookpatch scan' tells why"
            )
        )
    for remark in remarks:
        warnings.warn_explicit(ExportWarning(call, remark.text), None, str(remark.file), remark.line)


def _module(call: str, model: Any) -> Any:
    """Return the module to scan; None, after a warning, if its source cannot be known."""
    if isinstance(model, _CAPTURED):
        kind = type(model).__name__
        problem = f"the model was captured before, as a{'n' * (kind[0] in 'AEIOU')} {kind}: its source cannot be read; "
        _warn(ExportWarning(call, f"{problem}give the module itself"))
        return None
    if isinstance(model, MethodType) and model.__name__ == "forward":
        model = model.__self__
    if isinstance(model, torch.nn.Module):
        return getattr(model, "_orig_mod", model)  # what torch.compile returns holds it there
    if call == "torch.jit.trace":  # torch.jit.script takes functions and classes by trade; the others refuse them
        _warn(ExportWarning(call, "a plain function is not scanned; pass a module"))
    return None


def _distinct(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings without repetitions on the same line."""
    lines: dict[object, Finding] = {}
    for finding in findings:
        lines.setdefault(
            (finding.file, finding.line, finding.kind, finding.construct, tuple(finding.consequence.items())), finding
        )
    return [*lines.values()]


def _message(finding: Finding, mode: str) -> str:
    parts = [f"{finding.construct} ({finding.kind}): {_consequence(finding, mode)}"]
    if finding.instead:
        parts.append(f"instead: {finding.instead}")
    if finding.route:
        parts.append(f"in {format_route(finding.route)}")
    return "; ".join(parts)


def _consequence(finding: Finding, mode: str) -> str:
    """Return the consequence of a finding; for ONNX that of the exporter with ``dynamo=True``."""
    consequence = finding.consequence.get(mode, "")
    if mode == "onnx":
        consequence = "; ".join(part for part in consequence.split("; ") if "dynamo=False" not in part).replace(
            " with dynamo=True", ""
        )
        return finding.consequence.get("export", consequence) if consequence == "as with export" else consequence
    return consequence


def _warn(warning: ExportWarning, finding: Finding | None = None) -> None:
    """Warn at the finding's line; without a finding, at the line that captures the model."""
    if finding is not None:
        warnings.warn_explicit(warning, None, str(finding.file), finding.line)
        return
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        frame = frame.f_back
    warnings.warn_explicit(warning, None, frame.f_code.co_filename, frame.f_lineno)


_OURS: Final = ("hookpatch", "hookpatch_export", "hookpatch_torchscript", "torch", "wrapt")
