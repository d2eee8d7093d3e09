"""Follow the origin of tensors by their storage: the model's inputs and state, or sizes."""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch.utils import _pytree as pytree

from truth.number import Number, worse


class Origin:
    """The origin of tensors. The storages are kept alive, so that no new storage reuses a known address."""

    def __init__(self) -> None:
        self._kinds: dict[int, str] = {}
        self._kept: list[Any] = []

    def of(self, value: Any) -> str | None:
        """Return the worst of ``data``, ``shape`` and ``rank`` in a value; None for constants."""
        kinds = [kind for leaf in pytree.tree_leaves(value) if (kind := self._of_leaf(leaf))]
        return reduce(worse, kinds) if kinds else None

    def sized(self, value: Any) -> bool:
        """Return True if a whole number from a tensor's value is among the arguments."""
        for leaf in pytree.tree_leaves(value):
            if isinstance(leaf, slice) and self.sized([leaf.start, leaf.stop, leaf.step]):
                return True
            if isinstance(leaf, Number) and leaf.kind == "data" and type(leaf.value) is int:
                return True
        return False

    def _of_leaf(self, leaf: Any) -> str | None:
        if isinstance(leaf, Number):
            return leaf.kind
        if isinstance(leaf, slice):
            return self.of([leaf.start, leaf.stop, leaf.step])
        if isinstance(leaf, torch.Tensor) and (key := _storage(leaf)) is not None:
            return self._kinds.get(key._cdata)
        return None

    def mark(self, value: Any, kind: str | None) -> None:
        """Record the origin of the tensors in a value."""
        for leaf in pytree.tree_leaves(value) if kind else ():
            if isinstance(leaf, torch.Tensor) and (key := _storage(leaf)) is not None:
                before = self._kinds.get(key._cdata)
                self._kinds[key._cdata] = worse(before, kind) if before else kind  # type: ignore[arg-type]
                self._kept.append(key)


def _storage(tensor: torch.Tensor) -> Any:
    try:
        return tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):  # a tensor under vmap has none
        return None
