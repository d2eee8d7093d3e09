"""Find the statements that bind each name, in a module's source. No code of the module runs."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import resolve_name
from types import FunctionType, ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._engine.slots.slot import ABSENT, inner
from hookpatch._inspect.audit.kinds import is_code
from hookpatch._inspect.audit.origin import PYTHON, Origin, origin_of
from hookpatch._inspect.audit.snapshot import names_of_module

DEFINITION: Final = "definition"  # an undecorated ``def`` or ``class``
DECORATED: Final = "decorated"  # a ``def`` or ``class`` under decorators
FROM_PYTHON: Final = "from Python"  # an import from the standard library
OTHERWISE: Final = "otherwise"  # any other statement: no value is known
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_BODIES: Final = ("body", "orelse", "finalbody", "handlers", "cases")


@final
class Definitions:
    """The names bound by the statements of one body: of a module, or of a class.

    Attributes:
        kinds: by name, the kinds of the statements that bind or delete the name.
        always: the names bound by statements that run in each execution of the body.
        nodes: by name, the only ``def`` or ``class``; None if there are several.
        has_star: True if a star import may bind any name.
    """

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.kinds: Final[dict[str, set[str]]] = {}
        self.always: Final[set[str]] = set()
        self.nodes: Final[dict[str, Any]] = {}
        self._decorators: Final[dict[str, list[ast.expr]]] = {}
        # By name, the last import or assignment that only copies a value: module, level, and name there. The module is
        # None for a name of this module.
        self._copied: Final[dict[str, tuple[str | None, int, str]]] = {}
        self._times: Final[dict[str, int]] = {}
        self.has_star = False
        for statement in body:
            self._read(statement, always=True)

    def is_defined(self, name: str) -> bool:
        """Return True if only undecorated definitions bind a name."""
        return self.kinds.get(name) == {DEFINITION} and self.nodes[name] is not None and not self.has_star

    def is_of_python(self, name: str) -> bool:
        """Return True if only definitions and imports from the standard library bind a name."""
        kinds = self.kinds.get(name, {OTHERWISE})
        return kinds <= {DEFINITION, FROM_PYTHON} and not self.has_star

    def is_only_decorated(self, name: str) -> bool:
        """Return True if only definitions bind a name, with or without decorators."""
        return self.kinds.get(name, {OTHERWISE}) <= {DEFINITION, DECORATED} and not self.has_star

    def names_in_decorators(self, name: str) -> set[str]:
        """Return the names, with dots, in the decorators of the definitions of a name."""
        nodes = [node for decorator in self._decorators.get(name, ()) for node in ast.walk(decorator)]
        names = {_dotted(node) for node in nodes} - {""}
        return {name for name in names if not any(other.startswith(f"{name}.") for other in names)}

    def copied_value(self, name: str, names: Mapping[str, Any]) -> tuple[str | None, Any]:
        """Return the module from which the only statement for a name copies, None for its own, and the present value.

        The value is ABSENT if there are several statements, or another one.

        Args:
            name: the name that the statement binds.
            names: the names of the module, by which a relative import and a name of the module are found.
        """
        copy = self._copied.get(name) if self._times.get(name) == 1 and not self.has_star else None
        if copy is None:
            return None, ABSENT
        module, level, original = copy
        if module is None:
            return None, names.get(original, ABSENT)
        package = str(names.get("__package__") or "")
        module = resolve_name("." * level + module, package) if level and package else module
        imported = imports.loaded(module)
        return module, ABSENT if imported is None else names_of_module(imported).get(original, ABSENT)

    def may_bind(self, name: str) -> bool:
        """Return True if a statement may bind a name."""
        return self.has_star or name in self.kinds

    def inner(self, name: str) -> Definitions | None:
        """Return the definitions in a class of the body, None without such a class or with several."""
        node = self.nodes.get(name)
        return Definitions(node.body) if isinstance(node, ast.ClassDef) else None

    def _read(self, statement: ast.stmt, always: bool) -> None:
        for name, kind in self._bound(statement):
            self.kinds.setdefault(name, set()).add(kind)
            self._times[name] = self._times.get(name, 0) + 1
            if always:
                self.always.add(name)
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            self.nodes[statement.name] = None if statement.name in self.nodes else statement
            self._decorators.setdefault(statement.name, []).extend(statement.decorator_list)
            return
        for field in _BODIES:
            for part in getattr(statement, field, ()):
                for inside in part.body if isinstance(part, (ast.ExceptHandler, ast.match_case)) else [part]:
                    self._read(inside, always=False)

    def _bound(self, statement: ast.stmt) -> Iterator[tuple[str, str]]:
        """Yield each name that a statement itself binds, with the kind."""
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            yield statement.name, DECORATED if statement.decorator_list else DEFINITION
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            level = statement.level if isinstance(statement, ast.ImportFrom) else 0
            for alias in statement.names:
                origin = statement.module if isinstance(statement, ast.ImportFrom) else alias.name
                is_of_python = not level and (origin or "").partition(".")[0] in sys.stdlib_module_names
                self.has_star |= alias.name == "*"
                if isinstance(statement, ast.ImportFrom):
                    self._copied[alias.asname or alias.name] = statement.module or "", level, alias.name
                yield alias.asname or alias.name.partition(".")[0], FROM_PYTHON if is_of_python else OTHERWISE
        else:
            if isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(statement.value, ast.Name):
                for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                    if isinstance(target, ast.Name):
                        self._copied[target.id] = None, 0, statement.value.id
            parts = [part for field, part in ast.iter_fields(statement) if field not in _BODIES]
            for node in ast.walk(ast.Tuple(elts=[*_nodes(parts)])):
                if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                    yield node.id, OTHERWISE


def _nodes(parts: Any) -> Iterator[ast.expr]:
    """Yield the syntax nodes among the fields of a statement."""
    for part in parts:
        if isinstance(part, list):
            yield from _nodes(part)
        elif isinstance(part, ast.AST):
            yield part  # type: ignore[misc]  # a withitem is walked like an expression


def is_of_others(names: Mapping[str, Any], path: str, author: Origin) -> bool:
    """Return True if an author has no part in a value in a decorator.

    Args:
        names: the names of the module.
        path: a name in the decorator, with dots.
        author: the origin of the decorated value.
    """
    first, *others = path.split(".")
    value = names.get(first, vars(builtins).get(first, ABSENT))
    for part in others:
        if issubclass(type(value), ModuleType):
            value = names_of_module(value).get(part, ABSENT)
    value = inner(value)
    if value is ABSENT or author.distribution is None:
        return False
    if value is vars(builtins).get(path):
        return True
    origin = origin_of(value)
    parts = value.__globals__ if type(value) is FunctionType and origin.distribution != PYTHON else {}
    of_author = (origin_of(part).distribution == author.distribution for part in [*parts.values()] if is_code(part))
    return origin.distribution not in (None, author.distribution) and not any(of_author)


def _dotted(node: ast.AST) -> str:
    """Return the name, with dots, that an expression reads; empty for any other expression."""
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return node.id if isinstance(node, ast.Name) else ""
