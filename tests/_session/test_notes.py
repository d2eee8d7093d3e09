"""A plugin's own lines in the report: the hook ``hookpatch_report``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

import hookpatch
from hookpatch.errors import PluginError

PLUGIN: Final = '''
"""Counts what it has done."""
import hookpatch
made, wrong = [], []

def count(wrapped, instance, args, kwargs):
    made.append(args)
    return wrapped(*args, **kwargs)

@hookpatch.hookimpl
def hookpatch_patches():
    yield hookpatch.wrap("vendor:f", count)
    yield hookpatch.wrap("vendor:g", count)

@hookpatch.hookimpl
def hookpatch_report(SIGNATURE):
    if wrong:
        raise wrong[0]
    yield f"{len(made)} calls were counted"
    yield "none was slow"
'''


@pytest.fixture
def vendor(make_distribution: Callable[..., Path], make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    source = PLUGIN.replace("SIGNATURE", "")
    make_distribution("counting", plugins={"counter": "counter"}, modules={"counter": source})
    return make_module("vendor", "def f(): pass\ndef g(): pass\n")


def test_lines_stand_at_the_first_patch_of_the_plugin(vendor: ModuleType) -> None:
    """As of the moment the report is asked for, also after the end; other patches have none."""
    own = hookpatch.wrap("vendor:f", lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs))
    session = hookpatch.active(own, "counter")
    with session:
        vendor.f()
        assert [patch.notes for patch in session.report()] == [(), ("1 calls were counted", "none was slow"), ()]
        vendor.g()
    report = session.report()
    assert [patch.notes for patch in report] == [(), ("2 calls were counted", "none was slow"), ()]
    assert str(report).splitlines()[3:5] == [
        "          note    2 calls were counted",
        "          note    none was slow",
    ]
    (process,) = json.loads(report.to_json())["processes"]
    assert [patch["notes"] for patch in process["patches"]] == [[], ["2 calls were counted", "none was slow"], []]


def test_a_plugin_gets_its_patches_of_the_report(
    make_distribution: Callable[..., Path], make_module: Callable[[str, str], ModuleType]
) -> None:
    """A plugin that takes ``patches`` can say what was done in the sessions of the report alone."""
    source = PLUGIN.replace("SIGNATURE", "patches").replace(
        "{len(made)}", "{[p.address for p in patches if p.change is count]}"
    )
    make_distribution("asking", plugins={"asking": "asking"}, modules={"asking": source})
    make_module("vendor", "def f(): pass\ndef g(): pass\n")
    own = hookpatch.wrap("vendor:f", lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs))
    with hookpatch.active(own, "asking") as session:
        assert session.report().patches[1].notes[0] == "['vendor:f', 'vendor:g'] calls were counted"


def test_a_plugin_that_fails_there_fails_no_report(vendor: ModuleType) -> None:
    """The error is the note."""
    with hookpatch.active("counter") as session:
        import counter  # type: ignore[import-not-found]  # written by the fixture

        counter.wrong.append(KeyError("count"))
        assert session.report().patches[0].notes == ("hookpatch_report of counter raised KeyError: 'count'",)
        assert [patch.state for patch in session.report()] == ["applied", "applied"]


def test_a_hook_of_another_form_is_refused(make_distribution: Callable[..., Path]) -> None:
    """When the plugin is loaded, as with every hook."""
    source = PLUGIN.replace("SIGNATURE", "number")
    make_distribution("numbered", plugins={"numbered": "numbered"}, modules={"numbered": source})
    with pytest.raises(
        PluginError, match=r"plugin .numbered. \(numbered 1.0\) does not fit hookpatch.s hooks: .*number"
    ):
        hookpatch.active("numbered")
