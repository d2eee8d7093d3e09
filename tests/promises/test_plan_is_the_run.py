"""The plan of a selection equals the report of its run: for unfit plugins, alone and together."""

from __future__ import annotations

import importlib
import random
import sys
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

import pytest
from awkward_plugins import MODULES, PATCHES, TOGETHER, source
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hookpatch
from hookpatch._engine.lock.lockfile import Lock, write_lock
from hookpatch._inspect.check import lockable
from hookpatch._inspect.rehearsal import rehearse, with_matches
from hookpatch._session.ledger import Requested
from hookpatch._session.load import load, selection_for

Policy: TypeAlias = Literal["warn", "skip", "error"] | None
State: TypeAlias = tuple[str | None, str, str, str, str]  # plugin, target, verb, state, reason

STATES: Final = {
    "fits": "applied",
    "skipped": "skipped",
    "unfit": "failed",
    "conflict": "failed",
    "absent": "waiting",
    "not looked at": "waiting",
}
FEW, MANY = 8, 200
QUIET: Final = {"deadline": None, "database": None, "derandomize": True, "suppress_health_check": [*HealthCheck]}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a folder on the path with the plugins, each in a distribution of its own, and their targets."""
    site = tmp_path_factory.mktemp("site")
    for name, text in MODULES.items():
        (site / f"{name}.py").write_text(textwrap.dedent(text))
    for name in PATCHES:
        (site / f"awkward_plugin_{name}.py").write_text(source(name))
        info = site / f"awkward_{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: awkward-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[hookpatch]\n{name} = awkward_plugin_{name}\n")
    kit = site / "awkward_kit-1.0.dist-info"
    kit.mkdir()
    (kit / "METADATA").write_text("Metadata-Version: 2.1\nName: awkward-kit\nVersion: 1.0\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        yield site
    for name in [name for name in sys.modules if name.startswith("awkward_p")]:
        if "awkward_plugin_" in name:
            del sys.modules[name]


@pytest.fixture(scope="module")
def lock(site: Path) -> str:
    """Make a lock file with a changed target."""
    entries, _ = lockable(
        [
            Requested(hookpatch.wrap("awkward_vendor:simplify", print)),
            Requested(hookpatch.replace("awkward_vendor:limit", 2)),
        ]
    )
    forget()
    path = site / "hookpatch.lock"
    write_lock(Lock((), {}, entries, str(path)))
    vendor = site / "awkward_vendor.py"
    vendor.write_text(vendor.read_text().replace("return model, skipped, check", "return skipped, model, check"))
    return str(path)


def forget() -> None:
    """Have the next import execute the modules anew."""
    for name in MODULES:
        sys.modules.pop(name, None)


def planned(names: list[str], lock: str, on_drift: Policy, **how: bool) -> list[State]:
    """Return the plan in the words of a report."""
    plan = hookpatch.plan(*names, lock=lock if on_drift else None, on_drift=on_drift, **how)
    return sorted(
        (patch.plugin, target.target, patch.verb, STATES[patch.finding], patch.reason or "")
        for target in plan
        for patch in target.patches
    )


def reported(names: list[str], lock: str, on_drift: Policy) -> list[State]:
    """Return the report of a run."""
    session = hookpatch.active(*names, lock=lock if on_drift else None, on_drift=on_drift, children="local")
    try:
        with warnings.catch_warnings(), session:
            warnings.simplefilter("ignore")
            for name in MODULES:
                with suppress(RuntimeError, SystemExit):
                    importlib.import_module(name)
            return sorted(
                (patch.plugin, patch.target, patch.verb, patch.state, patch.reason or "")
                for patch in session.report()
                if patch.place is None
            )
    finally:
        forget()


def differences(names: list[str], lock: str, on_drift: Policy) -> list[tuple[State, State]]:
    """Return where plan and report differ: in the state, or in the reason of a refusal."""
    pairs = zip(planned(names, lock, on_drift), reported(names, lock, on_drift), strict=True)
    return [
        (plan, report)
        for plan, report in pairs
        if plan[:4] != report[:4] or (report[3] in ("skipped", "failed") and not report[4].startswith(plan[4]))
    ]


def sample_of(names: list[str], count: int) -> list[str]:
    """Return some of the names, the same ones each time."""
    return random.Random(1).sample(names, count)


ALONE: Final = [name for name in PATCHES if not name.endswith("_perhaps")]


@pytest.mark.parametrize(
    ("on_drift", "names"),
    [
        (None, sample_of(ALONE, 8)),
        *(pytest.param(*row, marks=pytest.mark.ends) for row in [("error", sample_of(ALONE, 8)), (None, ALONE)]),
    ],
    ids=["some", "some-error", "all"],
)
def test_each_plugin_and_those_that_meet(site: Path, lock: str, on_drift: Policy, names: list[str]) -> None:
    """Compare each plugin alone, and selections of plugins with the same target."""
    selections = [*([name] for name in names), *TOGETHER]
    wrong = {", ".join(names): problems for names in selections if (problems := differences(names, lock, on_drift))}
    assert wrong == {}


@pytest.mark.parametrize(
    "names",
    [sample_of(list(PATCHES), 12), pytest.param(list(PATCHES), marks=pytest.mark.ends)],
    ids=["some", "all"],
)
def test_modules_that_this_process_has_imported(site: Path, lock: str, names: list[str]) -> None:
    """They are looked at here; a session is refused here where a run would be."""
    wrong = {}
    for name in names:
        try:
            importlib.import_module("awkward_vendor")
            importlib.import_module("awkward_front")
            plans = planned([name], lock, None)
            requests = [
                request
                for of_plugin in load(selection_for([name], None, "a test"))[1].values()
                for request in of_plugin
            ]
            outcomes = rehearse(requests)
            tried = with_matches(requests, outcomes)
            states = sorted((request.patch.address, outcome.state) for request, outcome in tried)
            if [(target, state) for _, target, _, state, _ in plans] != states:
                wrong[name] = plans
        finally:
            forget()
    assert wrong == {}


selections = st.lists(st.sampled_from(sorted(PATCHES)), min_size=1, max_size=5, unique=True)
policies = st.sampled_from([None, "warn", "skip", "error"])


@settings(max_examples=FEW, **QUIET)
@given(selections, policies)
def test_some_selections(site: Path, lock: str, names: list[str], on_drift: Policy) -> None:
    """Compare a few random selections, as many as `make test` has time for."""
    assert differences(names, lock, on_drift) == []


@pytest.mark.ends
@settings(max_examples=MANY, **QUIET)
@given(selections, policies)
def test_many_selections(site: Path, lock: str, names: list[str], on_drift: Policy) -> None:
    """Compare 200 random selections."""
    assert differences(names, lock, on_drift) == []
