"""Errors and warnings of explanations, of comparisons of modes, and of traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hookpatch.errors import HookpatchError, HookpatchWarning

if TYPE_CHECKING:
    from hookpatch_torchscript._values.place import Place
    from hookpatch_torchscript._values.verdict import Verdict


class NotWrittenWarning(HookpatchWarning):
    """An explanation could not be written. The program went on, and scripting with it.

    Remedy: name a file or folder that can be written.

    Attributes:
        to: the path of the file or folder.
        problem: the reason.
    """

    def __init__(self, to: str, problem: str) -> None:
        self.to: Final = to
        self.problem: Final = problem
        super().__init__(
            f"plugin 'script_explain': nothing was written to {to}: {problem}; name another path with the option 'to'"
        )


class TraceGuardError(HookpatchError):
    """A trace disagrees with the traced model, and the plugin ``trace_guard`` has the option ``fail``.

    Attributes:
        call: the traced or called function.
        place: the line of the call.
        verdicts: the findings, for each method with a difference.
    """

    def __init__(self, call: str, place: Place, verdicts: Sequence[Verdict]) -> None:
        self.call: Final = call
        self.place: Final = place
        self.verdicts: Final = tuple(verdicts)
        text = "\n".join(str(verdict) for verdict in verdicts)
        super().__init__(f"{call} at {place}: {text}\n  or leave out fail=true of plugin 'trace_guard'")


class TraceGuardWarning(HookpatchWarning):
    """A trace disagrees with what it was made from, or could not be compared with it. The program has the trace.

    Remedy: what the message says behind ``instead``.

    Attributes:
        call: the traced or called function.
        place: the line of the call.
        verdict: the finding.
    """

    def __init__(self, call: str, place: Place, verdict: Verdict) -> None:
        self.call: Final = call
        self.place: Final = place
        self.verdict: Final = verdict
        super().__init__(f"{call}: {verdict}")


class RuntimesError(HookpatchError):
    """``hookpatch runtimes`` cannot begin, or cannot write its picture.

    Attributes:
        word: the word of the command line.
        problem: the reason and the remedy.
    """

    def __init__(self, word: str, problem: str) -> None:
        self.word: Final = word
        self.problem: Final = problem
        super().__init__(f"{word}: {problem}")
