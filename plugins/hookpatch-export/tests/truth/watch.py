"""Find the lines of a model that decide by a tensor's value or by a size, while the model runs in eager mode.

Real tensors with real values run: with symbolic shapes, code that depends on data would not run.
A TorchFunctionMode returns Numbers (number.py) for sizes and for Python numbers read from a tensor. A Number reports
each decision of Python by the Number, and becomes a plain number as an argument of torch. A TorchDispatchMode sees the
operators that torch tags as data-dependent (``item``, ``nonzero``, an index by a mask, ``equal``). The origin of a
tensor is followed by the storage. The inputs and the model's state are data. A tensor made of sizes
(``torch.arange(n)``) is no data, and a number read from the tensor is ``either``. Sizes that no input can change
(axes.py) are constants: the sizes of the model's state, the last size of a layer's output.

Kept apart are three kinds of decision. ``inside``: torch decides in an operator or a function of torch, for example a
broadcast of two sizes. ``rank``: a tensor's rank decides, which no capture makes dynamic. ``either``: a whole number
read from a tensor's value is given to torch as a size. Not seen are decisions by a bool from ``not`` or ``in``, by an
array of NumPy, and by the length of ``x.shape``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo  # else the first mode imports torch._dynamo, slowly, while each instruction is recorded
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from truth.axes import Axes
from truth.frames import Place, standing
from truth.number import Number, Numbers, Pieces, plain
from truth.origin import Origin
from truth.remembering import remembering

_DATA = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_VALUES = {"item", "__bool__", "__int__", "__float__", "__index__", "__complex__", "tolist", "numpy", "__array__"}
_SHAPES = {"size", "__len__", "dim", "ndimension", "numel", "nelement", "stride"}
_GETTERS = {torch.Tensor.shape.__get__: "shape", torch.Tensor.ndim.__get__: "ndim"}  # type: ignore[attr-defined]


@dataclass
class Decisions:
    """The decisions of a line: the operations (``bool``, ``index``, ``len``, an operator), and all outcomes."""

    how: set[str] = field(default_factory=set)
    outcomes: list[str] = field(default_factory=list)


@dataclass
class Seen:
    """The decisions, by line of user code. ``beneath`` has the lines with a call that leads to a decision."""

    data: dict[Place, Decisions] = field(default_factory=dict)
    shape: dict[Place, Decisions] = field(default_factory=dict)
    either: dict[Place, Decisions] = field(default_factory=dict)
    inside: dict[Place, Decisions] = field(default_factory=dict)
    rank: dict[Place, Decisions] = field(default_factory=dict)
    beneath: set[Place] = field(default_factory=set)

    def decided(self, kind: str, how: str, outcome: Any) -> None:
        """Record a decision of the current line, by a value (``data``), a size (``shape``) or a value made of sizes."""
        current = standing()
        if current is None or current.unpacks or (current.iterates and how != "iter"):
            return
        if current.inside and kind in ("shape", "rank"):
            kind = "inside"
        decisions = getattr(self, kind).setdefault(current.place, Decisions())
        decisions.how.add(how)
        decisions.outcomes.append(repr(outcome))
        self.beneath.update(current.callers)


class _Operators(TorchDispatchMode):
    supports_higher_order_operators = True  # torch.cond

    def __init__(self, observation: Seen, origin: Origin) -> None:
        super().__init__()
        self.observation, self.origin = observation, origin
        self.depending = 0  # operators that ran, and whose result's sizes depend on values

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        depends = bool(_DATA.intersection(getattr(func, "tags", ())))
        if getattr(func, "overloadpacket", None) is torch.ops.aten.index:
            depends = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
        result = func(*args, **kwargs)
        if depends:
            self.depending += 1
            outcome = pytree.tree_map_only(torch.Tensor, lambda tensor: tuple(tensor.shape), result)
            kind = "data" if self.origin.of((args, kwargs)) == "data" else "either"
            self.observation.decided(kind, func.__name__, outcome)
        return result


class _Functions(TorchFunctionMode):
    def __init__(self, observation: Seen, origin: Origin, operators: _Operators, axes: Axes) -> None:
        super().__init__()
        self.observation, self.origin, self.operators, self.axes = observation, origin, operators, axes

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = _GETTERS.get(func) or getattr(func, "__name__", "")
        kind = self.origin.of((args, kwargs))
        with_numbers, depending = (args, kwargs), self.operators.depending
        if self.origin.sized((args, kwargs)):
            self.observation.decided("either", name, None)
        if name in ("tensor", "as_tensor") and kind == "shape":  # a trace makes a constant of it
            self.observation.decided(kind, name, plain(args))
        args, kwargs = plain(args), plain(kwargs)
        if name == "__repr__":  # torch reads values to print a tensor; a capture prints the stand-in's name
            with torch.utils._python_dispatch._disable_current_modes():
                return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if name in _VALUES:
            outcome = result.tolist() if hasattr(result, "tolist") else result
            self.observation.decided("data" if kind == "data" else "either", name, outcome)
        if name in ("item", "tolist"):
            decided = self.observation.decided
            return pytree.tree_map(lambda number: Number(number, kind, decided), result) if kind else result
        if name in _SHAPES or name in ("shape", "ndim"):
            return self._size(name, result, args, kwargs)
        if depending == self.operators.depending and name not in ("tensor", "as_tensor"):
            self.axes.record(func, *with_numbers, result)
        if kind and (name.endswith("_") or name == "__setitem__" or "out" in kwargs):
            self.origin.mark((args[:1], kwargs.get("out")), kind)
        self.origin.mark(result, kind)
        if name in ("unbind", "split") and isinstance(result, tuple) and self._counts(name, args, kwargs):
            result = Pieces(result)
            result.walked = lambda: self.observation.decided("shape", "iter", len(result))
        return result

    def _counts(self, name: str, args: Any, kwargs: Any) -> bool:
        """Return True if a size that an input can change decides the number of tensors."""
        by = args[1] if name == "split" and len(args) > 1 else None
        dim = kwargs.get("dim", args[-1] if len(args) == (3 if name == "split" else 2) else 0)
        return not isinstance(by, list | tuple) and dim % args[0].ndim in self.axes.changing(args[0])

    def _size(self, name: str, result: Any, args: Any, kwargs: Any) -> Any:
        """Return the numbers of a tensor's shape: constants as plain numbers, the others as Numbers."""
        tensor, changing = args[0], self.axes.changing(args[0])
        if not changing or (name == "__len__" and 0 not in changing):
            return result
        if name == "__len__":  # len() takes a plain int alone
            self.observation.decided("shape", "len", result)
            return result
        if isinstance(result, int):
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if name == "size" and dim % tensor.ndim not in changing:
                return result
            kind = "rank" if name in ("dim", "ndimension", "ndim") else "shape"
            return Number(result, kind, self.observation.decided)
        constants = set() if name == "stride" else set(range(tensor.ndim)) - changing
        decided = self.observation.decided
        return Numbers(
            size if axis in constants else Number(size, "shape", decided) for axis, size in enumerate(result)
        )


@contextmanager
def watched(model: torch.nn.Module, inputs: Any) -> Iterator[Seen]:
    """Record the decisions of the block by the inputs and by the model's state."""
    observation, origin, axes = Seen(), Origin(), Axes()
    axes.fix([*model.parameters(), *model.buffers()])
    origin.mark([inputs, [*model.parameters()], [*model.buffers()]], "data")
    with ExitStack() as stack:
        stack.enter_context(remembering(observation.decided))
        operators = stack.enter_context(_Operators(observation, origin))
        stack.enter_context(_Functions(observation, origin, operators, axes))
        yield observation
