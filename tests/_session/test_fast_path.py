"""A session opened again on the fast path: as fast as mock.patch, otherwise like a session with locks."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from call_counting import calls_in

import hookpatch
from hookpatch import Patch, active
from hookpatch._bootstrap.interrupts import unwritten

SOURCE = """\
limit = 3
def speak(word="x"): return f"vendor {word}"
class Thing:
    size = 5
    def run(self, word="x"): return f"run {word}"
"""


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> Any:
    if (dynamo := sys.modules.get("torch._dynamo")) is not None:
        dynamo.reset()  # with compiled code a block takes locks: see tests/_torch/test_fast_path_with_torch.py
    module = make_module("vendor", SOURCE)
    for _ in range(2):  # imports what blocks and reports need: after an import a block looks for lazy names
        with active(PATCHES["replace a value"]()) as session:
            session.report()
        session.report()
    return module


def loud(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs).upper()


def short(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)[:1]


def other(word: str = "x") -> str:
    return "OTHER"


PATCHES: dict[str, Callable[[], Patch]] = {
    "wrap": lambda: hookpatch.wrap("vendor:speak", loud),
    "wrap a method": lambda: hookpatch.wrap("vendor:Thing.run", loud),
    "inject": lambda: hookpatch.inject("vendor:speak", word="INJECTED"),
    "default": lambda: hookpatch.default("vendor:speak", word="DEFAULT"),
    "replace": lambda: hookpatch.replace("vendor:speak", other),
    "replace a value": lambda: hookpatch.replace("vendor:limit", 9),
    "replace a value of a class": lambda: hookpatch.replace("vendor:Thing.size", 9),
}
SLOW: dict[str, Callable[[], Patch]] = {
    "derive": lambda: hookpatch.derive("vendor:speak", lambda speak: lambda word="x": speak(word).upper()),
    "remove": lambda: hookpatch.remove("vendor:limit"),
    "everywhere": lambda: hookpatch.wrap("vendor:speak", loud, reach="everywhere"),
    "required_calls": lambda: hookpatch.replace("vendor:speak", other, required_calls=0, requires="pytest"),
}


def seen(vendor: Any) -> list[Any]:
    return [vendor.speak(), vendor.Thing().run(), getattr(vendor, "limit", None), vendor.Thing.size]


def state(vendor: Any) -> list[Any]:
    return [dict(vars(vendor)), dict(vars(vendor.Thing)), dict(os.environ), list(sys.meta_path), id(sys.meta_path)]


def warm(patch: Patch, **how: Any) -> Any:
    """Return a session opened twice before."""
    session = active(patch, **how)
    for _ in range(2):
        with session:
            pass
    return session


def is_fast(session: Any) -> bool:
    return bool(session._is_fast)


@pytest.mark.parametrize("children", ["local", "inherit"])
@pytest.mark.parametrize("name", [*PATCHES, *SLOW])
@pytest.mark.sampled(8)
def test_each_time_is_as_the_first(vendor: Any, name: str, children: Any) -> None:
    """What is seen inside, after, in the report and in the environment; the same session, and another of the patch."""
    patch = (PATCHES | SLOW)[name]()
    before, session = state(vendor), active(patch, children=children)
    insides, reports, fast = [], [], []
    for number in range(6):
        if number > 3:
            session = active(patch, children=children)
        with session:
            fast.append(is_fast(session))
            inside = [seen(vendor), bool(os.environ.get("HOOKPATCH_INHERIT"))]
            if number % 2:
                reports.append([[row.state, row.reason, row.warnings] for row in session.report()])
            insides.append(inside)
        reports.append([[row.state, row.reason, row.warnings] for row in session.report()])
        assert state(vendor) == before
    assert insides == [insides[0]] * 6
    assert insides[0][0] != seen(vendor)
    assert [report[0][0] for report in reports] == ["restored", "applied", "restored"] * 3
    del fast[4]  # what is handed on is packed anew for the first session that is not the same
    assert fast[2:] == [name in PATCHES] * 3


@pytest.mark.skipif(sys.getprofile() is not None, reason="a profiler profiles already")
@pytest.mark.parametrize(("children", "most"), [("local", 10), ("inherit", 14)])
def test_few_functions_are_called_again(vendor: Any, children: Any, most: int) -> None:
    """No search through sys.meta_path, no lock: each call of a function takes a hundredth of a block of mock.patch."""
    session = active(PATCHES["replace"](), children=children)

    def block() -> None:
        with session:
            pass

    for _ in range(3):
        block()
    is_asked_for_interpreters = "_interpreters" in sys.modules
    is_asked_for_lazy_names = sys.version_info >= (3, 15)
    assert calls_in(block) <= most + is_asked_for_interpreters + is_asked_for_lazy_names


def _import_anew() -> None:
    sys.modules.pop("errno")
    importlib.import_module("errno")


def _fork() -> None:
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _open_other() -> None:
    with active(hookpatch.replace("vendor:limit", 9), children="local"):
        pass


LOOKS: dict[str, Callable[[], object]] = {
    "report": hookpatch.report,
    "an import": _import_anew,
    "a reload": lambda: importlib.reload(sys.modules["vendor"]),
    "a fork": _fork,
    "another session": _open_other,
    "a thread": lambda: _in_thread(hookpatch.report),
}


def _in_thread(act: Callable[[], object]) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(20)


@pytest.mark.parametrize("children", ["local", "inherit"])
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.sampled(6)
def test_notes_are_put_off_until_somebody_looks(vendor: Any, look: str, children: Any) -> None:
    session = warm(PATCHES["wrap"](), children=children)
    before = state(vendor)
    with session:
        assert unwritten
        LOOKS[look]()
        assert not unwritten
        assert vendor.speak() == "VENDOR X"
        assert [row.state for row in hookpatch.report()] == ["applied"]
    assert not unwritten
    assert vendor.speak() == "vendor x"
    if look != "a reload":
        assert state(vendor) == before
    with session:
        assert vendor.speak() == "VENDOR X"
    assert vendor.speak() == "vendor x"


def test_other_session_finds_the_patch_of_a_block_without_notes(vendor: Any) -> None:
    """The other session's patch lies outside, and the original stays known to both."""
    speak, session = vendor.speak, warm(PATCHES["wrap"]())
    with session:
        assert unwritten
        with active(hookpatch.wrap("vendor:speak", short)):
            assert vendor.speak() == "V"
        assert vendor.speak() == "VENDOR X"
    assert vendor.speak is speak


def test_times_in_the_report(vendor: Any) -> None:
    session = warm(PATCHES["wrap"]())
    with session:
        assert is_fast(session)
    [row] = session.report()
    assert row.applied_at is not None
    assert row.ended_at is not None
    assert row.applied_at <= row.ended_at


def test_session_of_two_patches_is_all_or_none(vendor: Any) -> None:
    """When the stamp of the second holds no more, the first is not applied twice, and the second fails as ever."""
    session = active(PATCHES["wrap"](), PATCHES["replace a value"](), children="local")
    for _ in range(3):
        with session:
            assert seen(vendor)[0] == "VENDOR X"
            assert vendor.limit == 9
    speak = vendor.speak
    del vendor.limit
    with pytest.raises(hookpatch.errors.TargetNotFound):
        session.open()
    assert vendor.speak is speak
    vendor.limit = 4
    with session:
        assert (vendor.speak(), vendor.limit) == ("VENDOR X", 9)
    assert vendor.limit == 4


@pytest.mark.parametrize("ends_first", ["fast", "other"])
def test_other_session_on_the_same_site(vendor: Any, ends_first: str) -> None:
    """A later session on the same site lies outside; either may end first."""
    speak, session = vendor.speak, warm(PATCHES["wrap"]())
    session.__enter__()
    assert is_fast(session)
    outside = active(hookpatch.wrap("vendor:speak", short)).open()
    assert vendor.speak() == "V"
    first, second = (session, outside) if ends_first == "fast" else (outside, session)
    first.close()
    assert vendor.speak() == ("v" if ends_first == "fast" else "VENDOR X")
    second.close()
    assert vendor.speak is speak


def test_same_patch_in_two_sessions(vendor: Any) -> None:
    speak, patch = vendor.speak, hookpatch.wrap("vendor:speak", short)
    first, second = warm(patch), active(patch)
    with first:
        assert is_fast(first)
        with second:
            assert vendor.speak() == "v"
        assert vendor.speak() == "v"
        assert is_fast(first)
    assert vendor.speak is speak
    with first:
        assert is_fast(first)


def test_nested_recursive_and_by_other_threads(vendor: Any) -> None:
    speak, session = vendor.speak, warm(PATCHES["wrap"]())

    def inside() -> None:
        with session:
            assert vendor.speak() == "VENDOR X"

    with session:
        assert is_fast(session)
        with session, session:
            assert vendor.speak() == "VENDOR X"
        thread = threading.Thread(target=inside)
        thread.start()
        thread.join(20)
        assert vendor.speak() == "VENDOR X"
    assert vendor.speak is speak


def test_reload_inside(vendor: Any) -> None:
    session = warm(PATCHES["wrap"]())
    with session:
        assert is_fast(session)
        importlib.reload(vendor)
        assert vendor.speak() == "VENDOR X"
    assert vendor.speak() == "vendor x"
    with session:
        assert vendor.speak() == "VENDOR X"
    assert vendor.speak() == "vendor x"


def test_import_anew_inside(vendor: Any) -> None:
    session = warm(PATCHES["wrap"]())
    with session:
        del sys.modules["vendor"]
        anew: Any = importlib.import_module("vendor")
        assert (anew.speak(), vendor.speak()) == ("VENDOR X", "VENDOR X")
    assert (anew.speak(), vendor.speak()) == ("vendor x", "vendor x")


def test_foreign_value_over_ours(vendor: Any) -> None:
    """A foreign value over ours is left alone and reported."""
    session = warm(PATCHES["wrap"]()).__enter__()
    assert is_fast(session)
    vendor.speak = other
    with pytest.warns(hookpatch.errors.DisplacedWarning):
        session.close()
    assert vendor.speak is other
    assert [row.state for row in session.report()] == ["overwritten"]


def test_wrapper_that_leaks_passes_through(vendor: Any) -> None:
    session = warm(PATCHES["wrap"]())
    with session:
        leaked = vendor.speak
        assert leaked() == "VENDOR X"
    assert leaked() == "vendor x"
    assert "hookpatch" not in leaked.__code__.co_name
    with session:
        assert (leaked(), vendor.speak()) == ("vendor x", "VENDOR X")


def test_dropped_session(vendor: Any) -> None:
    speak, patch = vendor.speak, PATCHES["wrap"]()
    warm(patch)
    sessions = [active(patch, children="local").__enter__()]
    assert is_fast(sessions[0])
    with pytest.warns(ResourceWarning, match="was dropped unclosed"):
        sessions.clear()
    assert vendor.speak is speak


def test_nothing_keeps_a_session_alive(vendor: Any) -> None:
    patch = PATCHES["wrap"]()
    warm(patch)
    session = active(patch)
    with session:
        pass
    weak = weakref.ref(session)
    gc.disable()
    try:
        del session
        assert weak() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("is_cycle", [False, True])
def test_death_of_a_closed_session_keeps_no_block_off_the_fast_path(vendor: Any, is_cycle: bool) -> None:
    """A closed session keeps its place in the list of open sessions; the next block has no look to take."""
    patch = PATCHES["wrap"]()
    session, next_session = warm(patch), warm(patch)
    if is_cycle:
        session.itself = session
    del session
    gc.collect()
    with next_session:
        assert is_fast(next_session)


def test_disabled(vendor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session = warm(PATCHES["wrap"]())
    monkeypatch.setenv("HOOKPATCH_DISABLE", "1")
    with session:
        assert vendor.speak() == "vendor x"
        assert [row.state for row in session.report()] == ["skipped"]


def test_fork_inside(vendor: Any) -> None:
    """The forked process has the patch, and restores the slot in the same way."""
    speak, session = vendor.speak, warm(PATCHES["wrap"]())
    with session:
        pid = os.fork()
        if pid == 0:
            good = vendor.speak() == "VENDOR X"
            session.close()
            with session:
                good = good and vendor.speak() == "VENDOR X"
            os._exit(0 if good and vendor.speak is speak else 1)
        assert os.waitpid(pid, 0)[1] == 0
    assert vendor.speak is speak


def test_decorated_function(vendor: Any) -> None:
    """A decorated function is patched, also when raising or recursive."""
    speak = vendor.speak

    @active(PATCHES["wrap"](), children="local")
    def call(depth: int = 0) -> str:
        if depth:
            call(depth - 1)
        if depth == 2:
            raise KeyError
        return str(vendor.speak())

    for _ in range(3):
        assert (call(), call(1)) == ("VENDOR X", "VENDOR X")
        with pytest.raises(KeyError):
            call(2)
        assert vendor.speak is speak
