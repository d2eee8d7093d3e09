"""Drift: a changed target is a warning, a skipped patch or an error."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from environments import Environment
from locked import fingerprint_of_target

import hookpatch
from hookpatch._engine.lock.lockfile import Lock, Locked, write_lock
from hookpatch.errors import DriftError, DriftWarning, SettingError

pytestmark = pytest.mark.once

MakeModule = Callable[..., ModuleType]

WriteModule = Callable[[str, str], Path]

OURS = "a patch given to active()"


# --- at run time


@pytest.fixture
def drifted(write_module: WriteModule, make_module: MakeModule, make_distribution: Any, tmp_path: Path) -> str:
    """Return the lock file of a module with a changed vendor:speak and an unchanged vendor:limit."""
    make_distribution("vendor-kit", "1.5")
    make_module("earlier", "def speak(word): return word\nlimit = 3")
    entries = {
        f"vendor:{name}": Locked(
            dataclasses.replace(fingerprint_of_target(f"earlier:{name}"), distribution="vendor-kit", version="1.4")
        )
        for name in ("speak", "limit")
    }
    path = tmp_path / "hookpatch.lock"
    write_lock(Lock((), {}, entries, str(path)))
    write_module("vendor", "def speak(word): return word + '!'\nlimit = 3")
    return str(path)


def loud(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result in capitals."""
    return wrapped(*args, **kwargs).upper()


def problem(path: str) -> str:
    """Return the message about the changed target."""
    return (
        f"vendor:speak has changed since vendor-kit 1.4 was locked in {path}, and vendor-kit 1.5 is installed: its "
        "source has changed; 'hookpatch check' shows the difference; where the patch still fits, lock it anew"
    )


PATCHES = hookpatch.replace("vendor:limit", 4), hookpatch.wrap("vendor:speak", loud)


def opened(path: str) -> tuple[hookpatch.Session, ModuleType]:
    """Open a session, and import the module if not imported."""
    return hookpatch.active(*PATCHES, lock=path).open(), importlib.import_module("vendor")


@pytest.mark.parametrize("late", [False, True], ids=["present", "late"])
def test_drift_is_a_warning(drifted: str, late: bool) -> None:
    """The patch is applied with a warning, also in the report; an unchanged target gets no warning."""
    if not late:
        importlib.import_module("vendor")
    with pytest.warns(DriftWarning) as warned:
        session, vendor = opened(drifted)
    assert (vendor.limit, vendor.speak("a")) == (4, "A!")
    limit, speak = session.report()
    as_json = json.loads(session.report().to_json())
    session.close()
    assert [str(warning.message) for warning in warned] == [f"{problem(drifted)} (target vendor:speak of {OURS})"]
    assert (limit.state, limit.warnings) == ("applied", ())
    assert (speak.state, speak.reason, speak.warnings) == ("applied", None, (problem(drifted),))
    assert f"          warning {problem(drifted)}" in str(speak)
    assert as_json["processes"][0]["patches"][1]["warnings"] == [problem(drifted)]


@pytest.mark.parametrize("late", [False, True], ids=["present", "late"])
def test_drift_is_skipped(drifted: str, late: bool) -> None:
    """A required patch, too; the reason is in the report."""
    if not late:
        importlib.import_module("vendor")
    with hookpatch.active(*PATCHES, lock=drifted, on_drift="skip") as session:
        vendor = importlib.import_module("vendor")
        assert (vendor.limit, vendor.speak("a")) == (4, "a!")
        limit, speak = session.report()
    assert (limit.state, speak.state, speak.reason) == ("applied", "skipped", problem(drifted))


def test_drift_is_an_error_before_anything_is_applied(drifted: str) -> None:
    """No patch of the session is applied; an optional patch is skipped."""
    vendor = importlib.import_module("vendor")
    speak, values = vendor.speak, []
    first = hookpatch.derive("vendor:limit", values.append)
    with pytest.raises(DriftError) as caught:
        hookpatch.active(first, PATCHES[1], lock=drifted, on_drift="error").open()
    assert str(caught.value) == f"{problem(drifted)} (target vendor:speak of {OURS})"
    assert (vendor.speak is speak, values) == (True, [])
    with pytest.raises(DriftError):
        hookpatch.active(PATCHES[1], lock=drifted, on_drift="error").open()
    optional = hookpatch.wrap("vendor:speak", loud, required=False)
    with hookpatch.active(optional, lock=drifted, on_drift="error") as session:
        assert [(entry.state, entry.reason) for entry in session.report()] == [("skipped", str(caught.value))]


def test_what_is_not_locked_is_not_compared(drifted: str, make_module: MakeModule) -> None:
    """Targets outside the lock file are not compared."""
    module = make_module("other", "def speak(): return 'x'")
    with hookpatch.active(hookpatch.wrap("other:speak", loud), lock=Path(drifted), on_drift="error"):
        assert module.speak() == "X"


def test_each_call_of_a_decorated_function_looks(drifted: str) -> None:
    """A session opened anew compares with its lock file again."""
    importlib.import_module("vendor")

    @hookpatch.active(PATCHES[1], lock=drifted, on_drift="error")
    def speak() -> None: ...

    for _ in range(2):
        with pytest.raises(DriftError):
            speak()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"on_drift": "stop"}, "active(on_drift=): 'stop' is not a policy; it takes warn, skip or error"),
        ({"lock": 3}, "active(): lock= takes a path, not an int"),
    ],
)
def test_what_is_no_policy_or_path_is_refused(arguments: dict[str, Any], problem: str) -> None:
    """Before anything is applied."""
    with pytest.raises(SettingError) as caught:
        hookpatch.active(hookpatch.remove("m:f"), **arguments)
    assert str(caught.value) == problem


def test_environment_has_a_lock_file_and_a_policy(
    drifted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The environment's lock file and policy hold for blocks, too; arguments of the block come first."""
    importlib.import_module("vendor")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOKPATCH_ON_DRIFT", "skip")
    monkeypatch.setenv("HOOKPATCH_LOCK", "no.lock")
    with hookpatch.active(PATCHES[1], lock=drifted) as session:
        assert [entry.state for entry in session.report()] == ["skipped"]
    monkeypatch.setenv("HOOKPATCH_ON_DRIFT", "error")
    monkeypatch.setenv("HOOKPATCH_LOCK", "hookpatch.lock")
    with pytest.raises(DriftError):
        hookpatch.active(PATCHES[1]).open()
    assert os.environ["HOOKPATCH_LOCK"] == drifted  # an absolute path, for child processes in other folders
    for arguments in ({"on_drift": "skip"}, {"lock": drifted, "on_drift": "skip"}):
        with hookpatch.active(PATCHES[1], **arguments) as session:  # type: ignore[arg-type]  # typed words in a dict
            assert [entry.state for entry in session.report()] == ["skipped"]


# --- unmodified programs

SCRIPT = "import vendor; print(vendor.speak())"

BLOCK = """
import multiprocessing
import hookpatch

def loud(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs).upper()

def speak():
    import vendor
    print(vendor.speak(), [patch.state for patch in hookpatch.report() if patch.target == "vendor:speak"])

if __name__ == "__main__":
    with hookpatch.active(hookpatch.wrap("vendor:speak", loud), lock="hookpatch.lock", on_drift="skip"):
        process = multiprocessing.get_context("spawn").Process(target=speak)
        process.start()
        process.join()
"""


def test_block_hands_its_lock_file_on(home: Environment) -> None:
    """A child process skips the same patches."""
    home.work_in(home.folder, {"block.py": BLOCK})
    completed = home.run("block.py")
    assert (completed.stdout, completed.stderr, completed.returncode) == ("vendor! ['skipped']\n", "", 0)


@pytest.mark.parametrize(
    ("policy", "printed", "status"), [("", "VENDOR!\n", 0), ("skip", "vendor!\n", 0), ("error", "", 78)]
)
def test_program_runs_as_the_policy_has_it(home: Environment, policy: str, printed: str, status: int) -> None:
    """With a warning, without the patch, or not at all."""
    completed = home.run(
        *("-c", SCRIPT), HOOKPATCH_PLUGINS="loud", HOOKPATCH_LOCK="hookpatch.lock", HOOKPATCH_ON_DRIFT=policy
    )
    assert (completed.stdout, completed.returncode) == (printed, status)
    message = f"vendor:speak has changed since it was locked in {home.folder}/hookpatch.lock: its source has changed"
    assert (message in completed.stderr) == (policy != "skip")


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        (
            {"HOOKPATCH_LOCK": "no.lock"},
            "HOOKPATCH_LOCK: there is no file no.lock; 'hookpatch lock NAME...' writes one",
        ),
        (
            {"HOOKPATCH_LOCK": "hookpatch.lock", "HOOKPATCH_ON_DRIFT": "stop"},
            "HOOKPATCH_ON_DRIFT: 'stop' is not a policy; it takes warn, skip or error",
        ),
        (
            {"HOOKPATCH_LOCK": "vendor.py"},
            "lock: FOLDER/vendor.py is no lock file (Expected '=' after a key in a key/value pair (at line 1, column "
            "5))",
        ),
    ],
    ids=["no file", "no policy", "no lock"],
)
def test_program_does_not_start_with_a_wrong_setting(
    home: Environment, variables: dict[str, str], problem: str
) -> None:
    """A wrong setting ends the program with a line and status 78, before any code runs."""
    completed = home.run("-c", "print('ran')", HOOKPATCH_PLUGINS="loud", **variables)
    problem = problem.replace("FOLDER", str(home.folder))
    assert (completed.stdout, completed.returncode) == ("", 78)
    assert completed.stderr.startswith(f"hookpatch: error: {problem}")
    assert completed.stderr.count("\n") == 1
