"""Notice each executed module: watches, and the finder, loader and spec that fire the watches.

The only file that touches sys.meta_path, sys.path_hooks and, beside the face, sys.modules. The import hooks of wrapt
are no replacement. They take module locks in find_spec: a deadlock when threads import at once. They forget a hook
after the first import: a reload loses the patch. They cannot be cancelled, and they run on half-imported modules.

Rules of the finder: never import in find_spec, never take a lock in find_spec, ask the other finders directly.

Long because each further file slows each start of a patched interpreter. Watches, finder, loader and spec share one
lock and one set of names.
"""

from __future__ import annotations

import _frozen_importlib
import _frozen_importlib_external
import os
import sys
from _thread import get_ident
from sys import _getframe, getrefcount

from hookpatch._bootstrap import interrupts
from hookpatch._bootstrap.interrupts import (
    Begun,
    Operation,
    Turn,
    begin,
    end,
    finish_interrupted,
    frames_of_threads,
    is_interrupt,
    unwritten,
    write_notes,
)

__builtins__ = vars(interrupts)["__builtins__"]  # no import: Python 3.15 may make an import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, KeysView, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType
    from typing import Any, Final, TypeAlias

    Arrival: TypeAlias = Callable[[ModuleType], None]
    Execute: TypeAlias = Callable[[Any, ModuleType], None]

# Internals of the import system, which a later Python may lack: see ``missing_internals``.
_BootstrapSpec: Final[Any] = getattr(_frozen_importlib, "ModuleSpec", None) or type(sys.__spec__)
_PathFinder: Final[Any] = getattr(_frozen_importlib_external, "PathFinder", None)
_module_locks: Final[dict[str, Any]] = getattr(_frozen_importlib, "_module_locks", {})
_HAS_LOCKS: Final = hasattr(_frozen_importlib, "_module_locks")
_lock_unlock_module: Final[Any] = getattr(_frozen_importlib, "_lock_unlock_module", None)
_SEARCH: Final[Any] = getattr(getattr(_frozen_importlib, "_find_spec", None), "__code__", None)
_LOAD: Final[Any] = getattr(getattr(_frozen_importlib, "_load_unlocked", None), "__code__", None)

ANY: Final = "*"  # in place of a module's name

_system: Final = vars(sys)  # faster to write than the attributes of a module
_finders: list[Any] = sys.meta_path  # of the last ``_place_finder``: a program may put another list in place for a time
_former: Final[list[list[Any]]] = []  # earlier lists with our finder, which may come back
_lock: Final = Turn()  # held for a change of the watches; no foreign code but finalizers runs under the lock
# By module, in order. GIL: read without the lock, in a single operation or from a copy made in a single operation.
_watches: Final[dict[str, dict[Watch, None]]] = {}
_again: Final[dict[Watch, None]] = {}  # the watches of ``begin_again``. GIL: as ``_watches``
_placing: Final[dict[Watch, None]] = {}  # those in ``_watches`` that bring the finder in place: all but listeners
_globs: tuple[str, ...] = ()  # the watched patterns of names, beside ANY
_has_globs = False  # True with a watch of a pattern or of ANY: one look for each import of the program
# By the package that a pattern names, the longest part of each pattern without ``*``.
_packages: dict[str, tuple[str, ...]] = {}
# Of the patterns that name no package: a whole word between dots, else the beginning, the end, or the longest part.
_words: frozenset[str] = frozenset()
_heads: tuple[str, ...] = ()
_tails: tuple[str, ...] = ()
_parts: tuple[tuple[str, ...], frozenset[str], tuple[slice, ...], int] | None = None  # see ``_indexed``
_MANY: Final = 8  # parts, from which on an index is faster
_LONGEST: Final = 200  # letters of a name that are looked up in an index
begun_names: Final[KeysView[str]] = sys.modules.keys()  # of all modules whose import has begun; faster than ``begun``
_modules: Final = sys.modules  # ``stand_by`` looks whether a program has put another dict in place
begun_module: Final[Callable[[str], ModuleType | None]] = _modules.get
unheard: Final[dict[Watch, None]] = {}  # watches of a missing module, until the first import is noticed
announced_late: Final[set[tuple[int, str]]] = set()  # thread and module: at this moment, long after the import
_holds: Final[dict[object, None]] = {}  # the holders that keep the finder in place
# By module, the frame that executes and announces the module. GIL: each change is one operation.
executing: Final[dict[str, Begun]] = {}
# By module, the function that executes the module in place of the loader; the function gets the loader.
_executors: Final[dict[str, Execute]] = {}
_ahead: Final[dict[str, Begun]] = {}  # by module, the frame about to execute the module
# By thread, the frame that announces a module, and the acts of ``afterwards``.
_announcing: Final[dict[int, tuple[Begun, dict[Callable[[], object], None]]]] = {}
_trusted: list[str] | None = None
_own_imports: Final[dict[int, Begun]] = {}  # by thread, inside of ``for_ourselves``
_asking: Final[dict[tuple[int, str], Begun]] = {}  # by thread and module, the frame that asks the other finders


class Watch:
    """A callback after (early: before) each import and reload of a module, until the watch is cancelled.

    ``module`` may be a pattern of names, in which ``*`` stands for any characters, dots too. A watch of ``ANY`` is
    called after each import and reload of every module.
    """

    __slots__ = ("_arrival", "has_heard", "is_early", "module")

    def __init__(self, module: str, arrival: Arrival, is_early: bool = False) -> None:
        self.module: Final = module
        self.is_early: Final = is_early
        self._arrival: Arrival | None = arrival
        self.has_heard = False

    def begin(self) -> ModuleType | None:
        """Start the callbacks, as ``watch`` does. An interrupted call is undone by ``cancel``.

        Return the module if its import has ended; None for a module for which ``present`` may ask again.
        """
        _note(self)
        if "*" in self.module:
            for name, module in matching(self.module):
                if _is_initializing(module) and not _is_executing(name):  # executing: ``_announce`` fires new watches
                    _notify_when_initialized(vars(module)["__spec__"])
            return None
        imported = _imported(self.module)
        if imported is None or _is_executing(self.module):
            return None
        if _is_initializing(imported):
            spec = vars(imported)["__spec__"]
            _notify_when_initialized(spec)
            if not _is_initializing(imported):
                _stop_notifying(spec)  # the import ended in between: the module is ``present`` now
            return None
        return imported

    def cancel(self) -> None:
        """Stop the callbacks; a second call does nothing."""
        self._arrival = None
        unheard.pop(self, None)
        _again.pop(self, None)
        _placing.pop(self, None)
        watches = _watches.get(self.module, {})
        watches.pop(self, None)
        # The last watch of the module, or of all. A watch that another thread adds now is seen under the lock.
        if not watches or not _placing:
            with _lock:
                if not _watches.get(self.module, True):
                    _watches.pop(self.module, None)
                _index_globs(self.module)
                _place_finder()

    def begin_again(self, module: ModuleType, arrival: Arrival) -> bool:
        """Start the callbacks of a cancelled watch; return False if the name has another module now.

        ``end_again`` stops the callbacks. Both are called on the fast path.
        """
        if begun_module(self.module) is not module or self.module in executing or not stand_by():
            return False
        self.note_watch(arrival)
        return True

    def note_watch(self, arrival: Arrival) -> None:
        """Start the callbacks; the finder is in place."""
        self._arrival = arrival
        _again[self] = None

    def call_back(self, arrival: Arrival) -> None:
        """Call another callback from now on."""
        self._arrival = arrival

    def end_again(self) -> None:
        """Stop the callbacks, begun or not."""
        self._arrival = None
        _again.pop(self, None)
        stand_down()

    def present(self) -> ModuleType | None:
        """Return the module if its import has ended; else None, and ``notify_late`` looks for the module."""
        imported = present(self.module)
        if imported is None:
            self.expect()
        return imported

    def expect(self) -> None:
        """Let ``notify_late`` look for the module until the first import is noticed."""
        unheard[self] = None
        if self.has_heard:  # the import was noticed in between
            unheard.pop(self, None)

    def fire(self, module: ModuleType) -> None:
        """Call the callback."""
        self.has_heard = True
        unheard.pop(self, None)
        arrival = self._arrival
        if arrival is not None:
            arrival(module)

    def __repr__(self) -> str:
        return f"<Watch of {self.module}, {'cancelled' if self._arrival is None else 'waiting'}>"


def stand_by() -> bool:
    """Put the finder in place, for a block that has yet to write its watches; return False if that needs a lock.

    ``stand_down`` removes the finder. Both are called on the fast path.
    """
    searched = sys.meta_path
    if searched is not _finders or sys.modules is not _modules:
        return False
    if _Finder not in searched:
        searched.insert(0, _Finder)
    return True


def stand_down() -> None:
    """Remove the finder, unless watches or holds need the finder."""
    if _again or _placing or _holds:
        return
    searched = sys.meta_path
    if searched is _finders and not _former and searched and searched[0] is _Finder:
        _system["meta_path"] = searched[1:]  # as in ``_place_finder``
        if getrefcount(searched) < _OF_A_SEARCH:
            del searched[0]
            _system["meta_path"] = searched
            return
        _system["meta_path"] = searched
    _place_finder()


def foresee(module: str, arrival: Arrival) -> Watch:
    """Call ``arrival(module)`` before each execution of a module not ``begun``; of a namespace package, after."""
    watch = Watch(module, arrival, is_early=True)
    _note(watch)
    watch.expect()
    return watch


def execute_by(module: str, execute: Execute | None) -> None:
    """Have ``execute(loader, module)`` execute a module in place of the loader; None: the loader again.

    A watch of the module keeps the finder in place.
    """
    if execute is None:
        _executors.pop(module, None)
    else:
        _executors[module] = execute


def is_ahead(module: str) -> bool:
    """Return True if a module has been found, and the module's code has yet to run."""
    return module in _ahead and not _ahead[module].is_interrupted()


def watch(module: str, arrival: Arrival) -> Watch:
    """Call ``arrival(module)`` after each execution of a module from now on.

    The end of a running import or reload counts. For a module imported earlier ask ``Watch.present``.
    """
    watch = Watch(module, arrival)
    watch.begin()
    return watch


def listen(module: str, arrival: Arrival) -> None:
    """Call ``arrival(module)`` after each execution of a module, as long as other watches keep the finder in place."""
    _watches.setdefault(module, {})[Watch(module, arrival)] = None


def afterwards(act: Callable[[], object]) -> None:
    """Call a function once, after all watches of the module that this thread announces now; else at once."""
    begun, acts = _announcing.get(get_ident(), (None, {}))
    if begun is None or begun.is_interrupted():
        act()
    else:
        acts[act] = None


def hold(holder: object) -> None:
    """Keep the finder in place, for listeners, until the holder calls ``release``."""
    with _lock:
        _holds[holder] = None
        _place_finder()


def release(holder: object) -> None:
    """End the ``hold`` of a holder; a second call does nothing."""
    with _lock:
        _holds.pop(holder, None)
        _place_finder()


def present(module: str) -> ModuleType | None:
    """Return a fully imported module; None during an import or reload, whose end a watch will notice."""
    imported = _imported(module)
    return None if imported is None or _is_initializing(imported) or _is_executing(module) else imported


def loaded(module: str) -> ModuleType | None:
    """Return a fully imported module, else None. Waits for no other thread."""
    imported = sys.modules.get(module)
    return None if imported is None or _is_initializing(imported) else imported


def module_named(module: str) -> ModuleType | None:
    """Return a module, half imported or not; None before the begin of the import."""
    return sys.modules.get(module)


def begun(module: str) -> bool:
    """Return True if the import of a module has begun, or of any module that matches a pattern."""
    return module in sys.modules or ("*" in module and bool(matching(module)))


def matching(pattern: str) -> list[tuple[str, ModuleType]]:
    """Return the modules whose names match a pattern, half imported or not, without other objects in sys.modules."""
    head = pattern.partition("*")[0]
    return [(name, module) for name, module in modules() if name.startswith(head) and matches(pattern, name)]


def matches(pattern: str, name: str) -> bool:
    """Return True if a module's name matches a pattern, in which ``*`` stands for any characters, dots too.

    Written without a library: a bare interpreter has loaded no library.
    """
    head, *parts = pattern.split("*")
    if not parts or not name.startswith(head):
        return name == pattern
    position = len(head)
    for part in parts[:-1]:
        position = name.find(part, position)
        if position < 0:
            return False
        position += len(part)
    return len(name) - len(parts[-1]) >= position and name.endswith(parts[-1])


def is_overlooked(module: str) -> bool:
    """Return True if a watched module was imported past our finder: a program put another finder before ours."""
    return any(watch.module == module for watch in _overlooked())


def _imported(module: str) -> ModuleType | None:
    """Return a module, half imported or not.

    Waits, as imports do, while another thread searches for the module, too early for our finder. Waits also while
    another thread takes the module from sys.modules for a moment, as importlib does at the end of each import.
    """
    imported = sys.modules.get(module)
    if imported is None and module in _module_locks and _lock_unlock_module is not None:
        _lock_unlock_module(module)
        imported = sys.modules.get(module)
    return imported


def _overlooked() -> list[Watch]:
    """Return the watches of modules imported past our finder."""
    if not unheard:
        return []
    # In this order: the watch of an executed module has noticed the module, unless the module was overlooked.
    return [watch for watch in list(unheard) if _is_executed(watch.module) and not watch.has_heard]


def _is_executed(module: str) -> bool:
    imported = sys.modules.get(module)
    if imported is None or type(imported).__module__ == "importlib.util":
        return False  # LazyLoader has put the execution off: our loader will announce the module
    # In this order: a module is in ``executing`` before its import ends, until all its watches have fired.
    return not _is_initializing(imported) and not _is_executing(module)


def _is_executing(module: str) -> bool:
    """Return True until all watches of an executed module have fired; False after an interrupt."""
    begun = executing.get(module)
    return begun is not None and not begun.is_interrupted()


def past_us(module: str | None) -> str:
    """Return in words how a module was imported past our finder."""
    finders = sys.meta_path
    kinds = [
        finder if isinstance(finder, type) else type(finder)
        for finder in (finders[: finders.index(_Finder)] if _Finder in finders else ())
    ]
    first = ", ".join(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
    return f"{module} was imported " + (
        f"by {first}, before hookpatch's finder" if first else "past hookpatch's finder"
    )


def notify_late() -> None:
    """Fire the watches of overlooked modules, then raise their first error. Called before each look at patches.

    After an interrupt the rest is done at once: otherwise a part of the patches would hold until the next look.
    """
    try:
        _notify_late()
    except BaseException as error:
        if is_interrupt(error):
            finish_interrupted()
            _notify_late()
        raise


def _notify_late() -> None:
    write_notes()
    is_needed = bool(_placing or _again or _holds)
    if (_Finder in sys.meta_path) != is_needed or (_former and not is_needed):  # foreign code has exchanged the list
        with _lock:
            _place_finder()
    failure: BaseException | None = None
    for watch in _overlooked():
        module = sys.modules.get(watch.module)
        operation = _begin_announcement(watch.module)
        if module is None or unheard.pop(watch, watch) is not None:
            end(operation)
            continue  # the module is imported anew, or another thread fires the watch
        announced_late.add((get_ident(), watch.module))
        try:
            watch.fire(module)
        except BaseException as error:  # as in _announce
            failure = _graver(failure, error)
        finally:
            announced_late.discard((get_ident(), watch.module))
        if failure is None or not is_interrupt(failure):
            end(operation)
    if failure is not None:
        raise failure


def how_late(module: str | None) -> str:
    """Return ``past_us`` of a module being announced by ``notify_late`` in this thread; else ""."""
    return past_us(module) if (get_ident(), module) in announced_late else ""


def is_ending(system: Any = sys) -> bool:
    """Return True if this interpreter is ending. A subinterpreter has emptied all modules by now, hence the default."""
    return system.is_finalizing() or getattr(system, "meta_path", None) is None


def missing_internals() -> Iterator[tuple[str, str]]:
    """Yield each internal of the import system that this Python lacks, with the effect of the lack."""
    if _lock_unlock_module is None or not _HAS_LOCKS:
        yield "the locks of modules", "a module that another thread has begun to import is patched late"
    if _SEARCH is None or not hasattr(sys, "_current_frames"):
        yield "the search for modules", "sys.meta_path becomes another list with each session"
    spec = _BootstrapSpec("hookpatch", None)
    spec._initializing = True
    _notify_when_initialized(spec)
    if type(spec) is not _WatchedSpec or "_initializing" not in getattr(_LOAD, "co_names", ()):
        yield "the end of an import", "a namespace package, or a module that is half imported, is patched late"


def spec_of(
    name: str, path: Sequence[str] | None, target: ModuleType | None = None, folders: Sequence[str] | None = None
) -> ModuleSpec | None:
    """Return the spec of a module as found by the other finders, None without a spec; no module is imported.

    ``path`` holds the folders of the package of the module. PathFinder looks in ``folders`` instead, if given.
    """
    for finder in tuple(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        if finder is not _Finder and find is not None:
            spec: ModuleSpec | None = find(
                name, path if folders is None or finder is not _PathFinder else folders, target
            )
            if spec is not None:
                return spec
    return None


def trust() -> None:
    """Trust the folders now on ``sys.path``: ``for_ourselves`` imports from trusted folders alone.

    At interpreter start the folder of the program is missing: a file named like a library of ours is not run.
    """
    global _trusted
    _trusted = list(sys.path)


class for_ourselves:
    """A block in which this thread imports from trusted folders alone, if ``trust`` was called."""

    __slots__ = ("_is_first", "_operation", "_thread")

    def __enter__(self) -> None:
        self._is_first = _trusted is not None and not _imports_ours()
        if self._is_first:
            self._thread = get_ident()
            self._operation = _own_imports[self._thread] = begin(self._end, _getframe(1))
            hold(self)  # else our finder may not be asked

    def __exit__(self, *failure: object) -> None:
        if self._is_first:
            self._end()
            end(self._operation)

    def _end(self) -> None:
        _own_imports.pop(self._thread, None)
        release(self)


def _imports_ours() -> bool:
    """Return True if this thread is in a block of ``for_ourselves``."""
    ours = _own_imports.get(get_ident())
    return ours is not None and not ours.is_interrupted()


def fetch(module: str) -> ModuleType:
    """Import and return a module: for the key of a slot, never for a target."""
    __import__(module)
    return sys.modules[module]


def fetch_ours(module: str) -> ModuleType:
    """Import and return a module that hookpatch itself needs, from trusted folders alone."""
    with for_ourselves():
        return fetch(module)


def modules() -> list[tuple[str, ModuleType]]:
    """Return the imported modules by name, without other objects in sys.modules such as lazy stand-ins."""
    return [(name, module) for name, module in sys.modules.copy().items() if issubclass(type(module), type(sys))]


def latest() -> tuple[int, str]:
    """Return the number of modules whose import has begun, and the name of the last: others after an import."""
    names = [*sys.modules]
    return len(names), names[-1]


def is_of_modules(mapping: object) -> bool:
    """Return True for the dictionary of the imported modules."""
    return mapping is sys.modules


def names() -> frozenset[str]:
    """Return the names of the imported modules."""
    return frozenset(sys.modules)


def finished() -> dict[str, object]:
    """Return the modules after their first import, by name: a running module may still copy imported values.

    The value is the spec: a reload or another import of the module sets a new spec.
    """
    running = {
        name for name in list(_module_locks) if (module := module_named(name)) is not None and _is_initializing(module)
    }
    return {name: spec(module) for name, module in sys.modules.copy().items() if name not in running}


def executed_since(before: Mapping[str, object]) -> set[str]:
    """Return the names of the modules imported or executed anew since ``before`` was made by ``finished``."""
    return {name for name, module in sys.modules.copy().items() if before.get(name, ANY) is not spec(module)}


def spec(module: object) -> object:
    """Return the spec of a module without running the module's code."""
    return getattr(module, "__dict__", {}).get("__spec__")


def count() -> int:
    """Return the number of imported modules."""
    return len(sys.modules)


def pending() -> list[Watch]:
    """Return the watches not yet cancelled, by the names of their modules."""
    write_notes()
    return sorted([*_again, *_placing], key=lambda watch: watch.module)


def holds_finder() -> bool:
    """Return True if the finder is in place for listeners, too."""
    return bool(_holds)


def finders(ours: bool) -> list[object]:
    """Return our finder if on sys.meta_path, or all other finders."""
    return [finder for finder in sys.meta_path if (finder is _Finder) is ours]


def _note(watch: Watch) -> None:
    with _lock:
        while watch not in _watches.get(watch.module, ()):  # again if a finalizer closed a session and removed the dict
            _watches.setdefault(watch.module, {})[watch] = None
        _placing[watch] = None
        _index_globs(watch.module)
        _place_finder()


def _index_globs(module: str) -> None:
    """Note the watched patterns, after a change of a pattern's watches: an unrelated import compares no pattern."""
    global _globs, _has_globs, _packages, _words, _heads, _tails, _parts
    if "*" not in module:
        return
    packages: dict[str, tuple[str, ...]] = {}
    words, heads, tails, middles = set(), set(), set(), set()
    globs = tuple(name for name in _watches if "*" in name and name != ANY)
    for glob in globs:
        top, (head, *parts) = glob.partition(".")[0], glob.split("*")
        longest = max(head, *parts, key=len)
        if "*" not in top:
            packages[top] = (*packages.get(top, ()), longest)
        elif whole := [word for part in f".{glob}.".split("*") for word in part.split(".")[1:-1]]:
            words.add(max(whole, key=len))
        elif head:
            heads.add(head)
        elif parts[-1]:
            tails.add(parts[-1])
        else:
            middles.add(longest)
    _packages, _words, _heads, _tails = packages, frozenset(words), tuple(heads), tuple(tails)
    _parts = _indexed(tuple(middles)) if middles else None  # one object: another thread reads at any moment
    _globs, _has_globs = globs, ANY in _watches or bool(globs)


def _indexed(parts: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[str], tuple[slice, ...], int]:
    """Return the parts with an index: triples of letters, places in a name, and the step from place to place.

    A name with one of the parts has one of the triples at one of the places: each part has a triple from each of as
    many places in a row as the step is long. Without triples the parts are short or few, and each is compared.
    """
    step = min(map(len, parts)) - 2
    if step < 2 or len(parts) < _MANY:
        return parts, frozenset(), (), 1
    triples = frozenset(part[start : start + 3] for part in parts for start in range(step))
    return parts, triples, tuple(slice(start, start + 3) for start in range(0, _LONGEST, step)), step


def _has_part(name: str) -> bool:
    """Return True if a module's name has one of the parts of patterns such as ``*word*``."""
    if _parts is None:
        return False
    parts, triples, places, step = _parts
    if places and len(name) < _LONGEST and triples.isdisjoint(map(name.__getitem__, places[: len(name) // step + 1])):
        return False
    return any(map(name.__contains__, parts))


def _of_name(name: str) -> list[Watch]:
    """Return the watches of a single module."""
    return [*_watches.get(name, ()), *(watch for watch in [*_again] if watch.module == name)]


def _of_globs(name: str) -> list[Watch]:
    """Return the watches of the patterns that match a module's name."""
    if not (
        (_packages and (near := _packages.get(name.partition(".")[0])) and any(map(name.__contains__, near)))
        or (_words and not _words.isdisjoint(name.split(".")))
        or (_heads and name.startswith(_heads))
        or (_tails and name.endswith(_tails))
        or (_parts is not None and _has_part(name))
    ):
        return []
    return [watch for glob in _globs if matches(glob, name) for watch in [*_watches.get(glob, ())]]


def _place_finder() -> None:
    """Put our finder on sys.meta_path while watches or holds need the finder, and remove the finder afterwards.

    A deletion from the list would make a running import skip a finder, and miss a module. Therefore the running import
    keeps the old list, and sys.meta_path becomes a new list. Mostly no import is running, and the list stays the same
    object.
    """
    global _finders
    if sys.meta_path is not _finders:
        _former.append(_finders)
        _finders = sys.meta_path
    while (_Finder in sys.meta_path) != (is_needed := bool(_placing or _again or _holds)):
        if is_needed:
            sys.meta_path.insert(0, _Finder)  # a class with find_spec is a finder
            continue
        searched = sys.meta_path
        first, *following = searched
        sys.meta_path = following if first is _Finder else [finder for finder in searched if finder is not _Finder]
        # A running import refers to the list twice, by a variable and by the loop (before Python 3.12 once). With fewer
        # references no import is running, and the slower search through the frames is not needed.
        if getrefcount(searched) < _OF_A_SEARCH or not _is_searching():
            searched[:] = sys.meta_path
            sys.meta_path = searched
    _finders = sys.meta_path
    if _former and not (_placing or _again or _holds or _is_searching()):
        for former in _former:
            former[:] = [finder for finder in former if finder is not _Finder]
        _former.clear()


def _references_of_a_variable() -> int:
    """Return how many references Python counts for an object with one variable: since 3.14 a call adds none."""
    variable: list[object] = []
    return getrefcount(variable)


# A local variable, ``_finders``, and two of a running import.
_OF_A_SEARCH: Final = _references_of_a_variable() + 3


def _is_searching() -> bool:
    """Return True if any thread, this one included, may be asking the finders at this moment."""
    if _SEARCH is None or not hasattr(sys, "_current_frames"):
        return True
    frame: FrameType | None = None
    is_found = False
    frames = list(frames_of_threads().values())
    while not is_found and (frames or frame is not None):
        frame = frame.f_back if frame is not None else frames.pop()
        is_found = frame is not None and frame.f_code is _SEARCH
    # The frames include our own: a variable of ours that refers to our frame would keep all callers alive.
    frame = None
    frames.clear()
    return is_found


def _begin_announcement(name: str, foreseen: Collection[Watch] = ()) -> Operation:
    """Note that the caller announces a module; after an interrupt the next look announces the module."""
    return begin(lambda: _announce(name, foreseen), _getframe(1))


def _graver(failure: BaseException | None, error: BaseException) -> BaseException:
    """Return the error to raise of two: the first, but an interrupt before all others."""
    return error if failure is None or (is_interrupt(error) and not is_interrupt(failure)) else failure


def _announce(name: str, foreseen: Collection[Watch] = (), operation: Operation | None = None) -> None:
    """Fire all watches of a module but the foreseen, new ones included; end the execution; raise the first error.

    ``operation``: the noted announcement, which goes on after an interrupt.
    """
    failure: BaseException | None = None
    fired: set[Watch] = set()
    acts: dict[Callable[[], object], None] = {}
    outer, _announcing[get_ident()] = _announcing.get(get_ident()), (Begun(_getframe()), acts)
    while True:
        with _lock:
            module = sys.modules.get(name)
            of_any = () if name.startswith("hookpatch.") else _watches.get(ANY, ())  # our names are not the program's
            watches = [*_of_name(name), *_of_globs(name), *of_any]
            watches.sort(key=lambda watch: watch not in _placing and watch not in _again)  # listeners last
            waiting = [watch for watch in watches if watch not in fired and watch not in foreseen]
            if module is None or not waiting:
                executing.pop(name, None)
                break
        for watch in waiting:
            fired.add(watch)
            try:
                watch.fire(module)
            except BaseException as error:  # raised below: the next plugin gets the module, too
                failure = _graver(failure, error)
    if outer is None:
        _announcing.pop(get_ident(), None)
    else:
        _announcing[get_ident()] = outer
    for act in acts:
        try:
            act()
        except BaseException as error:
            failure = _graver(failure, error)
    if operation is not None and (failure is None or not is_interrupt(failure)):
        end(operation)
    if failure is not None:
        raise failure


class _Finder:
    """The finder on sys.meta_path: puts our loader around the loader found by the other finders."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if unwritten:
            write_notes()
        if (
            name not in _watches
            and not (_again and _of_name(name))
            and not (_has_globs and (ANY in _watches or _of_globs(name)))
            # A finder before ours may have imported a watched module: announced before the next module is executed.
            # Checked for modules outside of packages alone, since each import of the program comes through here.
            and (
                path is not None
                or sys.meta_path[0] is _Finder
                or not any(watch.module in sys.modules for watch in list(unheard))
            )
        ):
            if not _own_imports or path is not None or not _imports_ours():
                return None
            spec = spec_of(name, None, target, _trusted)
            if spec is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            return spec
        asking = (get_ident(), name)
        if asking in _asking and not _asking[asking].is_interrupted():
            return None
        _asking[asking] = Begun(_getframe())  # another finder may ask our finder again
        try:
            spec = spec_of(name, path, target)
        finally:
            _asking.pop(asking, None)
        if spec is not None and spec.loader is None:
            _notify_when_initialized(spec)  # a namespace package
        elif spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]  # a loader by duck type
        return spec


class _InPlaceOfLoader:
    """Stands in for the real loader of a module."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the real loader (get_code, get_source, is_package...)."""
        if name.startswith("_"):
            raise AttributeError(name)  # copy and pickle ask for private names before ``_loader`` is set
        return getattr(self._loader, name)


class _Loader(_InPlaceOfLoader):
    """Stands in until the module has been executed, then announces the module."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        create = getattr(self._loader, "create_module", None)
        module: ModuleType | None = create(spec) if create is not None else None
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None  # set by importlib before a loader is called
        spec.loader = module.__loader__ = self._loader  # before the module runs: its code may look
        reloading = not _is_initializing(module)
        executing[spec.name] = Begun(_getframe())
        if unheard:
            notify_late()
        foreseen = [watch for watch in [*_watches.get(spec.name, ()), *_of_globs(spec.name)] if watch.is_early]
        operation = _begin_announcement(spec.name, foreseen)
        has_executed = False
        try:
            _ahead[spec.name] = executing[spec.name]
            for watch in foreseen:
                watch.fire(module)
            _ahead.pop(spec.name, None)
            if (execute := _executors.get(spec.name)) is not None:
                execute(self._loader, module)
            else:
                self._loader.exec_module(module)
            has_executed = True
            _announce(spec.name, foreseen, operation)
        except BaseException as error:
            # The module stays imported, with new values from before the error, or as an interrupt left them.
            if reloading and (not has_executed or is_interrupt(error)):
                _announce(spec.name, foreseen, operation)
            executing.pop(spec.name, None)
            end(operation)
            raise
        finally:
            _ahead.pop(spec.name, None)


def _is_initializing(module: ModuleType) -> bool:
    # Read as importlib itself does (_bootstrap._find_and_load); through vars, for modules that fetch attributes lazily.
    present = spec(module)
    if getattr(present, "_initializing", False) is not True:
        return False
    # Without a lock no thread is importing the module: importlib was interrupted at the very end.
    return not _HAS_LOCKS or getattr(present, "name", None) in _module_locks


# By module: an interrupt may come before the first line of the call that ends the import of a namespace package.
_loading: Final[dict[str, Operation]] = {}


class _WatchedSpec(_BootstrapSpec):  # type: ignore[misc]  # Any: typeshed has no such module
    """The class of a spec until importlib ends the import of the module.

    Naughty, and the only way to notice an import begun before our finder was in place, or a namespace package, which
    has no loader. importlib keeps the spec in a local variable and sets ``_initializing`` to False at the very end. The
    original class is restored before the watches fire.
    """

    @property
    def _initializing(self) -> bool:
        return bool(self.__dict__["_initializing"])

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        if value:
            _loading[self.name] = begin(lambda: _announce(self.name), _getframe(1))
            self.__dict__["_initializing"] = value
            return
        try:
            self._end_import()
        except BaseException as error:
            if is_interrupt(error):
                finish_interrupted()  # as in ``notify_late``
            raise

    def _end_import(self) -> None:
        executing[self.name] = Begun(_getframe())  # until all watches have fired
        operation = _begin_announcement(self.name)
        if (loading := _loading.pop(self.name, None)) is not None:
            end(loading)
        self.__dict__["_initializing"] = False
        _stop_notifying(self)
        _announce(self.name, operation=operation)


def _notify_when_initialized(spec: ModuleSpec) -> None:
    if type(spec) is _BootstrapSpec:
        try:
            spec.__class__ = _WatchedSpec
        except TypeError:  # not possible in this Python: ``notify_late`` finds the module
            return


def _stop_notifying(spec: ModuleSpec) -> None:
    if type(spec) is _WatchedSpec:
        spec.__class__ = _BootstrapSpec


# --- the files of hookpatch: a single copy in a process, with builtins of its own


_OURS: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep


def _find_ours(folder: str) -> Any:
    """Return the finder of a folder of hookpatch, as a function on sys.path_hooks does."""
    if f"{folder}{os.sep}".startswith(_OURS):
        for hook in sys.path_hooks:
            if hook is not _find_ours:
                try:
                    return _keeping(hook(folder))
                except ImportError:
                    continue
    raise ImportError(folder)


def _keeping(finder: Any) -> Any:
    """Make a finder find the files of hookpatch that were imported before, and load others; return the finder.

    A file imported twice would not know the sessions and sites of the first time.
    """
    find = finder.find_spec

    def find_spec(name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        module = _first(name)
        spec: ModuleSpec | None = find(name, target) if module is None else None
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _OwnLoader(spec.loader)  # type: ignore[assignment]  # a loader by duck type
        if module is not None:
            loader, is_package = _KeepingLoader(module, target is not None), hasattr(module, "__path__")
            spec = _BootstrapSpec(name, loader, origin=module.__file__, is_package=is_package)
        return spec

    finder.find_spec = find_spec
    return finder


def _first(name: str) -> ModuleType | None:
    """Return a module of the first copy of hookpatch, in sys.modules or not; None if not imported yet."""
    module = vars(sys).get("_hookpatch", (None,))[0]
    for part in name.split(".")[1:]:
        if not issubclass(type(module), type(sys)):
            return None
        module = vars(module).get(part)  # importlib sets a module in its package at the end of the import
    return module if getattr(module, "__name__", "") == name else None


class _OwnLoader(_InPlaceOfLoader):
    """Gives a file of hookpatch the builtins of hookpatch, which no patch changes."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = type(sys)(spec.name)
        vars(module)["__builtins__"] = __builtins__
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        for arrival in on_own_file:
            arrival(module)


# Called with each module of hookpatch that was executed just now, perhaps inside a block.
on_own_file: Final[list[Arrival]] = []


class _KeepingLoader(_InPlaceOfLoader):
    """Stands in for the loader of a module that was imported before: executes nothing."""

    def __init__(self, module: ModuleType, is_reload: bool) -> None:
        super().__init__(module.__loader__)
        self._module = module
        self._facts = {name: value for name, value in vars(module).items() if name.startswith("__")}
        self._is_reload = is_reload

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._facts)  # importlib has set a new spec and loader
        if self._is_reload:
            from hookpatch.errors import SecondCopyWarning, warn

            warn(
                SecondCopyWarning(module.__name__, vars(sys)["_hookpatch"][0]._words(), is_reload=True),
                past=["_pytest"],
            )


sys.path_hooks.insert(0, _find_ours)
for _folder, _finder in [*sys.path_importer_cache.items()]:
    if _finder is not None and f"{_folder}{os.sep}".startswith(_OURS):
        _keeping(_finder)

if hasattr(os, "register_at_fork"):
    # Otherwise a forked child could inherit a lock held by another thread of its parent, for ever.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
