"""Copy a model or function, and its trace: a probe may write into the copies, never into the originals."""

from __future__ import annotations

import copy
import functools
import io
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

    def fresh(self) -> Callable[..., Any]:
        """Return a copy that shares parameters with the other copies, and nothing with the program."""
        for one in self._parameters:
            one.restore()
        made: Callable[..., Any] = copied(self._copy, {id(one.ours): one.ours for one in self._parameters})
        return made


@final
class Traced:
    """A copy of the trace, so that the program's trace is neither run nor specialised.

    Args:
        traced: a traced module or function.
        method: the method of a module.
    """

    def __init__(self, traced: Any, method: str) -> None:
        self._loaded: Final = _loaded(traced)
        self._method: Final = method
        script = isinstance(self._loaded, torch.jit.ScriptModule)
        graph = getattr(self._loaded, method).inlined_graph if script else self._loaded.inlined_graph
        changing = [*(self._loaded.buffers() if script else ()), *_constants(graph)]
        theirs = dict(traced.named_parameters()) if script and isinstance(traced, torch.jit.ScriptModule) else {}
        ours = dict(self._loaded.named_parameters()) if script else {}
        self._state: Final = [
            *(_Kept(one, one.detach().clone()) for one in changing),
            *(_Kept(ours[name], theirs[name]) for name in ours.keys() & theirs.keys()),
        ]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for one in self._state:
            one.restore()
        called = self._loaded if self._method == "forward" else getattr(self._loaded, self._method)
        with _jit.optimized_execution(False):  # the recorded operations count, not optimised ones
            return called(*args, **kwargs)


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
        args = [copied(one, memo) for one in thing.args]
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


def _loaded(traced: Any) -> Any:
    file = io.BytesIO()
    try:
        torch.jit.save(traced, file)
        file.seek(0)
        return _jit.load(file)
    except RuntimeError:  # the trace calls Python, or has a name that torch cannot read
        if isinstance(traced, torch.jit.ScriptModule):
            return copy.deepcopy(traced)
        return torch._C._create_function_from_graph("forward", traced.graph.copy())


def _constants(block: Any) -> Iterator[torch.Tensor]:
    for node in block.nodes():
        if node.kind() == "prim::Constant" and node.hasAttribute("value") and node.kindOf("value") == "t":
            yield node.t("value")
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
