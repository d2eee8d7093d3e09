"""The fixture patched: patches end with their test, and the test fails if a patch had no effect."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch.errors import PatchFailedWarning, RestoreError, SettingError, TargetNotFound
from hookpatch.testing import NotApplied, NotPristine, Patched

WriteModule = Callable[[str, str], Path]

VENDOR = """
def speak(): return "vendor"
def shout(): return speak().upper()
class Model:
    def run(self): return "run"
REGISTRY = {"speak": speak, "other": None}
"""


@pytest.fixture
def vendor(make_module: Callable[..., ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


def test_patches_hold_until_the_test_ends_the_last_opened_first(vendor: ModuleType) -> None:
    """Patches hold from the request on, and end like nested blocks."""
    patches, speak, registry = Patched(), vendor.speak, dict(vendor.REGISTRY)
    first = patches(hookpatch.derive("vendor:speak", lambda low: lambda: low() + " one"))
    second = patches(
        hookpatch.derive("vendor:speak", lambda low: lambda: low() + " two"),
        hookpatch.replace("vendor:REGISTRY['speak']", 1),
        hookpatch.wrap("vendor:Model.run", lambda wrapped, instance, args, kwargs: "patched", reach="everywhere"),
        count=True,
    )
    assert vendor.speak() == "vendor one two"
    assert (vendor.REGISTRY["speak"], vendor.Model().run()) == (1, "patched")
    patches.end()
    assert (vendor.speak, vendor.REGISTRY, vendor.Model().run()) == (speak, registry, "run")
    assert {patch.state for session in (first, second) for patch in session.report()} == {"restored"}
    ends = [[patch.ended_at or 0 for patch in session.report()] for session in (second, first)]
    assert max(ends[0]) < min(ends[1])


def test_session_that_the_test_closes_itself_is_closed(vendor: ModuleType, patched: Patched) -> None:
    """The end of the test checks a session that the test has closed."""
    session = patched(hookpatch.replace("vendor:speak", 1))
    session.close()
    assert vendor.speak() == "vendor"


def test_patch_that_cannot_be_applied_is_an_error_at_once(vendor: ModuleType, patched: Patched) -> None:
    """The error is that of entering a block; no session stays open, no module is waited for."""
    with pytest.raises(TargetNotFound):
        patched(hookpatch.replace("later:word", 1), hookpatch.wrap("vendor:speek", print))


def test_required_patch_that_fails_when_its_module_comes_fails_the_test(write_module: WriteModule) -> None:
    """The module's import goes on with a warning that a test may miss; an optional patch may fail."""
    write_module("later", "def speak(): return 'later'")
    patches = Patched()
    patches(hookpatch.remove("later:word"), hookpatch.remove("later:sound", required=False))
    patches(hookpatch.remove("never:imported"))
    with pytest.warns(PatchFailedWarning):
        importlib.import_module("later")
    with pytest.raises(NotApplied) as caught:
        patches.end()
    assert str(caught.value) == (
        "1 not applied, and required:\n"
        "  failed    remove  later:word  (active()): later has no attribute 'word' "
        "(target later:word of a patch given to active())"
    )


def leaving(change: Callable[[Any], object]) -> Callable[[Any], Any]:
    @contextmanager
    def span(module: Any) -> Iterator[None]:
        change(module)
        yield

    return span


@pytest.mark.parametrize(
    ("change", "patch", "difference"),
    [
        (
            lambda vendor: setattr(vendor, "word", 1),
            hookpatch.replace("vendor:speak", None),
            "vendor:word was absent, is 1",
        ),
        (
            lambda vendor: setattr(vendor.Model, "size", 1),
            hookpatch.wrap("vendor:Model.run", print),
            "vendor:Model.size was absent, is 1",
        ),
        (
            lambda vendor: vendor.REGISTRY.update(other=1),
            hookpatch.replace("vendor:REGISTRY['speak']", None),
            "['other'] was None, is 1",
        ),
        (
            lambda vendor: vendor.REGISTRY.update(speak=vendor.REGISTRY.pop("speak")),
            hookpatch.wrap("vendor:REGISTRY['speak']", print, reach="everywhere"),
            "the order of the keys of",
        ),
        (
            lambda vendor: setattr(vendor.speak, "seen", True),
            hookpatch.wrap("vendor:REGISTRY['speak']", print, reach="everywhere"),
            "vendor:speak.seen was absent, is True",
        ),
    ],
    ids=["module", "class", "registry", "order", "function in a registry"],
)
@pytest.mark.parametrize("is_there", [True, False], ids=["imported before", "imported inside"])
def test_owner_that_is_not_as_before_fails_the_test(
    write_module: WriteModule, is_there: bool, change: Any, patch: hookpatch.Patch, difference: str
) -> None:
    """The owner of each target is compared from the end of its import on: module, class, mapping or function."""
    write_module("vendor", VENDOR)
    if is_there:
        importlib.import_module("vendor")
    patches = Patched()
    patches(patch)
    vendor = importlib.import_module("vendor")
    change(vendor)
    with pytest.raises(NotPristine) as caught:
        patches.end()
    (line,) = caught.value.differences
    assert difference in line


def test_module_that_a_context_of_the_patch_leaves_changed_fails_the_test(vendor: ModuleType) -> None:
    """The undo of a context manager of enter() may forget a change."""
    patches = Patched()
    patches(hookpatch.enter("vendor", leaving(lambda module: module.REGISTRY.pop("other"))), pristine=[vendor.REGISTRY])
    patches(hookpatch.enter("vendor", leaving(lambda module: setattr(module, "word", 1))))
    with pytest.raises(NotPristine) as caught:
        patches.end()
    assert re.fullmatch(
        r"2 not as before:\n  vendor:word was absent, is 1\n  <dict object at 0x\w+>\['other'\] was None, is absent",
        str(caught.value),
    )


def test_submodule_that_is_imported_meanwhile_is_no_trace(write_module: WriteModule, patched: Patched) -> None:
    """The import system writes a submodule into its package; another module in the package is a trace."""
    write_module("kit.part", "word = 1")
    write_module("kit.late", "word = 1")
    importlib.import_module("kit")
    patched(hookpatch.replace("kit:word", 1, add=True))
    importlib.import_module("kit.part")
    patches = Patched()
    patches(hookpatch.replace("kit:other", 1, add=True))
    kit = importlib.import_module("kit")
    kit.late = sys  # type: ignore[attr-defined]
    with pytest.raises(NotPristine, match=r"kit:late was absent, is module sys at"):
        patches.end()
    del kit.late


def test_module_that_is_reloaded_is_compared_with_what_it_then_was(write_module: WriteModule, patched: Patched) -> None:
    """After a reload the fixture compares with the values that the reload made."""
    write_module("vendor", VENDOR)
    vendor = importlib.import_module("vendor")
    patched(hookpatch.wrap("vendor:speak", lambda wrapped, instance, args, kwargs: wrapped().upper()))
    importlib.reload(vendor)
    assert vendor.speak() == "VENDOR"


def test_all_sessions_are_ended_whatever_comes_in_between(vendor: ModuleType) -> None:
    """The error group has an undo that raises, a difference and a patch that failed."""

    @contextmanager
    def stubborn(module: object) -> Iterator[None]:
        yield
        raise ValueError("will not end")

    patches = Patched()
    patches(hookpatch.replace("vendor:speak", 1))
    patches(hookpatch.enter("vendor", stubborn))
    vendor.word = 1  # type: ignore[attr-defined]
    with pytest.raises(ExceptionGroup) as caught:
        patches.end()
    assert [type(error) for error in caught.value.exceptions] == [RestoreError, NotPristine]
    assert vendor.speak() == "vendor"


def test_owner_in_which_nothing_can_be_set_is_refused_and_nothing_opened(vendor: ModuleType, patched: Patched) -> None:
    """Before anything is patched."""
    with pytest.raises(SettingError) as caught:
        patched(hookpatch.replace("vendor:speak", 1), pristine=["vendor"])
    assert str(caught.value) == "patched(pristine=): takes modules, classes, mappings and objects, not a str"
    assert vendor.speak() == "vendor"
