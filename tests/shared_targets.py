"""Threads that patch and call shared targets at random, with a check of the result of each call."""

from __future__ import annotations

import faulthandler
import gc
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from random import Random
from threading import Event, Thread
from typing import Any, Final

import pytest
from layers import hides
from watching import watched

import hookpatch
import hookpatch._session.report  # pytest rewrites the file: not in a thread, which 3.11 may not do
from hookpatch import Target, errors
from hookpatch._engine.site.sites import patched

# `make test-rest` asks for a minute. A failure names the seed of its round; STRESS_SEED makes a round the first.
SECONDS: Final = float(os.environ.get("STRESS_SECONDS", "5"))

SEED: Final = int(os.environ.get("STRESS_SEED", "1"))

PATCHERS, CALLERS, STEPS = 8, 3, 60

PATIENCE: Final = float(os.environ.get("PATIENCE", "20"))


def together(*bodies: Callable[[], object], within: float = 6 * PATIENCE) -> None:
    """Run functions in threads of their own until all have ended; raise the first error of all threads."""
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


# The result of a call names the patches on its way. Each wrapper, and each derived or replaced function, pairs its
# `Layer` with the result from beneath. An original returns its name and the mark from an inject.
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


def tick() -> int:
    return next(_clock)


@dataclass(eq=False)
class Span:
    """The times at which a session may hold and must hold, by the clock; and the number of the session."""

    session: hookpatch.Session | None
    thread: Thread | None  # of a session with scope="task"
    number: int = -1
    opening: float = inf
    opened: float = inf
    closing: float = inf
    closed: float = inf


@dataclass(eq=False)
class Layer:
    """A patch of a session at a spot."""

    spot: Spot
    verb: str
    place: int
    span: Span

    @property
    def rank(self) -> tuple[int, int]:
        session = self.span.session
        return (self.span.number if session is None else session._number), -self.place

    def may_hold(self, began: float, ended: float) -> bool:
        """Return True if the patch may have held at some moment of a call."""
        is_for_thread = self.span.thread in (None, threading.current_thread())
        return is_for_thread and self.span.opening < ended and self.span.closed > began

    def must_hold(self, began: float, ended: float) -> bool:
        """Return True if the patch held from the beginning of a call to the end."""
        is_for_thread = self.span.thread in (None, threading.current_thread())
        return is_for_thread and self.span.opened < began and self.span.closing > ended

    def __repr__(self) -> str:
        scope = "task" if self.span.thread else "process"
        return f"<{self.verb} {self.rank} at {self.spot.address}, {self.spot.reach}, {scope}>"


@dataclass(eq=False)
class Spot:
    """A shared target, a way to call the target, and every patch of the target in the current round.

    Attributes:
        inner: the spot with patches that show inside the patches of the spot described.
        kind: the function that makes a value fit for the slot, such as staticmethod.
    """

    address: str
    verbs: tuple[str, ...]
    call: Callable[[], Any]
    inner: Spot | None = None
    kind: Callable[[Any], Any] = lambda function: function
    reach: Any = "slot"
    layers: list[Layer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.target = Target(self.address) if ":" in self.address else self.address

    def patch(self, layer: Layer) -> hookpatch.Patch:
        """Return a patch by the verb of a Layer: the patch shows the Layer in the result of a call."""
        if layer.verb == "wrap":
            return hookpatch.wrap(self.target, lambda w, i, a, k: (layer, w(*a, **k)), reach=self.reach)
        if layer.verb == "inject":
            return hookpatch.inject(self.target, mark=layer, reach=self.reach)
        if layer.verb == "replace":
            return hookpatch.replace(self.target, self.kind(lambda *args, mark=None: (layer, mark)))
        if layer.verb == "derive":
            return hookpatch.derive(self.target, partial(derived_of, layer))
        if layer.verb == "enter":
            return hookpatch.enter(self.address, self.call)
        return hookpatch.remove(self.target)


def derived_of(layer: Layer | None, below: Any) -> Any:
    if isinstance(below, (staticmethod, classmethod)):
        return type(below)(derived_of(layer, below.__func__))
    return lambda *args, **kwargs: (layer, below(*args, **kwargs))


def explain(spot: Spot, began: float, ended: float, result: Any) -> str | None:
    """Return the reason why no set of open patches can give the result of a call; None if some set can."""
    if result == ABSENT:
        above = [layer.rank for layer in spot.layers if layer.verb == "replace" and layer.must_hold(began, ended)]
        removed = [layer.rank for layer in spot.layers if layer.verb == "remove" and layer.may_hold(began, ended)]
        return None if removed and max(removed) > max(above, default=(-1, 0)) else "nothing was removed"
    layers: list[Layer] = []
    while isinstance(result, tuple) and isinstance(result[0], Layer):
        layers.append(result[0])
        result = result[1]
        if layers[-1].verb == "replace":
            break
    replaced = bool(layers) and layers[-1].verb == "replace"
    mark: Layer | None = result if replaced else result[1] if isinstance(result, tuple) else None
    if late := [layer for layer in (*layers, mark) if layer is not None and not layer.may_hold(began, ended)]:
        return f"{late} did not hold"
    part: Spot | None = spot
    while part is not None:
        shown = list(itertools.takewhile(lambda layer, part=part: layer.spot is part, layers))
        del layers[: len(shown)]
        ends = bool(shown) and shown[-1].verb == "replace"
        floor = shown[-1].rank if ends else (-1, 0)
        holding = [layer for layer in list(part.layers) if layer.must_hold(began, ended) and layer.rank > floor]
        if [layer.rank for layer in shown] != sorted((layer.rank for layer in shown), reverse=True):
            return f"{shown} are not in order"
        if missing := [layer for layer in holding if layer.verb != "inject" and layer not in shown]:
            return f"{missing} held and did not show"
        # The outermost inject gives the argument. A derived function makes a call of its own to the patches beneath.
        derives = [layer.rank for layer in shown if layer.verb == "derive"]
        below = [layer for layer in holding if layer.verb == "inject"]
        if mark is not None and mark.spot is part:
            if mark.rank <= floor:
                return f"{mark} lies under what replaced it"
            lowest = max((rank for rank in derives if rank < mark.rank), default=floor)
            below = [layer for layer in below if layer.rank > mark.rank and not _lies_over(layer, mark, derives)]
            below += [layer for layer in holding if layer.verb == "inject" and layer.rank < lowest]
            mark = None
        elif mark is not None:
            below = []
        if below:
            return f"{below} held and did not show"
        part = None if ends else part.inner
    return f"{[*layers, mark]} do not belong there" if layers or mark is not None else None


def _lies_over(outer: Layer, inner: Layer, derives: Sequence[Any]) -> bool:
    """Return True if a derive lies between two patches."""
    return any(inner.rank < rank < outer.rank for rank in derives)


def look_at(spot: Spot) -> None:
    """Call the function at a spot, and check that some set of open patches can give the result."""
    began, cause = tick(), None
    try:
        result = spot.call()
    except (AttributeError, KeyError) as error:
        result, cause = ABSENT, error
    problem = explain(spot, began, tick(), result)
    if problem is not None:
        raise AssertionError(f"{spot.address} gave {result}: {problem}") from cause


@dataclass(eq=False)
class Opened:
    """An open session."""

    session: hookpatch.Session | None
    span: Span

    def close(self) -> None:
        assert self.session is not None
        self.span.closing = tick()
        self.session.close()
        self.span.closed = tick()
        states = {patch.state for patch in self.session.report()}
        assert states <= {"restored", "unused", "failed"}, str(self.session.report())

    def drop(self) -> None:
        """Leave the session to the garbage collector."""
        self.span.closing = tick()
        circle: list[Any] = [self.session]
        circle.append(circle)
        self.session = None


def open_at_random(spots: Sequence[Spot], choose: Random) -> Opened | None:
    """Open a session of some patches; return None if refused, because another thread has removed a target."""
    scope: Any = "task" if choose.random() < 0.2 else "process"
    chosen = [choose.choice(spots) for _ in range(choose.randint(1, 4))]
    if scope == "task":
        chosen = [spot for spot in chosen if "wrap" in spot.verbs]
    span = Span(None, threading.current_thread() if scope == "task" else None)
    layers = [
        Layer(spot, choose.choice([verb for verb in spot.verbs if scope == "process" or verb in CALLS]), place, span)
        for place, spot in enumerate(chosen)
    ]
    layers = [
        layer
        for index, layer in enumerate(layers)
        if not any(outer.spot is layer.spot and hides(outer.verb, layer.verb) for outer in layers[:index])
    ]
    span.session = session = hookpatch.active(*(layer.spot.patch(layer) for layer in layers), scope=scope)
    for layer in layers:
        layer.spot.layers.append(layer)
    span.opening = tick()
    try:
        session.open()
    except errors.HookpatchError:
        span.closed = tick()
        if not any("remove" in spot.verbs for spot in chosen):
            raise
        return None
    finally:
        span.number, span.session = session._number, None
    span.opened = tick()
    return Opened(session, span)


def patch_at_random(
    patched: Sequence[Spot], called: Sequence[Spot], pool: list[Opened], choose: Random, steps: int = STEPS
) -> None:
    """Open and close sessions, some from other threads; now and then drop a session, or check a call."""
    mine: list[Opened] = []
    for _ in range(steps):
        chance = choose.random()
        if chance < 0.4 and len(mine) < 3:
            opened = open_at_random(patched, choose)
            mine += [opened] if opened is not None else []
        elif chance < 0.7 and mine:
            mine.pop(choose.randrange(len(mine))).close()
        elif chance < 0.8 and mine:
            pool.append(mine.pop())
            with suppress(IndexError):
                mine.append(pool.pop(0))
        elif chance < 0.81 and mine:
            mine.pop().drop()
        elif called:
            look_at(choose.choice(called))
    for opened in mine:
        opened.close()


def call_at_random(called: Sequence[Spot], choose: Random, stop: Event) -> None:
    while not stop.is_set():
        look_at(choose.choice(called))


@contextmanager
def switching_often(seed: int) -> Iterator[None]:
    """Set the switch interval of threads by a seed; an error names the seed."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(10 ** -Random(seed).randint(3, 6))
    try:
        yield
    except BaseException as error:
        error.add_note(f"STRESS_SEED={seed} begins with this round")
        raise
    finally:
        sys.setswitchinterval(before)


def contend(seed: int, workers: Sequence[Callable[[Random], None]], companions: Sequence[Callable[..., None]]) -> None:
    """Run workers to their end, and others, each with an event that is set when the last worker has ended."""
    stop, ended = Event(), itertools.count(1)

    def work(worker: Callable[[Random], None], choose: Random) -> None:
        try:
            worker(choose)
        finally:
            if next(ended) == len(workers):
                stop.set()

    together(
        *(partial(work, worker, Random(f"{seed} {number}")) for number, worker in enumerate(workers)),
        *(partial(companion, Random(f"{seed} {-number}"), stop) for number, companion in enumerate(companions, 1)),
    )


def nothing_left(pool: list[Opened], spots: Sequence[Spot]) -> None:
    """Close the open sessions; check that no site, no watch and no finder is left; forget the round."""
    for opened in pool:
        opened.close()
    gc.collect()
    assert patched() == []
    assert watched() == []
    assert hookpatch.report().patches == ()
    for spot in spots:
        spot.layers.clear()


def contents_of(owner: Any) -> list[tuple[Any, int]]:
    """Return the keys and values of an owner, in order."""
    items = enumerate(owner) if isinstance(owner, list) else (owner if isinstance(owner, dict) else vars(owner)).items()
    # Python notes its warnings in this key: a session may be collected while a function of the module runs.
    return [(key, id(value)) for key, value in items if key != "__warningregistry__"]


NEVER: Final = Spot("never_imported.at_all:x", ("replace", "wrap"), lambda: None)

BODY: Final = """
def run(mark=None):
    return "run", mark
original = run
"""
