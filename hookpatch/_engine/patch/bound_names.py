"""Find the names that modules bound from another module's name, by their source: ``from shop import LIMIT``.

For numbers, texts and similar values: identity does not show the holders of a plain value.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator
from importlib.util import resolve_name
from inspect import signature
from types import ModuleType
from typing import Any

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import ErrorsOfCode
from hookpatch._engine.patch.describe import describe


def bound_from(module: str, name: str, is_old: Callable[[Any], bool]) -> list[str]:
    """Return the names, as ``module:name``, that were bound from a module's name and still hold the old value.

    Args:
        module: the module that owns the name.
        name: the name.
        is_old: returns True for the name's old value.

    Names bound from a found name count as well. Only modules with readable source are found.
    """
    holding = {
        holder.__name__: holder
        for _, holder in imports.modules()
        if holder.__name__ != module and any(map(is_old, list(vars(holder).values())))
    }
    addresses: list[str] = []
    sources = [(module, name)]
    for source in sources:  # grows
        for importer in holding.values():
            for bound in _names_from(importer, *source):
                if is_old(vars(importer).get(bound)) and (importer.__name__, bound) not in sources:
                    sources.append((importer.__name__, bound))
                    addresses.append(f"{importer.__name__}:{bound}")
    return addresses


def is_copied(value: Any, module: str, name: str, sources: Collection[tuple[str, str]]) -> bool:
    """Return True if a name of a module holds a value because of a copy from one of the names in ``sources``.

    A module that imports the value's own module, or its package, may have the value from there: the source decides.
    """
    holder, top = imports.module_named(module), str(getattr(value, "__module__", None)).partition(".")[0].lstrip("_")
    inside = r"\.|" if module.partition(".")[0] == top else ""
    from_home = rf"\b(?:from|import)\s+(?:{inside}{re.escape(top)}\b)"
    if top != "builtins" and holder is not None and not re.search(from_home, _source_of(holder)):
        return True
    return is_imported_from(value, module, name, sources)


def is_imported_from(value: Any, module: str, name: str, sources: Collection[tuple[str, str]]) -> bool:
    """Return True if the source of a module imports a value, under a name, from one of the names in ``sources``."""
    holding = [(module, name)] if name else []
    for importer, bound in holding:  # grows
        for origin in _origins_of(importer, bound):
            if origin in sources:
                return True
            if origin not in holding and _value_of(*origin) is value:
                holding.append(origin)
    return False


def baked_in(owner: type, name: str, is_old: Callable[[Any], bool]) -> list[str]:
    """Return, in words, the default of a dataclass's ``__init__`` that holds the old value of a class attribute."""
    function = vars(owner).get("__init__")
    if function is None or name not in vars(owner).get("__dataclass_fields__", ()):
        return []
    parameter = signature(function).parameters.get(name)
    is_baked = parameter is not None and is_old(parameter.default)
    return [f"the default '{name}' of {describe(owner)}.__init__"] if is_baked else []


def _names_from(importer: ModuleType, module: str, name: str) -> Iterator[str]:
    """Yield the names to which the source of a module binds a name of another module."""
    text = _source_of(importer)
    # To parse takes a hundred times as long as to search.
    if not re.search(rf"\bfrom\s+(\.+|[.\w]*\b{module.rpartition('.')[2]})\s+import\b", text):
        return
    for node in _imports_in(text):
        if _module_of(node, importer) == module:
            yield from (alias.asname or name for alias in node.names if alias.name in (name, "*"))


def _origins_of(module: str, bound: str) -> Iterator[tuple[str, str]]:
    """Yield the modules and names from which the source of a module may bind a name."""
    importer = imports.module_named(module)  # may be executed just now
    if importer is None:
        return
    for node in _imports_in(_source_of(importer)):
        for alias in node.names:
            if (alias.asname or alias.name) in (bound, "*") and (origin := _module_of(node, importer)) is not None:
                yield origin, bound if alias.name == "*" else alias.name


def _value_of(module: str, name: str) -> Any:
    loaded = imports.loaded(module)
    return vars(loaded).get(name) if issubclass(type(loaded), ModuleType) else None


def _imports_in(text: str) -> list[ast.ImportFrom]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def _module_of(node: ast.ImportFrom, importer: ModuleType) -> str | None:
    """Return the full name of the module named in an import statement."""
    try:
        return resolve_name("." * node.level + (node.module or ""), vars(importer).get("__package__"))
    except (ImportError, TypeError):
        return None


def _source_of(module: ModuleType) -> str:
    spec: Any = vars(module).get("__spec__")
    with ErrorsOfCode(AttributeError, ImportError, OSError, TypeError, UnicodeDecodeError):
        return spec.loader.get_source(spec.name) or ""
    return ""
