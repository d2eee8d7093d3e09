"""One of the two compared models: its nodes, and the content of its weights and constants."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Final, TypeAlias, final

import onnx_ir as ir

from hookpatch_onnx._model.metadata import MADE_BY
from hookpatch_onnx._model.reads import graphs

_SCOPES: Final = "pkg.torch.onnx.name_scopes"
_NO_MODULE: Final = "_empty_nn_module_stack"  # the begin of the name that torch.export gives to nodes of its own

Content: TypeAlias = tuple[str, tuple[str, ...], bytes]  # dtype, shape, hash of the data


@final
class Side:
    """A model beside another model.

    Args:
        model: the model.
        digests: the hash of each weight whose data is not in the model, by the weight's name.
        calls: for each node of torch's program, a key for each call of a module around the node, the outermost first.
    """

    def __init__(
        self, model: ir.Model, digests: Mapping[str, bytes], calls: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.model: Final = model
        self._digests: Final = digests
        self._calls: Final = calls or {}
        self._contents: Final[dict[ir.Value, Content | None]] = {}
        self._has_scopes: Final = any(_SCOPES in node.metadata_props for node in model.graph)

    def nodes(self) -> Iterator[ir.Node]:
        """Yield the nodes of the model and of all graphs in nodes, without constants."""
        for graph in graphs(self.model.graph):
            yield from (node for node in graph if node.op_type != "Constant" and not self._is_second_name(node))

    def content(self, value: ir.Value) -> Content | None:
        """Return the content of a constant: a weight, the output of a Constant, or one of these by a second name.

        None for any other value. TorchScript's exporter writes an Identity for the second of two equal weights.
        """
        if value not in self._contents:
            self._contents[value] = self._content(value)
        return self._contents[value]

    def modules_of(self, node: ir.Node) -> frozenset[str]:
        """Return the name of the module that a node comes from; for a node of no module, the names of its neighbours.

        Torch's optimizer gives its nodes no module, and neither does torch.export to the sizes of inputs.
        """
        if not self._has_scopes or has_module(node):
            return frozenset((module_of(node),))
        values = [value for value in node.inputs if value is not None and self.content(value) is None]
        makers = [value.producer() for value in values]
        near = [user for value in node.outputs for user in value.consumers() if has_module(user)]
        near += [maker for maker in makers if maker is not None and has_module(maker)]
        names = {module_of(neighbour) for neighbour in near}
        return frozenset(names | ({""} if None in makers else set()) or ("",))  # an input comes from the outermost

    def call_of(self, node: ir.Node, module: str, names: Mapping[str, str]) -> str | None:
        """Return a key for the call of a module that a node comes from; None if unknown."""
        if (scopes := node.metadata_props.get(_SCOPES)) is not None:
            *paths, name = ast.literal_eval(scopes)
            keys = self._calls.get(name, ())
            return dict(zip(map(partial(first_name, names=names), paths), keys, strict=False)).get(module)
        parts = module_of(node).split(".")
        prefixes = [".".join(parts[: end + 1]) for end in range(len(parts))] if parts != [""] else []
        return next((prefix for prefix in prefixes if first_name(prefix, names) == module), None)

    @cached_property
    def fixed(self) -> set[ir.Value]:
        """The values computed from constants alone."""
        fixed: set[ir.Value] = set()
        for node in self.model.graph:
            values = [value for value in node.inputs if value is not None]
            if values and all(value in fixed or self.content(value) is not None for value in values):
                fixed.update(node.outputs)
        return fixed

    def _is_second_name(self, node: ir.Node) -> bool:
        return node.op_type == "Identity" and self.content(node.outputs[0]) is not None

    def _content(self, value: ir.Value) -> Content | None:
        producer = value.producer()
        if producer is not None and producer.op_type == "Constant":
            tensor = ir.convenience.get_const_tensor(value)
            if tensor is None:  # a constant of another type than a tensor
                return "", (), b"".join(map(attribute_bytes, producer.attributes.values()))
        elif producer is not None and producer.op_type == "Identity" and (source := producer.inputs[0]) is not None:
            return self.content(source)
        elif value.is_initializer():
            tensor = value.const_value
        else:
            return None
        assert tensor is not None
        digest = self._digests.get(value.name or "") or hash_of(tensor.tobytes())
        return tensor.dtype.name, tuple(map(str, tensor.shape)), digest


def hash_of(data: bytes | memoryview) -> bytes:
    """Return the hash of the data of a weight."""
    return hashlib.blake2b(data, digest_size=16).digest()


def attribute_bytes(attribute: ir.Attr) -> bytes:
    """Return an attribute in a form that is equal for equal attributes."""
    proto = ir.to_proto(attribute)
    proto.t.ClearField("name")
    data: bytes = proto.SerializeToString(deterministic=True)
    return data


def is_made(node: ir.Node) -> bool:
    """Return True if a plugin has made a node."""
    return MADE_BY in node.metadata_props


def has_module(node: ir.Node) -> bool:
    """Return True if torch's metadata name the module that a node comes from."""
    scopes = node.metadata_props.get(_SCOPES)
    return scopes is not None and _NO_MODULE not in scopes


def module_of(node: ir.Node) -> str:
    """Return the name of the module that a node comes from: by torch's metadata, or by the name of the node."""
    if (scopes := node.metadata_props.get(_SCOPES)) is not None:
        names = ["", *ast.literal_eval(scopes)]
        return str(names[-1] if is_made(node) else names[-2])  # the last name is that of torch's own node
    path: list[str] = []
    for name in (node.name or "").strip("/").split("/")[:-1]:
        if path and name.startswith(f"{path[-1]}."):  # in a Sequential, TorchScript's exporter says /blocks/blocks.0
            path.pop()
        path.append(name)
    return ".".join(path)


def first_name(path: str, names: Mapping[str, str]) -> str:
    """Return the first name of a module that a model has by several names, or calls several times.

    TorchScript's exporter names the second call of ``norm`` ``norm_1``. For a module of several names the exporter
    writes the first name after the name of the outer module: ``layers.1.layers.0.norm``. The exporter leaves out a
    ModuleDict, which is never called: ``acts.gelu`` is ``gelu``.
    """
    parts = path.split(".")
    for start in range(len(parts)):
        if (resolved := _known(parts[start:], names)) in names:
            return resolved
    last = re.sub(r"_\d+$", "", parts[-1])
    longer = {first for name, first in names.items() if name.endswith((f".{parts[-1]}", f".{last}"))}
    longer = {name for name in longer if _is_left(parts[:-1], name.split(".")[:-1])}
    return longer.pop() if len(longer) == 1 else _known(parts, names)


def _is_left(parts: Sequence[str], of: Sequence[str]) -> bool:
    """Return True if some parts of a name are left out, in order."""
    every = iter(of)
    return all(any(part in (other, f"{other}_1") for other in every) for part in parts)


def _known(parts: Sequence[str], names: Mapping[str, str]) -> str:
    resolved = ""
    for part in parts:
        longer = f"{resolved}.{part}" if resolved else part
        if longer not in names and (again := re.sub(r"_\d+$", "", longer)) in names:
            longer = again
        resolved = names.get(longer, longer)
    return resolved


def name_of(node: ir.Node) -> str:
    """Return the name and the operator of a node, for messages."""
    return f"{node.name or node.outputs[0].name} ({node.op_type})"
