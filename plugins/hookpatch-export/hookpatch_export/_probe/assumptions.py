"""List the assumptions of torch.export about the sizes of the inputs that the .onnx file does not state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from hookpatch_export._probe.run_path import Spot
from hookpatch_export._probe.user_lines import line_of_guard

_SYMBOL: Final = re.compile(r"\b[a-z]+\d+\b")


@final
@dataclass(frozen=True)
class Assumption:
    """A constraint on the sizes of inputs.

    Attributes:
        words: the constraint: ``x.shape[0] >= 3``.
        symbols: the symbol in the file for each size: ``{"x.shape[0]": "s77"}``.
        spots: the lines of the user's code that torch names for the constraint.
    """

    words: str
    symbols: Mapping[str, str]
    spots: tuple[Spot, ...]


def assumptions(program: Any, exported: Any, names: Iterable[str], files: Iterable[Path]) -> list[Assumption]:
    """Return the assumptions of an exported program.

    Args:
        program: a ``torch.onnx.ONNXProgram``.
        exported: the ``torch.export.ExportedProgram`` of the same model and sizes, which knows its guards still, and
            has the same symbols for the same sizes; None if there is none.
        names: the names of the input tensors, in order.
        files: the files of the model.
    """
    axes = _axes(program, list(names))
    guards = list(_guards(exported, tuple(files))) if exported is not None else []
    assumed = []
    for symbol, bounds in program.exported_program.range_constraints.items():
        words = _range(axes[str(symbol)], bounds) if str(symbol) in axes else None
        if words is not None:
            spots = [spot for expression, spot in guards if _names(expression) == [str(symbol)]]
            assumed.append(Assumption(words, _of(axes, [str(symbol)]), tuple(dict.fromkeys(spots))))
    for expression, spot in guards:
        symbols = _names(expression)
        if _is_range(expression) or not set(symbols) & set(axes):
            continue
        words = _SYMBOL.sub(lambda match: axes.get(match[0], match[0]), _printed(expression))
        assumed.append(Assumption(words, _of(axes, symbols), (spot,)))
    return _joined(assumed)


def _axes(program: Any, names: list[str]) -> dict[str, str]:
    """Return by symbol the first axis of an input that has the symbol in the file."""
    axes: dict[str, str] = {}
    for name, value in zip(names, program.model.graph.inputs, strict=False):
        for axis, size in enumerate(value.shape or ()):
            if not isinstance(size, int):
                axes.setdefault(str(size.value), f"{name}.shape[{axis}]")
    return axes


def _of(axes: Mapping[str, str], symbols: Iterable[str]) -> dict[str, str]:
    return {axes[symbol]: symbol for symbol in symbols if symbol in axes}


def _range(name: str, bounds: Any) -> str | None:
    """Return a range as text; None for a range without content: torch takes every size as 2 or more while exporting."""
    from torch.utils._sympy.numbers import int_oo

    low, high = bounds.lower, bounds.upper
    if high != int_oo:
        return f"{name} == {low}" if low == high else f"{low} <= {name} <= {high}" if low > 0 else f"{name} <= {high}"
    return f"{name} >= {low}" if low > 2 else None


def _guards(exported: Any, files: tuple[Path, ...]) -> Iterator[tuple[Any, Spot]]:
    """Yield the guards for which torch names a line of the user's code."""
    for node in exported.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        if node.op == "placeholder" and mode is not None and mode.shape_env is not None:
            for guard in mode.shape_env.guards:
                if (spot := line_of_guard(guard.sloc, files)) is not None:
                    yield guard.expr, spot
            return


def _is_range(expression: Any) -> bool:
    """Return True if a guard compares a size with a number, kept as a range, or two sizes, which share a symbol."""
    sides = getattr(expression, "args", ())
    plain = all(side.is_Symbol or side.is_number for side in sides)
    return bool(
        expression.is_Relational and plain and (expression.rel_op not in ("!=", ">", ">=") or _above(expression))
    )


def _above(expression: Any) -> bool:
    """Return True if a lower bound is in a range that is shown: 2 and less is not."""
    numbers = [side for side in expression.args if side.is_number]
    return expression.rel_op != "!=" and bool(numbers) and numbers[0] > (1 if expression.rel_op == ">" else 2)


def _names(expression: Any) -> list[str]:
    return sorted(map(str, expression.free_symbols))


def _printed(expression: Any) -> str:
    from torch.utils._sympy.printers import PythonPrinter

    return str(PythonPrinter().doprint(expression))


def _joined(assumed: Iterable[Assumption]) -> list[Assumption]:
    """Return assumptions of the same words as one, with the lines of all."""
    by_words: dict[str, Assumption] = {}
    for assumption in assumed:
        before = by_words.get(assumption.words)
        spots = dict.fromkeys([*(before.spots if before else ()), *assumption.spots])
        by_words[assumption.words] = Assumption(assumption.words, assumption.symbols, tuple(spots))
    return list(by_words.values())
