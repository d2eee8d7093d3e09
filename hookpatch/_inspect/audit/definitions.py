"""Find the statements that bind each name, in a module's source. No code of the module runs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, final

DEFINITION: Final = "definition"  # an undecorated ``def`` or ``class``
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
            if always:
                self.always.add(name)
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            self.nodes[statement.name] = None if statement.name in self.nodes else statement
            return
        for field in _BODIES:
            for part in getattr(statement, field, ()):
                for inside in part.body if isinstance(part, (ast.ExceptHandler, ast.match_case)) else [part]:
                    self._read(inside, always=False)

    def _bound(self, statement: ast.stmt) -> Iterator[tuple[str, str]]:
        """Yield each name that a statement itself binds, with the kind."""
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            yield statement.name, OTHERWISE if statement.decorator_list else DEFINITION
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            level = statement.level if isinstance(statement, ast.ImportFrom) else 0
            for alias in statement.names:
                origin = statement.module if isinstance(statement, ast.ImportFrom) else alias.name
                is_of_python = not level and (origin or "").partition(".")[0] in sys.stdlib_module_names
                self.has_star |= alias.name == "*"
                yield alias.asname or alias.name.partition(".")[0], FROM_PYTHON if is_of_python else OTHERWISE
        else:
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
