"""What can go wrong with a picture: a file that is no model, and two models that cannot be compared."""

from __future__ import annotations

from typing import Final

from hookpatch.errors import HookpatchError


class ModelFileError(HookpatchError):
    """A file is not an ONNX model, or cannot be read.

    Attributes:
        path: the file.
        problem: what is wrong with it, and what now.
    """

    def __init__(self, path: object, problem: str) -> None:
        self.path: Final = str(path)
        self.problem: Final = problem
        super().__init__(f"{path} {problem}")


class NothingInCommonError(HookpatchError):
    """Two models of which neither nodes nor inputs and outputs agree: a comparison would say nothing.

    Attributes:
        before: the one.
        after: the other.
        problem: what was compared.
    """

    def __init__(self, before: object, after: object, problem: str) -> None:
        self.before: Final = str(before)
        self.after: Final = str(after)
        self.problem: Final = problem
        super().__init__(f"{before} and {after} have nothing in common: {problem}; compare two versions of one model")


class PictureError(HookpatchError):
    """A picture cannot be made or written.

    Attributes:
        what: what was to be made.
        problem: why it cannot be, and what now.
    """

    def __init__(self, what: object, problem: str) -> None:
        self.what: Final = str(what)
        self.problem: Final = problem
        super().__init__(f"{what}: {problem}")
