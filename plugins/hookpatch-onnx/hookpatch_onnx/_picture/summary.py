"""A comparison in words, for a terminal."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hookpatch_onnx._compare.compare import Comparison, GraphComparison
from hookpatch_onnx._measure.measured import Measure, Measured

_Key = TypeVar("_Key")

_LINES = 12  # of each kind; a last line counts the others
_STYLES = {"equal": "green", "rounding": "green", "not measured": "dim", "passed on": "yellow", "differs": "bold red"}


def summary(comparison: Comparison, measured: Measured | None = None) -> RenderableType:
    """Return the differences: operators, places, nodes, inputs and outputs, initializers; and distances, if any."""
    title = Text.assemble((comparison.before, "bold"), " → ", (comparison.after, "bold"))
    parts: list[RenderableType] = [title, *_patches(comparison)]
    if comparison.is_empty:
        graph = comparison.graphs[0]
        renamed = f"; {_nodes(graph.renamed)} renamed" if graph.renamed else ""
        verdict = Text(f"no difference: {_nodes(len(graph.matches))} in both{renamed}", style="green")
        return Group(*parts, verdict, *_numbers(measured))
    parts += [_counts(graph) for graph in comparison.graphs if not graph.title or not graph.is_empty]
    parts += _numbers(measured)
    if comparison.ops():
        parts += [Text(), _ops(comparison)]
    for index, graph in enumerate(comparison.graphs):
        parts += _graph(graph, None if index else measured)
    parts += map(_also, comparison.model)
    return Group(*parts)


def _patches(comparison: Comparison) -> Iterator[Text]:
    before, after = comparison.patches
    called = [patch for patch in after if patch not in before]
    if called:
        words = "patched by " if len(called) == 1 else "patches called: "
        yield Text.assemble(words, (", ".join(called), "bold magenta"))


def _counts(graph: GraphComparison) -> Text:
    prefix = f"{graph.title}: " if graph.title else ""
    changed = len(graph.changed)
    text = Text(f"{prefix}{_nodes(len(graph.before.nodes))} → {len(graph.after.nodes)}: ")
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


def _numbers(measured: Measured | None) -> Iterator[Text]:
    """Yield the distances of the outputs, and what became of the weights."""
    if measured is None:
        return
    if measured.outputs is not None:
        inputs = ", ".join(f"{name} {kind}" for name, kind in (measured.inputs or {}).items())
        yield Text(f"run on one input, seed {measured.seed}: {inputs}; distances are relative to the largest value")
        for name, measure in list(measured.outputs.items())[:_LINES]:
            yield _also(f"output '{name}' ").append(measure.words, style=_STYLES[measure.effect])
    yield Text(f"weights: {measured.weights.words}")
    groups: dict[str, list[str]] = defaultdict(list)
    for change in sorted(
        measured.weights.changes, key=lambda weight: -weight.distance.relative if weight.distance else 1
    ):
        apart = f" {change.distance.words}" if change.distance else ""
        groups[f"{change.type}: {change.kind}{apart}"].append(change.name)
    for description, names in list(groups.items())[:_LINES]:
        yield _also(f"{len(names)} {description}").append(
            f"  ({', '.join(names[:3])}{', …' * (len(names) > 3)})", style="dim"
        )
    if (omitted := len(groups) - _LINES) > 0:
        yield _also(f"and {omitted} more kind{'s' * (omitted > 1)} of weights")


def _effect(measures: Sequence[Measure]) -> Text:
    """Return the worst of several measures in words."""
    if not measures:
        return Text()
    order = list(_STYLES)
    worst = max(
        measures, key=lambda measure: (order.index(measure.effect), measure.behind.relative if measure.behind else 0)
    )
    return Text(f"  {worst.words}", style=_STYLES[worst.effect])


def _graph(graph: GraphComparison, measured: Measured | None) -> Iterator[RenderableType]:
    """Yield the lines of a graph, under the title unless the graph is the model's own."""
    if graph.is_empty:
        return
    yield Text(f"\nin {graph.title}" if graph.title else "", style="bold" if graph.title else "")
    measures: dict[Hashable, list[Measure]] = defaultdict(list)
    by_pattern: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for number, place in enumerate(graph.places):
        by_pattern[*place.pattern, place.by].append(graph.label_of(place))
        if measured and measured.places:
            measures[*place.pattern, place.by].append(measured.places[number])
    for (was, becomes, by), labels in _most(by_pattern):
        words = Text.assemble((was, "red"), " → ", (becomes, "green"))
        words = words.append(f"  by {', '.join(by)}", style="magenta") if by else words
        yield _line(labels, "place", words.append(_effect(measures[was, becomes, by])))
    by_change: dict[tuple[str, str], list[str]] = defaultdict(list)
    for index, lines in graph.changed.items():
        node = graph.before.nodes[index]
        by_change[node.op, "; ".join(lines)].append(node.label)
        if measured and measured.changed:
            measures[node.op, "; ".join(lines)].append(measured.changed[index])
    for (op, change), labels in _most(by_change):
        words = Text.assemble((op, "yellow"), f"  {change}").append(_effect(measures[op, change]))
        yield _line(labels, "node", words)
    for kinds, word in ((len(by_pattern), "place"), (len(by_change), "change")):
        if kinds > _LINES:
            omitted = kinds - _LINES
            yield _also(f"and {omitted} more kind{'s' * (omitted > 1)} of {word}s")
    for lines in (graph.ends, () if measured else graph.initializers):  # the weights are compared one by one above
        yield from map(_also, lines[:_LINES])
        if len(lines) > _LINES:
            yield _also(f"and {len(lines) - _LINES} more")


def _most(groups: dict[_Key, list[str]]) -> list[tuple[_Key, list[str]]]:
    counts = Counter({key: len(labels) for key, labels in groups.items()})
    return [(key, groups[key]) for key, _ in counts.most_common(_LINES)]


def _line(labels: Sequence[str], noun: str, words: Text) -> Text:
    count = f"{len(labels):>4} {noun}{'s' * (len(labels) > 1)}"
    return (
        Text(f"{count:<12}")
        .append(words)
        .append(f"  ({', '.join(labels[:3])}{', …' * (len(labels) > 3)})", style="dim")
    )


def _also(text: str) -> Text:
    return Text(f"{'':<12}{text}")


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
