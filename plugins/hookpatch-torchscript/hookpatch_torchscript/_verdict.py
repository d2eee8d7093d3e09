"""What a guard has found of one trace: values that a person, a program or a test reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from hookpatch_torchscript._record import Place

_ALONE: Final = "install hookpatch-export, and the line that decided is named"


@final
@dataclass(frozen=True, slots=True)
class Baked:
    """A constant of the trace that Python made from the example.

    Attributes:
        place: the line.
        value: what it is in the trace.
        other: what it is when the other input is traced.
    """

    place: Place
    value: str
    other: str


@final
@dataclass(frozen=True, slots=True)
class Lost:
    """The line on which a run with the other input goes another way, or the one that hangs on the input.

    Attributes:
        place: the line; None if there is none, since the example itself is answered otherwise the next time.
        became: what tracing makes of it, empty if that is not known.
        instead: what to write instead, likewise.
    """

    place: Place | None
    became: str = ""
    instead: str = ""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Disagreement:
    """An input on which a trace and the original disagree, the smallest that was found.

    Attributes:
        words: what makes it of the example: ``batch 1``, ``x negated``.
        args: the input.
        kwargs: its arguments by keyword.
        shapes: the tensors in it, by name: ``x: float32[1, 3]``.
        seed: that of the random numbers that both were run with.
        eager: what the original answers, at the element that differs most.
        traced: what the trace answers there, or the error that it raises.
        output: which of the answer's tensors, from 0.
        at: the element; None if the shapes differ, or the trace raised.
        by: the greatest absolute difference, None likewise.
        count: how many elements differ, and of how many, None likewise.
        lost: the line that decided; None if hookpatch-export is not installed, or none is known.
        baked: constants of the trace that are others with this input.
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
    """What comparing a trace with its original has found.

    Attributes:
        name: what was traced: ``Net``, ``Net.encode``, ``scaled``.
        place: where that is defined, None if it cannot be read.
        tried: how many inputs were compared.
        refused: how many more the original does not take.
        disagreements: where they disagree, one for each line that decided.
        unchecked: why nothing, or not all, could be compared, else None.
        scanned: whether hookpatch-export is installed, which finds the line.
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
        """Whether all could be compared, and no input was found on which they disagree."""
        return not self.disagreements and self.unchecked is None

    def __str__(self) -> str:
        name = f"{self.name} ({self.place})" if self.place is not None else self.name
        inputs = f"{self.tried} input{'s' * (self.tried != 1)}"
        if self.unchecked is not None:
            return f"the trace of {name} could not be compared with it: {self.unchecked}"
        if not self.disagreements:
            return f"the trace of {name} agrees with it on {inputs}"
        head = f"the trace of {name} disagrees with it; {inputs} tried, the smallest that shows it:"
        return "\n".join([head, *("\n".join(self._lines(at, one)) for at, one in enumerate(self.disagreements))])

    def _lines(self, number: int, one: Disagreement) -> list[str]:
        lines = [
            _line("input", f"{', '.join(one.shapes)}: {one.words}"),
            _line("again", _again(one, number)),
            _line("answers", _answers(one)),
        ]
        if one.lost is not None and one.lost.place is not None:
            lines.append(_line("line", f"{one.lost.place}: {one.lost.place.code}"))
            if one.lost.became:
                lines.append(_line("trace", one.lost.became))
        elif one.lost is None and not self.scanned:
            lines.append(_line("line", _ALONE))
        lines += [_line("baked", f"{each.place}: {each.value}, with this input {each.other}") for each in one.baked]
        said = one.lost.instead if one.lost is not None else ""
        return [*lines, _line("instead", said or _INSTEAD)]


_SHORT: Final = 12  # elements
_INSTEAD: Final = (
    "torch.jit.script keeps branches and loops; or trace one for each case, and choose outside of the model"
)


def _again(one: Disagreement, number: int) -> str:
    """Return code that makes the input, if it is short."""
    from torch.utils import _pytree  # here by now, as is torch

    leaves = [leaf for leaf in _pytree.tree_leaves((one.args, dict(one.kwargs))) if hasattr(leaf, "tolist")]
    seed = f"torch.manual_seed({one.seed})"
    if sum(leaf.numel() for leaf in leaves) > _SHORT:
        return f"{seed}; the verdict has the input itself: .disagreements[{number}].args and .kwargs"
    names = [shape.partition(": ")[0] for shape in one.shapes]
    pairs = zip(names, leaves, strict=True)
    return "; ".join(
        [seed, *(f"{name} = torch.tensor({_rounded(leaf.tolist())}, dtype={leaf.dtype})" for name, leaf in pairs)]
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def _answers(one: Disagreement) -> str:
    if one.at is None or one.by is None or one.count is None:
        return f"eager {one.eager}, the trace {one.traced}"
    element = f" at {list(one.at)}" if one.at else ""
    output = f" of output {one.output}" if one.output else ""
    differ = f"; {one.count[0]} of {one.count[1]} elements differ, by {one.by:.4g} at most" if one.count[1] > 1 else ""
    return f"eager {one.eager}, the trace {one.traced}{element}{output}{differ}"


def _line(word: str, said: str) -> str:
    return f"  {word:<9}{said}"
