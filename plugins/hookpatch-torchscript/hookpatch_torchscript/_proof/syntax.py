"""Remedies for syntax that TorchScript does not support, as changes of source."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from textwrap import dedent, indent
from typing import Final

from hookpatch_torchscript._proof.change import Change, Span
from hookpatch_torchscript._proof.site import Site

ELEMENTS: Final = ("Tensor", "int", "float", "str", "bool")


def without_context(site: Site) -> Iterator[Change]:
    """Leave out ``with nullcontext():``, keep its body."""
    block = site.statement
    if not isinstance(block, ast.With) or any(item.optional_vars for item in block.items):
        return
    calls = [item.context_expr for item in block.items]
    if all(isinstance(call, ast.Call) and ast.unparse(call.func).endswith("nullcontext") for call in calls):
        first, last = block.body[0].lineno, block.body[-1].end_lineno or 0
        body = dedent("".join(linecache.getline(site.file, line) for line in range(first, last + 1)))
        yield Change((Span(block.lineno, 0, last + 1, 0, indent(body, " " * block.col_offset)),))


def with_isinstance(site: Site) -> Iterator[Change]:
    """Write ``isinstance(x, T)`` for ``type(x) is T``."""
    spans = []
    for node in site.head():
        if not isinstance(node, ast.Compare) or not isinstance(node.left, ast.Call) or len(node.ops) != 1:
            continue
        if ast.unparse(node.left.func) != "type" or len(node.left.args) != 1:
            continue
        text = f"isinstance({ast.unparse(node.left.args[0])}, {ast.unparse(node.comparators[0])})"
        if isinstance(node.ops[0], ast.Is | ast.Eq):
            spans.append(site.instead(node, text))
        elif isinstance(node.ops[0], ast.IsNot | ast.NotEq):
            spans.append(site.instead(node, f"not {text}"))
    if spans:
        yield Change(tuple(spans))


def with_loop(site: Site) -> Iterator[Change]:
    """Write a loop for a comprehension with a filter; each type of element is a remedy of its own."""
    for node in site.certain():
        if not isinstance(node, ast.ListComp) or len(node.generators) != 1:
            continue
        loop, statement = node.generators[0], site.statement
        alone = isinstance(statement, ast.Assign) and statement.value is node
        target = ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
        name = target if alone and target.isidentifier() else site.fresh("kept")
        tests = " and ".join(f"({ast.unparse(test)})" if len(loop.ifs) > 1 else ast.unparse(test) for test in loop.ifs)
        for element in ELEMENTS:
            lines = (
                f"{name}: List[{element}] = []",
                f"for {ast.unparse(loop.target)} in {ast.unparse(loop.iter)}:",
                *([f"    if {tests}:"] if tests else []),
                f"{'    ' * (2 if tests else 1)}{name}.append({ast.unparse(node.elt)})",
            )
            if name == target:
                pad = " " * statement.col_offset
                yield Change((site.instead(statement, f"\n{pad}".join(lines)),))
            else:
                yield Change((site.before(statement, *lines), site.instead(node, name)))


def without_walrus(site: Site) -> Iterator[Change]:
    """Assign on a line of its own for ``:=``."""
    named = [node for node in site.head() if isinstance(node, ast.NamedExpr)]
    certain = site.certain()
    if named and all(walrus in certain for walrus in named):
        lines = [ast.unparse(ast.Assign([walrus.target], walrus.value, lineno=0)) for walrus in named]
        yield Change(
            (
                site.before(site.statement, *lines),
                *(site.instead(walrus, ast.unparse(walrus.target)) for walrus in named),
            )
        )


def without_star(site: Site) -> Iterator[Change]:
    """Take the elements of a list by index for ``first, *rest = list``."""
    statement = site.statement
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Tuple | ast.List):
        return
    starred = [index for index, element in enumerate(target.elts) if isinstance(element, ast.Starred)]
    if len(starred) != 1:
        return
    items, after = site.fresh("items"), len(target.elts) - starred[0] - 1
    lines = [f"{items} = {ast.unparse(statement.value)}"]
    for index, element in enumerate(target.elts):
        if isinstance(element, ast.Starred):
            lines.append(f"{ast.unparse(element.value)} = {items}[{index}:{-after if after else ''}]")
        else:
            place = index if index < starred[0] else index - len(target.elts)
            lines.append(f"{ast.unparse(element)} = {items}[{place}]")
    pad = " " * statement.col_offset
    yield Change((site.instead(statement, f"\n{pad}".join(lines)),))


def without_tuple(site: Site) -> Iterator[Change]:
    """Leave out ``tuple()`` around a list that is indexed or passed on."""
    for node in site.head():
        inner = [node.value] if isinstance(node, ast.Subscript) else node.args if isinstance(node, ast.Call) else []
        for call in inner:
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "tuple" and len(call.args) == 1:
                yield Change((site.instead(call, ast.unparse(call.args[0])),))


def with_stack(site: Site) -> Iterator[Change]:
    """Write ``torch.stack(list).sum(0)`` for the sum of a list of tensors."""
    for node in site.head():
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "sum" and len(node.args) == 1:
            argument = node.args[0]
            inner = ast.unparse(argument)
            if isinstance(argument, ast.GeneratorExp):
                inner = f"[{inner[1:-1]}]"
            yield Change((site.instead(node, f"torch.stack({inner}).sum(0)"),))


def with_index(site: Site) -> Iterator[Change]:
    """Go through modules with ``enumerate`` and index the list that they are zipped with."""
    loop = site.statement
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call) or len(loop.iter.args) != 2:
        return
    if ast.unparse(loop.iter.func) == "zip" and isinstance(loop.target, ast.Tuple) and not loop.iter.keywords:
        index, (modules, values), (layer, value) = site.fresh("at"), loop.iter.args, loop.target.elts
        first = loop.body[0]
        yield Change(
            (
                site.instead(loop.target, f"{index}, {ast.unparse(layer)}"),
                site.instead(loop.iter, f"enumerate({ast.unparse(modules)})"),
                site.before(first, f"{ast.unparse(value)} = {ast.unparse(values)}[{index}]"),
            )
        )


def guarded(site: Site) -> Iterator[Change]:
    """Leave a call out of TorchScript whose result is not used: a print, a log."""
    if isinstance(site.statement, ast.Expr) and isinstance(site.statement.value, ast.Call):
        text = ast.unparse(site.statement)
        pad = " " * (site.statement.col_offset + 4)
        yield Change((site.instead(site.statement, f"if not torch.jit.is_scripting():\n{pad}{text}"),))
