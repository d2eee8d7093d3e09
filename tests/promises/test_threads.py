"""Threads: sessions on shared targets leave nothing, whatever other threads do at the same time."""

from __future__ import annotations

import gc
import importlib
import itertools
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from random import Random
from threading import Event
from types import ModuleType
from typing import Any, Final, TypeAlias

import pytest
from environments import ROOT
from interrupts import in_child
from layers import HIDES_PATCHES
from shared_targets import (
    ALL,
    BODY,
    CALLERS,
    CALLS,
    CHAIN,
    NEVER,
    PATCHERS,
    SECONDS,
    SEED,
    SHARED,
    STAYS,
    STEPS,
    Opened,
    Spot,
    call_at_random,
    contend,
    contents_of,
    explain,
    nothing_left,
    patch_at_random,
    switching_often,
    tick,
    together,
)

import hookpatch

pytestmark = [pytest.mark.ends, HIDES_PATCHES]

MakeModule: TypeAlias = Callable[[str, str], ModuleType]

WriteModule: TypeAlias = Callable[[str, str], Path]


# --- sessions on shared targets


@pytest.mark.filterwarnings("ignore::hookpatch.errors.PatchFailedWarning")  # the value beneath a patch may be removed
@pytest.mark.filterwarnings("ignore:<Session of .* was dropped unclosed:ResourceWarning")
@pytest.mark.parametrize("library", [pytest.param("", id="alone"), pytest.param("torch", marks=pytest.mark.model)])
def test_sessions_on_shared_targets_leave_nothing(make_module: MakeModule, library: str) -> None:
    """Eight threads patch the same targets while others call: each call agrees with some set of patches.

    At the end every owner holds what it held, in the same order, and no site, no watch and no finder is left.
    """
    if library:
        importlib.import_module(library)  # notified of every change
    m: Any = make_module("shared", SHARED)
    spread, entered, exited = m.spread, itertools.count(), itertools.count()

    @contextmanager
    def entering(module: ModuleType) -> Iterator[None]:
        next(entered)
        yield
        next(exited)

    everywhere = Spot("shared:spread", CALLS, lambda: spread(), reach="everywhere")
    of_class = Spot("shared:Base.of_class", STAYS, lambda: m.Base.of_class(), kind=classmethod)
    chained = Spot("shared:Base.chained", CHAIN, lambda: m.Base().chained())
    called = [
        Spot("shared:plain", ALL, lambda: m.plain()),
        Spot("shared:spread", STAYS, lambda: m.spread(), everywhere),
        everywhere,
        Spot("shared:Base.own", ALL, lambda: m.child.own()),
        Spot("shared:Child.inherited", STAYS, lambda: m.child.inherited()),
        Spot("shared:Base.static", ALL, lambda: m.Child.static(), kind=staticmethod),
        of_class,
        Spot("shared:Child.of_class", CHAIN, lambda: m.child.of_class(), of_class, classmethod),
        chained,
        Spot("shared:Child.chained", CHAIN, lambda: m.child.chained(), chained),
        Spot("shared:table['a']", ALL, lambda: m.table["a"]()),
        Spot("shared:table['b']", ALL, lambda: m.table["b"]()),
        Spot("shared:ordered['a']", ALL, lambda: m.ordered["a"]()),
        Spot("shared:steps[1]", STAYS, lambda: m.steps[1]()),
        Spot("unicodedata:name", ("wrap", "replace", "derive"), lambda: unicodedata.name("a")),
    ]
    neighbours = [Spot(f"shared:{table}['last']", (), getattr(m, table)["last"]) for table in ("table", "ordered")]
    patched = [*called, NEVER, Spot("shared", ("enter",), entering)]
    owners = [m, m.Base, m.Child, m.child, spread, m.table, m.ordered, m.steps, unicodedata]
    before, code = (
        [contents_of(owner) for owner in owners],
        (spread.__code__, spread.__kwdefaults__, spread.__defaults__),
    )
    removed = {"plain", "own", "static"}  # attributes: restored, but not at their positions
    steps = STEPS // 4 if library else STEPS  # with the library each report goes through many more objects
    seed, end = SEED, time.monotonic() + (SECONDS / 6 if library else SECONDS)
    while time.monotonic() < end:
        with switching_often(seed):
            pool: list[Opened] = []
            contend(
                seed,
                [partial(patch_at_random, patched, called, pool, steps=steps)] * PATCHERS,
                [partial(call_at_random, [*called, *neighbours])] * CALLERS,
            )
            nothing_left(pool, patched)
            for owner, earlier in zip(owners, before, strict=True):
                content = contents_of(owner)
                assert [item for item in content if item[0] not in removed] == [
                    i for i in earlier if i[0] not in removed
                ]
                assert sorted(content) == sorted(earlier)
            assert (spread.__code__, spread.__kwdefaults__, spread.__defaults__) == code
            assert next(entered) == next(exited)
        seed += 1


@pytest.mark.filterwarnings("ignore:<Session of .* was dropped unclosed:ResourceWarning")
def test_outer_argument_wins_while_patches_come_and_go(make_module: MakeModule) -> None:
    """Many threads inject one argument of two methods, inherited and own: no call gets an inner patch's argument."""
    m: Any = make_module("shared", SHARED)
    own = Spot("shared:Base.chained", CALLS, lambda: m.Base().chained())
    spots = [own, Spot("shared:Child.chained", CALLS, lambda: m.child.chained(), own)]
    seed, end = SEED, time.monotonic() + SECONDS
    while time.monotonic() < end:
        with switching_often(seed):
            pool: list[Opened] = []
            # Short rounds: a layer knows the arguments of the 32 patches that ended last.
            workers = [partial(patch_at_random, spots, spots, pool, steps=8)] * PATCHERS
            contend(seed, workers, [partial(call_at_random, spots)] * CALLERS)
            nothing_left(pool, spots)
        seed += 1


def test_report_while_sessions_come_and_go() -> None:
    """report() lists the open sessions, whole and the first opened first, while other threads open and close some."""
    stop = Event()
    patches = hookpatch.replace("never_imported:x", 1), hookpatch.replace("never_imported:y", 1)

    def come_and_go() -> None:
        while not stop.is_set():
            with hookpatch.active(*patches, hookpatch.replace("never_imported:z", 1)):
                pass

    def look() -> None:
        try:
            for _ in range(300):
                targets = [patch.target[-1] for patch in hookpatch.report()]
                assert targets[:400] == ["x", "y"] * 200
                assert targets[400:] in (["x", "y", "z"] * number for number in range(5))
        finally:
            stop.set()

    with ExitStack() as stack, switching_often(1):
        for _ in range(200):
            stack.enter_context(hookpatch.active(*patches))
        together(look, *[come_and_go] * 4)


# Wrappers with 5,000 contents, which a search for holders goes through.
HELD: Final = """
import functools
def run(): return "run"
def around(w, i, a, k, **options): return w(*a, **k)
def around_by_default(w, i, a, k, *, extra=0): return w(*a, **k)
around_in_part = functools.partial(around, extra=0)
for number in range(5_000):
    vars(around)[f"_{number}"] = number
    around_by_default.__kwdefaults__[f"_{number}"] = number
    around_in_part.keywords[f"_{number}"] = number
"""


@pytest.mark.parametrize(
    ("add", "drop", "wrapper"),
    [
        pytest.param("setattr(around, name, 0)", "delattr(around, name)", "around", id="a wrapper"),
        pytest.param("defaults[name] = 0", "del defaults[name]", "around_by_default", id="defaults of a wrapper"),
        pytest.param("keywords[name] = 0", "del keywords[name]", "around_in_part", id="a partial as wrapper"),
    ],
)
def test_search_while_wrappers_change(make_module: MakeModule, add: str, drop: str, wrapper: str) -> None:
    """A session opens, reports and closes without an error while another thread changes its wrapper."""
    m: Any = make_module("changing", HELD)
    names = {
        "names": [*map(str, range(50))],
        "defaults": m.around_by_default.__kwdefaults__,
        "keywords": m.around_in_part.keywords,
    }
    code, stop = "".join(f"for name in names: {act}\n" for act in (add, drop)), Event()

    def let_others_run(*_: object) -> None:
        """As a finalizer that the collector calls."""
        for number in range(20):
            del number

    def change_all_the_time() -> None:
        while not stop.is_set():
            exec(code, vars(m), names)

    def open_sessions() -> None:
        try:
            for _ in range(10):
                wrap = hookpatch.wrap("changing:run", getattr(m, wrapper), reach="everywhere")
                with hookpatch.active(wrap, children="local") as session:
                    assert {patch.state for patch in session.report()} == {"applied"}
        finally:
            stop.set()

    with switching_often(5), ExitStack() as stack:
        gc.callbacks.append(let_others_run)
        stack.callback(gc.callbacks.remove, let_others_run)
        together(open_sessions, change_all_the_time)


# --- repeated imports

HOOKED: Final = ("hooked0", "hooked1", "hooked2")


def _import_at_random(spot: Spot, modules: list[ModuleType], choose: Random, stop: Event) -> None:
    """Import a module anew, in this thread alone: sessions open before hold afterwards."""
    name = spot.address.partition(":")[0]
    while not stop.is_set():
        began = tick()
        sys.modules.pop(name, None)
        module = importlib.import_module(name)
        modules.append(module)
        result = module.run()
        problem = explain(spot, began, tick(), result)
        assert problem is None, f"{name} gave {result}: {problem}"


def _import_the_unhooked(choose: Random, stop: Event) -> None:
    while not stop.is_set():
        sys.modules.pop("unhooked", None)
        importlib.import_module("unhooked")


@pytest.mark.filterwarnings("ignore:<Session of .* was dropped unclosed:ResourceWarning")
def test_imports_while_sessions_come_and_go(write_module: WriteModule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are imported anew while four threads open and close sessions: no patch is missed or left.

    A session that was open when an import began holds when it has ended. An import that nobody waits for is not
    disturbed. At the end every module that there ever was holds its original, and has its real loader and spec.
    """
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in (*HOOKED, "unhooked"):
        write_module(name, BODY)
    spots = [Spot(f"{name}:run", STAYS, lambda: None) for name in HOOKED]
    finders = list(sys.meta_path)
    seed, end = SEED, time.monotonic() + SECONDS / 6
    while time.monotonic() < end:
        with switching_often(seed):
            pool: list[Opened] = []
            modules: list[ModuleType] = []
            contend(
                seed,
                [partial(patch_at_random, [*spots, NEVER], (), pool)] * 4,
                [*(partial(_import_at_random, spot, modules) for spot in spots), _import_the_unhooked],
            )
            nothing_left(pool, [*spots, NEVER])
            assert sys.meta_path == finders
            for module in modules:
                assert module.run is module.original
                spec = module.__spec__
                assert spec is not None
                assert (type(spec), type(spec.loader), type(module.__loader__)) == (
                    *(ModuleSpec, SourceFileLoader),
                    SourceFileLoader,
                )
        seed += 1


# --- imports at once


def test_threads_that_import_hooked_modules_at_once_do_not_deadlock() -> None:
    """Five threads import a hooked package and its hooked submodules at once, fifty times, and all are patched.

    Python gives up some such circles by itself (3.13.0 one of 15,000, 3.14.10 all): no more of them with hooks.
    The same with wrapt's finder deadlocks each time: python tests/benchmarks/imports_at_once.py
    """
    script = ROOT / "tests" / "benchmarks" / "imports_at_once.py"
    given_up = {}
    for tool in ("plain", "hookpatch"):
        completed = subprocess.run([sys.executable, script, tool, "50"], capture_output=True, text=True, check=False)
        ended, given_up[tool], deadlocks = (int(part.split()[0]) for part in completed.stdout.split(","))
        assert (ended + given_up[tool], deadlocks, completed.stderr) == (50, 0, "")
    assert given_up["hookpatch"] <= given_up["plain"] + 1


def test_finalizers_in_the_middle_of_changes_do_not_wait_for_each_other(make_module: MakeModule) -> None:
    """A session dropped during a change of a slot closes after the change, since closing takes other locks."""
    m: Any = make_module("crossed", "left = {'a': 1, 'b': 2}\nright = {'a': 1, 'b': 2}")
    inside: list[object] = []

    class Key(str):
        """A key that drops a session when compared, under the lock of the site."""

        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            while inside:
                inside.pop()
                contents.append(dict(m.right))
            return str.__eq__(self, str(other))

    contents: list[dict[str, int]] = []
    m.left[Key("c")] = 3
    session = hookpatch.active(hookpatch.replace("crossed:right['a']", 7)).open()
    inside.append(session)
    del session
    patches = hookpatch.active(hookpatch.replace("crossed:left['c']", 8))
    with pytest.warns(ResourceWarning, match="was dropped unclosed"):
        patches.open()
    assert (m.left["c"], inside) == (8, [])
    patches.close()
    assert contents == [{"a": 7, "b": 2}]
    assert m.right == {"a": 1, "b": 2}


def test_a_session_collected_in_a_search_ends_with_the_report(make_module: MakeModule) -> None:
    """The finalizer of a dropped session does not close the session in the middle of a search, but after the report."""
    m: Any = make_module("searched", "def run(): return 'run'\ndef other(): return 'other'")

    def report_and_call() -> str:
        gc.disable()
        circle: list[Any] = [hookpatch.active(hookpatch.replace("searched:run", lambda: "new")).open()]
        circle.append(circle)
        with hookpatch.active(hookpatch.wrap("searched:other", lambda w, i, a, k: w())) as session:
            del circle
            sys.addaudithook(lambda event, _: event == "gc.get_referrers" and collected.append((m.run(), gc.collect())))
            session.report()
            return f"{collected[0][0]} {m.run()}"

    collected: list[Any] = []
    assert in_child(report_and_call) == "new run"


SEARCHED: Final = """
class Child:
    def number(self): return 1

children = [Child() for _ in range(150)]  # so many that a search goes through all objects itself
rows = [(child,) for child in children]
"""


def test_threads_build_tuples_while_sessions_search_all_objects(make_module: MakeModule) -> None:
    """Up to Python 3.13 a second reference to an unfinished tuple makes ``tuple(generator)`` raise a SystemError."""
    child = make_module("vendor", SEARCHED).Child
    sought = [
        hookpatch.replace("vendor:Child", type("Other", (child,), {}), reach="everywhere"),
        hookpatch.replace("vendor:Child.number", lambda self: 2),
        hookpatch.replace("math:gcd", lambda *numbers: 1, reach="everywhere"),
    ]
    built = 0

    def build(choose: Random, stop: Event) -> None:
        nonlocal built
        while not stop.is_set():
            assert len(tuple(number for number in range(300))) == 300
            built += 1

    def search(choose: Random) -> None:
        for patch in sought * 5:
            with hookpatch.active(patch) as session:
                session.report()

    with switching_often(SEED):
        contend(SEED, [search], [build] * 2)
    assert built > 15


FRAMES: Final = """
import itertools, sys, threading, time, weakref
from hookpatch._engine.slots.referrers import running_codes

class Garbage: pass

def ask():
    while time.monotonic() < end:
        garbage = Garbage()
        garbage.itself = kept[next(numbers)] = garbage  # the collector calls a function of Python to drop the entry
        del garbage
        running_codes()

sys.setswitchinterval(1e-6)
kept, numbers, end = weakref.WeakValueDictionary(), itertools.count(), time.monotonic() + 4
threads = [threading.Thread(target=ask) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_threads_ask_for_all_frames_while_the_collector_runs() -> None:
    """On Python 3.11 the collector, run in ``sys._current_frames``, makes threads wait for each other for ever."""
    subprocess.run([sys.executable, "-c", FRAMES], check=True, timeout=60)


@pytest.mark.parametrize("children", ["local", "inherit"])
def test_threads_enter_one_session_in_all_ways(make_module: MakeModule, children: Any) -> None:
    """With statements, decorated functions, stacks and ``open``: each ends its own entrance, and no other's."""
    module = make_module("vendor", "def run(): return 1")
    original, session = module.run, hookpatch.active(hookpatch.wrap("vendor:run", _twice), children=children)

    def by_statement() -> list[int]:
        with session:
            with session:
                inside = module.run()
            return [inside, module.run()]

    def by_stack() -> list[int]:
        with ExitStack() as stack:
            stack.enter_context(session)
            return [module.run()]

    def by_open() -> list[int]:
        session.open()
        results = [module.run()]
        session.close()
        return results

    ways = [by_statement, session(by_statement), by_stack, by_open]

    def enter(choose: Random) -> None:
        for _ in range(3_000):
            assert {*choose.choice(ways)()} == {2}

    def report(choose: Random, stop: Event) -> None:
        while not stop.is_set():
            hookpatch.report()

    with switching_often(SEED):
        contend(SEED, [enter] * 6, [report])
    assert module.run is original


def _twice(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
    return 2 * wrapped(*args, **kwargs)
