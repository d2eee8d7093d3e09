"""Other interpreters of a process (PEP 734, Python 3.14): each has its own patches, or a warning."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from environments import Environment

import hookpatch

pytestmark = pytest.mark.skipif(sys.version_info < (3, 14), reason="concurrent.interpreters is new in Python 3.14")

VENDOR = "def speak(word='original'):\n    return word\n"
PATCHES = """
def wrapper(wrapped, instance, args, kwargs):
    return "patched"
"""
PLUGIN = """
    '''Patch the vendor.'''
    import hookpatch
    def wrapper(wrapped, instance, args, kwargs):
        return "patched"
    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.wrap("vendor:speak", wrapper)
"""
# msgspec, which reads options, is a C extension for the main interpreter only.
WITH_OPTIONS = PLUGIN.replace("import hookpatch", "import dataclasses, hookpatch", 1).replace(
    "@hookpatch.hookimpl\n    def hookpatch_patches():",
    "@dataclasses.dataclass(frozen=True)\n    class Options:\n        word: str = ''\n"
    "    @hookpatch.hookimpl\n    def hookpatch_patches(options):",
)
HEAD = """
import functools, warnings
from concurrent import interpreters
import hookpatch, patches, vendor

print = functools.partial(print, flush=True)  # each interpreter has a buffer of its own
CODE = "import vendor; print({!r}, vendor.speak(), flush=True)"

def say(interpreter, when):
    interpreter.exec(CODE.format(when))
"""


@pytest.fixture
def home(environment: Environment, tmp_path: Path) -> Environment:
    """Make an environment with two plugins, and a folder with the vendor's module and the wrappers."""
    environment.add_plugin("loud", PLUGIN)
    environment.add_plugin("chosen", WITH_OPTIONS)
    environment.work_in(tmp_path / "work", {"vendor.py": VENDOR, "patches.py": PATCHES})
    return environment


def _printed(home: Environment, program: str, **variables: str) -> list[str]:
    (home.folder / "program.py").write_text(HEAD + program)
    completed = home.run("program.py", **variables)
    assert (completed.stderr, completed.returncode) == ("", 0)
    return completed.stdout.splitlines()


def test_interpreter_made_before_a_block_is_told_of(home: Environment) -> None:
    """An earlier interpreter runs unpatched; the report says so for each patch while the interpreter lives."""
    program = """
before = interpreters.create()
with hookpatch.active(hookpatch.wrap("vendor:speak", patches.wrapper)) as session:
    say(before, "inside")
    print(*(warning for patch in session.report() for warning in patch.warnings), sep="\\n")
    print([patch.warnings == session.report().patches[0].warnings for patch in hookpatch.report()])
    before.close()
    print(*(warning for patch in hookpatch.report() for warning in patch.warnings), sep="\\n")
print(*session.report())
"""
    message = "interpreter 1 of this process, made before the block, runs without it"
    restored = ["restored  wrap    vendor:speak  (active())", f"          warning {message}"]
    assert _printed(home, program) == ["inside original", message, "[True]", message, *restored]


def test_interpreter_made_inside_a_block_is_patched_and_its_keeping_it_is_said(home: Environment) -> None:
    """The end of the block does not reach another interpreter; a warning names an interpreter still open."""
    program = """
with warnings.catch_warnings(record=True) as caught:
    with hookpatch.active(hookpatch.wrap("vendor:speak", patches.wrapper)) as session:
        closed, kept = interpreters.create(), interpreters.create()
        say(closed, "inside")
        say(kept, "inside")
        closed.close()
say(kept, "after")
late = interpreters.create()
say(late, "late")
print(*(f"{warning.category.__name__}: {warning.message}" for warning in caught), sep="\\n")
kept.close(), late.close()
"""
    message = "OutlivedWarning: interpreter 2 of this process, made inside the block, keeps its patches of vendor:speak"
    assert _printed(home, program) == ["inside patched"] * 2 + ["after patched", "late original", message]


def test_local_block_reaches_no_interpreter(home: Environment) -> None:
    """An interpreter made inside a local block runs unpatched."""
    program = """
with hookpatch.active(hookpatch.wrap("vendor:speak", patches.wrapper), children="local"):
    inside = interpreters.create()
    say(inside, "inside")
say(inside, "after")
inside.close()
"""
    assert _printed(home, program) == ["inside original", "after original"]


def test_what_the_environment_asks_for_holds_in_each_interpreter(home: Environment) -> None:
    """Each interpreter runs the start-up line; no warning comes, since the patches do not end."""
    program = """
from concurrent.futures import InterpreterPoolExecutor
print(vendor.speak())
one = interpreters.create()
say(one, "exec")
print(one.call(vendor.speak))
one.close()
with InterpreterPoolExecutor(1) as pool:  # of two, one might get no task, and say that it never met the vendor
    print(*pool.map(vendor.speak, ["a", "b"]))
"""
    expected = ["patched", "exec patched", "patched", "patched patched"]
    assert _printed(home, program, HOOKPATCH_PLUGINS="loud") == expected


def test_interpreters_of_a_pool_inside_a_block_are_patched(home: Environment) -> None:
    """A pool shut down before the end of the block leaves no patch."""
    program = """
from concurrent.futures import InterpreterPoolExecutor
with hookpatch.active(hookpatch.wrap("vendor:speak", patches.wrapper)):
    with InterpreterPoolExecutor(2) as pool:
        print(*pool.map(vendor.speak, ["a", "b"]))
"""
    assert _printed(home, program) == ["patched patched"]


def test_interpreter_made_inside_a_later_block_is_patched(home: Environment) -> None:
    program = """
session = hookpatch.active(hookpatch.wrap("vendor:speak", patches.wrapper))
for _ in range(4):
    with session:
        pass
with session:
    inside = interpreters.create()
    say(inside, "inside")
    inside.close()
"""
    assert _printed(home, program) == ["inside patched"]


@pytest.mark.parametrize("asks", ["HOOKPATCH_PLUGINS", "a block"])
def test_interpreter_leaves_a_report_of_its_own(home: Environment, asks: str) -> None:
    """The writing of a report needs no package that a subinterpreter cannot import; a program does not fail by it."""
    program = """
import contextlib, os
with contextlib.nullcontext() if "HOOKPATCH_PLUGINS" in os.environ else hookpatch.active("loud"):
    print(vendor.speak())
    one = interpreters.create()
    say(one, "exec")
    print(one.call(vendor.speak))
    one.close()
"""
    variables = {"HOOKPATCH_PLUGINS": "loud"} if "PLUGINS" in asks else {}
    printed = _printed(home, program, HOOKPATCH_REPORT=str(home.folder / "reports"), **variables)
    assert printed == ["patched", "exec patched", "patched"]
    run = hookpatch.receipts(home.folder / "reports")
    assert [[patch.applied_at is not None for patch in process.patches] for process in run] == [[True], [True]]
    assert run.problems == ()


@pytest.mark.parametrize("make", ["interpreters.create()", "_interpreters.create()"])
def test_interpreter_made_in_a_block_of_a_task_is_told_of(home: Environment, make: str) -> None:
    """A block of a task is not in the environment: a warning, and with children="require" an error.

    The interpreter outlives the block, and keeps none of its patches.
    """
    program = f"""
import _interpreters
patch = hookpatch.wrap("vendor:speak", patches.wrapper)
original = _interpreters.create
with hookpatch.active(patch, scope="task"), warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    one = {make}
print(*(warning.category.__name__ for warning in caught))
try:
    with hookpatch.active(patch, scope="task", children="require"):
        {make}
except hookpatch.errors.NotCarriedError as error:
    print("the patch of vendor:speak" in str(error), _interpreters.create is original)
"""
    ends = "import os; os._exit(0)  # else Python warns of the interpreter"
    assert _printed(home, program + ends) == ["NotCarriedWarning", "True True"]


def test_patch_that_an_interpreter_cannot_have_is_refused_there(home: Environment) -> None:
    """A plugin's import may fail in another interpreter: the interpreter's first call fails with the reason."""
    (home.folder / "program.py").write_text(
        HEAD + "print(vendor.speak())\none = interpreters.create()\ntry:\n    say(one, 'ran')\nexcept Exception:\n"
        "    print('refused')\none.close()\n"
    )
    variables = {"HOOKPATCH_PLUGINS": "chosen", "HOOKPATCH_OPTIONS": '{"chosen": {"word": "x"}}'}
    completed = home.run("program.py", **variables)
    assert completed.stdout == "patched\nrefused\n"
    first = completed.stderr.splitlines()[0]
    assert first.startswith("hookpatch: error: in a subinterpreter: start-up failed: ImportError: module msgspec._core")
    assert first.endswith("set HOOKPATCH_DISABLE=1 to run without patches")
    completed = home.run("program.py", HOOKPATCH_ON_ERROR="warn", **variables)
    assert completed.stdout == "patched\nran original\n"
    (line,) = completed.stderr.splitlines()
    assert line.startswith("hookpatch: warning: nothing is patched: start-up failed: ImportError: module msgspec._core")


@pytest.mark.parametrize("children", ["inherit", "local"])
def test_session_that_is_open_when_its_interpreter_ends_says_nothing(home: Environment, children: str) -> None:
    """An interpreter's end has no modules to restore."""
    program = f"""
one = interpreters.create()
one.exec('''
import hookpatch, patches, vendor
session = hookpatch.active(hookpatch.wrap("vendor:speak", patches.wrapper), children={children!r}).open()
print(vendor.speak(), flush=True)
''')
one.close()
"""
    assert _printed(home, program) == ["patched"]
