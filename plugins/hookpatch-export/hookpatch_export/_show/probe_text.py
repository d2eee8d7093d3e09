"""Show the result of a probe, as text and as JSON."""

from __future__ import annotations

import linecache
import re
import textwrap
from collections.abc import Iterator
from typing import Any, Final

from hookpatch_probe.changes import words
from rich.text import Text

from hookpatch_export._probe.assumptions import Assumption
from hookpatch_export._probe.captures import WORDS
from hookpatch_export._probe.probe import Explained, Failure, Probe
from hookpatch_export._probe.run_path import Spot
from hookpatch_export._probe.user_lines import cause_chain
from hookpatch_export._show.format import relative_path

_IGNORED: Final = (
    "dynamo=True ignored its symbolic; the plugin symbolic_functions of hookpatch-onnx makes torch call the symbolic"
)


def probe_lines(probe: Probe, width: int | None) -> Iterator[Text]:
    """Yield the lines to show in a terminal or a log.

    Args:
        probe: the result.
        width: the width of a line; None for a log, in which lines are not wrapped.
    """
    yield Text()
    for indent, text, style in _lines(probe):
        pieces = textwrap.wrap(text, max(width - indent - 4, 40)) if width is not None else [text]
        for index, piece in enumerate(pieces):
            yield Text(" " * (indent + 4 * (index > 0)) + piece, style=style)


def _lines(probe: Probe) -> Iterator[tuple[int, str, str]]:
    """Yield indent, text and style of each line."""
    yield 0, f"probe: {_counts(probe)}", "bold"
    for explained in probe.disagreements:
        yield 2, sentence(explained), "bold red"
    for failure in probe.failures:
        yield 2, _failed(failure), "yellow"
    for refusal in probe.refusals:
        yield 2, f"{words(refusal.changes)}: {WORDS[refusal.mode]} refuses it: {_first(refusal.error)}", ""
    if probe.assumed:
        yield 2, "assumed of the inputs, and not said in the .onnx file:", ""
    for assumption in probe.assumed:
        yield 4, _assumed(assumption), "cyan"
    for name in probe.symbolic:
        yield 2, f"{name}: {_IGNORED}", "yellow"


def sentence(explained: Explained) -> str:
    """Return a disagreement in a line: ``batch 1: eager 10.0, ONNX 6.0: model.py:42 `if x.shape[0] > 2```."""
    disagreement = explained.disagreement
    difference, mode = disagreement.difference, WORDS[disagreement.mode]
    answers = f"{words(disagreement.changes)}: eager {difference.eager}, {mode} {difference.other}"
    if explained.finding is not None:
        return f"{answers}: {_place_in_words(Spot(explained.finding.file, explained.finding.line))}"
    if explained.spot is not None:
        return (
            f"{answers}: no finding explains it; the run parts from the example's at {_place_in_words(explained.spot)}"
        )
    return f"{answers}: no finding explains it"


def probe_json(probe: Probe) -> dict[str, Any]:
    """Return the result as values that ``json`` can write."""
    return {
        "modes": list(probe.modes),
        "tried": probe.tried,
        "refused": probe.refused,
        "over_budget": probe.over,
        "random": probe.random,
        "disagreements": [
            {
                "mode": explained.disagreement.mode,
                "input": words(explained.disagreement.changes),
                "eager": explained.disagreement.difference.eager,
                "captured": explained.disagreement.difference.other,
                "finding": _json(Spot(explained.finding.file, explained.finding.line, explained.finding.column))
                if explained.finding
                else None,
                "parts_at": _json(explained.spot),
                "sentence": sentence(explained),
            }
            for explained in probe.disagreements
        ],
        "refusals": [
            {"mode": refusal.mode, "input": words(refusal.changes), "error": _first(refusal.error)}
            for refusal in probe.refusals
        ],
        "failures": [
            {
                "mode": failure.mode,
                "fixed_sizes": failure.fixed,
                "error": _first(failure.error),
                "at": _json(failure.spot),
            }
            for failure in probe.failures
        ],
        "assumed": [
            {
                "constraint": assumption.words,
                "symbols": dict(assumption.symbols),
                "at": [_json(spot) for spot in assumption.spots],
            }
            for assumption in probe.assumed
        ],
        "symbolic_ignored": list(probe.symbolic),
    }


def _counts(probe: Probe) -> str:
    captured = ", ".join(WORDS[mode] for mode in probe.modes) or "nothing could be captured"
    if probe.random:
        return f"{captured}; the model answers the same input in two ways (dropout? model.eval()): nothing was compared"
    inputs = f"{probe.tried} input{'s' * (probe.tried != 1)}"
    refused = f", {probe.refused} more that the model does not take" if probe.refused else ""
    over = "; the budget is spent" if probe.over else ""
    agree = "" if probe.disagreements or not probe.modes else "; all agree"
    return f"{captured} on {inputs}{refused}{agree}{over}"


def _failed(failure: Failure) -> str:
    where = f" at {_place_in_words(failure.spot)}" if failure.spot is not None else ""
    outcome = "could not leave the sizes of the example open" if failure.fixed else "failed"
    return f"{WORDS[failure.mode]} {outcome}{where}: {_first(failure.error)}"


def _assumed(assumption: Assumption) -> str:
    symbols = ", ".join(f"{name} is '{symbol}'" for name, symbol in assumption.symbols.items())
    if len(assumption.symbols) == 1:
        symbols = f"'{next(iter(assumption.symbols.values()))}'"
    where = ", ".join(_place_in_words(spot) for spot in assumption.spots)
    return f"{assumption.words} ({symbols} in the file)" + (f": {where}" if where else "")


def _place_in_words(spot: Spot) -> str:
    source = re.sub(r"""\s*#[^'"]*$""", "", linecache.getline(str(spot.file), spot.line)).strip().removesuffix(":")
    return f"{relative_path(spot.file)}:{spot.line} `{source}`"


def _first(error: BaseException) -> str:
    """Return the first cause's class and the first line of its message."""
    cause = cause_chain(error)[0]
    lines = str(cause).strip().splitlines() or [""]
    first = lines[-1] if "TorchScript interpreter" in lines[0] else lines[0]  # TorchScript says it at the end
    return (first if first.startswith(type(cause).__name__) else f"{type(cause).__name__}: {first}").rstrip(": ")


def _json(spot: Spot | None) -> dict[str, Any] | None:
    return None if spot is None else {"file": str(spot.file), "line": spot.line, "column": spot.column}
