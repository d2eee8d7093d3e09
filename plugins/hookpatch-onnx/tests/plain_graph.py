"""Compare a model changed by plugins with the plain export: outside of the plugins' nodes all is the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import onnx
from hookpatch_onnx._model.metadata import MADE_BY


class Outside:
    """The part of a changed model not made by plugins, beside the plain model.

    TorchScript's exporter names nodes by module and operator, so nodes are compared by name: operator, attributes and
    inputs. Weights and constants are compared by content, sizes up to the names, and other values by the returning
    node. The value returned by a plugin's node stands for the same value of the plain model, everywhere.

    Args:
        plain: the model without plugins.
        changed: the model with plugins.
        parts: the names of the modules exported as nodes in the changed model.
    """

    def __init__(self, plain: onnx.ModelProto, changed: onnx.ModelProto, parts: Iterable[str]) -> None:
        self.plain, self.changed = plain, changed
        self.scopes: Final = tuple(f".{part}." for part in parts)
        self.nodes: Final = {node.name: node for node in _named(changed) if not _is_made(node)}
        self.made: Final = {name for node in changed.graph.node if _is_made(node) for name in node.output}
        self.origins, self.plain_origins = _origins(changed, ()), _origins(plain, self.scopes)
        self.stands_for: Final[dict[object, object]] = {}

    def differences(self) -> list[str]:
        """Return the differences; empty for equal models."""
        plain = {node.name: node for node in _named(self.plain)}
        missing = [name for name in plain.keys() - self.nodes.keys() if not _is_in(name, self.scopes)]
        lines = [f"only in the plain model: {name}" for name in missing]
        lines += [f"only in the changed model: {name}" for name in self.nodes.keys() - plain.keys()]
        for name in self.nodes.keys() & plain.keys():
            mine, its = self.nodes[name], plain[name]
            inputs = [self._is_same(*pair) for pair in zip(mine.input, its.input, strict=False)]
            if _form(mine) != _form(its) or not all(inputs) or len(mine.input) != len(its.input):
                lines.append(f"changed: {name}")
        for mine, its in zip(self.changed.graph.output, self.plain.graph.output, strict=True):
            if not self._is_same(mine.name, its.name) or not self._is_same_type(mine.type, its.type):
                lines.append(f"changed: output {its.name}")
        if list(self.changed.graph.input) != list(self.plain.graph.input):
            lines.append("changed: inputs")
        return sorted(lines)

    def _is_same(self, mine: str, its: str) -> bool:
        if mine in self.made:
            return self._is_one_to_one(mine, self.plain_origins.get(its, its))
        return self.origins.get(mine, mine) == self.plain_origins.get(its, its)

    def _is_same_type(self, mine: onnx.TypeProto, its: onnx.TypeProto) -> bool:
        my_sizes, its_sizes = mine.tensor_type.shape.dim, its.tensor_type.shape.dim
        equal = [
            self._is_one_to_one(("size", a.dim_param), ("size", b.dim_param)) if a.dim_param and b.dim_param else a == b
            for a, b in zip(my_sizes, its_sizes, strict=False)
        ]
        return (
            mine.tensor_type.elem_type == its.tensor_type.elem_type and len(my_sizes) == len(its_sizes) and all(equal)
        )

    def _is_one_to_one(self, mine: object, its: object) -> bool:
        return self.stands_for.setdefault(mine, its) == its


def _named(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return the nodes of a model without constants: a constant's name is a number."""
    return [node for node in model.graph.node if node.op_type != "Constant"]


def _is_in(name: str, scopes: tuple[str, ...]) -> bool:
    return name.replace("/", ".").startswith(scopes)


def _origins(model: onnx.ModelProto, scopes: tuple[str, ...]) -> dict[str, Any]:
    """Return the content of each weight and constant, and the source node and place of each other value.

    A cast in a part exported as a node comes from the input of the cast: other parts read a needless cast of torch.
    """
    origins: dict[str, Any] = {}
    for weight in model.graph.initializer:
        origins[weight.name] = (weight.data_type, tuple(weight.dims), onnx.numpy_helper.to_array(weight).tobytes())
    for node in model.graph.node:
        if node.op_type == "Constant":
            origins[node.output[0]] = _form(node)
        elif node.op_type == "Cast" and _is_in(node.name, scopes):
            origins[node.output[0]] = origins.get(node.input[0], node.input[0])
        else:
            origins.update((name, (node.name, place)) for place, name in enumerate(node.output))
    return origins


def _form(node: onnx.NodeProto) -> tuple[Any, ...]:
    return node.domain, node.op_type, *(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)


def _is_made(node: onnx.NodeProto) -> bool:
    return any(prop.key == MADE_BY for prop in node.metadata_props)
