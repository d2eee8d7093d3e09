"""A rule: a message of torch, what it means and what to do.

A rule's texts are filled with the named groups of its patterns, with ``expression``, the part of the line that torch
has marked, and with ``operand``, the name in it that has the type ``found``. A group ``attribute`` is the name of an
attribute of the module.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Failed:
    """What a rule looks at.

    Attributes:
        message: what torch says.
        expression: the part of the line that it has marked.
        operand: of a type, the name in the marked expression that has it; else the expression.
        through: the line that called what the error is in, empty if torch began there.
    """

    message: str
    expression: str
    operand: Callable[[str], str]
    through: str


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """A message of torch, and what it means.

    Attributes:
        says: found in the message.
        problem: what is wrong.
        mend: what to do now.
        at: found in the marked expression, too, or in the operand of the type ``found``; None if that does not matter.
        through: found in the line that called what the error is in, too; None likewise.
    """

    says: str
    problem: str
    mend: str
    at: str | None = None
    through: str | None = None

    def match(self, failed: Failed) -> dict[str, str] | None:
        """Return the named groups, and the operand, if the rule fits; else None."""
        said = re.search(self.says, failed.message, re.DOTALL)
        if said is None:
            return None
        groups = {name: _plain(text) for name, text in said.groupdict().items() if text is not None}
        groups["operand"] = failed.operand(groups.get("found", ""))
        expression = groups["operand"] if "found" in groups else failed.expression
        for pattern, text in ((self.at, expression), (self.through, failed.through)):
            if pattern is not None:
                if (here := re.search(pattern, text)) is None:
                    return None
                groups |= {name: text for name, text in here.groupdict().items() if text is not None}
        return groups


def _plain(text: str) -> str:
    return " ".join(text.split()).removesuffix(" (inferred)")
