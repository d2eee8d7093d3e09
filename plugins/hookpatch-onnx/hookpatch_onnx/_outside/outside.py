"""Compare all of a changed model but the nodes of plugins with the plain model.

Both models are walked from their outputs to their inputs, node by node. A node of a plugin stands for the nodes of
its module in the plain model: these nodes are found from the outputs of the plugin's node up to its inputs. A node that
belongs neither to a walked pair nor to such a module is a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, final

import onnx_ir as ir

from hookpatch_onnx._model.reads import graphs, read, subgraphs
from hookpatch_onnx._outside.above import Above, Stand, is_shape
from hookpatch_onnx._outside.side import Side, attribute_bytes, is_made, name_of

_Pair: TypeAlias = tuple[ir.Value | None, ir.Value | None]  # a value of the changed model; of the plain model


@final
class Outside:
    """A changed model beside the plain model.

    Args:
        changed: the model with plugins.
        plain: the model without plugins.
        stands: what each node of a plugin stands for.
        names: each name of a module, with the first name of the same module.
        dropped: the modules whose node is not in the model, since the model does not use the result.

    Attributes:
        equal: how many nodes are equal in both models.
        differences: the differences, a few words each; empty if all outside of the plugins' nodes is the same.
    """

    def __init__(
        self,
        changed: Side,
        plain: Side,
        stands: Mapping[ir.Node, Stand],
        names: Mapping[str, str] | None = None,
        dropped: Iterable[str] = (),
    ) -> None:
        self._changed, self._plain, self._stands = changed, plain, stands
        self._above: Final = Above(plain, stands.values(), names or {}, dropped)
        self._identities: Final[set[ir.Node]] = set()  # nodes of the changed model in place of such a cast
        self._values: dict[ir.Value, ir.Value] = {}  # the plain value for each walked value of the changed model
        self._nodes: dict[ir.Node, ir.Node] = {}
        self._paired: set[ir.Node] = set()  # the nodes of the plain model among them
        self._sizes: dict[str, str] = {}  # unknown sizes: their names may differ
        self._made: dict[ir.Node, None] = {}  # walked, with inputs that are not yet walked
        self._tops: Final[list[ir.Value]] = []  # the plain values for the outputs of plugins' nodes
        self.differences: Final[list[str]] = list(self._compare())
        self.equal: Final = len(self._nodes)

    def _compare(self) -> Iterator[str]:
        mine, its = self._changed.model, self._plain.model
        added = {domain for domain in mine.opset_imports if domain not in its.opset_imports}
        if {domain: mine.opset_imports[domain] for domain in mine.opset_imports if domain not in added} != dict(
            its.opset_imports
        ):
            yield "the opset versions"
        yield from self._interface("input", mine.graph.inputs, its.graph.inputs)
        yield from self._interface("output", mine.graph.outputs, its.graph.outputs)
        self._values.update(zip(mine.graph.inputs, its.graph.inputs, strict=False))
        walked = list(self._walk(zip(mine.graph.outputs, its.graph.outputs, strict=False)))
        while self._made:
            node = next(iter(self._made))
            del self._made[node]
            walked += self._through(node)
        yield from dict.fromkeys(walked)
        if not walked:
            yield from self._unpaired()

    def _interface(self, kind: str, mine: Sequence[ir.Value], its: Sequence[ir.Value]) -> Iterator[str]:
        if list(map(_given_name, mine)) != list(map(_given_name, its)):
            yield f"the names of the {kind}s (give {kind}_names)"
        for my_value, its_value in zip(mine, its, strict=False):
            if my_value.type != its_value.type or not self._is_same_shape(my_value.shape, its_value.shape):
                yield f"the {kind} {its_value.name}: {_type(my_value)} instead of {_type(its_value)}"

    def _is_same_shape(self, mine: ir.Shape | None, its: ir.Shape | None) -> bool:
        if mine is None or its is None:
            return mine is its
        return len(mine) == len(its) and all(map(self._is_same_size, mine, its))

    def _is_same_size(self, mine: int | ir.SymbolicDim, its: int | ir.SymbolicDim) -> bool:
        if isinstance(mine, int) or isinstance(its, int) or mine.value is None or its.value is None:
            return mine == its
        return self._sizes.setdefault(mine.value, its.value) == its.value

    def _walk(self, pairs: Iterable[_Pair]) -> Iterator[str]:
        """Walk from pairs of values to the inputs; yield the differences on the way."""
        waiting = list(pairs)
        while waiting:
            mine, its = waiting.pop()
            if its is not None and not _is_by(mine, "Cast"):
                cast, its = its, self._above.before_cast(its)
                if its is not cast and mine is not None and _is_by(mine, "Identity"):  # a model returns its input
                    mine = self._before_identity(mine)
            if mine is None or its is None:
                if mine is not its:
                    yield f"an input that is left out beside {(mine or its).name}"  # type: ignore[union-attr]  # one is there
            elif mine in self._values:
                if self._values[mine] is not its:
                    yield f"{mine.name} is {self._values[mine].name} in one place, and {its.name} in another"
            elif (content := self._changed.content(mine)) is not None:
                if content != self._plain.content(its):
                    yield f"the constant {mine.name}"
            else:
                self._values[mine] = its
                yield from self._walk_node(mine, its, waiting)

    def _before_identity(self, value: ir.Value) -> ir.Value | None:
        """Return the input of an Identity that stands for a cast left out."""
        node = value.producer()
        assert node is not None
        self._identities.add(node)
        return node.inputs[0]

    def _walk_node(self, mine: ir.Value, its: ir.Value, waiting: list[_Pair]) -> Iterator[str]:
        node, plain = mine.producer(), its.producer()
        if node is not None and is_made(node):
            self._made[node] = None
            return
        if node is None or plain is None or mine.index() != its.index():
            yield f"{mine.name} instead of {its.name}"
            return
        if node in self._nodes or plain in self._paired:
            if self._nodes.get(node) is not plain:
                yield f"{name_of(node)} stands for a shared node"
            return
        self._nodes[node] = plain
        self._paired.add(plain)
        if not self._is_same_shape(mine.shape, its.shape) or mine.type != its.type:
            yield f"{name_of(node)}: {_type(mine)} instead of {_type(its)}"
        if _form(node) != _form(plain) or len(node.inputs) != len(plain.inputs):
            yield f"{name_of(node)} instead of {name_of(plain)}"
            return
        waiting += zip(node.inputs, plain.inputs, strict=True)
        for my_graph, its_graph in zip(subgraphs(node), subgraphs(plain), strict=True):
            self._values.update(zip(my_graph.inputs, its_graph.inputs, strict=False))
            waiting += zip(my_graph.outputs, its_graph.outputs, strict=False)

    def _through(self, made: ir.Node) -> Iterator[str]:
        """Go on before a node of a plugin: find the plain value for each value that the node reads."""
        together = list(self._together(made))
        tops = [self._values[value] for node in together for value in node.outputs if value in self._values]
        self._tops.extend(tops)
        computed = {value for node in together for value in node.outputs}
        above = [value for value, _ in self._above.inputs(tops, self._stands[made])]
        values = [value for value in dict.fromkeys(read(together)) if value not in computed]
        values = [
            value for value in values if self._changed.content(value) is None and self._is_needed(value, together)
        ]
        for value in values:
            if value not in self._values:
                yield from self._find(made, value, above)
            elif self._values[value] not in above:
                yield f"{name_of(made)} reads {value.name}"
        is_whole, found = self._stands[made].is_whole, [self._values.get(value) for value in values]
        if is_whole and None not in found:
            rest = self._above.inputs(tops, self._stands[made], found)
            yield from (f"{name_of(made)} does not read {value.name}" for value, is_read in rest if is_read)

    def _is_needed(self, value: ir.Value, nodes: Iterable[ir.Node]) -> bool:
        """Return False if the nodes that read a value are functions whose bodies do not."""
        for node in nodes:
            function = self._changed.model.functions.get(node.op_identifier())
            if function is None:
                if value in read([node]):
                    return True
                continue
            for argument, parameter in zip(node.inputs, function.inputs, strict=False):
                if argument is value and (parameter.uses() or parameter in function.outputs):
                    return True
        return False

    def _together(self, made: ir.Node) -> Iterator[ir.Node]:
        """Yield a node of a plugin, and the nodes of the same region before it."""
        waiting, queued = [made], {made}
        while waiting:
            node = waiting.pop()
            yield node
            for value in node.inputs:
                producer = None if value is None else value.producer()
                stand = None if producer is None else self._stands.get(producer)
                if producer is not None and stand == self._stands[made] and producer not in queued:
                    queued.add(producer)
                    waiting.append(producer)

    def _find(self, made: ir.Node, value: ir.Value, above: Sequence[ir.Value]) -> Iterator[str]:
        """Find the plain value for a value that a node of a plugin reads, and walk on from there.

        The value of the same name is tried first. For a value of another node of a plugin, the values of the same call
        of its module come before. If no value fits, the differences of the first value are yielded.
        """
        first: list[str] = [f"{name_of(made)} reads {value.name}"]
        producer = value.producer()
        stand = None if producer is None else self._stands.get(producer)

        taken = set(self._values.values())

        def unlikely(candidate: ir.Value) -> tuple[bool, bool, bool, bool]:
            node = candidate.producer()
            is_likely = stand is not None and node is not None and self._above.is_in(node, (stand.module,))
            is_call = is_likely and stand is not None and node is not None and self._above.is_of_call(node, stand)
            return not is_call, candidate.name != value.name, not is_likely, candidate in taken

        by_name = sorted(above, key=unlikely)
        for candidate in by_name:
            known = dict(self._values), dict(self._nodes), set(self._paired), dict(self._sizes), dict(self._made)
            differences = list(self._walk([(value, candidate)]))
            if not differences:
                return
            self._values, self._nodes, self._paired, self._sizes, self._made = known
            first = differences if candidate is by_name[0] else first
        yield from first

    def _unpaired(self) -> Iterator[str]:
        """Yield the nodes that only one of the models has."""
        absorbed = {node for node in self._absorbed() if is_shape(node) or self._above.is_replaced(node)}
        absorbed |= {
            node for outer in absorbed for graph in subgraphs(outer) for part in graphs(graph) for node in part
        }
        for node in self._plain.nodes():
            if node not in self._paired and node not in absorbed:
                yield f"{name_of(node)} is missing"
        for node in self._changed.nodes():
            if node not in self._nodes and node not in self._identities and not is_made(node):
                yield f"{name_of(node)} is new"

    def _absorbed(self) -> set[ir.Node]:
        """Return the nodes of the plain model for which nodes of plugins stand."""
        ends, waiting = set(self._values.values()) - set(self._tops), list(self._tops)
        absorbed: set[ir.Node] = set()
        while waiting:
            value = waiting.pop()
            node = value.producer()
            if node is not None and node not in absorbed and value not in ends:
                absorbed.add(node)
                waiting += read([node])
        return absorbed | self._above.casts


def _given_name(value: ir.Value) -> str:
    """Return the name of an input or output; empty for a number, which TorchScript's exporter gives by itself."""
    return "" if (value.name or "").isdecimal() else str(value.name)


def _is_by(value: ir.Value | None, op_type: str) -> bool:
    """Return True if a node with this operator computes a value."""
    node = None if value is None else value.producer()
    return node is not None and node.op_type == op_type


def _form(node: ir.Node) -> tuple[object, ...]:
    attributes = {
        name: attribute_bytes(attribute)
        for name, attribute in node.attributes.items()
        if attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    }
    return node.domain, node.op_type, node.overload, attributes, len(node.outputs), len(list(subgraphs(node)))


def _type(value: ir.Value) -> str:
    return f"{value.dtype}{'' if value.shape is None else value.shape}"
