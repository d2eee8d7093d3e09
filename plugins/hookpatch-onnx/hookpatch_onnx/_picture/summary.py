"""A comparison in words, for a terminal."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hookpatch_onnx._compare.compare import Comparison, GraphComparison

_Key = TypeVar("_Key")

_LINES = 12  # of each kind; a last line counts the others


def summary(comparison: Comparison) -> RenderableType:
    """Return the differences: operators, places, nodes, inputs and outputs, initializers."""
    title = Text.assemble((comparison.before, "bold"), " → ", (comparison.after, "bold"))
    parts: list[RenderableType] = [title, *_patches(comparison)]
    if comparison.is_empty:
        graph = comparison.graphs[0]
        renamed = f"; {_nodes(graph.renamed)} renamed" if graph.renamed else ""
        return Group(*parts, Text(f"no difference: {_nodes(len(graph.matches))} in both{renamed}", style="green"))
    parts += [_counts(graph) for graph in comparison.graphs if not graph.title or not graph.is_empty]
    if comparison.ops():
        parts += [Text(), _ops(comparison)]
    for graph in comparison.graphs:
        parts += _graph(graph)
    parts += map(_also, comparison.model)
    return Group(*parts)


def _patches(comparison: Comparison) -> Iterator[Text]:
    before, after = comparison.patches
    called = [patch for patch in after if patch not in before]
    if called:
        words = "patched by " if len(called) == 1 else "patches called: "
        yield Text.assemble(words, (", ".join(called), "bold magenta"))


def _counts(graph: GraphComparison) -> Text:
    said = f"{graph.title}: " if graph.title else ""
    changed = len(graph.changed)
    text = Text(f"{said}{_nodes(len(graph.before.nodes))} → {len(graph.after.nodes)}: ")
    text.append(f"{len(graph.matches) - changed} as they were")
    if graph.renamed:
        text.append(f" ({graph.renamed} renamed)", style="dim")
    for count, word, style in (
        (changed, "changed", "yellow"),
        (len(graph.lost), "lost", "red"),
        (len(graph.gained), "gained", "green"),
    ):
        if count:
            text.append(", ").append(f"{count} {word}", style=style)
    constants = graph.before.constants, graph.after.constants
    if constants[0] != constants[1]:
        text.append(f"; beside them {constants[0]} Constant → {constants[1]}", style="dim")
    return text


def _ops(comparison: Comparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("op")
    for column in ("before", "after", ""):
        table.add_column(column, justify="right")
    for op, (before, after) in comparison.ops().items():
        table.add_row(
            op, str(before), str(after), Text(f"{after - before:+}", style="green" if after > before else "red")
        )
    return table


def _graph(graph: GraphComparison) -> Iterator[RenderableType]:
    """Yield the lines of a graph, under the title unless the graph is the model's own."""
    if graph.is_empty:
        return
    yield Text(f"\nin {graph.title}" if graph.title else "", style="bold" if graph.title else "")
    by_pattern: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for place in graph.places:
        by_pattern[*place.pattern, place.by].append(graph.label_of(place))
    for (was, becomes, by), labels in _most(by_pattern):
        said = Text.assemble((was, "red"), " → ", (becomes, "green"))
        yield _line(labels, "place", said.append(f"  by {', '.join(by)}", style="magenta") if by else said)
    by_change: dict[tuple[str, str], list[str]] = defaultdict(list)
    for index, lines in graph.changed.items():
        node = graph.before.nodes[index]
        by_change[node.op, "; ".join(lines)].append(node.label)
    for (op, change), labels in _most(by_change):
        yield _line(labels, "node", Text.assemble((op, "yellow"), f"  {change}"))
    for kinds, word in ((len(by_pattern), "place"), (len(by_change), "change")):
        if kinds > _LINES:
            more = kinds - _LINES
            yield _also(f"and {more} more kind{'s' * (more > 1)} of {word}s")
    for lines in (graph.ends, graph.initializers):
        yield from map(_also, lines[:_LINES])
        if len(lines) > _LINES:
            yield _also(f"and {len(lines) - _LINES} more")


def _most(groups: dict[_Key, list[str]]) -> list[tuple[_Key, list[str]]]:
    counts = Counter({key: len(labels) for key, labels in groups.items()})
    return [(key, groups[key]) for key, _ in counts.most_common(_LINES)]


def _line(labels: Sequence[str], what: str, said: Text) -> Text:
    count = f"{len(labels):>4} {what}{'s' * (len(labels) > 1)}"
    return (
        Text(f"{count:<12}").append(said).append(f"  ({', '.join(labels[:3])}{', …' * (len(labels) > 3)})", style="dim")
    )


def _also(text: str) -> Text:
    return Text(f"{'':<12}{text}")


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
