"""A slot overwritten by other code: report, `why` and the end name the value and its place."""

from __future__ import annotations

import functools
import importlib
import operator
import time
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import wrapt

import hookpatch
from hookpatch import Target
from hookpatch.errors import ApplyError, DisplacedWarning
from hookpatch.testing import pristine

SOURCE = """\
def speak(word=""): return f"vendor {word}"
def other(word): return f"other {word}"
def again():
    global speak
    def speak(word=""): return f"again {word}"
class Thing:
    def run(self): return "run"
"""
REACH = pytest.mark.parametrize("reach", ["slot", "everywhere"])


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> Any:
    return make_module("vendor", SOURCE)


def loud(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs).upper()


def agreed(session: hookpatch.Session, target: str = "vendor:speak") -> tuple[str, str | None]:
    """Return the state and the reason of the only patch: the same in each report and in `why`."""
    (patch,) = (patch for patch in session.report() if patch.place is None)
    (of_all,) = (patch for patch in hookpatch.report() if patch.place is None and patch.target == target)
    (layer,) = (layer for layer in hookpatch.why(target) if layer.by == "hookpatch")
    assert (patch.state, patch.reason, patch.ended_at) == (of_all.state, of_all.reason, None)
    assert layer.state == patch.state
    assert layer.reached == (patch.state == "applied")
    if patch.state == "overwritten":
        assert str(layer.note).startswith(str(patch.reason))
    return patch.state, patch.reason


def ended(session: hookpatch.Session, reason: str | None) -> None:
    """Close a session whose slot is overwritten: a warning gives the reason, and the report keeps it."""
    with pytest.warns(DisplacedWarning) as warned:
        session.close()
    expected = f"{reason}; the slot was left alone"
    assert [str(warning.message).endswith(expected) for warning in warned] == [True]
    patches = [patch for patch in session.report() if patch.place is None]
    assert [(patch.state, patch.reason) for patch in patches] == [("overwritten", expected)]


def patched(reach: Any, target: str = "vendor:speak") -> hookpatch.Session:
    return hookpatch.active(hookpatch.wrap(target, loud, reach=reach)).open()


@REACH
@pytest.mark.parametrize("how", ["mock", "monkeypatch", "setattr"])
def test_foreign_patch_from_before_that_is_taken_off_inside(vendor: Any, reach: str, how: str) -> None:
    """The foreign patch writes its saved value over our wrapper."""
    original = vendor.speak
    patcher, monkeypatch = unittest.mock.patch.object(vendor, "speak", vendor.other), pytest.MonkeyPatch()
    if how == "mock":
        patcher.start()
    elif how == "monkeypatch":
        monkeypatch.setattr(vendor, "speak", vendor.other)
    else:
        vendor.speak = vendor.other
    session = patched(reach)
    assert vendor.speak("x") == "OTHER X"
    assert agreed(session) == ("applied", None)
    if how == "mock":
        patcher.stop()
    elif how == "monkeypatch":
        monkeypatch.undo()
    else:
        vendor.speak = original
    assert vendor.speak("x") == "vendor x"
    state, reason = agreed(session)
    assert (state, reason) == ("overwritten", f"other code wrote vendor:speak ({vendor.__file__}:1) into vendor:speak")
    ended(session, reason)
    assert vendor.speak is original


@REACH
def test_library_that_assigns_the_name_again(vendor: Any, reach: str) -> None:
    original = vendor.speak
    session = patched(reach)
    ours = vendor.speak
    vendor.again()
    assert vendor.speak("x") == "again x"
    state, reason = agreed(session)
    words = "other code wrote vendor:speak"
    assert (state, reason) == ("overwritten", f"{words} ({vendor.__file__}:5) into vendor:speak")
    vendor.speak = ours
    assert agreed(session) == ("applied", None)
    vendor.again()
    ended(session, reason)
    assert vendor.speak is not original


@REACH
def test_mock_inside_the_block_comes_and_goes(vendor: Any, reach: str) -> None:
    """A mock overwrites the patch; after the mock the patch is applied again, and ends as usual."""
    with hookpatch.active(hookpatch.wrap("vendor:speak", loud, reach=reach)) as session:  # type: ignore[arg-type]
        with unittest.mock.patch("vendor.speak"):
            state, reason = agreed(session)
            assert state == "overwritten"
            assert str(reason).startswith("other code wrote a unittest.mock:MagicMock")
        assert agreed(session) == ("applied", None)
    assert [patch.state for patch in session.report()] == ["restored"]


@REACH
def test_unwrap_as_opentelemetry_does_it(vendor: Any, reach: str) -> None:
    """OpenTelemetry's unwrap writes the `__wrapped__` of its own proxy."""
    original = vendor.speak
    vendor.speak = theirs = wrapt.FunctionWrapper(original, loud)
    session = patched(reach)
    vendor.speak = theirs.__wrapped__
    assert vendor.speak is original
    state, reason = agreed(session)
    assert (state, reason) == ("overwritten", f"other code wrote vendor:speak ({vendor.__file__}:1) into vendor:speak")
    ended(session, reason)


@REACH
def test_unwrap_of_a_proxy(vendor: Any, reach: str) -> None:
    """A callable other than a Python function gets our proxy, with the original as `__wrapped__`."""
    vendor.first = operator.itemgetter(0)
    session = patched(reach, "vendor:first")
    assert vendor.first("x") == "X"
    vendor.first = vendor.first.__wrapped__
    assert vendor.first("x") == "x"
    state, reason = agreed(session, "vendor:first")
    assert (state, reason) == ("overwritten", "other code wrote an operator:itemgetter into vendor:first")
    ended(session, reason)


@REACH
def test_function_that_keeps_ours_has_not_overwritten_it(vendor: Any, reach: str) -> None:
    """A foreign function calls our wrapper, without `functools.wraps`: the patch takes effect, and both say so."""
    session = patched(reach)
    ours = vendor.speak
    vendor.speak = lambda word: f"<{ours(word)}>"
    assert vendor.speak("x") == "<VENDOR X>"
    assert agreed(session) == ("applied", None)
    vendor.speak = ours
    session.close()
    assert [patch.state for patch in session.report()] == ["restored"]


def test_code_that_is_changed_in_place(vendor: Any) -> None:
    """reach="everywhere" changes the function in place; a later assignment of its code overwrites the patch."""
    session = patched("everywhere")
    ours = vendor.speak.__code__
    vendor.speak.__code__ = vendor.other.__code__
    assert vendor.speak("x") == "other x"
    state, reason = agreed(session)
    code = f"the present code is from {vendor.__file__}:2"
    assert (state, reason) == ("overwritten", f"other code changed the code of vendor:speak: {code}")
    ended(session, reason)
    vendor.speak.__code__ = ours
    assert [patch.state for patch in session.report()] == ["restored"]
    assert vendor.speak("x") == "vendor x"


@pytest.mark.parametrize("target", ["vendor:speak", "vendor:Thing.run"])
def test_autoreload_of_ipython(vendor: Any, target: str) -> None:
    """superreload runs the module anew, then changes the old functions in place: the new function is patched."""
    autoreload = pytest.importorskip("IPython.extensions.autoreload")
    session = patched("slot", target)
    path = Path(vendor.__file__)
    path.write_text(SOURCE.replace("vendor {", "reloaded {").replace('"run"', '"new run"') + f"# {time.time()}\n")
    importlib.invalidate_caches()
    autoreload.superreload(vendor)
    answer = vendor.speak("x") if target == "vendor:speak" else vendor.Thing().run()
    states = {patch.state for patch in session.report()}
    assert ("overwritten" not in states) == answer.isupper()
    layers = [layer.state for layer in hookpatch.why(target) if layer.by == "hookpatch"]
    assert (layers == ["applied"]) == answer.isupper()
    session.close()


def test_name_that_is_deleted_and_value_without_a_place() -> None:
    owner = SimpleNamespace(x=1)
    session = hookpatch.active(hookpatch.replace(Target.attribute(owner, "x"), 2)).open()
    owner.x = [3]
    slot = f"<SimpleNamespace object at {id(owner):#x}>.x"
    assert [patch.reason for patch in session.report()] == [f"other code wrote [3] into {slot}"]
    del owner.x
    assert [patch.reason for patch in session.report()] == [f"other code deleted {slot}"]
    ended(session, f"other code deleted {slot}")


def test_two_sessions_at_one_slot(vendor: Any) -> None:
    """Two sessions at a slot both report the overwriting."""
    first, second = patched("slot"), patched("slot")
    original, vendor.speak = vendor.speak, vendor.other
    states = [patch.state for patch in hookpatch.report()]
    assert states == ["overwritten", "overwritten"]
    assert [layer.state for layer in hookpatch.why("vendor:speak")] == [None, *states]
    vendor.speak = original
    assert [patch.state for patch in hookpatch.report()] == ["applied", "applied"]
    second.close()
    first.close()
    assert vendor.speak("x") == "vendor x"


class Moody(dict[str, Any]):
    """A mapping whose reads fail on demand."""

    is_moody = False

    def __getitem__(self, key: str) -> Any:
        if self.is_moody:
            raise RuntimeError("not now")
        return super().__getitem__(key)


def test_owner_that_raises_when_it_is_read() -> None:
    """The report keeps the last known state."""
    owner = Moody(x=1)
    with hookpatch.active(hookpatch.replace(Target.item(owner, "x"), 2)) as session:
        owner.is_moody = True
        assert [patch.state for patch in session.report()] == ["applied"]
        owner.is_moody = False
    assert dict(owner) == {"x": 1}


@pytest.mark.parametrize("verb", ["wrap", "default"])
@pytest.mark.parametrize("fast_path", [False, True], ids=["first", "again"])
def test_code_assigned_to_a_wrapper_is_reported(vendor: Any, verb: str, fast_path: bool) -> None:
    """Code with as many free variables as the wrapper has replaced the wrapper in silence, and in later blocks, too."""
    patch = {
        "wrap": hookpatch.wrap("vendor:speak", loud),
        "default": hookpatch.default("vendor:speak", word="default"),
    }[verb]
    original, free = vendor.speak, object()

    def foreign(*args: Any) -> Any:
        return free and "foreign"

    for _ in range(3 * fast_path):
        with hookpatch.active(patch):
            pass
    session = hookpatch.active(patch).open()
    with pytest.raises(ValueError, match="requires a code object with 1 free vars, not 0"):
        vendor.speak.__code__ = vendor.other.__code__
    assert agreed(session) == ("applied", None)
    vendor.speak.__code__ = foreign.__code__
    assert vendor.speak("x") == "foreign"
    line = f"{__file__}:{foreign.__code__.co_firstlineno}"
    reason = f"other code changed the code of hookpatch's wrapper in vendor:speak: the present code is from {line}"
    assert agreed(session) == ("overwritten", reason)
    with pytest.warns(DisplacedWarning) as warned:
        session.close()
    reason += "; the original is back, with its own code"
    assert [str(warning.message).endswith(reason) for warning in warned] == [True]
    assert [(row.state, row.reason) for row in session.report()] == [("overwritten", reason)]
    assert vendor.speak is original
    assert vendor.speak("x") == "vendor x"
    with hookpatch.active(patch):
        assert vendor.speak("x") == ("vendor x" if verb == "default" else "VENDOR X")


def _tags(tag: str) -> dict[str, hookpatch.Patch]:
    def around(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
        return f"{tag}({wrapped(*args, **kwargs)})"

    def derived(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda word: f"{tag}({original(word)})"

    return {
        "wrap": hookpatch.wrap("vendor:speak", around),
        "inject": hookpatch.inject("vendor:speak", word=tag),
        "default": hookpatch.default("vendor:speak", word=tag),
        "derive": hookpatch.derive("vendor:speak", derived, check_signature=False, why="takes any word"),
        "replace": hookpatch.replace(
            "vendor:speak", lambda word="": f"{tag}({word})", check_signature=False, why="any word"
        ),
    }


FOREIGN: dict[str, Callable[[Any], Any]] = {
    "set": lambda value: lambda word="": "set",
    "mock": lambda value: unittest.mock.MagicMock(return_value="mocked"),
    "wraps": lambda value: functools.wraps(value)(lambda *args: value(*args)),
    "wrapt": lambda value: wrapt.FunctionWrapper(value, lambda wrapped, instance, args, kwargs: wrapped(*args)),
}


@pytest.mark.parametrize("scope", ["process", pytest.param("task", marks=pytest.mark.ends)])
@pytest.mark.parametrize("how", FOREIGN)
@pytest.mark.parametrize("second", _tags(""))
@pytest.mark.parametrize("first", _tags(""))
@pytest.mark.sampled(20)
def test_new_patch_under_a_foreign_value(vendor: Any, first: str, second: str, how: str, scope: Any) -> None:
    """A patch given after the overwriting is refused, or has its effect through the foreign value."""
    refusal = ""
    original, options = vendor.speak, {"scope": scope} if second in ("wrap", "inject", "default") else {}
    with pristine():
        with hookpatch.active(_tags("first")[first], children="local"):
            ours = vendor.speak
            vendor.speak = FOREIGN[how](ours)
            inner = hookpatch.active(_tags("second")[second], children="local", **options)
            try:
                with inner:
                    words = () if second == "default" else ("x",)
                    has_effect = "second" in vendor.speak(*words)
                    assert has_effect != ("without effect" in str(inner.report()))
            except ApplyError as error:
                refusal = str(error)
            vendor.speak = ours
        assert vendor.speak is original
    if refusal:
        assert "was replaced by other code" in refusal
        assert how in ("set", "mock") or {first, second} & {"derive", "replace"}
