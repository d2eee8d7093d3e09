"""The report of a session: the state of each patch, as text and as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from types import ModuleType
from typing import Any

import pytest

import hookpatch


@pytest.fixture
def vendor(make_module: Any) -> ModuleType:
    module: ModuleType = make_module("vendor", "def speak(): return 'vendor'\n")
    return module


def patches() -> list[hookpatch.Patch]:
    return [
        hookpatch.wrap(
            "vendor:speak", lambda w, i, a, k: w(*a, **k), why="too quiet", upstream="https://example.org/1"
        ),
        hookpatch.remove("vendor:nothing", required=False),
        hookpatch.replace("nowhere:thing", 1),
    ]


def test_text_is_a_line_a_patch(vendor: ModuleType) -> None:
    """Each line has state, verb, target, owner, and the reason if any."""
    with hookpatch.active(*patches()) as session:
        pass
    assert str(session.report()) == (
        "restored  wrap    vendor:speak  (active())\n"
        "          why     too quiet; https://example.org/1\n"
        "          stays   in this process: made of a lambda, which another process does not find; define a function "
        "in a module\n"
        "skipped   remove  vendor:nothing  (active()): vendor has no attribute 'nothing' "
        "(target vendor:nothing of a patch given to active())\n"
        "unused    replace nowhere:thing  (active()): nowhere was never imported"
    )
    assert str(hookpatch.active().report()) == "no patches"


def test_json_has_the_documented_schema(vendor: ModuleType) -> None:
    """The JSON has the process and its patches; every key is present, with null for a missing value."""
    began = time.time()
    with hookpatch.active(*patches()) as session:
        (process,) = json.loads(session.report().to_json())["processes"]
    assert set(process) == {"pid", "ppid", "host", "rank", "argv", "patches"}
    assert (process["pid"], process["ppid"], process["argv"][0]) == (os.getpid(), os.getppid(), sys.argv[0])
    applied_at = process["patches"][0].pop("applied_at")
    assert began <= applied_at <= time.time()
    assert process["patches"][0] == {
        "plugin": None,
        "distribution": None,
        "target": "vendor:speak",
        "verb": "wrap",
        "state": "applied",
        "reason": None,
        "place": None,
        "stale": [],
        "calls": None,
        "stays": "made of a lambda, which another process does not find; define a function in a module",
        "warnings": [],
        "why": "too quiet",
        "upstream": "https://example.org/1",
        "callers": [],
        "required": True,
        "required_calls": 0,
        "instances": None,
        "notes": [],
        "ended_at": None,
        "rule": None,
    }
    assert [patch["state"] for patch in process["patches"]] == ["applied", "skipped", "waiting"]


def test_report_is_a_frozen_copy(vendor: ModuleType) -> None:
    """A report has the states of the moment of the request."""
    with hookpatch.active(*patches()) as session:
        report = session.report()
    assert [patch.state for patch in report] == ["applied", "skipped", "waiting"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.patches = ()  # type: ignore[misc]  # the mistake under test


def test_report_of_all_sessions_lists_those_that_are_open(vendor: ModuleType) -> None:
    """Open sessions are listed in their order; ended sessions are not."""
    first, second, third = patches()
    with hookpatch.active(first):
        outer = hookpatch.active(second, third).open()
        assert [patch.target for patch in hookpatch.report() if patch.distribution != "hookpatch"] == [
            "vendor:speak",
            "vendor:nothing",
            "nowhere:thing",
        ]
        outer.close()
        assert [patch.target for patch in hookpatch.report() if patch.distribution != "hookpatch"] == ["vendor:speak"]
    assert hookpatch.report().patches == ()


def test_module_imported_twice_has_an_entry_for_each(write_module: Any) -> None:
    """One entry for each patch and site, the first import first."""
    write_module("late", "def speak(): return 'vendor'\n")
    with hookpatch.active(hookpatch.wrap("late:speak", lambda w, i, a, k: w().upper())) as session:
        import late  # type: ignore[import-not-found]  # written above

        first = late
        del sys.modules["late"]
        import late

        assert first is not late
        assert (first.speak(), late.speak()) == ("VENDOR", "VENDOR")
        assert [patch.state for patch in session.report()] == ["applied", "applied"]
    assert (first.speak(), late.speak()) == ("vendor", "vendor")
    assert [patch.state for patch in session.report()] == ["restored", "restored"]
