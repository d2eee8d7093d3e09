"""The failing statement, in the syntax tree of its file, and the pieces of source that a remedy replaces."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any, final

from hookpatch_torchscript._proof.change import Span
from hookpatch_torchscript._proof.observed import Observed


@final
@dataclass(frozen=True)
class Site:
    """Where a remedy is to be applied.

    Attributes:
        file: the file of the failing function.
        line: the failing line.
        function: the failing function.
        module: the module whose method fails, None for a function.
        attribute: the name of the attribute at fault, else None.
        observe: runs the model, and returns the types that the names of a function had.
    """

    file: str
    line: int
    function: FunctionType
    module: Any
    attribute: str | None
    observe: Callable[[FunctionType], Observed]

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the file."""
        return ast.parse("".join(linecache.getlines(self.file)))

    @cached_property
    def statement(self) -> ast.stmt:
        """The innermost statement with the failing line; the definition of the function if there is none."""
        inside = [node for node in ast.walk(self.definition_of(self.function)) if isinstance(node, ast.stmt)]
        return min(
            (statement for statement in inside if statement.lineno <= self.line <= (statement.end_lineno or 0)),
            key=lambda statement: ((statement.end_lineno or 0) - statement.lineno, -statement.lineno),
            default=inside[0],
        )

    def definition_of(self, function: FunctionType) -> ast.FunctionDef:
        """Return the definition of a function of the file.

        Raises:
            LookupError: the file has no such definition.
        """
        first = function.__code__.co_firstlineno
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.FunctionDef) or node.name != function.__code__.co_name:
                continue
            if first in (node.lineno, *(decorator.lineno for decorator in node.decorator_list)):
                return node
        raise LookupError(function.__qualname__)

    def class_of(self, function: FunctionType) -> ast.ClassDef | None:
        """Return the class whose body defines a function."""
        definition = self.definition_of(function)
        classes = (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))
        return next((cls for cls in classes if definition in cls.body), None)

    def head(self) -> Iterator[ast.AST]:
        """Yield the syntax nodes of the statement, without those of the statements in it."""
        ahead: list[ast.AST] = [self.statement]
        while ahead:
            node = ahead.pop()
            yield node
            ahead += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]

    def certain(self) -> list[ast.AST]:
        """Return the nodes of the head that run once whenever the statement runs.

        A remedy may move only these nodes in front of the statement. Left out are the right side of ``and`` and ``or``,
        and both sides of ``if ... else``. Left out are also later parts of a chained comparison, the body of a
        comprehension or lambda, and the test of ``while`` and ``elif``.
        """
        if isinstance(self.statement, ast.While) or self._is_elif(self.statement):
            return []
        nodes: list[ast.AST] = []
        ahead: list[ast.AST] = [self.statement]
        while ahead:
            node = ahead.pop()
            nodes.append(node)
            match node:
                case ast.BoolOp():
                    ahead.append(node.values[0])
                case ast.IfExp():
                    ahead.append(node.test)
                case ast.Compare():
                    ahead += [node.left, node.comparators[0]]
                case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                    ahead.append(node.generators[0].iter)
                case ast.Assert():
                    ahead.append(node.test)
                case ast.Lambda():
                    pass
                case _:
                    ahead += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
        return nodes

    def _is_elif(self, statement: ast.stmt) -> bool:
        return linecache.getline(self.file, statement.lineno).lstrip().startswith("elif")

    def fresh(self, name: str) -> str:
        """Return a name that the function does not use."""
        definition = self.definition_of(self.function)
        used = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
        used |= {node.arg for node in ast.walk(definition) if isinstance(node, ast.arg)}
        return next(
            candidate for candidate in (name, *(f"{name}_{number}" for number in range(2, 99))) if candidate not in used
        )

    def instead(self, node: ast.expr | ast.stmt, text: str) -> Span:
        """Return the replacement of a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = self._column(node.lineno, node.col_offset), self._column(node.end_lineno, node.end_col_offset)
        return Span(node.lineno, start, node.end_lineno, end, text)

    def before(self, statement: ast.stmt, *lines: str) -> Span:
        """Return the insertion of lines before a statement; of an ``elif``, before its ``if``."""
        outer = statement
        while self._is_elif(outer):
            outer = next(node for node in ast.walk(self.tree) if isinstance(node, ast.If) and node.orelse == [outer])
        return self.lines_at(outer.lineno, outer.col_offset, *lines)

    def after(self, statement: ast.stmt, *lines: str) -> Span:
        """Return the insertion of lines behind a statement."""
        text = linecache.getline(self.file, statement.lineno)
        return self.lines_at((statement.end_lineno or statement.lineno) + 1, len(text) - len(text.lstrip()), *lines)

    def lines_at(self, line: int, indent: int, *lines: str) -> Span:
        """Return the insertion of lines in front of a line."""
        return Span(line, 0, line, 0, "".join(f"{' ' * indent}{text}".rstrip() + "\n" for text in lines))

    def _column(self, line: int, offset: int) -> int:
        return len(linecache.getline(self.file, line).encode()[:offset].decode())
