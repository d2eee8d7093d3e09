"""Inputs other than the example: sizes of axes, values of tensors, each a small change with a description."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch

from hookpatch_probe.example import Arranged, Example, Tensors
from hookpatch_probe.seed import seeded

LARGE: Final = 1_000_000  # elements; no change makes a larger tensor


@final
@dataclass(frozen=True)
class Change:
    """A change of the example's tensors.

    Attributes:
        words: the change in words: ``batch 1``, ``x negated``.
        apply: takes the tensors, returns others.
        size: the new size of an axis; None for a change of values.
        resized: the same change of the same axes to another size; None for a change of values.
        axes: the changed axes, as (tensor, axis); None for a change of values.
        rearranges: whether lists, dicts or the number of axes are changed; no other change is combined with this one.
    """

    words: str
    apply: Callable[[Tensors], Tensors]
    size: int | None = None
    resized: Callable[[int], Change] | None = None
    axes: tuple[tuple[int, int], ...] | None = None
    rearranges: bool = False


def sizes(example: Example, apart: bool = True) -> Iterator[tuple[int, list[Change]]]:
    """Yield for each axis, or group of axes, the size in the example and the changes of size, simplest first.

    Args:
        example: the example.
        apart: whether axes of equal size and place in several tensors, like the batch, are also changed apart.
    """
    # An index out of range makes CUDA fail for good, and the program, too: off the CPU no axis is made longer.
    may_grow = all(tensor.device.type == "cpu" for tensor in example.tensors)
    for axes in axes_of(example, apart):
        index, axis = axes[0]
        old = example.tensors[index].shape[axis]
        news = [1, 2, old + 1, 2 * old]
        if max(tensor.numel() for tensor in example.tensors) * 8 <= LARGE:
            news.append(8 * old)
        yield old, [resized(example, axes, new) for new in dict.fromkeys(news) if new < old or (may_grow and new > old)]


def axes_of(example: Example, apart: bool) -> list[tuple[tuple[int, int], ...]]:
    """Return groups of axes, as (tensor, axis): of equal size and place, of equal size, and each axis alone."""
    every = [
        (index, axis)
        for index, tensor in enumerate(example.tensors)
        for axis, size in enumerate(tensor.shape)
        if size > 0
    ]
    groups: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for index, axis in every:
        size = example.tensors[index].shape[axis]
        groups.setdefault(("one place", axis, size), []).append((index, axis))
        groups.setdefault(("one size", size), []).append((index, axis))
        groups.setdefault(("alone", index, axis), []).append((index, axis))
    order = sorted(groups, key=lambda key: ("one place", "one size", "alone").index(str(key[0])))
    unique = dict.fromkeys(tuple(groups[key]) for key in order)
    together = {axis for key, axes in groups.items() if key[0] == "one place" and len(axes) > 1 for axis in axes}
    return [axes for axes in unique if apart or len(axes) > 1 or axes[0] not in together]


def _axis_name(example: Example, axes: Sequence[tuple[int, int]]) -> str:
    with_axes = [index for index, tensor in enumerate(example.tensors) if tensor.dim()]
    if list(axes) == [(index, 0) for index in with_axes]:
        return "batch"
    return ", ".join(f"{example.names[index]}.shape[{axis}]" for index, axis in axes)


def resized(example: Example, axes: tuple[tuple[int, int], ...], new: int) -> Change:
    """Return the change of axes, as (tensor, axis), to another size."""
    return _resize(_axis_name(example, axes), axes, new)


def _resize(name: str, axes: tuple[tuple[int, int], ...], new: int) -> Change:
    def apply(tensors: Tensors) -> Tensors:
        changed = list(tensors)
        for index, axis in axes:
            if index >= len(changed):  # an earlier change has left fewer tensors
                continue
            tensor = changed[index]
            if axis >= tensor.dim() or not tensor.shape[axis]:  # an earlier change has left nothing to repeat
                continue
            # repeat the values of the example: the model might refuse other values
            indices = torch.arange(new, device=tensor.device) % tensor.shape[axis]
            changed[index] = tensor.index_select(axis, indices)
            if tensor.shape[axis] == 1 and tensor.is_floating_point() and not torch.equal(tensor, tensor.round()):
                # not all equal: a mean would not show which of them count; whole numbers may be a mask
                steps = torch.linspace(1, 2, new, dtype=tensor.dtype, device=tensor.device)
                changed[index] *= steps.reshape([-1 if other == axis else 1 for other in range(tensor.dim())])
        return tuple(changed)

    words = f"{name} {new}" if name == "batch" else f"{name} = {new}"
    return Change(words, apply, new, lambda size: _resize(name, axes, size), axes)


def values(example: Example) -> Iterator[Change]:
    """Yield changes of the values of each tensor, simplest first, and leave out changes without effect."""
    for index, tensor in enumerate(example.tensors):
        for words, change in _values(tensor):
            if not torch.equal(change(tensor), tensor):
                yield _change(example.names[index], index, words, change)


def _change(name: str, index: int, words: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    def apply(tensors: Tensors) -> Tensors:
        return (*tensors[:index], change(tensors[index]), *tensors[index + 1 :])

    return Change(f"{name} {words}", apply)


def _values(tensor: torch.Tensor) -> Iterator[tuple[str, Callable[[torch.Tensor], torch.Tensor]]]:
    yield "zeros", torch.zeros_like
    if tensor.dtype == torch.bool:
        yield "inverted", torch.logical_not
    elif tensor.is_floating_point() or tensor.is_complex():
        yield "negated", torch.neg
        yield "times 100", lambda original: original * 100
        yield "divided by 100", lambda original: original / 100
        yield "random", _random
    elif tensor.numel():
        low, high = int(tensor.min()), int(tensor.max())
        yield f"all {high}", lambda original: torch.full_like(original, high)
        yield f"all {low}", lambda original: torch.full_like(original, low)
        yield "random in its range", lambda original: torch.randint_like(original, low, high + 1)
        if not tensor.dim() and tensor.device.type == "cpu":
            yield "one more", lambda original: original + 1
            yield "ten more", lambda original: original + 10
    if tensor.dim():
        yield "reversed", lambda original: original.flip([*range(original.dim())])


def _random(tensor: torch.Tensor) -> torch.Tensor:
    return torch.randn(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def applied(changes: Sequence[Change], tensors: Tensors) -> Tensors:
    """Return the tensors after changes, in order; random values are the same each time."""
    with seeded():
        for change in changes:
            before, tensors = tensors, change.apply(tensors)
            if isinstance(before, Arranged) and not isinstance(tensors, Arranged):
                tensors = Arranged(tensors)
                tensors.layout = before.layout
    return tensors


def words(changes: Sequence[Change]) -> str:
    """Return the changes in words; no change at all is called the example input."""
    return ", ".join(change.words for change in changes) or "the example input"
