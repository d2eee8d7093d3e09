"""Write a command line down for a report: without the secrets that show by their form."""

from __future__ import annotations

import re
import sys

from hookpatch._bootstrap import environment
from hookpatch._bootstrap.program import words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

HIDDEN: Final = "***"
_MOST: Final = 300  # characters of a word

_NAME: Final = (
    r"(?:password|passwd|passphrase|(?<![A-Za-z])pass|pwd|secret|token|credentials?|auth"
    r"|(?:api|access|private|secret|account|auth)[-_.]?key)(?![A-Za-z])"
)
_WHOLE: Final = re.compile(rf"([-+/]*[\w.-]*{_NAME}[\w.-]*[=:]).+", re.IGNORECASE | re.DOTALL)
_OPTION: Final = re.compile(rf"--?[\w.-]*{_NAME}[\w.-]*", re.IGNORECASE)
_INSIDE: Final = re.compile(
    rf"({_NAME}[\w.-]*[\"']?\]?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&\"')}}\]]+)", re.IGNORECASE
)
_ADDRESS: Final = re.compile(r"(\w://[^\s/@:]*:)[^\s/@]+(?=@)")
_KEY: Final = re.compile(
    r"\b(?:Bearer |Basic )[\w.~+/=-]{8,}"
    r"|\b(?:sk|pk|rk)[-_][\w-]{16,}|\bgh[opsur]_\w{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{16,}|\bhf_\w{16,}"
    r"|\bxox[abeprs]-[\w-]{10,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\bpypi-[\w-]{16,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
)


def of_this_process() -> list[str]:
    """Return the command line of this process for a report: with the code of ``-c`` and the module of ``-m``."""
    words = [*map(str, getattr(sys, "argv", None) or ())]  # the program may have put paths or numbers there
    if not words or words[0] in ("", "-c", "-m"):
        words = words_of(sys.orig_argv) or words
    return for_report(words)


def for_report(words: Sequence[str]) -> list[str]:
    """Return the words of a command without secrets; only the program, if HOOKPATCH_REPORT_ARGUMENTS is 0."""
    if environment.leaves_out_arguments():
        program = words[: 2 if words[:1] == ["-m"] else 1]
        return [*program, *(["..."] if len(words) > len(program) else [])]
    return [word if len(word) <= _MOST else f"{word[:_MOST]}..." for word in redacted(words)]


def redacted(words: Iterable[str]) -> list[str]:
    """Return words with each secret replaced: by the name before it, or by the form of a known kind of key."""
    shown: list[str] = []
    is_secret = False
    for word in words:
        if is_secret and not word.startswith("--"):
            shown.append(HIDDEN)
            is_secret = False
            continue
        is_secret = _OPTION.fullmatch(word) is not None
        whole = _WHOLE.fullmatch(word)
        word = f"{whole[1]}{HIDDEN}" if whole else _INSIDE.sub(rf"\1{HIDDEN}", word)
        shown.append(_KEY.sub(HIDDEN, _ADDRESS.sub(rf"\1{HIDDEN}", word)))
    return shown
