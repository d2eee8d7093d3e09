"""docs/how-it-works.md shows the road of a run."""

from __future__ import annotations

from itertools import groupby

import pytest
import road


@pytest.mark.repository  # the tracer follows the files of the repository, not installed copies
@pytest.mark.once
def test_the_page_is_the_run() -> None:
    assert road.PAGE.read_text() == road.page(), "`make road` writes the page anew"


@pytest.mark.once
def test_the_road_has_the_wrapper_and_the_original() -> None:
    """A call passes hookpatch's wrapper, the plugin's function and the vendor's function, in order."""
    line = road.BLOCK.split("\n").index('print(vendor.speak("one"))') + 1
    of_call = [(step.file, step.function) for step in road.steps(road.BLOCK) if step.line == line]
    assert of_call == [("wrapper", "speak"), ("loud.py", "loud"), ("vendor.py", "speak")]


@pytest.mark.once
def test_a_first_block_walks_through_few_files() -> None:
    """From `active(patch)` to the end at most 30 files, and 150 steps from file to file: 49 and 314 before."""
    lines = road.BLOCK.split("\n")
    first, last = lines.index('session = hookpatch.active(patch, children="local")'), lines.index("session.close()")
    of_block = [step.file for step in road.steps(road.BLOCK) if first < step.line <= last + 1]
    files = [file for file, _ in groupby(file for file in of_block if file in road.OF_HOOKPATCH)]
    assert len(files) > 50
    assert len({*files}) <= 30
    assert len(files) - 1 <= 150
