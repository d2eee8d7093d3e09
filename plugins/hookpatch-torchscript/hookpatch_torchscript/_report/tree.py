"""Show a record as a tree, with colours on a terminal and plain in a log."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from hookpatch_torchscript._report.note import note
from hookpatch_torchscript._values.place import Place
from hookpatch_torchscript._values.record import Attribute, Method, Module, Record

_LOG_WIDTH: Final = 120  # without a terminal
_TORCH: Final = ("torch.nn.", "torch.ao.")  # torch's own modules get one line each
_SHORT: Final = 0.0001  # seconds; shorter steps are not shown
_EACH_HAS: Final = frozenset({"training", "_is_full_backward_hook"})  # attributes that torch sets in every module


def as_text(record: Record, width: int = _LOG_WIDTH) -> str:
    """Return the tree as plain text."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False).print(tree(record))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + _end(record)


def show(record: Record, stream: TextIO) -> None:
    """Print the tree: in the width and colours of a terminal, plain into any other stream."""
    if not stream.isatty():
        stream.write(as_text(record) + "\n")
        return
    console = Console(file=stream, highlight=False)
    console.print(tree(record))
    if end := _end(record):
        console.print(Text(end.lstrip("\n"), style="red"))


def tree(record: Record) -> Tree:
    """Return the tree: nested modules with attributes and compiled methods."""
    failure = record.failure
    ended = "failed after" if failure else "scripted in"
    head = Text.assemble(("torch.jit.script", "dim"), " ", (record.name, "bold"), f"  {ended} ")
    head.append(_time(record.seconds), "red" if failure else "green")
    head.append(_place_in_words(record.called_at, "  called at "), "dim")
    root = Tree(head, guide_style="dim")
    nodes: dict[str, Tree] = {}
    for module in record.modules:
        parent = nodes.get(module.path.rpartition(".")[0], root) if module.path else root
        nodes[module.path] = parent.add(_module(module))
        if not module.defined_in.startswith(_TORCH) and module.origin != "shared":
            _fill(nodes[module.path], module, record)
    functions = [method for method in record.methods if method.path is None]
    if functions:
        root.add(_methods(functions))
    return root


def _fill(node: Tree, module: Module, record: Record) -> None:
    rows = [attribute for attribute in module.attributes if attribute.name not in _EACH_HAS]
    if rows:
        node.add(_attributes(rows))
    if methods := [method for method in record.methods if method.path == module.path]:
        node.add(_methods(methods))


def _module(module: Module) -> Text:
    text = Text.assemble((f"{module.path}  " if module.path else "", "cyan"), (module.class_name, "bold"))
    if not module.defined_in.startswith(_TORCH):
        text.append(_place_in_words(module.place, "  "), "dim")
    origin = (
        f"type shared with {module.shared_with or 'the model'}"
        if module.origin == "shared"
        else {
            None: "no type",
            "new": "new type",
            "found in the store": "type found in the store",
            "scripted before": "scripted before",
        }[module.origin]
    )
    text.append(f"  {origin}", "red" if module.origin is None else "green")
    counts = (("parameter", module.parameters), ("buffer", module.buffers), ("module", module.modules))
    text.append("".join(f"  {_many(len(names), word)}" for word, names in counts if names))
    if not module.defined_in.startswith(_TORCH):
        text.append("".join(f"  {step} {_time(took)}" for step, took in module.seconds.items() if took > _SHORT), "dim")
    return text


def _attributes(rows: Iterable[Attribute]) -> Table:
    table = _table(4)
    for row in rows:
        style = "red" if row.known_by == "failed" else ""
        type_words = row.torchscript_type or ("" if row.problem is None else "no type: ") + (row.problem or "-")
        table.add_row(
            Text(row.name, "cyan"), Text(row.python_type), Text(type_words, style), Text(row.known_by, style or "dim")
        )
    return table


def _methods(methods: Iterable[Method]) -> Table:
    table = _table(5)
    for method in methods:
        came = (
            f"called in {method.reached_from or '?'}{_place_in_words(method.reached_at, ', ')}"
            if method.why is None
            else method.why
        )
        if method.kind in ("property", "hook"):
            came = method.kind
        took = _time(method.seconds) if method.seconds is not None else ""
        state = "known" if method.known else "compiled" if method.compiled else "not compiled"
        table.add_row(
            Text(state, "green" if method.compiled else "red"),
            Text(method.name, "bold"),
            Text(_place_in_words(method.place, ""), "dim"),
            Text(came),
            Text(took, "dim"),
        )
    return table


def _table(columns: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(columns):
        table.add_column(overflow="fold")
    return table


def _end(record: Record) -> str:
    lines = [("dropped", text) for text in record.dropped] + [("differs", record.differs)] * bool(record.differs)
    lines += [("limit", limit) for limit in record.limits]
    message = note(record) or "\n".join(f"  {word:<8}{text}" for word, text in lines)
    return f"\n{message}" if message else ""


def _place_in_words(place: Place | None, before: str) -> str:
    """Return the file name and the line; the note and the JSON have the whole path."""
    return "" if place is None else f"{before}{place.file.replace(chr(92), '/').rpartition('/')[2]}:{place.line}"


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"
