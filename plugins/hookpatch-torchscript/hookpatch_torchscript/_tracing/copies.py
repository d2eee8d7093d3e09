"""Copy a model or function, and its trace: a probe may write into the copies, never into the originals."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Iterator
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final, TypeAlias, final

import torch

_jit: Final[Any] = torch.jit  # untyped
Memo: TypeAlias = dict[int, Any]
_SHARED: Final = (torch.jit.ScriptFunction, type(threading.Lock()), type(threading.RLock()))
_PLAIN: Final = int | float | str | torch.Tensor | torch.nn.Module  # elements of a copied list, dict or set


@final
class Original:
    """A copy of the traced model or function, in its first state for each call.

    Args:
        called: a module, a function, or a method of either.

    Raises:
        Exception: any error of an object that cannot be copied.
    """

    def __init__(self, called: Callable[..., Any]) -> None:
        memo: Memo = {}
        self._copy: Final = copied(called, memo)
        kept = memo.get(id(memo), [])  # where copy.deepcopy keeps the objects that were copied
        self._parameters: Final = [_Kept(memo[id(one)], one) for one in kept if isinstance(one, torch.nn.Parameter)]
        self.ours: Final = {id(one): memo[id(one)] for one in kept if isinstance(one, torch.nn.Parameter)}

    def restore(self) -> None:
        """Give the parameters of the copies the content of the program's."""
        for parameter in self._parameters:
            parameter.restore()

    def fresh(self) -> Callable[..., Any]:
        """Return a copy that shares parameters with the other copies, and nothing with the program."""
        self.restore()
        made: Callable[..., Any] = copied(
            self._copy, {id(parameter.ours): parameter.ours for parameter in self._parameters}
        )
        return made


@final
class Traced:
    """A copy of the trace, so that the program's trace is neither run nor specialised.

    The parameters are those of the model's copy, where the trace and the model share them.

    Args:
        traced: a traced module or function.
        method: the method of a module.
        original: the copy of the model.
    """

    def __init__(self, traced: Any, method: str, original: Original) -> None:
        self._original: Final = original
        script = isinstance(traced, torch.jit.ScriptModule)
        called = getattr(traced, method) if script else traced
        graph = called.inlined_graph.copy()
        self._names: Final = [argument.name for argument in called.schema.arguments][script:]
        theirs: list[Any] = []
        if script:
            graph, theirs = torch._C._jit_pass_lower_graph(graph, traced._c)
        self._state: Final[list[torch.Tensor]] = []
        kept: list[_Kept] = []
        for their in theirs:
            ours = original.ours.get(id(their))
            if ours is None:
                ours = their.detach().clone().requires_grad_(their.requires_grad)
                kept.append(_Kept(ours, their.detach()))
            self._state.append(ours)
        for node in _constants(graph):  # the copy of a graph shares them with the graph
            node.t_("value", node.t("value").detach().clone())
            kept.append(_Kept(node.t("value"), node.t("value").clone()))
        self._kept: Final = kept
        self._run: Final = torch._C._create_function_from_graph("forward", graph)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._original.restore()
        for one in self._kept:
            one.restore()
        given = [*args, *(kwargs[name] for name in self._names[len(args) :])]
        with _jit.optimized_execution(False):  # the recorded operations count, not optimised ones
            return self._run(*given, *self._state)


def copied(thing: Any, memo: Memo) -> Any:
    """Return a deep copy of a callable; ``copy.deepcopy`` alone does not copy functions.

    Args:
        thing: a module, function, method or another object.
        memo: the copies made so far, by ``id``.
    """
    if id(thing) in memo:
        return memo[id(thing)]
    if isinstance(thing, FunctionType):
        return _function(thing, memo)
    if isinstance(thing, MethodType):
        return MethodType(thing.__func__, copied(thing.__self__, memo))
    if isinstance(thing, functools.partial):
        args = [copied(arg, memo) for arg in thing.args]
        return functools.partial(
            copied(thing.func, memo), *args, **{k: copied(v, memo) for k, v in thing.keywords.items()}
        )
    if isinstance(thing, torch.nn.Module):
        for module in thing.modules():
            memo.update({id(value): _held(value) for value in vars(module).values() if _has_no_copy(value)})
    if isinstance(thing, ModuleType) or _has_no_copy(thing):
        return _held(thing)
    return copy.deepcopy(thing, memo)


def _has_no_copy(value: object) -> bool:
    """Return True if ``copy.deepcopy`` refuses a value: scripted functions, locks, tensors that are no leaves."""
    return isinstance(value, _SHARED) or (isinstance(value, torch.Tensor) and not value.is_leaf)


def _held(value: Any) -> Any:
    return value.detach().clone().requires_grad_() if isinstance(value, torch.Tensor) else value


def _function(function: FunctionType, memo: Memo) -> FunctionType:
    """Return a copy of a function, with copies of its closure and of stateful globals."""
    known = function.__globals__
    held = [name for name in function.__code__.co_names if _has_state(known.get(name), function.__module__)]
    if function.__closure__ is None and not held:
        return function
    cells = tuple(CellType() for _ in function.__closure__ or ())
    names = dict(known)
    made = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells or None)
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
    memo[id(function)] = made  # the function may hold itself
    names.update({name: copied(known[name], memo) for name in held})
    for ours, theirs in zip(cells, function.__closure__ or (), strict=True):
        try:
            ours.cell_contents = copied(theirs.cell_contents, memo)
        except ValueError:  # not assigned yet
            continue
    return made


def _has_state(value: object, module: str) -> bool:
    if isinstance(value, FunctionType):
        return value.__module__.partition(".")[0] == module.partition(".")[0] != "torch"
    return isinstance(value, torch.nn.Module | torch.Tensor) or (
        isinstance(value, list | dict | set) and all(isinstance(one, _PLAIN) for one in value)
    )


def _constants(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        if node.kind() == "prim::Constant" and node.hasAttribute("value") and node.kindOf("value") == "t":
            yield node
        for inner in node.blocks():
            yield from _constants(inner)


@final
class _Kept:
    """A tensor of a copy, with the content to restore."""

    def __init__(self, ours: torch.Tensor, before: torch.Tensor) -> None:
        self.ours: Final = ours
        self._before: Final = before
        self._version = ours._version

    def restore(self) -> None:
        if self.ours._version != self._version:  # the tensor was written into
            with torch.no_grad():
                self.ours.copy_(self._before)
            self._version = self.ours._version
