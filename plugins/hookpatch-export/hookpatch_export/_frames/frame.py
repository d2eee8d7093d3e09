"""The frame of one call during a walk: variables, the calls made, and the modes in which the call runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Protocol

from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.source import File, Function
from hookpatch_export._values.join import join
from hookpatch_export._values.value import Args, Keywords, Local, Value


class Walk(Protocol):
    """The walk that a frame belongs to, as far as a frame needs it."""

    def value(self, frame: Frame, node: ast.expr) -> Value:
        """Return the value of an expression, and report the findings in it."""

    def call(self, frame: Frame, node: ast.AST, function: Value, args: Args, named: Keywords) -> Value:
        """Return the result of a call."""

    def enter(self, frame: Frame, node: ast.AST, function: FunctionType | Local, args: Args, named: Keywords) -> Value:
        """Return the result of a function that has a source."""

    @property
    def initializing(self) -> bool:
        """Return True while an object's ``__init__`` is walked."""

    def initialize(self) -> AbstractContextManager[None]:
        """Walk an ``__init__`` in this block, and report nothing."""

    def report_not_read(self, frame: Frame, node: ast.AST, name: str, why: str) -> None:
        """Report the call of a function that was not read."""

    def report_third_party(self, frame: Frame, node: ast.AST, function: Any, args: Args) -> None:
        """Report the call of another distribution's function or class."""

    def report(self, frame: Frame, node: ast.AST, construct: str, kind: Kind) -> None:
        """Report a finding."""

    def write(self, owner: Value, name: str, value: Value) -> None:
        """Record the value that an attribute is set to."""

    def assign(self, frame: Frame, target: ast.expr, value: Value) -> None:
        """Assign a value to a name, an attribute, an item, or a tuple of these."""

    def written(self, owner: object, name: str) -> Value | None:
        """Return the value that an attribute was set to during the walk."""


@dataclass(eq=False)
class Frame:
    """One call. Lives as long as the walk, which returns findings by their frames.

    Attributes:
        walk: the walk.
        file: the file of the function.
        node: the function.
        names: the names of the function's module.
        cells: the variables of enclosing functions that are not walked themselves.
        name: the function's name, for a person.
        modes: the modes of capture in which the call runs.
        variables: the values of the local variables at this point.
        outer: the frame of the enclosing function.
        cls: the class that defines the function, for ``super()``.
        returned: the values returned so far.
        yielded: the values yielded so far.
        breaks: the variables at each break of the current loop.
        continues: the variables at each continue of the current round.
        globals: the names declared ``global``.
        calls: the calls made from this frame, in order; a dict used as an ordered set.
    """

    walk: Walk
    file: File
    node: Function
    names: Mapping[str, Any]
    cells: Mapping[str, Value]
    name: str
    modes: frozenset[str]
    variables: dict[str, Value] = field(default_factory=dict)
    outer: Frame | None = None
    cls: type | None = None
    returned: list[Value] = field(default_factory=list)
    yielded: list[Value] = field(default_factory=list)
    breaks: list[dict[str, Value]] = field(default_factory=list)
    continues: list[dict[str, Value]] = field(default_factory=list)
    globals: set[str] = field(default_factory=set)
    calls: dict[Frame, None] = field(default_factory=dict)

    def report(self, node: ast.AST, construct: str, kind: Kind) -> None:
        """Report a finding at a node."""
        self.walk.report(self, node, construct, kind)

    @contextmanager
    def only_in(self, modes: frozenset[str]) -> Iterator[None]:
        """Walk a block that runs in some modes of capture only."""
        before = self.modes
        self.modes = modes
        try:
            yield
        finally:
            self.modes = before


def join_variables(several: list[dict[str, Value]], under: Kind = Kind.SAFE) -> dict[str, Value]:
    """Return the variables where several branches meet.

    Args:
        several: the variables at the end of each branch.
        under: the kind that decides between the branches.
    """
    if len(several) == 1:
        return dict(several[0])
    names = dict.fromkeys(name for variables in several for name in variables)
    return {name: join([variables[name] for variables in several if name in variables], under) for name in names}
