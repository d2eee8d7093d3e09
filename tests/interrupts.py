"""Interrupt a piece of work at each of its lines or instructions, in a fork each, and look for remains.

The interrupt is an exception raised by a signal handler, as of Ctrl-C or a time limit. A trace function raises the
signal, once at each point.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import isfunction
from pathlib import Path
from random import Random
from types import FrameType, ModuleType
from typing import Any, Final, Literal, TypeAlias

import hookpatch
from hookpatch._bootstrap import imports
from hookpatch._engine.site.sites import patched
from hookpatch._session.ledger import listeners
from hookpatch._session.session import open_sessions

Unit: TypeAlias = Literal["line", "opcode"]

NAME: Final = "interrupted_vendor"
SOURCE: Final = """
def run():
    return "original"

def other():
    return "other"

class Vendor:
    kind = "kind"
    def method(self):
        return "method"

one = Vendor()

class Sized:
    def __init__(self):
        self.size = 1
    def double(self):
        return 2 * self.size

thing = Sized()
limit = 1_000_000
table = {"first": run, "second": other, "third": run}
"""
_BUILTIN: Final = "errno"  # of Python: not in a file, whose finder takes a TimeoutError for an OSError
SPACE: Final = f"{NAME}_space"  # a namespace package
LATE: Final = f"{NAME}_late"  # a module that no finder is asked for
PLACES: Final[list[tuple[Any, str]]] = []  # owners and names of further attributes to be restored
_SOON: Final = 60  # events, about as many as clear up after an interrupt
PATIENCE: Final = 5.0  # seconds that a block in another thread may take


class Interrupted(TimeoutError):
    """Raised by the signal handler, and by the tracing function; an OSError, as that of most time limits."""


class FromThread(Exception):
    """Raised in the thread of the work by another thread."""


def _raise(number: int, frame: object) -> None:
    raise Interrupted


def _raise_once(number: int, frame: object) -> None:
    signal.signal(number, _raise)  # as time limits put the handler from before back
    raise Interrupted


class _Handler:
    def __call__(self, number: int, frame: object) -> None:
        raise Interrupted


_HANDLERS: Final[tuple[Callable[..., None], ...]] = _raise, _raise_once, partial(_raise), _Handler()


@dataclass(frozen=True)
class Work:
    """A piece of work to interrupt.

    Attributes:
        name: the name in tables.
        begin: called before, not interrupted; returns the work and a function that ends the work.
        is_on: returns for each patch of the work whether the patch holds at the moment.
    """

    name: str
    begin: Callable[[], tuple[Callable[[], object], Callable[[], object]]]
    is_on: Callable[[], list[bool]]


def vendor() -> Any:
    """Return the patched module."""
    return sys.modules[NAME]


def write_vendor(folder: Path, head: str = "") -> None:
    """Write the module, with an optional first line, and import the module."""
    (folder / f"{NAME}.py").write_text(f"{head}\n{SOURCE}")
    (folder / SPACE).mkdir()
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    importlib.import_module(NAME)


def louder(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function and mark the result."""
    return "patched", wrapped(*args, **kwargs)


def derived(original: Callable[[], Any]) -> Callable[[], Any]:
    """Return another function, made of the original."""
    return lambda: ("patched", original())


def derived_class(original: type) -> type:
    """Return a subclass of the original."""
    return type("Derived", (original,), {})


@contextmanager
def _entered(module: ModuleType) -> Iterator[None]:
    yield


def _nothing() -> None: ...


def _block(make: Callable[[], AbstractContextManager[object]]) -> Callable[[], None]:
    def work() -> None:
        with make():
            pass

    return work


def _decorated() -> Callable[[], None]:
    """Return a decorated function that calls itself once."""

    @hookpatch.active(*_TWO, children="local")
    def work(again: bool = True) -> None:
        if again:
            work(False)

    return work


def _entered_before(
    *patches: hookpatch.Patch, times: int = 3, **how: Any
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return the work of a session of patches that were applied before: hookpatch uses the earlier findings again."""
    work = _block(partial(hookpatch.active, *patches, **how))
    for _ in range(times):  # from the fourth time on hookpatch puts its notes of a single patch off
        work()
    return work, _nothing


def _made_anew() -> tuple[Callable[[], object], Callable[[], object]]:
    """Return the work of a block with a new patch, passed to child processes, after a block with another new patch."""
    work = _block(lambda: hookpatch.active(hookpatch.wrap(f"{NAME}:run", louder)))
    work()
    return work, _nothing


def _with_locks(
    begin: Callable[[], tuple[Callable[[], object], Callable[[], object]]],
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a piece of work, kept off the fast path by a listener such as a report file's."""
    listeners.append(len)
    body, end = begin()

    def end_with_locks() -> None:
        end()
        listeners.remove(len)

    return body, end_with_locks


def block(name: str, make: Callable[[], AbstractContextManager[object]], is_on: Callable[[], list[bool]]) -> Work:
    """Return the work of entering and leaving a block."""
    return Work(name, lambda: (_block(make), _nothing), is_on)


def _run_is_on() -> list[bool]:
    return [vendor().run() != "original"]


def _run_and_limit_are_on() -> list[bool]:
    return [vendor().run() != "original", vars(vendor()).get("limit") != 1_000_000]


def _of_class() -> tuple[Callable[[], object], Callable[[], object]]:
    """Return the work of deriving a class with a new instance: a frozen collector hides earlier instances."""
    vendor().one = vendor().Vendor()
    patch = hookpatch.derive(f"{NAME}:Vendor", derived_class, reach="everywhere")
    return _block(partial(hookpatch.active, patch, children="local")), _nothing


def _class_is_on() -> list[bool]:
    return [cls.__name__ == "Derived" for cls in (vendor().Vendor, type(vendor().one))]


def _run_and_other_are_on() -> list[bool]:
    return [vendor().run() != "original", vendor().other() != "other"]


def _in_open_session(
    body: Callable[[], object], patches: Sequence[hookpatch.Patch] = ()
) -> tuple[Callable[[], object], Callable[[], object]]:
    session = hookpatch.active(*(patches or _TWO)).open()
    return body, session.close


def _waiting_for(name: str, body: Callable[[], object]) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a piece of work with a module that two patches of an open session wait for."""
    patches = [hookpatch.replace(f"{name}:{attribute}", "patched", add=True) for attribute in ("first", "second")]
    session = hookpatch.active(*patches).open()

    def end() -> None:
        session.close()
        sys.modules.pop(name, None)

    return body, end


def _space_imported() -> None:
    sys.modules.pop(SPACE, None)
    importlib.import_module(SPACE)


def _builtin_imported() -> None:
    sys.modules.pop(_BUILTIN, None)
    importlib.import_module(_BUILTIN)


def _found_late() -> None:
    """Put a module in place without an import; the next block finds the module."""
    sys.modules.setdefault(LATE, ModuleType(LATE))
    with hookpatch.active(_RULE, children="local"):
        pass


def _space_is_on() -> list[bool]:
    return [attribute in vars(importlib.import_module(SPACE)) for attribute in ("first", "second")]


def _late_is_on() -> list[bool]:
    names = vars(sys.modules.setdefault(LATE, ModuleType(LATE)))  # an interrupt may come first
    return [attribute in names for attribute in ("first", "second")]


def _kept_over_a_value() -> tuple[Callable[[], object], Callable[[], object]]:
    """Return the end of a wrap over a value, while foreign code keeps the wrapper."""
    session = hookpatch.active(*_OVER_A_VALUE, children="local").open()
    _kept[:] = [vendor().run]
    return session.close, session.close


def _three_are_on() -> list[bool]:
    module = vendor()
    return [module.table.get("second") == 7, module.Vendor().method() != "method", module.other() != "other"]


def _run_and_kept_are_on() -> list[bool]:
    return [vendor().run() != "original", _kept[0]() != "original"]


def _reload() -> None:
    importlib.reload(vendor())


def _drop() -> None:
    hookpatch.active(*_TWO).open()


def _dropped_before() -> tuple[Callable[[], object], Callable[[], object]]:
    """Return the work of dropping a session unclosed, of a patch applied before: in a fork the first block is slow."""

    def work() -> None:
        hookpatch.active(_TWO[0]).__enter__()

    work()
    work()
    return work, _nothing


def _entered_again(
    *patches: hookpatch.Patch, inside: Callable[[], object] = _nothing, **how: Any
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return the work of entering a session again: the third time hookpatch puts its notes off."""
    session = hookpatch.active(*patches, **how)

    def work() -> None:
        with session:
            inside()

    for _ in range(3):
        work()
    return work, _nothing


def _entered_again_and_dropped() -> None:
    session = hookpatch.active(*_TWO)
    for _ in range(3):
        with session:
            pass
    session.open()


def _imported_anew() -> None:
    sys.modules.pop(NAME, None)
    importlib.import_module(NAME)


def _vendor_is_on() -> list[bool]:
    return [vendor().Vendor().method() != "method", vendor().Vendor.kind != "kind", hasattr(vendor().Vendor, "added")]


def _size_is_on() -> list[bool]:
    return [vendor().thing.size != 1, vendor().thing.double() not in (2, 14)]


def _beside_an_instance(body: Callable[[], object]) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a piece of work, and make an instance first: after ``gc.freeze`` the collector hides earlier instances."""
    vendor().thing = vendor().Sized()
    return body, _nothing


def _made_inside() -> None:
    with hookpatch.active(*_OF_INSTANCES, children="local"):
        vendor().Sized()


_OF_INSTANCES: Final = (
    hookpatch.replace(f"{NAME}:Sized().size", 7),
    hookpatch.wrap(f"{NAME}:Sized().double", louder),
)
_IN_PLACE: Final = hookpatch.wrap(f"{NAME}:run", louder, reach="everywhere")
_TWO: Final = (hookpatch.wrap(f"{NAME}:run", louder), hookpatch.replace(f"{NAME}:limit", 2_000_000))
_THREE: Final = (  # of new objects in a module executed anew
    hookpatch.replace(f"{NAME}:table['second']", 7),
    hookpatch.wrap(f"{NAME}:Vendor.method", louder),
    hookpatch.wrap(f"{NAME}:other", louder, reach="everywhere"),
)
_OVER_A_VALUE: Final = (
    hookpatch.wrap(f"{NAME}:run", louder),
    hookpatch.replace(f"{NAME}:run", lambda: "new"),
    hookpatch.wrap(f"{NAME}:run", louder),
)
_kept: Final[list[Callable[[], object]]] = []

_RULE: Final = hookpatch.wrap(f"{NAME}:*r*", louder, only=isfunction, matches=2)
_SOURCE: Final = hookpatch.edit(NAME, 'return "original"', 'return "patched", "original"', reload=True)
_CLASS: Final = hookpatch.edit(
    f"{NAME}:Vendor",
    diff="""
@@ -1,3 +1,4 @@
-    kind = "kind"
+    kind = "patched"
+    added = 1
     def method(self):
-        return "method"
+        return "patched"
""",
)
_ANEW: Final = (
    "import",
    "reload",
    "reload, other slots",
    "import, with locks",
    "reload, with locks",
    "the source of a module",
)  # works with a new execution of the module


def works() -> dict[str, Work]:
    """Return all pieces of work of hookpatch, by name."""
    verbs: Mapping[str, tuple[hookpatch.Patch, Callable[[], list[bool]]]] = {
        "wrap": (_TWO[0], _run_is_on),
        "wrap everywhere": (_IN_PLACE, _run_is_on),
        "wrap a method": (
            hookpatch.wrap(f"{NAME}:Vendor.method", louder),
            lambda: [vendor().Vendor().method() != "method"],
        ),
        "derive": (hookpatch.derive(f"{NAME}:run", derived), _run_is_on),
        "derive everywhere": (hookpatch.derive(f"{NAME}:run", derived, reach="everywhere"), _run_is_on),
        "replace an entry": (
            hookpatch.replace(f"{NAME}:table['second']", 7),
            lambda: [vendor().table.get("second") == 7],
        ),
        "remove an entry": (hookpatch.remove(f"{NAME}:table['second']"), lambda: ["second" not in vendor().table]),
        "remove": (hookpatch.remove(f"{NAME}:limit"), lambda: [not hasattr(vendor(), "limit")]),
        "enter": (hookpatch.enter(NAME, _entered), list),
        "a rule": (_RULE, _run_and_other_are_on),
        "the source of a class": (_CLASS, _vendor_is_on),
    }
    of_instances = partial(hookpatch.active, *_OF_INSTANCES, children="local")
    pieces = [
        block(name, partial(hookpatch.active, patch, children="local"), is_on) for name, (patch, is_on) in verbs.items()
    ]
    pieces += [
        block("two patches", partial(hookpatch.active, *_TWO, children="local"), _run_and_limit_are_on),
        block("two patches, inherit", partial(hookpatch.active, *_TWO), _run_and_limit_are_on),
        block("everywhere, inherit", partial(hookpatch.active, verbs["wrap everywhere"][0]), _run_is_on),
        block("scope='task'", partial(hookpatch.active, _TWO[0], scope="task"), _run_is_on),
        block("count=True", partial(hookpatch.active, _TWO[0], count=True, children="local"), _run_is_on),
        Work("derive a class everywhere", _of_class, _class_is_on),
        Work("instances", lambda: _beside_an_instance(_block(of_instances)), _size_is_on),
        Work("an instance made inside", lambda: _beside_an_instance(_made_inside), _size_is_on),
        Work("a decorated function", lambda: (_decorated(), _nothing), _run_and_limit_are_on),
        Work(
            "two patches, with locks",
            partial(_with_locks, lambda: (_block(lambda: hookpatch.active(*_TWO)), _nothing)),
            _run_and_limit_are_on,
        ),
        Work("a patch made anew, inherit", _made_anew, _run_is_on),
        Work("a patch applied before", partial(_entered_before, _TWO[0], children="local"), _run_is_on),
        Work("a patch applied twice before", partial(_entered_before, _TWO[0], times=2, children="local"), _run_is_on),
        Work("a patch applied before, inherit", partial(_entered_before, _TWO[0]), _run_is_on),
        Work("two patches applied before, inherit", partial(_entered_before, *_TWO), _run_and_limit_are_on),
        Work("everywhere, applied before", partial(_entered_before, _IN_PLACE, children="local"), _run_is_on),
        block("the source of a module", partial(hookpatch.active, _SOURCE, children="local"), _run_is_on),
        Work("import", lambda: _in_open_session(_imported_anew), _run_and_limit_are_on),
        Work("reload", lambda: _in_open_session(_reload), _run_and_limit_are_on),
        Work("reload, other slots", lambda: _in_open_session(_reload, _THREE), _three_are_on),
        Work(
            "import, with locks", partial(_with_locks, lambda: _in_open_session(_imported_anew)), _run_and_limit_are_on
        ),
        Work("reload, with locks", partial(_with_locks, lambda: _in_open_session(_reload)), _run_and_limit_are_on),
        Work("import of a namespace package", lambda: _waiting_for(SPACE, _space_imported), _space_is_on),
        Work("import past all finders", lambda: _waiting_for(LATE, _found_late), _late_is_on),
        Work("report", lambda: _in_open_session(hookpatch.report), _run_and_limit_are_on),
        Work("the end under a kept wrapper", _kept_over_a_value, _run_and_kept_are_on),
        Work("finalizer", lambda: (_drop, _nothing), _run_and_limit_are_on),
        Work("finalizer, with locks", partial(_with_locks, lambda: (_drop, _nothing)), _run_and_limit_are_on),
        Work("finalizer, a patch applied before", _dropped_before, _run_is_on),
        Work("a session entered again", partial(_entered_again, *_TWO, children="local"), _run_and_limit_are_on),
        Work("a session entered again, inherit", partial(_entered_again, *_TWO), _run_and_limit_are_on),
        Work("everywhere, entered again", partial(_entered_again, _IN_PLACE, children="local"), _run_is_on),
        Work("everywhere, entered again, inherit", partial(_entered_again, _IN_PLACE, _TWO[1]), _run_and_limit_are_on),
        Work(
            "a report inside a session entered again",
            partial(_entered_again, *_TWO, inside=hookpatch.report),
            _run_and_limit_are_on,
        ),
        Work(
            "an import inside a session entered again",
            partial(_entered_again, *_TWO, inside=_builtin_imported),
            _run_and_limit_are_on,
        ),
        Work(
            "finalizer of a session entered again",
            lambda: (_entered_again_and_dropped, _nothing),
            _run_and_limit_are_on,
        ),
    ]
    return {work.name: work for work in pieces}


# --- the state to be restored


def _state() -> list[Any]:
    module = vars(vendor())
    run = module["run"]
    sized, instance = vars(module["Sized"]), vars(module["thing"])
    parts = [run, run.__code__, run.__kwdefaults__, module.get("limit"), vars(module["Vendor"])["method"]]
    parts += [parts[-1].__code__, {**vars(module["Vendor"])}.keys(), module["Vendor"].kind, type(module["one"])]
    parts += [sorted(sized), instance.copy(), sized["__init__"], sized["double"]]
    parts += [list(module["table"].items()), sorted(vars(run)), dict(os.environ), list(sys.meta_path)]
    parts += [_kept[0]() if _kept else None]
    return [*parts, *(vars(owner)[name] for owner, name in PLACES)]


_PARTS: Final = (
    *("run", "its code", "its defaults", "limit", "method", "code of method"),
    *("names of Vendor", "kind", "class"),
    *("contents", "thing", "__init__", "double"),
    *("table", "attributes", "os.environ", "meta_path", "a kept wrapper"),
)

_FUNCTIONS: Final = ("run", "its code", "method", "code of method", "class", "__init__", "double")


def _differences(before: list[Any], is_anew: bool) -> Iterator[str]:
    """Yield the parts of the state that differ; for a module executed anew, the parts that differ from the source."""
    for part, was, current in zip((*_PARTS, *(name for _, name in PLACES)), before, _state(), strict=True):
        is_same = was is current or (was == current and (is_anew or part not in _FUNCTIONS))
        of_source = is_anew and part in (*_FUNCTIONS, "table")
        if not is_same and not of_source:
            yield part
    if patched():
        yield "a slot"
    if open_sessions():
        yield "an open session"
    if imports.pending():
        yield "a watch"


def _open_elsewhere() -> str | None:
    """Open a block in another thread; return the problem of the block, or None."""
    results: list[Any] = []

    def other() -> None:
        with hookpatch.active(_TWO[0]):
            results.append(vendor().run())
        results.append(vendor().run())

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if thread.is_alive():
        return "the next block waits for ever"
    return None if results == [("patched", "original"), "original"] else f"the next block gave {results}"


def _left_behind(work: Work, end: Callable[[], object], before: list[Any], outcome: str) -> list[str]:
    """Return the problems that an interrupt leaves after the next look and the end."""
    if work.name.startswith("finalizer"):  # frames would keep the session that is to be dropped
        _last_errors.clear()
    problems = [] if outcome in ("interrupted", "ended") else [f"raised {outcome}"]
    module = sys.modules.get(NAME)
    if module is not None and len(set(work.is_on())) > 1:
        problems.append("half of the patches hold")
    hookpatch.report()  # the next look
    importlib.import_module(NAME)
    if work.name.startswith(("import", "reload", "report")) and not all(work.is_on()):
        problems.append("an open session has lost its patches")
    end()
    del module
    problems += _differences(before, is_anew=work.name in _ANEW)
    elsewhere = _open_elsewhere()
    problems += [] if elsewhere is None else [elsewhere]
    return problems or [f"afterwards {difference}" for difference in _differences(before, work.name in _ANEW)]


# --- points


class _Points:
    """Trace a piece of work; at a point of the work raise the signal, or the error itself."""

    def __init__(self, unit: Unit, number: int = 0, raises: bool = False) -> None:
        self.count = 0
        self.place = ""
        self._unit: Final = unit
        self._number: Final = number
        self._raises: Final = raises

    def run(self, body: Callable[[], object]) -> None:
        sys._getframe().f_trace_opcodes = self._unit == "opcode"  # Python 3.12 looks for a frame with the flag
        sys.settrace(self._trace)
        try:
            body()
        finally:
            sys.settrace(None)

    def _trace(self, frame: Any, event: str, _: object) -> Any:
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name in ("run", "_trace"):
            return None
        if frame.f_code.co_filename.startswith("<frozen importlib"):  # an interrupt may leave a module half imported
            return None
        frame.f_trace_opcodes = self._unit == "opcode"
        if event == self._unit:
            self.count += 1
            if self.count == self._number:
                sys.settrace(None)
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                if self._raises:
                    raise Interrupted
                signal.raise_signal(signal.SIGUSR1)
        return self._trace


class _Two:
    """Raise the signal at an event of a piece of work, and again so many events later.

    An event is a call, or the return of C code: there Python looks for signals. The second interrupt may come while
    hookpatch clears up after the first, or in the next run of the work, in which hookpatch looks.
    """

    def __init__(self, first: int, second: int) -> None:
        self.count = 0  # events since the last interrupt
        self.places: list[str] = []
        self._numbers: Final = [first, second]

    def run(self, body: Callable[[], object]) -> str:
        """Run a piece of work, and again until the second interrupt; return the outcome."""
        sys.setprofile(self._count)
        try:
            outcome = outcome_of(body)
            while len(self.places) == 1 and outcome in ("ended", "interrupted"):
                outcome = outcome_of(body)
        finally:
            sys.settrace(None)
            sys.setprofile(None)
        return outcome

    def _count(self, frame: FrameType, event: str, _: object) -> None:
        is_ours = frame.f_code.co_filename != __file__ and not frame.f_code.co_filename.startswith("<frozen importlib")
        if not is_ours or event not in ("call", "c_return"):
            return
        self.count += 1
        if self.count != self._numbers[len(self.places)]:
            return
        self.count = 0
        self.places.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        sys.setprofile(None)
        if len(self.places) == 1:  # Python ends a profile with an error: the next traced event begins it anew
            sys.settrace(self._begin_anew)
            caller: FrameType | None = frame
            while caller is not None:
                caller.f_trace = self._begin_anew
                caller = caller.f_back
        signal.raise_signal(signal.SIGUSR1)

    def _begin_anew(self, frame: FrameType, event: str, _: object) -> None:
        sys.settrace(None)
        sys.setprofile(self._count)


@dataclass
class Result:
    """The result of interrupts at the points of a piece of work: the number of points, and problems with places."""

    points: int
    problems: dict[str, list[str]]

    @property
    def bad(self) -> int:
        return sum(map(len, self.problems.values()))


def in_child(body: Callable[[], str]) -> str:
    """Run a function in a forked process; return its result."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # Python ignores errors in finalizers, with a message
            os.write(writable, body().encode())
        except BaseException as error:
            os.write(writable, f"the look failed: {type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writable)
    with open(readable, encoding="utf-8") as pipe:
        output = pipe.read()
    os.waitpid(pid, 0)
    return output


_last_errors: Final[list[BaseException]] = []  # held with all frames, as a notebook holds the last error


def outcome_of(body: Callable[[], object]) -> str:
    """Run a piece of work; return its outcome. The error is held."""
    try:
        body()
    except (Interrupted, FromThread, SystemExit) as error:
        _last_errors.append(error)
        return "interrupted"
    except BaseException as error:
        _last_errors.append(error)
        # In foreign code, as in the code of a module that runs again, the error counts as one of this code.
        is_of_thread = any(isinstance(cause, (FromThread, SystemExit)) for cause in _causes(error))
        return "interrupted" if is_of_thread else type(error).__name__
    return "ended"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, the errors of a group, and what each was raised from, however deep."""
    yield error
    nested = list(error.exceptions) if isinstance(error, BaseExceptionGroup) else []
    for cause in (*nested, error.__cause__):
        if cause is not None:
            yield from _causes(cause)


def _ready(work: Work) -> list[Any]:
    """Do a piece of work some times, to fill all caches; return the state before an interrupt."""
    signal.signal(signal.SIGUSR1, _raise)
    warnings.simplefilter("ignore")
    for _ in range(3):
        body, end = work.begin()
        body()
        end()
    hookpatch.report()  # imports what a look needs: else each fork would
    _open_elsewhere()
    gc.collect()
    gc.freeze()
    return _state()


def sweep(work: Work, unit: Unit = "line", most: int | None = None, raises: bool = False) -> Result:
    """Interrupt a piece of work at each point, or at most at ``most`` points, evenly spread; return the problems.

    ``raises``: the function that traces raises the error, and not a signal handler.
    """
    before = _ready(work)

    def tried(number: int) -> str:
        body, end = work.begin()
        points = _Points(unit, number, raises)
        outcome = outcome_of(partial(points.run, body))
        problems = _left_behind(work, end, before, outcome)
        return f"{points.count}|{points.place}|{', '.join(problems)}"

    total = int(in_child(partial(tried, 0)).partition("|")[0])
    step = 1 if most is None else -(-total // most)
    result = Result(0, {})
    for number in range(1 + len(work.name) % step, total + 1, step):
        _, place, problem = in_child(partial(tried, number)).split("|", 2)
        result.points += 1
        if problem:
            result.problems.setdefault(problem, []).append(place)
    return result


def twice(work: Work, times: int, seed: int = 1) -> Result:
    """Interrupt a piece of work twice, at random events: half of the second interrupts come soon after the first."""
    before, choose = _ready(work), Random(seed)

    def tried(first: int, second: int) -> str:
        body, end = work.begin()
        two = _Two(first, second)
        outcome = two.run(body)
        hookpatch.report()  # the second interrupt may leave half of the patches to this look
        problems = _left_behind(work, end, before, outcome)
        return f"{two.count}|{' and '.join(two.places)}|{', '.join(problems)}"

    total = int(in_child(partial(tried, 0, 0)).partition("|")[0])
    result = Result(times, {})
    for number in range(times):
        second = choose.randint(1, total if number % 2 else min(total, _SOON))
        _, place, problem = in_child(partial(tried, choose.randint(1, total), second)).split("|", 2)
        if problem:
            result.problems.setdefault(problem, []).append(place)
    return result


def by_alarm(work: Work, times: int, seed: int = 1) -> Result:
    """Repeat a piece of work until an alarm interrupts the work at a random moment; try ``times`` times."""
    return _at_random(work, times, seed, _alarm)


def by_thread(work: Work, times: int, seed: int = 1) -> Result:
    """Repeat a piece of work until another thread raises an error there at a random moment; try ``times`` times.

    The error is a FromThread, or a SystemExit as for ending the thread.
    """
    return _at_random(work, times, seed, _from_thread)


_AGAIN: Final = 0.2  # seconds; if Python ignored the error, as in a finalizer
_Act: TypeAlias = Callable[[], object]


def _alarm(seconds: float) -> tuple[_Act, _Act]:
    """Return functions that begin and end the interrupts."""
    timer = partial(signal.setitimer, signal.ITIMER_REAL)
    signal.signal(signal.SIGALRM, _HANDLERS[int(seconds * 1_000_000) % len(_HANDLERS)])
    return partial(timer, seconds, _AGAIN), partial(timer, 0)


def _from_thread(seconds: float) -> tuple[_Act, _Act]:
    set_error = ctypes.pythonapi.PyThreadState_SetAsyncExc
    thread = ctypes.c_ulong(threading.get_ident())
    error = ctypes.py_object((FromThread, SystemExit)[int(seconds * 1_000_000) % 2])
    begun: list[None] = []  # no threading.Event: an error inside its functions would leave its lock taken
    ended: list[None] = []

    def raise_there() -> None:
        while not begun:
            time.sleep(0.001)
        time.sleep(seconds)
        while not ended:
            set_error(thread, error)
            until = time.monotonic() + _AGAIN
            while not ended and time.monotonic() < until:
                time.sleep(0.001)

    raising = threading.Thread(target=raise_there)
    raising.start()

    def end() -> None:
        ended.append(None)
        while raising.is_alive():
            time.sleep(0.001)
        set_error(thread, None)

    return partial(begun.append, None), end


def _at_random(work: Work, times: int, seed: int, interrupts: Callable[[float], tuple[_Act, _Act]]) -> Result:
    before, choose = _ready(work), Random(seed)

    def tried(seconds: float) -> str:
        body, end = work.begin()
        begin_interrupts, end_interrupts = interrupts(seconds)

        def again() -> None:
            begin_interrupts()
            while True:
                body()

        outcome = outcome_of(again)
        while outcome_of(end_interrupts) == "interrupted":
            pass  # by an error raised late
        return ", ".join(_left_behind(work, end, before, outcome))

    result = Result(times, {})
    for _ in range(times):
        if problem := in_child(partial(tried, choose.uniform(0.001, 0.004))):
            result.problems.setdefault(problem, []).append("")
    return result
