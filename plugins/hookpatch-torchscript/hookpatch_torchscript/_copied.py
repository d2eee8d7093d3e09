"""A model or function, and what was traced of it, as copies: what a probe writes is lost, and nothing else is."""

from __future__ import annotations

import copy
import functools
import io
import threading
from collections.abc import Callable, Iterator
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final, TypeAlias, final

import torch

_jit: Final[Any] = torch.jit  # it gives no types
Memo: TypeAlias = dict[int, Any]
_SHARED: Final = (torch.jit.ScriptFunction, type(threading.Lock()), type(threading.RLock()))
_PLAIN: Final = int | float | str | torch.Tensor | torch.nn.Module  # what a global list, dict or set may hold


@final
class Original:
    """What was traced, for calls that each find it as it was then. Lives as long as the probe.

    Args:
        called: a module, a function, or a method of either.

    Raises:
        Exception: whatever an object raises that cannot be copied.
    """

    def __init__(self, called: Callable[..., Any]) -> None:
        memo: Memo = {}
        self._copy: Final = copied(called, memo)
        kept = memo.get(id(memo), [])  # where copy.deepcopy keeps what it has copied
        self._parameters: Final = [_Kept(memo[id(one)], one) for one in kept if isinstance(one, torch.nn.Parameter)]

    def fresh(self) -> Callable[..., Any]:
        """Return a copy that shares its parameters with the other copies, and nothing with the program."""
        for one in self._parameters:
            one.put_back()
        made: Callable[..., Any] = copied(self._copy, {id(one.ours): one.ours for one in self._parameters})
        return made


@final
class Traced:
    """What was traced, loaded anew, so that the program's own is neither run nor specialised.

    Args:
        traced: a traced module or function.
        method: of a module, its method.
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
            one.put_back()
        called = self._loaded if self._method == "forward" else getattr(self._loaded, self._method)
        with _jit.optimized_execution(False):  # what was recorded counts, not what an optimiser makes of it
            return called(*args, **kwargs)


def copied(thing: Any, memo: Memo) -> Any:
    """Return a copy of a callable with all that it holds; for ``copy.deepcopy`` a function is a constant.

    Args:
        thing: a module, function, method or another object.
        memo: what is copied already, by ``id``.
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
    """Tell whether ``copy.deepcopy`` refuses something: what is scripted, locks, what was computed with a gradient."""
    return isinstance(value, _SHARED) or (isinstance(value, torch.Tensor) and not value.is_leaf)


def _held(value: Any) -> Any:
    return value.detach().clone().requires_grad_() if isinstance(value, torch.Tensor) else value


def _function(function: FunctionType, memo: Memo) -> FunctionType:
    """Return a function whose closure is a copy, and so are the globals that hold a state, in its package."""
    known = function.__globals__
    held = [name for name in function.__code__.co_names if _has_state(known.get(name), function.__module__)]
    if function.__closure__ is None and not held:
        return function
    cells = tuple(CellType() for _ in function.__closure__ or ())
    names = dict(known)
    made = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells or None)
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
    memo[id(function)] = made  # it may hold itself
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
    except RuntimeError:  # it calls back into Python, or a name in it is none that torch can read
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
    """A tensor of a copy, and what it is to hold."""

    def __init__(self, ours: torch.Tensor, before: torch.Tensor) -> None:
        self.ours: Final = ours
        self._before: Final = before
        self._version = ours._version

    def put_back(self) -> None:
        if self.ours._version != self._version:  # it was written into
            with torch.no_grad():
                self.ours.copy_(self._before)
            self._version = self.ours._version
