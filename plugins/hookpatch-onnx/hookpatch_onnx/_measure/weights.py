"""Compare the initializers of two models by their content: equal, other values, another type, only in one."""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import onnx
from onnx import numpy_helper

from hookpatch_onnx._compare.compare import GraphComparison
from hookpatch_onnx._measure.distance import Distance, distance
from hookpatch_onnx._model.wire_format import DATA
from hookpatch_onnx.errors import ModelFileError, ModelRunError

Kind: TypeAlias = Literal["other values", "another type or shape", "only before", "only after"]


@final
@dataclass(frozen=True, slots=True)
class WeightChange:
    """An initializer that differs.

    Attributes:
        kind: how it differs.
        before, after: the names; None for a model without the initializer.
        type: dtype and shape, both if they differ.
        distance: how far apart the values are, if the types agree.
    """

    kind: Kind
    before: str | None
    after: str | None
    type: str
    distance: Distance | None = None

    @property
    def name(self) -> str:
        """The name, or both names."""
        return " → ".join(dict.fromkeys(filter(None, (self.before, self.after))))


@final
@dataclass(frozen=True, slots=True)
class Weights:
    """The initializers of two models, compared.

    Attributes:
        equal: how many are equal.
        changes: the others.
    """

    equal: int
    changes: tuple[WeightChange, ...]

    @property
    def words(self) -> str:
        """The counts in words."""
        counts = Counter(change.kind for change in self.changes)
        return ", ".join([f"{self.equal} equal", *(f"{count} {kind}" for kind, count in counts.items())])


@final
class Tensors:
    """The constant tensors of one model: initializers, and ``Constant`` nodes with a tensor."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the model; external data is read when a tensor is.

        Raises:
            ModelFileError: the file is no ONNX model.
            ModelRunError: the model has no weights.
        """
        self.path: Final = Path(path)
        try:
            self.model: Final = onnx.load(path, load_external_data=False)
        except Exception as error:
            raise ModelFileError(path, f"cannot be read: {type(error).__name__}") from None
        nodes = [node for node in self.model.graph.node if node.op_type == "Constant" and not node.domain]
        self._tensors: Final = {
            node.output[0]: attribute.t for node in nodes for attribute in node.attribute if attribute.name == "value"
        }
        self._tensors.update({tensor.name: tensor for tensor in self.model.graph.initializer})
        for name, tensor in self._tensors.items():
            if math.prod(tensor.dims) and not any(len(getattr(tensor, field_name)) for field_name in DATA):
                problem = f"weight '{name}' has no data: a recorded model has none; compare the models themselves"
                raise ModelRunError(path, problem)

    def array(self, name: str) -> Any:
        """Return the content of a constant."""
        try:
            return numpy_helper.to_array(self._tensors[name], str(self.path.parent))
        except (OSError, ValueError, onnx.checker.ValidationError) as error:
            raise ModelRunError(self.path, f"weight '{name}' cannot be read: {error}") from None

    def __contains__(self, name: str) -> bool:
        return name in self._tensors


def compare_weights(comparison: GraphComparison, before: Tensors, after: Tensors) -> Weights:
    """Return the comparison of the initializers of two models.

    Args:
        comparison: the comparison of the models' graphs.
        before, after: the tensors of the models.
    """
    pairs = dict(_pairs(comparison, before, after))
    changes: list[WeightChange] = []
    equal = 0
    for name, their_name in pairs.items():
        ours, theirs = comparison.before.values[name].type, comparison.after.values[their_name].type
        if ours != theirs:
            changes.append(WeightChange("another type or shape", name, their_name, f"{ours} → {theirs}"))
            continue
        mine, its = before.array(name), after.array(their_name)
        apart = distance(mine, its)
        if (mine == its).all() if apart is None else not apart.largest:  # strings have no distance
            equal += 1
        else:
            changes.append(WeightChange("other values", name, their_name, ours, apart))
    matched = set(pairs.values())
    changes += [
        WeightChange("only before", name, None, comparison.before.values[name].type)
        for name in comparison.before.initializers
        if name not in pairs
    ]
    changes += [
        WeightChange("only after", None, name, comparison.after.values[name].type)
        for name in comparison.after.initializers
        if name not in matched
    ]
    return Weights(equal, tuple(changes))


def _pairs(comparison: GraphComparison, before: Tensors, after: Tensors) -> Iterator[tuple[str, str]]:
    """Yield the pairs of initializers: inputs of matched nodes, then equal content, then equal names."""
    ours, theirs = comparison.before, comparison.after
    free_ours = dict.fromkeys(name for name in ours.initializers if name in before)
    free_theirs = dict.fromkeys(name for name in theirs.initializers if name in after)

    def pair_up(name: str, their_name: str) -> Iterator[tuple[str, str]]:
        if (
            name in free_ours
            and their_name in after
            and (their_name in free_theirs or their_name not in theirs.initializers)
        ):
            del free_ours[name]
            free_theirs.pop(their_name, None)
            yield name, their_name

    for index, match in comparison.matches.items():
        mine, its = ours.nodes[index], theirs.nodes[match]
        straight = list(zip(mine.inputs, its.inputs, strict=False))
        if mine.commutes and not any(name in before and their_name in after for name, their_name in straight):
            straight = list(zip(mine.inputs, reversed(its.inputs), strict=False))
        for name, their_name in straight:
            yield from pair_up(name, their_name)
    by_content = {_content(after.array, name): name for name in free_theirs}
    for name in list(free_ours):
        if (equal_name := by_content.get(_content(before.array, name))) is not None:
            yield from pair_up(name, equal_name)
    for name in [name for name in free_ours if name in free_theirs]:
        yield from pair_up(name, name)


def _content(array: Callable[[str], Any], name: str) -> tuple[object, ...]:
    content = array(name)
    data = content.tobytes() if content.dtype.kind != "O" else repr(content.tolist()).encode()  # "O": strings
    return str(content.dtype), content.shape, hashlib.sha256(data).digest()
