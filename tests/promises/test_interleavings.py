"""Interleavings: a session ends, or a module is reloaded, while another thread applies a patch."""

from __future__ import annotations

import gc
import importlib
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from types import ModuleType
from typing import Any, Final, TypeAlias

import pytest
from shared_targets import BODY, CALLS, PATIENCE, STAYS, Layer, Opened, Span, Spot, derived_of, look_at, tick

import hookpatch
from hookpatch import Target
from hookpatch._bootstrap import imports
from hookpatch._engine.site.sites import patched

pytestmark = pytest.mark.ends

MakeModule: TypeAlias = Callable[[str, str], ModuleType]

WriteModule: TypeAlias = Callable[[str, str], Path]


def _around(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return f"patched({wrapped(*args, **kwargs)})"


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
    """A factory may finish after the session has ended.

    The factory's result is never written into the imported module.
    """
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
    """A context manager entered for a session that has ended meanwhile is exited again."""
    write_module("late", "")
    gate, exited = Gate(), Event()

    @contextmanager
    def entering(module: ModuleType) -> Iterator[None]:
        gate()
        yield
        exited.set()

    session = hookpatch.active(hookpatch.enter("late", entering)).open()
    thread = _in_thread(lambda: importlib.import_module("late"), gate)
    session.close()
    gate.open.set()
    thread.join(PATIENCE)
    assert exited.is_set()
    assert "applied" not in [patch.state for patch in session.report()]


def test_module_reloaded_while_another_thread_derives(make_module: MakeModule) -> None:
    """A factory that runs during a reload is called again for the new original. A single layer is applied."""
    m = make_module("twice", "def run():\n    return 'original'\noriginal = run\n")
    gate, originals = Gate(), []

    def factory(original: Any) -> Any:
        originals.append(original)
        gate()
        return lambda: f"derived({original()})"

    session = hookpatch.active(hookpatch.derive("twice:run", factory))
    thread = _in_thread(session.open, gate)
    first = m.run
    reloading = Thread(target=importlib.reload, args=(m,), daemon=True)
    reloading.start()
    reloading.join(0.2)  # the reload may wait for the factory, or leave the patching to the other thread
    gate.open.set()
    thread.join(PATIENCE)
    reloading.join(PATIENCE)
    assert m.original is not first
    assert m.run() == "derived(original)"
    assert originals[-1] is m.original
    session.close()
    assert m.run is m.original
    assert [patch.state for patch in session.report()] == ["restored"]


def test_session_opened_while_another_thread_reloads_its_module(write_module: WriteModule) -> None:
    """A session does not patch a half-executed module.

    The patch applies to the reloaded functions when the reload ends.
    """
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
            assert [row.state for row in session.report()] == ["applied"]
        assert slow.run() == "patched(original)"
    assert slow.run is slow.original


@pytest.mark.filterwarnings("ignore:<Session of .* was dropped unclosed:ResourceWarning")
@pytest.mark.parametrize("name", ["run", "other"])
def test_session_collected_in_the_midst_of_a_change(name: str) -> None:
    """A session that the collector closes while another session sets a slot is still closed completely."""

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
    with hookpatch.active(hookpatch.derive(Target.attribute(Owner, "run"), partial(derived_of, None))):
        assert Owner().run() == (None, "original")
        assert Owner().other() == "other"
    assert dict(vars(Owner)) == before


# The files of hookpatch that run when a slot changes, or when the patches for child processes change.
OF_A_SLOT: Final = (
    *(f"_engine/site/{name}" for name in ("site", "sites", "recompute", "slot_state", "late_restore", "turn_lock")),
    *("_session/own_patches", "_processes/children", "_processes/programs"),
)

OF_THE_ENVIRONMENT: Final = (
    *("_processes/children", "_processes/programs", "_session/own_patches"),
    *("_bootstrap/imports", "_bootstrap/environment"),
)


def _at_instruction(
    number: int, body: Callable[[], object], act: Callable[[], bool | None], names: tuple[str, ...] = OF_A_SLOT
) -> set[str]:
    """Call ``body``, and call ``act`` before one numbered instruction or line of the named files.

    ``act`` is called before each further instruction, too, while the last call has returned True.

    Returns:
        The named files of which code ran.
    """
    folder, count = Path(imports.__file__).parents[1], itertools.count(1)
    files = {str(folder / f"{name}.py"): name for name in names}
    met: set[str] = set()
    acts = True

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal acts
        if event == "call":
            frame.f_trace_opcodes = True
            if frame.f_code.co_filename not in files:
                return None
            met.add(files[frame.f_code.co_filename])
        if event in ("line", "opcode") and next(count) >= number and acts:
            acts = bool(act())
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
    ("dropped", "surviving"), [("wrap", "wrap"), ("wrap", "replace"), ("replace", "wrap"), ("derive", "derive")]
)
def test_session_dropped_before_any_instruction(
    make_module: MakeModule, dropped: str, surviving: str, ending: str
) -> None:
    """Both sessions are restored if a finalizer ends one at any instruction of the other's change.

    A finalizer runs in the thread that makes the change, between any two instructions. No lock can prevent the
    finalizer.
    """
    m = make_module("dropped_upon", BODY)
    spot = Spot("dropped_upon:run", STAYS, lambda: m.run())
    met, settings = set(), dict(os.environ)
    for number in itertools.count(1, 7):
        first, second = (Layer(spot, verb, 0, Span(None, None)) for verb in (dropped, surviving))
        sessions = [hookpatch.active(spot.patch(first)).open()]
        session = hookpatch.active(spot.patch(second))
        if ending == "open":
            met |= _at_instruction(number, session.open, sessions.clear)
            was_reached = not sessions
            sessions.clear()
            assert m.run()[0] is second, number
            session.close()
        else:
            session.open()
            met |= _at_instruction(number, session.close, sessions.clear)
            was_reached = not sessions
            sessions.clear()
        assert m.run is m.original, number
        assert (patched(), dict(os.environ)) == ([], settings), number
        if not was_reached:
            break
    assert number > 100
    assert met == set(OF_A_SLOT)


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger or a coverage tool traces already")
@pytest.mark.filterwarnings("ignore:<Session of .* was dropped unclosed:ResourceWarning")
@pytest.mark.parametrize("ending", ["open", "close"])
@pytest.mark.parametrize("open_names", [[], ["first"]])
def test_block_dropped_while_another_is_handed_on(make_module: MakeModule, open_names: list[str], ending: str) -> None:
    """A finalizer may end a block at any instruction.

    Child processes inherit the open blocks in order, and at the end no block.
    """
    names = ["first", "dropped", "kept"]
    make_module("dropped_upon", "first = dropped = kept = 0")
    patches = {name: hookpatch.replace(f"dropped_upon:{name}", 1) for name in names}
    settings = dict(os.environ)
    for number in itertools.count(1):
        stay = [hookpatch.active(patches[name]).open() for name in open_names]
        sessions = [hookpatch.active(patches["dropped"]).open()]
        session = hookpatch.active(patches["kept"])
        if ending == "open":
            met = _at_instruction(number, session.open, sessions.clear, OF_THE_ENVIRONMENT)
        else:
            session.open()
            assert _inherited() == [*open_names, "dropped", "kept"]
            met = _at_instruction(number, session.close, sessions.clear, OF_THE_ENVIRONMENT)
        was_reached = not sessions
        sessions.clear()
        assert _inherited() == [*open_names, "kept"][: None if ending == "open" else -1], number
        session.close()
        for open_session in stay:
            assert _inherited() == open_names
            open_session.close()
        assert dict(os.environ) == settings, number
        if not was_reached:
            break
    assert met == set(OF_THE_ENVIRONMENT)
    assert number > (300 if sys.version_info < (3, 13) else 50)  # 3.13 traces fewer: 84 in the shortest case


def _inherited() -> list[str]:
    """Return the names of the patches that a newly started program inherits."""
    inherited = {name: text for name, text in os.environ.items() if name.startswith("HOOKPATCH_INHERIT")}
    texts = [inherited[name] for name in sorted(inherited, key=lambda name: (len(name), name))]
    return [
        item["of"].partition(":")[2] for text in texts for block in json.loads(text)["blocks"] for item in block["what"]
    ]


OF_CALLS: Final = (
    *(f"_engine/site/{name}" for name in ("site", "layer", "stand_in", "recompute")),
    "_engine/calls/trampoline",
)


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger or a coverage tool traces already")
@pytest.mark.parametrize("changing", CALLS)
@pytest.mark.parametrize("ending", CALLS)
def test_calls_while_one_session_opens_and_another_ends(make_module: MakeModule, ending: str, changing: str) -> None:
    """Calls at each instruction of a change show some set of patches, while another thread ends a patch beneath.

    The outermost ``inject`` was applied before the ``derive`` inside, when only patches of calls lay beneath.
    """
    m = make_module("met_inside", BODY)
    spot = Spot("met_inside:run", STAYS, lambda: m.run())
    for number in itertools.count(1, 61):
        gate, met = Gate(), Event()
        inside, ended = _open(spot, "inject"), _open(spot, ending)
        rest: list[Opened] = []
        deriving = _in_thread(lambda rest=rest, gate=gate: rest.append(_open(spot, "derive", gate)), gate)
        rest.append(_open(spot, "inject"))
        gate.open.set()
        deriving.join(PATIENCE)
        closing = Thread(target=ended.close, daemon=True)

        def act(closing: Thread = closing, met: Event = met) -> bool:
            if not met.is_set():
                met.set()
                closing.start()
                closing.join(0.002)  # the end may have to wait for the change
            look_at(spot)
            return True

        _at_instruction(number, lambda rest=rest: rest.append(_open(spot, changing)), act, OF_CALLS)
        (closing.join if met.is_set() else ended.close)()
        for opened in (*rest, inside):
            opened.close()
        assert m.run is m.original
        spot.layers.clear()
        if not met.is_set():
            break
    assert number > 1000


def _open(spot: Spot, verb: str, gate: Gate | None = None) -> Opened:
    """Open a session of one patch; a factory waits at the gate first."""
    span = Span(None, None)
    layer = Layer(spot, verb, 0, span)
    patch = spot.patch(layer)
    if gate is not None:

        def factory(below: Any) -> Any:
            gate()
            return derived_of(layer, below)

        patch = hookpatch.derive(spot.target, factory)
    span.session = session = hookpatch.active(patch)
    spot.layers.append(layer)
    span.opening = tick()
    session.open()
    span.opened, span.number, span.session = tick(), session._number, None
    return Opened(session, span)
