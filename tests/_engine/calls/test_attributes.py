"""The attributes of a patched function: copies get the program's own attributes, and no attribute is lost."""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch

MakeModule = Callable[[str, str], ModuleType]
SOURCE: Final = """
    def noted(function):
        function.note = "kept"
        return function

    class C:
        @noted
        def method(self, x): pass
        @classmethod
        @noted
        def of_class(cls, x): pass
        @staticmethod
        @noted
        def static(x): pass
        @noted
        async def coroutine(self, x): pass

    @noted
    def plain(x, y=2): pass

    @noted
    def generator(x):
        yield x

    class Held: pass
    """
CALLED: Final = ["C.method", "C.of_class", "C.static", "C.coroutine", "plain", "generator"]


@pytest.fixture
def module(make_module: MakeModule) -> ModuleType:
    return make_module("attributes", SOURCE)


def _called(module: ModuleType, name: str) -> Any:
    """Return what a program calls: of a method the method bound to an object."""
    class_, _, method = name.rpartition(".")
    return getattr(getattr(module, class_)(), method) if class_ else getattr(module, name)


def _around(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def _who_wraps(called: Any) -> Any:
    @functools.wraps(called)
    def mine(*args: Any, **kwargs: Any) -> None: ...

    return mine


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("name", CALLED)
def test_a_function_that_wraps_it_shows_what_it_shows_unpatched(module: ModuleType, name: str, reach: Any) -> None:
    """A wrapper of a class method showed ``cls``, and its attributes made Dynamo and TorchScript ignore the wrapper."""
    plain = _who_wraps(_called(module, name))
    with hookpatch.active(hookpatch.wrap(f"attributes:{name}", _around, reach=reach)) as session:
        patched = _who_wraps(_called(module, name))
        assert session.report().patches[0].warnings == ()
        assert vars(patched).keys() == vars(plain).keys()
        assert patched.note == "kept"
        assert inspect.signature(patched) == inspect.signature(plain)
        assert inspect.signature(_called(module, name)) == inspect.signature(plain)
    assert inspect.signature(patched) == inspect.signature(plain)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_attributes_set_inside_are_kept_in_the_same_dict(module: ModuleType, order: tuple[int, ...]) -> None:
    function, own = module.plain, vars(module.plain)
    function.changed = function.deleted = 1
    patch = hookpatch.wrap("attributes:plain", _around, reach="everywhere")
    sessions = [hookpatch.active(patch).open() for _ in range(3)]
    function.changed, function.new = 2, 3
    del function.deleted
    for place in order:
        assert (function.changed, function.new, function.note) == (2, 3, "kept")
        assert not hasattr(function, "deleted")
        sessions[place].close()
    assert vars(function) is own
    assert own == {"note": "kept", "changed": 2, "new": 3}


def test_a_dict_given_by_other_code_stays(module: ModuleType) -> None:
    function, replacement = module.plain, {"other": 1}
    with hookpatch.active(hookpatch.wrap("attributes:plain", _around, reach="everywhere")):
        function.__dict__ = replacement
    assert vars(function) is replacement
    assert replacement == {"other": 1}


def test_no_attribute_set_by_another_thread_is_lost(module: ModuleType) -> None:
    function: Any = module.plain
    function.count, finished = 0, threading.Event()

    def counting() -> None:
        while not finished.is_set():
            function.count += 1
            counted.append(None)

    counted: list[None] = []
    thread = threading.Thread(target=counting)
    thread.start()
    for _ in range(60):
        with hookpatch.active(hookpatch.wrap("attributes:plain", _around, reach="everywhere")):
            pass
    finished.set()
    thread.join()
    assert function.count == len(counted) > 0


@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
@pytest.mark.parametrize("first", ["plain", "Held"])
def test_what_an_attribute_holds_is_restored_there(module: ModuleType, first: str, order: tuple[int, ...]) -> None:
    """A patch of the attribute's value and a patch of the function itself begin and end in any order."""
    module.plain.held = original = module.Held
    own, second = vars(module.plain), "Held" if first == "plain" else "plain"
    sessions = [
        hookpatch.active(hookpatch.wrap(f"attributes:{name}", _around, reach="everywhere")).open()
        for name in (first, second)
    ]
    assert module.plain.held is not original
    for place in order:
        sessions[place].close()
    assert vars(module.plain) is own
    assert own == {"note": "kept", "held": original}
    assert own["held"] is original
