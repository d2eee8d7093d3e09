"""Find baked constants: constants of a trace that differ in a trace of another input."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import torch
from torch.overrides import TorchFunctionMode

from hookpatch_torchscript._source.lookup import line_at
from hookpatch_torchscript._values.place import Place
from hookpatch_torchscript._values.verdict import Baked

Node: TypeAlias = tuple[
    str, str, Any
]  # kind, of a constant with the first that takes it; lines; the value of a constant
_TORCH: Final = str(Path(torch.__file__).parent)
_LINE: Final = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): ", re.MULTILINE)
_LONGEST: Final = 6  # elements of a tensor that are shown


def nodes(called: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Node]:
    """Trace a callable, and return the recorded nodes in order."""
    jit: Any = torch.jit  # untyped
    return list(_nodes(jit._get_trace_graph(called, args, dict(kwargs), strict=False)[0]))


@final
class Errors(TorchFunctionMode):
    """Records that a function of torch raised an error, in a block.

    A trace ends the process with a segmentation fault if the model catches such an error.

    Attributes:
        raised: whether a function has raised an error.
    """

    raised = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception:
            self.raised = True
            raise


def baked(ours: list[Node], theirs: list[Node]) -> list[Baked]:
    """Return the constants that differ between two traces of one model, as far as the traces agree otherwise."""
    constants: dict[tuple[object, ...], Baked] = {}
    for a, b in _same_way(ours, theirs):
        place = _place(a[1])
        if a[0].startswith("prim::Constant") and place is not None and not _equal(a[2], b[2]):
            constants.setdefault((place, _words(a[2])), Baked(place, _words(a[2]), _words(b[2])))
    return list(constants.values())


def _same_way(ours: list[Node], theirs: list[Node]) -> Iterator[tuple[Node, Node]]:
    """Yield the pairs of equal nodes at the beginnings, and at the ends, of two traces."""
    length = min(len(ours), len(theirs))
    first = next((index for index in range(length) if ours[index][:2] != theirs[index][:2]), length)
    yield from zip(ours[:first], theirs[:first], strict=True)
    for a, b in zip(reversed(ours[first:]), reversed(theirs[first:]), strict=False):
        if a[:2] != b[:2]:
            return
        yield a, b


def _nodes(block: Any) -> Iterator[Node]:
    for node in block.nodes():
        constant = node.kind() == "prim::Constant" and node.hasAttribute("value")
        lines = node.sourceRange().partition(__file__)[0]  # the frames below this file's
        users = [use.user.kind() for use in node.output().uses()[:1]] if constant else []
        yield " of ".join([node.kind(), *users]), lines, node.output().toIValue() if constant else None
        for inner in node.blocks():
            yield from _nodes(inner)


def _place(lines: str) -> Place | None:
    """Return the innermost line outside torch."""
    for match in _LINE.finditer(lines):
        if not match["file"].startswith(_TORCH):
            return line_at(match["file"], int(match["line"]))
    return None


def _equal(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, torch.Tensor) and isinstance(theirs, torch.Tensor):
        return ours.shape == theirs.shape and bool(torch.isclose(ours, theirs, rtol=0, atol=0, equal_nan=True).all())
    return type(ours) is type(theirs) and (ours == theirs or ours != ours)


def _words(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    if value.numel() <= _LONGEST:
        return str(value.tolist())
    return f"a tensor of {'x'.join(map(str, value.shape))}"
