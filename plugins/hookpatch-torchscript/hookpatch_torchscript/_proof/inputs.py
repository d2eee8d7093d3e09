"""Guess inputs that a function takes, from its annotations, its modules and its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Any, Final

import torch
from torch import nn

from hookpatch_torchscript._source.lookup import tree_of

_SHAPES: Final = ((2, 2), (2, 3, 4), (4,), (2, 2, 8, 8))
_MOST: Final = 60  # guesses
_SCALARS: Final[dict[str, tuple[Any, ...]]] = {"int": (2, 1, 0), "float": (0.5,), "bool": (True, False)}


def guesses(called: Any) -> Iterator[tuple[Any, ...]]:
    """Yield positional arguments that a module or function might take, the likeliest first."""
    tree = _definition(called)
    words = _words(tree, called)
    every = (
        arguments
        for tensor in _tensors(called)
        for arguments in product(*(_values(parameter, tree, tensor, words) for parameter in _parameters(called, tree)))
    )
    yield from islice(every, _MOST)


def optional_arguments(called: Any) -> set[int]:
    """Return the positions of the parameters whose annotation allows None."""
    return {index for index, parameter in enumerate(_parameters(called, _definition(called))) if may_be_none(parameter)}


def _definition(called: Any) -> ast.FunctionDef:
    """Return the definition of a function, or of a module's forward; an empty one without source."""
    tree, _ = tree_of(type(called).forward if isinstance(called, nn.Module) else called)
    empty = ast.parse("def forward(self): ...").body[0]
    assert isinstance(empty, ast.FunctionDef)
    return tree if tree is not None else empty


def _parameters(called: Any, tree: ast.FunctionDef) -> list[ast.arg]:
    return [*tree.args.posonlyargs, *tree.args.args][isinstance(called, nn.Module) :]


def _tensors(called: Any) -> Iterator[torch.Tensor]:
    """Yield tensors of shapes accepted by the first layers, and afterwards tensors of common shapes."""
    generator = torch.Generator().manual_seed(0)
    for layer in called.modules() if isinstance(called, nn.Module) else ():
        if isinstance(layer, nn.Embedding):
            yield torch.randint(layer.num_embeddings, (2, 5), generator=generator)
        elif isinstance(layer, nn.Linear):
            yield torch.randn(2, layer.in_features, generator=generator)
            yield torch.randn(2, 3, layer.in_features, generator=generator)
        elif isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            yield torch.randn(2, layer.in_channels, *(16,) * len(layer.kernel_size), generator=generator)
    for shape in _SHAPES:
        yield torch.randn(shape, generator=generator)


def _words(tree: ast.FunctionDef, called: Any) -> list[str]:
    """Return likely texts for an argument: keys of module dicts, and texts compared in the source."""
    modules = called.modules() if isinstance(called, nn.Module) else ()
    keys = [key for module in modules if isinstance(module, nn.ModuleDict) for key in module]
    body = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [*keys, *body, "text"]


def _values(parameter: ast.arg, tree: ast.FunctionDef, tensor: torch.Tensor, words: Sequence[str]) -> list[Any]:
    keys = _keys(parameter.arg, tree)
    if parameter.annotation is not None:
        values = _annotated(parameter.annotation, tensor, words, keys)
        return [*values, None] if may_be_none(parameter) else values
    return [dict.fromkeys(keys, tensor)] if keys else [tensor, 2, [tensor, tensor], None]


def may_be_none(parameter: ast.arg) -> bool:
    """Return True if the annotation of a parameter allows None."""
    annotation = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
    return "Optional" in annotation or "None" in annotation


def _annotated(node: ast.expr, tensor: torch.Tensor, words: Sequence[str], keys: Sequence[str]) -> list[Any]:
    """Return values of an annotated type; a tensor where the type is not known."""
    if isinstance(node, ast.BinOp):  # X | None
        return _annotated(node.right if ast.unparse(node.left) == "None" else node.left, tensor, words, keys)
    name = ast.unparse(node.value if isinstance(node, ast.Subscript) else node).rpartition(".")[2].lower()
    inner = node.slice if isinstance(node, ast.Subscript) else None
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner] if inner is not None else []
    each = [_annotated(part, tensor, words, keys)[0] for part in parts]
    if name in ("optional", "union", "final") and parts:
        return _annotated(parts[0], tensor, words, keys)
    if name == "list" and parts:
        return [each * 2]
    if name == "tuple" and parts:
        return [tuple(each)]
    if name == "dict" and len(parts) == 2:
        return [dict.fromkeys(keys or words[:1], each[1])]
    return list(words) if name == "str" else list(_SCALARS.get(name, (tensor,)))


def _keys(name: str, tree: ast.FunctionDef) -> list[str]:
    """Return the texts used as an index of an argument."""
    return [
        node.slice.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    ]
