"""Code of a patch or plugin would end the program: an error or note names the plugin, and nothing half is left."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import HookpatchError, PluginError, RestoreError

# Python 3.12 warns of a fork where earlier tests have left threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
ORIGINAL: Final = os._exit
VENDOR: Final = "def speak(): return 'vendor'\nclass Part: pass\n"

# The plugin: a call of ``end`` in one part of its code, named by IN.
PLUGIN: Final = '''
"""End the program."""
import contextlib, os, posix, sys
import hookpatch
from os import _exit as kept

class Text(Exception):
    def __str__(self): return answer()

class Own(BaseException): pass

def answer(): raise ZeroDivisionError

def end():
    END

def part(name, value=None):
    if name == "IN":
        end()
    return value

@contextlib.contextmanager
def entered(module):
    part("enter")
    yield
    part("leave")

def louder(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs).upper()

@hookpatch.hookimpl
def hookpatch_patches():
    yield hookpatch.wrap("vendor:speak", louder)
    part("patches")
    if "IN" == "derive":
        yield hookpatch.derive("vendor:Part", lambda cls: part("derive", cls))
    if "IN" in ("enter", "leave"):
        yield hookpatch.enter("vendor", entered)
    if "IN" == "only":
        yield hookpatch.wrap("vendor:sp*", louder, only=lambda value: part("only", True))

@hookpatch.hookimpl
def hookpatch_changed(sites):
    part("changed")

@hookpatch.hookimpl
def hookpatch_report():
    yield "begun"
    part("report")
'''
ENDS: Final = {
    "exit": ("sys.exit(0)", "raised SystemExit", "0"),
    "exit_without_status": ("raise SystemExit", "raised SystemExit", ""),
    "interrupt": ("raise KeyboardInterrupt", "raised KeyboardInterrupt", ""),
    "generator_exit": ("raise GeneratorExit", "raised GeneratorExit", ""),
    "base_exception": ("raise Own('own')", "raised Own", "own"),
    "os_exit": ("os._exit(0)", "called os._exit(0)", ""),
    "posix_exit": ("posix._exit(3)", "called os._exit(3)", ""),
    "kept_exit": ("kept(0)", "called os._exit(0)", ""),
    "text": ("raise Text", "raised Text", "its __str__ raised ZeroDivisionError"),
    "text_that_exits": (
        "global answer; answer = sys.exit; raise Text",
        "raised Text",
        "its __str__ raised SystemExit",
    ),
    "no_text": ("global answer; answer = int; raise Text", "raised Text", "its __str__ raised TypeError"),
}
PARTS: Final = ("patches", "derive", "enter", "leave", "only", "changed", "report")


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


def in_fork(act: Callable[[], Any]) -> Any:
    """Return the result of a function that may end its process; the exit status if the process has ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, json.dumps(act()).encode())
        finally:
            ORIGINAL(99)
    os.close(writing)
    with open(reading) as pipe:
        text = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return json.loads(text) if text else f"ended with status {status}"


QUICK: Final = ("exit", "os_exit", "posix_exit")


@pytest.mark.parametrize("end", [end if end in QUICK else pytest.param(end, marks=pytest.mark.ends) for end in ENDS])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.sampled(7)
def test_code_that_ends_the_program_is_told(
    vendor: ModuleType, make_distribution: Callable[..., Path], part: str, end: str
) -> None:
    """Seven parts of a plugin, eleven ends: the program goes on, and the text tells the act."""
    code, act, text = ENDS[end]
    source = PLUGIN.replace("END", code).replace("IN", part)
    make_distribution("ending-kit", plugins={"ending": "ending_plugin"}, modules={"ending_plugin": source})

    def use() -> list[Any]:
        before, caught, report = dict(vars(vendor)), "", ""
        try:
            with hookpatch.active("ending") as session:
                report = str(session.report())
        except RestoreError as error:
            (failure,) = error.exceptions
            caught, report = type(failure).__name__, str(session.report())
        except KeyboardInterrupt:
            caught = "KeyboardInterrupt"
        except HookpatchError as error:
            caught = str(error)
        return [caught, report, dict(vars(vendor)) == before and os._exit is ORIGINAL]

    result = in_fork(use)
    assert isinstance(result, list), result
    caught, report, is_restored = result
    assert is_restored
    said = f"{act}: {text}" if text else act
    match part:
        case "report":
            assert caught == ""
            assert f"          note    hookpatch_report of ending_plugin {said}" in report.splitlines()
        case "leave" if end == "interrupt":
            assert caught == "KeyboardInterrupt"
        case "leave":
            name = "Text" if "text" in end and "without" not in end else "CodeEnd"
            assert caught == name
            reason = f"Text: {text}" if name == "Text" else said
            assert f"failed    enter   vendor  (ending): could not be restored: {reason}" in report.splitlines()
        case "patches" | "changed":
            assert caught.startswith(f"plugin 'ending' (ending-kit 1.0) {act} when ")
            assert text in caught
        case _:
            if end == "interrupt":  # passes: may be Ctrl-C, raised again by the code
                assert caught == "KeyboardInterrupt"
                return
            assert f" {act}" in caught
            assert text in caught
            assert caught.endswith("of plugin 'ending' from ending-kit 1.0)")


@pytest.mark.parametrize("end", ["exit", "generator_exit", "os_exit", "posix_exit"])
def test_only_for_instances_that_ends_the_program_is_told(vendor: ModuleType, end: str) -> None:
    """The error names the act, as for a rule's ``only=``."""
    code, act, _ = ENDS[end]
    thing = vendor.Part()

    def only(value: object) -> bool:
        exec(f"import os, posix, sys\n{code}", {})
        return True

    def use() -> list[str]:
        try:
            hookpatch.active(hookpatch.replace("vendor:Part().x", 1, add=True, only=only)).open()
        except HookpatchError as error:
            return [str(error), str(sorted(vars(thing)))]
        return []

    result = in_fork(use)
    assert isinstance(result, list), result
    text, names = result
    assert f"only= {act} for a Part" in text
    assert names == "[]"


@pytest.mark.parametrize(
    ("returned", "notes"),
    [
        ("return 'one line'", ["one line"]),
        ("return b'one line'", ["b'one line'"]),
        ("yield 'two\\nhookpatch: error: lines'", ["two", "hookpatch: error: lines"]),
        ("yield '\\x1b[31mred'", ["\\x1b[31mred"]),
        ("yield 3; yield None", ["3", "None"]),
        ("return 3", ["hookpatch_report of odd_plugin raised TypeError: 'int' object is not iterable"]),
    ],
)
def test_odd_lines_of_a_report_are_lines(
    vendor: ModuleType, make_distribution: Callable[..., Path], returned: str, notes: list[str]
) -> None:
    """A text is one line and not its letters; no escape and no line break gets into the report."""
    source = PLUGIN.replace('yield "begun"', returned).replace("END", "pass").replace('    part("report")\n', "")
    make_distribution("odd-kit", plugins={"odd": "odd_plugin"}, modules={"odd_plugin": source})
    with hookpatch.active("odd") as session:
        assert session.report().patches[0].notes == tuple(notes)
        lines = [line for line in str(session.report()).splitlines() if line.startswith("          note    ")]
        assert lines == [f"          note    {note}" for note in notes]


@pytest.mark.parametrize("how", ["yield", "await_it"])
def test_hook_that_a_call_does_not_run_is_refused(make_distribution: Callable[..., Path], how: str) -> None:
    """A generator or coroutine function as hookpatch_changed would never run a line."""
    hook = "def hookpatch_changed(sites):\n    "
    other = f"{hook}yield" if how == "yield" else f"async {hook}pass"
    source = PLUGIN.replace(f'{hook}part("changed")', other).replace("END", "pass")
    make_distribution("late-kit", plugins={"late": "late_plugin"}, modules={"late_plugin": source})
    with pytest.raises(PluginError) as caught:
        hookpatch.active("late")
    assert str(caught.value) == (
        "plugin 'late' (late-kit 1.0) has a hookpatch_changed with yield or async: a call runs none of its lines; "
        "write a plain function"
    )
    assert "late_plugin" in sys.modules


def test_object_that_fails_when_asked_for_its_class_is_no_patch(make_distribution: Callable[..., Path]) -> None:
    """The error names the plugin, and no code of the object runs."""
    source = PLUGIN.replace('    part("patches")', "    yield type('Odd', (), {'__class__': property(end)})()")
    make_distribution("odd-kit", plugins={"odd": "odd_plugin"}, modules={"odd_plugin": source.replace("END", "1 / 0")})
    with pytest.raises(PluginError, match=r"^plugin 'odd' \(odd-kit 1.0\) yields an Odd, not a patch; "):
        hookpatch.active("odd")
