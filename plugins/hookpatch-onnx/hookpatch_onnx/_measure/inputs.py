"""Make one input for two models from the inputs that they declare; the seed is fixed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy

from hookpatch_onnx._compare.compare import GraphComparison
from hookpatch_onnx._model.graph import Graph, Node
from hookpatch_onnx._model.values import Value
from hookpatch_onnx.errors import ModelRunError

Feed = dict[str, Any]  # arrays by the name of the input

_FIRST_SIZE: Final = 2  # of a first dimension whose size no model says
_OTHER_SIZE: Final = 8


def feeds_of(comparison: GraphComparison, arrays: Mapping[str, Any], seed: int) -> tuple[Feed, Feed]:
    """Return the inputs of both models: the same numbers for inputs of one name, or else of one position.

    Floats are drawn from a normal distribution. Integers that index a table are drawn from its rows. Other integers are
    1 and booleans true, as in a mask that hides nothing. A named dimension has one size everywhere.

    Args:
        comparison: the comparison of the models' graphs.
        arrays: arrays to use instead, by the name of the input.
        seed: the seed.

    Raises:
        ModelRunError: no input fits both models.
    """
    before, after = comparison.before, comparison.after
    if unknown := [name for name in arrays if name not in (*before.inputs, *after.inputs)]:
        inputs = ", ".join(dict.fromkeys((*before.inputs, *after.inputs)))
        raise ModelRunError(f"input '{unknown[0]}'", f"no model has it; the inputs are {inputs}")
    numbers = numpy.random.default_rng(seed)
    sizes: dict[str, int] = {}
    feeds: tuple[Feed, Feed] = ({}, {})
    for mine, its in _pairs(before.inputs, after.inputs):
        sides = [(before, mine, feeds[0]), (after, its, feeds[1])]
        values = [graph.values[name] for graph, name, _ in sides if name is not None]
        array = next((arrays[name] for name in (mine, its) if name is not None and name in arrays), None)
        if array is None:
            rows = [_rows(graph, name) for graph, name, _ in sides if name is not None]
            row_counts = [count for count in rows if count is not None]
            array = _drawn(numbers, values, _shape(values, sizes), min(row_counts, default=None))
        for (_, name, feed), value in zip([side for side in sides if side[1] is not None], values, strict=True):
            assert name is not None
            feed[name] = array if value.dtype == str(array.dtype) else array.astype(_numpy(value))
    return feeds


def arrays_in(path: Path) -> Mapping[str, Any]:
    """Return the arrays in a file of NumPy (``.npz``), by name.

    Raises:
        ModelRunError: the file cannot be read.
    """
    try:
        with numpy.load(path) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ModelRunError(path, f"is not a .npz file of arrays: {error}") from None


def _pairs(ours: tuple[str, ...], theirs: tuple[str, ...]) -> Iterator[tuple[str | None, str | None]]:
    lost, gained = (
        [name for name in names if name not in opposite] for names, opposite in ((ours, theirs), (theirs, ours))
    )
    yield from ((name, name) for name in ours if name in theirs)
    yield from zip(lost, gained, strict=False)
    yield from ((name, None) for name in lost[len(gained) :])
    yield from ((None, name) for name in gained[len(lost) :])


def _shape(values: list[Value], sizes: dict[str, int]) -> list[int]:
    """Return one shape for an input of both models; the other model decides a size that a model leaves open."""
    shapes = [value.shape for value in values]
    problem = f"{' before and '.join(value.type for value in values)} after: no input fits both; give --inputs FILE.npz"
    if any(shape is None or len(shape) != len(shapes[0] or ()) for shape in shapes):
        raise ModelRunError(f"input '{values[0].name}'", problem)
    dimensions: list[int] = []
    for axis, dims in enumerate(zip(*(shape for shape in shapes if shape is not None), strict=True)):
        numbers = {dim for dim in dims if isinstance(dim, int)}
        names = [dim for dim in dims if isinstance(dim, str)]
        if len(numbers) > 1:
            raise ModelRunError(f"input '{values[0].name}'", problem)
        named = next((sizes[name] for name in names if name in sizes), _OTHER_SIZE if axis else _FIRST_SIZE)
        size = numbers.pop() if numbers else named
        for name in names:
            sizes.setdefault(name, size)
        dimensions.append(size)
    return dimensions


def _drawn(numbers: numpy.random.Generator, values: list[Value], shape: list[int], rows: int | None) -> Any:
    kind = _numpy(values[0])
    if kind.kind == "b":
        return numpy.ones(shape, kind)
    if kind.kind in "iu":
        return numbers.integers(0, rows, shape).astype(kind) if rows else numpy.ones(shape, kind)
    return numbers.standard_normal(shape).astype(kind)


def _numpy(value: Value) -> numpy.dtype[Any]:
    try:
        dtype = numpy.dtype(value.dtype)
    except TypeError:
        dtype = numpy.dtype(object)
    if dtype.kind not in "biuf" or not value.dtype:
        problem = f"an input of {value.type or 'an unknown type'} cannot be made; give --inputs FILE.npz"
        raise ModelRunError(f"input '{value.name}'", problem)
    return dtype


def _rows(graph: Graph, name: str) -> int | None:
    """Return the rows of the smallest table indexed by an input, also behind a cast; None for no table."""
    row_counts: list[int] = []
    users: list[tuple[Node, int]] = [(graph.nodes[index], slot) for index, slot in graph.consumers.get(name, ())]
    for node, slot in users:
        if node.op == "Cast":
            users += [(graph.nodes[index], slot) for index, slot in graph.consumers.get(node.outputs[0], ())]
        if node.op == "Gather" and slot == 1:
            shape = graph.values[node.inputs[0]].shape
            size = shape[int(node.settings.get("axis", "0"))] if shape else None
            row_counts += [size] if isinstance(size, int) and size else []
    return min(row_counts, default=None)
