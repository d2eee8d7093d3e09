"""The parts of files that a scan certainly read: the model's classes, and functions with a finding."""

from __future__ import annotations

import ast
import inspect
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hookpatch_export._findings.finding import Finding


def spans(model: Any, findings: Iterable[Finding]) -> list[tuple[Path, int, int]]:
    """Return file, first and last line of each part that a scan certainly read.

    Args:
        model: a subclass of ``torch.nn.Module``, or an instance, with the classes of all submodules.
        findings: the findings in the model.
    """
    lines: dict[Path, set[int]] = {}
    for finding in findings:
        lines.setdefault(finding.file, set()).add(finding.line)
    around = [span for file, inside in lines.items() for span in _functions(file, inside)]
    return [*dict.fromkeys([*_classes(model), *around])]


def _classes(model: Any) -> Iterator[tuple[Path, int, int]]:
    types = [model] if isinstance(model, type) else [type(module) for module in model.modules()]
    for kind in dict.fromkeys(parent for cls in types for parent in cls.__mro__):
        if kind.__module__.partition(".")[0] in ("builtins", "torch"):
            continue
        try:
            file = inspect.getsourcefile(kind)
            source, first = inspect.getsourcelines(kind)
        except (OSError, TypeError):  # no source, as reported by the scan
            continue
        if file is not None:
            yield Path(file).resolve(), first, first + len(source) - 1


def _functions(file: Path, lines: set[int]) -> Iterator[tuple[Path, int, int]]:
    try:
        with tokenize.open(file) as opened:
            tree = ast.parse(opened.read())
    except (OSError, SyntaxError, UnicodeDecodeError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            first, last = node.lineno, node.end_lineno
            if any(first <= line <= last for line in lines):
                yield file, first, last
