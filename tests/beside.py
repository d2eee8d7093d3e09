"""Patch small modules with hookpatch, wrapt and mock, and judge each by one oracle: right, loud, or silently wrong.

A cell is a verb, a kind of callable, a reach, a scope and a way of the call. The oracle: each call that is made or
begun inside the block meets the patch once. A call outside meets no patch. Afterwards each owner has its earlier
attributes.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from unittest import mock

import wrapt

import hookpatch

Verdict: TypeAlias = Literal["right", "loud", "silent"]

SOURCE: Final = """
    import warnings

    def function(x, y=2): return "plain", x, y
    async def coroutine(x, y=2): return "plain", x, y
    def generator(x, y=2): yield "plain", x, y
    async def async_generator(x, y=2): yield "plain", x, y
    def function_in_a_dict(x, y=2): return "plain", x, y
    def function_in_a_list(x, y=2): return "plain", x, y
    def warning(x, y=2):
        warnings.warn("look out", stacklevel=2)
        return "plain", x, y

    class Thing:
        def __call__(self, x, y=2): return "plain", x, y
        def method(self, x, y=2): return "plain", x, y
        @classmethod
        def of_class(cls, x, y=2): return "plain", x, y
        @staticmethod
        def static(x, y=2): return "plain", x, y
        def bare(x=1, y=2): return "plain", x, y

    class Child(Thing): pass

    class Class:
        def __init__(self, x, y=2): self.x, self.y = x, y
        def __iter__(self): return iter(("plain", self.x, self.y))

    thing = Thing()
    names = {"before": 1, "entry": function_in_a_dict, "after": 2}
    entries = [1, function_in_a_list, 2]
"""
# By kind: the address, and an expression for a bound name, evaluated in the module before a patch.
PLACES: Final = {
    "function": ("function", "function"),
    "coroutine": ("coroutine", "coroutine"),
    "generator": ("generator", "generator"),
    "async generator": ("async_generator", "async_generator"),
    "method": ("Thing.method", "thing.method"),
    "class method": ("Thing.of_class", "Thing.of_class"),
    "static method": ("Thing.static", "Thing.static"),
    "called on the class": ("Thing.bare", "Thing.bare"),
    "inherited method": ("Child.method", "Child().method"),
    "inherited class method": ("Child.of_class", "Child.of_class"),
    "inherited static method": ("Child.static", "Child.static"),
    "object": ("thing", "thing"),
    "class": ("Class", "Class"),
    "C function": ("c_function", "c_function"),
    "entry of a dict": ("names['entry']", "names['entry']"),
    "entry of a list": ("entries[1]", "entries[1]"),
}
VERBS: Final = ("wrap", "inject", "default", "replace", "derive", "remove")
WAYS: Final = ("by place", "by keyword", "bound before", "begun inside", "kept from inside", "signature", "wraps")
BY_A_NEIGHBOUR: Final = "by another thread"  # a patch with scope="task" is not on for another thread
FRAME: Final = "the line of a warning"  # found by ``stacklevel=2``
_numbers: Final = iter(range(sys.maxsize))


@dataclass(frozen=True)
class Cell:
    """A wish for a patch, and a way to call the patched object."""

    verb: str
    kind: str
    way: str
    far: bool  # reach="everywhere": also names bound before
    scope: Literal["process", "task"] = "process"


class World:
    """A module of its own for a cell."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.name: Final = f"world{next(_numbers)}"
        further = "c_function = round\n" if kind == "C function" else ""  # reach="everywhere" changes all holders
        (folder / f"{self.name}.py").write_text(textwrap.dedent(SOURCE) + further)
        importlib.invalidate_caches()
        self.module: Final = importlib.import_module(self.name)
        self.path, name = ("warning", "warning") if kind == FRAME else PLACES[kind]
        self.found: Final = name
        (folder / f"user_of_{self.name}.py").write_text(f"import {self.name} as world\nbound = world.{name}\n")
        importlib.invalidate_caches()
        self.user: Final = importlib.import_module(f"user_of_{self.name}")
        self.calls: Final[list[None]] = []
        self.kept: Final[list[Any]] = []
        owner, bracket, key = self.path.partition("[")
        self.key: Final[Any] = eval(key.rstrip("]")) if bracket else None  # the key of an entry
        parts = owner.split(".") if not bracket else [owner, ""]
        self.owner: Any = getattr(self.module, parts[0]) if len(parts) > 1 else self.module
        self.attribute: Final = parts[-1]
        self.second: Final = "ndigits" if kind == "C function" else "y"
        self._called: Final = _as_the_others if kind == "C function" else lambda call: call

    def get(self) -> Any:
        return self._called(eval(self.found, vars(self.module)))

    def begin_neighbour(self) -> None:
        """Start a thread that calls the patched object on demand, outside the task of the block."""
        self._asked = threading.Event()
        self._answers: list[Any] = []
        self._neighbour = threading.Thread(target=self._answer, daemon=True)
        self._neighbour.start()

    def _answer(self) -> None:
        self._asked.wait()
        self._answers.append(result_of(self.get()(1)))

    def by_a_neighbour(self) -> Any:
        self._asked.set()
        self._neighbour.join()
        return self._answers[0]

    @property
    def early(self) -> Any:
        return self._called(self.user.bound)

    @property
    def seen(self) -> int:
        return len(self.calls)

    def state(self) -> list[tuple[Any, list[tuple[str, Any]]]]:
        owners = [self.module, self.module.Thing, self.module.Child, self.module.Class]
        _ = self.module.Class.__annotations__  # made at the first read
        tables: list[Any] = [
            (self.module, [*self.module.names.items()]),
            (self.module, [*enumerate(self.module.entries)]),
        ]
        return [*((owner, [*vars(owner).items()]) for owner in owners), *tables]


_NUMBER: Final = 1.23456789


def _as_the_others(call: Any) -> Any:
    """Return a function that calls ``round`` and answers as the other kinds: the digits show the second argument."""

    def by_place(x: int = 1, *digits: int, **named: int) -> Any:
        result = call(_NUMBER, *digits, **({"ndigits": named["y"]} if named else {}))
        return "plain", x, len(str(result).partition(".")[2]) or 2

    vars(by_place)["__signature__"] = inspect.signature(call)
    return by_place


def result_of(value: Any) -> Any:
    """Return the result of a call, also of a coroutine or generator that the call begins."""
    if inspect.iscoroutine(value):
        return asyncio.run(value)
    if inspect.isasyncgen(value):
        return asyncio.run(anext(value))  # type: ignore[arg-type]  # an awaitable of asyncio
    return tuple(next(value)) if inspect.isgenerator(value) else tuple(value)


# --- the tools


def _around(world: World, verb: str) -> Callable[..., Any]:
    note = world.calls.append  # a wrapper that kept the world would keep the original
    name = world.second

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        note(None)
        if verb == "inject":
            args, kwargs = args[:1], {**kwargs, name: 5}
        elif verb == "default" and name not in kwargs and len(args) < 2:
            kwargs = {**kwargs, name: 5}
        return wrapped(*args, **kwargs)

    return wrapper


def _newer(world: World, original: Any) -> Any:
    """Return a replacement of the same kind as an original: calls are counted and passed to the original."""
    callee, note = getattr(original, "__func__", original), world.calls.append
    if isinstance(original, type):

        class Newer(original):  # type: ignore[misc]  # known at run time
            @functools.wraps(original.__init__)
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                note(None)
                super().__init__(*args, **kwargs)

        return Newer

    @functools.wraps(callee)
    def newer(*args: Any, **kwargs: Any) -> Any:
        note(None)
        return callee(*args, **kwargs)

    return type(original)(newer) if isinstance(original, (classmethod, staticmethod)) else newer


def _by_hookpatch(world: World, cell: Cell) -> AbstractContextManager[Any]:
    address, reach = f"{world.name}:{world.path}", "everywhere" if cell.far else "slot"
    facts: Any = {"reach": reach}
    if cell.verb == "wrap":
        patch = hookpatch.wrap(address, _around(world, "wrap"), **facts)
    elif cell.verb == "replace":
        patch = hookpatch.replace(address, _newer(world, _raw(world)), **facts)
    elif cell.verb == "derive":
        patch = hookpatch.derive(address, functools.partial(_newer, world), **facts)
    elif cell.verb == "remove":
        patch = hookpatch.remove(address, **facts)
    else:
        patch = getattr(hookpatch, cell.verb)(address, **{world.second: 5}, **facts)
    return hookpatch.active(patch, scope=cell.scope)


def _raw(world: World) -> Any:
    return inspect.getattr_static(world.owner, world.attribute) if world.key is None else world.owner[world.key]


class NoWay(Exception):
    """A tool has no way to do this."""


@contextmanager
def _by_wrapt(world: World, cell: Cell) -> Iterator[None]:
    """Patch with wrapt; undo as users of wrapt do: set the value from ``resolve_path`` again."""
    if world.key is not None or cell.verb == "remove" or cell.scope == "task":
        raise NoWay
    parent, attribute, original = wrapt.resolve_path(world.module, world.path)
    if cell.verb in ("replace", "derive"):
        wrapt.apply_patch(parent, attribute, _newer(world, original))
    else:
        wrapt.wrap_function_wrapper(world.module, world.path, _around(world, cell.verb))
    try:
        yield
    finally:
        setattr(parent, attribute, original)


def _by_mock(world: World, cell: Cell) -> AbstractContextManager[Any]:
    if isinstance(world.owner, list) or cell.verb == "remove" or cell.scope == "task":
        raise NoWay
    original, around = _raw(world), _around(world, cell.verb)
    callee = getattr(original, "__func__", original)

    @functools.wraps(callee)
    def new(*args: Any, **kwargs: Any) -> Any:
        # An object of a method is given to the callee, and not counted as an argument.
        binds = world.owner is not world.module and not isinstance(original, staticmethod) and bool(args)
        return around(functools.partial(callee, *args[:binds]), None, args[binds:], kwargs)

    value = _newer(world, original) if cell.verb in ("replace", "derive") else new
    if value is new and isinstance(original, (classmethod, staticmethod)):
        value = type(original)(new)
    if world.key is not None:
        return mock.patch.dict(world.owner, {world.key: value})
    return mock.patch.object(world.owner, world.attribute, value)


TOOLS: Final[dict[str, Callable[[World, Cell], AbstractContextManager[Any]]]] = {
    "hookpatch": _by_hookpatch,
    "wrapt": _by_wrapt,
    "mock": _by_mock,
}


# --- the oracle


def cells() -> list[Cell]:
    """Return all cells."""
    fars = (False, True)
    calls = VERBS[:3]
    every = [Cell(verb, kind, way, far) for verb in VERBS[:5] for kind in PLACES for way in WAYS for far in fars]
    every += (Cell(verb, FRAME, FRAME, far) for verb in calls for far in fars)
    of_tasks = (*WAYS[:6], BY_A_NEIGHBOUR)
    every += (
        Cell(verb, kind, way, far, "task") for verb in calls for kind in PLACES for way in of_tasks for far in fars
    )
    every += (Cell("remove", kind, way, far) for kind in PLACES for way in ("by place", "bound before") for far in fars)
    return every


def verdict(tool: str, cell: Cell, folder: Path) -> tuple[Verdict, str]:
    """Return whether a tool was right, loud or silently wrong in a cell, with the message or the problem."""
    world, message = World(folder, cell.kind), ""
    before = world.state()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if cell.way == BY_A_NEIGHBOUR:
                world.begin_neighbour()
            block = TOOLS[tool](world, cell)
            with block:
                if (problem := _inside(world, cell)) and isinstance(block, hookpatch.Session):
                    is_stale = cell.way == "bound before"  # the report mentions bound names only
                    remarks = [(*patch.warnings, *(patch.stale if is_stale else ())) for patch in block.report()]
                    message = "; ".join(text for texts in remarks for text in texts)
                after = _begun(world, cell)
            problem = problem or _outside(world, cell, after, before)
        except Exception as error:
            return "loud", f"{type(error).__name__}: {error}"
    message = message or "; ".join(str(warning.message) for warning in caught if str(warning.message) != "look out")
    if not problem:
        return "right", ""
    return ("loud", message) if message else ("silent", problem)


def _wanted(verb: str, is_given: bool = False) -> tuple[str, int, int]:
    return "plain", 1, {"inject": 5, "default": 3 if is_given else 5}.get(verb, 3 if is_given else 2)


def _inside(world: World, cell: Cell) -> str:
    if cell.verb == "remove":
        return _removed(world, cell)
    if cell.way == BY_A_NEIGHBOUR:
        result = world.by_a_neighbour()
        is_plain = result == ("plain", 1, 2) and not world.seen
        return "" if is_plain else f"another thread: {result}, met {world.seen} times"
    call = world.early if cell.way == "bound before" else world.get()
    if cell.way in ("begun inside", "kept from inside"):
        return ""
    if cell.way == "signature":
        signature, was = inspect.signature(call), inspect.signature(world.early)
        kinds = [
            (
                inspect.iscoroutinefunction(function),
                inspect.isgeneratorfunction(function),
                inspect.isasyncgenfunction(function),
            )
            for function in (call, world.early)
        ]
        is_put = cell.verb in ("replace", "derive")  # the author of the value chooses the kind
        return "" if signature == was and (is_put or kinds[0] == kinds[1]) else f"{signature}, was {was}"
    if cell.way == "wraps":

        def mine(*args: Any, **kwargs: Any) -> None: ...

        functools.wraps(call)(mine)
        world.kept.append(mine)  # alive, as in a program: the report looks for wrapping functions
        signature, was = inspect.signature(mine), inspect.signature(world.early)
        return "" if signature == was else f"a function that wraps it shows {signature}, and not {was}"
    if cell.way == FRAME:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _line_of_a_warning(call)
        line = caught[0].filename, caught[0].lineno
        wanted = __file__, _line_of_a_warning.__code__.co_firstlineno + 1
        return "" if line == wanted else f"the warning is laid to {line}"
    for args, kwargs, is_given in (((1,), {}, False), ((1, 3), {}, True), ((1,), {"y": 3}, True)):
        counted = world.seen
        if cell.way == "by keyword":
            args, kwargs = (), {"x": 1, **kwargs, **dict(zip("y", args[1:], strict=False))}
        result = result_of(call(*args, **kwargs))
        if result != _wanted(cell.verb, is_given) or (_counts(cell) and world.seen != counted + 1):
            return f"{args} {kwargs}: {result}, met {world.seen - counted} times"
    if cell.kind == "called on the class":
        counted = world.seen
        if result_of(call()) != _wanted(cell.verb) or (_counts(cell) and world.seen != counted + 1):
            return f"without an argument: met {world.seen - counted} times"
    return ""


def _removed(world: World, cell: Cell) -> str:
    """Return the problem of a remove; a name bound before keeps its object, and only the report mentions the name."""
    if cell.way == "bound before":
        return "a name that was bound before holds it still"
    try:
        value = world.get()
    except (AttributeError, KeyError, NameError):
        return ""
    return f"it is there: {value}"


def _line_of_a_warning(call: Any) -> None:
    call(1)


def _counts(cell: Cell) -> bool:
    return cell.verb in ("wrap", "replace", "derive")


def _begun(world: World, cell: Cell) -> Any:
    if cell.verb == "remove":
        return None
    call = world.get()
    return call(1) if cell.way == "begun inside" else call


def _outside(world: World, cell: Cell, after: Any, before: Any) -> str:
    if cell.way == "begun inside":
        result = result_of(after)
        if result != _wanted(cell.verb) or (_counts(cell) and world.seen != 1):
            return f"begun inside: {result}, met {world.seen} times"
    counted = world.seen
    is_made = cell.kind == "class" and cell.verb in ("replace", "derive")  # a new class stays a new class
    call = after if cell.way == "kept from inside" and not is_made and cell.verb not in ("replace", "derive") else None
    for function in filter(None, (call, world.get(), world.early)):
        if result_of(function(1)) != ("plain", 1, 2) or world.seen != counted:
            return f"afterwards {'what was kept' if function is after else 'a call'} meets the patch"
    for (owner, was), (_, content) in zip(before, world.state(), strict=True):
        if cell.verb == "remove":  # a removed name may return in another position
            was, content = sorted(was, key=str), sorted(content, key=str)
        if [name for name, _ in was] != [name for name, _ in content]:
            return f"afterwards {owner.__name__} has other names"
        if any(old is not new for (_, old), (_, new) in zip(was, content, strict=True)):
            return f"afterwards {owner.__name__} has another value"
    return ""
