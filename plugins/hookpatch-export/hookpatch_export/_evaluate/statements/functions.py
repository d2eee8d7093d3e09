"""Walk functions that have a source, each once for each kind of arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from hookpatch_export._evaluate.statements.parameters import bind, defaults_of
from hookpatch_export._evaluate.statements.statement import walk_block
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._frames.source import NotReadable, read
from hookpatch_export._values.join import join
from hookpatch_export._values.questions import has_tensor
from hookpatch_export._values.value import NONE, UNKNOWN, Args, Keywords, Local, Seq, Tensor, Value, value_of

_DEEPEST: Final = 60
_MOST_CALLS: Final = 20_000
_ROUNDS: Final = 6  # calls of a function by itself, with other arguments each time
_EMPTY: Final = object()  # the content of a cell before its variable is assigned


class Functions:
    """Results and frames of the functions that a walk has entered. Lives as long as the walk.

    Args:
        root: the folder whose files are read, or None for all.
    """

    def __init__(self, root: Path | None) -> None:
        self._root: Final = root
        self._results: Final[dict[object, Value]] = {}
        self._frames: Final[dict[object, Frame]] = {}
        self._stack: Final[list[tuple[object, object]]] = []
        self._calls = 0

    def enter(self, frame: Frame, node: ast.AST, function: FunctionType | Local, args: Args, named: Keywords) -> Value:
        """Return the result of a function that has a source.

        Args:
            frame: the frame of the caller.
            node: the call.
            function: the function.
            args: the positional arguments.
            named: the keyword arguments.
        """
        if isinstance(function, Local):
            return self._walked(frame, node, _inside_local(frame, function, args, named), function.node)
        try:
            inner = self._inside(frame, function, args, named)
        except NotReadable as why:
            frame.walk.report_not_read(frame, node, f"{function.__qualname__}()", str(why))
            return _not_known([*args, *named.values()])
        frame.walk.report_third_party(frame, node, function, [*args, *named.values()])
        return self._walked(frame, node, inner, function.__code__)

    def _inside(self, caller: Frame, function: FunctionType, args: Args, named: Keywords) -> Frame:
        """Return the frame of a call.

        Raises:
            NotReadable: there is no source, or the source is outside of the folder.
        """
        file, tree = read(function)
        if self._root is not None and self._root not in file.path.parents:
            raise NotReadable(f"{file.path.name} is outside of {self._root}")
        cells = dict(zip(function.__code__.co_freevars, map(_content, function.__closure__ or ()), strict=True))
        cls = cells.get("__class__")
        return Frame(
            caller.walk,
            file,
            tree,
            names=function.__globals__,
            cells={name: value_of(content) for name, content in cells.items() if content is not _EMPTY},
            name=function.__qualname__,
            modes=caller.modes,
            variables=bind(tree.args, args, named, defaults_of(function)),
            cls=cls if isinstance(cls, type) else None,
        )

    def _walked(self, caller: Frame, node: ast.AST, inner: Frame, code: object) -> Value:
        """Walk a function's body, once for each kind of arguments, and note the call in the caller's frame."""
        key = (code, tuple(inner.variables.items()), tuple(inner.cells.items()), inner.modes, inner.walk.initializing)
        if (before := self._frames.get(key)) is not None:
            caller.calls[before] = None
        if key in self._results:
            return self._results[key]
        self._calls += 1
        name = f"{inner.name}()"
        if (why := self._too_far(code, key)) is not None:
            caller.walk.report_not_read(caller, node, name, why)
            return _not_known(inner.variables.values())
        self._frames[key] = inner
        caller.calls[inner] = None
        self._stack.append((code, key))
        try:
            result = _result_of(inner)
        except Exception as error:  # a defect of the scan must not stop an export
            caller.walk.report_not_read(
                caller, node, name, f"the scan stumbled over it: {type(error).__name__}: {error}"
            )
            result = _not_known(inner.variables.values())
        finally:
            self._stack.pop()
        self._results[key] = result
        return result

    def _too_far(self, code: object, key: object) -> str | None:
        """Return the reason not to walk a function once more; None to walk it."""
        if self._calls > _MOST_CALLS:
            return f"the model calls more than {_MOST_CALLS:,} functions"
        if len(self._stack) > _DEEPEST:
            return f"it is called {_DEEPEST} functions down"
        open_keys = [open_key for open_code, open_key in self._stack if open_code is code]
        if key in open_keys or len(open_keys) >= _ROUNDS:
            return "the function calls itself; the scan read its body, and does not know the result"
        return None


def _inside_local(caller: Frame, function: Local, args: Args, named: Keywords) -> Frame:
    home: Frame = function.frame
    return Frame(
        caller.walk,
        home.file,
        function.node,
        names=home.names,
        cells=home.cells,
        name=getattr(function.node, "name", "<lambda>"),
        modes=caller.modes,
        variables=bind(function.node.args, args, named, function.defaults),
        outer=home,
    )


def _not_known(arguments: Iterable[Value]) -> Value:
    """Return the result of a function that is not walked: a tensor if one is passed."""
    return Tensor() if any(map(has_tensor, arguments)) else UNKNOWN


def _result_of(frame: Frame) -> Value:
    if isinstance(frame.node, ast.Lambda):
        return frame.walk.value(frame, frame.node.body)
    if walk_block(frame, frame.node.body):
        frame.returned.append(NONE)
    if frame.yielded:
        return Seq(None, join(frame.yielded), Kind.CONFIG)
    return join(frame.returned) if frame.returned else UNKNOWN


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY
