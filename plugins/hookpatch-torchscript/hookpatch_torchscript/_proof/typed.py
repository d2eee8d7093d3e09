"""Remedies for values of another type than TorchScript infers, as changes of source."""

from __future__ import annotations

import ast
import inspect
import linecache
import typing
from collections.abc import Iterator
from types import FunctionType
from typing import Any, Final

import torch

from hookpatch_torchscript._proof.change import Change, Span
from hookpatch_torchscript._proof.inputs import may_be_none
from hookpatch_torchscript._proof.observed import type_of
from hookpatch_torchscript._proof.site import Site
from hookpatch_torchscript._proof.syntax import ELEMENTS

TYPES: Final[dict[str, Any]] = {
    **{name: getattr(typing, name) for name in ("Dict", "List", "Optional", "Tuple")},
    "Tensor": torch.Tensor,
}


def asserted(site: Site) -> Iterator[Change]:
    """Assert that a value is not None. The original raises for None, too, so the assertion changes no result."""
    definition = site.definition_of(site.function)
    optional = {
        argument.arg
        for argument in (*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs)
        if may_be_none(argument)
    }
    nodes = site.certain()
    names = sorted({node.id for node in nodes if isinstance(node, ast.Name) and node.id in optional})
    if names:
        yield Change((site.before(site.statement, *(f"assert {name} is not None" for name in names)),))
    of_self = [
        node
        for node in nodes
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self" and _may_be_none(site, node.attr)
    ]
    if of_self:
        attributes = {node.attr: site.fresh(node.attr) for node in of_self}
        lines = [
            line
            for attribute, name in attributes.items()
            for line in (f"{name} = self.{attribute}", f"assert {name} is not None")
        ]
        spans = [site.instead(node, attributes[node.attr]) for node in of_self]
        yield Change((site.before(site.statement, *lines), *spans))


def asserted_parts(site: Site) -> Iterator[Change]:
    """Assert that an item or local variable is not None, such as ``masks[0]`` of a list of optional tensors."""
    for node in site.certain():
        if not isinstance(node, ast.Name | ast.Subscript) or not isinstance(node.ctx, ast.Load):
            continue
        if isinstance(node, ast.Name):
            yield Change((site.before(site.statement, f"assert {node.id} is not None"),))
        else:
            name = site.fresh("item")
            lines = (f"{name} = {ast.unparse(node)}", f"assert {name} is not None")
            yield Change((site.before(site.statement, *lines), site.instead(node, name)))


def _may_be_none(site: Site, attribute: str) -> bool:
    annotation = str(getattr(type(site.module), "__annotations__", {}).get(attribute, ""))
    return "Optional" in annotation or "None" in annotation or vars(site.module).get(attribute, 0) is None


def annotated(site: Site) -> Iterator[Change]:
    """Annotate parameters, and then results, with the types that a run shows."""
    spans: list[Span] = []
    results: list[Span] = []
    for function in (site.function, *_called(site)):
        definition, observed = site.definition_of(function), site.observe(function)
        positional = (*definition.args.posonlyargs, *definition.args.args)
        defaults = dict(zip(reversed(positional), reversed(definition.args.defaults), strict=False))
        for argument in positional:
            type_ = observed.given.get(argument.arg, "Tensor")
            if argument.arg in observed.given and _is_none(defaults.get(argument)):
                type_ = f"Optional[{type_}]"
            if argument.annotation is None and type_ != "Tensor" and argument.arg != "self":
                spans.append(site.instead(argument, f"{argument.arg}: {type_}"))  # type: ignore[arg-type]  # has a place, too
        if definition.returns is None and observed.returned not in (None, "Tensor"):
            line, column = _end_of_head(site, definition)
            results.append(Span(line, column, line, column, f" -> {observed.returned}"))
    if spans:
        yield Change(tuple(spans))
    if results:
        yield Change((*spans, *results))


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _called(site: Site) -> Iterator[FunctionType]:
    """Yield the methods and functions of the same file that the statement calls."""
    names = [ast.unparse(node.func) for node in site.head() if isinstance(node, ast.Call)]
    for name in dict.fromkeys(names):
        owner, _, method = name.rpartition(".")
        callee = (
            inspect.getattr_static(type(site.module), method, None)
            if owner == "self"
            else site.function.__globals__.get(name)
        )
        if not isinstance(callee, FunctionType) or hasattr(callee, "__wrapped__") or callee is site.function:
            continue
        if callee.__code__.co_filename == site.function.__code__.co_filename:
            yield callee


def _end_of_head(site: Site, definition: ast.FunctionDef) -> tuple[int, int]:
    """Return the line and column of the colon of a definition without a result type."""
    line = definition.body[0].lineno
    for number in range(line, definition.lineno - 1, -1):
        text = linecache.getline(site.file, number)
        if (number < line or text.lstrip().startswith("def ")) and "):" in text:
            return number, text.rindex("):") + 1
    raise LookupError(definition.name)


def of_elements(site: Site) -> Iterator[Change]:
    """Annotate empty lists and dicts where they are made, with the types that a run shows."""
    definition, observed = site.definition_of(site.function), site.observe(site.function)
    used = {node.id for node in site.head() if isinstance(node, ast.Name)}
    for node in ast.walk(definition):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(target, ast.Name):
            continue
        if target.id in used and isinstance(node.value, ast.List | ast.Dict) and target.id in observed.names:
            value = ast.unparse(node.value)
            yield Change((site.instead(node, f"{target.id}: {observed.names[target.id]} = {value}"),))


def begun_with_none(site: Site) -> Iterator[Change]:
    """Annotate a variable that begins as None as Optional, and assert a value where the value is used at last."""
    definition, observed = site.definition_of(site.function), site.observe(site.function)
    bodies = [getattr(node, "body", None) for node in ast.walk(definition)]
    for body in (body for body in bodies if isinstance(body, list)):
        for index, first in enumerate(body):
            target = first.targets[0] if isinstance(first, ast.Assign) else None
            if not isinstance(target, ast.Name) or not _is_none(first.value) or target.id not in observed.names:
                continue
            annotation = site.instead(first, f"{target.id}: Optional[{observed.names[target.id]}] = None")
            yield Change((annotation,))
            for later in body[index + 1 :]:
                if isinstance(later, ast.Return | ast.Assign) and _raises_for_none(later, target.id):
                    yield Change((annotation, site.before(later, f"assert {target.id} is not None")))
                    break


def _raises_for_none(statement: ast.stmt, name: str) -> bool:
    """Return True if a statement uses a variable in a way that None does not allow, and does not ask for None."""
    nodes = list(ast.walk(statement))
    if any(isinstance(node, ast.IfExp | ast.BoolOp | ast.Lambda | ast.comprehension) for node in nodes):
        return False
    used = [node.value for node in nodes if isinstance(node, ast.Attribute | ast.Subscript)]
    used += [side for node in nodes if isinstance(node, ast.BinOp) for side in (node.left, node.right)]
    return any(isinstance(node, ast.Name) and node.id == name for node in used)


def with_float(site: Site) -> Iterator[Change]:
    """Make the value of one branch of an if-expression a float, where the other one is."""
    for node in site.head():
        for value in (node.body, node.orelse) if isinstance(node, ast.IfExp) else ():
            is_number = isinstance(value, ast.Constant) and type(value.value) is int
            yield Change(
                (site.instead(value, f"{ast.unparse(value)}.0" if is_number else f"float({ast.unparse(value)})"),)
            )


def of_attribute(site: Site) -> Iterator[Change]:
    """Annotate an attribute in the class body, if its value shows no type when the module is scripted."""
    owner = site.class_of(site.function)
    value = vars(site.module).get(site.attribute, 0) if site.module is not None and site.attribute else 0
    if owner is None or site.attribute is None or (value is not None and value not in ([], {})):
        return
    # Torch reads no annotation that is a text. The import from __future__ makes a text of each annotation in the file.
    if "__annotations__" in vars(type(site.module)) and site.attribute in type(site.module).__annotations__:
        return
    if any(isinstance(statement, ast.ImportFrom) and statement.module == "__future__" for statement in site.tree.body):
        return
    assigned = _assigned(site, owner, site.attribute)
    if value is None:
        annotations = [f"Optional[{element}]" for element in dict.fromkeys([*assigned, *ELEMENTS])]
    elif isinstance(value, list):
        elements = dict.fromkeys([*_appended(site, owner, site.attribute), "int", *ELEMENTS])
        annotations = [f"List[{element}]" for element in elements]
    else:
        annotations = [f"Dict[str, {element}]" for element in ELEMENTS]
    first = owner.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(owner.body) > 1
    anchor = owner.body[1] if is_text else first
    line = min([anchor.lineno, *(decorator.lineno for decorator in getattr(anchor, "decorator_list", []))])
    for annotation in annotations:
        insertion = site.lines_at(line, anchor.col_offset, f"{site.attribute}: {annotation}", "")
        yield Change((insertion,), annotations={site.attribute: eval(annotation, dict(TYPES))})


def _appended(site: Site, owner: ast.ClassDef, attribute: str) -> Iterator[str]:
    """Yield the types of what the class appends to a list; of an expression of unknown type a tensor is likely."""
    observed = site.observe(site.function)
    for node in ast.walk(owner):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"self.{attribute}.append" and len(node.args) == 1:
            value = node.args[0]
            if isinstance(value, ast.Constant):
                yield type_of(value.value) or "Tensor"
            else:
                yield observed.names.get(value.id, "Tensor") if isinstance(value, ast.Name) else "Tensor"


def _assigned(site: Site, owner: ast.ClassDef, attribute: str) -> Iterator[str]:
    """Yield the types of the local variables that the class assigns to an attribute."""
    observed = site.observe(site.function)
    for node in ast.walk(owner):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == f"self.{attribute}":
            if isinstance(node.value, ast.Constant) and (type_ := type_of(node.value.value)):
                yield type_
            elif isinstance(node.value, ast.Name) and node.value.id in observed.names:
                yield observed.names[node.value.id]
