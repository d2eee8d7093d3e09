"""The first block of a patch: prepared without a lock if the target is plain, otherwise like a session with locks."""

from __future__ import annotations

import functools
import gc
import os
import re
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch import Patch, active

SOURCE = """\
import enum, functools, time

limit = 3
names = ["a", "b"]
clock = time.perf_counter
def speak(word="x"): return f"vendor {word}"
def spoken(*, word): return word
def many(*args, **kwargs): return args, kwargs
def __getattr__(name):
    if name == "fetched":
        return 7
    raise AttributeError(name)
class Thing:
    size = 5
    def __init__(self, word="x"): self.word = word
    def __len__(self): return 4
    def run(self, word="x"): return f"run {word}"
    @staticmethod
    def still(word="x"): return f"still {word}"
    @classmethod
    def made(cls, word="x"): return f"made {word}"
    @property
    def place(self): return "place"
class Part(Thing):
    pass
class Strict(type):
    def __setattr__(cls, name, value):
        super().__setattr__(name, value if name.startswith("_") else f"set {str(value)[-1]}")
class Closed(metaclass=Strict):
    size = "set 6"
class Color(enum.Enum):
    red = 1
lazily = Thing
"""


def loud(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs).upper()


def loud_clock(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return "LOUD" if wrapped(*args, **kwargs) else ""


def keeping_the_original() -> Callable[..., Any]:
    """Return a wrapper that keeps the original for itself."""
    speak = sys.modules["vendor"].speak
    return lambda wrapped, instance, args, kwargs: speak(*args, **kwargs).upper()


def other(word: str = "x") -> str:
    return "OTHER"


def other_method(self: Any, word: str = "x") -> str:
    return "OTHER"


class Other:
    """A class in place of another."""


PLAIN: dict[str, Callable[[], Patch]] = {
    "replace a function": lambda: hookpatch.replace("vendor:speak", other),
    "replace by a lambda": lambda: hookpatch.replace("vendor:speak", lambda word="x": "LAMBDA"),
    "replace by any arguments": lambda: hookpatch.replace("vendor:speak", lambda *_, **__: "ANY"),
    "replace a function by a value": lambda: hookpatch.replace("vendor:speak", None),
    "replace a value": lambda: hookpatch.replace("vendor:limit", 9),
    "replace a list": lambda: hookpatch.replace("vendor:names", []),
    "replace a C function": lambda: hookpatch.replace("vendor:clock", lambda: 0.0),
    "replace a class": lambda: hookpatch.replace("vendor:Thing", Other),
    "replace a module": lambda: hookpatch.replace("vendor:time", Other),
    "replace a method": lambda: hookpatch.replace("vendor:Thing.run", other_method),
    "replace an __init__": lambda: hookpatch.replace("vendor:Thing.__init__", lambda self, word="x": None),
    "replace a static method": lambda: hookpatch.replace("vendor:Thing.still", staticmethod(other)),
    "replace a static method by a method": lambda: hookpatch.replace("vendor:Thing.still", other_method),
    "replace a class method": lambda: hookpatch.replace("vendor:Thing.made", classmethod(other_method)),
    "replace a property": lambda: hookpatch.replace("vendor:Thing.place", property(lambda self: "OTHER")),
    "replace a value of a class": lambda: hookpatch.replace("vendor:Thing.size", 9),
    "names in braces": lambda: hookpatch.replace("vendor:{limit,names}", 9),
    "a name in braces": lambda: hookpatch.replace("vendor:{limit}", 9),
    "wrap a function": lambda: hookpatch.wrap("vendor:speak", loud, expects="word"),
    "wrap a method": lambda: hookpatch.wrap("vendor:Thing.run", loud),
    "inject": lambda: hookpatch.inject("vendor:speak", word="INJECTED"),
    "inject into a method": lambda: hookpatch.inject("vendor:Thing.run", word="INJECTED"),
    "default": lambda: hookpatch.default("vendor:speak", word="DEFAULT"),
    "wrap everywhere": lambda: hookpatch.wrap("vendor:speak", loud, reach="everywhere"),
    "wrap a method everywhere": lambda: hookpatch.wrap("vendor:Thing.run", loud, reach="everywhere"),
    "inject everywhere": lambda: hookpatch.inject("vendor:speak", word="INJECTED", reach="everywhere"),
    "inject into a method everywhere": lambda: hookpatch.inject(
        "vendor:Thing.run", word="INJECTED", reach="everywhere"
    ),
    "default everywhere": lambda: hookpatch.default("vendor:speak", word="DEFAULT", reach="everywhere"),
}
OTHERS: dict[str, Callable[[], Patch]] = {
    "a misspelt name": lambda: hookpatch.replace("vendor:speek", other),
    "a misspelt method": lambda: hookpatch.wrap("vendor:Thing.runn", loud),
    "a missing class": lambda: hookpatch.wrap("vendor:Thin.run", loud),
    "a missing name, not required": lambda: hookpatch.replace("vendor:speek", other, required=False),
    "an added name": lambda: hookpatch.replace("vendor:speek", other, add=True),
    "another signature": lambda: hookpatch.replace("vendor:speak", lambda: "none"),
    "another signature, not required": lambda: hookpatch.replace("vendor:speak", lambda: "none", required=False),
    "an unknown argument": lambda: hookpatch.inject("vendor:speak", words=1),
    "an unknown default": lambda: hookpatch.default("vendor:Thing.run", words=1, required=False),
    "an unknown parameter": lambda: hookpatch.wrap("vendor:speak", loud, expects="words"),
    "any argument": lambda: hookpatch.inject("vendor:many", befor=1),
    "a wrapped value": lambda: hookpatch.wrap("vendor:limit", loud),
    "a wrapped class": lambda: hookpatch.wrap("vendor:Thing", loud),
    "a wrapped static method": lambda: hookpatch.wrap("vendor:Thing.still", loud),
    "an inherited method": lambda: hookpatch.wrap("vendor:Part.run", loud),
    "an inherited value": lambda: hookpatch.replace("vendor:Part.size", 9),
    "the same value": lambda: hookpatch.replace("vendor:limit", 3),
    "a cached property": lambda: hookpatch.replace("vendor:Thing.size", functools.cached_property(lambda self: 9)),
    "a class with a setter": lambda: hookpatch.replace("vendor:Closed.size", 9),
    "an enum": lambda: hookpatch.replace("vendor:Color.red", 2),
    "a class of C": lambda: hookpatch.replace("builtins:int.bit_length", other_method),
    "a fetched name": lambda: hookpatch.replace("vendor:fetched", 9),
    "a calling module": lambda: hookpatch.wrap("vendor:speak", loud, callers="vendor"),
    "an unchecked signature": lambda: hookpatch.replace("vendor:speak", lambda: "", check_signature=False, why="test"),
    "required calls": lambda: hookpatch.wrap("vendor:speak", loud, required_calls=1),
    "a distribution": lambda: hookpatch.wrap("vendor:speak", loud, requires="pytest>=1"),
    "a missing distribution": lambda: hookpatch.wrap("vendor:speak", loud, requires="pytest>=1000"),
    "an unneeded patch": lambda: hookpatch.wrap("vendor:speak", loud, until="pytest>=1"),
    "a missing module": lambda: hookpatch.replace("vendor_missing:speak", other),
    "no module": lambda: hookpatch.replace("vendor_object:speak", other),
    "an item": lambda: hookpatch.replace("vendor:names[0]", "c"),
    "a key of a module": lambda: hookpatch.replace("vendor:Thing.__dict__['size']", 9),
    "a derived function": lambda: hookpatch.derive("vendor:speak", lambda speak: lambda word="x": speak(word).upper()),
    "a removed value": lambda: hookpatch.remove("vendor:limit"),
    "replace everywhere": lambda: hookpatch.replace("vendor:speak", other, reach="everywhere"),
    "derive everywhere": lambda: hookpatch.derive("vendor:speak", lambda speak: other, reach="everywhere"),
    "a misspelt name everywhere": lambda: hookpatch.wrap("vendor:speek", loud, reach="everywhere"),
    "an unknown argument everywhere": lambda: hookpatch.inject("vendor:speak", words=1, reach="everywhere"),
    "any argument everywhere": lambda: hookpatch.inject("vendor:many", befor=1, reach="everywhere"),
    "an unknown parameter everywhere": lambda: hookpatch.wrap(
        "vendor:speak", loud, expects="words", reach="everywhere"
    ),
    "a static method everywhere": lambda: hookpatch.wrap("vendor:Thing.still", loud, reach="everywhere"),
    "an inherited method everywhere": lambda: hookpatch.wrap("vendor:Part.run", loud, reach="everywhere"),
    "a property everywhere": lambda: hookpatch.wrap("vendor:Thing.place", loud, reach="everywhere"),
    "a C function everywhere": lambda: hookpatch.wrap("vendor:clock", loud_clock, reach="everywhere"),
    "a wrapped value everywhere": lambda: hookpatch.wrap("vendor:limit", loud, reach="everywhere"),
    "in one module": lambda: hookpatch.wrap("vendor:speak", loud, reach="everywhere", only_in="vendor"),
    "in no module": lambda: hookpatch.wrap("vendor:speak", loud, reach="everywhere", except_in="vendor"),
    "required calls everywhere": lambda: hookpatch.wrap("vendor:speak", loud, reach="everywhere", required_calls=1),
    "by a wrapper that has the original": lambda: hookpatch.wrap(
        "vendor:speak", keeping_the_original(), reach="everywhere"
    ),
}


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> Any:
    if (dynamo := sys.modules.get("torch._dynamo")) is not None:
        dynamo.reset()  # with compiled code in the process a block takes locks
    module = make_module("vendor", SOURCE)
    monkeypatch.setitem(sys.modules, "vendor_object", 3)  # type: ignore[arg-type]  # some programs put objects there
    for _ in range(2):  # imports what blocks and reports need: after an import a block looks for lazy names
        with active(hookpatch.replace("vendor:limit", 4)) as session:
            session.report()
    return module


def state(vendor: Any) -> list[Any]:
    owners = vendor, vendor.Thing, vendor.Part, vendor.Closed
    return [dict(vars(owner)) for owner in owners] + [vendor.names[:], dict(os.environ), [*sys.meta_path]]


def seen(vendor: Any) -> list[str]:
    """Return what a program sees of the module, as text: errors too."""
    looks: list[Callable[[], object]] = [
        vendor.speak if callable(vendor.speak) else lambda: vendor.speak,
        lambda: [vendor.many(), vendor.limit, vendor.names, type(vendor.clock).__name__, vendor.Thing.__name__],
        lambda: [vendor.Thing.size, vendor.Closed.size, vendor.Color.red, type(vendor.time).__name__],
        lambda: [vendor.Thing().run(), vendor.Thing().still(), vendor.Thing().made(), len(vendor.Thing())],
        lambda: [vendor.Thing().place, vendor.Thing().word],
        lambda: [vendor.Part().run(), vendor.Thing("y").size, hasattr(vendor, "speek")],
    ]
    return [*map(_as_text, looks)]


def _as_text(look: Callable[[], object]) -> str:
    try:
        return re.sub(" at 0x[0-9a-f]+", "", repr(look()))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def story(vendor: Any, make: Callable[[], Patch], enter: Callable[[Any], Any], children: Any) -> tuple[list[Any], bool]:
    """Return all that a block tells the user, and whether the block took no lock."""
    before = state(vendor)
    told: list[Any] = []
    is_fast = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session = active(make(), children=children)
        try:
            with enter(session):
                is_fast = session._is_fast
                told += [seen(vendor), rows(session)]
        except hookpatch.errors.HookpatchError as error:
            told.append((type(error), str(error)))
        told += [seen(vendor), rows(session), state(vendor) == before]
    return [*told, [(warning.category, str(warning.message)) for warning in caught]], is_fast


def rows(session: Any) -> list[tuple[Any, ...]]:
    report = session.report()
    return [(row.target, row.verb, row.state, row.reason, row.warnings, row.applied_at is None) for row in report]


class WithLocks:
    """Open and close a session with locks."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __enter__(self) -> None:
        self._session._enter(self)

    def __exit__(self, kind: object, *_: object) -> None:
        self._session._close(tells=kind is None)


@pytest.mark.parametrize(
    ("kind", "children"),
    [
        *((kind, "inherit") for kind in PLAIN),
        *(pytest.param(kind, "local", marks=pytest.mark.ends) for kind in PLAIN),
        *((kind, "inherit") for kind in OTHERS),
    ],
)
@pytest.mark.sampled(8)
def test_first_block_tells_the_same_as_with_locks(vendor: Any, kind: str, children: str) -> None:
    """What the program sees, the report, errors and warnings, and the state afterwards."""
    make = (PLAIN | OTHERS)[kind]
    with_locks, took_none = story(vendor, make, WithLocks, children)
    assert not took_none
    for _ in range(2):
        told, is_fast = story(vendor, make, lambda session: session, children)
        assert told == with_locks
        assert is_fast == (kind in PLAIN)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No collection of cycles during a test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("children", ["local", "inherit"])
@pytest.mark.parametrize("target", ["speak", "clock", "Thing"])
def test_patch_is_freed_with_its_block(vendor: Any, target: str, children: Any) -> None:
    """The new value is freed without the garbage collector: a value may be as large as a model."""
    value = Other() if target != "speak" else lambda word="x": "OTHER"
    weak = weakref.ref(value)
    with active(hookpatch.replace(f"vendor:{target}", value), children=children) as session:
        assert session._is_fast
    del value, session
    assert weak() is None


@pytest.mark.usefixtures("uncollected")
def test_wrapper_of_a_patch_is_freed_with_its_block(vendor: Any) -> None:
    def around(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs)

    weak = weakref.ref(around)
    with active(hookpatch.wrap("vendor:speak", around), children="local"):
        assert vendor.speak() == "vendor x"
    del around
    assert weak() is None


def test_replaced_class_is_not_kept_by_the_patch(vendor: Any) -> None:
    patch = hookpatch.replace("vendor:Thing", Other)
    weak = weakref.ref(vendor.Thing)
    for _ in range(3):
        with active(patch, children="local"):
            assert vendor.Thing is Other
    del vendor.Thing, vendor.Part, vendor.lazily
    gc.collect()
    assert weak() is None


def test_two_patches_of_one_slot(vendor: Any) -> None:
    first, second = hookpatch.wrap("vendor:speak", loud), hookpatch.inject("vendor:speak", word="y")
    with active(first, second, children="local"):
        assert vendor.speak() == "VENDOR Y"
    with active(first, children="local") as outer, active(second, children="local") as inner:
        assert vendor.speak() == "VENDOR Y"
        assert [row.state for row in [*outer.report(), *inner.report()]] == ["applied", "applied"]
    assert vendor.speak() == "vendor x"
    with active(first, children="local"):
        assert vendor.speak() == "VENDOR X"


def test_second_session_of_a_patch_in_a_first_block(vendor: Any) -> None:
    patch = hookpatch.wrap("vendor:speak", loud)
    original = vendor.speak
    with active(patch, children="local"):
        with active(patch, children="local") as session:
            assert vendor.speak() == "VENDOR X"
            assert [row.state for row in session.report()] == ["applied"]
        assert vendor.speak() == "VENDOR X"
    assert vendor.speak is original


def test_threads_begin_the_first_block_of_a_patch_at_once(vendor: Any) -> None:
    original, together = vendor.speak, threading.Barrier(4)
    answers: list[str] = []

    def enter(patch: Patch) -> None:
        together.wait()
        with active(patch, children="local"):
            answers.append(vendor.speak())

    for _ in range(50):
        patch = hookpatch.wrap("vendor:speak", loud)
        threads = [threading.Thread(target=enter, args=[patch]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert vendor.speak is original
    assert answers == ["VENDOR X"] * 200


def test_class_that_is_replaced_meanwhile(vendor: Any) -> None:
    """A patch of a method goes to the original class, also while another patch stands for the class."""
    thing = vendor.Thing
    with active(hookpatch.replace("vendor:Thing", type("Thing", (), {"run": lambda self, word="x": "derived"}))):
        with active(hookpatch.replace("vendor:Thing.run", other_method)):
            assert (vendor.Thing().run(), thing().run()) == ("derived", "OTHER")
        assert (vendor.Thing().run(), thing().run()) == ("derived", "run x")
