"""Walk from a model's ``forward`` through all calls, and collect findings and values of attributes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from hookpatch_export._evaluate.calls.call import call
from hookpatch_export._evaluate.expressions.expression import value
from hookpatch_export._evaluate.statements.assignment import assign
from hookpatch_export._evaluate.statements.functions import Functions
from hookpatch_export._findings.finding import MODES, Finding, Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._scan.routes import Route, routes
from hookpatch_export._scan.third_party import is_third_party
from hookpatch_export._torch_rules.consequences import consequence_of, is_only_compiled
from hookpatch_export._values.join import join
from hookpatch_export._values.questions import content_kind, has_tensor
from hookpatch_export._values.value import Args, Instance, Known, Value

_COMPILED: Final = frozenset(["script"])  # torch.jit.script may reach other branches than captures with inputs


@dataclass(slots=True)
class _Noted:
    """A finding in the making: its worst kind, the modes of all reports, and the calls reported with that kind."""

    node: Any
    kind: Kind
    modes: frozenset[str]
    frames: dict[Frame, None]


class Walk:
    """One walk through a model.

    Args:
        root: read files in this folder alone; None for all files that are neither Python's nor torch's.
        packages: the packages of the model.
    """

    # The functions themselves, no methods around them: models are deep, and each method would spend Python's stack.
    value = staticmethod(value)
    call = staticmethod(call)
    assign = staticmethod(assign)

    def __init__(self, root: Path | None, packages: frozenset[str]) -> None:
        self._packages: Final = packages
        self._found: Final[dict[tuple[str, int, int, str, bool], _Noted]] = {}
        self._written: Final[dict[tuple[int, str], Value]] = {}
        self._kept: Final[list[object]] = []  # keeps the objects of the ids in _written alive
        self._read: Final[set[tuple[int, str]]] = set()  # attributes read before a write
        self._root: Final = root
        self._initializing = 0
        self.begin()

    def begin(self) -> None:
        """Begin a round: functions are walked anew, with the attributes that the rounds before have written."""
        self.enter = Functions(self._root).enter
        self._changed = False

    @property
    def changed(self) -> bool:
        """Return True if the round wrote an attribute that was read before: the next call reads another value."""
        return self._changed

    def findings(self, start: Frame) -> list[Finding]:
        """Return the findings by their shortest route from ``forward``, the nearest first; then by line.

        Args:
            start: the frame that calls ``forward``.
        """
        ways = routes(start)
        near = {frame: place for place, frame in enumerate(ways)}
        by_place: dict[object, Finding] = {}
        for (*place, construct, _), noted in self._found.items():
            frame = min(noted.frames, key=near.__getitem__)
            finding = _finding(frame, ways[frame], construct, noted)
            key = (*place, construct)
            by_place[key] = _merged(by_place[key], finding) if key in by_place else finding
        order: dict[object, int] = {}
        for frame, way in ways.items():
            order.setdefault((frame.file.path, way), len(order))
        return sorted(
            by_place.values(), key=lambda finding: (order[finding.file, finding.route], finding.line, finding.column)
        )

    def report(self, frame: Frame, node: Any, construct: str, kind: Kind) -> None:
        """Report a finding; for one reported before keep the worse kind and all modes."""
        if self._initializing:
            return
        compiled = frame.modes == _COMPILED
        key = (str(frame.file.path), node.lineno, node.col_offset, construct, compiled)
        noted = self._found.setdefault(key, _Noted(node, kind, frame.modes, {}))
        noted.modes |= frame.modes
        if kind > noted.kind:
            noted.kind, noted.frames = kind, {}
        if kind is noted.kind:
            noted.frames[frame] = None

    def report_not_read(self, frame: Frame, node: ast.AST, name: str, why: str) -> None:
        """Report the call of a function that was not read."""
        self.report(frame, node, f"{name}: {why}", Kind.NOT_READ)

    def report_third_party(self, frame: Frame, node: ast.AST, function: Any, args: Args) -> None:
        """Report the call of another distribution's function or class; a call without input is a setting."""
        if isinstance(node, ast.Call) and is_third_party(frame, function, args, self._packages):
            has_input = any(has_tensor(arg) or content_kind(arg) >= Kind.SHAPE for arg in args)
            kind = Kind.CALL if has_input else Kind.CONFIG
            self.report(frame, node, f"third-party {function.__module__}.{function.__qualname__}()", kind)

    def write(self, owner: Value, name: str, value: Value) -> None:
        """Record the value that an attribute is set to."""
        if isinstance(owner, Instance):
            before = owner.attributes.get(name)
            owner.attributes[name] = value if before is None else join([before, value])
            self._changed |= owner.of_model and not self._initializing and owner.attributes[name] != before
        elif isinstance(owner, Known):
            key = (id(owner.obj), name)
            self._kept.append(owner.obj)
            before = self._written.get(key)
            self._written[key] = value if before is None else join([before, value])
            self._changed |= key in self._read and self._written[key] != before

    def written(self, owner: object, name: str) -> Value | None:
        """Return the value that an attribute was set to during the walk."""
        self._read.add((id(owner), name))
        return self._written.get((id(owner), name))

    @property
    def initializing(self) -> bool:
        """Return True while an object's ``__init__`` is walked."""
        return self._initializing > 0

    @contextmanager
    def initialize(self) -> Iterator[None]:
        """Walk an ``__init__`` in this block: its decisions are made before the model is called, and not reported."""
        self._initializing += 1
        try:
            yield
        finally:
            self._initializing -= 1


def _merged(first: Finding, second: Finding) -> Finding:
    """Return one finding for a line that torch.jit.script and other captures reach by different branches."""
    worse = second if second.kind > first.kind else first
    by_mode = first.consequence | second.consequence
    return replace(worse, consequence={mode: by_mode[mode] for mode in MODES if mode in by_mode})


def _finding(frame: Frame, route: Route, construct: str, noted: _Noted) -> Finding:
    node, kind = noted.node, noted.kind
    if is_only_compiled(kind, construct, noted.modes):
        kind = Kind.SAFE
    consequence, instead = consequence_of(kind, construct, [mode for mode in MODES if mode in noted.modes])
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
        consequence=consequence,
        instead=instead,
        end_line=node.end_lineno,
        end_column=node.end_col_offset + 1,
    )
