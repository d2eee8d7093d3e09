"""why(): each layer at a slot, ours and foreign ones, with file and line. No code of the layers runs."""

from __future__ import annotations

import functools
import json
import sys
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import wrapt
from environments import LOUD, Environment
from environments import hookpatch as command

import hookpatch
from hookpatch.errors import TargetNotFound, TargetSyntaxError

VENDOR = """
import functools
from math import sqrt

def speak(word="vendor"):
    return word

def loud(function):
    @functools.wraps(function)
    def shouting(*args, **kwargs):
        return function(*args, **kwargs).upper()
    return shouting

@loud
def decorated():
    return "d"

class Base:
    def method(self): return 1
    @classmethod
    def of_class(cls): return 2
    @staticmethod
    def static(): return 3
    @property
    def never(self): raise RuntimeError("it ran")

class Sub(Base): pass

class Lazy:
    def __getattr__(self, name): raise RuntimeError("it ran")
    def __repr__(self): raise RuntimeError("it ran")

async def waits(): return 4

LAZY = Lazy()
REGISTRY = {"speak": speak, "number": 3, Base: 5}
LIMIT = 3
def __getattr__(name): raise RuntimeError("it ran")
"""

THEIRS = """
import functools

def passing(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs)

def telling(function):
    @functools.wraps(function)
    def inner(*args, **kwargs): return function(*args, **kwargs)
    return inner

def silent(function):
    def inner(*args, **kwargs): return function(*args, **kwargs)
    return inner

def another(word="other"): return word
"""

# A layer in short: owner, verb, name, line in the file, whether calls reach the layer.
Short = tuple[str, str, str, int | None, bool]


def short(report: hookpatch.SlotReport) -> list[Short]:
    """Return the findings without file names and notes."""
    return [
        (layer.by, layer.kind, layer.name, int(layer.place.rpartition(":")[2]) if layer.place else None, layer.reached)
        for layer in report
    ]


def line_of(module: ModuleType, text: str) -> int:
    """Return the number of the first source line with a text."""
    return Path(str(module.__file__)).read_text().splitlines().index(text) + 1


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


@pytest.fixture
def theirs(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("theirs", THEIRS)


def _original(module: ModuleType, name: str, text: str, reached: bool = True) -> Short:
    return ("module", "original", f"vendor:{name}", line_of(module, text), reached)


# --- without patches of hookpatch


@pytest.mark.parametrize(
    ("address", "name", "text", "note"),
    [
        ("speak", "vendor:speak", 'def speak(word="vendor"):', None),
        ("Base.method", "vendor:Base.method", "    def method(self): return 1", None),
        ("Base.of_class", "vendor:Base.of_class", "    @classmethod", "a class method"),
        ("Base.static", "vendor:Base.static", "    @staticmethod", "a static method"),
        ("Base.never", "vendor:Base.never", "    @property", "a property"),
        ("Base", "vendor:Base", "class Base:", None),
        ("waits", "vendor:waits", "async def waits(): return 4", None),
        ("REGISTRY['speak']", "vendor:speak", 'def speak(word="vendor"):', None),
        ("REGISTRY['number']", "3", None, None),
        ("REGISTRY[vendor:Base]", "5", None, None),
        ("LIMIT", "3", None, None),
        ("LAZY", "a vendor:Lazy", None, None),
        ("sqrt", "math:sqrt", None, None),
    ],
)
def test_original_is_told_with_its_place(
    vendor: ModuleType, address: str, name: str, text: str | None, note: str | None
) -> None:
    """why shows an original of any kind, without running a property, `__getattr__` or `__repr__`."""
    (layer,) = hookpatch.why(f"vendor:{address}")
    assert layer == hookpatch.LayerReport(
        "module",
        "original",
        name,
        f"{vendor.__file__}:{line_of(vendor, text)}" if text else None,
        note=note,
    )


def test_decorator_is_told_with_its_place(vendor: ModuleType) -> None:
    """The writer of a wrapper is unknown; the place of the wrapper's source is shown."""
    report = hookpatch.why("vendor:decorated")
    line = line_of(vendor, "    @functools.wraps(function)")
    assert short(report) == [
        ("somebody", "functools.wraps", "vendor:loud.<locals>.shouting", line, True),
        _original(vendor, "decorated", "@loud"),
    ]


def test_what_is_inherited_is_told_where_it_lies(vendor: ModuleType) -> None:
    """An inherited value is shown with its class, also with a patch in the subclass."""
    assert hookpatch.why("vendor:Sub.method").note == "inherited from vendor:Base"
    with hookpatch.active(_wrap("vendor:Sub.method"), _wrap("vendor:Base.method")):
        report = hookpatch.why("vendor:Sub.method")
    assert [(layer.by, layer.kind) for layer in report] == [("hookpatch", "wrap")] * 2 + [("module", "original")]
    assert report.note == "inherited from vendor:Base"


def test_nothing_is_imported(vendor: ModuleType, write_module: Any) -> None:
    """Neither the address's module nor a key's."""
    write_module("late", "raise RuntimeError('it ran')")
    for address in ("late:speak", "vendor:REGISTRY[late:speak]"):
        report = hookpatch.why(address)
        assert (report.imported, report.layers, report.note) == (False, (), "late is not imported in this process")
    assert "late" not in sys.modules


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        ("vendor:speek", TargetNotFound, "vendor has no attribute 'speek'; did you mean 'speak'?"),
        ("vendor:Bose.x", TargetNotFound, "vendor has no attribute 'Bose'; did you mean 'Base'?"),
        ("vendor.speak", TargetSyntaxError, None),
    ],
)
def test_address_that_leads_nowhere_is_an_error(
    vendor: ModuleType, address: str, error: type[Exception], message: str | None
) -> None:
    """The error is that of a patch, with the nearest name; a lazy module is not loaded."""
    with pytest.raises(error) as caught:
        hookpatch.why(address)
    assert message is None or str(caught.value) == f"{message} (target {address} of hookpatch.why())"


# --- ours


def passing(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return wrapped(*args, **kwargs)


def _wrap(address: str, **facts: Any) -> hookpatch.Patch:
    return hookpatch.wrap(address, passing, **facts)


HERE = passing.__code__.co_firstlineno
OURS: Short = ("hookpatch", "wrap", f"{__name__}:passing", HERE, True)


@pytest.mark.parametrize(
    "address", ["speak", "Base.method", "Base.of_class", "Base.static", "waits", "REGISTRY['speak']", "sqrt", "Base"]
)
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_layers_are_told_from_the_outermost_in(vendor: ModuleType, address: str, reach: Any) -> None:
    """Of overlapping sessions, by the same wrapper, on any kind of slot, in the slot and in the function itself."""
    (original,) = hookpatch.why(f"vendor:{address}")
    with hookpatch.active(_wrap(f"vendor:{address}")), hookpatch.active(*[_wrap(f"vendor:{address}", reach=reach)] * 2):
        report = hookpatch.why(f"vendor:{address}")
    assert short(report)[:3] == [OURS] * 3
    in_function = reach == "everywhere" and address not in ("sqrt", "Base")
    numbers = [layer.session or 0 for layer in report.layers[:3]]
    later = [number > min(numbers) for number in numbers]
    assert later == ([False, True, True] if in_function else [True, True, False])
    assert report.layers[3:] == (original,)


def test_text_names_everything(vendor: ModuleType) -> None:
    """The text has the arguments of inject, and a short form of values."""
    patches = [hookpatch.inject("vendor:speak", word=["a", {"b": 1}, vendor.LAZY]), _wrap("vendor:speak")]
    with hookpatch.active(*patches):
        report = hookpatch.why("vendor:speak")
    number = report.layers[0].session
    assert str(report) == (
        "vendor:speak\n"
        f"  inject by active(), session {number}\n"
        "      word=['a', {'b': 1}, a vendor:Lazy]\n"
        f"  wrap by active(), session {number}\n"
        f"      {__name__}:passing at {__file__}:{HERE}\n"
        "  the original\n"
        f"      vendor:speak at {vendor.__file__}:{line_of(vendor, _SPEAK)}"
    )
    assert json.loads(report.to_json())["layers"][0] == {
        "by": "hookpatch",
        "kind": "inject",
        "name": "vendor:speak",
        "place": None,
        "plugin": None,
        "distribution": None,
        "session": number,
        "arguments": {"word": "['a', {'b': 1}, a vendor:Lazy]"},
        "reached": True,
        "note": None,
        "state": "applied",
    }


_SPEAK = 'def speak(word="vendor"):'


def derived(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: original(*args, **kwargs)


def test_values_hide_what_lies_beneath_them(vendor: ModuleType, theirs: ModuleType) -> None:
    """A replaced or removed value is not reached; a derived value goes on to its source."""
    low = hookpatch.active(_wrap("vendor:speak"), hookpatch.remove("vendor:LIMIT"))
    with low, hookpatch.active(hookpatch.replace("vendor:speak", theirs.another)):
        report = hookpatch.why("vendor:speak")
        limit = hookpatch.why("vendor:LIMIT")
    assert short(report) == [
        ("hookpatch", "replace", "theirs:another", line_of(theirs, 'def another(word="other"): return word'), True),
        (*OURS[:4], False),
        _original(vendor, "speak", _SPEAK, reached=False),
    ]
    assert short(limit) == [
        ("hookpatch", "remove", "vendor:LIMIT", None, True),
        ("module", "original", "3", None, False),
    ]
    with hookpatch.active(_wrap("vendor:speak"), hookpatch.derive("vendor:speak", derived), _wrap("vendor:speak")):
        report = hookpatch.why("vendor:speak")
    assert short(report) == [
        OURS,
        ("hookpatch", "derive", f"{__name__}:derived", derived.__code__.co_firstlineno, True),
        OURS,
        _original(vendor, "speak", _SPEAK),
    ]


def test_way_that_is_patched_itself_is_noted(vendor: ModuleType) -> None:
    """A patched step of an address is noted; addresses lead through original values."""
    with hookpatch.active(hookpatch.replace("vendor:Base", SimpleNamespace)):
        report = hookpatch.why("vendor:Base.method")
    assert report.note == "vendor:Base is patched, too; this slot belongs to the original value there"
    assert short(report) == [_original(vendor, "Base.method", "    def method(self): return 1")]


def test_object_at_hand_is_told(vendor: ModuleType) -> None:
    """For an instance why shows the own value, else the class's value."""
    instance = vendor.Base()
    target = hookpatch.Target.attribute(instance, "method")
    assert short(hookpatch.why(target)) == [_original(vendor, "Base.method", "    def method(self): return 1")]
    with hookpatch.active(_wrap(target), _wrap("vendor:Base.method")):  # type: ignore[arg-type]  # a target is fine
        kinds = [(layer.by, layer.kind) for layer in hookpatch.why(target)]
    assert kinds[0] == ("hookpatch", "wrap")
    assert kinds[-1] == ("module", "original")


# --- foreign wrappers


def test_wrappers_of_others_are_told_over_and_under_ours(vendor: ModuleType, theirs: ModuleType) -> None:
    """Show wrapt's proxies by their wrapper, functools.wraps by its code, partials by their arguments."""
    original = vendor.speak
    vendor.speak = theirs.telling(vendor.speak)
    with hookpatch.active(_wrap("vendor:speak")):
        wrapt.wrap_function_wrapper("vendor", "speak", theirs.passing)
        vendor.speak = functools.partial(vendor.speak, word=[1])
        with hookpatch.active(hookpatch.inject("vendor:speak", word="x")):
            report = hookpatch.why("vendor:speak")
        vendor.speak = vendor.speak.func.__wrapped__
    vendor.speak = original
    inner_line = line_of(theirs, "    @functools.wraps(function)")
    passing_line = line_of(theirs, "def passing(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs)")
    assert short(report) == [
        ("somebody", "functools.partial", "vendor:speak", None, True),
        ("somebody", "wrapt.FunctionWrapper", "theirs:passing", passing_line, True),
        ("hookpatch", "inject", "vendor:speak", None, True),
        OURS,
        ("somebody", "functools.wraps", "theirs:telling.<locals>.inner", inner_line, True),
        _original(vendor, "speak", _SPEAK),
    ]
    assert report.layers[0].note == "gives word=[1]"


def test_foreign_function_hides_what_lies_beneath(vendor: ModuleType, theirs: ModuleType) -> None:
    """A foreign function is shown with file and line; one with our wrapper in a cell may call our wrapper."""
    with hookpatch.active(_wrap("vendor:speak")):
        ours = vendor.speak
        vendor.speak = theirs.silent(ours)
        closure = hookpatch.why("vendor:speak")
        vendor.speak = theirs.another
        hidden = hookpatch.why("vendor:speak")
        vendor.speak = ours
    line = line_of(theirs, "def silent(function):") + 1
    assert short(closure)[0] == ("somebody", "function", "theirs:silent.<locals>.inner", line, True)
    ways = [[(layer.by, layer.kind, layer.reached, layer.state) for layer in report] for report in (closure, hidden)]
    theirs_first = ("somebody", "function", True, None)
    applied = [("hookpatch", "wrap", True, "applied"), ("module", "original", True, None)]
    assert ways == [[theirs_first, *applied], [theirs_first, ("hookpatch", "wrap", False, "overwritten")]]


def test_mocks_are_told(vendor: ModuleType) -> None:
    """A mock hides the value beneath, except with wraps=; a started patcher knows the value before."""
    mock = ("somebody", "unittest.mock.MagicMock")
    with hookpatch.active(_wrap("vendor:speak")):
        with unittest.mock.patch("vendor.speak"):
            in_block = [(layer.by, layer.kind, layer.reached) for layer in hookpatch.why("vendor:speak")]
        for patcher in (unittest.mock.patch("vendor.speak"), unittest.mock.patch("vendor.speak", autospec=True)):
            patcher.start()
            started = [(layer.by, layer.kind, layer.reached) for layer in hookpatch.why("vendor:speak")]
            patcher.stop()
            beneath = [("hookpatch", "wrap", False), ("module", "original", False)]
            assert started == [(*mock, True), *beneath]
        with unittest.mock.patch("vendor.speak", wraps=vendor.speak):
            wraps = [(layer.by, layer.kind, layer.reached) for layer in hookpatch.why("vendor:speak")]
    assert in_block == [(*mock, True), ("hookpatch", "wrap", False)]
    assert wraps == [(*mock, True), ("hookpatch", "wrap", True), ("module", "original", True)]


def test_what_a_session_has_left_is_told(vendor: ModuleType, theirs: ModuleType) -> None:
    """An ended patch beneath a foreign wrapper passes calls through; once that wrapper is gone, why is clean."""
    original = vendor.speak
    with hookpatch.active(_wrap("vendor:speak")) as session:
        ours = vendor.speak
        vendor.speak = theirs.telling(ours)
    assert [patch.state for patch in session.report()] == ["dormant"]
    report = hookpatch.why("vendor:speak")
    assert [(layer.by, layer.kind) for layer in report] == [
        ("somebody", "functools.wraps"),
        ("hookpatch", "ended"),
        ("module", "original"),
    ]
    assert str(report).splitlines()[3] == "  left by hookpatch after the end"
    vendor.speak = ours
    del ours
    hookpatch.report()
    assert vendor.speak is original
    assert [layer.kind for layer in hookpatch.why("vendor:speak")] == ["original"]


def test_looking_changes_nothing(vendor: ModuleType, theirs: ModuleType) -> None:
    """The slot holds the same object before and after a look, with the same results."""
    with hookpatch.active(_wrap("vendor:speak")):
        vendor.speak = wrapt.FunctionWrapper(vendor.speak, theirs.passing)
        before = dict(vars(vendor))
        for _ in range(2):
            hookpatch.why("vendor:speak")
        assert vars(vendor).keys() == before.keys()
        assert all(vars(vendor)[name] is value for name, value in before.items())
        vendor.speak = vendor.speak.__wrapped__


# --- the command


def test_command_imports_and_tells(environment: Environment) -> None:
    """With the plugins of the environment and of -p on, several addresses, as JSON; what imports print is aside."""
    environment.add_plugin("loud", LOUD)
    (environment.site_packages / "vendor.py").write_text("print('noise')\ndef speak(word): return word\nLIMIT = 3\n")
    completed = command(environment, "why", "vendor:speak", "vendor:LIMIT", "-p", "loud", "--json")
    assert (completed.returncode, completed.stderr) == (0, "noise\n")
    speak, limit = json.loads(completed.stdout)["slots"]
    assert [(layer["kind"], layer["plugin"], layer["distribution"]) for layer in speak["layers"]] == [
        ("wrap", "loud", "loud-dist 1.0"),
        ("original", None, None),
    ]
    assert speak["layers"][0]["place"] == f"{environment.site_packages / 'loud_dist_loud.py'}:7"
    assert limit["layers"][0]["name"] == "3"
    text = command(environment, "why", "vendor:speak", HOOKPATCH_PLUGINS="loud").stdout.splitlines()
    assert text[:2] == ["vendor:speak", "  wrap by plugin 'loud' from loud-dist 1.0, session 1"]
    nowhere = "ModuleNotFoundError: No module named 'nowhere'; run this command with the Python of the program"
    nowhere += "; for a module beside a program's script, call hookpatch.why() in the program"
    for address, message in (
        ("nowhere:x", f"hookpatch why: nowhere cannot be imported: {nowhere} [hookpatch explain SettingError]"),
        (
            "vendor:s",
            "vendor has no attribute 's' (target vendor:s of hookpatch.why()) [hookpatch explain TargetNotFound]",
        ),
    ):
        completed = command(environment, "why", address)
        assert (completed.returncode, completed.stderr.splitlines()[-1]) == (78, f"hookpatch: error: {message}")
