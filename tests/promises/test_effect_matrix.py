"""A patch works under torch's capture modes inside a session and not outside, whenever the capture happens.

The only exceptions are an artifact that keeps the captured code, and an error that names the patch. No difference is
silent. Only the quick cells are here; ``make effect`` runs all cells, beside other tools.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

# By name: effect.py imports torch, and other tests run without torch.
TARGETS: Final = (
    *(
        "function",
        "imported function",
        "helper method",
        "forward",
        "submodule forward",
        "static method",
        "class method",
    ),
    *("torch.nn.functional", "C function", "class", "registry entry", "autograd.Function"),
)
QUICK: Final = (
    *("eager", "compile", "compile fullgraph", "export", "export strict", "jit.trace", "jit.script"),
    *("onnx torchscript", "vmap", "grad", "fx", "fx features", "fx quantisation", "make_fx"),
)
FEW: Final = ("eager", "compile fullgraph", "export strict", "jit.script", "fx")
KINDS: Final = {
    ("wrap", "slot", "process"): (*QUICK, "worker"),
    ("wrap", "everywhere", "task"): (*FEW, "jit.trace"),
    ("inject", "slot", "task"): FEW,
    ("inject", "everywhere", "process"): FEW,
    ("default", "slot", "process"): FEW,
    ("default", "everywhere", "task"): FEW,
    ("replace", "slot", "process"): QUICK,
    ("replace", "everywhere", "process"): FEW,
    ("derive", "slot", "process"): FEW,
    ("derive", "everywhere", "process"): FEW,
}

# For a class or a C function all objects are searched for holders, which takes seconds a cell. After the search,
# inject acts like wrap, and derive like replace; `make effect` runs the skipped cells, too.
SLOW: Final = {"C function", "class"}
AS_ANOTHER: Final = {("inject", "everywhere", "process"), ("derive", "everywhere", "process")}

# TorchScript compiles source text. TorchScript calls back into Python for a patched method, but cannot leave an
# argument to the default there. TorchScript calls no wrapper of a class, and must be able to compile a replacement.
LOUD: Final = {
    ("wrap", "inject"): {"helper method", "submodule forward", "class method", "class"},
    ("replace",): {"class method"},
    ("derive",): {"helper method", "forward", "submodule forward", "class method", "class"},
}
# Captured calls pass every argument, so a patched default is never used.
CAPTURED: Final = {"function", "imported function", "static method", "torch.nn.functional", "forward"}
LOUD[("default",)] = LOUD["wrap", "inject"] | CAPTURED
# A function changed in place is also called in Python, where TorchScript has no default values for a method.
LOUD_IN_PLACE: Final = {"helper method", "submodule forward"}


@pytest.mark.model
def test_all_targets_are_there() -> None:
    """The targets equal the rows of the matrix, in order."""
    from effect import ROWS

    assert tuple(row.name for row in ROWS) == TARGETS


@pytest.mark.model
@pytest.mark.parametrize(
    ("target", "kind"),
    [
        pytest.param(target, kind, id=f"{target}-{'-'.join(kind)}")
        for target in TARGETS
        for kind in KINDS
        if (target not in SLOW or kind not in AS_ANOTHER) and (target, kind[0]) != ("C function", "default")
    ],
)
def test_patch_is_right_whenever_code_was_captured(target: str, kind: tuple[str, str, str], folder: Path) -> None:
    """The patch is right for code captured before, inside or after the session.

    Calls inside, after, and by a neighbour are checked.
    """
    from effect import MODES, ROWS, Cell, run_cell

    row = ROWS[TARGETS.index(target)]
    (loud,) = (rows for verbs, rows in LOUD.items() if kind[0] in verbs)
    loud = loud | LOUD_IN_PLACE if kind[1] == "everywhere" else loud
    loud_modes = {"jit.script", "fx"} if (target, kind[0]) == ("forward", "default") else {"jit.script"}
    states: Counter[str] = Counter()
    for mode in KINDS[kind]:
        cell = Cell(row, mode, *kind)
        outcome = run_cell(cell, "hookpatch", folder)
        if outcome is None:  # torch cannot capture the target in this mode, even unpatched
            continue
        states.update(outcome.states.values())
        allowed = {"right", *(["product"] if MODES[mode].keeps else []), *(["loud"] if mode in loud_modes else [])}
        assert set(outcome.states.values()) <= allowed, (str(cell), outcome)
        if mode in loud_modes:
            assert ("loud" in outcome.states.values()) <= (target in loud), (str(cell), outcome)
    assert states["right"] >= 6


@pytest.mark.model
@pytest.mark.parametrize("mode", ["inductor", "onnx"])
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_slow_modes_are_right_too(mode: str, reach: str, folder: Path) -> None:
    """Modes with a C++ compiler and with an .onnx file are right, for a function of torch that dispatches to itself."""
    from effect import ROWS, Cell, run_cell

    row = ROWS[TARGETS.index("torch.nn.functional")]
    outcome = run_cell(Cell(row, mode, "wrap", reach), "hookpatch", folder)
    assert outcome is None or set(outcome.states.values()) <= {"right", "product"}, outcome
    if mode != "inductor":  # inductor may lack a compiler
        assert outcome is not None
