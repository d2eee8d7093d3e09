"""One call while the source is walked: its variables, what it calls, and in which modes it runs at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Protocol

from hookpatch_export._finding import Kind
from hookpatch_export._join import join
from hookpatch_export._source import File, Function
from hookpatch_export._value import Args, Keywords, Local, Value


class Walk(Protocol):
    """What a frame needs of the walk it belongs to."""

    def value(self, frame: Frame, node: ast.expr) -> Value:
        """Return what an expression gives, and note what is found in it."""

    def call(self, frame: Frame, node: ast.AST, function: Value, args: Args, named: Keywords) -> Value:
        """Return what a call gives."""

    def enter(self, frame: Frame, node: ast.AST, function: FunctionType | Local, args: Args, named: Keywords) -> Value:
        """Return what a function gives that has a source."""

    @property
    def initializing(self) -> bool:
        """Whether the ``__init__`` of an object is being walked."""

    def initialize(self) -> AbstractContextManager[None]:
        """Walk an ``__init__``, and note nothing of it."""

    def not_read(self, frame: Frame, node: ast.AST, what: str, why: str) -> None:
        """Note that something is called that was not looked into."""

    def leaves(self, frame: Frame, node: ast.AST, function: Any, args: Args) -> None:
        """Note that a function or class is called, if it is another distribution's."""

    def found(self, frame: Frame, node: ast.AST, construct: str, kind: Kind) -> None:
        """Note a finding."""

    def write(self, owner: Value, name: str, value: Value) -> None:
        """Note what an attribute holds from now on."""

    def assign(self, frame: Frame, target: ast.expr, value: Value) -> None:
        """Give a name, an attribute, an item or several of them a value."""

    def written(self, owner: object, name: str) -> Value | None:
        """Return what an attribute was seen to be given."""


@dataclass(eq=False)
class Frame:
    """One call.

    Attributes:
        walk: the walk.
        file: the file that the function is in.
        node: the function.
        names: its module's names.
        cells: the variables of the functions around it, if these are not walked themselves.
        name: the function's name, for a person.
        modes: the modes of capture in which it runs.
        variables: what its variables hold at this point.
        outer: the frame of the function it is defined in.
        cls: the class it is defined in, for ``super()``.
        returned: what it has returned until here.
        yielded: what it has yielded until here.
        exits: the variables at each break and continue of the loop that is walked.
        globals: the names that it has declared to be its module's.
        calls: the calls that it makes, in the order in which they were met; a set with an order.
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
    exits: list[dict[str, Value]] = field(default_factory=list)
    globals: set[str] = field(default_factory=set)
    calls: dict[Frame, None] = field(default_factory=dict)

    def found(self, node: ast.AST, construct: str, kind: Kind) -> None:
        """Note a finding at a node."""
        self.walk.found(self, node, construct, kind)

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
    """Return what the variables hold where several ways meet.

    Args:
        several: the variables at the end of each way.
        under: what it hangs on which way is taken.
    """
    if len(several) == 1:
        return dict(several[0])
    names = dict.fromkeys(name for one in several for name in one)
    return {name: join([one[name] for one in several if name in one], under) for name in names}
