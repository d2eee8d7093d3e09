"""The public names of the plugins stay in their modules."""

from __future__ import annotations

import importlib.util
from importlib import metadata

import pytest

PUBLIC = {
    "hookpatch_torchscript": "Explanation Verdict explain guard",
    "hookpatch_torchscript.errors": "NotWrittenWarning RuntimesError TraceGuardError TraceGuardWarning",
    "hookpatch_export": "MODES Finding Kind partings scan",
    "hookpatch_export.errors": "ExportScanError ExportWarning FileError ModelError",
    "hookpatch_onnx.errors": "CapturedWarning ModelFileError ModelRunError NodeError NothingInCommonError PictureError",
}


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_can_be_imported(module: str) -> None:
    """Every public name of the documented modules can be imported."""
    imported = pytest.importorskip(module)
    for name in PUBLIC[module].split():
        assert getattr(imported, name) is not None


def test_every_entry_point_leads_somewhere() -> None:
    """Every entry point of the installed plugins names an existing module."""
    ours = [entry for entry in metadata.entry_points(group="hookpatch") if entry.value.startswith("hookpatch_")]
    assert len(ours) >= 14
    for entry in ours:
        assert importlib.util.find_spec(entry.value) is not None, entry
