"""A rule: a pattern of torch's message, with the problem and the remedy.

The texts of a rule are filled with the named groups of the patterns. ``expression`` is the part of the line marked by
torch, and ``operand`` the name in the expression with the type ``found``. A group ``attribute`` is the name of an
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
    """A failure as the rules see it.

    Attributes:
        message: the message of torch.
        expression: the part of the line that torch has marked.
        operand: returns the name in the expression that has a given type, and is given to the operator's parameter, if
            one is named; else the expression.
        through: the line that called the failing function, empty if torch began with that function.
    """

    message: str
    expression: str
    operand: Callable[[str, str | None], str]
    through: str


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """A message of torch, with the problem and the remedy.

    Attributes:
        says: the pattern of the message.
        problem: the problem, for the user.
        mend: the remedy, for the user.
        at: the pattern of the marked expression, or of the operand with the type ``found``; None matches all.
        through: the pattern of the line that called the failing function; None matches all.
    """

    says: str
    problem: str
    mend: str
    at: str | None = None
    through: str | None = None

    def match(self, failed: Failed) -> dict[str, str] | None:
        """Return the named groups and the operand if the rule matches, else None."""
        match = re.search(self.says, failed.message, re.DOTALL)
        if match is None:
            return None
        groups = {name: _plain(text) for name, text in match.groupdict().items() if text is not None}
        groups["operand"] = failed.operand(groups.get("found", ""), groups.get("parameter"))
        expression = groups["operand"] if "found" in groups else failed.expression
        for pattern, text in ((self.at, expression), (self.through, failed.through)):
            if pattern is not None:
                if (submatch := re.search(pattern, text)) is None:
                    return None
                groups |= {name: text for name, text in submatch.groupdict().items() if text is not None}
        return groups


def _plain(text: str) -> str:
    return " ".join(text.split()).removesuffix(" (inferred)")
