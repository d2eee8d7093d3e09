"""Run Llama on Liger's kernels: those of one model that is made already, and those of the models made from now on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plain_kernels import monkey_patch as liger
from tiny import llama

import hookpatch

MODEL: Any = llama()
LLAMA = "transformers.models.llama.modeling_llama"
NORM = {"offset": 0.0, "casting_mode": "llama", "in_place": True, "row_mode": None, "impl": None, "mode": None}


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    for name, kernel in (("RMSNorm", liger.LigerRMSNorm), ("MLP", liger.LigerSwiGLUMLP)):
        methods = {"forward": kernel.forward, "_get_name": lambda part, name=kernel.__name__: name}
        for attribute, value in (methods | (NORM if name == "RMSNorm" else {})).items():
            yield hookpatch.replace(f"{LLAMA}:Llama{name}().{attribute}", value, of=MODEL, add=True)
        yield hookpatch.replace(f"{LLAMA}:Llama{name}", kernel, reach="everywhere")
    yield hookpatch.replace(f"{LLAMA}:apply_rotary_pos_emb", liger.liger_rotary_pos_emb)
