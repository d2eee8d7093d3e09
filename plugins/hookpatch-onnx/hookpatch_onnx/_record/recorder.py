"""Record models without weights: results of torch.onnx.export, arguments and results of onnxsim.simplify."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hookpatch
from hookpatch_onnx._model.metadata import PATCHES

if TYPE_CHECKING:
    import onnx

# Every process with the plugin selected imports this file. So modules that need onnx are imported when a model is
# recorded: by then the program has imported onnx itself.

PLUGIN: Final = "onnx"
EXPORTED: Final = "exported"
INTO: Final = "before-simplify"
SIMPLIFIED: Final = "simplified"


def recorder(folder: str) -> Iterator[hookpatch.Patch]:
    """Yield the patches that record models.

    If a model cannot be recorded, a line on stderr says so, and the program goes on.

    Args:
        folder: gets the models, as ``001-exported.onnx``, ``002-before-simplify.onnx``, ``003-simplified.onnx``.
    """

    def export(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        program = wrapped(*args, **kwargs)
        exported = program if program is not None else kwargs.get("f", args[2] if len(args) > 2 else None)
        _keep(folder, EXPORTED, exported)
        return program

    def simplify(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _keep(folder, INTO, kwargs.get("model", args[0] if args else None))
        result = wrapped(*args, **kwargs)
        _keep(folder, SIMPLIFIED, result[0] if isinstance(result, tuple) else result)
        return result

    why, upstream = "the models are to be looked at", "no issue: the patch records, and changes nothing"
    yield hookpatch.wrap(
        "torch.onnx:export",
        export,
        reach="everywhere",
        required=False,
        requires="torch>=2.13",
        why=why,
        upstream=upstream,
    )
    yield hookpatch.wrap(
        "onnxsim.onnx_simplifier:simplify",
        simplify,
        reach="everywhere",
        required=False,
        requires="onnxsim>=0.4.36",
        why=why,
        upstream=upstream,
    )


def _keep(folder: str, kind: str, source: Any) -> None:
    try:
        model = _model_of(source)
        model.metadata_props.add(key=PATCHES, value=",".join(_called()))
        Path(folder).mkdir(parents=True, exist_ok=True)
        _write(Path(folder), kind, model.SerializeToString())
    except Exception as error:  # any error here is hookpatch's own: the program must not fail
        sys.stderr.write(
            f"hookpatch: warning: a model ({kind}) was not kept in {folder}: {type(error).__name__}: {error}\n"
        )


def _model_of(source: Any) -> onnx.ModelProto:
    """Return a copy, without weights, of a model that a program made or passed on."""
    import onnx

    from hookpatch_onnx._model.read import parse, pruned, read

    if isinstance(source, onnx.ModelProto):
        return pruned(source)
    if isinstance(source, (str, os.PathLike)):
        return read(source)
    if isinstance(source, io.BytesIO):
        return parse(source.getbuffer(), "what was written")
    return pruned(_of_program(source))


def _of_program(program: Any) -> onnx.ModelProto:
    """Return the model of a ``torch.onnx.ONNXProgram`` without copying weights."""
    import onnx_ir

    from hookpatch_onnx._model.wire_format import SMALL

    copy = program.model.clone()
    for graph in copy.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and math.prod(tensor.shape.numpy()) > SMALL:
                value.const_value = onnx_ir.ExternalTensor(
                    "left out", None, None, tensor.dtype, shape=tensor.shape, name=tensor.name
                )
    model: onnx.ModelProto = onnx_ir.to_proto(copy)
    return model


def _called() -> list[str]:
    """Return the plugins whose patches were called in this process so far, as far as calls are counted."""
    called = (patch.plugin for patch in hookpatch.report() if patch.calls)
    return sorted({plugin for plugin in called if plugin not in (None, PLUGIN)})


def _write(folder: Path, kind: str, content: bytes) -> None:
    number = 1 + len(list(folder.glob("*.onnx")))
    while True:  # another process may have taken the number meanwhile
        try:
            with open(folder / f"{number:03}-{kind}.onnx", "xb") as file:
                file.write(content)
        except FileExistsError:
            number += 1
        else:
            return
