"""The example input of a model: the arguments, and the tensors in the arguments by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

import torch
from torch.utils import _pytree

Tensors: TypeAlias = tuple[torch.Tensor, ...]


class Arranged(tuple[torch.Tensor, ...]):
    """Tensors of arguments arranged otherwise than the example's: a longer list, another order of a dict.

    Attributes:
        layout: the arrangement of the arguments.
    """

    layout: _Layout


@final
class _Layout:
    """Arguments taken apart: the other values, and the places of the tensors."""

    def __init__(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], parameters: Sequence[inspect.Parameter]
    ) -> None:
        paths, self.spec = _pytree.tree_flatten_with_path((args, dict(kwargs)))
        self.leaves: Final = [leaf for _, leaf in paths]
        self.indices: Final = [index for index, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.names: Final = tuple(_name(paths[index][0], parameters) for index in self.indices)


@final
class Example:
    """Arguments of a call. Lives as long as the probe.

    Attributes:
        tensors: the tensors in the arguments, in order.
        names: the names of the tensors: ``x``, ``pair[0]``.
    """

    def __init__(self, called: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Take the arguments apart.

        Args:
            called: the function called with the arguments, or a module: the parameters of ``forward`` give the names.
            args: the arguments.
            kwargs: the arguments by keyword.

        Raises:
            TypeError: the function does not take the arguments.
        """
        self._signature: Final = _signature(called.forward if isinstance(called, torch.nn.Module) else called)
        self._parameters: Final = [*self._signature.bind(*args, **kwargs).signature.parameters.values()]
        self._layout: Final = _Layout(args, kwargs, self._parameters)
        self.tensors: Final[Tensors] = tuple(self._layout.leaves[index] for index in self._layout.indices)
        self.names: Final = self._layout.names

    def arguments(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with copies of other tensors in the place of the example's."""
        layout = self._layout_of(tensors)
        leaves = list(layout.leaves)
        for index, tensor in zip(layout.indices, tensors, strict=True):
            leaves[index] = _copy(tensor, like=leaves[index])
        args, kwargs = _pytree.tree_unflatten(leaves, layout.spec)
        return args, kwargs

    def names_of(self, tensors: Sequence[torch.Tensor]) -> tuple[str, ...]:
        """Return the names of tensors, also if arranged otherwise than the example's."""
        return self._layout_of(tensors).names

    def rearranged(self, change: Callable[[Any], Any], tensors: Sequence[torch.Tensor]) -> Arranged:
        """Return the tensors of arguments after a change of lists and dicts.

        Args:
            change: takes a pair of arguments and keyword arguments, returns another.
            tensors: the tensors of the arguments before the change.
        """
        args, kwargs = change(self.arguments(tensors))
        layout = _Layout(args, kwargs, self._parameters)
        arranged = Arranged(layout.leaves[index] for index in layout.indices)
        arranged.layout = layout
        return arranged

    def _layout_of(self, tensors: Sequence[torch.Tensor]) -> _Layout:
        return tensors.layout if isinstance(tensors, Arranged) else self._layout

    def dynamic(self) -> dict[str, Any]:
        """Return a ``dynamic_shapes`` with each axis of each tensor left to torch.export to find out."""
        args, kwargs = self.arguments(self.tensors)
        return {
            name: _pytree.tree_map(_axes, value)
            for name, value in self._signature.bind(*args, **kwargs).arguments.items()
        }


def _signature(called: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(called)
    except ValueError:  # a function of C's

        def unknown(*inputs: Any, **named: Any) -> None: ...

        return inspect.signature(unknown)


def _copy(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return a copy, since a model may write into an input; with a gradient if one of the two has a gradient."""
    requires_grad = like.requires_grad or tensor.requires_grad
    return tensor.detach().clone().requires_grad_(requires_grad and tensor.is_floating_point())


def _axes(leaf: Any) -> dict[int, Any] | None:
    return dict.fromkeys(range(leaf.dim()), torch.export.Dim.AUTO) if isinstance(leaf, torch.Tensor) else None


def _name(path: Sequence[Any], parameters: Sequence[inspect.Parameter]) -> str:
    """Return the name of a leaf of ``(args, kwargs)``: the parameter's name, and the place in the argument."""
    key = path[1]
    if isinstance(key, _pytree.MappingKey):
        return f"{key.key}{_pytree.keystr(tuple(path[2:]))}"
    for index, parameter in enumerate(parameters):
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return f"{parameter.name}[{key.idx - index}]{_pytree.keystr(tuple(path[2:]))}"
        if index == key.idx:
            return f"{parameter.name}{_pytree.keystr(tuple(path[2:]))}"
    raise AssertionError("the arguments were bound to the signature")


def flat(outputs: Any) -> list[torch.Tensor]:
    """Return the tensors in the result of a model, and numbers as tensors; other values are left out."""
    leaves = _pytree.tree_leaves(outputs)
    return [
        leaf.detach() if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)
        for leaf in leaves
        if isinstance(leaf, torch.Tensor | int | float | complex)
    ]


Run: TypeAlias = Callable[[Tensors], list[torch.Tensor]]
