"""Find values of a module's own file that the module did not leave under their names.

Many modules of the standard library define a class in Python, and take a class of C in its place where there is one: a
program may put the class of Python back. Other programs execute a module a second time, with other modules beneath, and
use functions and classes of the second execution in the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._engine.slots.slot import ABSENT, inner
from hookpatch._inspect.audit.kinds import OF_PYTHON, is_code
from hookpatch._inspect.audit.origin import PYTHON, origin_of
from hookpatch._inspect.audit.running.definitions import Definitions, read_definitions
from hookpatch._inspect.audit.snapshot import OwnerNote, Snapshot, module_of_class, names_of_class

_qualified_name: Final[Any] = type.__dict__["__qualname__"].__get__


@final
class Twins:
    """The values of a module's own file.

    Args:
        name: the name of the module.
        names: the names of the module.
        file: the file of the module.
        read: returns the definitions in the source, None without a source.
    """

    def __init__(self, name: str, names: Mapping[str, Any], file: str, read: Callable[[], Definitions | None]) -> None:
        self._name: Final = name
        self._names: Final = names
        self._file: Final = file
        self._read: Final = read

    def set_later(self) -> Iterator[tuple[str, Any]]:
        """Yield each name with a value set later, and the former value; ABSENT if unknown."""
        values = {
            name: value for name, value in [*self._names.items()] if name not in OF_PYTHON and self._is_own(value)
        }
        copies = {name for name, value in values.items() if self._is_copy(value)}
        if 2 * len(copies) > len(values):
            copies = set()  # all names were copied from another module object
        times: dict[int, int] = {}
        for value in values.values():
            times[id(value)] = times.get(id(value), 0) + 1
        for name, value in values.items():
            if name in copies or times[id(value)] > 1 or not _is_written_as(name, value):
                source = self._read()
                if source is not None and source.may_bind(name):
                    former = self._of_c(source, name, value)
                    is_other = source.is_defined(name) and not _is_written_as(name, value)
                    if former is not ABSENT or is_other or name in copies:
                        yield name, former

    def _is_own(self, value: Any) -> bool:
        value = inner(value)
        if type(value) is FunctionType:
            return value.__code__.co_filename == self._file
        return issubclass(type(value), type) and module_of_class(value) == self._name

    def _is_copy(self, value: Any) -> bool:
        """Return True for a function or class of another execution of the file."""
        own = [member for member in _functions(value) if member.__code__.co_filename == self._file]
        return bool(own) and own[0].__globals__ is not self._names

    def _of_c(self, source: Definitions, name: str, value: Any) -> Any:
        """Return the value of C code that the last statement for a name copies; else ABSENT."""
        bindings = [binding for binding in source.bindings(name) if not binding.is_fallback]
        copied = bindings[-1].copied if bindings else None
        module, former = (None, ABSENT) if copied is None else copied.read(self._names)
        is_of_c = module is not None and is_code(former) and former is not value and not _functions(former)
        return former if is_of_c else ABSENT


def _functions(value: Any) -> list[FunctionType]:
    """Return the functions of a class, or a function itself."""
    value = inner(value)
    members = [*names_of_class(value).values()] if issubclass(type(value), type) else [value]
    return [member for member in members if type(member) is FunctionType]


def _is_written_as(name: str, value: Any) -> bool:
    """Return False if the code of a function, or of all methods of a class, is in a statement of another name."""
    if issubclass(type(value), type) and _qualified_name(value) == name:
        return True
    written = {function.__code__.co_qualname.partition(".")[0] for function in _functions(value)}
    return not written or name in written


def note_in_packages(snapshot: Snapshot) -> None:
    """Note a value of Python in a patched module also in the packages that have imported the name from the module.

    A package imports a module of its own before any patch of the module, unless the module's import itself patches. So
    the rule is for values of the standard library alone.
    """
    for note in [*snapshot.modules.values()]:
        for name, value in note.names.items():
            if (
                note.before.get(name, ABSENT) is not value
                and is_code(value)
                and origin_of(value).distribution == PYTHON
            ):
                _note_above(snapshot, note, name, value)


def _note_above(snapshot: Snapshot, note: OwnerNote, name: str, value: Any) -> None:
    child = str(note.names.get("__name__"))
    while parent := child.rpartition(".")[0]:
        above = snapshot.modules.get(id(imports.module_named(parent)))
        if above is None or above.names.get(name, ABSENT) is not value or above.before.get(name) is not value:
            return
        source = read_definitions(above.names)
        copies = [binding.copied for binding in source.bindings(name)] if source is not None else []
        homes = {None if copied is None else copied.read(above.names)[0] for copied in copies}
        if child not in homes or None in homes:
            return
        above.before[name], child = note.before.get(name, ABSENT), parent
