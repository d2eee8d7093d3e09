"""A walk from a model's ``forward`` through all that it calls: what is found, and what attributes are given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hookpatch_export._assignment import assign
from hookpatch_export._call import call
from hookpatch_export._consequence import consequence_of, harmless
from hookpatch_export._expression import value
from hookpatch_export._finding import MODES, Finding, Kind
from hookpatch_export._frame import Frame
from hookpatch_export._function import Functions
from hookpatch_export._join import join
from hookpatch_export._question import content_kind, has_tensor
from hookpatch_export._route import Route, routes
from hookpatch_export._third_party import is_third_party
from hookpatch_export._value import Args, Instance, Known, Value


@dataclass(slots=True)
class _Noted:
    """What was found at a place: the worst of it, the modes of all of it, and the calls in which it is so bad."""

    node: Any
    kind: Kind
    modes: frozenset[str]
    frames: dict[Frame, None]


class Walk:
    """One walk through a model.

    Args:
        root: read files in this folder alone, or all that are neither Python's nor torch's.
        homes: the packages that the model is of.
    """

    # These are the functions themselves: a method around each would spend Python's stack, and models are deep.
    value = staticmethod(value)
    call = staticmethod(call)
    assign = staticmethod(assign)

    def __init__(self, root: Path | None, homes: frozenset[str]) -> None:
        self._homes: Final = homes
        self._found: Final[dict[tuple[str, int, int, str], _Noted]] = {}
        self._written: Final[dict[tuple[int, str], Value]] = {}
        self._kept: Final[list[object]] = []  # what an id in _written stands for
        self.enter: Final = Functions(root).enter
        self._initializing = 0

    def findings(self, start: Frame) -> list[Finding]:
        """Return what was found by its shortest way from where ``forward`` is called, the nearest first; then by line.

        Args:
            start: where ``forward`` is called.
        """
        ways = routes(start)
        near = {frame: place for place, frame in enumerate(ways)}
        found = []
        for (*_, construct), noted in self._found.items():
            frame = min(noted.frames, key=near.__getitem__)
            found.append(_finding(frame, ways[frame], construct, noted))
        order: dict[object, int] = {}
        for frame, way in ways.items():
            order.setdefault((frame.file.path, way), len(order))
        return sorted(found, key=lambda one: (order[one.file, one.route], one.line, one.column))

    def found(self, frame: Frame, node: Any, construct: str, kind: Kind) -> None:
        """Note a finding; of one that is known the worse kind and all modes."""
        if self._initializing:
            return
        key = (str(frame.file.path), node.lineno, node.col_offset, construct)
        noted = self._found.setdefault(key, _Noted(node, kind, frame.modes, {}))
        noted.modes |= frame.modes
        if kind > noted.kind:
            noted.kind, noted.frames = kind, {}
        if kind is noted.kind:
            noted.frames[frame] = None

    def not_read(self, frame: Frame, node: ast.AST, what: str, why: str) -> None:
        """Note that something is called that was not looked into."""
        self.found(frame, node, f"{what}: {why}", Kind.NOT_READ)

    def leaves(self, frame: Frame, node: ast.AST, function: Any, args: Args) -> None:
        """Note that a function or class is called, if it is another distribution's; without input it is a setting."""
        if isinstance(node, ast.Call) and is_third_party(frame, function, args, self._homes):
            given = any(has_tensor(one) or content_kind(one) >= Kind.SHAPE for one in args)
            kind = Kind.CALL if given else Kind.CONFIG
            self.found(frame, node, f"third-party {function.__module__}.{function.__qualname__}()", kind)

    def write(self, owner: Value, name: str, value: Value) -> None:
        """Note what an attribute holds from now on."""
        if isinstance(owner, Instance):
            before = owner.attributes.get(name)
            owner.attributes[name] = value if before is None else join([before, value])
        elif isinstance(owner, Known):
            key = (id(owner.obj), name)
            self._kept.append(owner.obj)
            before = self._written.get(key)
            self._written[key] = value if before is None else join([before, value])

    def written(self, owner: object, name: str) -> Value | None:
        """Return what an attribute was seen to be given."""
        return self._written.get((id(owner), name))

    @property
    def initializing(self) -> bool:
        """Whether the ``__init__`` of an object is being walked."""
        return self._initializing > 0

    @contextmanager
    def initialize(self) -> Iterator[None]:
        """Walk an ``__init__``: what is decided there is decided before the model is called, and not noted."""
        self._initializing += 1
        try:
            yield
        finally:
            self._initializing -= 1


def _finding(frame: Frame, route: Route, construct: str, noted: _Noted) -> Finding:
    node, kind = noted.node, noted.kind
    if harmless(kind, construct, noted.modes):
        kind = Kind.SAFE
    told, instead = consequence_of(kind, construct, [mode for mode in MODES if mode in noted.modes])
    if kind is Kind.UNBACKED:
        kind = Kind.SHAPE
    return Finding(
        file=frame.file.path,
        line=node.lineno,
        column=node.col_offset + 1,
        kind=kind,
        construct=construct,
        source=frame.file.line(node.lineno),
        route=route,
        consequence=told,
        instead=instead,
        end_line=node.end_lineno,
        end_column=node.end_col_offset + 1,
    )
