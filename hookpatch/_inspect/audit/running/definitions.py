"""Find the statements that bind each name, in a module's source. No code of the module runs."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import FrozenImporter, SourceFileLoader
from importlib.util import resolve_name
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple, final

from hookpatch._bootstrap import imports
from hookpatch._engine.slots.slot import ABSENT, inner
from hookpatch._inspect.audit.kinds import is_code
from hookpatch._inspect.audit.origin import PYTHON, Origin, origin_of
from hookpatch._inspect.audit.snapshot import names_of_module

DEFINITION: Final = "definition"  # an undecorated ``def`` or ``class``
DECORATED: Final = "decorated"  # a ``def`` or ``class`` under decorators
COPY: Final = "copy"  # an import, or an assignment of another name
PLAIN: Final = "plain"  # a constant
OTHERWISE: Final = "otherwise"  # any other statement: no value is known
_MOST_WRAPPERS: Final = 3  # of a loader
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_SUPPRESSING: Final = ("suppress", "catch_warnings")
_BODIES: Final = ("body", "orelse", "finalbody", "handlers", "cases")


class Copied(NamedTuple):
    """What a statement copies: the module, None for a name of this module, the number of dots, and the name there.

    The name is empty for the module itself, and ``*`` for all names.
    """

    module: str | None
    level: int
    name: str

    @property
    def is_of_python(self) -> bool:
        """Return True for an import from the standard library."""
        return self.module is not None and not self.level and _top(self.module) in sys.stdlib_module_names

    def read(self, names: Mapping[str, Any]) -> tuple[str | None, Any]:
        """Return the name of the module from which the statement copies, None for its own, and the present value.

        The value is ABSENT if unknown, and the module is empty if not imported.

        Args:
            names: the names of this module, by which a relative import and a name of the module are found.
        """
        if self.module is None:
            first, *others = self.name.split(".")
            value, home = names.get(first, ABSENT), None
            for part in others:
                if not issubclass(type(value), ModuleType):
                    return None, ABSENT
                home = str(names_of_module(value).get("__name__"))
                value = names_of_module(value).get(part, ABSENT)
            return home, value
        package = str(names.get("__package__") or "")
        module = resolve_name("." * self.level + self.module, package) if self.level and package else self.module
        imported = imports.loaded(module)
        if imported is None:
            return "" if imports.loaded(_top(module)) is None else module, ABSENT
        return module, names_of_module(imported).get(self.name, ABSENT) if self.name else imported


class Binding(NamedTuple):
    """A statement that binds a name. A fallback is a statement after a failed import, or for a name that is None."""

    kind: str
    copied: Copied | None = None
    is_fallback: bool = False


@final
class Definitions:
    """The names bound by the statements of one body: of a module, or of a class.

    Attributes:
        always: the names bound by statements that run in each execution of the body.
        nodes: by name, the only ``def`` or ``class``; None if there are several.
        stars: the star imports.
        is_dynamic: True if a statement outside of functions calls ``globals``, and may bind any name.

    Args:
        body: the statements.
        of_module: True for the body of a module, the names of which functions may bind as global.
    """

    def __init__(self, body: Sequence[ast.stmt], of_module: bool = False) -> None:
        self.always: Final[set[str]] = set()
        self.nodes: Final[dict[str, Any]] = {}
        self.stars: Final[list[Copied]] = []
        self.is_dynamic = False
        self._decorators: Final[dict[str, list[ast.expr]]] = {}
        self._bindings: Final[dict[str, list[Binding]]] = {}
        for statement in body:
            self._read(statement, always=True, is_fallback=False)
            for node in ast.walk(statement) if of_module else ():
                for name in node.names if isinstance(node, ast.Global) else ():
                    self._bindings.setdefault(name, []).append(Binding(OTHERWISE))
                if isinstance(node, ast.Name) and node.id == "globals":
                    self.is_dynamic |= not isinstance(statement, (*_FUNCTIONS, ast.ClassDef))

    def kinds(self, name: str) -> set[str]:
        """Return the kinds of the statements that bind or delete a name."""
        return {binding.kind for binding in self._bindings.get(name, ())}

    def is_defined(self, name: str) -> bool:
        """Return True if only undecorated definitions bind a name."""
        return self.kinds(name) == {DEFINITION} and self.nodes[name] is not None and not self.stars

    def is_class(self, name: str) -> bool:
        """Return True if one undecorated ``class`` statement makes the class of this name."""
        return isinstance(self.nodes.get(name), ast.ClassDef) and not self._decorators[name]

    def is_only_decorated(self, name: str) -> bool:
        """Return True if only definitions bind a name, with or without decorators."""
        return bool(self.kinds(name)) and self.kinds(name) <= {DEFINITION, DECORATED} and not self.stars

    def names_in_decorators(self, name: str) -> set[str]:
        """Return the names, with dots, in the decorators of the definitions of a name."""
        nodes = [node for decorator in self._decorators.get(name, ()) for node in ast.walk(decorator)]
        names = {_dotted(node) for node in nodes} - {""}
        return {name for name in names if not any(other.startswith(f"{name}.") for other in names)}

    def bindings(self, name: str) -> list[Binding]:
        """Return the statements that may bind a name, in order; star imports come first, and bind no private name."""
        stars = [Binding(COPY, star._replace(name=name)) for star in self.stars if not name.startswith("_")]
        return [*stars, *self._bindings.get(name, ())]

    def may_bind(self, name: str) -> bool:
        """Return True if a statement may bind a name."""
        return bool(self.bindings(name))

    def inner(self, name: str) -> Definitions | None:
        """Return the definitions in a class of the body, None without such a class or with several."""
        node = self.nodes.get(name)
        return Definitions(node.body) if isinstance(node, ast.ClassDef) else None

    def _read(self, statement: ast.stmt, always: bool, is_fallback: bool, is_within: bool = False) -> None:
        for name, binding in self._bound(statement):
            if is_within and binding.copied is not None:
                binding = binding._replace(kind=OTHERWISE)  # a block can exchange the import, to make it lazy
            if name == "*" and binding.copied is not None:
                self.stars.append(binding.copied)
                continue
            self._bindings.setdefault(name, []).append(binding._replace(is_fallback=is_fallback))
            if always:
                self.always.add(name)
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            self.nodes[statement.name] = None if statement.name in self.nodes else statement
            self._decorators.setdefault(statement.name, []).extend(statement.decorator_list)
            return
        is_within = is_within or _may_exchange_imports(statement)
        for field in _BODIES:
            is_later = is_fallback or (field == "handlers") or (field == "body" and _asks_for_none(statement))
            for part in getattr(statement, field, ()):
                for inside in part.body if isinstance(part, (ast.ExceptHandler, ast.match_case)) else [part]:
                    self._read(inside, always=False, is_fallback=is_later, is_within=is_within)

    def _bound(self, statement: ast.stmt) -> Iterator[tuple[str, Binding]]:
        """Yield each name that a statement itself binds, with the kind of the statement."""
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            yield statement.name, Binding(DECORATED if statement.decorator_list else DEFINITION)
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                name = alias.asname or _top(alias.name)
                yield name, Binding(COPY, Copied(alias.name if alias.asname else name, 0, ""))
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                copied = Copied(statement.module or "", statement.level, alias.name)
                yield alias.asname or alias.name, Binding(COPY, copied)
        else:
            binding = Binding(OTHERWISE)
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                if isinstance(statement.value, ast.Constant):
                    binding = Binding(PLAIN)
                elif statement.value is not None and (path := _dotted(statement.value)):
                    binding = Binding(COPY, Copied(None, 0, path))
            parts = [part for field, part in ast.iter_fields(statement) if field not in _BODIES]
            for node in ast.walk(ast.Tuple(elts=[*_nodes(parts)])):
                if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                    targets = statement.targets if isinstance(statement, ast.Assign) else [node]
                    yield node.id, binding if node in targets else Binding(OTHERWISE)


def _top(module: str) -> str:
    return module.partition(".")[0]


def _may_exchange_imports(statement: ast.stmt) -> bool:
    """Return True for a ``with`` statement; not for those that only suppress errors or warnings."""
    if not isinstance(statement, (ast.With, ast.AsyncWith)):
        return False
    contexts = [getattr(item.context_expr, "func", item.context_expr) for item in statement.items]
    return not all(_dotted(context).rpartition(".")[2] in _SUPPRESSING for context in contexts)


def _asks_for_none(statement: ast.stmt) -> bool:
    """Return True for ``if name is None``."""
    test = statement.test if isinstance(statement, ast.If) else None
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Is):
        return False
    return isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None


def _nodes(parts: Any) -> Iterator[ast.expr]:
    """Yield the syntax nodes among the fields of a statement."""
    for part in parts:
        if isinstance(part, list):
            yield from _nodes(part)
        elif isinstance(part, ast.AST):
            yield part  # type: ignore[misc]  # a withitem is walked like an expression


def read_definitions(names: Mapping[str, Any]) -> Definitions | None:
    """Return the definitions in a module's unchanged source file; None for a changed or unreadable file.

    Args:
        names: the names of the module.
    """
    spec = names.get("__spec__")
    is_own = getattr(spec, "name", None) == names.get("__name__")  # six.moves puts another spec into a module
    loader = getattr(spec, "loader", None) if is_own else names.get("__loader__")
    for _ in range(_MOST_WRAPPERS):  # wrapt and other libraries wrap the loader
        inside = getattr(loader, "__dict__", None)
        loader = inside.get("loader", loader) if type(inside) is dict else loader
    if type(loader) is not SourceFileLoader and loader is not FrozenImporter:
        return None  # the source was changed before the run, or there is no source
    try:
        with open(str(names.get("__file__")), "rb") as source:
            return Definitions(ast.parse(importlib.util.decode_source(source.read())).body, of_module=True)
    except (OSError, SyntaxError, ValueError):
        return None


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
