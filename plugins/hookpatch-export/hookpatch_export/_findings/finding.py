"""A finding: a line of a model, the kind of the deciding value, and the consequence in each mode of capture."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

MODES: Final = ("trace", "script", "export", "onnx")


class Kind(IntEnum):
    """The kind of a finding, and of a value: the dependency of the outcome. A greater kind is worse.

    ``UNBACKED`` is a size that was put into a tensor. A trace freezes a decision by the size, as for any other size.
    torch.export no longer recognizes the size, and fails. A finding of kind ``UNBACKED`` is reported as ``SHAPE``.
    """

    SAFE = 0
    CONFIG = 1
    CALL = 2
    NOT_READ = 3
    SHAPE = 4
    UNBACKED = 5
    DATA = 6

    def __str__(self) -> str:
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of a model that the author should know before a capture.

    Attributes:
        file: the file, absolute.
        line: the line in the file, from 1.
        column: the first column of the code found, from 1.
        kind: the kind of the deciding value.
        construct: the code found: ``if``, ``for``, ``.item()``, ...
        source: the line, without its indentation.
        route: the functions from the model's ``forward`` to the line, by the shortest way.
        consequence: the fate of the line, by mode of ``MODES``.
        instead: the remedy, or the reason why no change is needed.
        end_line: the last line of the code found, from 1.
        end_column: the column after the last character, from 1.
    """

    file: Path
    line: int
    column: int
    kind: Kind
    construct: str
    source: str
    route: tuple[str, ...]
    consequence: dict[str, str]
    instead: str
    end_line: int
    end_column: int
