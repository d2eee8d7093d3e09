"""The tables of docs/export-scan.md, and all figures as JSON."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from truth.frames import Place
from truth.modes import MODES
from truth.source import text

from bench import truths
from bench.scored import PARTLY, Line, Scored, scored, short

_LETTERS: Final = {"fine": "fine", "froze": "**froze**", "failed": "failed"}


def write(names: list[str], cache: Path, to: Path, *, with_inputs: bool) -> None:
    """Scan all models with a known truth, print the tables, and write scan.json and scan.md."""
    entries = [entry for entry in truths.load(names, cache) if "modes" in entry]
    scores = []
    for entry in entries:
        case = truths.case(entry["name"]) if with_inputs else None
        scores.append(scored(truths.built(entry["name"]), case and case.inputs[0], entry))
    tables = "\n\n".join(
        [_captures(entries), _lines(scores), _breaks(scores), _wrong(scores), _times(scores), _each(entries)]
    )
    to.mkdir(parents=True, exist_ok=True)
    (to / "scan.md").write_text(tables + "\n")
    (to / "scan.json").write_text(json.dumps([_plain(score) for score in scores], indent=1))
    print(tables)


def _plain(score: Scored) -> dict[str, Any]:
    lines = [
        {"line": short(line), "source": text(Place(*line)), "true": true, "found": reported}
        for line, (true, reported) in sorted(score.lines.items())
    ]
    unjudged = [{"line": short(line), "why": why} for line, why in sorted(score.unjudged.items())]
    seconds = round(score.seconds, 3)
    return {
        "name": score.name,
        "seconds": seconds,
        "findings": score.findings,
        "crash": score.crash,
        "lines": lines,
        "unjudged": unjudged,
        "breaks": score.breaks,
    }


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = [*head]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def _captures(entries: list[dict[str, Any]]) -> str:
    """Return counts of the outcomes, by mode."""
    counts = {mode: Counter(_outcome(entry["modes"][mode]) for entry in entries) for mode in MODES}
    kinds = ("fine", "froze", "failed: data", "failed: shape", "failed: other", "failed: time")
    rows = [[mode, *(counts[mode][kind] for kind in kinds)] for mode in MODES]
    return f"## What captures did with {len(entries)} models\n\n" + _table(("mode", *kinds), rows)


def _outcome(outcome: dict[str, Any]) -> str:
    return f"failed: {outcome['cause']}" if outcome["became"] == "failed" else str(outcome["became"])


def _each(entries: list[dict[str, Any]]) -> str:
    rows = [
        [entry["name"].partition(":")[2], *(_LETTERS[entry["modes"][mode]["became"]] for mode in MODES)]
        for entry in entries
    ]
    return "## By model\n\n" + _table(("model", *MODES), rows)


def _lines(scores: list[Scored]) -> str:
    """Precision and recall, each line once a model, and each line once."""
    each = [pair for score in scores for pair in score.lines.values()]
    rows = [*_rates("each model's lines", each), *_rates("each line once", _once(scores).values())]
    never = [(None, "shape") for score in scores for why in score.unjudged.values() if why == PARTLY]
    rows += _rates("each model's lines, and a finding of which a part never ran is false", [*each, *never])[-1:]
    unjudged = Counter(why for score in scores for why in score.unjudged.values())
    reasons = "; ".join(f"{why}: {count}" for why, count in unjudged.most_common()) or "none"
    head = ("lines", "kind", "true", "found", "right", "precision", "recall")
    return f"## Lines\n\n{_table(head, rows)}\n\nFindings that running cannot judge: {reasons}."


def _once(scores: list[Scored]) -> dict[Line, tuple[str | None, str | None]]:
    """Return each line once, with the worst true kind and the worst reported kind over all models."""
    worst = {None: 0, "shape": 1, "data": 2}
    by_line: dict[Line, tuple[str | None, str | None]] = {}
    for score in scores:
        for line, (true, reported) in score.lines.items():
            before = by_line.get(line, (None, None))
            by_line[line] = (
                max(true, before[0], key=worst.__getitem__),
                max(reported, before[1], key=worst.__getitem__),
            )
    return by_line


def _rates(lines: str, pairs: Iterable[tuple[str | None, str | None]]) -> list[list[Any]]:
    pairs = [*pairs]
    rows = []
    for kind, kinds in (("data", {"data"}), ("shape", {"shape"}), ("either kind", {"data", "shape"})):
        true = sum(true_kind in kinds for true_kind, _ in pairs)
        reported = sum(reported_kind in kinds for _, reported_kind in pairs)
        right = sum(true_kind in kinds and reported_kind in kinds for true_kind, reported_kind in pairs)
        rows.append([lines, kind, true, reported, right, _share(right, reported), _share(right, true)])
    return rows


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def _breaks(scores: list[Scored]) -> str:
    """Count failures and freezes by a value or a size, and those explained by a finding."""
    rows = []
    missed = []
    for mode in MODES:
        for became in ("failed", "froze"):
            breaks = [(s.name, s.breaks[mode]) for s in scores if s.breaks.get(mode, {}).get("became") == became]
            if breaks:
                explained = sum(outcome["explained"] for _, outcome in breaks)
                rows.append([mode, became, len(breaks), explained, _share(explained, len(breaks))])
            missed += [(mode, name, outcome) for name, outcome in breaks if not outcome["explained"]]
    of, right = sum(row[2] for row in rows), sum(row[3] for row in rows)
    rows.append(["all", "", of, right, _share(right, of)])
    bullets = [
        f"- {name}, {mode}: {outcome['said'][:160]}; at {'; '.join(outcome['candidates'][:3])}"
        for mode, name, outcome in missed
    ]
    table = _table(("mode", "", "by a value or a size", "explained by a finding", "recall"), rows)
    return "\n\n".join(["## Failures and freezes", table, *(["Not explained:", "\n".join(bullets)] if bullets else [])])


def _wrong(scores: list[Scored]) -> str:
    """Return the lines with a wrong kind from the scan, each with the number of models."""
    models: dict[tuple[Line, str | None, str | None], int] = defaultdict(int)
    how: dict[Line, list[str]] = {}
    for score in scores:
        how |= score.how
        for line, (true, reported) in score.lines.items():
            if true != reported:
                models[line, true, reported] += 1
    parts = []
    for title, wanted in (
        ("Missed", lambda true, reported: reported is None),
        ("False alarms", lambda true, reported: true is None),
        ("The other kind", lambda true, reported: true and reported),
    ):
        rows = [
            [
                f"`{short(line)}`",
                true or "-",
                reported or "-",
                count,
                ", ".join(how.get(line, ()))[:40],
                f"`{_cell(line)}`",
            ]
            for (line, true, reported), count in sorted(models.items(), key=lambda item: (-item[1], item[0][0]))
            if wanted(true, reported)
        ]
        head = ("line", "true", "found", "models", "by", "source")
        parts.append(f"## {title}: {len(rows)} lines\n\n{_table(head, rows)}")
    return "\n\n".join(parts)


def _cell(line: Line) -> str:
    return text(Place(*line))[:90].replace("|", "\\|")


def _times(scores: list[Scored]) -> str:
    seconds = sorted(score.seconds for score in scores)
    slowest = max(scores, key=lambda score: score.seconds)
    crashes = [f"- {score.name}: {score.crash}" for score in scores if score.crash]
    crashed = "\n\nThe scan crashed:\n\n" + "\n".join(crashes) if crashes else ""
    return (
        f"## Time\n\n{len(seconds)} scans: {sum(seconds):.1f} s in all, median {seconds[len(seconds) // 2]:.3f} s, "
        f"the slowest {slowest.seconds:.2f} s ({slowest.name}).{crashed}"
    )
