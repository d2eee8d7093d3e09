"""The pytest plugin: fail a test that leaves patches applied, name the patches, and restore their slots.

Every pytest run with hookpatch installed loads this file. So it imports no engine, and checks nothing until other code
has imported sessions.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import suppress
from typing import Any, TypeVar

import pytest

import hookpatch
from hookpatch.testing import _fixtures

R = TypeVar("R")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option for machines that cannot install releases."""
    parser.getgroup("hookpatch").addoption(
        "--hookpatch-releases",
        metavar="FOLDER",
        help="the folder of releases for tests with other versions of targets; missing releases are installed "
        "into the folder",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the checks and fixtures; first open the session of the environment, which no test is to blame for."""
    hookpatch._open_postponed()
    config.addinivalue_line("markers", "hookpatch_leaves: the test may leave patches behind")
    config.addinivalue_line(
        "markers",
        "hookpatch_releases(*releases, file=None): run fresh_process on each of these releases of the target",
    )
    config.pluginmanager.register(_fixtures, "hookpatch-fixtures")
    config.pluginmanager.register(Watchman(), "hookpatch-watchman")


class Watchman:
    """Compares the sessions, layers and watches before and after each test. Lives as long as the run."""

    def __init__(self) -> None:
        self._allowed: set[object] = set()  # keys from before the test and from its fixtures
        self._makers: dict[object, pytest.FixtureDef[Any]] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, R, R]:
        """Note the keys from before the test."""
        __tracebackhide__ = True  # the error of a fixture is not ours
        self._allowed = _footprint()
        self._makers = {key: maker for key, maker in self._makers.items() if key in self._allowed}
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, R, R]:
        """Allow the keys made by a fixture until the fixture ends; a failing fixture has none."""
        __tracebackhide__ = True
        before = _footprint()
        result = yield
        keys = _footprint() - before - self._makers.keys()  # without keys of other fixtures
        self._makers |= dict.fromkeys(keys, fixturedef)
        self._allowed |= keys
        return result

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Allow the keys of an ended fixture no longer."""
        self._allowed -= {key for key, maker in self._makers.items() if maker is fixturedef}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """End the traceback of our own error at the line that called us; --full-trace shows the frames behind."""
        if call.when != "call" or call.excinfo is None or item.config.getoption("fulltrace"):
            return
        if isinstance(call.excinfo.value, hookpatch.errors.HookpatchError):
            here = os.path.join(os.path.dirname(hookpatch.__file__), "")
            last, entry = call.excinfo.tb, call.excinfo.tb.tb_next
            while entry is not None:
                last = last if entry.tb_frame.f_code.co_filename.startswith(here) else entry
                entry = entry.tb_next
            last.tb_next = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, R, R]:
        """Fail the test if patches are left after the end of its fixtures."""
        try:
            result = yield
        except BaseException as error:
            __tracebackhide__ = True
            for line in self._leftovers_of(item):
                error.add_note(line)
            raise
        if lines := self._leftovers_of(item):
            pytest.fail("\n".join(lines), pytrace=False)
        return result

    def _leftovers_of(self, item: pytest.Item) -> list[str]:
        """Close the sessions left by a test; return the lines of the failure."""
        if item.get_closest_marker("hookpatch_leaves") is not None or _footprint() <= self._allowed:
            return []
        from hookpatch._session.session import open_sessions
        from hookpatch.errors import RestoreError
        from hookpatch.testing._leaks import held_by_sessions, lines_beyond

        lines = []
        for key, session in reversed(open_sessions().items()):
            if key in self._allowed:
                continue
            maker = self._makers.get(key)
            by = f"the {maker.scope}-scoped fixture {maker.argname!r}" if maker else "the test"
            before = session.report()
            lines += [f"{session!r}, opened by {by}:", *(f"  {patch}" for patch in before)]
            with suppress(RestoreError):  # the report has the reasons
                session.end()
            pairs = zip(before, session.report(), strict=True)
            lines += [
                f"  {end}" for old, end in pairs if end.state not in ("restored", "unlinked", "unused", old.state)
            ]
        lines += lines_beyond(self._allowed | held_by_sessions())
        return [f"{item.name} left patches behind; what can be taken back is taken back now:", *lines] if lines else []


def _footprint() -> set[object]:
    """Return the keys of our sessions, layers and watches in this process; none if no session file is imported."""
    if "_session" not in vars(hookpatch):
        return set()
    from hookpatch.testing._leaks import footprint

    return footprint()
