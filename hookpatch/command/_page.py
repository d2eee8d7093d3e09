"""The report of a run as one HTML file: it needs no network, no other file and no script."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

from hookpatch._receipts import ProcessReport, RunReport
from hookpatch._report import PatchReport

_STYLE: Final = Path(__file__).with_name("_page.css")
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"  # nothing is fetched, and no script runs
_FEW: Final = 8  # processes that are shown unfolded
_TICKS: Final = 4


def page_of(run: RunReport) -> str:
    """Return the page: what is wrong first, then when what happened, then each process with its patches."""
    first = run.processes[0]
    title = f"hookpatch: {shlex.join(first.argv) or first.pid}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n"
        f"{_heading(run)}\n<main>\n{_said(run)}\n{_timeline(run)}\n{_processes(run)}\n</main>\n</body>\n</html>\n"
    )


def _heading(run: RunReport) -> str:
    first = run.processes[0]
    begin, end = _span(run)
    facts = [_count(len(run.processes), "process", "processes")]
    facts.append(_count(sum(len(process.patches) for process in run), "patch", "patches") + " in them")
    if first.began is not None:
        facts.insert(0, datetime.fromtimestamp(begin, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"))
        facts.insert(1, _seconds(end - begin))
    states = Counter(patch.state for process in run for patch in process.patches)
    badges = "".join(f"<li>{_badge(state)} {count}</li>" for state, count in sorted(states.items()))
    return (
        f"<header>\n<p class=tool>hookpatch report</p>\n<h1><code>{escape(shlex.join(first.argv))}</code></h1>\n"
        f"<p class=facts>{escape(' · '.join(facts))}</p>\n<ul class=states>{badges}</ul>\n</header>"
    )


def _said(run: RunReport) -> str:
    of_problem: dict[str, list[str]] = {}
    for process in run:
        for said in process.problems:
            of_problem.setdefault(said, []).append(_to(process))
    items = [
        f"<li class=error><b>Problem</b> {escape(said)} <span class=where>in {', '.join(where)}</span></li>"
        for said, where in of_problem.items()
    ]
    items += [f"<li class=warning><b>Warning</b> {escape(said)}</li>" for said in run.warnings]
    body = f"<ul class=said>{''.join(items)}</ul>" if items else "<p class=well>Nothing to warn of.</p>"
    return f"<section aria-labelledby=said>\n<h2 id=said>Warnings</h2>\n{body}\n</section>"


def _timeline(run: RunReport) -> str:
    begin, end = _span(run)
    length = max(end - begin, 1e-3)
    rows = [_row(process, begin, length) for process in run if process.began is not None]
    if not rows:
        return ""
    ticks = "".join(
        f'<span style="left:{100 * at / _TICKS:g}%">{escape(_seconds(length * at / _TICKS))}</span>'
        for at in range(_TICKS + 1)
    )
    return (
        "<section aria-labelledby=timeline>\n<h2 id=timeline>Timeline</h2>\n"
        "<p class=legend><i class=on></i> applied <i class=off></i> ended; a bar is a process, "
        "one with an open end has left no word of its end</p>\n"
        f"<ol class=timeline>{''.join(rows)}</ol>\n<div class=axis aria-hidden=true>{ticks}</div>\n</section>"
    )


def _row(process: ProcessReport, begin: float, length: float) -> str:
    began = process.began or begin
    written = process.written or began
    at, wide = 100 * (began - begin) / length, max(100 * (written - began) / length, 0.4)
    marks = "".join(
        # What a forked process has from its parent, it has from its begin on.
        f'<i class={kind} style="left:{min(100 * (max(when, began) - begin) / length, 100):.2f}%"'
        f' title="{escape(words)}"></i>'
        for patch in process.patches
        for kind, when in (("on", patch.applied_at), ("off", patch.ended_at))
        if when is not None
        for words in [f"{patch.target} {'applied' if kind == 'on' else patch.state} at {_seconds(when - begin)}"]
    )
    told = f"began at {_seconds(began - begin)}, " + ("ended" if process.ended else "last heard of")
    return (
        f"<li>{_to(process)}<span class=track>"
        f'<span class="bar{"" if process.ended else " open"}" style="left:{at:.2f}%;width:{wide:.2f}%"></span>{marks}'
        f"</span><span class=hidden>{escape(told)} at {_seconds(written - begin)}</span></li>"
    )


def _processes(run: RunReport) -> str:
    begin, _ = _span(run)
    is_few = len(run.processes) <= _FEW
    parts = [_process(process, begin, is_few or bool(process.problems)) for process in run]
    return f"<section aria-labelledby=processes>\n<h2 id=processes>Processes</h2>\n{''.join(parts)}</section>"


def _process(process: ProcessReport, begin: float, is_open: bool) -> str:
    facts = [] if process.ppid is None else [f"started by {process.ppid}"]
    facts += [f"on {process.host}"] if process.host else []
    if process.began is not None:
        facts.append(f"began at {_seconds(process.began - begin)}")
    facts.append("ended" if process.ended else "left no word of its end")
    problems = "".join(f"<li class=error><b>Problem</b> {escape(said)}</li>" for said in process.problems)
    return (
        f'<details id="p{_anchor(process)}"'
        + f"{' open' if is_open else ''}>\n<summary><b>{escape(_name(process))}</b> "
        f"<code>{escape(shlex.join(process.argv))}</code> <span>{escape(_summary(process.patches))}</span></summary>\n"
        f"<p class=facts>{escape(' · '.join(facts))}</p>\n"
        + (f"<ul class=said>{problems}</ul>\n" if problems else "")
        + (_table(process.patches, begin) if process.patches else "<p class=facts>No patches.</p>")
        + "\n</details>\n"
    )


def _table(patches: Sequence[PatchReport], begin: float) -> str:
    heads = ("state", "target", "plugin", "calls", "applied")
    head = "".join(f"<th scope=col>{name}</th>" for name in heads)
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>"
        + "".join(_patch(patch, begin) for patch in patches)
        + "</tbody></table>"
    )


def _patch(patch: PatchReport, begin: float) -> str:
    place = f" at <code>{escape(patch.place)}</code>" if patch.place else ""
    notes = [("reason", patch.reason), *(("warning", said) for said in patch.warnings)]
    notes += [("stale", f"{name} holds the original still") for name in patch.stale if patch.state == "applied"]
    notes += [("stays", patch.stays and f"in this process: {patch.stays}"), ("why", patch.why)]
    lines = [f"<li><b>{kind}</b> {escape(said)}</li>" for kind, said in notes if said]
    if patch.upstream:
        lines.append(f"<li><b>upstream</b> {_link(patch.upstream)}</li>")
    target = f"<code>{escape(patch.target)}</code> <small>{escape(patch.verb)}</small>{place}"
    more = f"<ul class=notes>{''.join(lines)}</ul>" if lines else ""
    calls = "not counted" if patch.calls is None else patch.calls_in_words
    cells = (
        ("state", _badge(patch.state)),
        ("target", target + more),
        ("plugin", _plugin(patch)),
        ("calls", escape(calls)),
        ("applied", escape("; ".join(_times(patch, begin)) or "never")),
    )
    return "<tr>" + "".join(f'<td data-of="{name}"><div>{content}</div></td>' for name, content in cells) + "</tr>"


def _times(patch: PatchReport, begin: float) -> Iterable[str]:
    if patch.applied_at is not None:
        yield f"at {_seconds(patch.applied_at - begin)}"
    if patch.ended_at is not None:
        yield f"until {_seconds(patch.ended_at - begin)}"


def _plugin(patch: PatchReport) -> str:
    if patch.plugin is None:
        return "<small>active()</small>"
    return f"{escape(patch.plugin)} <small>{escape(patch.distribution or '')}</small>"


def _link(url: str) -> str:
    if url.startswith(("https://", "http://")):  # no other kind: a page is not to run what a report says
        return f'<a href="{escape(url)}" rel="noreferrer">{escape(url)}</a>'
    return escape(url)


def _span(run: RunReport) -> tuple[float, float]:
    """Return when the first process began and when the last was heard of."""
    began = [process.began for process in run if process.began is not None]
    written = [process.written for process in run if process.written is not None]
    return min(began, default=0.0), max(written, default=0.0)


def _summary(patches: Sequence[PatchReport]) -> str:
    counts = Counter(patch.state for patch in patches)
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "no patches"


def _badge(state: str) -> str:
    return f'<span class="badge {escape(state)}">{escape(state)}</span>'


def _name(process: ProcessReport) -> str:
    return f"{process.pid}" + ("" if process.rank is None else f" rank {process.rank}")


def _to(process: ProcessReport) -> str:
    return f'<a href="#p{_anchor(process)}">{escape(_name(process))}</a>'


def _anchor(process: ProcessReport) -> str:
    return f"{process.pid}-{int(process.began or 0)}"


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _seconds(seconds: float) -> str:
    """Return a time in words, as exact as it is worth."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
