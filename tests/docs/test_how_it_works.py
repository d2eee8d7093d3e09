"""docs/how-it-works.md shows the road of a run."""

from __future__ import annotations

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
