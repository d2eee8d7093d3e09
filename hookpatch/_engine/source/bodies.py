"""Compare the body of a class with the edited body, statement by statement. No statement is executed."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from difflib import SequenceMatcher
from typing import Final, NamedTuple, TypeAlias, TypeGuard

from hookpatch._engine.source.pieces import UnfitEdit

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Difference(NamedTuple):
    """The differences between the old and the edited body of a class.

    Attributes:
        functions: each differing function, with the function's name in the class.
        classes: each differing inner class before and after, with the class's name.
        removed, added: the other statements found only in the old body, and only in the edited body.
    """

    functions: list[tuple[str, Definition]]
    classes: list[tuple[str, ast.ClassDef, ast.ClassDef]]
    removed: list[ast.stmt]
    added: list[ast.stmt]


def differing(old: ast.ClassDef, new: ast.ClassDef) -> Difference:
    """Return the differences between the old and the edited body of a class.

    Raises:
        UnfitEdit: the head of the class or an annotation differs.
    """
    if _head(old) != _head(new):
        problem = f"the edit changes the name, a base, the metaclass or a decorator of {old.name}"
        raise UnfitEdit(f"{problem}, which made the class when the module was executed; leave them as in the source")
    keys, new_keys = [_key(node) for node in old.body], [_key(node) for node in new.body]
    difference = Difference([], [], [], [])
    for kind, start, end, new_start, new_end in SequenceMatcher(None, keys, new_keys, False).get_opcodes():
        if kind != "equal":
            difference.removed.extend(old.body[start:end])
            difference.added.extend(new.body[new_start:new_end])
            continue
        for before, after in zip(old.body[start:end], new.body[new_start:new_end], strict=True):
            for old_part, new_part in zip(_parts(before), _parts(after), strict=True):
                if ast.dump(old_part) == ast.dump(new_part):
                    continue
                if isinstance(old_part, ast.ClassDef) and isinstance(new_part, ast.ClassDef):
                    difference.classes.append((mangled(old_part.name, old), old_part, new_part))
                elif not isinstance(old_part, ast.ClassDef):
                    difference.functions.append((mangled(old_part.name, old), old_part))
    annotations = [
        {(ast.dump(node.target), ast.dump(node.annotation)) for node in nodes if isinstance(node, ast.AnnAssign)}
        for nodes in (difference.removed, difference.added)
    ]
    if annotations[0] != annotations[1]:
        raise UnfitEdit(
            "the edit changes an annotation, which was evaluated when the module was executed; leave annotations "
            "unchanged"
        )
    return difference


def to_run_anew(
    new: ast.ClassDef, names: set[str], added: Sequence[ast.stmt], stays: set[str]
) -> tuple[list[ast.stmt], list[str]]:
    """Return the statements to run for new values of names, with all statements that read or bind the same names.

    A function in ``stays`` with new defaults is not defined anew: the second list has the names of these functions.
    The bound names of the statements are added to ``names``.
    """
    chosen: dict[int, ast.stmt] = {id(node): node for node in added}
    for node in added:
        names |= bound_by(node, new)
    count = -1
    while count != len(chosen):
        count = len(chosen)
        for node in new.body:
            bound = bound_by(node, new)
            read = _read(node.decorator_list if _is_function(node) and bound <= stays else [node], new)
            if id(node) not in chosen and not names.isdisjoint(bound | read):
                chosen[id(node)] = node
                names |= bound
    with_new_defaults = [
        mangled(node.name, new)
        for node in new.body
        if _is_function(node) and id(node) not in chosen and not names.isdisjoint(_read([node], new))
    ]
    return [node for node in new.body if id(node) in chosen], with_new_defaults


def functions_of(node: ast.ClassDef) -> Iterator[tuple[str, Definition]]:
    """Yield the functions that a class defines once, under a single name, and without a condition."""
    count = Counter(name for statement in node.body for name in bound_by(statement, node))
    for statement in node.body:
        if _is_function(statement) and count[name := mangled(statement.name, node)] == 1:
            yield name, statement


def _is_function(node: ast.stmt) -> TypeGuard[Definition]:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


def bound_by(node: ast.stmt, inside: ast.ClassDef) -> set[str]:
    """Return the names that a statement binds in the class."""
    if inside.body and node is inside.body[0] and ast.get_docstring(inside, clean=False) is not None:
        return {"__doc__"}
    return {mangled(name, inside) for name in _names(node, ast.Store)}


def _read(nodes: Iterable[ast.AST], inside: ast.ClassDef) -> set[str]:
    return {mangled(name, inside) for node in nodes for name in _names(node, ast.Load)}


def names_read(node: ast.expr) -> set[str]:
    """Return the names that an expression reads in the scope of the expression."""
    return {*_names(node, ast.Load)}


def _names(node: ast.AST, context: type[ast.expr_context]) -> Iterator[str]:
    """Yield the names that a node loads or stores in the scope of the class, without the bodies of functions."""
    is_binding = context is ast.Store
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, context):
            yield node.id
        return
    if isinstance(node, _Inner):
        if is_binding and not isinstance(node, ast.Lambda):
            yield node.name
        for expression in _evaluated(node):
            yield from _names(expression, context)
        return
    if is_binding and isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    if is_binding and isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name
    if not is_binding and isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    for child in ast.iter_child_nodes(node):
        yield from _names(child, context)


def _evaluated(node: Definition | ast.ClassDef | ast.Lambda) -> Iterator[ast.expr]:
    """Yield the expressions that Python evaluates at the definition of a function or class."""
    yield from getattr(node, "decorator_list", ())
    if isinstance(node, ast.ClassDef):
        yield from (*node.bases, *(keyword.value for keyword in node.keywords))
    else:
        yield from (default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None)


def mangled(name: str, inside: ast.ClassDef) -> str:
    """Return a name of a class body as the class has the name: private names are mangled."""
    is_private = name.startswith("__") and not name.endswith("__") and inside.name.strip("_")
    return f"_{inside.name.lstrip('_')}{name}" if is_private else name


def _head(node: Definition | ast.ClassDef) -> tuple[str, ...]:
    bases = (*node.bases, *node.keywords) if isinstance(node, ast.ClassDef) else ()
    parameters = getattr(node, "type_params", ())  # since 3.12
    return type(node).__name__, node.name, *map(ast.dump, (*node.decorator_list, *bases, *parameters))


def _key(node: ast.stmt) -> tuple[str, ...]:
    """Return the key by which statements are compared, without the content of inner functions and classes."""
    if isinstance(node, ast.ClassDef):
        return "class", node.name  # the head is compared later, with the class
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return _head(node)
    return (ast.dump(_WITHOUT_CONTENT.visit(deepcopy(node)) if next(_parts(node), None) else node),)


class _WithoutContent(ast.NodeTransformer):
    def _name_only(self, node: Definition | ast.ClassDef) -> ast.stmt:
        return ast.Expr(ast.Constant(str(_key(node))))

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _name_only


_WITHOUT_CONTENT: Final = _WithoutContent()


def _parts(node: ast.AST) -> Iterator[Definition | ast.ClassDef]:
    """Yield the functions and classes that a statement defines in the scope of the class."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from _parts(child)
