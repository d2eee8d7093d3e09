"""A block entered again uses its earlier findings until a change."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch import Patch
from hookpatch.errors import TargetNotFound, TargetRefused

SOURCE = """\
def speak(word): return f"vendor {word}"
class Thing:
    def run(self): return "run"
"""


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> Any:
    return make_module("vendor", SOURCE)


def loud(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs).upper()


def entered(patch: Patch, call: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what a call returns inside a block and after it."""
    with hookpatch.active(patch) as session:
        inside = call()
        assert [(row.state, row.target) for row in session.report()] == [("applied", patch.address)]
    assert [row.state for row in session.report()] == ["restored"]
    return inside, call()


def prepared(patch: Patch) -> Any:
    """Return what is kept with a patch."""
    return getattr(patch, "_prepared", None)


@pytest.mark.parametrize("target", ["vendor:speak", "vendor:Thing.run"])
def test_wrapper_is_used_again(vendor: Any, target: str) -> None:
    patch = hookpatch.wrap(target, loud)
    owner = vendor if target == "vendor:speak" else vendor.Thing
    original = vars(owner)[name := target.rpartition(".")[2].rpartition(":")[2]]
    wrappers = set()
    for _ in range(3):
        with hookpatch.active(patch):
            wrappers.add(id(vars(owner)[name]))
        assert vars(owner)[name] is original
    assert len(wrappers) == 1
    assert prepared(patch).own is original


def test_wrapper_that_other_code_holds_is_not_used_again(vendor: Any) -> None:
    """A wrapper held by other code passes calls through, and is not used again."""
    patch = hookpatch.wrap("vendor:speak", loud)
    with hookpatch.active(patch):
        speak = vendor.speak
    with hookpatch.active(patch):
        assert (vendor.speak("x"), speak("x")) == ("VENDOR X", "vendor x")


def test_call_on_its_way_has_the_wrapper_of_its_block(vendor: Any) -> None:
    answers: list[str] = []

    def nested(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
        session.close()
        with hookpatch.active(patch):
            answers.append(vendor.speak("y"))
            return wrapped(*args, **kwargs)

    patch = hookpatch.wrap("vendor:speak", loud)
    session = hookpatch.active(hookpatch.wrap("vendor:speak", nested)).open()
    assert vendor.speak("x") == "vendor x"
    assert answers == ["VENDOR Y"]


def test_function_that_was_exchanged_meanwhile(vendor: Any) -> None:
    patch = hookpatch.wrap("vendor:speak", loud)
    assert entered(patch, lambda: vendor.speak("x")) == ("VENDOR X", "vendor x")
    vendor.speak = lambda word: f"other {word}"
    assert entered(patch, lambda: vendor.speak("x")) == ("OTHER X", "other x")


def test_class_that_was_exchanged_meanwhile(vendor: Any) -> None:
    patch = hookpatch.wrap("vendor:Thing.run", loud)
    assert entered(patch, lambda: vendor.Thing().run()) == ("RUN", "run")
    old, vendor.Thing = vendor.Thing, type("Thing", (), {"run": lambda self: "other"})
    assert entered(patch, lambda: vendor.Thing().run()) == ("OTHER", "other")
    assert old().run() == "run"


def test_module_that_was_executed_anew_or_exchanged(vendor: Any) -> None:
    patch = hookpatch.wrap("vendor:speak", loud)
    entered(patch, lambda: vendor.speak("x"))
    importlib.reload(vendor)
    assert entered(patch, lambda: vendor.speak("x")) == ("VENDOR X", "vendor x")
    del sys.modules["vendor"]
    anew: Any = importlib.import_module("vendor")
    assert entered(patch, lambda: (anew.speak("x"), vendor.speak("x"))) == (
        ("VENDOR X", "vendor x"),
        ("vendor x", "vendor x"),
    )


def test_target_that_fits_no_longer(vendor: Any) -> None:
    patch = hookpatch.wrap("vendor:speak", loud)
    entered(patch, lambda: vendor.speak("x"))
    vendor.speak = 3
    with pytest.raises(TargetRefused, match="cannot be called"):
        hookpatch.active(patch).open()
    del vendor.speak
    with pytest.raises(TargetNotFound):
        hookpatch.active(patch).open()


def test_two_patches_of_which_one_was_applied_before(vendor: Any) -> None:
    """Patches of another session lie beneath, and end first."""
    first, second = (hookpatch.wrap("vendor:speak", loud) for _ in range(2))
    entered(first, lambda: vendor.speak("x"))
    outer = hookpatch.active(second).open()
    inner = hookpatch.active(first).open()
    assert len(hookpatch.why("vendor:speak").layers) == 3
    outer.close()
    assert vendor.speak("x") == "VENDOR X"
    inner.close()
    assert entered(first, lambda: vendor.speak("x")) == ("VENDOR X", "vendor x")


@pytest.mark.parametrize("verb", ["replace", "derive", "remove"])
def test_other_verbs(vendor: Any, verb: str) -> None:
    changes: Any = {
        "replace": lambda: hookpatch.replace("vendor:speak", lambda word: word),
        "derive": lambda: hookpatch.derive("vendor:speak", lambda speak: lambda word: speak(word)[:2]),
        "remove": lambda: hookpatch.remove("vendor:speak"),
    }
    patch, original = changes[verb](), vendor.speak
    results = []
    for _ in range(3):
        with hookpatch.active(patch):
            results.append(vendor.speak("x") if verb != "remove" else hasattr(vendor, "speak"))
        assert vendor.speak is original
    assert results == [{"replace": "x", "derive": "ve", "remove": False}[verb]] * 3


def test_what_is_kept_is_no_part_of_the_patch(vendor: Any) -> None:
    patch, like = (hookpatch.wrap("vendor:speak", loud) for _ in range(2))
    entered(patch, lambda: vendor.speak("x"))
    assert prepared(patch) is not None
    assert prepared(like) is None
    assert (patch == like, repr(patch), hash(patch)) == (True, repr(like), hash(like))
    copy = pickle.loads(pickle.dumps(patch))
    assert copy == patch
    assert prepared(copy) is None


def test_patch_with_a_version_is_looked_at_each_time(vendor: Any) -> None:
    """The installed version may change, so a patch with requires is checked each time."""
    patch = hookpatch.wrap("vendor:speak", loud, requires="pytest>=1")
    entered(patch, lambda: vendor.speak("x"))
    assert prepared(patch) is None


def test_nothing_is_kept_of_a_method_two_steps_away(make_module: Callable[[str, str], ModuleType]) -> None:
    module: Any = make_module("deep", "class A:\n    class B:\n        def run(self): return 'run'\n")
    patch = hookpatch.wrap("deep:A.B.run", loud)
    for _ in range(2):
        assert entered(patch, lambda: module.A.B().run()) == ("RUN", "run")
    assert prepared(patch) is None


def test_a_value_comes_after_a_wrapper_that_has_ended(make_module: Callable[[str, str], ModuleType]) -> None:
    """The stand-in of the wrapper is kept for the next wrapper, and not taken for the value."""
    module = make_module("former", "def f(): return 'original'\n")
    wrapping = hookpatch.wrap("former:f", lambda wrapped, instance, args, kwargs: wrapped() + ", wrapped")
    for _ in range(2):
        with hookpatch.active(wrapping):
            assert module.f() == "original, wrapped"
        with hookpatch.active(hookpatch.replace("former:f", lambda: "new")):
            assert module.f() == "new"
    assert module.f() == "original"
