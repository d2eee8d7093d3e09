"""docs/how-it-works.md shows the road as a run passes it now."""

from __future__ import annotations

import pytest
import road


@pytest.mark.once
def test_the_page_is_the_run() -> None:
    assert road.PAGE.read_text() == road.page(), "`make road` writes the page anew"


@pytest.mark.once
def test_the_road_has_the_wrapper_and_the_original() -> None:
    """The call passes the wrapper that hookpatch compiled, the plugin's function and the vendor's, in this order."""
    line = road.BLOCK.split("\n").index('print(vendor.speak("one"))') + 1
    of_call = [(step.file, step.function) for step in road.steps(road.BLOCK) if step.line == line]
    assert of_call == [("wrapper", "speak"), ("loud.py", "loud"), ("vendor.py", "speak")]
