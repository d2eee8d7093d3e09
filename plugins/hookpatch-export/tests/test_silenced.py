"""`# hookpatch: ignore`: which findings it silences, and what is said of one that is wrong."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hookpatch_export import scan
from hookpatch_export._findings.ignore_comments import apply_ignores
from hookpatch_export._findings.spans import spans

pytestmark = pytest.mark.model

Heard = Callable[[str], tuple[list[tuple[int, str]], list[tuple[int, str]]]]


@pytest.fixture
def told(write_module: Callable[[str, str], Path], make_module: Callable[[str, str], object]) -> Heard:
    """The findings that are left of a forward and what is said of comments, by line; the first line of it is line 4."""

    def tell(body: str) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        head = "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
        net = make_module("net", head + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n")
        found = scan(net.Net)  # type: ignore[attr-defined]  # a module that was just made
        left, remarks = apply_ignores(found, spans(net.Net, found))  # type: ignore[attr-defined]  # likewise
        return [(one.line, str(one.kind)) for one in left], [(one.line, one.text) for one in remarks]

    return tell


def test_line_is_silenced_by_kind_by_several_and_wholly(told: Heard) -> None:
    """One kind, a comma list, or all; the other lines are heard."""
    found = told(
        """
        if x.sum() > 0:  # hookpatch: ignore[data]
            x = x + 1
        if x.shape[0] > 2:  # fixed there  # hookpatch: ignore[data, shape]
            x = x + 1
        if x.shape[0] > 3:  # hookpatch: ignore
            x = x + 1
        if x.shape[0] > 4:
            x = x + 1
        return x
        """
    )
    assert found == ([(10, "shape")], [])


def test_statement_over_several_lines_is_one_line(told: Heard) -> None:
    """The comment may stand behind any line of it, and does not reach into the body."""
    found = told(
        """
        if (
            x.shape[0] > 2
            and x.shape[1] > 2
        ):  # hookpatch: ignore[shape]
            x = x * x.max().item()
        return x
        """
    )
    assert found == ([(8, "data")], [])


def test_unknown_kind_is_said(told: Heard) -> None:
    """The kinds that it knows still count."""
    found = told(
        """
        if x.shape[0] > 2:  # hookpatch: ignore[shape, shap]
            x = x + 1
        return x
        """
    )
    text = (
        "'# hookpatch: ignore[shap]' names no kind of finding; the kinds are safe, config, call, not-read, shape, data"
    )
    assert found == ([], [(4, text)])


def test_comment_that_silences_nothing_is_said(told: Heard) -> None:
    """And what is found there instead. A string is no comment."""
    found = told(
        """
        x = x + 1  # hookpatch: ignore
        if x.shape[0] > 2:  # hookpatch: ignore[data]
            x = x + 1
        note = "# hookpatch: ignore"
        return x
        """
    )
    nothing = "'# hookpatch: ignore' silences nothing: nothing is found here; take it out"
    other = "'# hookpatch: ignore' silences nothing: what is found here is shape; take it out"
    assert found == ([(5, "shape")], [(4, nothing), (5, other)])


def test_comment_of_another_model_is_left_alone(make_module: Callable[[str, str], object]) -> None:
    """What was not scanned may be silenced for good reason."""
    net = make_module(
        "net",
        """
        import torch
        class Other(torch.nn.Module):
            def forward(self, x):
                return x + 1  # hookpatch: ignore[shape]
        class Net(torch.nn.Module):
            def forward(self, x):
                return x
        """,
    )
    assert apply_ignores([], spans(net.Net, [])) == ([], [])  # type: ignore[attr-defined]  # a module that was just made
    assert len(apply_ignores([], spans(net.Other, []))[1]) == 1  # type: ignore[attr-defined]  # likewise
