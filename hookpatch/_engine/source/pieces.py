"""Find a piece of code in a function's source, as statements or else as tokens, and replace the piece."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise, takewhile
from textwrap import dedent
from typing import Final, TypeAlias, final

from hookpatch._engine.patch.edit import Edit

Span: TypeAlias = tuple[int, int]  # of characters: from, up to
_LAYOUT: Final = {tokenize.NL, tokenize.COMMENT, tokenize.ENDMARKER, tokenize.ENCODING}
_EDGES: Final = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


class UnfitEdit(ValueError):
    """An edit does not fit the source, for example by a missing piece of code; the message names the reason."""


@final
@dataclass(frozen=True)
class Source:
    """The text of a file, and the first and last line of one function, counted from 1 and without decorators."""

    text: str
    tree: ast.Module
    first: int
    last: int

    @property
    def lines(self) -> list[str]:
        return lines_of(self.text)


def lines_of(text: str) -> list[str]:
    """Return the lines of a source as Python counts them: ``splitlines`` ends a line at a form feed, too."""
    return io.StringIO(text).readlines()


def replaced(source: Source, edit: Edit) -> str:
    """Return the text of the file with an edit of the function.

    Raises:
        UnfitEdit: the function has a piece more or less often than the edit says.
    """
    spans: list[tuple[Span, str]] = []
    for old, new in edit.pieces:
        if edit.is_diff:
            spans.append(_hunk(source, old, new))
        else:
            spans += [(span, _fitted(source, span, new)) for span in _pieces(source, old, edit.count)]
    spans.sort()
    for (earlier, _), (later, _) in pairwise(spans):
        if later[0] < earlier[1]:
            raise UnfitEdit("two hunks of the diff meet; give all of it in one hunk")
    text = source.text
    for (start, end), new in reversed(spans):
        text = text[:start] + new + text[end:]
    return text


def _pieces(source: Source, old: str, count: int | None) -> list[Span]:
    statements, tokens = [*_statements(source, old)], [*_tokens(source, old)]
    if not statements and not tokens:
        raise UnfitEdit(f"{_short(old)} is not in the source{_nearest(source, old)}")
    if len(statements) == (count or 1) and (count or len(tokens) <= 1):
        return statements
    if len(tokens) == (count or 1) and len(tokens) >= len(statements):
        return tokens
    detail = f"as a statement {_times(len(statements))} and " if statements and len(tokens) > len(statements) else ""
    spans = max(tokens, statements, key=len)
    lines = ", ".join(str(source.text.count("\n", 0, start) + 1) for start, _ in spans)
    is_said = f", not {_times(count)}" if count else ""
    raise UnfitEdit(
        f"{_short(old)} is there {detail}{'in all ' if detail else ''}{_times(len(spans))} (line {lines}){is_said}; "
        f"say count={len(spans)} for all, or give a longer piece"
    )


def _statements(source: Source, old: str) -> Iterator[Span]:
    """Yield the places of statements like ``old``, whatever their formatting and comments."""
    try:
        wanted = [ast.dump(node) for node in ast.parse(dedent(old).strip("\n")).body]
    except SyntaxError:
        return
    if not wanted:
        return
    starts = _starts(source.text)
    for node in ast.walk(source.tree):
        for _, block in ast.iter_fields(node):
            if not (isinstance(block, list) and block and isinstance(block[0], ast.stmt)):
                continue
            place = 0
            while place + len(wanted) <= len(block):
                run = block[place : place + len(wanted)]
                line = min([run[0].lineno, *(decorator.lineno for decorator in getattr(run[0], "decorator_list", []))])
                is_inside = source.first <= line and (run[-1].end_lineno or 0) <= source.last
                if is_inside and [ast.dump(statement) for statement in run] == wanted:
                    yield (
                        _offset(source, starts, line, run[0].col_offset),
                        _offset(source, starts, run[-1].end_lineno, run[-1].end_col_offset),
                    )
                    place += len(wanted)
                else:
                    place += 1


def _tokens(source: Source, old: str) -> Iterator[Span]:
    """Yield the places with the tokens of ``old``, whatever layout is between the tokens."""
    wanted = [(kind, text) for kind, text, _, _ in _read(dedent(old).strip("\n") + "\n")]
    while wanted and wanted[-1][0] in _EDGES:
        wanted.pop()
    while wanted and wanted[0][0] in _EDGES:
        wanted.pop(0)
    tokens = [token for token in _read(source.text) if source.first <= token[2][0] <= source.last]
    starts, place = _starts(source.text), 0
    while wanted and place + len(wanted) <= len(tokens):
        run = tokens[place : place + len(wanted)]
        if [(kind, text) for kind, text, _, _ in run] == wanted:
            (first, column), (last, end) = run[0][2], run[-1][3]
            yield starts[first - 1] + column, starts[last - 1] + end
            place += len(wanted)
        else:
            place += 1


def _read(text: str) -> list[tuple[int, str, tuple[int, int], tuple[int, int]]]:
    """Return the tokens of a text, up to the first unreadable token; layout tokens are compared by kind alone."""
    read: list[tokenize.TokenInfo] = []
    with suppress(tokenize.TokenError, SyntaxError):  # a piece like `call(x,` has no end
        read.extend(tokenize.generate_tokens(io.StringIO(text).readline))
    return [(token.type, _meant(token), token.start, token.end) for token in read if token.type not in _LAYOUT]


def _meant(token: tokenize.TokenInfo) -> str:
    """Return the compared text of a token: the value of a string, whatever the quotes; empty for layout tokens."""
    if token.type in _EDGES:
        return ""
    if token.type == tokenize.STRING:
        with suppress(SyntaxError, ValueError):  # an f-string, before 3.12
            return repr(ast.literal_eval(token.string))
    return token.string


def _hunk(source: Source, old: str, new: str) -> tuple[Span, str]:
    """Return the only place of whole lines, whatever their indentation, and the new text.

    The changed lines must be in the function; the lines around them may be outside.
    """
    before, after, lines, starts = old.split("\n"), new.split("\n") if new else [], source.lines, _starts(source.text)
    head, tail = _alike(before, after), _alike(before[::-1], after[::-1])
    tail = min(tail, len(before) - head, len(after) - head)
    adds_alone = head + tail == len(before)
    wanted = _bare(old)
    places = [
        place
        for place in range(len(lines) - len(before) + 1)
        if source.first - (not adds_alone) <= place + head and place + len(before) - tail <= source.last
        if _bare("".join(lines[place : place + len(before)])) == wanted
    ]
    if not places:
        raise UnfitEdit(f"the hunk that begins with {_short(before[0])} is not in the source{_nearest(source, old)}")
    if len(places) > 1:
        numbers = ", ".join(str(line + 1) for line in places)
        raise UnfitEdit(
            f"the hunk that begins with {_short(before[0])} fits at the lines {numbers}; give it more lines"
        )
    first, last = places[0], places[0] + len(before) - 1
    hunk_indent, file_indent = _indent(before[0]), _indent(lines[first])
    added, dropped = (
        file_indent.removesuffix(hunk_indent) if file_indent.endswith(hunk_indent) else "",
        hunk_indent[len(file_indent) :],
    )
    shifted = [added + line.removeprefix(dropped) for line in after]
    span = starts[first], starts[last + 1] - lines[last].endswith("\n")
    return span, "\n".join(line if line.strip() else "" for line in shifted)


def _alike(lines: Sequence[str], other_lines: Sequence[str]) -> int:
    """Return how many first lines are the same in both."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(lines, other_lines, strict=False)))


def _bare(text: str) -> list[str]:
    return [line.rstrip() for line in lines_of(dedent(text))]


def _fitted(source: Source, span: Span, new: str) -> str:
    """Return the new text of a span, indented like the line in which the span begins."""
    new = dedent(new).strip("\n")
    line_start = source.text.rfind("\n", 0, span[0]) + 1
    line = source.text[line_start:].split("\n", 1)[0]
    indent, is_whole = _indent(line), not source.text[line_start : span[0]].strip()
    if not new.strip():
        new = "pass" if is_whole else ""
    lines = new.split("\n")
    string_lines = _inside_texts(new)
    fitted = [
        line if number in string_lines or not line.strip() else indent + line for number, line in enumerate(lines, 1)
    ]
    return "\n".join([lines[0], *fitted[1:]])  # the span begins behind the indentation


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _inside_texts(text: str) -> set[int]:
    """Return the lines that begin inside a string: an indentation would change the string."""
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except SyntaxError:
        return set()
    texts = [node for node in nodes if isinstance(node, (ast.Constant, ast.JoinedStr))]
    return {line for node in texts for line in range(node.lineno + 1, (node.end_lineno or 0) + 1)}


def _starts(text: str) -> list[int]:
    starts = [0]
    for line in lines_of(text):
        starts.append(starts[-1] + len(line))
    return starts


def _offset(source: Source, starts: Sequence[int], line: int | None, column: int | None) -> int:
    """Return the place of a line and a column; ast counts columns in bytes."""
    assert line is not None  # the parser gives both
    assert column is not None
    text = source.text[starts[line - 1] : starts[line]]
    return starts[line - 1] + len(text.encode()[:column].decode())


def _nearest(source: Source, old: str) -> str:
    """Return in words the line most similar to the first line of a piece; empty if no line is similar."""
    first, lines = dedent(old).strip().splitlines()[0], source.lines
    likeness = {
        number: SequenceMatcher(None, first, lines[number - 1].partition("#")[0].strip()).ratio()
        for number in range(source.first, source.last + 1)
    }
    best = max(likeness, key=likeness.__getitem__, default=0)
    return f"; nearest is line {best}: {lines[best - 1].strip()!r}" if likeness.get(best, 0) >= 0.5 else ""


def _short(piece: str) -> str:
    lines = dedent(piece).strip().splitlines()
    return repr(lines[0] + (" ..." if len(lines) > 1 else ""))


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count} times"
