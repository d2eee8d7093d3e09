"""hookpatch beside wrapt and mock, judged by the same oracle: hookpatch is never silently wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from beside import VERBS, Cell, cells, verdict

SAMPLE: Final = 37  # a cell of so many in the quick lane
LONG_SAMPLE: Final = 5  # in the long lane; `make silent` has all


def _problems(folder: Path, sample: list[Cell]) -> list[Any]:
    """Return the cells in which hookpatch fails: silent, or loud with a foreign error."""
    problems: list[Any] = []
    for cell in sample:
        judged, words = verdict("hookpatch", cell, folder)
        is_foreign = "Error: " in words.partition(" ")[0] + " " and not words.startswith("TargetRefused")
        if judged == "silent" or is_foreign:
            problems.append((cell, judged, words))
    return problems


def test_a_sample_of_the_cells(folder: Path) -> None:
    assert _problems(folder, cells()[::SAMPLE]) == []


@pytest.mark.ends
@pytest.mark.parametrize("verb", VERBS)
def test_no_cell_is_silently_wrong(folder: Path, verb: str) -> None:
    assert _problems(folder, [cell for cell in cells() if cell.verb == verb][::LONG_SAMPLE]) == []


def test_the_oracle_can_fail(folder: Path) -> None:
    """The others pass most cells of the sample for which they have a way, and are silently wrong in many."""
    for tool in ("wrapt", "mock"):
        verdicts = [verdict(tool, cell, folder) for cell in cells()[::SAMPLE]]
        count = Counter(judged for judged, words in verdicts if not words.startswith("NoWay"))
        assert count["right"] > count.total() / 2 > len(verdicts) / 5, (tool, count)
        assert count["silent"] > count.total() / 10, (tool, count)
