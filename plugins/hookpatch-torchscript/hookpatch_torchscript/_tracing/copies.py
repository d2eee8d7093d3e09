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
        originals = memo.get(id(memo), [])  # where copy.deepcopy keeps the objects that were copied
        self._parameters: Final = [
            _TensorContent(memo[id(original)], original)
            for original in originals
            if isinstance(original, torch.nn.Parameter)
        ]
        self.ours: Final = {
            id(original): memo[id(original)] for original in originals if isinstance(original, torch.nn.Parameter)
        }

    def restore(self) -> None:
        """Give the parameters of the copies the content of the program's."""
        for parameter in self._parameters:
            parameter.restore()

    def fresh(self) -> Callable[..., Any]:
        """Return a copy that shares parameters with the other copies, and nothing with the program."""
        self.restore()
        fresh_copy: Callable[..., Any] = copied(
            self._copy, {id(parameter.ours): parameter.ours for parameter in self._parameters}
        )
        return fresh_copy


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
        snapshots: list[_TensorContent] = []
        for their in theirs:
            ours = original.ours.get(id(their))
            if ours is None:
                ours = their.detach().clone().requires_grad_(their.requires_grad)
                snapshots.append(_TensorContent(ours, their.detach()))
            self._state.append(ours)
        for node in _constants(graph):  # the copy of a graph shares them with the graph
            node.t_("value", node.t("value").detach().clone())
            snapshots.append(_TensorContent(node.t("value"), node.t("value").clone()))
        self._kept: Final = snapshots
        self._run: Final = torch._C._create_function_from_graph("forward", graph)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._original.restore()
        for snapshot in self._kept:
            snapshot.restore()
        arguments = [*args, *(kwargs[name] for name in self._names[len(args) :])]
        with _jit.optimized_execution(False):  # the recorded operations count, not optimised ones
            return self._run(*arguments, *self._state)


def copied(target: Any, memo: Memo) -> Any:
    """Return a deep copy of a callable; ``copy.deepcopy`` alone does not copy functions.

    Args:
        target: a module, function, method or another object.
        memo: the copies made so far, by ``id``.
    """
    if id(target) in memo:
        return memo[id(target)]
    if isinstance(target, FunctionType):
        return _function(target, memo)
    if isinstance(target, MethodType):
        return MethodType(target.__func__, copied(target.__self__, memo))
    if isinstance(target, functools.partial):
        args = [copied(arg, memo) for arg in target.args]
        return functools.partial(
            copied(target.func, memo), *args, **{k: copied(v, memo) for k, v in target.keywords.items()}
        )
    if isinstance(target, torch.nn.Module):
        for module in target.modules():
            memo.update({id(value): _owned_tensor(value) for value in vars(module).values() if _has_no_copy(value)})
    if isinstance(target, ModuleType) or _has_no_copy(target):
        return _owned_tensor(target)
    return copy.deepcopy(target, memo)


def _has_no_copy(value: object) -> bool:
    """Return True if ``copy.deepcopy`` refuses a value: scripted functions, locks, tensors that are no leaves."""
    return isinstance(value, _SHARED) or (isinstance(value, torch.Tensor) and not value.is_leaf)


def _owned_tensor(value: Any) -> Any:
    return value.detach().clone().requires_grad_() if isinstance(value, torch.Tensor) else value


def _function(function: FunctionType, memo: Memo) -> FunctionType:
    """Return a copy of a function, with copies of its closure and of stateful globals."""
    namespace = function.__globals__
    stateful = [name for name in function.__code__.co_names if _has_state(namespace.get(name), function.__module__)]
    if function.__closure__ is None and not stateful:
        return function
    cells = tuple(CellType() for _ in function.__closure__ or ())
    names = dict(namespace)
    function_copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells or None)
    function_copy.__kwdefaults__, function_copy.__qualname__ = function.__kwdefaults__, function.__qualname__
    memo[id(function)] = function_copy  # the function may hold itself
    names.update({name: copied(namespace[name], memo) for name in stateful})
    for ours, theirs in zip(cells, function.__closure__ or (), strict=True):
        try:
            ours.cell_contents = copied(theirs.cell_contents, memo)
        except ValueError:  # not assigned yet
            continue
    return function_copy


def _has_state(value: object, module: str) -> bool:
    if isinstance(value, FunctionType):
        return value.__module__.partition(".")[0] == module.partition(".")[0] != "torch"
    return isinstance(value, torch.nn.Module | torch.Tensor) or (
        isinstance(value, list | dict | set) and all(isinstance(element, _PLAIN) for element in value)
    )


def _constants(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        if node.kind() == "prim::Constant" and node.hasAttribute("value") and node.kindOf("value") == "t":
            yield node
        for inner in node.blocks():
            yield from _constants(inner)


@final
class _TensorContent:
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
