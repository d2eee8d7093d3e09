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
import functools
limit = 3
joined = functools.partial("-".join, "xy")
def speak(word="x"): return f"vendor {word}"
class Thing:
    size = 5
    def run(self, word="x"): return f"run {word}"
    @staticmethod
    def of_class(word="x", *, mark="!"): return f"static {word}{mark}"
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


def shown(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return f"<{wrapped(*args, **kwargs)}>"


def other(word: str = "x") -> str:
    return "OTHER"


PATCHES: dict[str, Callable[[], Patch]] = {
    "wrap": lambda: hookpatch.wrap("vendor:speak", loud),
    "wrap a method": lambda: hookpatch.wrap("vendor:Thing.run", loud),
    "inject": lambda: hookpatch.inject("vendor:speak", word="INJECTED"),
    "default": lambda: hookpatch.default("vendor:speak", word="DEFAULT"),
    "wrap everywhere": lambda: hookpatch.wrap("vendor:speak", loud, reach="everywhere"),
    "wrap a method everywhere": lambda: hookpatch.wrap("vendor:Thing.run", loud, reach="everywhere"),
    "inject everywhere": lambda: hookpatch.inject("vendor:speak", word="INJECTED", reach="everywhere"),
    "default everywhere": lambda: hookpatch.default("vendor:speak", word="DEFAULT", reach="everywhere"),
    "replace": lambda: hookpatch.replace("vendor:speak", other),
    "replace a value": lambda: hookpatch.replace("vendor:limit", 9),
    "replace a value of a class": lambda: hookpatch.replace("vendor:Thing.size", 9),
}
SLOW: dict[str, Callable[[], Patch]] = {
    "derive": lambda: hookpatch.derive("vendor:speak", lambda speak: lambda word="x": speak(word).upper()),
    "remove": lambda: hookpatch.remove("vendor:limit"),
    "replace everywhere": lambda: hookpatch.replace("vendor:speak", other, reach="everywhere"),
    "wrap C code everywhere": lambda: hookpatch.wrap("vendor:joined", loud, reach="everywhere"),
    "wrap a static method everywhere": lambda: hookpatch.wrap("vendor:Thing.of_class", loud, reach="everywhere"),
    "required_calls": lambda: hookpatch.replace("vendor:speak", other, required_calls=0, requires="pytest"),
}


def seen(vendor: Any) -> list[Any]:
    calls = [vendor.speak(), vendor.Thing().run(), vendor.joined(), vendor.Thing.of_class()]
    return [*calls, getattr(vendor, "limit", None), vendor.Thing.size]


def state(vendor: Any) -> list[Any]:
    functions = vendor.speak, vendor.Thing.run, vendor.Thing.of_class
    inside = [(each.__code__, each.__defaults__, each.__kwdefaults__, dict(vars(each))) for each in functions]
    return [
        *inside,
        dict(vars(vendor)),
        dict(vars(vendor.Thing)),
        dict(os.environ),
        [*sys.meta_path],
        id(sys.meta_path),
    ]


@pytest.fixture(params=["wrap", "wrap everywhere"])
def wrap(request: pytest.FixtureRequest) -> Callable[[], Patch]:
    """Make a patch of a function, in its slot and in place."""
    return PATCHES[request.param]


is_patch_warm = False  # else the session is


@pytest.fixture(autouse=True, params=["a session entered again", "a patch applied before"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "is_patch_warm", request.param == "a patch applied before")


def warm(patch: Patch, **how: Any) -> Any:
    """Return a session opened before, or of a patch applied before: at first a patch in place takes locks."""
    session: Any = None
    for _ in range(3):
        session = active(patch, **how) if is_patch_warm or session is None else session
        with session:
            pass
    return active(patch, **how) if is_patch_warm else session


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
def test_notes_are_put_off_until_somebody_looks(
    vendor: Any, wrap: Callable[[], Patch], look: str, children: Any
) -> None:
    session = warm(wrap(), children=children)
    before = state(vendor)
    with session:
        assert unwritten
        LOOKS[look]()
        assert not unwritten
        assert vendor.speak() == "VENDOR X"
        assert {row.state for row in hookpatch.report()} == {"applied"}
    assert not unwritten
    assert vendor.speak() == "vendor x"
    if look != "a reload":
        assert state(vendor) == before
    with session:
        assert vendor.speak() == "VENDOR X"
    assert vendor.speak() == "vendor x"


def test_other_session_finds_the_patch_of_a_block_without_notes(vendor: Any, wrap: Callable[[], Patch]) -> None:
    """The other session's patch lies outside, and the original stays known to both."""
    speak, session = vendor.speak, warm(wrap())
    with session:
        assert unwritten
        with active(hookpatch.wrap("vendor:speak", short)):
            assert vendor.speak() == "V"
        assert vendor.speak() == "VENDOR X"
    assert vendor.speak is speak


def test_times_in_the_report(vendor: Any, wrap: Callable[[], Patch]) -> None:
    session = warm(wrap())
    with session:
        assert is_fast(session)
    [row] = session.report()
    assert row.applied_at is not None
    assert row.ended_at is not None
    assert row.applied_at <= row.ended_at


def test_session_of_two_patches_is_all_or_none(vendor: Any, wrap: Callable[[], Patch]) -> None:
    """When the stamp of the second holds no more, the first is not applied twice, and the second fails as ever."""
    session = active(wrap(), PATCHES["replace a value"](), children="local")
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
def test_other_session_on_the_same_site(vendor: Any, wrap: Callable[[], Patch], ends_first: str) -> None:
    """A later session on the same site lies outside; either may end first."""
    speak, session = vendor.speak, warm(wrap())
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


def test_nested_recursive_and_by_other_threads(vendor: Any, wrap: Callable[[], Patch]) -> None:
    speak, session = vendor.speak, warm(wrap())

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


def test_reload_inside(vendor: Any, wrap: Callable[[], Patch]) -> None:
    session = warm(wrap())
    with session:
        assert is_fast(session)
        importlib.reload(vendor)
        assert vendor.speak() == "VENDOR X"
    assert vendor.speak() == "vendor x"
    with session:
        assert vendor.speak() == "VENDOR X"
    assert vendor.speak() == "vendor x"


def test_import_anew_inside(vendor: Any, wrap: Callable[[], Patch]) -> None:
    session = warm(wrap())
    with session:
        del sys.modules["vendor"]
        anew: Any = importlib.import_module("vendor")
        assert (anew.speak(), vendor.speak()) == ("VENDOR X", "VENDOR X")
    assert (anew.speak(), vendor.speak()) == ("vendor x", "vendor x")


def test_foreign_value_over_ours(vendor: Any, wrap: Callable[[], Patch]) -> None:
    """A foreign value over ours is left alone and reported."""
    session = warm(wrap()).__enter__()
    assert is_fast(session)
    vendor.speak = other
    with pytest.warns(hookpatch.errors.DisplacedWarning):
        session.close()
    assert vendor.speak is other
    assert [row.state for row in session.report()] == ["overwritten"]


def test_foreign_code_of_a_function_changed_in_place(vendor: Any) -> None:
    """Foreign code is left alone and reported. When it puts our code back, the function is restored."""
    before, session = state(vendor), warm(PATCHES["wrap everywhere"](), children="local").__enter__()
    assert is_fast(session)
    ours, vendor.speak.__code__ = vendor.speak.__code__, other.__code__
    with pytest.warns(hookpatch.errors.DisplacedWarning):
        session.close()
    assert vendor.speak.__code__ is other.__code__
    assert [row.state for row in session.report()] == ["overwritten"]
    vendor.speak.__code__ = ours
    assert vendor.speak() == "vendor x"
    hookpatch.report()
    assert state(vendor) == before


def test_call_of_a_function_changed_in_place_runs_over_the_end(vendor: Any) -> None:
    """A running call goes on with the wrapper; the next block changes the same function again."""
    entered, go = threading.Event(), threading.Event()
    results: list[str] = []

    def waiting(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            entered.set()
            go.wait(20)
        return wrapped(*args, **kwargs).upper()

    code, patch = vendor.speak.__code__, hookpatch.wrap("vendor:speak", waiting, reach="everywhere")
    session = warm(patch, children="local")
    thread = threading.Thread(target=lambda: results.append(vendor.speak()))
    with session:
        assert is_fast(session)
        thread.start()
        entered.wait(20)
    assert (vendor.speak(), vendor.speak.__code__) == ("vendor x", code)
    with session:
        assert vendor.speak() == "VENDOR X"
    go.set()
    thread.join(20)
    assert (results, vendor.speak(), vendor.speak.__code__) == (["VENDOR X"], "vendor x", code)


def test_defaults_changed_between_blocks(vendor: Any, wrap: Callable[[], Patch]) -> None:
    """The original is called with the defaults that the function has now."""
    vendor.spoken = (spoken := vendor.Thing.of_class)
    patches = wrap(), hookpatch.wrap("vendor:spoken", loud, reach=wrap().reach)
    sessions = [warm(patch, children="local") for patch in patches]
    for number in range(4):
        vendor.speak.__defaults__, spoken.__kwdefaults__ = (str(number),), {"mark": f"?{number}"}
        for session in sessions:
            with session:
                pass
        with sessions[0], sessions[1]:
            assert (vendor.speak(), vendor.spoken()) == (f"VENDOR {number}", f"STATIC X?{number}")
        assert (vendor.speak(), vendor.spoken()) == (f"vendor {number}", f"static x?{number}")
        assert (vendor.speak.__defaults__, spoken.__kwdefaults__) == ((str(number),), {"mark": f"?{number}"})


def test_patch_in_place_beside_a_wrapper_that_calls_the_original(vendor: Any) -> None:
    """A function is changed in place unless another patch of the session keeps the function for calls of its own."""
    speak, patch = vendor.speak, PATCHES["wrap everywhere"]()
    keeper = hookpatch.wrap("vendor:Thing.run", lambda wrapped, instance, args, kwargs: speak())
    for session, is_kept in [(active(patch), False), (active(patch, keeper), True), (active(patch), False)]:
        for _ in range(4):
            with session:
                assert (vendor.speak(), vendor.Thing().run()) == ("VENDOR X", "vendor x" if is_kept else "run x")
                assert (vendor.speak is speak) != is_kept
            assert (vendor.speak, vendor.speak(), vendor.Thing().run()) == (speak, "vendor x", "run x")


def test_wrapper_that_leaks_passes_through(vendor: Any) -> None:
    session = warm(PATCHES["wrap"]())
    with session:
        leaked = vendor.speak
        assert leaked() == "VENDOR X"
    assert leaked() == "vendor x"
    assert "hookpatch" not in leaked.__code__.co_name
    with session:
        assert (leaked(), vendor.speak()) == ("vendor x", "VENDOR X")


def test_dropped_session(vendor: Any, wrap: Callable[[], Patch]) -> None:
    speak, patch = vendor.speak, wrap()
    with warm(patch):
        pass
    sessions = [active(patch, children="local").__enter__()]
    assert is_fast(sessions[0])
    with pytest.warns(ResourceWarning, match="was dropped unclosed"):
        sessions.clear()
    assert vendor.speak is speak


def test_nothing_keeps_a_session_alive(vendor: Any, wrap: Callable[[], Patch]) -> None:
    session = warm(wrap())
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
def test_death_of_a_closed_session_keeps_no_block_off_the_fast_path(
    vendor: Any, wrap: Callable[[], Patch], is_cycle: bool
) -> None:
    """A closed session keeps its place in the list of open sessions; the next block has no look to take."""
    patch = wrap()
    session, next_session = warm(patch), warm(patch)
    with session:
        pass
    if is_cycle:
        session.itself = session
    del session
    gc.collect()
    with next_session:
        assert is_fast(next_session)


def test_disabled(vendor: Any, wrap: Callable[[], Patch], monkeypatch: pytest.MonkeyPatch) -> None:
    session = warm(wrap())
    monkeypatch.setenv("HOOKPATCH_DISABLE", "1")
    with session:
        assert vendor.speak() == "vendor x"
        assert [row.state for row in session.report()] == ["skipped"]


def test_fork_inside(vendor: Any, wrap: Callable[[], Patch]) -> None:
    """The forked process has the patch, and restores the slot in the same way."""
    speak, session = vendor.speak, warm(wrap())
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


def test_decorated_function(vendor: Any, wrap: Callable[[], Patch]) -> None:
    """A decorated function is patched, also when raising or recursive."""
    speak = vendor.speak

    @active(wrap(), children="local")
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


def test_threads_enter_sessions_of_one_function_in_place(vendor: Any) -> None:
    """Each call gives what some set of the patches gives, and inside a block what the block's patch gives."""
    patch, before = PATCHES["wrap everywhere"](), state(vendor)
    again, outside = warm(patch, children="local"), warm(hookpatch.wrap("vendor:speak", shown), children="local")
    ways = {"again": (lambda: again, "VENDOR"), "outside": (lambda: outside, "<")}
    ways |= {"again as well": ways["again"], "anew": (lambda: active(patch, children="local"), "VENDOR")}
    wrong: list[str] = []

    def enter(make: Callable[[], Any], mark: str) -> None:
        for _ in range(300):
            with make():
                result = vendor.speak()
            wrong.extend([result] * (mark not in result))

    def call() -> None:
        while any(thread.is_alive() for thread in threads):
            result = vendor.speak()
            wrong.extend([result] * (result.strip("<>") not in ("vendor x", "VENDOR X")))

    threads = [threading.Thread(target=enter, args=way) for way in ways.values()]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        call()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    assert state(vendor) == before
