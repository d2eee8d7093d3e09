"""Required calls: too few calls of a patch are an error at the end of the block, or of the program."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from environments import Environment

import hookpatch
from hookpatch.errors import CallsError, PatchError, TargetRefused

SOURCE = """
def speak(word="vendor"): return word
class Thing:
    def method(self, word="vendor"): return word
    @staticmethod
    def static(word="vendor"): return word
    @classmethod
    def of_class(cls, word="vendor"): return word
"""


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", SOURCE)


def louder(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return wrapped(*args, **kwargs).upper()


def other(*args: Any, word: str = "other") -> str:
    return word


class Given:
    def __init__(self, word: str = "other") -> None:
        self.word = word


VERBS = [
    pytest.param(hookpatch.wrap, louder, id="wrap"),
    pytest.param(hookpatch.inject, {"word": "other"}, id="inject"),
    pytest.param(hookpatch.replace, other, id="replace"),
    pytest.param(hookpatch.derive, lambda original: lambda *args, **kwargs: original(*args, **kwargs), id="derive"),
]


@pytest.mark.parametrize(("verb", "change"), VERBS)
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_too_few_calls_are_an_error_when_the_block_ends(vendor: ModuleType, verb: Any, change: Any, reach: Any) -> None:
    """Calls are counted for every verb, without count=True; at the error all patches are restored."""
    original = vendor.speak
    code = original.__code__
    patch = verb("vendor:speak", change, required_calls=2, reach=reach)
    with pytest.raises(CallsError) as caught, hookpatch.active(patch) as session:
        vendor.speak()
        assert [row.calls for row in session.report() if row.target == "vendor:speak"] == [{"eager": 1}]
    message = "vendor:speak of a patch given to active(): applied, called once (required_calls=2)"
    assert (str(caught.value), caught.value.problems) == (message, (message,))
    assert (vendor.speak, vendor.speak.__code__) == (original, code)
    with hookpatch.active(patch):
        assert [vendor.speak(), vendor.speak()]
    assert vendor.speak is original


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Thing.method", lambda self, word="x": word),
        ("Thing.static", staticmethod(lambda word="x": word)),
        ("Thing.of_class", classmethod(lambda cls, word="x": word)),
        ("speak", partial(other, word="x")),
        ("Thing", Given),
    ],
)
def test_values_that_are_put_there_are_counted(vendor: ModuleType, name: str, value: Any) -> None:
    """Counting works for methods, callables and classes, without another effect."""
    with hookpatch.active(hookpatch.replace(f"vendor:{name}", value, required_calls=1)) as session:
        owner = vendor.Thing() if "." in name else vendor
        called = getattr(owner, name.rpartition(".")[2])
        result = called("loud") if name != "speak" else called()
        assert (result.word if name == "Thing" else result) == ("x" if name == "speak" else "loud")
        assert [row.calls for row in session.report()] == [{"eager": 1}]


def test_nothing_is_said_of_what_did_not_get_so_far(vendor: ModuleType) -> None:
    """No error for a block that raises, a missing import, a skipped patch, or a patch without required calls."""
    waits = hookpatch.wrap("never_imported:f", louder, required_calls=1)
    skipped = hookpatch.wrap("vendor:nothing", louder, required=False, required_calls=1)
    with pytest.raises(KeyError), hookpatch.active(hookpatch.wrap("vendor:speak", louder, required_calls=1)):
        raise KeyError
    with hookpatch.active(waits, skipped, hookpatch.wrap("vendor:speak", louder)):
        pass


def test_closing_by_hand_and_a_decorator_tell_it_too(vendor: ModuleType) -> None:
    """As the block does."""
    patch = hookpatch.wrap("vendor:speak", louder, required_calls=1)
    session = hookpatch.active(patch).open()
    with pytest.raises(CallsError, match="never called"):
        session.close()
    session.close()
    decorated = hookpatch.active(patch)(lambda: None)
    with pytest.raises(CallsError, match="never called"):
        decorated()


def test_what_cannot_be_counted_is_refused(vendor: ModuleType) -> None:
    """Refuse a malformed number, a verb without calls, and a value without calls."""
    for number in (-1, True, "1", None):
        with pytest.raises(PatchError, match="is not a number of calls"):
            hookpatch.wrap("vendor:speak", louder, required_calls=number)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(PatchError, match=r"remove\(\): takes no required_calls=: the patch is never called"):
        hookpatch.remove("vendor:speak", required_calls=1)
    owner = SimpleNamespace(value=3)
    patch = hookpatch.replace(hookpatch.Target.attribute(owner, "value"), 4, required_calls=1)
    with pytest.raises(TargetRefused, match="required_calls=1 counts calls, and an int cannot be called"):
        hookpatch.active(patch).open()
    assert owner.value == 3


@pytest.mark.model
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_captured_call_of_a_value_is_one(make_module: Callable[[str, str], ModuleType], reach: Any) -> None:
    """A replaced value is counted where torch.compile captures a full graph."""
    import torch

    nets = make_module(
        f"required_{reach}",
        """
        import torch
        def act(x): return x * 2
        class Net(torch.nn.Module):
            def forward(self, x): return act(x) + 1
        """,
    )
    torch._dynamo.reset()
    patch = hookpatch.replace(f"{nets.__name__}:act", lambda x: x * 5, required_calls=1, reach=reach)
    with hookpatch.active(patch) as session:
        compiled = torch.compile(nets.Net(), backend="eager", fullgraph=True)
        assert [compiled(torch.ones(1)).item() for _ in range(2)] == [6, 6]
        assert session.report().patches[0].calls == {"compile": 1}
    torch._dynamo.reset()


# --- a program


def _plugin(verb: str = 'wrap("vendor:speak", louder, required_calls=1)') -> str:
    return f"""
        '''Speak louder, and be heard.'''
        import hookpatch

        def louder(wrapped, instance, args, kwargs):
            return wrapped(*args, **kwargs).upper()

        @hookpatch.hookimpl
        def hookpatch_patches():
            yield hookpatch.{verb}
    """


@pytest.fixture
def home(environment: Environment, tmp_path: Path) -> Environment:
    """Make an environment with a plugin with required calls, and the vendor's module."""
    environment.add_plugin("heard", _plugin())
    environment.work_in(tmp_path / "work", {"vendor.py": SOURCE})
    return environment


def ended(home: Environment, code: str, **variables: str) -> tuple[int, str, list[str]]:
    """Run code with the plugin on; return status, output, and what was said, without the number of the process."""
    completed = home.run("-c", code, HOOKPATCH_PLUGINS="heard", **variables)
    return (
        completed.returncode,
        completed.stdout,
        [re.sub(r"\[\d+\]", "", line) for line in completed.stderr.splitlines()],
    )


OF = "vendor:speak of plugin 'heard' from heard-dist 1.0"
SAID = f"hookpatch: error: {OF}: applied, never called (required_calls=1) [hookpatch explain CallsError]"
UNBOUND = f"hookpatch: warning: {OF}: was never applied: the program did not import vendor"


def run_by_the_command(home: Environment, code: str, **variables: str) -> tuple[int, str, list[str]]:
    """Run code as ``hookpatch run`` does; return the same as ``ended``."""
    completed = home.run("-m", "hookpatch", "run", "-p", "heard", "-c", code, **variables)
    return (
        completed.returncode,
        completed.stdout,
        [re.sub(r"\[\d+\]", "", line) for line in completed.stderr.splitlines()],
    )


def test_status_is_70_where_it_would_have_been_0(home: Environment) -> None:
    """The status is 70 instead of 0 under ``hookpatch run``; another status, or a signal, stays."""
    code = """
import atexit, sys, threading, time, vendor
atexit.register(print, "handler")
threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
"""
    assert run_by_the_command(home, code) == (70, "thread\nhandler\n", [SAID])
    assert run_by_the_command(home, f"{code}vendor.speak()") == (0, "thread\nhandler\n", [])
    assert run_by_the_command(home, "import sys, vendor; sys.exit(3)") == (3, "", [SAID])
    assert run_by_the_command(home, "import sys, vendor; sys.exit()") == (70, "", [SAID])
    assert run_by_the_command(home, "import os, vendor; os.kill(os.getpid(), 15)")[0] == 128 + signal.SIGTERM
    policy = run_by_the_command(home, "import vendor", HOOKPATCH_ON_ERROR="warn")
    assert policy == (0, "", [SAID.replace("error", "warning", 1)])


def test_status_is_70_where_a_module_is_misspelt(home: Environment, tmp_path: Path) -> None:
    """The status is 70 for a required patch with a misspelt module, if a module of a similar name exists."""
    beside = tmp_path / "program"
    beside.mkdir()
    for module in ("local", "vendor"):
        (beside / f"{module}.py").write_text("def speak(): return 'hi'\n")
    for end, status in (("", 70), ("; import sys; sys.exit(3)", 3)):
        (beside / f"ends{status}.py").write_text(f"import vendor, local{end}\n")
    for name, patch in {
        "slip": 'wrap("vendro:speak", louder)',
        "slip_beside": 'wrap("locall:speak", louder)',
        "may_slip": 'wrap("vendro:speak", louder, required=False)',
        "far": 'wrap("quite_another:speak", louder)',
        "beside": 'wrap("local:speak", louder)',
    }.items():
        home.add_plugin(name, _plugin(patch))
        for program, wanted in (("ends70.py", 70), ("ends3.py", 3)):
            completed = home.run("-m", "hookpatch", "run", "-p", name, str(beside / program))
            is_slip = name in ("slip", "slip_beside")
            assert completed.returncode == (wanted if is_slip or wanted == 3 else 0), (name, completed.stderr)
            assert ("did you mean" in completed.stderr) == is_slip
    assert home.run(str(beside / "ends70.py"), HOOKPATCH_PLUGINS="slip").returncode == 0  # known only at the end


def test_signals_to_the_command_reach_the_program(home: Environment) -> None:
    """Pass on a launcher's signal; Ctrl-C comes from the terminal to both processes."""
    code = "import signal, sys, time, vendor; {}; print('ready', flush=True)\nwhile True: time.sleep(0.02)"
    ends = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))"
    for number, body, status in ((signal.SIGTERM, ends, 5), (signal.SIGINT, "0", 128 + signal.SIGINT)):
        command = [home.python, "-m", "hookpatch", "run", "-p", "heard", "-c", code.format(body)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home.folder, start_new_session=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
            assert process.wait(30) == status


def test_under_plain_python_the_status_is_the_programs(home: Environment) -> None:
    """It cannot be known before the very end of the program: a line on stderr is all."""
    for end, status in (("pass", 0), ("sys.exit(3)", 3), ("exit(5)", 5)):
        assert ended(home, f"import sys, vendor; {end}") == (status, "", [SAID])
    assert ended(home, "import sys, vendor; sys.exit('broken')") == (1, "", ["broken", SAID])
    status, _, lines = ended(home, "import vendor; 1 / 0")
    assert (status, lines[-1]) == (1, "ZeroDivisionError: division by zero")


def test_calls_of_all_processes_count_where_they_leave_reports(home: Environment, tmp_path: Path) -> None:
    """With reports the calls of all processes count, otherwise the calls of the first process alone."""
    code = "import subprocess, sys, vendor; print(subprocess.run([sys.executable, '-c', {!r}]).returncode, flush=True)"
    calls, not_calls = code.format("import vendor; vendor.speak()"), code.format("import vendor")
    assert ended(home, calls) == (0, "0\n", [SAID])
    reports = {"HOOKPATCH_REPORT": str(tmp_path / "reports")}
    assert ended(home, calls, **reports) == (0, "0\n", [])
    assert ended(home, not_calls, **reports) == (0, "0\n", [SAID])
    forked = "import os, vendor\nif not os.fork(): vendor.speak(); raise SystemExit\nos.wait()"
    assert ended(home, forked) == (0, "", [SAID])
    assert ended(home, forked, **reports) == (0, "", [])


def test_module_that_was_never_imported_is_a_warning(home: Environment, tmp_path: Path) -> None:
    """A required module never imported gets a warning, once, by the first process; also of an unloaded plugin."""
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', {!r}])"
    assert ended(home, child.format("pass")) == (0, "", [UNBOUND])
    assert ended(home, child.format("import vendor; vendor.speak()")) == (0, "", [UNBOUND])
    reports = {"HOOKPATCH_REPORT": str(tmp_path / "reports")}
    assert ended(home, child.format("import vendor; vendor.speak()"), **reports) == (0, "", [])
    status, _, lines = ended(home, "1 / 0")
    assert (status, lines[-1]) == (1, "ZeroDivisionError: division by zero")
    home.add_plugin("waits", _plugin(), waits_for="vendor")
    home.add_plugin("may", _plugin('wrap("vendor:speak", louder, required=False)'))
    put_off = "plugin 'waits' from waits-dist 1.0: was never applied: the program did not import vendor"
    for name, messages in (("waits", [put_off]), ("may", [])):
        completed = home.run("-c", "pass", HOOKPATCH_PLUGINS=name)
        assert [line.partition(": warning: ")[2] for line in completed.stderr.splitlines()] == messages
    home.add_plugin("slip", _plugin('wrap("vendro:speak", louder)'))
    slip = home.run("-c", "import vendor", HOOKPATCH_PLUGINS="slip")
    assert slip.stderr.endswith(": was never applied: there is no module vendro; did you mean 'vendor'?\n")
    assert slip.stderr.count("\n") == 1
    two = 'wrap("vendor:spaek", louder)\n            yield hookpatch.wrap("nowhere:f", louder)'
    home.add_plugin("gone", _plugin(two))
    completed = home.run("-c", "import vendor", HOOKPATCH_PLUGINS="gone")  # ended by hookpatch, with a single message
    assert (completed.returncode, len(completed.stderr.splitlines())) == (78, 1)
    run = [str(home.python), "-m", "hookpatch", "run", "-p", "heard", "-c", "pass"]
    inner = home.run(
        "-c", f"import subprocess, vendor; vendor.speak(); subprocess.run({run})", HOOKPATCH_PLUGINS="heard"
    )
    assert [re.sub(r"\[\d+\]", "", line) for line in inner.stderr.splitlines()] == [UNBOUND]


def test_slot_that_other_code_has_overwritten_is_a_warning(home: Environment, tmp_path: Path) -> None:
    """The warning has the overwriting value, at the program's end and in `hookpatch report`."""
    home.add_plugin("plain", _plugin('wrap("vendor:speak", louder)'))
    reports = tmp_path / "reports"
    code = "import vendor; vendor.speak = len"
    completed = home.run("-c", code, HOOKPATCH_PLUGINS="plain", HOOKPATCH_REPORT=str(reports))
    message = "overwritten: other code wrote builtins:len into vendor:speak"
    (line,) = completed.stderr.splitlines()
    assert line.endswith(f"warning: vendor:speak of plugin 'plain' from plain-dist 1.0: {message}")
    joined = hookpatch.receipts(reports)
    assert joined.warnings == (f"vendor:speak of plugin 'plain': {message}",)
    assert [patch.state for process in joined for patch in process.patches] == ["overwritten"]
