"""Find baked constants: constants of a trace that differ in a trace of another input."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch

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


def baked(one: list[Node], other: list[Node]) -> list[Baked]:
    """Return the constants that differ between two traces of one model, as far as the traces agree otherwise."""
    found: dict[tuple[object, ...], Baked] = {}
    for a, b in _same_way(one, other):
        place = _place(a[1])
        if a[0].startswith("prim::Constant") and place is not None and not _equal(a[2], b[2]):
            found.setdefault((place, _words(a[2])), Baked(place, _words(a[2]), _words(b[2])))
    return list(found.values())


def _same_way(one: list[Node], other: list[Node]) -> Iterator[tuple[Node, Node]]:
    """Yield the pairs of equal nodes at the beginnings, and at the ends, of two traces."""
    length = min(len(one), len(other))
    first = next((at for at in range(length) if one[at][:2] != other[at][:2]), length)
    yield from zip(one[:first], other[:first], strict=True)
    for a, b in zip(reversed(one[first:]), reversed(other[first:]), strict=False):
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


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and bool(torch.isclose(one, other, rtol=0, atol=0, equal_nan=True).all())
    return type(one) is type(other) and (one == other or one != one)


def _words(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    if value.numel() <= _LONGEST:
        return str(value.tolist())
    return f"a tensor of {'x'.join(map(str, value.shape))}"
