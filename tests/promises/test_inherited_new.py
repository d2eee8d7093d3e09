"""An inherited ``__new__``, except object's, can be patched: the class takes the same calls afterwards."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import TargetRefused
from hookpatch.testing import pristine

KINDS: Final = """
    class Base:
        def __new__(cls, *args):
            made = object.__new__(cls)
            made.args = args
            return made
    class OfPython(Base): pass
    class WithInit(Base):
        def __init__(self, x): self.x = x
    class OfDict(dict): pass
    class OfTuple(tuple): pass
    class OfText(str): pass
    class OfNumber(int): pass
    class OfError(ValueError): pass
    class Mixin: pass
    class Mixed(Mixin, frozenset): pass
    class OfType(type): pass
    class Plain: pass
    class Made:
        def __init__(self, x=None): self.x = x
    """
KINDS_OF_NEW: Final = [
    *("OfPython", "WithInit", "OfDict", "OfTuple", "OfText", "OfNumber", "OfError", "Mixed", "OfType"),
]
CALLS: Final = [(), (1,), ("12",), (((1, 2),),), (1, 2, 3), ("Name", (), {})]


@pytest.fixture
def kinds(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("kinds", KINDS)


def behaviour(*classes: Any) -> list[Any]:
    """Return what becomes of some calls of classes, and of a new subclass of the first."""
    outcomes: list[Any] = []
    for cls in (*classes, type(classes[0])("New", classes[:1], {})):
        for args in CALLS:
            try:
                instance = cls(*args)
                outcomes.append(
                    (type(instance).__name__, getattr(instance, "args", None), repr(instance).partition(" at ")[0])
                )
            except Exception as error:
                outcomes.append(f"{type(error).__name__}: {error}")
    return outcomes


def around(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    created.append(args[0].__name__ if args else None)
    return wrapped(*args, **kwargs)


created: Final[list[Any]] = []


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("verb", ["wrap", "derive", "replace"])
@pytest.mark.parametrize("name", KINDS_OF_NEW)
def test_the_class_is_called_as_before(kinds: ModuleType, name: str, verb: str, reach: Any) -> None:
    cls = getattr(kinds, name)
    earlier = type(cls)("Earlier", (cls,), {})
    before = behaviour(cls, earlier)
    inherited = cls.__new__

    def newer(cls: Any, *args: Any, **kwargs: Any) -> Any:
        created.append(cls.__name__)
        return inherited(cls, *args, **kwargs)

    address = f"kinds:{name}.__new__"
    patch = {
        "wrap": lambda: hookpatch.wrap(address, around, reach=reach),
        "derive": lambda: hookpatch.derive(address, lambda original: staticmethod(newer), reach=reach),
        "replace": lambda: hookpatch.replace(address, staticmethod(newer), reach=reach),
    }[verb]()
    created.clear()
    with pristine():
        with hookpatch.active(patch):
            assert behaviour(cls, earlier) == before
            assert created.count(name) > 0
            assert created.count("New") == created.count("Earlier") == created.count(name)
        created.clear()
        assert "__new__" not in vars(cls)
        assert behaviour(cls, earlier) == before
        assert created == []


@pytest.mark.parametrize("name", ["Plain", "Made"])
def test_that_of_object_is_refused(kinds: ModuleType, name: str) -> None:
    cls = getattr(kinds, name)
    before = behaviour(cls)
    with pytest.raises(TargetRefused) as refused:
        hookpatch.active(hookpatch.wrap(f"kinds:{name}.__new__", around)).open()
    reason = (
        f"kinds:{name}.__new__ is object.__new__, and a class takes no arguments any more after setting and deleting"
    )
    assert str(refused.value).startswith(f"{reason} __new__; patch __init__, or derive a class with a __new__")
    assert behaviour(cls) == before


@pytest.mark.parametrize("verb", ["remove", "edit"])
@pytest.mark.parametrize("name", ["Own", "Heir"])
def test_a_class_does_not_lose_its_own_new(make_module: Callable[[str, str], ModuleType], name: str, verb: str) -> None:
    """Without its own `__new__` the class would take no arguments, other than a class that never had one."""
    source = """
        class Own:
            def __new__(cls, x=1): return object.__new__(cls)
            def __init__(self, x=1): self.x = x
        class Base: pass
        class Heir(Base):
            def __new__(cls, x=1): return object.__new__(cls)
            def __init__(self, x=1): self.x = x
    """
    cls = vars(make_module("losing", source))[name]
    line = "def __new__(cls, x=1): return object.__new__(cls)"
    address = f"losing:{name}"
    patch = hookpatch.remove(f"{address}.__new__") if verb == "remove" else hookpatch.edit(address, line, "pass")
    before = behaviour(cls)
    with pytest.raises(TargetRefused) as refused:
        hookpatch.active(patch).open()
    assert str(refused.value).startswith(
        f"{address}.__new__ hides object.__new__, and a class takes no arguments any more after deleting its __new__; "
        "replace __new__"
    )
    assert behaviour(cls) == before
