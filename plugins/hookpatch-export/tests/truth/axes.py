"""Find the axes of tensors whose sizes an input can change, while a model runs.

An input can change each axis of the inputs, and no axis of the model's state. For the result of a function of torch,
the function runs again on tensors without data: for each size that can change once with the double, once with half of
the size. An axis of the result that differs can change. If the function fails with another size, an axis can
change. The exception is an axis with a constant size of an argument, if no size that can change is equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from truth.number import Number

Sized = Callable[[int], int]  # returns the size to be used in place of a size
_TAKES_SIZES = {
    "view",
    "reshape",
    "expand",
    "unflatten",
    "zeros",
    "ones",
    "empty",
    "full",
    "new_zeros",
    "new_ones",
    "rand",
    "randn",
}


class Axes:
    """The changing axes of tensors. The tensors are kept alive, so that no new tensor has the id of a known tensor."""

    def __init__(self) -> None:
        self._changing: dict[int, tuple[torch.Tensor, frozenset[int]]] = {}

    def fix(self, tensors: list[torch.Tensor]) -> None:
        """Record tensors of which no input changes a size."""
        for tensor in tensors:
            self._changing[id(tensor)] = tensor, frozenset()

    def changing(self, tensor: torch.Tensor) -> frozenset[int]:
        """Return the axes that an input can change: all axes of a tensor without a record."""
        known = self._changing.get(id(tensor))
        return frozenset(range(tensor.ndim)) if known is None else known[1]

    def record(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Record the changing axes of a function's result; the arguments have their Numbers."""
        if torch._C._functorch.peek_interpreter_stack() is not None:  # under vmap a function cannot run again
            return
        results = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        leaves = [*_leaves((args, kwargs))]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        sizes = {tensor.shape[axis] for tensor in tensors for axis in self.changing(tensor)}
        sizes |= {int(leaf.value) for leaf in leaves if isinstance(leaf, Number)}
        constant = {
            size for tensor in tensors for axis, size in enumerate(tensor.shape) if axis not in self.changing(tensor)
        }
        if getattr(func, "__name__", "") in _TAKES_SIZES:
            constant |= {leaf for leaf in leaves if type(leaf) is int}
        shapes: list[tuple[int, ...]] = [tuple(tensor.shape) for tensor in results]
        others: list[list[tuple[int, ...]] | None] = [None]  # without tensors, the numbers tell the sizes
        if tensors:
            others = [other for size in sizes for other in self._run_with_others(func, args, kwargs, size)]
        for index, tensor in enumerate(results):
            self._changing[id(tensor)] = (
                tensor,
                frozenset(
                    axis
                    for axis, size in enumerate(shapes[index])
                    if not all(
                        size in constant - sizes if other is None else _size(other, index, axis) == size
                        for other in others
                    )
                ),
            )

    def _run_with_others(self, func: Any, args: Any, kwargs: Any, size: int) -> Iterator[list[tuple[int, ...]] | None]:
        """Yield the shapes of the result with other sizes in place of a changing size; None if the function fails."""
        for other in {2 * size, size // 2} - {0, size}:

            def sized(number: int, other: int = other) -> int:
                return other if number == size else number

            try:
                with _disable_current_modes():
                    result = func(*self._replaced(args, sized), **self._replaced(kwargs, sized))
            except Exception:  # this size cannot be another for the function, or the function needs data
                yield None
            else:
                yield [tuple(leaf.shape) for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]

    def _replaced(self, value: Any, sized: Sized) -> Any:
        """Return arguments with tensors without data, and with other sizes."""
        if isinstance(value, torch.Tensor):
            changing = self.changing(value)
            shape = [sized(size) if axis in changing else size for axis, size in enumerate(value.shape)]
            return torch.empty(shape, dtype=value.dtype, device="meta")
        if isinstance(value, Number):
            return sized(value.value) if type(value.value) is int else value.value
        if isinstance(value, slice):
            return slice(*(self._replaced(end, sized) for end in (value.start, value.stop, value.step)))
        if isinstance(value, list | tuple):
            replaced = [self._replaced(element, sized) for element in value]
            return (
                type(value)(*replaced)
                if hasattr(value, "_fields")
                else tuple(replaced)
                if isinstance(value, tuple)
                else replaced
            )
        if type(value) is dict:
            return {name: self._replaced(element, sized) for name, element in value.items()}
        return value


def _size(shapes: list[tuple[int, ...]], index: int, axis: int) -> int | None:
    """Return the size of an axis of one of the tensors; None if the other sizes gave other tensors."""
    return shapes[index][axis] if index < len(shapes) and axis < len(shapes[index]) else None


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the parts of arguments; a shape of Numbers has parts, too."""
    if isinstance(value, slice):
        value = [value.start, value.stop, value.step]
    if type(value) is dict:
        value = [*value.values()]
    if isinstance(value, list | tuple):
        for element in value:
            yield from _leaves(element)
    else:
        yield value
