"""A patch has its effect under torch's capture modes inside its block, and none outside, whenever it was captured."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("torch")

from effect import ROWS, Cell, run

MODES: Final = ("eager", "compile", "compile fullgraph", "export", "export strict", "jit.trace", "vmap", "grad")

# Where a cell is not right yet, and why.
OPEN: Final = {
    "torch.nn.functional": "its own dispatch to torch functions calls the patched name once more",
    "class": "Dynamo has an internal error on wrapt's proxy of a class",
}


@pytest.mark.model
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("verb", ["wrap", "replace"])
@pytest.mark.parametrize("row", [row for row in ROWS if row.name not in OPEN], ids=lambda row: row.name)
def test_patch_is_right_whenever_code_was_captured(row: object, verb: str, reach: str, folder: Path) -> None:
    """Captured before and called inside, inside and called after, and after; an artifact stays as it is."""
    tried = 0
    for mode in MODES:
        cell = Cell(row, mode, verb, reach)
        outcome = run(cell, "hookpatch", folder)
        if outcome is not None:
            tried += 1
            assert set(outcome.states.values()) <= {"right", "product"}, (str(cell), outcome)
            assert "product" not in outcome.states.values() or mode in ("export", "export strict", "jit.trace")
    assert tried >= 6  # some modes cannot capture some targets, patched or not
