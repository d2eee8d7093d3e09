"""The verdict on one trace: disagreements, lost branches, baked constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from hookpatch_torchscript._values.place import Place

_ALONE: Final = "install hookpatch-export, and the line that decided is named"


@final
@dataclass(frozen=True, slots=True)
class Baked:
    """A constant of the trace that Python made from the example.

    Attributes:
        place: the line.
        value: the value in the trace.
        other: the value in a trace of the other input.
    """

    place: Place
    value: str
    other: str


@final
@dataclass(frozen=True, slots=True)
class Lost:
    """The line where a run with the other input takes another branch, or a line that depends on the input.

    Attributes:
        place: the line; None if the example itself gets another answer the next time.
        became: the line's effect in the trace, empty if unknown.
        instead: code to write instead, empty if unknown.
    """

    place: Place | None
    became: str = ""
    instead: str = ""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Disagreement:
    """The smallest input found on which a trace and its original disagree.

    Attributes:
        words: the changes that turn the example into this input: ``batch 1``, ``x negated``.
        args: the positional arguments.
        kwargs: the keyword arguments.
        shapes: the tensors of the input, by name: ``x: float32[1, 3]``.
        seed: the random seed of both runs.
        eager: the original's answer, at the element that differs most.
        traced: the trace's answer at that element, or the error that the trace raises.
        output: the index of the output tensor, from 0.
        at: the index of the element; None if the shapes differ, or the trace raised.
        by: the greatest absolute difference, None likewise.
        count: the number of elements that differ, and of all elements, None likewise.
        lost: the line that decided; None if unknown, or if hookpatch-export is not installed.
        baked: the constants of the trace that differ in a trace of this input.
    """

    words: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    shapes: tuple[str, ...]
    seed: int
    eager: str
    traced: str
    output: int = 0
    at: tuple[int, ...] | None = None
    by: float | None = None
    count: tuple[int, int] | None = None
    lost: Lost | None = None
    baked: tuple[Baked, ...] = ()


@final
@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """The result of comparing a trace with its original.

    Attributes:
        name: the traced model or function: ``Net``, ``Net.encode``, ``scaled``.
        place: the definition of the model or function, None if the source cannot be read.
        tried: the number of compared inputs.
        refused: the number of further inputs that the original refused.
        disagreements: the disagreements, one for each line that decided.
        unchecked: why nothing, or not all, could be compared, else None.
        scanned: True if hookpatch-export is installed, which finds the line.
    """

    name: str
    place: Place | None = None
    tried: int = 0
    refused: int = 0
    disagreements: tuple[Disagreement, ...] = ()
    unchecked: str | None = None
    scanned: bool = False

    @property
    def agrees(self) -> bool:
        """True if the comparison was complete and found no disagreement."""
        return not self.disagreements and self.unchecked is None

    def __str__(self) -> str:
        name = f"{self.name} ({self.place})" if self.place is not None else self.name
        inputs = f"{self.tried} input{'s' * (self.tried != 1)}"
        if self.unchecked is not None:
            return f"the trace of {name} could not be compared with the original: {self.unchecked}"
        if not self.disagreements:
            return f"the trace of {name} agrees with the original on {inputs}"
        head = f"the trace of {name} disagrees with the original; {inputs} tried, the smallest input that differs:"
        return "\n".join(
            [
                head,
                *("\n".join(self._lines(index, disagreement)) for index, disagreement in enumerate(self.disagreements)),
            ]
        )

    def _lines(self, number: int, disagreement: Disagreement) -> list[str]:
        lines = [
            _line("input", f"{', '.join(disagreement.shapes)}: {disagreement.words}"),
            _line("again", _again(disagreement, number)),
            _line("answers", _answers(disagreement)),
        ]
        if disagreement.lost is not None and disagreement.lost.place is not None:
            lines.append(_line("line", f"{disagreement.lost.place}: {disagreement.lost.place.code}"))
            if disagreement.lost.became:
                lines.append(_line("trace", disagreement.lost.became))
        elif disagreement.lost is None and not self.scanned:
            lines.append(_line("line", _ALONE))
        lines += [
            _line("baked", f"{each.place}: {each.value}, with this input {each.other}") for each in disagreement.baked
        ]
        instead = disagreement.lost.instead if disagreement.lost is not None else ""
        return [*lines, _line("instead", instead or _INSTEAD)]


_SHORT: Final = 12  # elements
_INSTEAD: Final = (
    "torch.jit.script keeps branches and loops; or trace one for each case, and choose outside of the model"
)


def _again(disagreement: Disagreement, number: int) -> str:
    """Return code that makes the input; for one that is long, has NaN or other strides, where the verdict holds it."""
    from torch.utils import _pytree  # imported by now, like torch

    leaves = [
        leaf for leaf in _pytree.tree_leaves((disagreement.args, dict(disagreement.kwargs))) if hasattr(leaf, "tolist")
    ]
    seed = f"torch.manual_seed({disagreement.seed})"
    is_plain = all(leaf.is_contiguous() and bool(leaf.isfinite().all()) for leaf in leaves)
    if sum(leaf.numel() for leaf in leaves) > _SHORT or not is_plain:
        return f"{seed}; the verdict has the input itself: .disagreements[{number}].args and .kwargs"
    names = [shape.partition(": ")[0] for shape in disagreement.shapes]
    pairs = zip(names, leaves, strict=True)
    return "; ".join(
        [seed, *(f"{name} = torch.tensor({_rounded(leaf.tolist())}, dtype={leaf.dtype})" for name, leaf in pairs)]
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(element) for element in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def _answers(disagreement: Disagreement) -> str:
    if disagreement.at is None or disagreement.by is None or disagreement.count is None:
        return f"eager {disagreement.eager}, the trace {disagreement.traced}"
    element = f" at {list(disagreement.at)}" if disagreement.at else ""
    output = f" of output {disagreement.output}" if disagreement.output else ""
    differ = (
        f"; {disagreement.count[0]} of {disagreement.count[1]} elements differ, by {disagreement.by:.4g} at most"
        if disagreement.count[1] > 1
        else ""
    )
    return f"eager {disagreement.eager}, the trace {disagreement.traced}{element}{output}{differ}"


def _line(word: str, text: str) -> str:
    return f"  {word:<9}{text}"
