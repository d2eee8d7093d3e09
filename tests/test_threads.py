"""Threads: sessions on shared targets leave nothing, whatever others do at the same time."""

from __future__ import annotations

import faulthandler
import gc
import importlib
import inspect
import itertools
import json
import os
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from math import inf
from pathlib import Path
from random import Random
from threading import Event, Thread
from types import ModuleType
from typing import Any, Final, TypeAlias

import pytest

import hookpatch
from hookpatch import Target, _imports, errors
from hookpatch._sites import patched

pytestmark = pytest.mark.ends

MakeModule: TypeAlias = Callable[[str, str], ModuleType]
WriteModule: TypeAlias = Callable[[str, str], Path]

# `make test` asks for a minute. A failure names the seed of its round, which can be made the first.
SECONDS: Final = float(os.environ.get("STRESS_SECONDS", "5"))
SEED: Final = int(os.environ.get("STRESS_SEED", "1"))
PATCHERS, CALLERS, STEPS = 8, 3, 60
PATIENCE: Final = float(os.environ.get("PATIENCE", "20"))


def _around(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return f"patched({wrapped(*args, **kwargs)})"


def _together(*bodies: Callable[[], object], within: float = 6 * PATIENCE) -> None:
    """Run functions in threads of their own until all have ended; raise the first error of one of them."""
    failures: list[BaseException] = []

    def run(body: Callable[[], object]) -> None:
        try:
            body()
        except BaseException as error:  # raised below, in the test's own thread
            failures.append(error)

    threads = [Thread(target=run, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    end = time.monotonic() + within
    for thread in threads:
        thread.join(max(0, end - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        faulthandler.dump_traceback(all_threads=True)
        pytest.fail("threads wait for each other; where, is on stderr")
    if failures:
        raise failures[0]


# --- sessions on shared targets
#
# What a call gives tells through which patches it went: each wrapper, and each derived or replaced function, pairs its
# Put with what came from beneath it; an original gives its name and the mark that an inject gave it.

SHARED = """
from collections import OrderedDict

def plain(mark=None):
    return "plain", mark

def spread(mark=None):
    return "spread", mark

class Base:
    def own(self, mark=None):
        return "own", mark

    def inherited(self, mark=None):
        return "inherited", mark

    def chained(self, mark=None):
        return "chained", mark

    @staticmethod
    def static(mark=None):
        return "static", mark

    @classmethod
    def of_class(cls, mark=None):
        return "of_class", mark

class Child(Base):
    pass

def entry(mark=None):
    return "entry", mark

table = {"first": entry, "a": entry, "b": entry, "last": entry}
ordered = OrderedDict(table)
steps = [entry, entry, entry]
child = Child()
"""

ABSENT: Final = "absent"
CALLS: Final = ("wrap", "inject")
CHAIN: Final = (*CALLS, "replace")
STAYS: Final = (*CHAIN, "derive")
ALL: Final = (*STAYS, "remove")

_clock: Final = itertools.count()


def _now() -> int:
    return next(_clock)


@dataclass(eq=False)
class Span:
    """When a session may hold and when it must, by the clock; and its number, from the session while it opens."""

    session: hookpatch.Session | None
    thread: Thread | None  # of a session that holds for its task alone
    number: int = -1
    opening: float = inf
    opened: float = inf
    closing: float = inf
    closed: float = inf


@dataclass(eq=False)
class Put:
    """One patch of one session at one spot."""

    spot: Spot
    verb: str
    place: int
    span: Span

    @property
    def rank(self) -> tuple[int, int]:
        session = self.span.session
        return (self.span.number if session is None else session._number), -self.place

    def may_hold(self, began: float, ended: float) -> bool:
        """Tell whether it may have held at some moment of a call."""
        here = self.span.thread in (None, threading.current_thread())
        return here and self.span.opening < ended and self.span.closed > began

    def must_hold(self, began: float, ended: float) -> bool:
        """Tell whether it held from the beginning of a call to its end."""
        here = self.span.thread in (None, threading.current_thread())
        return here and self.span.opened < began and self.span.closing > ended

    def __repr__(self) -> str:
        return f"<{self.verb} {self.rank} at {self.spot.address}>"


@dataclass(eq=False)
class Spot:
    """A shared target, how to call what stands there, and every patch that was put there in this round.

    Attributes:
        inner: the spot whose patches show inside this one's.
        kind: what a value has to be wrapped in to stand there.
    """

    address: str
    verbs: tuple[str, ...]
    call: Callable[[], Any]
    inner: Spot | None = None
    kind: Callable[[Any], Any] = lambda function: function
    reach: Any = "slot"
    puts: list[Put] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.target = Target(self.address) if ":" in self.address else self.address

    def patch(self, put: Put) -> hookpatch.Patch:
        """Return a patch of one of the spot's verbs that shows its Put in what a call gives."""
        if put.verb == "wrap":
            return hookpatch.wrap(self.target, lambda w, i, a, k: (put, w(*a, **k)), reach=self.reach)
        if put.verb == "inject":
            return hookpatch.inject(self.target, mark=put, reach=self.reach)
        if put.verb == "replace":
            return hookpatch.replace(self.target, self.kind(lambda *args, mark=None: (put, mark)))
        if put.verb == "derive":
            return hookpatch.derive(self.target, partial(_derived, put))
        if put.verb == "enter":
            return hookpatch.enter(self.address, self.call)
        return hookpatch.remove(self.target)


def _derived(put: Put | None, below: Any) -> Any:
    if isinstance(below, (staticmethod, classmethod)):
        return type(below)(_derived(put, below.__func__))
    return lambda *args, **kwargs: (put, below(*args, **kwargs))


def _explain(spot: Spot, began: float, ended: float, result: Any) -> str | None:
    """Return why no set of patches that were open during a call can give its result, None when one can."""
    if result == ABSENT:
        above = [put.rank for put in spot.puts if put.verb == "replace" and put.must_hold(began, ended)]
        gone = [put.rank for put in spot.puts if put.verb == "remove" and put.may_hold(began, ended)]
        return None if gone and max(gone) > max(above, default=(-1, 0)) else "nothing was removed"
    puts: list[Put] = []
    while isinstance(result, tuple) and isinstance(result[0], Put):
        puts.append(result[0])
        result = result[1]
        if puts[-1].verb == "replace":
            break
    replaced = bool(puts) and puts[-1].verb == "replace"
    mark: Put | None = result if replaced else result[1] if isinstance(result, tuple) else None
    if late := [put for put in (*puts, mark) if put is not None and not put.may_hold(began, ended)]:
        return f"{late} did not hold"
    part: Spot | None = spot
    while part is not None:
        here = list(itertools.takewhile(lambda put, part=part: put.spot is part, puts))
        del puts[: len(here)]
        ends = bool(here) and here[-1].verb == "replace"
        floor = here[-1].rank if ends else (-1, 0)
        held = [put for put in list(part.puts) if put.must_hold(began, ended) and put.rank > floor]
        if [put.rank for put in here] != sorted((put.rank for put in here), reverse=True):
            return f"{here} are not in order"
        if missing := [put for put in held if put.verb != "inject" and put not in here]:
            return f"{missing} held and did not show"
        # The innermost inject has the last word.
        below = [put for put in held if put.verb == "inject"]
        if mark is not None and mark.spot is part:
            if mark.rank <= floor:
                return f"{mark} lies under what replaced it"
            below, mark = [put for put in below if put.rank < mark.rank], None
        elif mark is not None:
            below = []
        if below:
            return f"{below} held and did not show"
        part = None if ends else part.inner
    return f"{[*puts, mark]} do not belong there" if puts or mark is not None else None


def _look(spot: Spot) -> None:
    """Call what stands at a spot, and see that some set of open patches can give what comes out."""
    began, cause = _now(), None
    try:
        result = spot.call()
    except (AttributeError, KeyError) as error:
        result, cause = ABSENT, error
    problem = _explain(spot, began, _now(), result)
    if problem is not None:
        raise AssertionError(f"{spot.address} gave {result}: {problem}") from cause


@dataclass(eq=False)
class Opened:
    """A session that is open."""

    session: hookpatch.Session | None
    span: Span

    def close(self) -> None:
        assert self.session is not None
        self.span.closing = _now()
        self.session.close()
        self.span.closed = _now()
        states = {patch.state for patch in self.session.report()}
        assert states <= {"restored", "unused", "failed"}, str(self.session.report())

    def drop(self) -> None:
        """Leave it to the garbage collector."""
        self.span.closing = _now()
        circle: list[Any] = [self.session]
        circle.append(circle)
        self.session = None


def _open(spots: Sequence[Spot], choose: Random) -> Opened | None:
    """Open a session of some patches; return None when it was refused, since somebody had removed what it needs."""
    scope: Any = "task" if choose.random() < 0.2 else "process"
    chosen = [choose.choice(spots) for _ in range(choose.randint(1, 4))]
    if scope == "task":
        chosen = [spot for spot in chosen if "wrap" in spot.verbs]
    span = Span(None, threading.current_thread() if scope == "task" else None)
    puts = [
        Put(spot, choose.choice([verb for verb in spot.verbs if scope == "process" or verb in CALLS]), place, span)
        for place, spot in enumerate(chosen)
    ]
    span.session = session = hookpatch.active(*(put.spot.patch(put) for put in puts), scope=scope)
    for put in puts:
        put.spot.puts.append(put)
    span.opening = _now()
    try:
        session.open()
    except errors.HookpatchError:
        span.closed = _now()
        if not any("remove" in spot.verbs for spot in chosen):
            raise
        return None
    finally:
        span.number, span.session = session._number, None
    span.opened = _now()
    return Opened(session, span)


def _patch_at_random(patched: Sequence[Spot], called: Sequence[Spot], pool: list[Opened], choose: Random) -> None:
    """Open and close sessions, some of them from other threads, drop one here and there, and look what holds."""
    mine: list[Opened] = []
    for _ in range(STEPS):
        what = choose.random()
        if what < 0.4 and len(mine) < 3:
            opened = _open(patched, choose)
            mine += [opened] if opened is not None else []
        elif what < 0.7 and mine:
            mine.pop(choose.randrange(len(mine))).close()
        elif what < 0.8 and mine:
            pool.append(mine.pop())
            with suppress(IndexError):
                mine.append(pool.pop(0))
        elif what < 0.81 and mine:
            mine.pop().drop()
        elif called:
            _look(choose.choice(called))
    for opened in mine:
        opened.close()


def _call_at_random(called: Sequence[Spot], choose: Random, stop: Event) -> None:
    while not stop.is_set():
        _look(choose.choice(called))


@contextmanager
def _round(seed: int) -> Iterator[None]:
    """Have threads take turns as often as the interpreter can, or less often; an error tells the seed."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(10 ** -Random(seed).randint(3, 6))
    try:
        yield
    except BaseException as error:
        error.add_note(f"STRESS_SEED={seed} begins with this round")
        raise
    finally:
        sys.setswitchinterval(before)


def _contend(seed: int, workers: Sequence[Callable[[Random], None]], others: Sequence[Callable[..., None]]) -> None:
    """Run workers to their end, and others, which are given an event, until the last worker has ended."""
    stop, ended = Event(), itertools.count(1)

    def work(worker: Callable[[Random], None], choose: Random) -> None:
        try:
            worker(choose)
        finally:
            if next(ended) == len(workers):
                stop.set()

    _together(
        *(partial(work, worker, Random(f"{seed} {number}")) for number, worker in enumerate(workers)),
        *(partial(other, Random(f"{seed} {-number}"), stop) for number, other in enumerate(others, 1)),
    )


def _nothing_left(pool: list[Opened], spots: Sequence[Spot]) -> None:
    """Close what is still open; see that no site, no watch and no finder is left; forget the round."""
    for opened in pool:
        opened.close()
    gc.collect()
    assert patched() == []
    assert _imports.watched() == []
    assert hookpatch.report().patches == ()
    for spot in spots:
        spot.puts.clear()


def _held_by(owner: Any) -> list[tuple[Any, int]]:
    """Return what an owner holds, in order."""
    items = enumerate(owner) if isinstance(owner, list) else (owner if isinstance(owner, dict) else vars(owner)).items()
    # Python keeps there that it has warned: a session may be collected while a function of the module runs.
    return [(key, id(value)) for key, value in items if key != "__warningregistry__"]


NEVER: Final = Spot("never_imported.at_all:x", ("replace", "wrap"), lambda: None)


@pytest.mark.filterwarnings("ignore::hookpatch.errors.PatchFailedWarning")  # what a patch lay over may be removed
@pytest.mark.filterwarnings("ignore:<Session of .* was dropped unclosed:ResourceWarning")
@pytest.mark.parametrize("library", [pytest.param("", id="alone"), pytest.param("torch", marks=pytest.mark.model)])
def test_sessions_on_shared_targets_leave_nothing(make_module: MakeModule, library: str) -> None:
    """Eight threads patch the same targets while others call them: each call gives what some set of patches gives.

    At the end every owner holds what it held, in the same order, and no site, no watch and no finder is left.
    """
    if library:
        importlib.import_module(library)  # it hears of every change
    m: Any = make_module("shared", SHARED)
    spread, entered, left = m.spread, itertools.count(), itertools.count()

    @contextmanager
    def entering(module: ModuleType) -> Iterator[None]:
        next(entered)
        yield
        next(left)

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
    neighbours = [Spot(f"shared:{held}['last']", (), getattr(m, held)["last"]) for held in ("table", "ordered")]
    patched = [*called, NEVER, Spot("shared", ("enter",), entering)]
    owners = [m, m.Base, m.Child, m.child, spread, m.table, m.ordered, m.steps, unicodedata]
    before, code = [_held_by(owner) for owner in owners], (spread.__code__, spread.__kwdefaults__, spread.__defaults__)
    removed = {"plain", "own", "static"}  # attributes: they come back, but not to their places
    seed, end = SEED, time.monotonic() + (SECONDS / 6 if library else SECONDS)
    while time.monotonic() < end:
        with _round(seed):
            pool: list[Opened] = []
            _contend(
                seed,
                [partial(_patch_at_random, patched, called, pool)] * PATCHERS,
                [partial(_call_at_random, [*called, *neighbours])] * CALLERS,
            )
            _nothing_left(pool, patched)
            for owner, held in zip(owners, before, strict=True):
                now = _held_by(owner)
                assert [item for item in now if item[0] not in removed] == [i for i in held if i[0] not in removed]
                assert sorted(now) == sorted(held)
            assert (spread.__code__, spread.__kwdefaults__, spread.__defaults__) == code
            assert next(entered) == next(left)
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

    with ExitStack() as stack, _round(1):
        for _ in range(200):
            stack.enter_context(hookpatch.active(*patches))
        _together(look, *[come_and_go] * 4)


# --- modules that are imported, again and again

HOOKED: Final = ("hooked0", "hooked1", "hooked2")
BODY: Final = """
def run(mark=None):
    return "run", mark
original = run
"""


def _import_at_random(spot: Spot, seen: list[ModuleType], choose: Random, stop: Event) -> None:
    """Import a module anew that no other thread imports: what was open before holds in it afterwards."""
    name = spot.address.partition(":")[0]
    while not stop.is_set():
        began = _now()
        sys.modules.pop(name, None)
        module = importlib.import_module(name)
        seen.append(module)
        result = module.run()
        problem = _explain(spot, began, _now(), result)
        assert problem is None, f"{name} gave {result}: {problem}"


def _import_the_unhooked(choose: Random, stop: Event) -> None:
    while not stop.is_set():
        sys.modules.pop("unhooked", None)
        importlib.import_module("unhooked")


@pytest.mark.filterwarnings("ignore:<Session of .* was dropped unclosed:ResourceWarning")
def test_imports_while_sessions_come_and_go(write_module: WriteModule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are imported anew while four threads open and close sessions on them: nothing is missed, nothing left.

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
        with _round(seed):
            pool: list[Opened] = []
            seen: list[ModuleType] = []
            _contend(
                seed,
                [partial(_patch_at_random, [*spots, NEVER], (), pool)] * 4,
                [*(partial(_import_at_random, spot, seen) for spot in spots), _import_the_unhooked],
            )
            _nothing_left(pool, [*spots, NEVER])
            assert sys.meta_path == finders
            for module in seen:
                assert module.run is module.original
                spec = module.__spec__
                assert spec is not None
                assert (type(spec), type(spec.loader), type(module.__loader__)) == (
                    *(ModuleSpec, SourceFileLoader),
                    SourceFileLoader,
                )
        seed += 1


# --- a session that ends, or a module that is reloaded, while a patch is being applied by another thread


class Gate:
    """A place in foreign code where a thread waits until the test lets it go on."""

    def __init__(self) -> None:
        self.reached, self.open = Event(), Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self.open.wait(PATIENCE)


def _in_thread(body: Callable[[], object], gate: Gate) -> Thread:
    """Start a thread and return it as soon as it waits at the gate."""
    thread = Thread(target=body, daemon=True)
    thread.start()
    assert gate.reached.wait(PATIENCE)
    return thread


def test_session_ends_while_another_thread_derives_for_it(write_module: WriteModule) -> None:
    """What a factory makes for a session that has ended meanwhile is never put into the module that was imported."""
    write_module("late", "def run():\n    return 'original'\noriginal = run\n")
    gate = Gate()

    def factory(original: Any) -> Any:
        gate()
        return lambda: "derived"

    session = hookpatch.active(hookpatch.derive("late:run", factory)).open()
    thread = _in_thread(lambda: importlib.import_module("late"), gate)
    session.close()
    gate.open.set()
    thread.join(PATIENCE)
    late = sys.modules["late"]
    assert late.run is late.original
    assert patched() == []
    assert "applied" not in [patch.state for patch in session.report()]


def test_session_ends_while_another_thread_enters_for_it(write_module: WriteModule) -> None:
    """A context manager that is entered for a session that has ended meanwhile is left again."""
    write_module("late", "")
    gate, left = Gate(), Event()

    @contextmanager
    def entering(module: ModuleType) -> Iterator[None]:
        gate()
        yield
        left.set()

    session = hookpatch.active(hookpatch.enter("late", entering)).open()
    thread = _in_thread(lambda: importlib.import_module("late"), gate)
    session.close()
    gate.open.set()
    thread.join(PATIENCE)
    assert left.is_set()
    assert "applied" not in [patch.state for patch in session.report()]


def test_module_reloaded_while_another_thread_derives(make_module: MakeModule) -> None:
    """A factory that runs while its module is reloaded is asked again for the new original, and one layer is put."""
    m = make_module("twice", "def run():\n    return 'original'\noriginal = run\n")
    gate, asked = Gate(), []

    def factory(original: Any) -> Any:
        asked.append(original)
        gate()
        return lambda: f"derived({original()})"

    session = hookpatch.active(hookpatch.derive("twice:run", factory))
    thread = _in_thread(session.open, gate)
    first = m.run
    reloading = Thread(target=importlib.reload, args=(m,), daemon=True)
    reloading.start()
    reloading.join(0.2)  # it may wait for the factory, or leave its work to the other thread
    gate.open.set()
    thread.join(PATIENCE)
    reloading.join(PATIENCE)
    assert m.original is not first
    assert m.run() == "derived(original)"
    assert asked[-1] is m.original
    session.close()
    assert m.run is m.original
    assert [patch.state for patch in session.report()] == ["restored"]


def test_session_opened_while_another_thread_reloads_its_module(write_module: WriteModule) -> None:
    """It does not patch what is half executed: it holds in what the reload has made, when that has ended."""
    write_module(
        "slow",
        """
        import builtins
        def run(): return "original"
        if hasattr(builtins, "gate_of_a_test"): builtins.gate_of_a_test()
        def run(): return "original"
        original = run
        """,
    )
    slow: Any = importlib.import_module("slow")
    gate = Gate()
    with pytest.MonkeyPatch.context() as patch, hookpatch.active(hookpatch.wrap("slow:run", _around)):
        patch.setattr("builtins.gate_of_a_test", gate, raising=False)
        thread = _in_thread(lambda: importlib.reload(slow), gate)
        with hookpatch.active(hookpatch.wrap("slow:run", _around)) as session:
            gate.open.set()
            thread.join(PATIENCE)
            assert slow.run() == "patched(patched(original))"
            assert [one.state for one in session.report()] == ["applied"]
        assert slow.run() == "patched(original)"
    assert slow.run is slow.original


@pytest.mark.filterwarnings("ignore:<Session of .* was dropped unclosed:ResourceWarning")
@pytest.mark.parametrize("name", ["run", "other"])
def test_session_collected_in_the_midst_of_a_change(name: str) -> None:
    """A session that the collector closes while another one sets a slot is closed all the same, and exactly."""

    class Kind(type):
        def __setattr__(cls, name: str, value: object) -> None:
            gc.collect()
            super().__setattr__(name, value)

    class Owner(metaclass=Kind):
        def run(self) -> str:
            return "original"

        def other(self) -> str:
            return "other"

    before = dict(vars(Owner))
    dropped: list[Any] = [hookpatch.active(hookpatch.wrap(Target.attribute(Owner, name), _around)).open()]
    dropped.append(dropped)
    del dropped
    with hookpatch.active(hookpatch.derive(Target.attribute(Owner, "run"), partial(_derived, None))):
        assert Owner().run() == (None, "original")
        assert Owner().other() == "other"
    assert dict(vars(Owner)) == before


# The files that a change of a slot, and of what blocks hand on, runs through.
OF_A_SLOT: Final = ("_site", "_sites", "_outcome", "_hold", "_leftover", "_turn", "_shared", "_children", "_programs")
OF_THE_ENVIRONMENT: Final = ("_children", "_programs", "_shared", "_imports", "_environment")


def _at_instruction(
    number: int, body: Callable[[], object], act: Callable[[], None], names: tuple[str, ...] = OF_A_SLOT
) -> set[str]:
    """Call ``body``, and ``act`` in its midst: before an instruction or line, by its number, of the files named.

    Returns:
        Those of the files of which something ran.
    """
    folder, count = Path(_imports.__file__).parent, itertools.count(1)
    files = {str(folder / f"{name}.py"): name for name in names}
    met: set[str] = set()

    def trace(frame: Any, event: str, _: object) -> Any:
        if event == "call":
            frame.f_trace_opcodes = True
            if frame.f_code.co_filename not in files:
                return None
            met.add(files[frame.f_code.co_filename])
        if event in ("line", "opcode") and next(count) == number:
            act()
        return trace

    sys.settrace(trace)
    try:
        body()
    finally:
        sys.settrace(None)
    return met


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger or a coverage tool traces already")
@pytest.mark.filterwarnings("ignore:<Session of .* was dropped unclosed:ResourceWarning")
@pytest.mark.parametrize("ending", ["open", "close"])
@pytest.mark.parametrize(
    ("dropped", "kept"), [("wrap", "wrap"), ("wrap", "replace"), ("replace", "wrap"), ("derive", "derive")]
)
def test_session_dropped_before_any_instruction(make_module: MakeModule, dropped: str, kept: str, ending: str) -> None:
    """Wherever in a change of a slot a finalizer ends another session on it, both are taken back, and nothing is left.

    A finalizer runs in the thread that makes the change, between any two instructions: no lock keeps it out.
    """
    m = make_module("dropped_upon", BODY)
    spot = Spot("dropped_upon:run", STAYS, lambda: m.run())
    met, settings = set(), dict(os.environ)
    for number in itertools.count(1, 7):
        first, second = (Put(spot, verb, 0, Span(None, None)) for verb in (dropped, kept))
        held = [hookpatch.active(spot.patch(first)).open()]
        session = hookpatch.active(spot.patch(second))
        if ending == "open":
            met |= _at_instruction(number, session.open, held.clear)
            was_reached = not held
            held.clear()
            assert m.run()[0] is second, number
            session.close()
        else:
            session.open()
            met |= _at_instruction(number, session.close, held.clear)
            was_reached = not held
            held.clear()
        assert m.run is m.original, number
        assert (patched(), dict(os.environ)) == ([], settings), number
        if not was_reached:
            break
    assert number > 100
    assert met == set(OF_A_SLOT)


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger or a coverage tool traces already")
@pytest.mark.filterwarnings("ignore:<Session of .* was dropped unclosed:ResourceWarning")
@pytest.mark.parametrize("ending", ["open", "close"])
@pytest.mark.parametrize("others", [[], ["first"]])
def test_block_dropped_while_another_is_handed_on(make_module: MakeModule, others: list[str], ending: str) -> None:
    """Wherever a finalizer ends it: programs inherit those that are open, in their order, and at the end none."""
    names = ["first", "dropped", "kept"]
    make_module("dropped_upon", "first = dropped = kept = 0")
    patches = {name: hookpatch.replace(f"dropped_upon:{name}", 1) for name in names}
    settings = dict(os.environ)
    for number in itertools.count(1):
        stay = [hookpatch.active(patches[name]).open() for name in others]
        held = [hookpatch.active(patches["dropped"]).open()]
        session = hookpatch.active(patches["kept"])
        if ending == "open":
            met = _at_instruction(number, session.open, held.clear, OF_THE_ENVIRONMENT)
        else:
            session.open()
            assert _inherited() == [*others, "dropped", "kept"]
            met = _at_instruction(number, session.close, held.clear, OF_THE_ENVIRONMENT)
        was_reached = not held
        held.clear()
        assert _inherited() == [*others, "kept"][: None if ending == "open" else -1], number
        session.close()
        for one in stay:
            assert _inherited() == others
            one.close()
        assert dict(os.environ) == settings, number
        if not was_reached:
            break
    assert met == set(OF_THE_ENVIRONMENT)
    assert number > (300 if sys.version_info < (3, 13) else 50)  # 3.13 tells of fewer: 84 for the shortest of these


def _inherited() -> list[str]:
    """Return what programs that are started now inherit: the names that are patched."""
    found = {name: text for name, text in os.environ.items() if name.startswith("HOOKPATCH_INHERIT")}
    texts = [found[name] for name in sorted(found, key=lambda name: (len(name), name))]
    return [item["of"].partition(":")[2] for text in texts for block in json.loads(text) for item in block["what"]]


# --- imports at once


def test_threads_that_import_hooked_modules_at_once_do_not_deadlock() -> None:
    """Five threads import a hooked package and its hooked submodules at once, fifty times, and all are patched.

    The same with wrapt's finder deadlocks each time: python tests/benchmarks/imports_at_once.py
    """
    script = Path(__file__).with_name("benchmarks") / "imports_at_once.py"
    done = subprocess.run([sys.executable, script, "hookpatch", "50"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("50 ended\n", "")


# --- fork

FORKING: Final = """
    import faulthandler, importlib, itertools, os, random, signal, sys, threading, traceback
    import hookpatch, hookpatch._proxy
    from hookpatch import Target
    faulthandler.register(signal.SIGALRM, chain=True)  # the stacks of all threads, and then the end
    signal.alarm({limit})
    sys.path.insert(0, sys.argv[1])
    sys.dont_write_bytecode = True
    import shared

    def around(wrapped, instance, args, kwargs):
        return "patched", wrapped(*args, **kwargs)

    def in_child(body):
        # Run a function in a forked child; return its exit status, less than 0 for one that hangs.
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        try:
            signal.alarm({patience})
            body()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
"""


def _run_forking(folder: Path, code: str) -> str:
    """Run a program that forks in a process of its own, and return what it printed."""
    program = (
        inspect.cleandoc(FORKING.format(limit=int(6 * PATIENCE), patience=int(PATIENCE)))
        + "\n"
        + inspect.cleandoc(code)
    )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == "", done.stderr
    return done.stdout


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@forks
def test_child_forked_while_other_threads_patch_can_patch(write_module: WriteModule, folder: Path) -> None:
    """A child opens and closes sessions, on targets that other threads patched at that moment too, and imports."""
    write_module("shared", SHARED)
    for number in range(41):
        write_module(f"fresh{number}", "def run():\n    return 'original'\noriginal = run\n")
    code = """
        sys.setswitchinterval(1e-5)
        stop = threading.Event()
        targets = ["shared:plain", "shared:Base.own", "shared:Child.inherited", "shared:table['a']", "shared:steps[1]"]

        def come_and_go(seed):
            choose = random.Random(seed)
            while not stop.is_set():
                with hookpatch.active(
                    hookpatch.wrap(choose.choice(targets), around),
                    hookpatch.derive(choose.choice(targets), lambda below: lambda *a, **k: ("derived", below(*a, **k))),
                    hookpatch.wrap("shared:spread", around, reach="everywhere"),
                    hookpatch.replace(f"never_imported{seed}:x", 1),
                ):
                    pass

        def body():
            # What other threads had open stays open: they are not here to close it.
            with hookpatch.active(*(hookpatch.wrap(target, around) for target in [*targets, f"fresh{number}:run"])):
                fresh = importlib.import_module(f"fresh{number}")
                assert fresh.run() == ("patched", "original"), fresh.run()
                child = shared.Child()
                for call in (shared.plain, child.own, child.inherited, shared.table["a"], shared.steps[1]):
                    assert call()[0] == "patched", call()
            assert fresh.run is fresh.original
            with hookpatch.active(hookpatch.wrap("shared:spread", around, reach="everywhere")):
                assert shared.spread()[0] == "patched"
            hookpatch.report()

        number = 0
        body()  # once here: a module that another thread is importing hangs in a child, with us and without
        threads = [threading.Thread(target=come_and_go, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        ended = []
        for number in range(1, 41):
            ended.append(in_child(body))
        stop.set()
        for thread in threads:
            thread.join()
        print(ended.count(0), set(ended))
    """
    assert _run_forking(folder, code) == "40 {0}\n"


@forks
@pytest.mark.parametrize(
    ("patch", "call"),
    [
        ('hookpatch.wrap("shared:plain", around)', "shared.plain()"),
        ('hookpatch.wrap(Target.attribute(Owner, "other"), around)', "Owner().other()"),
        ('hookpatch.wrap(Target.attribute(Owner, "run"), around)', "Owner().run()"),
    ],
)
def test_child_forked_while_a_setter_runs_can_patch(
    patch: str, call: str, write_module: WriteModule, folder: Path
) -> None:
    """Another thread is in the midst of a change when the child is made: it can patch there and elsewhere."""
    write_module("shared", SHARED)
    code = f"""
        reached, go_on = threading.Event(), threading.Event()

        class Kind(type):
            def __setattr__(cls, name, value):
                if threading.current_thread() is not threading.main_thread():
                    reached.set()
                    go_on.wait({PATIENCE})
                super().__setattr__(name, value)

        class Owner(metaclass=Kind):
            def run(self):
                return "original"

            def other(self):
                return "original"

        def change():
            with hookpatch.active(hookpatch.wrap(Target.attribute(Owner, "run"), around)):
                assert Owner().run() == ("patched", "original")

        def body():
            before = dict(vars(Owner))
            with hookpatch.active({patch}):
                assert {call}[0] == "patched"
            assert dict(vars(Owner)) == before

        original = Owner.run
        thread = threading.Thread(target=change)
        thread.start()
        reached.wait()
        print(in_child(body))
        go_on.set()
        thread.join()
        assert Owner.run is original
    """
    assert _run_forking(folder, code) == "0\n"
