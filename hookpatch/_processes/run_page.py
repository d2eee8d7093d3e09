"""Write the report of a run as one HTML file, without network, other files or scripts."""

from __future__ import annotations

import shlex
from collections import Counter
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

from hookpatch._processes.run_report import ProcessReport, RunReport
from hookpatch._session.report import PatchReport

_STYLE: Final = Path(__file__).with_name("run_page.css")
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"  # no fetches, no scripts
_FEW: Final = 8  # processes shown unfolded
_TICKS: Final = 4
_NO_PATCHES: Final = "<p class=facts>No patches.</p>"


def page_of(run: RunReport) -> str:
    """Return the page: problems and warnings, the timeline, then each process with its patches."""
    first = run.processes[0]
    title = f"hookpatch: {shlex.join(first.argv) or first.pid}"
    return framed(title, f"{_heading(run)}\n<main>\n{_warnings(run)}\n{_timeline(run)}\n{_processes(run)}\n</main>")


def framed(title: str, body: str) -> str:
    """Return a page with a title, the style of hookpatch's pages and a body in HTML."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n"
        f"{body}\n</body>\n</html>\n"
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


def _warnings(run: RunReport) -> str:
    processes: dict[str, list[str]] = {}
    for process in run:
        for problem in process.problems:
            processes.setdefault(problem, []).append(_link_to(process))
    items = [
        f"<li class=error><b>Problem</b> {escape(problem)} <span class=where>in {', '.join(where)}</span></li>"
        for problem, where in processes.items()
    ]
    items += [f"<li class=error><b>Not read</b> {escape(file)}</li>" for file in run.unread]
    items += [f"<li class=warning><b>Warning</b> {escape(warning)}</li>" for warning in run.warnings]
    body = f"<ul class=said>{''.join(items)}</ul>" if items else "<p class=well>Nothing to warn of.</p>"
    return f"<section aria-labelledby=said>\n<h2 id=said>Warnings</h2>\n{body}\n</section>"


def _timeline(run: RunReport) -> str:
    begin, end = _span(run)
    length = max(end - begin, 1e-3)
    rows = [_row(process, begin, length) for process in run if process.began is not None]
    if not rows:
        return ""
    ticks = "".join(
        f'<span style="left:{100 * tick / _TICKS:g}%">{escape(_seconds(length * tick / _TICKS))}</span>'
        for tick in range(_TICKS + 1)
    )
    return (
        "<section aria-labelledby=timeline>\n<h2 id=timeline>Timeline</h2>\n"
        "<p class=legend><i class=on></i> applied <i class=off></i> ended; a bar is a process, "
        "one with an open end was killed, or still runs</p>\n"
        f"<ol class=timeline>{''.join(rows)}</ol>\n<div class=axis aria-hidden=true>{ticks}</div>\n</section>"
    )


def _row(process: ProcessReport, begin: float, length: float) -> str:
    began = process.began or begin
    written = process.written or began
    offset = min(100 * (began - begin) / length, 100)  # a clock may have gone back
    wide = min(max(100 * (written - began) / length, 0.4), 100)
    marks = "".join(
        # A forked process has the patches of its parent from its own start on.
        f'<i class={kind} style="left:{min(100 * (max(when, began) - begin) / length, 100):.2f}%"'
        f' title="{escape(title)}"></i>'
        for patch in process.patches
        for kind, when in (("on", patch.applied_at), ("off", patch.ended_at))
        if when is not None
        for title in [f"{patch.target} {'applied' if kind == 'on' else patch.state} at {_seconds(when - begin)}"]
    )
    words = f"began at {_seconds(began - begin)}, " + ("ended" if process.ended else "last heard of")
    return (
        f"<li>{_link_to(process)}<span class=track>"
        f'<span class="bar{"" if process.ended else " open"}" style="left:{offset:.2f}%;width:{wide:.2f}%"></span>'
        f"{marks}</span><span class=hidden>{escape(words)} at {_seconds(written - begin)}</span></li>"
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
    facts.append("ended" if process.ended else "no end noted: killed, or still running")
    states = Counter(patch.state for patch in process.patches)
    summary = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "no patches"
    problems = "".join(f"<li class=error><b>Problem</b> {escape(problem)}</li>" for problem in process.problems)
    problems += "".join(f"<li class=notes><b>Note</b> {escape(note)}</li>" for note in process.notes)
    list_of_problems = f"<ul class=said>{problems}</ul>\n" if problems else ""
    heads = "".join(f"<th scope=col>{name}</th>" for name in ("state", "target", "plugin", "calls", "applied"))
    rows = "".join(_patch(patch, begin) for patch in process.patches)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>" if rows else _NO_PATCHES
    return (
        f'<details id="p{_anchor(process)}"{" open" if is_open else ""}>'
        f"\n<summary><b>{escape(_name(process))}</b> "
        f"<code>{escape(shlex.join(process.argv))}</code> <span>{escape(summary)}</span></summary>\n"
        f"<p class=facts>{escape(' · '.join(facts))}</p>\n{list_of_problems}{table}\n</details>\n"
    )


def _patch(patch: PatchReport, begin: float) -> str:
    place = f" at <code>{escape(patch.place)}</code>" if patch.place else ""
    notes = [("reason", patch.reason), *(("note", note) for note in patch.notes)]
    notes += [("warning", warning) for warning in patch.warnings]
    notes += [("stale", f"{name} holds the original still") for name in patch.stale if patch.state == "applied"]
    notes += [("stays", patch.stays and f"in this process: {patch.stays}"), ("why", patch.why)]
    lines = [f"<li><b>{kind}</b> {escape(text)}</li>" for kind, text in notes if text]
    if patch.upstream:
        lines.append(f"<li><b>upstream</b> {_link(patch.upstream)}</li>")
    target = f"<code>{escape(patch.target)}</code> <small>{escape(patch.verb)}</small>{place}"
    note_list = f"<ul class=notes>{''.join(lines)}</ul>" if lines else ""
    calls = "not counted" if patch.calls is None else patch.calls_in_words
    plugin = "<small>active()</small>"
    if patch.plugin is not None:
        plugin = f"{escape(patch.plugin)} <small>{escape(patch.distribution or '')}</small>"
    times = [] if patch.applied_at is None else [f"at {_seconds(patch.applied_at - begin)}"]
    times += [] if patch.ended_at is None else [f"until {_seconds(patch.ended_at - begin)}"]
    cells = (
        ("state", _badge(patch.state)),
        ("target", target + note_list),
        ("plugin", plugin),
        ("calls", escape(calls)),
        ("applied", escape("; ".join(times) or "never")),
    )
    return "<tr>" + "".join(f'<td data-of="{name}"><div>{content}</div></td>' for name, content in cells) + "</tr>"


def _link(url: str) -> str:
    if url.startswith(("https://", "http://")):  # no other scheme: a page must not run scripts of a report
        return f'<a href="{escape(url)}" rel="noreferrer">{escape(url)}</a>'
    return escape(url)


def _span(run: RunReport) -> tuple[float, float]:
    """Return the start of the first process and the last time written in a report file."""
    began = [process.began for process in run if process.began is not None]
    written = [process.written for process in run if process.written is not None]
    return min(began, default=0.0), max(written, default=0.0)


def _badge(state: str) -> str:
    return f'<span class="badge {escape(state)}">{escape(state)}</span>'


def _name(process: ProcessReport) -> str:
    return str(process.pid) + ("" if process.rank is None else f" rank {process.rank}")


def _link_to(process: ProcessReport) -> str:
    return f'<a href="#p{_anchor(process)}">{escape(_name(process))}</a>'


def _anchor(process: ProcessReport) -> str:
    return escape(f"{process.pid}-{int(process.began or 0)}")


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


def _seconds(seconds: float) -> str:
    """Return a duration in words, with few digits."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
