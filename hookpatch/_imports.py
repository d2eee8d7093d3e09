"""The finder and its watches: hear each time that a module has been executed.

The only file that touches sys.meta_path and sys.modules. Own, not wrapt's: that one takes module locks inside
find_spec, which deadlocks when threads import at once, forgets its hook after the first import (a reload loses the
patch), cannot be cancelled, and runs on half-imported modules.

Rules of a finder: never import in find_spec, never take a lock there, ask the other finders directly.

It runs at interpreter start, so it imports nothing that is not there already.

Long because each start of a patched interpreter pays for each file, and all of them read this one: what is known of
modules, the watches, and the finder, loader and spec through which an import goes share one lock and one set of names.
"""

from __future__ import annotations

import _frozen_importlib
import builtins
import os
import sys
from _frozen_importlib import BuiltinImporter, ModuleSpec
from _frozen_importlib_external import PathFinder
from _thread import RLock, get_ident
from _thread import _local as local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from types import FrameType, ModuleType
    from typing import Any, Final, TypeAlias

    Arrival: TypeAlias = Callable[[ModuleType], None]

_bootstrap: Final[Any] = _frozen_importlib  # Any: typeshed does not know the locks of imports
_lock: Final = RLock()  # held for a change of the watches; nothing foreign runs meanwhile, but for finalizers
_watches: Final[dict[str, dict[Watch, None]]] = {}  # by module, in order; read without the lock
_listeners: Final[dict[str, dict[Watch, None]]] = {}  # likewise: those that are no reason for the finder to be there
_holds: Final[list[None]] = []  # an entry for each other reason
_executing: set[str] = set()
_trusted: list[str] | None = None
_own_imports: Final[set[int]] = set()  # of threads that import something for ourselves at this moment
_asking: Final = local()


class Watch:
    """A standing wish to hear of a module's import, reloads and new imports included; cancel it when done.

    Attributes:
        module: the module's name.
        is_early: True for a wish to hear of it before it is executed.
    """

    __slots__ = ("_arrival", "is_early", "module")

    def __init__(self, module: str, arrival: Arrival, is_early: bool = False) -> None:
        self.module: Final = module
        self.is_early: Final = is_early
        self._arrival: Arrival | None = arrival

    def cancel(self) -> None:
        """Never hear of it again; a second call does nothing."""
        self._arrival = None
        _forget(self)

    def fire(self, module: ModuleType) -> None:
        """Tell that the module has been executed."""
        arrival = self._arrival
        if arrival is not None:
            arrival(module)

    def __repr__(self) -> str:
        return f"<Watch of {self.module}, {'cancelled' if self._arrival is None else 'waiting'}>"


def foresee(module: str, arrival: Arrival) -> Watch:
    """Call ``arrival(module)`` each time the module is about to be executed: with a namespace package, has been made.

    Args:
        module: the name of a module that has not ``begun``.
        arrival: what to call; what it raises is raised by the import.
    """
    return _noted(Watch(module, arrival, is_early=True))


def watch(module: str, arrival: Arrival) -> Watch:
    """Call ``arrival(module)`` each time the module has been executed from now on.

    A module that is half imported or half reloaded at this moment counts as one that comes. One that is there already
    does not: ask ``present`` for it, afterwards.
    """
    wish = _noted(Watch(module, arrival))
    here = sys.modules.get(module)
    if here is not None and module not in _executing and _is_initializing(here):
        spec = vars(here)["__spec__"]
        _tell_when_initialized(spec)
        if not _is_initializing(here):
            _tell_no_more(spec)  # its import ended in between: it is ``present`` now
    return wish


def listen(module: str, arrival: Arrival) -> None:
    """Call ``arrival(module)`` each time the module has been executed while the finder is there, whoever it is for."""
    _listeners.setdefault(module, {})[Watch(module, arrival)] = None


def hold() -> None:
    """Have the finder there, for those who listen, until it is released as often."""
    with _lock:
        _holds.append(None)
        _place_finder()


def release() -> None:
    """Have it there for that no more."""
    with _lock:
        _holds.pop()
        _place_finder()


def present(module: str) -> ModuleType | None:
    """Return the module if it is imported, to its end; None while it is, or is reloaded, and a watch will tell."""
    if module not in sys.modules and module in _bootstrap._module_locks:
        # Another thread has found it but not begun to execute it, too early for our finder: wait as an import does.
        _bootstrap._lock_unlock_module(module)
    here = sys.modules.get(module)
    return None if here is None or module in _executing or _is_initializing(here) else here


def loaded(module: str) -> ModuleType | None:
    """Return the module if it is imported, to its end; None else. Waits for nobody."""
    here = sys.modules.get(module)
    return None if here is None or _is_initializing(here) else here


def named(module: str) -> ModuleType | None:
    """Return what is imported under a name, or is being imported; None if there is nothing."""
    return sys.modules.get(module)


def begun(module: str) -> bool:
    """Tell whether a module is imported, or is being imported."""
    return module in sys.modules


def spec_of(module: str, folders: Sequence[str] | None) -> ModuleSpec | None:
    """Return where the finders find a module, None if they do not: nothing is imported.

    Args:
        module: its full name.
        folders: those of the package that it is in, None for one that is in none.
    """
    return _find(module, folders, None)


def trust() -> None:
    """From now on look for what hookpatch needs itself where it is looked for now.

    At the start of the interpreter the program's own folder is not on ``sys.path`` yet: what lies there under the name
    of a library of ours is not to be run because of us.
    """
    global _trusted
    _trusted = list(sys.path)


class for_ourselves:
    """Have this thread import from trusted places alone, if there are such, for a block."""

    __slots__ = ("_is_first",)

    def __enter__(self) -> None:
        self._is_first = _trusted is not None and get_ident() not in _own_imports
        if self._is_first:
            hold()  # so that our finder is asked
            _own_imports.add(get_ident())

    def __exit__(self, *failure: object) -> None:
        if self._is_first:
            _own_imports.discard(get_ident())
            release()


def new_main() -> ModuleType:
    """Return a new module that is ``__main__`` from now on, as the interpreter makes one for a program."""
    main = type(sys)("__main__")
    vars(main).update(__builtins__=builtins, __loader__=BuiltinImporter)
    sys.modules["__main__"] = main
    return main


def fetch(module: str) -> ModuleType:
    """Return the module, imported now if it is not yet: for what a slot's key needs, never for a target."""
    __import__(module)
    return sys.modules[module]


def modules() -> list[tuple[str, ModuleType]]:
    """Return the modules that are imported, by name; what else lies there, such as a lazy stand-in, is left out."""
    return [(name, module) for name, module in list(sys.modules.items()) if issubclass(type(module), type(sys))]


def names() -> frozenset[str]:
    """Return the names of the modules that are imported."""
    return frozenset(sys.modules)


def watched() -> list[str]:
    """Return the modules that somebody waits for."""
    return sorted(_watches)


def pending() -> list[Watch]:
    """Return the watches that have not been cancelled, by their modules' names."""
    return [wish for _, wishes in sorted(_watches.items()) for wish in wishes]


def is_held() -> bool:
    """Tell whether the finder is to be there though nobody waits for a module."""
    return bool(_holds)


def finders(ours: bool) -> list[object]:
    """Return what stands on sys.meta_path: our finder if it does, or all others."""
    return [finder for finder in sys.meta_path if (finder is _Finder) is ours]


def _noted(wish: Watch) -> Watch:
    with _lock:
        while wish not in _watches.get(wish.module, ()):  # again if a session that was collected took the entry away
            _watches.setdefault(wish.module, {})[wish] = None
        _place_finder()
    return wish


def _forget(wish: Watch) -> None:
    with _lock:
        wishes = _watches.get(wish.module, {})
        wishes.pop(wish, None)
        if not wishes:
            _watches.pop(wish.module, None)
        _place_finder()


def _place_finder() -> None:
    """Have the finder on sys.meta_path while there is a reason, and only then."""
    while (_Finder in sys.meta_path) != bool(_watches or _holds):
        if _watches or _holds:
            sys.meta_path.insert(0, _Finder)  # a class with find_spec is a finder
        else:
            _take_off()


def _take_off() -> None:
    """Take the finder off sys.meta_path.

    An import that goes through the list at this moment would skip a finder if ours were deleted from the list, and not
    find a module that is there. So it keeps the list that it has, and the others get a new one. Mostly there is none,
    and the list stays the object that it was.
    """
    searched = sys.meta_path
    sys.meta_path = [finder for finder in searched if finder is not _Finder]
    # Who goes through it has it twice, as a variable and in the loop. Without that there is no need to look: we have
    # it twice, too, and before Python 3.12 the interpreter keeps it.
    if sys.getrefcount(searched) < 4 or not _is_searching():
        searched[:] = sys.meta_path
        sys.meta_path = searched


def _is_searching() -> bool:
    """Tell whether some thread, this one too, is asking the finders at this moment."""
    at: FrameType | None = None
    is_found = False
    frames = list(sys._current_frames().values())
    while not is_found and (frames or at is not None):
        at = at.f_back if at is not None else frames.pop()
        is_found = at is not None and at.f_code is _bootstrap._find_spec.__code__
    # One of them is this very frame: left in its own variables it would keep itself, and all that called us, alive.
    at = None
    frames.clear()
    return is_found


def _announce(name: str, foreseen: Collection[Watch] = ()) -> None:
    """Tell all who wait for this module, also those that come meanwhile; it is no longer executed when all know.

    The first error is raised after all have been told.

    Args:
        name: the module's name.
        foreseen: those that have been told before it was executed.
    """
    failure: BaseException | None = None
    told: set[Watch] = set()
    while True:
        with _lock:
            module = sys.modules.get(name)
            wishes = [*_watches.get(name, ()), *_listeners.get(name, ())]
            waiting = [wish for wish in wishes if wish not in told and wish not in foreseen]
            if module is None or not waiting:
                _executing.discard(name)
                break
        for wish in waiting:
            told.add(wish)
            try:
                wish.fire(module)
            except BaseException as error:  # raised below: one plugin's failure must not keep the next from its module
                failure = failure or error
    if failure is not None:
        raise failure


class _Finder:
    """On sys.meta_path while there is a reason: finds nothing itself, puts a loader of ours before the real one."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _watches and name not in _listeners:
            is_own = _own_imports and path is None and get_ident() in _own_imports
            return _find_trusted(name, target) if is_own else None
        asking: tuple[str, ...] = getattr(_asking, "names", ())
        if name in asking:
            return None
        _asking.names = (*asking, name)  # a finder that asks the others, as we do, would ask us again
        try:
            spec = _find(name, path, target)
        finally:
            _asking.names = asking
        if spec is not None and spec.loader is None:
            _tell_when_initialized(spec)  # a namespace package
        elif spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]  # a loader by duck type
        return spec


def _find_trusted(name: str, target: ModuleType | None) -> ModuleSpec:
    """Return what the other finders find in trusted folders alone."""
    spec = _find(name, None, target, _trusted)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return spec


def _find(
    name: str, path: Sequence[str] | None, target: ModuleType | None, folders: Sequence[str] | None = None
) -> ModuleSpec | None:
    """Return what the other finders find; ``folders``: where PathFinder is to look, if not in ``path``."""
    for finder in tuple(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        if finder is not _Finder and find is not None:
            spec: ModuleSpec | None = find(
                name, path if folders is None or finder is not PathFinder else folders, target
            )
            if spec is not None:
                return spec
    return None


class _Loader:
    """Stands before a module's real loader until the module has been executed, and then tells of it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        create = getattr(self._loader, "create_module", None)
        module: ModuleType | None = create(spec) if create is not None else None
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None  # importlib sets it before it calls a loader
        spec.loader = module.__loader__ = self._loader  # before the module runs: its code may look
        reloading = not _is_initializing(module)
        _executing.add(spec.name)
        foreseen = [wish for wish in list(_watches.get(spec.name, ())) if wish.is_early]
        try:
            for wish in foreseen:
                wish.fire(module)
            self._loader.exec_module(module)
        except BaseException:
            if reloading:
                _announce(spec.name, foreseen)  # the module stays, and what was executed of it before the error is new
            _executing.discard(spec.name)
            raise
        _announce(spec.name, foreseen)

    def __getattr__(self, name: str) -> Any:
        """Answer as the real loader for all the rest (get_code, get_source, is_package...)."""
        if name.startswith("_"):
            raise AttributeError(name)  # copy and pickle ask for such names before there is a real loader
        return getattr(self._loader, name)


def _is_initializing(module: ModuleType) -> bool:
    # Read as importlib itself does (_bootstrap._find_and_load); through vars, for modules that fetch attributes lazily.
    spec = getattr(module, "__dict__", {}).get("__spec__")
    return getattr(spec, "_initializing", False) is True


class _ToldSpec(ModuleSpec):
    """The class of a spec until importlib says that the import it is for has ended.

    Naughty, and the only way to hear of an import that began before us, or that has no loader of its own (a namespace
    package): importlib keeps the spec in a local variable and sets ``_initializing`` to False at the very end. The
    class goes back before anybody is told.
    """

    @property
    def _initializing(self) -> bool:
        return bool(vars(self)["_initializing"])

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        vars(self)["_initializing"] = value
        if not value:
            _tell_no_more(self)
            _announce(self.name)


def _tell_when_initialized(spec: ModuleSpec) -> None:
    if type(spec) is ModuleSpec:
        spec.__class__ = _ToldSpec


def _tell_no_more(spec: ModuleSpec) -> None:
    if type(spec) is _ToldSpec:
        spec.__class__ = ModuleSpec  # type: ignore[assignment]  # back to what it was


if hasattr(os, "register_at_fork"):
    # A forked child would inherit the lock as some other thread of its parent held it, for ever.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
