"""Read comments that silence findings: ``# hookpatch: ignore``, ``# hookpatch: ignore[shape, data]``."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from hookpatch_export._findings.finding import Finding, Kind

_COMMENT: Final = re.compile(r"#\s*hookpatch:\s*ignore(?:\[(?P<kinds>[^\]]*)\])?")
_KINDS: Final = {str(kind): kind for kind in Kind if kind is not Kind.UNBACKED}


@final
@dataclass(frozen=True)
class Ignore:
    """A comment that silences findings of its line; a statement over several lines counts as one line.

    Attributes:
        file: the file, absolute.
        line: the comment's own line, from 1.
        first, last: the lines of the statement, from 1.
        kinds: the kinds of findings silenced; None for all.
        unknown: words in the brackets that name no kind.
    """

    file: Path
    line: int
    first: int
    last: int
    kinds: frozenset[Kind] | None
    unknown: tuple[str, ...]

    def silences(self, finding: Finding) -> bool:
        """Return True if the comment silences a finding of its own file."""
        in_span = self.first <= finding.line <= self.last
        return in_span and (self.kinds is None or finding.kind in self.kinds)


@final
@dataclass(frozen=True)
class Remark:
    """A mistake in a comment.

    Attributes:
        file: the file, absolute.
        line: the line, from 1.
        text: the mistake and the remedy.
    """

    file: Path
    line: int
    text: str


def apply_ignores(
    findings: Sequence[Finding], spans: Iterable[tuple[Path, int, int]]
) -> tuple[list[Finding], list[Remark]]:
    """Return the findings that no comment silences, and remarks about wrong comments.

    Args:
        findings: the findings of the scan.
        spans: the parts of files that were certainly scanned, as file, first and last line. A comment there that
            silences nothing gets a remark; elsewhere it may silence a finding of another model.
    """
    scanned = list(spans)
    files = dict.fromkeys([*(finding.file for finding in findings), *(file for file, _, _ in scanned)])
    ignores = {file: ignores_of(file) for file in files}
    unsilenced = [
        finding for finding in findings if not any(ignore.silences(finding) for ignore in ignores[finding.file])
    ]
    remarks = []
    for file, inside in ignores.items():
        file_findings = [finding for finding in findings if finding.file == file]
        for ignore in inside:
            if ignore.unknown:
                word = ignore.unknown[0]
                text = f"'# hookpatch: ignore[{word}]' names no kind of finding; the kinds are {', '.join(_KINDS)}"
                remarks.append(Remark(file, ignore.line, text))
            elif not any(ignore.silences(finding) for finding in file_findings) and any(
                where == file and first <= ignore.line <= last for where, first, last in scanned
            ):
                kinds = [str(finding.kind) for finding in file_findings if ignore.first <= finding.line <= ignore.last]
                why = f"what is found here is {', '.join(sorted(set(kinds)))}" if kinds else "nothing is found here"
                remarks.append(
                    Remark(file, ignore.line, f"'# hookpatch: ignore' silences nothing: {why}; remove the comment")
                )
    return unsilenced, remarks


def ignores_of(file: Path) -> list[Ignore]:
    """Return the comments of a file. A file that cannot be read has none, and the scan reports the file itself."""
    try:
        with tokenize.open(file) as opened:
            return list(_ignores(file, opened.read()))
    except (OSError, SyntaxError, UnicodeDecodeError, tokenize.TokenError):
        return []


def _ignores(file: Path, source: str) -> Iterable[Ignore]:
    if "hookpatch:" not in source:
        return
    first: int | None = None
    waiting: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            waiting.append(token)
        elif token.type in (tokenize.NEWLINE, tokenize.NL) and (token.type == tokenize.NEWLINE or first is None):
            for comment in waiting:
                if (match := _COMMENT.search(comment.string)) is not None:
                    yield _ignore(file, match, comment.start[0], first or comment.start[0], token.start[0])
            first, waiting = None, []
        elif first is None and token.type not in (tokenize.INDENT, tokenize.DEDENT, tokenize.NL):
            first = token.start[0]


def _ignore(file: Path, match: re.Match[str], line: int, first: int, last: int) -> Ignore:
    if match["kinds"] is None:
        return Ignore(file, line, first, last, None, ())
    words = [word.strip() for word in match["kinds"].split(",")]
    kinds = frozenset(_KINDS[word] for word in words if word in _KINDS)
    return Ignore(file, line, first, last, kinds, tuple(word for word in words if word not in _KINDS))
