"""What can go wrong with an explanation or a comparison of modes. Scripting itself never fails for it."""

from __future__ import annotations

from typing import Final

from hookpatch.errors import HookpatchError, HookpatchWarning


class NotWrittenWarning(HookpatchWarning):
    """An explanation could not be written. The program went on, and scripting with it.

    Remedy: name a file or folder that can be written.

    Attributes:
        to: where it was to go.
        problem: why it did not.
    """

    def __init__(self, to: str, problem: str) -> None:
        self.to: Final = to
        self.problem: Final = problem
        super().__init__(
            f"plugin 'script_explain': nothing was written to {to}: {problem}; name another place with its option 'to'"
        )


class RuntimesError(HookpatchError):
    """``hookpatch runtimes`` cannot begin, or cannot write its picture.

    Attributes:
        word: what was written on the command line.
        problem: why not, and what now.
    """

    def __init__(self, word: str, problem: str) -> None:
        self.word: Final = word
        self.problem: Final = problem
        super().__init__(f"{word}: {problem}")
