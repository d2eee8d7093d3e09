"""Find the values of the plain model that a part of the model can read, above the outputs of the part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, final

import onnx_ir as ir

from hookpatch_onnx._model.reads import read
from hookpatch_onnx._outside.side import Side, first_name


class Stand(NamedTuple):
    """The part of the plain model for which the nodes of a region stand.

    Attributes:
        region: the number of the region.
        module: the name of the module that has the part.
        is_whole: True if the part is all that the module computes, from its inputs to its outputs.
    """

    region: int
    module: str
    is_whole: bool


@final
class Above:
    """The plain model, walked from values to the values that these are computed from.

    Args:
        plain: the plain model.
        stands: what the nodes of plugins stand for.
        names: each name of a module, with the first name of the same module.
        dropped: the modules whose node is not in the model, since the model does not use the result.

    Attributes:
        casts: the nodes found that change nothing.
    """

    def __init__(self, plain: Side, stands: Iterable[Stand], names: Mapping[str, str], dropped: Iterable[str]) -> None:
        self._plain, self._names = plain, names
        stands = list(stands)
        self._stands: Final = stands
        self._calls: Final[dict[str, list[str]]] = {}  # by module, in the order of the plain model
        self._modules: Final = {*dropped, *(stand.module for stand in stands)}
        self._wholes: Final = {stand.module for stand in stands if stand.is_whole}
        self.casts: Final[set[ir.Node]] = set()

    def before_cast(self, value: ir.Value) -> ir.Value:
        """Return the input of a cast that casts to the same dtype, in a module with a node of a plugin.

        ``x.to(torch.float32)`` returns x itself, so in TorchScript's graph all later users of x read the cast.
        """
        node = value.producer()
        while node is not None and node.op_type == "Cast" and self.is_replaced(node):
            source = node.inputs[0]
            if source is None or (source.dtype is not None and source.dtype != node.attributes["to"].as_int()):
                break
            self.casts.add(node)
            value, node = source, source.producer()
        return value

    def is_replaced(self, node: ir.Node) -> bool:
        """Return True if a node comes from a module with a node of a plugin, or gives a value a second name."""
        return node.op_type == "Identity" or self.is_in(node, self._modules)

    def is_in(self, node: ir.Node, modules: Iterable[str]) -> bool:
        """Return True if a node comes, or can come, from one of some modules, or from a module inside."""
        return any(self._are_in(node, modules))

    def is_of_call(self, node: ir.Node, stand: Stand) -> bool:
        """Return True if a node comes from the call of a module that is the part: both models keep the order of calls.

        False if a call of the module has no node of a plugin: nobody knows which.
        """
        if stand.module not in self._calls:
            calls = (self._plain.call_of(each, stand.module, self._names) for each in self._plain.nodes())
            self._calls[stand.module] = list(dict.fromkeys(call for call in calls if call is not None))
        calls_in_order = self._calls[stand.module]
        regions = sorted({other.region for other in self._stands if other.module == stand.module})
        place = regions.index(stand.region)
        is_known = len(calls_in_order) == len(regions)
        return is_known and self._plain.call_of(node, stand.module, self._names) == calls_in_order[place]

    def _are_in(self, node: ir.Node, modules: Iterable[str]) -> list[bool]:
        names = [first_name(name, self._names) for name in self._plain.modules_of(node)]
        modules = list(modules)
        return [any(_holds(module, name) for module in modules) for name in names]

    def _is_beside(self, node: ir.Node, stand: Stand, calls: set[str | None]) -> bool:
        """Return True if a node is of another module with a node of a plugin, or of another call of the same module.

        Torch computes once what two modules compute from one input. Of a node between two modules nobody knows which
        of them has the node.
        """
        inside = self._are_in(node, (stand.module,))
        if any(inside):
            if not all(inside):
                return True
            call = self._plain.call_of(node, stand.module, self._names)
            return None not in (*calls, call) and call not in calls
        others = (module for module in self._wholes if not _holds(module, stand.module))
        return self.is_in(node, others)

    def _is_made_in(self, value: ir.Value, module: str) -> bool:
        node = value.producer()
        return node is not None and self.is_in(node, (module,))

    def _has_nodes(self, module: str) -> bool:
        return any(self.is_in(node, (module,)) for node in self._plain.nodes())

    def inputs(
        self, tops: Sequence[ir.Value], stand: Stand, ends: Sequence[ir.Value | None] = ()
    ) -> Iterator[tuple[ir.Value, bool]]:
        """Yield the values of the plain model that can be inputs of the part with these outputs, the nearest first.

        Each with True if the part must read the value. Do not look above ``ends``.
        """
        makers = [value.producer() for value in tops]
        calls = {self._plain.call_of(node, stand.module, self._names) for node in makers if node is not None}
        waiting, queued = list(tops), set(tops)
        shared: list[ir.Value] = []  # casts, which other parts of the model may read, too
        if stand.is_whole:
            inside = [value for value in tops if self._is_made_in(value, stand.module)]
            if inside or not self._has_nodes(stand.module):
                yield from ((value, False) for value in tops if value not in inside)  # the part returns an input
                waiting = inside
        while waiting:
            node = waiting.pop(0).producer()
            for value in read([node]) if node is not None else ():
                source = self.before_cast(value)
                if value in queued or self._plain.content(value) is not None or value in ends or source in ends:
                    continue
                is_size = is_shape(node)  # a node with the same shape as its input need not read the shape
                if not is_size:
                    queued.add(value)
                producer = value.producer()
                is_beside = producer is not None and (is_shape(producer) or self._is_beside(producer, stand, calls))
                is_inside = producer is not None and not is_beside and self.is_in(producer, (stand.module,))
                if is_inside or is_beside:
                    waiting.append(value)
                if not (is_inside and stand.is_whole):
                    yield source, not (is_beside or is_size) and value not in self._plain.fixed
                    if source is not value:
                        shared.append(value)
        yield from ((value, False) for value in shared)


def is_shape(node: ir.Node | None) -> bool:
    """Return True if a node takes the shape of a value: torch.export writes it in no module, before the first user."""
    return node is not None and node.op_type == "Shape"


def _holds(module: str, name: str) -> bool:
    """Return True if a module has another module in it, or is this module."""
    return not module or f"{name}.".startswith(f"{module}.")
