"""Owners that raise: after they have stored a value, or when they are read while a patch is applied.

A refused patch leaves nothing. An owner that cannot be read spoils neither the report nor the end of other patches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest

import hookpatch
from hookpatch import errors
from hookpatch._engine.site.sites import patched

SOURCE: Final = '''
    import types
    from collections import UserDict

    failing = []  # empty, or one entry for the next change to raise

    def told(name):
        """Tell an observer of a change, after the change."""
        if failing:
            raise RuntimeError(f"the observer of {name} fails {failing.pop()}")

    def function(x="x"):
        return x

    class Observed:
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            told(name)
        def __delattr__(self, name):
            super().__delattr__(name)
            told(name)

    class Instance(Observed):
        pass

    class Meta(Observed, type):
        pass

    class Class(metaclass=Meta):
        f = staticmethod(function)
        def method(self, x="x"):
            return x

    class Child(Class):
        pass

    class Module(Observed, types.ModuleType):
        pass

    class Mapping(UserDict):
        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            told(key)
        def __delitem__(self, key):
            super().__delitem__(key)
            told(key)

    class List(list):
        def __setitem__(self, index, value):
            super().__setitem__(index, value)
            told(index)

    instance = Instance()
    instance.f = function
    module = Module("module")
    module.f = function
    mapping = Mapping(f=function)
    rows = List([function])
'''
SLOTS: Final[dict[str, Callable[[Any], Any]]] = {
    "instance.f": lambda m: vars(m.instance).get("f"),
    "Class.f": lambda m: vars(m.Class).get("f"),
    "Child.method": lambda m: vars(m.Child).get("method"),
    "module.f": lambda m: vars(m.module).get("f"),
    "mapping['f']": lambda m: m.mapping.data.get("f"),
    "rows[0]": lambda m: m.rows[0],
}


def _new() -> Callable[..., str]:
    return lambda *args, x="x": x


VERBS: Final[dict[str, Callable[[str], hookpatch.Patch]]] = {
    "wrap": lambda address: hookpatch.wrap(address, lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs)),
    "inject": lambda address: hookpatch.inject(address, x="i"),
    "replace": lambda address: hookpatch.replace(address, _new()),
    "derive": lambda address: hookpatch.derive(address, lambda original: _new()),
    "remove": hookpatch.remove,
}
CELLS: Final = [
    (slot, verb, below)
    for slot, verb, below in product(SLOTS, VERBS, (None, "wrap", "replace"))
    if not (verb == "remove" and slot in ("Child.method", "rows[0]"))  # refused: inherited; of a list
    and not (verb in ("wrap", "inject") and below == "wrap")  # one function runs both: the slot is not written
]


@pytest.fixture
def observed(make_module: Callable[[str, str], Any]) -> Iterator[Any]:
    yield make_module("observed", SOURCE)
    assert patched() == []


@pytest.mark.parametrize(("slot", "verb", "below"), CELLS)
def test_the_slot_holds_its_former_value_after_a_refusal(
    observed: Any, slot: str, verb: str, below: str | None
) -> None:
    """The error names the patch, the value from before is back, and the same patch applies once the owner does not."""
    read, address = SLOTS[slot], f"observed:{slot}"
    original = read(observed)
    outer = hookpatch.active(*([VERBS[below](address)] if below else []), children="local")
    with outer:
        former = read(observed)
        session = hookpatch.active(VERBS[verb](address), children="local")
        observed.failing.append("on opening")
        with pytest.raises(
            errors.ApplyError, match=f"the {verb} raised RuntimeError: the observer of .* fails on opening"
        ):
            session.open()
        assert read(observed) is former
        session.open()
        assert read(observed) is not former
        observed.failing.append("at the end")
        with pytest.raises(errors.RestoreError):
            session.close()
        assert read(observed) is former
    assert read(observed) is original


UNREADABLE: Final = """
    from collections import UserDict

    failing = []  # empty, or one entry while no read succeeds

    def read():
        if failing:
            raise RuntimeError("no read")

    def function(x="x"):
        return x

    def other():
        return "other"

    class Fetching:
        def __getattr__(self, name):
            read()
            if name == "f":
                return function
            raise AttributeError(name)

    class Watching:
        def __getattribute__(self, name):
            read()
            return object.__getattribute__(self, name)
        def method(self, x="x"):
            return x

    class Mapping(UserDict):
        def __getitem__(self, key):
            read()
            return self.data[key]
        def __contains__(self, key):
            read()
            return key in self.data

    class List(list):
        def __getitem__(self, index):
            read()
            return list.__getitem__(self, index)

    fetching, watching, mapping, rows = Fetching(), Watching(), Mapping(f=function), List([function])
    watching.f = function
"""
NOT_READ: Final = ("fetching.f", "watching.f", "watching.method", "mapping['f']", "rows[0]")


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("verb", ["wrap", "inject", "replace", "derive"])
@pytest.mark.parametrize("slot", NOT_READ)
@pytest.mark.sampled(10)
def test_an_owner_that_cannot_be_read_spoils_no_other_patch(
    make_module: Callable[[str, str], Any], slot: str, verb: str, reach: Any
) -> None:
    """The report is made, the other patch of the session ends, and the session ends with it."""
    module = make_module("unreadable", UNREADABLE)
    other, code, fetched = module.other, module.function.__code__, vars(module.fetching)
    patch = VERBS[verb](f"unreadable:{slot}")
    session = hookpatch.active(VERBS["wrap"]("unreadable:other"), replace(patch, reach=reach), children="local")
    session.open()
    module.failing.append(True)
    assert [row.state for row in session.report() if row.target == "unreadable:other"] == ["applied"]
    with suppress(errors.RestoreError):  # where the slot cannot be compared with the patch
        session.close()
    assert module.other is other
    assert module.function.__code__ is code or slot != "fetching.f"
    assert fetched == {}
    module.failing.clear()
    assert {row.state for row in session.report()} <= {"restored", "failed"}
    with hookpatch.active(VERBS["wrap"]("unreadable:other"), children="local"):
        assert module.other is not other
    assert module.other is other
