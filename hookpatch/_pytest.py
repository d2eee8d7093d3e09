"""The pytest plugin: a test that leaves a patch behind fails and is told which, and the patch is taken back.

Every pytest run loads this where hookpatch is installed. So it looks at nothing until somebody else has imported what
patches are made with.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import Any, TypeVar

import pytest

import hookpatch
from hookpatch import _fixtures

R = TypeVar("R")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Have an option for machines that cannot install."""
    parser.getgroup("hookpatch").addoption(
        "--hookpatch-releases",
        metavar="FOLDER",
        help="where the releases of targets lie that tests run on, a folder each, and where missing ones are installed",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin to look; what the environment asks for is no test's doing, and is opened before."""
    hookpatch._open_now()
    config.addinivalue_line("markers", "hookpatch_leaves: the test may leave patches behind")
    config.addinivalue_line(
        "markers",
        "hookpatch_releases(*releases, file=None): run fresh_process on each of these releases of the target",
    )
    config.pluginmanager.register(_fixtures, "hookpatch-fixtures")
    config.pluginmanager.register(Watchman(), "hookpatch-watchman")


class Watchman:
    """Looks before and after each test. Lives as long as the run."""

    def __init__(self) -> None:
        self._allowed: set[object] = set()  # what was there before the test, and what fixtures made
        self._makers: dict[object, pytest.FixtureDef[Any]] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, R, R]:
        """Note what is there before the test."""
        __tracebackhide__ = True  # an error of somebody's fixture is not ours
        self._allowed = _footprint()
        self._makers = {thing: maker for thing, maker in self._makers.items() if thing in self._allowed}
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, R, R]:
        """Note what a fixture makes: it may stay until the fixture ends. One that fails has nothing that may stay."""
        __tracebackhide__ = True
        before = _footprint()
        result = yield
        made = _footprint() - before - self._makers.keys()  # less what fixtures that this one asked for have made
        self._makers |= dict.fromkeys(made, fixturedef)
        self._allowed |= made
        return result

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Allow no longer what a fixture made: it has ended."""
        self._allowed -= {thing for thing, maker in self._makers.items() if maker is fixturedef}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, R, R]:
        """Fail the test if it left patches behind, now that its fixtures have ended."""
        try:
            result = yield
        except BaseException as error:
            __tracebackhide__ = True  # likewise
            for line in self._left_by(item):
                error.add_note(line)
            raise
        if lines := self._left_by(item):
            pytest.fail("\n".join(lines), pytrace=False)
        return result

    def _left_by(self, item: pytest.Item) -> list[str]:
        """Take back what a test left behind; return what to say of it."""
        if item.get_closest_marker("hookpatch_leaves") is not None or _footprint() <= self._allowed:
            return []
        from hookpatch._footprint import held_by_sessions, lines_beyond
        from hookpatch._session import open_sessions
        from hookpatch.errors import RestoreError

        lines = []
        for key, session in reversed(open_sessions().items()):
            if key in self._allowed:
                continue
            maker = self._makers.get(key)
            by = f"the {maker.scope}-scoped fixture {maker.argname!r}" if maker else "the test"
            left = session.report()
            lines += [f"{session!r}, opened by {by}:", *(f"  {patch}" for patch in left)]
            with suppress(RestoreError):  # the report has the reasons
                session.close()
            ends = zip(left, session.report(), strict=True)
            lines += [f"  {end}" for was, end in ends if end.state not in ("restored", "unlinked", "unused", was.state)]
        lines += lines_beyond(self._allowed | held_by_sessions())
        return [f"{item.name} left patches behind; what can be taken back is taken back now:", *lines] if lines else []


def _footprint() -> set[object]:
    """Return what hookpatch has in this process; without a look if what opens sessions is not imported."""
    if "_session" not in vars(hookpatch):
        return set()
    from hookpatch._footprint import footprint

    return footprint()
