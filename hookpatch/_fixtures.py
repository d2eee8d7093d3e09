"""The fixtures that pytest has wherever hookpatch is installed. What they are made of is imported when a test asks."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from hookpatch.testing import EffectOf, FreshProcess, Patched

R = TypeVar("R")

MARK = "hookpatch_releases"
_RELEASE = "_hookpatch_release"
_PATCHES = pytest.StashKey["Patched"]()


@pytest.fixture
def patched(request: pytest.FixtureRequest) -> Iterator[Patched]:
    """``patched("fuse_qkv_off")`` opens patches that end with the test, which fails if they leave a trace."""
    from hookpatch._patched import raise_all
    from hookpatch.testing import Patched

    patches = Patched()
    __tracebackhide__ = True  # a failing test shows its own lines, not these
    yield patches
    request.node.stash[_PATCHES] = patches
    raise_all(patches.close())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, R, R]:
    """Fail a test whose patches have left a trace: what is there when ``patched`` ends, and when all fixtures have.

    monkeypatch takes its own back before or after that, as the test has asked for them; and what a wider fixture takes
    back now was there before the patches.
    """
    __tracebackhide__ = True
    try:
        result = yield
    except BaseException as error:
        if still := _still_left(item):
            error.add_note(str(still))
        raise
    if still := _still_left(item):
        raise still
    return result


def _still_left(item: pytest.Item) -> AssertionError | None:
    patches = item.stash.get(_PATCHES, None)
    if patches is None:
        return None
    del item.stash[_PATCHES]  # pytest keeps its items to the end of the run, and this knows the modules of others
    traces = patches.traces()
    if not traces:
        return None
    from hookpatch.testing import NotPristine

    return NotPristine(*traces)


@pytest.fixture
def fresh_process(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, _hookpatch_release: str | None
) -> FreshProcess:
    """``fresh_process("import onnxsim", "fuse_qkv_off")`` runs a program in a new interpreter with plugins on."""
    from hookpatch.testing import FreshProcess

    named = request.config.getoption("hookpatch_releases")
    # The environment's own: wheels are for one Python, and what is thrown away with the one is with the other.
    releases = Path(named) if named else Path(sys.prefix, "hookpatch-releases")
    numbers = itertools.count()
    folder = tmp_path_factory.mktemp("fresh_process")

    def new_folder() -> Path:
        made = folder / str(next(numbers))
        made.mkdir()
        return made

    return FreshProcess(new_folder, releases.absolute(), _hookpatch_release)


@pytest.fixture
def release(_hookpatch_release: str | None) -> str | None:
    """The release that the mark ``hookpatch_releases`` has a test run on, such as ``onnxsim==0.7.3``; None without."""
    return _hookpatch_release


@pytest.fixture
def effect() -> EffectOf:
    """``effect(model, x, what="plugin")`` tries a patch in each way in which torch captures code."""
    pytest.importorskip("torch", reason="the fixture effect needs torch, which is not installed")
    from hookpatch.testing import effect

    return effect


@pytest.fixture
def _hookpatch_release(request: pytest.FixtureRequest) -> str | None:
    # Not `release` itself, which a project may have a fixture of its own for.
    return getattr(request, "param", None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have a test with the mark run once for each release that it names."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None:
        return
    from hookpatch._releases import read_release, read_releases
    from hookpatch.errors import SettingError

    who = f"the mark {MARK} of {metafunc.definition.nodeid}"
    if _RELEASE not in metafunc.fixturenames:
        raise pytest.UsageError(f"{who}: the test asks for no fresh_process, and would run on what is installed alone")
    given: dict[str, Any] = dict(mark.kwargs)
    file = given.pop("file", None)
    if given or not (mark.args or file):
        raise pytest.UsageError(f"{who}: it takes releases such as 'onnxsim==0.7.3', or file='releases.txt'")
    try:
        releases = [read_release(text, who) for text in mark.args]
        if file is not None:
            releases += read_releases(metafunc.definition.path.parent / file, who)
    except SettingError as error:
        raise pytest.UsageError(str(error)) from None
    metafunc.parametrize(
        _RELEASE,
        [
            pytest.param(
                str(one), id=str(one), marks=[pytest.mark.skip(f"{one} is for {one.unmet}")] if one.unmet else []
            )
            for one in releases
        ],
        indirect=True,
    )
