"""Find the distributions whose values an apply function may write, and the names that its sources mention."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.util import resolve_name
from types import ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._inspect.audit.origin import PYTHON, Origin, of_module, origin_of, requires
from hookpatch._inspect.audit.own_stores import source_of_module
from hookpatch._inspect.audit.snapshot import names_of_module

_WORD: Final = re.compile(r"\w+")


@final
class Authors:
    """The authors of an apply function's patches, as the loaded modules show them.

    Args:
        home: the module of the apply function.
        files: the files of the modules loaded before the function ran.
    """

    def __init__(self, home: str, files: frozenset[str]) -> None:
        self._files: Final = files
        self.distributions: Final = _authors(home)
        self.stored: Final = _stored_by(home)
        self._words: Final[dict[str | None, set[str]]] = {}
        for author, text in _sources(home, self.distributions):
            self._words.setdefault(author, set()).update(_WORD.findall(text))

    def mention(self, name: str, patched: str | None) -> bool:
        """Return True if a source of an author, other than of the patched distribution, has all words of a name."""
        words = {*_WORD.findall(name)}
        return any(words <= known for author, known in self._words.items() if author is None or author != patched)

    def patch_with(self, origin: Origin) -> bool:
        """Return True if a value of this origin is in a slot because of the function.

        The authors may let a requirement patch, or an extension, such as opencensus-ext-threading. A value from a
        file loaded before comes from no import meanwhile.
        """
        author = origin.distribution
        if author in (None, PYTHON) or author in self.distributions or origin.file in self._files:
            return True
        others = [str(other) for other in self.distributions if other not in (None, PYTHON)]
        return any(requires(other, str(author)) or _is_extension(str(author), other) for other in others)


def _is_extension(distribution: str, of: str) -> bool:
    """Return True for a distribution that requires another, and begins with the same word."""
    first, other = (_WORD.match(name) for name in (distribution.replace("_", "-"), of.replace("_", "-")))
    return first is not None and other is not None and first[0] == other[0] and requires(distribution, of)


def _authors(home: str) -> set[str | None]:
    """Return the distributions whose values an apply function may write: its own, and those that its module imports.

    An imported module outside of distributions, such as a file beside the program, counts with its own imports.
    """
    authors, names, seen = {of_module(home).distribution}, [home], {home}
    module = imports.module_named(home)
    if not issubclass(type(module), ModuleType):  # a package may put an object in its place, as snoop does
        authors.add(origin_of(type(module)).distribution)
    while names:
        for name in _imported_by(names.pop()):
            distribution = of_module(name).distribution
            authors.add(distribution)
            if distribution is None and name not in seen:
                seen.add(name)
                names.append(name)
    return authors


def _stored_by(name: str) -> set[str]:
    """Return the attributes and keys that the source of a module sets, by statements or by ``setattr``."""
    stored: set[str] = set()
    for node in _nodes(name):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            stored.add(node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            stored |= {
                word.value for word in [node.slice] if isinstance(word, ast.Constant) and type(word.value) is str
            }
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            stored |= {str(word.value) for word in node.args[1:2] if isinstance(word, ast.Constant)}
    return stored


def _sources(home: str, distributions: set[str | None]) -> Iterator[tuple[str | None, str]]:
    """Yield author and source of the loaded modules of the authors, and of the files that belong to no distribution."""
    for name, module in imports.modules():
        author = of_module(name).distribution
        if name == home or (author in distributions and author != PYTHON):
            yield author, source_of_module(module)


def _nodes(name: str) -> list[ast.AST]:
    """Return the syntax tree of a module as a list; empty without a readable source."""
    module: Any = imports.loaded(name)
    try:
        return [*ast.walk(ast.parse(source_of_module(module)))]
    except (SyntaxError, ValueError):
        return []


def _imported_by(name: str) -> set[str]:
    """Return the modules that the statements of a module import; empty without a readable source."""
    module: Any = imports.loaded(name)
    nodes = _nodes(name)
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            package = str(names_of_module(module).get("__package__") or "")
            source = resolve_name("." * node.level + (node.module or ""), package) if package or not node.level else ""
            names |= {source, *(f"{source}.{alias.name}" for alias in node.names)}
    return {imported for imported in names if imports.loaded(imported) is not None}
