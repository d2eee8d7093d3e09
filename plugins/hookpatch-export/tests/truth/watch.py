"""Find the lines of a model that decide by a tensor's value or by a size, while the model runs in eager mode.

Real tensors with real values run: with symbolic shapes, code that depends on data would not run.
A TorchFunctionMode returns Numbers (number.py) for sizes and for Python numbers read from a tensor. A Number reports
each decision of Python by the Number, and becomes a plain number as an argument of torch. A TorchDispatchMode sees the
operators that torch tags as data-dependent (``item``, ``nonzero``, an index by a mask, ``equal``). The origin of a
tensor is followed by the storage. The inputs and the model's state are data. A tensor made of sizes
(``torch.arange(n)``) is no data, and a number read from the tensor is ``either``. Sizes of the model's state are
constants, and so are sizes of tensors computed from the state alone.

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
    def __init__(self, observation: Seen, origin: Origin, operators: _Operators) -> None:
        super().__init__()
        self.observation, self.origin, self.operators = observation, origin, operators

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = _GETTERS.get(func) or getattr(func, "__name__", "")
        kind = self.origin.of((args, kwargs))
        is_fixed, depending = self.origin.fixed((args, kwargs)), self.operators.depending
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
        if is_fixed and depending == self.operators.depending:
            self.origin.fix(result)
        if name in _SHAPES or name in ("shape", "ndim"):
            if is_fixed:  # of the model's state: a constant, in a capture too
                return result
            return self._size(name, result)
        if kind and (name.endswith("_") or name == "__setitem__" or "out" in kwargs):
            self.origin.mark((args[:1], kwargs.get("out")), kind)
        self.origin.mark(result, kind)
        if name in ("unbind", "split") and isinstance(result, tuple) and not isinstance(args[-1], list | tuple):
            result = Pieces(result)
            result.walked = lambda: self.observation.decided("shape", "iter", len(result))
        return result

    def _size(self, name: str, result: Any) -> Any:
        if name == "__len__":  # len() takes a plain int alone
            self.observation.decided("shape", "len", result)
            return result
        if isinstance(result, int):
            kind = "rank" if name in ("dim", "ndimension", "ndim") else "shape"
            return Number(result, kind, self.observation.decided)
        return Numbers(Number(size, "shape", self.observation.decided) for size in result)


@contextmanager
def watched(model: torch.nn.Module, inputs: Any) -> Iterator[Seen]:
    """Record the decisions of the block by the inputs and by the model's state."""
    observation, origin = Seen(), Origin()
    origin.fix([[*model.parameters()], [*model.buffers()]])
    origin.mark([inputs, [*model.parameters()], [*model.buffers()]], "data")
    with ExitStack() as stack:
        stack.enter_context(remembering(observation.decided))
        operators = stack.enter_context(_Operators(observation, origin))
        stack.enter_context(_Functions(observation, origin, operators))
        yield observation
