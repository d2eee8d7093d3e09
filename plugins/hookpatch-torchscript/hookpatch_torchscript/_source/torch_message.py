"""Parse an error message of torch.jit.script: the headline and the quoted lines of source."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from hookpatch_torchscript._source.lookup import plain
from hookpatch_torchscript._values.place import Place

_HEAD: Final = re.compile(r'(?:^|(?<= at )) *File "(?P<file>[^"]+)", line (?P<line>\d+)$', re.MULTILINE)
_MARK: Final = re.compile(r"^(?P<before> *)(?P<mark>~+)( <--- HERE)?$")
_REACHED: Final = re.compile(r"^'[^']+' is being compiled since it was called from '[^']+'$")


@dataclass(frozen=True, slots=True)
class Quoted:
    """A line that torch quotes.

    Attributes:
        place: the line.
        expression: the marked part of the line, empty without a mark.
        on_the_way: True if the line only calls the failing function. Unreliable: while a program keeps an earlier
            error, torch goes on quoting the calls of that error.
    """

    place: Place
    expression: str
    on_the_way: bool


def quoted(message: str) -> list[Quoted]:
    """Return the quoted lines of a message in order."""
    quotes = []
    heads = list(_HEAD.finditer(message))
    for index, head in enumerate(heads):
        if head["line"] == "0":  # torch's line number of a lambda
            continue
        end = heads[index + 1].start() if index + 1 < len(heads) else len(message)
        code, expression = _marked(message[head.end() : end].split("\n")[1:])
        before = message[: head.start()].rstrip("\n").rpartition("\n")[2]
        place = Place(head["file"], int(head["line"]), code)
        quotes.append(Quoted(place, expression, _REACHED.match(before) is not None))
    return quotes


def headline(message: str) -> str:
    """Return the first line of a message."""
    return message.strip().partition("\n")[0].rstrip(": ")


def corrected(place: Place, functions: Iterable[Any]) -> Place:
    """Return the place of a quoted line, in the file that holds the line.

    For a decorated function torch quotes the right text but names the file of the decorator.
    """
    for file in [
        place.file,
        *(plain(function).__code__.co_filename for function in functions if hasattr(plain(function), "__code__")),
    ]:
        line = linecache.getline(file, place.line).strip()
        if line and (line == place.code or not place.code):
            return Place(file, place.line, line)
    return place


def _marked(lines: list[str]) -> tuple[str, str]:
    """Return the first marked line, and the marked part."""
    for index, line in enumerate(lines):
        mark = _MARK.match(line)
        if mark is not None and index:
            code, begin = lines[index - 1], mark.start("mark")
            while begin > 0 and code[begin - 1] == "*":  # of **kwargs the mark omits a star
                begin -= 1
            part = code[begin : mark.end("mark")].strip()
            return code.strip(), part + ")" * (part.count("(") - part.count(")"))  # and of a call the closing bracket
    return "", ""
