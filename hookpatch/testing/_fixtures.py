"""The fixtures that pytest has wherever hookpatch is installed. A fixture imports its classes on first use."""

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
    """``patched("fuse_qkv_off")`` opens patches until the end of the test; a trace of a patch fails the test."""
    from hookpatch.testing import Patched
    from hookpatch.testing._patched import raise_errors

    patches = Patched()
    __tracebackhide__ = True  # a failing test shows its own lines, not these
    yield patches
    request.node.stash[_PATCHES] = patches
    raise_errors(patches.close())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, R, R]:
    """Fail a test whose patches have left a trace: a difference at the end of ``patched`` and after all fixtures.

    Other fixtures, such as monkeypatch, may restore their own changes before or after ``patched``.
    """
    __tracebackhide__ = True
    try:
        result = yield
    except BaseException as error:
        if failure := _failure_of(item):
            error.add_note(str(failure))
        raise
    if failure := _failure_of(item):
        raise failure
    return result


def _failure_of(item: pytest.Item) -> AssertionError | None:
    patches = item.stash.get(_PATCHES, None)
    if patches is None:
        return None
    del item.stash[_PATCHES]  # pytest keeps items until the end of the run, and the snapshots hold modules
    if not (traces := patches.traces()):
        return None
    from hookpatch.testing import NotPristine

    return NotPristine(*traces)


@pytest.fixture
def fresh_process(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, _hookpatch_release: str | None
) -> FreshProcess:
    """``fresh_process("import onnxsim", "fuse_qkv_off")`` runs a program in a new interpreter with plugins on."""
    from hookpatch.testing import FreshProcess

    option = request.config.getoption("hookpatch_releases")
    # By default inside the virtual environment: a wheel fits one Python, and is deleted with the environment.
    releases = Path(option) if option else Path(sys.prefix, "hookpatch-releases")
    numbers = itertools.count()
    parent = tmp_path_factory.mktemp("fresh_process")

    def new_folder() -> Path:
        folder = parent / str(next(numbers))
        folder.mkdir()
        return folder

    return FreshProcess(new_folder, releases.absolute(), _hookpatch_release)


@pytest.fixture
def release(_hookpatch_release: str | None) -> str | None:
    """The release from the mark ``hookpatch_releases``, such as ``onnxsim==0.7.3``; None without the mark."""
    return _hookpatch_release


@pytest.fixture
def effect() -> EffectOf:
    """``effect(model, x, what="plugin")`` tries a patch in each capture mode of torch."""
    pytest.importorskip("torch", reason="the fixture effect needs torch, which is not installed")
    from hookpatch.testing import effect

    return effect


@pytest.fixture
def _hookpatch_release(request: pytest.FixtureRequest) -> str | None:
    # Separate from `release`: a project may have a fixture of the same name.
    return getattr(request, "param", None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the mark once for each release."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None:
        return
    from hookpatch._inspect.releases import read_release, read_releases
    from hookpatch.errors import SettingError

    asked_by = f"the mark {MARK} of {metafunc.definition.nodeid}"
    if _RELEASE not in metafunc.fixturenames:
        raise pytest.UsageError(
            f"{asked_by}: the test asks for no fresh_process, and would run on what is installed alone"
        )
    keywords: dict[str, Any] = dict(mark.kwargs)
    file = keywords.pop("file", None)
    if keywords or not (mark.args or file):
        raise pytest.UsageError(f"{asked_by}: name releases such as 'onnxsim==0.7.3', or file='releases.txt'")
    try:
        releases = [read_release(text, asked_by) for text in mark.args]
        if file is not None:
            releases += read_releases(metafunc.definition.path.parent / file, asked_by)
    except SettingError as error:
        raise pytest.UsageError(str(error)) from None
    parameters = []
    for release in releases:
        marks = [pytest.mark.skip(f"{release} is for {release.unmet}")] if release.unmet else []
        parameters.append(pytest.param(str(release), id=str(release), marks=marks))
    metafunc.parametrize(_RELEASE, parameters, indirect=True)
