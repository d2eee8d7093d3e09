"""The consequence of a line in each mode of capture, and the remedy: measured with torch 2.13.

``trace`` is torch.jit.trace, ``script`` torch.jit.script, ``export`` torch.export, ``onnx`` torch.onnx.export with
either of its exporters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hookpatch_export._findings.finding import Kind

_FINE: Final = "stays as it is"
_BY_CONSTRUCT: Final[dict[str, str]] = {
    "if": "branch", "elif": "branch", "... if ... else ...": "branch", "and": "branch", "or": "branch", "not": "branch",
    "and/or": "branch", "in": "branch", "match": "branch", "case": "branch", "a < b < c": "branch", "any()": "branch",
    "all()": "branch", "bool()": "branch", "if in a comprehension": "branch", "sorted()": "branch", "min()": "branch",
    "max()": "branch", "torch.equal()": "branch", "torch.allclose()": "branch", "torch.is_nonzero()": "branch",
    "torch.is_same_size()": "branch",
    "if that raises": "check", "elif that raises": "check", "assert": "check",
    "for": "loop", "while": "loop", "comprehension": "loop", "list()": "loop", "tuple()": "loop", "set()": "loop",
    "frozenset()": "loop", "dict()": "loop", "[*...]": "loop",
    "[mask]": "sized", "size from a tensor": "sized", "nonzero()": "sized", "argwhere()": "sized", "unique()": "sized",
    "unique_consecutive()": "sized",
    "masked_select()": "sized", "where()": "sized", "repeat_interleave()": "sized", "bincount()": "sized",
    "combinations()": "sized", "[:tensor]": "sized", "iter()": "iterator", "lru_cache()": "hashed",
    "nonzero_static()": "sized",
    "print()": "print", "input()": "print", "write to self": "write", "write to a global": "write", "try": "try",
}  # fmt: skip

_DATA: Final[dict[str, tuple[dict[str, str], str]]] = {
    "branch": (
        {
            "trace": "frozen: the branch that the example takes is taken for every input",
            "script": "compiled as control flow",
            "export": "fails: the outcome hangs on a tensor's values",
            "onnx": "fails with dynamo=True; frozen with dynamo=False",
        },
        "torch.where computes both and chooses; torch.cond keeps both branches",
    ),
    "check": (
        {
            "trace": "gone: the check is made once, on the example",
            "script": "compiled",
            "export": "fails: the outcome hangs on a tensor's values",
            "onnx": "fails with dynamo=True; gone with dynamo=False",
        },
        "torch._assert_async keeps a check; or check outside of the model",
    ),
    "loop": (
        {
            "trace": "frozen: as many rounds as the example takes",
            "script": "compiled as a loop",
            "export": "fails: the number of rounds hangs on a tensor's values",
            "onnx": "fails with dynamo=True; frozen with dynamo=False",
        },
        "torch.while_loop keeps the loop; or a number of rounds that is always enough, with a mask",
    ),
    "sized": (
        {
            "trace": "kept",
            "script": "kept",
            "export": "an unknown size: a later decision on the size fails",
            "onnx": "kept, unless the code decides on the size",
        },
        "torch.where or a multiplication by the mask keeps the sizes",
    ),
    "number": (
        {
            "trace": "frozen: the example's number becomes a constant",
            "script": "compiled, .numpy() is not",
            "export": "an unknown number: a decision on the number fails",
            "onnx": "fails with dynamo=True if the code decides on the number; frozen with dynamo=False",
        },
        "stay with tensors: a 0-d tensor computes as a number does",
    ),
}
_SHAPE: Final[dict[str, tuple[dict[str, str], str]]] = {
    "branch": (
        {
            "trace": "frozen: the branch of the example's sizes is taken for all",
            "script": "compiled as control flow",
            "export": "only sizes of this branch are allowed, without a warning",
            "onnx": "frozen without a warning: the file is right for sizes of this branch alone",
        },
        "decide outside of the model, or export one model for each branch; torch.cond keeps both",
    ),
    "check": (
        {
            "trace": "gone: the check is made once, on the example",
            "script": "compiled",
            "export": "only sizes that pass the check are allowed",
            "onnx": "gone: the file does not check",
        },
        "nothing is wrong with the graph; torch._check tells the exporter the same",
    ),
    "loop": (
        {
            "trace": "unrolled in silence: as many rounds as the example takes",
            "script": "compiled as a loop",
            "export": "unrolled: the size becomes a constant",
            "onnx": "unrolled in silence",
        },
        "compute all rounds at once (a tensor operation over that dimension), or torch.scan",
    ),
    "number": (
        {
            "trace": "frozen: the example's size becomes a constant",
            "script": "compiled",
            "export": "a number of Python's makes the size a constant, or narrows it",
            "onnx": "as with export; frozen with dynamo=False",
        },
        "use the size itself, without making a number of it",
    ),
}
for _by_kind in (_DATA, _SHAPE):
    _by_kind["iterator"] = ({**_by_kind["loop"][0], "script": "does not compile"}, _by_kind["loop"][1])
_SHAPE["hashed"] = (
    {
        "trace": "kept",
        "script": "called as a Python function: the scripted model cannot be saved",
        "export": "fails, except with strict=True: a size that varies cannot be hashed",
        "onnx": "kept",
    },
    "call the function under the memo (`function.__wrapped__`), or make the memo outside of forward",
)
# A decision on a size that was put into a tensor: torch.export knows the size no more than a tensor's value.
_UNBACKED: Final[dict[str, dict[str, str]]] = {
    name: {**by_mode, **_SHAPE.get(name, (by_mode, ""))[0], "export": by_mode["export"], "onnx": by_mode["onnx"]}
    for name, (by_mode, _) in _DATA.items()
}
_CALL: Final[dict[str, tuple[dict[str, str], str]]] = {
    "print": (
        {
            "trace": "runs while tracing, and never again",
            "script": "compiled",
            "export": "runs while exporting, and never again",
            "onnx": "runs while exporting, and never again",
        },
        "print outside of the model",
    ),
    "write": (
        {
            "trace": "done while tracing, and never again",
            "script": "compiled",
            "export": "fails or is lost: only registered buffers may change",
            "onnx": "lost",
        },
        "a buffer changed in place (copy_), or return the new state",
    ),
    "third-party": (
        {
            "trace": "followed: its tensor operations are recorded, all else is done once",
            "script": "compiled if TorchScript takes its source",
            "export": "followed as the model's own code is",
            "onnx": "followed as the model's own code is",
        },
        "findings inside the package are listed at their lines; scan again after installing another release",
    ),
    "call": (
        {
            "trace": "the result for the example becomes a constant",
            "script": "does not compile",
            "export": "the result for the example becomes a constant, or the export fails",
            "onnx": "the result for the example becomes a constant, or the export fails",
        },
        "compute with torch, or make the function an operator (torch.library.custom_op)",
    ),
}


def consequence_of(kind: Kind, construct: str, modes: Iterable[str]) -> tuple[dict[str, str], str]:
    """Return the consequence of a line in each of some modes, and what to write instead."""
    name = "third-party" if construct.startswith("third-party ") else _BY_CONSTRUCT.get(construct)
    if kind is Kind.DATA:
        by_mode, instead = _DATA.get(name or "number", _DATA["number"])
    elif kind is Kind.UNBACKED:
        by_mode = _UNBACKED.get(name or "number", _UNBACKED["number"])
        instead = "compute with the sizes themselves, not with a tensor of them: a // b, min(a, b)"
    elif kind is Kind.SHAPE:
        by_mode, instead = _SHAPE.get(name or "number", _SHAPE["number"])
    elif kind is Kind.CALL:
        by_mode, instead = _CALL.get(name or "call", _CALL["call"])
    elif kind is Kind.NOT_READ:
        by_mode = dict.fromkeys(modes, "not known")
        instead = "read the source of the called function yourself"
    elif name == "try":
        by_mode = dict.fromkeys(modes, "the way the example goes is the way for all") | {"script": "does not compile"}
        instead = "ask before, instead of trying"
    elif kind is Kind.CONFIG:
        by_mode = dict.fromkeys(modes, "fixed at its present value")
        instead = "nothing, if the setting is meant to be fixed; else export again for each setting"
    else:
        by_mode, instead = dict.fromkeys(modes, _FINE), "nothing"
    return {mode: by_mode[mode] for mode in modes}, instead


def is_only_compiled(kind: Kind, construct: str, modes: frozenset[str]) -> bool:
    """Return True if a line is reached only where torch.jit.script compiles it as written."""
    return kind >= Kind.SHAPE and modes == {"script"} and construct not in (".numpy()", ".tolist()", "iter()", "try")
