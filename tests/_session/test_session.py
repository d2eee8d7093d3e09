"""Session: all patches are applied or none, and all are restored."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch import errors

SOURCE = """
def speak(word="vendor"):
    return word
def other():
    return "other"
REGISTRY = {"a": 1, "b": 2}
"""


@pytest.fixture
def vendor(make_module: Any) -> ModuleType:
    module: ModuleType = make_module("vendor", SOURCE)
    return module


def shout(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs).upper()


def test_block_is_patched_and_what_was_there_is_there_again(vendor: ModuleType) -> None:
    """The promise, in its smallest form: patched inside, restored after."""
    speak, names = vendor.speak, list(vars(vendor))
    with hookpatch.active(hookpatch.wrap("vendor:speak", shout)):
        assert vendor.speak() == "VENDOR"
    assert vendor.speak is speak
    assert list(vars(vendor)) == names


def test_making_a_session_changes_nothing(vendor: ModuleType) -> None:
    """Only entering does."""
    speak = vendor.speak
    session = hookpatch.active(hookpatch.wrap("vendor:speak", shout))
    assert vendor.speak is speak
    message = (
        "<Session of vendor:speak, new> was never opened: no patch was applied; use the session in a with statement"
    )
    with pytest.warns(errors.NeverOpenedWarning, match=f"^{re.escape(message)}$"):
        del session


def test_session_that_decorates_is_opened_for_each_call(vendor: ModuleType) -> None:
    """A decorator's session, never opened directly, gets no warning."""
    function = hookpatch.active(hookpatch.wrap("vendor:speak", shout))(lambda: 1)
    assert function() == 1
    hookpatch.active()


@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt, SystemExit])
def test_exception_in_the_body_restores_and_goes_on(vendor: ModuleType, raised: type[BaseException]) -> None:
    """The body's exception is neither swallowed nor changed."""
    speak, error = vendor.speak, raised("x")
    with pytest.raises(raised) as caught, hookpatch.active(hookpatch.wrap("vendor:speak", shout)):
        raise error
    assert caught.value is error
    assert vendor.speak is speak


def test_entering_is_all_or_nothing(vendor: ModuleType) -> None:
    """A patch that does not fit leaves all patches of the session unapplied."""
    before = list(vars(vendor).items())
    session = hookpatch.active(
        hookpatch.wrap("vendor:speak", shout),
        hookpatch.remove("vendor:REGISTRY['a']"),
        hookpatch.wrap("vendor:spaek", shout),
    )
    with pytest.raises(errors.TargetNotFound), session:
        pytest.fail("the body must not run")
    assert list(vars(vendor).items()) == before
    assert list(vendor.REGISTRY) == ["a", "b"]


def test_factory_that_raises_restores_what_was_applied(vendor: ModuleType) -> None:
    """A factory raises after the checks: applied patches are restored, and the error names the owner."""
    speak = vendor.speak

    def factory(original: object) -> object:
        raise RuntimeError("no")

    session = hookpatch.active(hookpatch.wrap("vendor:speak", shout), hookpatch.derive("vendor:other", factory))
    with pytest.raises(errors.ApplyError) as caught, session:
        pytest.fail("the body must not run")
    assert str(caught.value) == (
        "the derive raised RuntimeError: no (target vendor:other of a patch given to active())"
    )
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert vendor.speak is speak
    assert [patch.state for patch in session.report()] == ["restored", "failed"]


def test_undo_that_raises_does_not_stop_the_others(vendor: ModuleType) -> None:
    """The other patches are restored, and a RestoreError has all failures."""
    speak, other_function = vendor.speak, vendor.other

    @contextmanager
    def stubborn(module: ModuleType) -> Iterator[None]:
        yield
        raise RuntimeError(module.__name__)

    session = hookpatch.active(
        hookpatch.wrap("vendor:speak", shout),
        hookpatch.enter("vendor", stubborn),
        hookpatch.enter("vendor", stubborn),
        hookpatch.wrap("vendor:other", shout),
    )
    with pytest.raises(errors.RestoreError) as caught, session:
        assert vendor.other() == "OTHER"
    assert caught.value.message == "2 undos failed at the end of a session; everything else was restored"
    assert [str(error) for error in caught.value.exceptions] == ["vendor", "vendor"]
    assert vendor.speak is speak
    assert vendor.other is other_function
    assert [patch.state for patch in session.report()] == ["restored", "failed", "failed", "restored"]


def test_closing_twice_does_no_harm(vendor: ModuleType) -> None:
    """A second close does nothing; patches of other sessions stay."""
    first = hookpatch.active(hookpatch.wrap("vendor:speak", shout)).open()
    first.close()
    with hookpatch.active(hookpatch.wrap("vendor:speak", shout)):
        first.close()
        assert vendor.speak() == "VENDOR"


def test_decorated_function_is_patched_in_its_calls_only(vendor: ModuleType) -> None:
    """Only calls of the decorated function are patched; in a recursion once."""

    def more(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs) + "!"

    @hookpatch.active(hookpatch.wrap("vendor:speak", more))
    def call(depth: int) -> str:
        """Call."""
        return call(depth - 1) + vendor.speak() if depth else ""

    speak = vendor.speak
    assert call(2) == "vendor!vendor!"
    assert vendor.speak is speak
    assert call(1) == "vendor!"
    assert call.__doc__ == "Call."


def test_decorated_coroutine_is_patched_while_it_runs(vendor: ModuleType) -> None:
    """A decorated coroutine is patched from its first line to its last."""

    @hookpatch.active(hookpatch.wrap("vendor:speak", shout))
    async def call() -> str:
        await asyncio.sleep(0)
        answer: str = vendor.speak()
        return answer

    coroutine = call()
    assert vendor.speak() == "vendor"
    assert asyncio.run(coroutine) == "VENDOR"
    assert vendor.speak() == "vendor"


def test_generator_cannot_be_decorated(vendor: ModuleType) -> None:
    """A decorated generator is refused: patches would hold while suspended."""

    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(errors.SessionError) as caught:
        hookpatch.active(hookpatch.wrap("vendor:speak", shout))(numbers)
    assert str(caught.value) == (
        "active() cannot decorate the generator test_generator_cannot_be_decorated.<locals>.numbers: patches would "
        "stay on while the generator is suspended; write the block inside the generator"
    )


def test_module_that_comes_later_is_patched_when_it_comes(write_module: Any) -> None:
    """A module imported inside is patched, and restored at the end."""
    write_module("late", SOURCE)
    with hookpatch.active(hookpatch.wrap("late:speak", shout)) as session:
        assert [patch.state for patch in session.report()] == ["waiting"]
        assert "late" not in sys.modules
        import late  # type: ignore[import-not-found]  # written above

        assert late.speak() == "VENDOR"
        assert [patch.state for patch in session.report()] == ["applied"]
    assert late.speak() == "vendor"
    assert [patch.state for patch in session.report()] == ["restored"]


def test_module_that_comes_after_the_end_is_not_patched(write_module: Any) -> None:
    """The wish ends with the session."""
    write_module("late", SOURCE)
    with hookpatch.active(hookpatch.wrap("late:speak", shout)) as session:
        pass
    import late

    assert late.speak() == "vendor"
    (patch,) = session.report()
    assert (patch.state, patch.reason) == ("unused", "late was never imported")


def test_late_failure_does_not_break_the_import(write_module: Any) -> None:
    """It is warned about and reported, and the program goes on; the other patches of the module are applied."""
    write_module("late", SOURCE)
    patches = [hookpatch.wrap("late:spaek", shout), hookpatch.wrap("late:speak", shout)]
    with hookpatch.active(*patches) as session:
        problem = (
            "late has no attribute 'spaek'; did you mean 'speak'? (target late:spaek of a patch given to active())"
        )
        with pytest.warns(errors.PatchFailedWarning) as caught:
            import late
        assert [str(warning.message) for warning in caught] == [f"not patched: {problem}"]
        assert late.speak() == "VENDOR"
        assert [(patch.state, patch.reason) for patch in session.report()] == [("failed", problem), ("applied", None)]
    assert [patch.state for patch in session.report()] == ["failed", "restored"]


def test_optional_patch_that_does_not_fit_is_skipped(vendor: ModuleType) -> None:
    """With the reason in the report."""
    optional = hookpatch.wrap("vendor:spaek", shout, required=False)
    with hookpatch.active(optional, hookpatch.wrap("vendor:speak", shout)) as session:
        assert vendor.speak() == "VENDOR"
    assert [(patch.state, patch.reason) for patch in session.report()] == [
        (
            "skipped",
            "vendor has no attribute 'spaek'; did you mean 'speak'? (target vendor:spaek of a patch given to active())",
        ),
        ("restored", None),
    ]


def test_later_session_lies_outside_and_they_end_in_any_order(vendor: ModuleType) -> None:
    """Sessions end in any order, unlike a LIFO stack of saved values."""

    def tag(mark: str) -> hookpatch.Patch:
        return hookpatch.wrap("vendor:speak", lambda wrapped, instance, args, kwargs: mark + wrapped(*args, **kwargs))

    speak = vendor.speak
    first, second, third = (hookpatch.active(tag(mark)).open() for mark in "abc")
    assert vendor.speak() == "cbavendor"
    second.close()
    assert vendor.speak() == "cavendor"
    first.close()
    assert vendor.speak() == "cvendor"
    third.close()
    assert vendor.speak is speak


def test_in_one_session_the_first_lies_outermost(vendor: ModuleType) -> None:
    """As the arguments read from the left."""
    patches = [
        hookpatch.wrap("vendor:speak", lambda wrapped, instance, args, kwargs, m=mark: m + wrapped(*args, **kwargs))
        for mark in "abc"
    ]
    with hookpatch.active(*patches):
        assert vendor.speak() == "abcvendor"


def test_what_is_neither_name_nor_patch_is_refused() -> None:
    """A function, say."""
    with pytest.raises(errors.SettingError) as caught:
        hookpatch.active(shout)  # type: ignore[arg-type]  # the mistake under test
    assert str(caught.value) == "active(): takes plugin names and patches, not a function"


def test_unknown_plugin_is_refused_where_it_is_given() -> None:
    """Before anything is entered."""
    with pytest.raises(errors.UnknownPlugin) as caught:
        hookpatch.active("zebra_crossing")
    assert str(caught.value).startswith("no plugin 'zebra_crossing' (asked for by active()); installed: ")


def test_names_and_patches_mix_in_the_order_given(vendor: ModuleType, make_distribution: Any) -> None:
    """The first name or patch lies outermost."""
    source = """
        import hookpatch
        @hookpatch.hookimpl
        def hookpatch_patches():
            yield hookpatch.wrap("vendor:speak", lambda wrapped, i, a, k: "plugin " + wrapped(*a, **k))
    """
    make_distribution("tagger-dist", plugins={"tagger": "tagger_plugin"}, modules={"tagger_plugin": source})
    own = hookpatch.wrap("vendor:speak", lambda wrapped, i, a, k: "own " + wrapped(*a, **k))
    with hookpatch.active(own, "tagger"):
        assert vendor.speak() == "own plugin vendor"
    with hookpatch.active("tagger", own, "tagger") as session:
        assert vendor.speak() == "plugin own vendor"
        assert repr(session) == "<Session of tagger, vendor:speak, open>"


def test_enter_enters_when_the_module_is_there_and_leaves_at_the_end(write_module: Any) -> None:
    """enter() is for changes with their own undo; a reload enters anew."""
    write_module("late", SOURCE)
    events: list[str] = []

    @contextmanager
    def span(module: ModuleType) -> Iterator[None]:
        events.append(f"enter {module.__name__}")
        yield
        events.append("leave")

    with hookpatch.active(hookpatch.enter("late", span)) as session:
        assert events == []
        import importlib

        late = importlib.import_module("late")
        assert events == ["enter late"]
        importlib.reload(late)
        assert events == ["enter late", "leave", "enter late"]
        (patch,) = session.report()
        assert (patch.target, patch.verb, patch.state) == ("late", "enter", "applied")
    assert events == ["enter late", "leave", "enter late", "leave"]
    assert [patch.state for patch in session.report()] == ["restored"]


def test_open_session_at_the_end_of_the_interpreter_is_quiet(vendor: ModuleType) -> None:
    """At the interpreter's end no module is restored, and no output comes."""
    program = "import hookpatch\ns = hookpatch.active(hookpatch.inject('inspect:signature', eval_str=True)).open()"
    for keeping in ("", "\nimport builtins; builtins.s = s"):
        completed = subprocess.run(
            [sys.executable, "-X", "dev", "-c", program + keeping], capture_output=True, text=True, check=True
        )
        assert (completed.stdout, completed.stderr) == ("", "")


@pytest.mark.parametrize("first_closed", [0, 1])
def test_slot_and_everywhere_on_one_function_compose(vendor: ModuleType, first_closed: int) -> None:
    """The in-place change goes into the function, not into the slot's wrapper, in either order."""
    speak, code = vendor.speak, vendor.speak.__code__

    def tag(mark: str, **facts: Any) -> hookpatch.Session:
        return hookpatch.active(
            hookpatch.wrap("vendor:speak", lambda wrapped, i, a, k: mark + wrapped(*a, **k), **facts)
        ).open()

    sessions = [tag("slot "), tag("everywhere ", reach="everywhere")]
    assert (vendor.speak(), speak()) == ("slot everywhere vendor", "everywhere vendor")
    sessions.pop(first_closed).close()
    assert vendor.speak() == ("everywhere vendor", "slot vendor")[first_closed]
    assert speak() == ("everywhere vendor", "vendor")[first_closed]
    sessions.pop().close()
    assert vendor.speak is speak
    assert speak.__code__ is code
    assert speak.__kwdefaults__ is None
    assert vars(speak) == {}


def test_namespace_package_is_patched_when_it_comes(folder: Any) -> None:
    """A namespace package without a loader is patched at its import."""
    (folder / "spacious").mkdir()
    with hookpatch.active(hookpatch.replace("spacious:added", 1, add=True)):
        import spacious  # type: ignore[import-not-found]  # made above

        assert spacious.added == 1
    assert "added" not in vars(spacious)


def test_undo_that_raises_while_entering_fails_is_told_with_the_error(make_module: Any) -> None:
    """Both errors are raised: of the opening, and of the failed restore."""
    module = make_module(
        "half_locked",
        """
        class Locked(type):
            def __setattr__(cls, name, value):
                if value == 1:
                    raise RuntimeError(f"{name} is locked")
                super().__setattr__(name, value)
        class Model(metaclass=Locked):
            size = 1
            other = 1
        """,
    )

    def factory(original: object) -> object:
        raise KeyError("mine")

    session = hookpatch.active(
        hookpatch.replace("half_locked:Model.size", 2), hookpatch.derive("half_locked:Model.other", factory)
    )
    with pytest.raises(errors.ApplyError, match="the derive raised KeyError: 'mine'") as caught:
        session.open()
    taken_back = "and while the applied patches were restored: RuntimeError: size is locked"
    assert caught.value.__notes__ == ["'hookpatch explain ApplyError' prints the meaning and the remedy", taken_back]
    assert [patch.state for patch in session.report()] == ["failed", "failed"]
    assert module.Model.other == 1
