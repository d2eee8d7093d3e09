"""Find the file and line of a value's definition, and the distribution by the lists of installed files."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from functools import cache, lru_cache, partial, partialmethod
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlparse

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.describe import PLAIN
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.slot import ABSENT, KEPT, along_mro, inner
from hookpatch._inspect.audit.snapshot import module_of_class, names_of_class, names_of_module

PYTHON: Final = "Python"  # the standard library, in place of a distribution
# The program may have replaced these, even under names of this module: no value is read under its name.
_KEPT: Final = SimpleNamespace(open=open, listdir=os.listdir, realpath=os.path.realpath)
_LIBRARY: Final = [os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")]
_FOLDERS: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_MAKERS: Final = (PYTHON, "wrapt", "decorator", "pluggy")  # distributions with makers of wrappers
_PROGRAM: Final = "__main__"
_DEPTH: Final = 3
_NAME: Final = re.compile(r"\s*([\w.-]+)")
_qualname_of_class: Final[Any] = type.__dict__["__qualname__"].__get__
_SEPARATORS: Final = re.compile(r"[-_.]+")


class Origin(NamedTuple):
    """Where a value was defined. ``distribution`` is None outside of distributions, as for the program's own files."""

    distribution: str | None = None
    file: str | None = None
    line: int | None = None

    @property
    def is_known(self) -> bool:
        """Return True if the file or the distribution is known."""
        return self.distribution is not None or self.file is not None

    @property
    def place(self) -> str | None:
        """Return ``file:line``, or the file alone; None if unknown."""
        return f"{self.file}:{self.line}" if self.file is not None and self.line else self.file


def origin_of(value: Any, original: Any = ABSENT, depth: int = _DEPTH) -> Origin:
    """Return where a value was defined; of a wrapper made by wrapt or functools, where the wrapping function was.

    Args:
        value: the value.
        original: the value in the slot before, which a wrapper may hold: it is not the origin.
        depth: how many wrappers to look into.
    """
    value = inner(value)
    kind = type(value)
    if kind is CodeType:
        return _of_file(value.co_filename, value.co_firstlineno)
    if kind is FunctionType:
        code, name = value.__code__, value.__globals__.get("__name__")
        has_place = code.co_filename[:1] != "<" or name == _PROGRAM  # a cell, or the words after -c, are in no file
        own = _of_file(code.co_filename, code.co_firstlineno) if has_place else of_module(name)
        return (own.distribution in _MAKERS and depth and _inside(value, original, depth)) or own
    if issubclass(kind, MethodType):
        return origin_of(value.__func__, original, depth)
    if issubclass(kind, (partial, partialmethod)):
        return origin_of(value.func, original, depth)
    if issubclass(kind, property):
        return origin_of(value.fget, original, depth)
    if issubclass(kind, type):
        stated, defined = of_module(module_of_class(value)), _of_methods(value)
        return stated if defined.distribution in (None, stated.distribution) else defined
    if issubclass(kind, ModuleType):
        return of_module(names_of_module(value).get("__name__"), value)
    if kind in PLAIN or kind in (list, dict, tuple, set, frozenset, object):
        return Origin()
    if kind is BuiltinFunctionType and value.__module__ is None:  # a bound method of C code
        owner = value.__self__
        return of_module(module_of_class(owner if issubclass(type(owner), type) else type(owner)))
    if isinstance(along_mro(kind, "_self_wrapper"), KEPT):
        wrapper = AttributeSlot(value, "_self_wrapper").read()
        if wrapper is not ABSENT and depth:
            return origin_of(wrapper, original, depth - 1)
    home = AttributeSlot(value, "__module__").read() if isinstance(along_mro(kind, "__module__"), KEPT) else None
    if type(home) is not str:
        bound = along_mro(kind, "__objclass__")
        owner = value.__objclass__ if isinstance(bound, KEPT) else kind
        home = module_of_class(owner)
    return of_module(home)


def decorated(value: Any) -> Any:
    """Return the function inside of all wrappers by ``functools.wraps``; any other value unchanged."""
    function = inner(value)
    while type(function) is FunctionType and "__wrapped__" in vars(function):
        function = inner(vars(function)["__wrapped__"])
    return function


def is_foreign(origin: Origin, home: Origin) -> bool:
    """Return True if another distribution than the home's defines a value, or another file of the program."""
    if origin.distribution is None and home.distribution is None:
        return origin.file is not None and origin.file != home.file
    return origin.is_known and origin.distribution not in (home.distribution, PYTHON)


def is_completion(home: Origin, before: Any, after: Any) -> bool:
    """Return True if a foreign author fills in its own stand-in, as pydantic does with ``__pydantic_validator__``."""
    author, origin = origin_of(type(before)), origin_of(type(after))
    is_author = is_foreign(author, home) and is_foreign(origin, home)
    return is_author and requires(str(author.distribution), str(origin.distribution))


def _of_methods(cls: type) -> Origin:
    """Return where the first function written in a class is: a package may rename the module of a foreign class."""
    for name, value in [*names_of_class(cls).items()]:
        code = value.__code__ if type(value) is FunctionType else None
        if code is not None and code.co_qualname == f"{_qualname_of_class(cls)}.{name}" and code.co_filename[:1] != "<":
            return _of_file(code.co_filename, code.co_firstlineno)
    return Origin()


def _inside(function: FunctionType, original: Any, depth: int) -> Origin | None:
    """Return the origin of the first function, in a closure or as a default, that no maker of wrappers defined."""
    for cell in function.__closure__ or ():
        try:
            content = inner(cell.cell_contents)
        except ValueError:  # an empty cell
            continue
        if content is original or not (
            type(content) is FunctionType or issubclass(type(content), (partial, MethodType))
        ):
            continue
        origin = origin_of(content, original, depth - 1)
        if origin.is_known and origin.distribution not in _MAKERS:
            return origin
    return None


@cache
def _of_file(file: str, line: int | None = None) -> Origin:
    return Origin(distribution_of(file), file, line)


def of_place(place: str) -> Origin:
    """Return the origin of a statement, written as ``file:line``."""
    file, _, line = place.rpartition(":")
    return _of_file(file, int(line))


def of_module(name: Any, module: ModuleType | None = None) -> Origin:
    """Return where a module was defined."""
    if type(name) is not str:
        return Origin()
    module = module if module is not None else imports.module_named(name)
    is_module = issubclass(type(module), ModuleType)
    file = names_of_module(module).get("__file__") if is_module else None
    if type(file) is str:
        return _of_file(file)
    if name == _PROGRAM:
        return Origin(file=_PROGRAM)
    top = name.partition(".")[0]
    return Origin(PYTHON) if top in sys.stdlib_module_names or top in sys.builtin_module_names else Origin()


@cache
def distribution_of(file: str) -> str | None:
    """Return the distribution that lists a file in its RECORD, ``PYTHON`` for the standard library; None if neither."""
    if file[:1] == "<":
        return PYTHON if file.startswith("<frozen ") else None
    path = _KEPT.realpath(file)
    if not any(folder in path for folder in _FOLDERS):
        if any(path.startswith(library) for library in _LIBRARY):
            return PYTHON
        return next((name for folder, name in _editable() if path.startswith(folder)), None)
    for folder in _folders():
        if path.startswith(folder):
            return _records(folder).get(path[len(folder) :].replace(os.sep, "/").encode())
    return None


@lru_cache(maxsize=1)
def _folders() -> list[str]:
    real = {_KEPT.realpath(folder or ".") + os.sep for folder in sys.path}
    return sorted(real, key=len, reverse=True)


@cache
def _records(folder: str) -> dict[bytes, str]:
    """Return the name of the distribution of each file in a folder, by the RECORD of the distributions."""
    distributions: dict[bytes, str] = {}
    for info in sorted(_infos(folder), reverse=True):  # of two owners the first counts
        if record := _content(f"{info}/RECORD"):
            files = [line.partition(b",")[0] for line in record.replace(b'"', b"").splitlines()]
            distributions.update(dict.fromkeys(files, _distribution_name(info)))
    return distributions


@lru_cache(maxsize=1)
def _editable() -> list[tuple[str, str]]:
    """Return the folder of each distribution that is installed editable, and its name."""
    folders = []
    for folder in _folders():
        for info in _infos(folder):
            text = _content(f"{info}/direct_url.json").decode()
            if '"editable": true' in text or '"editable":true' in text:
                url = text.partition('"url"')[2].partition('"')[2].partition('"')[0]
                folders.append((_KEPT.realpath(unquote(urlparse(url).path)) + os.sep, _distribution_name(info)))
    return sorted(folders, reverse=True)


_versions: Final[dict[str, str]] = {}
_requirements: Final[dict[str, set[str]]] = {}  # by name in lower case with single hyphens


def version_of(distribution: str | None) -> str | None:
    """Return the version of a distribution that ``distribution_of`` has named."""
    return _versions.get(distribution or "")


def requires(distribution: str, other: str) -> bool:
    """Return True if a distribution requires another, directly, by an extra, or by its requirements."""
    met: set[str] = set()
    ahead = [_normal(distribution)]
    while ahead:
        name = ahead.pop()
        if name not in met:
            met.add(name)
            ahead += _requirements.get(name, ())
    return _normal(other) in met


def _normal(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()


def _distribution_name(info: str) -> str:
    """Return the name of a distribution as its metadata writes it, and note its version and requirements.

    Works without importlib.metadata: at the end of a program, its import could run patched code.
    """
    facts = {"Name": os.path.basename(info).partition("-")[0], "Version": ""}
    required = set()
    for line in _content(f"{info}/METADATA").decode(errors="replace").splitlines():
        key, colon, value = line.partition(":")
        if colon and key in facts:
            facts[key] = value.strip()
        elif key == "Requires-Dist" and (name := _NAME.match(value)):
            required.add(_normal(name[1]))
        elif not line:
            break
    _versions[facts["Name"]] = facts["Version"]
    _requirements[_normal(facts["Name"])] = required
    return facts["Name"]


def _infos(folder: str) -> list[str]:
    """Return the folders with the metadata of the distributions in a folder."""
    try:
        return [f"{folder}{name}" for name in _KEPT.listdir(folder) if name.endswith(".dist-info")]
    except OSError:
        return []


def _content(file: str) -> bytes:
    """Return the content of a file; nothing of an unreadable one."""
    try:
        with _KEPT.open(file, "rb") as stream:
            return bytes(stream.read())
    except OSError:
        return b""
