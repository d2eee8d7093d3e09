"""Remedies that compute a value elsewhere: settings in ``__init__``, modules indexed by a variable."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, Final

import torch

from hookpatch_torchscript._proof.change import Change
from hookpatch_torchscript._proof.observed import type_of
from hookpatch_torchscript._proof.site import Site

_PLAIN: Final = (int, float, str, bool)


def chosen_module(site: Site) -> Iterator[Change]:
    """Replace a call of an indexed ModuleDict or ModuleList by a loop that calls the module of the index."""
    for node in site.certain():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
            continue
        container, index = ast.unparse(node.func.value), ast.unparse(node.func.slice)
        modules = _value(site, node.func.value)
        arguments = ast.unparse(ast.Call(ast.Name("_"), node.args, node.keywords))[1:]
        result, key, layer = (site.fresh(name) for name in ("found", "key", "layer"))
        if isinstance(modules, torch.nn.ModuleDict):
            loop, test = f"{container}.items()", f"{key} == {index}"
        elif isinstance(modules, torch.nn.ModuleList | torch.nn.Sequential):
            loop, test = f"enumerate({container})", f"{key} == {index} or {key} - len({container}) == {index}"
        else:
            continue
        lines = (
            f"{result}: Optional[Tensor] = None",
            f"for {key}, {layer} in {loop}:",
            f"    if {test}:",
            f"        {result} = {layer}{arguments}",
            f"assert {result} is not None",
        )
        yield Change((site.before(site.statement, *lines), site.instead(node, result)))


def in_init(site: Site) -> Iterator[Change]:
    """Keep a setting, or the result of a setting's method, in an attribute set by ``__init__``."""
    owner = site.class_of(site.function)
    start = (
        next((statement for statement in owner.body if getattr(statement, "name", "") == "__init__"), None)
        if owner
        else None
    )
    if site.module is None or not isinstance(start, ast.FunctionDef):
        return
    for node in site.head():
        if not isinstance(node, ast.Attribute | ast.Call | ast.Name) or not _is_setting(node, site):
            continue
        text, value = ast.unparse(node), _value(site, node)
        if not isinstance(value, torch.Tensor) and not (isinstance(value, _PLAIN) and type_of(value)):
            continue
        name = re.sub(r"\W+", "_", text.removeprefix("self.")).strip("_").lower()
        if hasattr(site.module, name):
            continue
        equal_nodes = [
            expression
            for expression in ast.walk(site.definition_of(site.function))
            if isinstance(expression, ast.expr) and ast.unparse(expression) == text
        ]
        spans = [site.instead(expression, f"self.{name}") for expression in equal_nodes]
        yield Change((site.after(_set(start, text), f"self.{name} = {text}"), *spans), values={name: value})


def _is_setting(node: ast.expr, site: Site) -> bool:
    """Return True for ``self.config.size``, ``self.mode.scale()`` and a global variable."""
    if isinstance(node, ast.Name):
        return isinstance(node.ctx, ast.Load) and node.id in site.function.__globals__
    inner = node.func if isinstance(node, ast.Call) else node
    if isinstance(node, ast.Call) and (node.args or node.keywords):
        return False
    chain = ast.unparse(inner)
    if not re.fullmatch(r"self(\.\w+){2,}", chain):
        return False
    first = vars(site.module).get(chain.split(".")[1])
    return first is not None and not isinstance(first, torch.Tensor)


def _value(site: Site, node: ast.expr) -> Any:
    """Return the value of a setting of the module; None if the value cannot be read."""
    try:
        return eval(ast.unparse(node), site.function.__globals__, {"self": site.module})
    except Exception:  # of a name of the function, or of the module's own code
        return None


def _set(start: ast.FunctionDef, text: str) -> ast.stmt:
    """Return the statement of ``__init__`` that sets the attribute, else the last one."""
    attribute = ".".join(text.split(".")[:2])
    for statement in start.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == attribute:
            return statement
    return start.body[-1]
