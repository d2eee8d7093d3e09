"""Scan a model: walk its source from ``forward`` on."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, Final, TypeAlias

import torch

from hookpatch_export._evaluate.calls.construct import model_of
from hookpatch_export._evaluate.expressions.attributes import attribute
from hookpatch_export._evaluate.statements.forward_arguments import forward_arguments, given_arguments
from hookpatch_export._findings.finding import MODES, Finding, Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._frames.source import File, NotReadable, read_file
from hookpatch_export._scan.third_party import packages_of
from hookpatch_export._scan.walk import Walk
from hookpatch_export._values.value import Known, Value
from hookpatch_export.errors import ModelError

Arguments: TypeAlias = tuple[list[Value], dict[str, Value]]  # positional, and by name
_ROUNDS: Final = 2  # the second reads the attributes that the first has written
_COMPILED: Final = frozenset(["script"])  # the capture without inputs


def scan(
    model: object,
    *,
    root: Path | None = None,
    inputs: Sequence[Any] | None = None,
    keywords: Mapping[str, Any] | None = None,
) -> list[Finding]:
    """Read a model's source, from ``forward`` on through all calls, and find lines that do not survive a capture.

    No code of the model runs, but attributes of a configuration are read.

    Args:
        model: a module, or a class of modules; of a module the submodules and constants are known.
        root: read files in this folder alone; None for all files that are neither Python's nor torch's.
        inputs: the positional arguments of ``forward`` in the capture; None if not known. Branches that a capture with
            these inputs cannot take are left out.
        keywords: the keyword arguments of ``forward`` in the capture.

    Returns:
        The findings, breadth first: in ``forward`` itself, then in the functions it calls, and so on.

    Raises:
        ModelError: the argument is neither.
    """
    cls = model if isinstance(model, type) else type(model)
    if not issubclass(cls, torch.nn.Module):
        name = getattr(model, "__name__", repr(model))
        raise ModelError(
            name, "is no torch.nn.Module; name a class of modules, a module, or a function that returns a module"
        )
    walk = Walk(root.resolve() if root is not None else None, packages_of(model))
    start, place = _caller_of_forward(walk, cls)
    plain = _function(getattr(model, "forward", None))
    if plain is None or plain is _function(torch.nn.Module.forward):
        walk.report_not_read(start, place, f"{cls.__name__}.forward()", "the class has none of its own")
        return walk.findings(start)
    owner = model_of(start, place, model) if isinstance(model, type) else Known(model, Kind.CONFIG)
    called = attribute(start, place, owner, "forward")
    given = None if inputs is None and keywords is None else given_arguments(plain, inputs or (), keywords or {})
    for _ in range(_ROUNDS):
        for modes, arguments in _calls(forward_arguments(plain), given):
            with start.only_in(modes):
                walk.call(start, place, called, *arguments)
        if not walk.changed:
            break
        walk.begin()
    return walk.findings(start)


def _calls(unknown: Arguments, given: Arguments | None) -> list[tuple[frozenset[str], Arguments]]:
    """Return the arguments in each group of modes: torch.jit.script compiles the model for all inputs."""
    if given is None:
        return [(frozenset(MODES), unknown)]
    return [(frozenset(MODES) - _COMPILED, given), (_COMPILED, unknown)]


def _function(forward: Any) -> FunctionType | None:
    function = inspect.unwrap(getattr(forward, "__func__", forward))
    return function if isinstance(function, FunctionType) else None


def _caller_of_forward(walk: Walk, cls: type) -> tuple[Frame, ast.AST]:
    """Return the frame and node that call the model: the line of its class."""
    module = sys.modules.get(cls.__module__)
    name = getattr(module, "__file__", None) or f"<{cls.__module__}>"
    try:
        line = inspect.getsourcelines(cls)[1]
        file = read_file(name)
    except (NotReadable, OSError, TypeError):
        line, file = 1, File(Path(name), (), {})
    place = ast.Name(cls.__name__, lineno=line, col_offset=0, end_lineno=line, end_col_offset=0)
    node = ast.Lambda(ast.arguments([], [], None, [], [], None, []), place)
    return Frame(walk, file, node, {}, {}, "", frozenset(MODES)), place
