"""What is told at an export: the findings that matter for what is called, as warnings or as one error."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Final

import torch

from hookpatch.errors import HookpatchError
from hookpatch_export._finding import Finding, Kind
from hookpatch_export._scan import scan
from hookpatch_export._silenced import Remark, heard
from hookpatch_export._words import harmless, place, way
from hookpatch_export.errors import ExportScanError, ExportWarning

_MODES: Final = {
    "torch.onnx.export": "onnx",
    "torch.export.export": "export",
    "torch.jit.trace": "trace",
    "torch.jit.script": "script",
}
_ON_THE_WAY: Final = ("hookpatch", "torch.jit._script")  # frames between a call of torch.jit.script and its wrapper
_CAPTURED: Final = (torch.jit.ScriptModule, torch.fx.GraphModule, torch.export.ExportedProgram)


def tell(call: str, model: Any, keywords: Mapping[str, Any], *, level: str, fail: bool) -> None:
    """Scan a model that is about to be captured and tell what is found. The scan's own failure is a warning.

    Args:
        call: what captures it, such as ``torch.onnx.export``.
        model: what it was given.
        keywords: its arguments by keyword.
        level: the least kind that is told.
        fail: whether something found is an error.

    Raises:
        ExportScanError: something was found, and it is to be an error.
    """
    module = _module(call, model)
    if module is None:
        return
    try:
        everything, remarks = heard(scan(module), ())
    except Exception as error:  # whatever it is: the export is not to fail for it
        ours = "" if isinstance(error, HookpatchError) else f"{type(error).__name__}: "
        _warn(ExportWarning(call, f"the model could not be scanned: {ours}{error}; it is exported all the same"))
        return
    mode = "trace" if call == "torch.onnx.export" and keywords.get("dynamo", True) is False else _MODES[call]
    least = next(kind for kind in Kind if str(kind) == level)
    told = _once([one for one in everything if one.kind >= least and not harmless(_became(one, mode))])
    if fail and told:
        worst = sorted(told, key=lambda one: -one.kind)
        raise ExportScanError(call, worst, [f"{place(one)}: {_said(one, mode)}" for one in worst])
    for one in told:
        _warn(ExportWarning(call, _said(one, mode), one), one)
    _tell_rest(call, [one for one in everything if one not in told], remarks)


def names_of_caller() -> Callable[[str], Any]:
    """Return what looks a name up where torch.jit.script was called, for a class that is compiled.

    Torch counts frames to get there, and would end in one of ours.
    """
    above, frame = 0, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_ON_THE_WAY):
        above, frame = above + 1, frame.f_back
    made: Callable[[str], Any] = torch._jit_internal.createResolutionCallbackFromFrame(above)
    return made


def _tell_rest(call: str, others: Sequence[Finding], remarks: Sequence[Remark]) -> None:
    """Tell in a line that something was not read, and what is wrong with comments."""
    unread = [one for one in others if one.kind is Kind.NOT_READ]
    if unread:
        first = f"{place(unread[0])}, {unread[0].construct}"
        more = f" (and {len(unread) - 1} more)" if len(unread) > 1 else ""
        _warn(
            ExportWarning(call, f"the scan could not read all of the model: {first}{more}; 'hookpatch scan' tells why")
        )
    for remark in remarks:
        warnings.warn_explicit(ExportWarning(call, remark.text), None, str(remark.file), remark.line)


def _module(call: str, model: Any) -> Any:
    """Return the module to scan; None, with a warning where it is one, if its source cannot be known."""
    if isinstance(model, _CAPTURED):
        kind = type(model).__name__
        said = f"the model was captured before, as a{'n' * (kind[0] in 'AEIOU')} {kind}: its source cannot be read; "
        _warn(ExportWarning(call, f"{said}give the module itself"))
        return None
    if isinstance(model, MethodType) and model.__name__ == "forward":
        model = model.__self__
    if isinstance(model, torch.nn.Module):
        return getattr(model, "_orig_mod", model)  # what torch.compile returns holds it there
    if call == "torch.jit.trace":  # torch.jit.script takes functions and classes by trade; the others refuse them
        _warn(ExportWarning(call, "a function was given: it is not scanned; give a module to have it scanned"))
    return None


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings without those that say the same of the same line."""
    lines: dict[object, Finding] = {}
    for one in findings:
        lines.setdefault((one.file, one.line, one.kind, one.construct, tuple(one.consequence.items())), one)
    return [*lines.values()]


def _said(finding: Finding, mode: str) -> str:
    parts = [f"{finding.construct} ({finding.kind}): {_became(finding, mode)}"]
    if finding.instead:
        parts.append(f"instead: {finding.instead}")
    if finding.route:
        parts.append(f"in {way(finding.route)}")
    return "; ".join(parts)


def _became(finding: Finding, mode: str) -> str:
    """Return what becomes of a line; for ONNX by its exporter with ``dynamo=True`` alone, by which it goes."""
    said = finding.consequence.get(mode, "")
    if mode == "onnx":
        said = "; ".join(part for part in said.split("; ") if "dynamo=False" not in part).replace(
            " with dynamo=True", ""
        )
        return finding.consequence.get("export", said) if said == "as with export" else said
    return said


def _warn(warning: ExportWarning, finding: Finding | None = None) -> None:
    """Warn of a line of the model; of anything else, of the line that captures it."""
    if finding is not None:
        warnings.warn_explicit(warning, None, str(finding.file), finding.line)
        return
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        frame = frame.f_back
    warnings.warn_explicit(warning, None, frame.f_code.co_filename, frame.f_lineno)


_OURS: Final = ("hookpatch", "hookpatch_export", "hookpatch_torchscript", "torch", "wrapt")
