"""A patch takes effect under torch's capture modes inside its block, and not outside, for any time of the capture.

What is not right is an artifact that keeps what it captured, or an error that names the patch; nothing is silent. Here
are the cells that take little time; ``make effect`` runs them all, beside other tools.
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

# What holds a class or a C function is looked for among all objects, seconds a cell. Once it is found, inject stands
# there as wrap does, and derive as replace; `make effect` has these cells, too.
SLOW: Final = {"C function", "class"}
AS_ANOTHER: Final = {("inject", "everywhere", "process"), ("derive", "everywhere", "process")}

# TorchScript compiles text. It calls back into Python for a patched method, which it cannot with what is left to its
# default; it calls nothing around a class; and of what a patch puts there it has to be able to compile all.
LOUD: Final = {
    ("wrap", "inject"): {"helper method", "submodule forward", "class method", "class"},
    ("replace",): {"class method"},
    ("derive",): {"helper method", "forward", "submodule forward", "class method", "class"},
}
# What is captured gives every argument: a default has nothing to give.
CAPTURED: Final = {"function", "imported function", "static method", "torch.nn.functional", "forward"}
LOUD[("default",)] = LOUD["wrap", "inject"] | CAPTURED
# What is changed in place is called in Python as well, and there TorchScript has no default values for a method.
LOUD_IN_PLACE: Final = {"helper method", "submodule forward"}


@pytest.mark.model
def test_all_targets_are_there() -> None:
    """The targets are the matrix's, in order."""
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
    """Captured before and called inside; inside and called inside, by a neighbour and after; after."""
    from effect import MODES, ROWS, Cell, run

    row = ROWS[TARGETS.index(target)]
    (loud,) = (rows for verbs, rows in LOUD.items() if kind[0] in verbs)
    loud = loud | LOUD_IN_PLACE if kind[1] == "everywhere" else loud
    loud_modes = {"jit.script", "fx"} if (target, kind[0]) == ("forward", "default") else {"jit.script"}
    seen: Counter[str] = Counter()
    for mode in KINDS[kind]:
        cell = Cell(row, mode, *kind)
        outcome = run(cell, "hookpatch", folder)
        if outcome is None:  # torch cannot capture the target in this mode, even unpatched
            continue
        seen.update(outcome.states.values())
        allowed = {"right", *(["product"] if MODES[mode].keeps else []), *(["loud"] if mode in loud_modes else [])}
        assert set(outcome.states.values()) <= allowed, (str(cell), outcome)
        if mode in loud_modes:
            assert ("loud" in outcome.states.values()) <= (target in loud), (str(cell), outcome)
    assert seen["right"] >= 6


@pytest.mark.model
@pytest.mark.parametrize("mode", ["inductor", "onnx"])
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_slow_modes_are_right_too(mode: str, reach: str, folder: Path) -> None:
    """With a C++ compiler, and into an .onnx: a function of torch's own, which dispatches to itself."""
    from effect import ROWS, Cell, run

    row = ROWS[TARGETS.index("torch.nn.functional")]
    outcome = run(Cell(row, mode, "wrap", reach), "hookpatch", folder)
    assert outcome is None or set(outcome.states.values()) <= {"right", "product"}, outcome
    if mode != "inductor":  # inductor may lack a compiler
        assert outcome is not None
