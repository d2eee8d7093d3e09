"""`# hookpatch: ignore`: the findings that the comment silences, and the remarks on wrong comments."""

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
def outcome_of(write_module: Callable[[str, str], Path], make_module: Callable[[str, str], object]) -> Heard:
    """Return a function for a forward's body (from line 4 on) that returns the remaining findings and the remarks."""

    def tell(body: str) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        head = "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
        net = make_module("net", head + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n")
        findings = scan(net.Net)  # type: ignore[attr-defined]  # a module made at run time
        remaining, remarks = apply_ignores(findings, spans(net.Net, findings))  # type: ignore[attr-defined]  # likewise
        rows = [(finding.line, str(finding.kind)) for finding in remaining]
        return rows, [(remark.line, remark.text) for remark in remarks]

    return tell


def test_line_is_silenced_by_kind_by_several_and_wholly(outcome_of: Heard) -> None:
    """A comment names a kind, several kinds, or no kind to silence all. Lines without a comment keep the findings."""
    outcome = outcome_of(
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
    assert outcome == ([(10, "shape")], [])


def test_statement_over_several_lines_is_one_line(outcome_of: Heard) -> None:
    """A comment on any line of a statement's head is valid for the head, but not for the body."""
    outcome = outcome_of(
        """
        if (
            x.shape[0] > 2
            and x.shape[1] > 2
        ):  # hookpatch: ignore[shape]
            x = x * x.max().item()
        return x
        """
    )
    assert outcome == ([(8, "data")], [])


def test_unknown_kind_is_said(outcome_of: Heard) -> None:
    """An unknown kind in a comment gives a remark. The known kinds in the same comment are still silenced."""
    outcome = outcome_of(
        """
        if x.shape[0] > 2:  # hookpatch: ignore[shape, shap]
            x = x + 1
        return x
        """
    )
    text = (
        "'# hookpatch: ignore[shap]' names no kind of finding; the kinds are safe, config, call, not-read, shape, data"
    )
    assert outcome == ([], [(4, text)])


def test_comment_that_silences_nothing_is_said(outcome_of: Heard) -> None:
    """A comment without effect gives a remark with the kinds found on its line. A string is no comment."""
    outcome = outcome_of(
        """
        x = x + 1  # hookpatch: ignore
        if x.shape[0] > 2:  # hookpatch: ignore[data]
            x = x + 1
        note = "# hookpatch: ignore"
        return x
        """
    )
    nothing = "'# hookpatch: ignore' silences nothing: nothing is found here; remove the comment"
    mismatch = "'# hookpatch: ignore' silences nothing: what is found here is shape; remove the comment"
    assert outcome == ([(5, "shape")], [(4, nothing), (5, mismatch)])


def test_comment_of_another_model_is_left_alone(make_module: Callable[[str, str], object]) -> None:
    """Comments in a class that was not scanned give no remark."""
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
    assert apply_ignores([], spans(net.Net, [])) == ([], [])  # type: ignore[attr-defined]  # a module made at run time
    assert len(apply_ignores([], spans(net.Other, []))[1]) == 1  # type: ignore[attr-defined]  # likewise
