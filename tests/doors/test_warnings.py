"""Warnings: each is raised in a real case, with the text of docs/messages.md."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from messages import VENDOR, shown

import hookpatch
from hookpatch._engine.lock.fingerprint import Fingerprint
from hookpatch._engine.lock.lockfile import Lock, Locked, write_lock
from hookpatch.errors import (
    DisplacedWarning,
    DriftWarning,
    HookpatchWarning,
    NeverOpenedWarning,
    PatchFailedWarning,
    PatchUnneededWarning,
    UnknownModuleWarning,
)

MakeModule = Callable[..., ModuleType]

MakeDistribution = Callable[..., Path]


@pytest.fixture
def vendor(make_module: MakeModule) -> ModuleType:
    """The module to patch."""
    return make_module("vendor", VENDOR)


def passing(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Change nothing."""
    return wrapped(*args, **kwargs)


# --- warnings, issued for real


def test_patch_that_fails_at_its_modules_import_is_a_warning(make_module: MakeModule) -> None:
    """The import goes well, and the warning has the error's text, as docs/messages.md shows it."""
    with hookpatch.active(hookpatch.wrap("late:speed", passing)) as session:
        with pytest.warns(PatchFailedWarning) as warned:
            late = make_module("late", "limit = 3")
        assert late.limit == 3
        assert [entry.state for entry in session.report()] == ["failed"]
    assert [str(warning.message) for warning in warned] == [shown(PatchFailedWarning)]
    assert shown(HookpatchWarning) == shown(PatchFailedWarning)


def test_patch_that_has_become_unneeded_is_a_warning(vendor: ModuleType, make_distribution: MakeDistribution) -> None:
    """The patch is applied; the warning equals docs/messages.md."""
    make_distribution("vendor-kit", "1.4")
    patch = hookpatch.replace("vendor:speed", 2, until="vendor-kit>=1.2")
    with pytest.warns(PatchUnneededWarning) as warned, hookpatch.active(patch):
        assert vendor.speed == 2
    assert [str(warning.message) for warning in warned] == [shown(PatchUnneededWarning)]


def test_target_that_has_changed_is_a_warning(vendor: ModuleType, tmp_path: Path) -> None:
    """The target is patched; the warning equals docs/messages.md except for the folder."""
    lock = tmp_path / "hookpatch.lock"
    write_lock(Lock((), {}, {"vendor:speed": Locked(Fingerprint("an int", source="0"))}, str(lock)))
    with pytest.warns(DriftWarning) as warned, hookpatch.active(hookpatch.replace("vendor:speed", 2), lock=lock):
        assert vendor.speed == 2
    assert [str(warning.message).replace(f"{tmp_path}/", "") for warning in warned] == [shown(DriftWarning)]


def test_session_that_was_never_opened_is_a_warning() -> None:
    """A session never opened is a warning, as in docs/messages.md."""
    with pytest.warns(NeverOpenedWarning) as warned:
        hookpatch.active(hookpatch.replace("vendor:speed", 2))
    assert [str(warning.message) for warning in warned] == [shown(NeverOpenedWarning)]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("jsn:dumps", None),
        ("json.decodr:JSONDecoder", "there is no module json.decodr; did you mean 'json.decoder'?"),
        ("emial.mime.text:MIMEText", "there is no module emial; did you mean 'email'?"),
    ],
)
def test_module_that_is_misspelt_is_a_warning(address: str, message: str | None) -> None:
    """A misspelt module is a warning at the block's end, at the block's line; the report has *unused*."""
    with pytest.warns(UnknownModuleWarning) as warned, hookpatch.active(hookpatch.inject(address, x=1)) as session:
        pass
    expected = shown(UnknownModuleWarning) if message is None else f"{address} of a patch given to active(): {message}"
    assert [(str(warning.message), warning.filename) for warning in warned] == [(expected, __file__)]
    assert [patch.state for patch in session.report()] == ["unused"]


def test_module_that_may_yet_come_is_no_warning() -> None:
    """No warning for an existing module, a module without a near name, or an optional patch."""
    patches = [
        hookpatch.inject("json.tool:main", x=1),
        hookpatch.inject("qqxz_of_nobody:x", x=1),
        hookpatch.inject("jsn:dumps", x=1, required=False),
    ]
    with warnings.catch_warnings(), hookpatch.active(*patches) as session:
        warnings.simplefilter("error")
        session.close()
    assert [patch.state for patch in session.report()] == ["unused"] * 3


def test_slot_that_somebody_else_set_is_a_warning(vendor: ModuleType) -> None:
    """A foreign value is left alone, with the warning of docs/messages.md, and the reason in the report."""
    with pytest.warns(DisplacedWarning) as warned, hookpatch.active(hookpatch.replace("vendor:speed", 2)) as session:
        vars(vendor)["speed"] = 3
    assert vendor.speed == 3
    assert [str(warning.message) for warning in warned] == [shown(DisplacedWarning)]
    assert [(entry.state, entry.reason) for entry in session.report()] == [
        ("overwritten", "other code wrote 3 into vendor:speed; the slot was left alone")
    ]


PROGRAM = """\
import contextlib, subprocess, sys
import hookpatch, vendor

def passing(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs)

def given(x=1):
    return x

def failing():
    return hookpatch.wrap("late:limit", passing)

speak, local = vendor.speak, {"children": "local"}
with hookpatch.active(hookpatch.replace("vendor:limit", 3), **local):  # PatchUnneededWarning
    pass
with contextlib.ExitStack() as stack:
    one, two = hookpatch.replace("vendor:speak", given), hookpatch.wrap("vendor:speak", passing)
    stack.enter_context(hookpatch.active(one, two, **local))  # PatchUnneededWarning
with hookpatch.active(failing(), **local):
    import late  # PatchFailedWarning
session = hookpatch.active(hookpatch.replace("vendor:limit", 4), **local).open()
vendor.limit = 5
session.close()  # DisplacedWarning
vendor.limit = 3
with hookpatch.active(hookpatch.wrap("emial.mime:text", passing), **local):  # UnknownModuleWarning
    pass
hookpatch.active(hookpatch.replace("vendor:limit", 4), **local)  # NeverOpenedWarning
session = hookpatch.active(hookpatch.replace("vendor:limit", 4), **local).open()
del session  # ResourceWarning
with hookpatch.active(hookpatch.wrap("vendor:speak", lambda wrapped, *rest: wrapped())):
    subprocess.run([sys.executable, "-c", "pass"])  # NotCarriedWarning

@hookpatch.active(hookpatch.replace("vendor:limit", 3), **local)
def decorated():
    return vendor.limit

decorated()  # PatchUnneededWarning
"""


def test_each_warning_names_a_line_of_the_program(tmp_path: Path) -> None:
    """No warning points into hookpatch or contextlib: a program's log would name a line that nobody can change."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "vendor.py").write_text("limit = 3\ndef speak(x=0): return x\n")
    (tmp_path / "late.py").write_text("limit = 3\n")
    run = subprocess.run(
        [sys.executable, "-W", "always", "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    marks = [
        (number, line.partition("  # ")[2]) for number, line in enumerate(PROGRAM.splitlines(), 1) if "  # " in line
    ]
    found = re.findall(r"^(\S+):(\d+): (?:hookpatch\.errors\.)?(\w+Warning): ", run.stderr, re.MULTILINE)
    assert [(int(line), name) for path, line, name in found] == marks, run.stderr
    assert {Path(path).name for path, _, _ in found} == {"program.py"}
