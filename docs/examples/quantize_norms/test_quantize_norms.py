"""The table of quantizers per RMSNorm, printed on the installed wheels."""

from __future__ import annotations

from pathlib import Path

import pytest
from environments import Environment

pytestmark = pytest.mark.model

HERE = Path(__file__).parent


def test_a_norm_that_is_one_node_has_one_pair_of_quantizers(installed_wheels: Environment) -> None:
    """Without the plugin each is seven nodes with five pairs of QuantizeLinear and DequantizeLinear; with it one."""
    done = installed_wheels.run("table.py", cwd=HERE)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == ["Gemma", "Llama"]
    assert {(*row[1:3], *row[4:6]) for row in rows} == {("7", "5", "1", "1")}
    errors = [float(cell.rstrip("%")) for row in rows for cell in (row[3], row[6])]
    assert all(0 < error < 5 for error in errors), errors  # it computes the same


def test_the_script_knows_nothing_of_hookpatch() -> None:
    """It is the user's."""
    code = (HERE / "quantize.py").read_text()
    assert "import hookpatch" not in code
    assert "from hookpatch" not in code
