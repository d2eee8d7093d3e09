"""Python looks special methods up in the class: plan and report say so of a patch in an object."""

from __future__ import annotations

import asyncio
import copy
import math
import operator
import os
import pickle
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType, WrapperDescriptorType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch import errors
from hookpatch._engine.patch.steps import is_looked_up_in_class
from hookpatch._inspect.together import outcomes_here
from hookpatch._session.ledger import Requested


async def _entered(thing: Any) -> Any:
    async with thing as value:
        return value


async def _rows(thing: Any) -> list[Any]:
    return [row async for row in thing]


async def _awaited(thing: Any) -> Any:
    return await thing


def _with(thing: Any) -> Any:
    with thing as value:
        return value


def _awaiting(result: int) -> Callable[..., Iterator[None]]:
    def method(*args: object) -> Iterator[None]:
        yield
        return result

    return method


def _rows_of(row: int) -> Callable[..., AsyncIterator[int]]:
    async def method(*args: object) -> AsyncIterator[int]:
        yield row

    return method


async def _of_exit(*args: object) -> None:
    """Leave a block."""


# name: what the method returns in the class, what the patched method returns, and how Python calls the method
SPECIAL: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[[Any], Any]]]] = {
    "__call__": (lambda *_: 1, lambda *_: 2, lambda it: it()),
    "__len__": (lambda *_: 1, lambda *_: 2, len),
    "__iter__": (lambda *_: iter("1"), lambda *_: iter("2"), list),
    "__contains__": (lambda *_: True, lambda *_: False, lambda it: 1 in it),
    "__getitem__": (lambda *_: 1, lambda *_: 2, lambda it: it[0]),
    "__reversed__": (lambda *_: iter("1"), lambda *_: iter("2"), lambda it: list(reversed(it))),
    "__length_hint__": (lambda *_: 1, lambda *_: 2, lambda it: operator.length_hint(it)),
    "__bool__": (lambda *_: True, lambda *_: False, bool),
    "__hash__": (lambda *_: 1, lambda *_: 2, hash),
    "__eq__": (lambda *_: True, lambda *_: False, lambda it: it == 5),
    "__lt__": (lambda *_: True, lambda *_: False, lambda it: it < 5),
    "__add__": (lambda *_: 1, lambda *_: 2, lambda it: it + 5),
    "__radd__": (lambda *_: 1, lambda *_: 2, lambda it: 5 + it),
    "__imatmul__": (lambda *_: 1, lambda *_: 2, lambda it: operator.imatmul(it, 5)),
    "__neg__": (lambda *_: 1, lambda *_: 2, lambda it: -it),
    "__int__": (lambda *_: 1, lambda *_: 2, int),
    "__index__": (lambda *_: 1, lambda *_: 2, lambda it: len(range(it))),
    "__round__": (lambda *_: 1, lambda *_: 2, round),
    "__floor__": (lambda *_: 1, lambda *_: 2, math.floor),
    "__repr__": (lambda *_: "1", lambda *_: "2", repr),
    "__format__": (lambda *_: "1", lambda *_: "2", lambda it: f"{it}"),
    "__bytes__": (lambda *_: b"1", lambda *_: b"2", bytes),
    "__fspath__": (lambda *_: "1", lambda *_: "2", os.fspath),
    "__sizeof__": (lambda *_: 1, lambda *_: 2, sys.getsizeof),
    "__dir__": (lambda *_: ["1"], lambda *_: ["2"], dir),
    "__copy__": (lambda *_: 1, lambda *_: 2, copy.copy),
    "__getattr__": (lambda *_: 1, lambda *_: 2, lambda it: it.absent),
    "__enter__": (lambda *_: 1, lambda *_: 2, _with),
    "__aenter__": (
        lambda *_: asyncio.sleep(0, 1),
        lambda *_: asyncio.sleep(0, 2),
        lambda it: asyncio.run(_entered(it)),
    ),
    "__aiter__": (_rows_of(1), _rows_of(2), lambda it: asyncio.run(_rows(it))),
    "__await__": (_awaiting(1), _awaiting(2), lambda it: asyncio.run(_awaited(it))),
}
PARTNERS: Final = {"__exit__": lambda *_: None, "__aexit__": _of_exit}
VERBS: Final[dict[str, Callable[[str, Any], hookpatch.Patch]]] = {
    "wrap": lambda address, new: hookpatch.wrap(address, lambda wrapped, instance, args, kwargs: new()),
    "replace": lambda address, new: hookpatch.replace(address, new),
    "derive": lambda address, new: hookpatch.derive(address, lambda original: new),
}


@pytest.fixture
def special(make_module: Callable[[str, str], ModuleType]) -> Any:
    return make_module("special", "class Class: pass\nclass Meta(type): pass\nclass Made(metaclass=Meta): pass")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.sampled(12)
def test_a_special_method_of_an_object_is_said_to_be_looked_up_in_the_class(special: Any, name: str, verb: str) -> None:
    """Plan and report say the same; a patch in the class has its effect and no doubt."""
    method, new, use = SPECIAL[name]
    special.Class = type("Class", (), {**PARTNERS, name: method, "__module__": "special"})
    special.thing = special.Class()
    before = use(special.thing)
    patch = VERBS[verb](f"special:thing.{name}", new)
    (planned,) = outcomes_here([Requested(patch, None)], [True], None)[0].warnings
    assert planned == (
        f"Python looks '{name}' up in the class, not in an object: only a call written `x.{name}` is patched; "
        f"patch special:Class.{name}"
    )
    with hookpatch.active(patch, children="local") as session:
        assert use(special.thing) == before
        (row,) = session.report()
        assert row.warnings == (planned,)
    assert vars(special.thing) == {}
    with hookpatch.active(VERBS[verb](f"special:Class.{name}", new), children="local") as session:
        assert use(special.thing) != before
        (row,) = session.report()
        assert row.warnings == ()


READ_FROM_OBJECTS: Final[dict[str, Callable[[Any], Any]]] = {
    "__reduce_ex__": lambda it: pickle.loads(pickle.dumps(it)),
    "__mro_entries__": lambda it: types.new_class("New", (it,)).__bases__,
}


@pytest.mark.parametrize("name", READ_FROM_OBJECTS)
def test_a_special_method_read_from_the_object_has_no_doubt(special: Any, name: str) -> None:
    """Python reads some special names from the object: a patch there has its effect."""
    special.thing = special.Class()
    new = {"__reduce_ex__": lambda protocol: (str, ("new",)), "__mro_entries__": lambda bases: (int,)}[name]
    with hookpatch.active(hookpatch.replace(f"special:thing.{name}", new, add=True), children="local") as session:
        assert READ_FROM_OBJECTS[name](special.thing) in ("new", (int,))
        assert [row.warnings for row in session.report()] == [()]


def test_every_slot_of_a_type_is_known() -> None:
    """hookpatch knows the name of each method that the interpreter calls through the type."""
    kinds = (*(kind for kind in object.__subclasses__() if kind.__module__ in ("builtins", "types")), object, type)
    names = {name for kind in kinds for name, value in vars(kind).items() if type(value) is WrapperDescriptorType}
    assert len(names) > 60
    assert [name for name in names if not is_looked_up_in_class(name)] == []


@pytest.mark.parametrize("name", ["__call__", "__or__", "__instancecheck__"])
def test_a_special_method_of_the_metaclass_is_none_of_the_class(special: Any, name: str) -> None:
    """A `replace` of a name that the class lacks, and its metaclass has, needs ``add=True``."""
    patch = hookpatch.replace(f"special:Made.{name}", lambda *args: "new")
    with pytest.raises(errors.TargetNotFound, match=f"special:Made has no attribute '{name}'.*add=True adds it"):
        hookpatch.active(patch).open()
    with hookpatch.active(hookpatch.replace(f"special:Made.{name}", lambda *args: "new", add=True)):
        assert name in vars(special.Made)
    assert name not in vars(special.Made)
