"""Write an audit as one HTML file, without network, other files or scripts."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from html import escape
from typing import Final

from hookpatch._inspect.audit.finding import Audit, AuditFinding, in_packages
from hookpatch._processes.run_page import framed

_HEADS: Final = ("kind", "slot", "by", "seen")


def page_of(audit: Audit, program: Sequence[str], new: Collection[AuditFinding]) -> str:
    """Return the page: the authors with their numbers of slots, then each slot. ``new``: the slots no baseline has."""
    name = shlex.join(program)
    authors = Counter(finding.who for finding in audit)
    count = len(audit.findings)
    facts = f"{count} slot{'' if count == 1 else 's'} patched, {audit.modules} modules"
    badges = "".join(
        f"<li><span class=badge>{escape(author)}</span> {number}</li>" for author, number in authors.most_common()
    )
    heads = "".join(f"<th scope=col>{head}</th>" for head in _HEADS)
    rows = "".join(_row(finding, finding in new) for finding in audit)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    body = (
        f"<header>\n<p class=tool>hookpatch audit</p>\n<h1><code>{escape(name)}</code></h1>\n"
        f"<p class=facts>{escape(facts)}</p>\n<ul class=states>{badges}</ul>\n</header>\n<main>\n"
        f"{table if rows else '<p class=well>No slot is patched.</p>'}\n</main>"
    )
    return framed(f"hookpatch audit: {name}", body)


def _row(finding: AuditFinding, is_new: bool) -> str:
    notes = [
        ("before", finding.before),
        ("now", finding.now),
        ("at", in_packages(finding.place)),
        ("assigned at", in_packages(finding.assigned_at)),
        ("undo", finding.undo),
        ("layers", str(finding.layers) if finding.layers > 1 else None),
        *(("stale", f"{name} holds the original still") for name in finding.stale),
    ]
    lines = "".join(f"<li><b>{kind}</b> {escape(text)}</li>" for kind, text in notes if text)
    badge = (
        f'<span class="badge{" skipped" if is_new else ""}">{escape(finding.kind)}{" (new)" if is_new else ""}</span>'
    )
    cells = (
        ("kind", badge),
        ("slot", f"<code>{escape(finding.target)}</code><ul class=notes>{lines}</ul>"),
        ("by", escape(finding.who)),
        ("seen", escape(finding.when or "at the end")),
    )
    return "<tr>" + "".join(f'<td data-of="{name}"><div>{content}</div></td>' for name, content in cells) + "</tr>"
