"""Models that torch.jit.script fails on: the expected note, the failing line, and the mended model."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from hookpatch_torchscript import explain

T = TypeVar("T")


@dataclass
class Case:
    """A model that cannot be scripted.

    Attributes:
        broken: makes the object to script.
        says: the note's first line: the failing object, and the problem.
        mend: the mend in the note.
        inside: the function that has the line.
        sources: the objects with lines marked ``# at``, ``# set`` and ``# for``.
        mended: makes the mended object; None if no object is left to script.
        inputs: the inputs of the mended object.
    """

    broken: Callable[[], Any]
    says: str
    mend: str
    inside: str | None
    sources: tuple[Any, ...]
    mended: Callable[[], Any] | None = None
    inputs: tuple[Any, ...] = field(default_factory=lambda: (torch.ones(2, 2),))

    def note(self) -> str:
        """Return the expected note on the exception."""
        lines = [f"script_explain: {self.says}"]
        inside = f" in {self.inside}" if self.inside else ""
        lines += [f"  at      {file}:{line}{inside}: {code}" for file, line, code in self.marked("# at")]
        lines += [f"  set at  {file}:{line}: {code}" for file, line, code in self.marked("# set")]
        lines.append(f"  try     {self.mend}")
        lines += [f"  for     {file}:{line}: {code}" for file, line, code in self.marked("# for")]
        return "\n".join(lines)

    def marked(self, mark: str) -> Iterator[tuple[str | None, int, str]]:
        """Yield file, number and text of each line with a mark at the end."""
        for source in self.sources:
            lines, first = inspect.getsourcelines(source)
            for number, line in enumerate(lines, first):
                if line.rstrip().endswith(mark):
                    yield inspect.getsourcefile(source), number, line.strip()


class Cases(list[Case]):
    """The cases of a test module."""

    def fails(self, says: str, mend: str, *sources: Any, inside: str | None = "", make: Any = None) -> Any:
        """Return a decorator for a class of modules that torch cannot script; ``make`` makes the instance."""

        def add(cls: T) -> T:
            within = f"{cls.__name__}.forward" if inside == "" else inside  # type: ignore[attr-defined]  # a class
            self.append(Case(make(cls) if make else cls, says, mend, within, (cls, *sources)))  # type: ignore[arg-type]
            return cls

        return add

    def mended(self, *inputs: Any, make: Any = None) -> Callable[[T], T]:
        """Return a decorator for the mended form of the last case, with the inputs, or else a tensor of ones."""

        def add(cls: T) -> T:
            self[-1].mended = make(cls) if make else cls  # type: ignore[assignment]  # a class can be called
            self[-1].inputs = inputs or self[-1].inputs
            return cls

        return add

    @property
    def names(self) -> list[str]:
        """Return the names of the tests."""
        return [getattr(case.sources[0], "__name__", "") for case in self]


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore torch's warning about the deprecation of TorchScript. All other warnings stay errors."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*torch.jit.* is deprecated", DeprecationWarning)
        yield


def noted(case: Case) -> str:
    """Return the actual note on the exception of a case."""
    torch.manual_seed(0)
    error = explain(case.broken(), prove=False).error
    assert error is not None
    (note,) = error.__notes__
    return str(note)


def mended(case: Case) -> tuple[Any, Any]:
    """Return the answers of the mended form, eager and scripted."""
    assert case.mended is not None
    torch.manual_seed(0)
    mended_form = case.mended()
    explanation = explain(mended_form)
    if explanation.error is not None:
        raise explanation.error
    return mended_form(*case.inputs), explanation.scripted(*case.inputs)
