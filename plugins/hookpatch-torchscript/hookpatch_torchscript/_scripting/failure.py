"""Find why torch.jit.script failed: the attribute or line at fault, from torch's message and the running steps."""

from __future__ import annotations

import ast
import inspect
import traceback
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

from hookpatch_torchscript._mends.attributes import NOT_THERE
from hookpatch_torchscript._mends.rule import Failed
from hookpatch_torchscript._mends.rules import RULES
from hookpatch_torchscript._scripting.recorder import Recorder, Step
from hookpatch_torchscript._source.lookup import annotations_in, assignment, name_of, place_of, plain, use_of, where_in
from hookpatch_torchscript._source.torch_message import corrected, headline, quoted
from hookpatch_torchscript._values.place import Place
from hookpatch_torchscript._values.record import Failure, Module


def failure_of(error: BaseException, recorder: Recorder) -> Failure:
    """Return the cause of an error of torch.jit.script.

    Args:
        error: the error, while the call raises it.
        recorder: the recorder of the call.
    """
    message, steps = _text_of(error), recorder.failed_in or tuple(recorder.steps)
    functions = [function for step in reversed(steps) for function in step.functions]
    quote = next((quote for quote in quoted(message) if not quote.on_the_way), None)
    row = next((step.row for step in reversed(steps) if step.row is not None), None)
    place = corrected(quote.place, functions) if quote else None
    expression = quote.expression if quote else ""
    if quote is None and (used := _foreign(error, functions)) is not None:
        place, expression = used
    calls = [step.method for step in reversed(steps) if step.method is not None]
    reached = [(call.name, call.reached_at) for call in calls if call.reached_at is not None]
    failed = Failed(
        message, expression, partial(_operand, expression, functions, row), reached[0][1].code if reached else ""
    )
    problem, mend, fields = headline(message), None, {"expression": expression, "name": name_of(steps[0].thing)}
    for rule in RULES:
        if (groups := rule.match(failed)) is not None:
            fields |= groups
            if rule.through is not None:  # the failing code is not the user's; the calling line is
                place, reached = reached[0][1], reached[1:]
                functions = functions[len(calls[0:1]) :]
            problem, mend = rule.problem.format(**fields), rule.mend.format(**fields)
            break
    attribute = fields.get("attribute") or _attribute_of(fields.get("operand", ""), row) or _inferred(error)
    row = _owner(message, attribute, row, recorder)
    set_at = _set_at(attribute, row, recorder) if attribute and row is not None else None
    if place is None:
        place = set_at or _place_without_quote(fields, steps, functions)
    inside = _inside(place, functions)
    failure = Failure(
        error=type(error).__name__,
        problem=problem,
        mend=mend,
        subject=_subject(row, attribute, inside, steps),
        attribute=attribute,
        path=row.path if row is not None else None,
        place=place,
        inside=inside,
        set_at=set_at if set_at != place else None,
        reached=reached,
    )
    return _because_of_value(failure, row, recorder)


def _because_of_value(failure: Failure, row: Module | None, recorder: Recorder) -> Failure:
    """Add why the function or class of an attribute's value cannot be compiled, which torch does not report."""
    module = next((module for known_row, module in recorder.rows.values() if known_row is row), None)
    value = vars(module).get(failure.attribute) if module is not None and failure.attribute else None
    if id(value) in recorder.failures:
        _, inner = recorder.failures[id(value)]
        problem = f"TorchScript cannot compile the function: {inner.problem}"
        why = replace(failure, problem=problem, mend=inner.mend)
        if inner.place is None:
            return why
        used = [] if failure.place is None else [(failure.attribute or "", failure.place)]
        set_at = failure.set_at if failure.set_at != inner.place else None
        return replace(why, place=inner.place, inside=inner.inside, reached=used, set_at=set_at)
    if id(type(value)) in recorder.failures:
        _, inner = recorder.failures[id(type(value))]
        location = f" ({inner.place})" if inner.place is not None else ""
        return replace(
            failure, problem=f"{failure.problem}; the class of the value does not compile: {inner.problem}{location}"
        )
    return _with_missing_attribute(failure, type(module)) if failure.problem == NOT_THERE else failure


def _with_missing_attribute(failure: Failure, cls: type) -> Failure:
    """Explain why an attribute in the source is missing on the instance."""
    if failure.set_at is not None:
        problem = "the line that assigns the attribute did not run for this instance"
        mend = (
            "list the flag that forward tests in __constants__ of the class, and TorchScript leaves the dead branch "
            "out; "
        )
        return replace(failure, problem=problem, mend=mend + "or assign None or torch.nn.Identity() in the other case")
    if hasattr(cls, failure.attribute or ""):
        problem = "the class has the attribute, and TorchScript looks only at the instance"
        mend = (
            "assign the attribute in __init__; or list the name of a constant in __constants__ of the class: "
            f"('{failure.attribute}',)"
        )
        return replace(failure, problem=problem, mend=mend)
    return failure


def _set_at(attribute: str, row: Module, recorder: Recorder) -> Place | None:
    """Return the line that assigns an attribute; for a module of torch itself, the line that assigns the module."""
    cls = recorder.classes[row.path]
    if cls.__module__.startswith("torch.") and row.path:
        parent, _, attribute = row.path.rpartition(".")
        cls = recorder.classes[parent]
    return assignment(cls, attribute)


def _text_of(error: BaseException) -> str:
    try:
        return str(error).strip()
    except Exception:  # torch's FrontendError computes its text in __str__, which may fail
        return type(error).__name__


def _frames(error: BaseException) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the functions of torch in the traceback, innermost first, with their variables."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        if frame.f_globals.get("__name__", "").startswith("torch."):
            yield frame.f_code.co_name, frame.f_locals


def _foreign(error: BaseException, functions: list[Any]) -> tuple[Place, str] | None:
    """Return the use of the object that torch failed on if torch quotes no line: a function of another library."""
    for name, variables in _frames(error):
        value = variables.get("fn", variables.get("key"))
        if value is None or inspect.isfunction(value) or name in ("make_stub", "compile_unbound_method"):
            continue
        for function in functions:
            if (used := use_of(function, value)) is not None:
                return used
    return None


def _inferred(error: BaseException) -> str | None:
    """Return the attribute whose type torch was inferring."""
    for name, variables in _frames(error):
        if name == "infer_type":
            return str(variables["name"]) if "name" in variables else None
    return None


_LEFT: Final = frozenset(["self", "a", "l"])  # the parameters of torch's operators
_RIGHT: Final = frozenset(["other", "b", "exponent"])


def _operand(
    expression: str, functions: list[Any], row: Module | None, type_name: str, parameter: str | None = None
) -> str:
    """Return the part of the marked expression of the type ``type_name``: an attribute or argument, else the whole.

    Of an operation only the side counts that torch's message names by the parameter of its operator.
    """
    whole = _parsed(expression) or _parsed(f"{expression}]") or _parsed(f"{expression})")  # torch's mark may end early
    if whole is None:
        return expression
    if isinstance(whole, ast.BinOp) and parameter in _LEFT | _RIGHT:
        whole = whole.left if parameter in _LEFT else whole.right
        expression = ast.unparse(whole)
    if isinstance(whole, ast.Subscript) and not isinstance(whole.slice, ast.Slice) and type_name:
        return expression
    nodes = list(ast.walk(whole))
    types = {attribute.name: attribute.torchscript_type for attribute in row.attributes} if row is not None else {}
    annotations = annotations_in(functions[0]) if functions else {}
    for node in nodes:
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self" and type_name:
            if types.get(node.attr) == type_name:
                return ast.unparse(node)
        elif isinstance(node, ast.Name) and node.id in annotations and node.id != "self":
            annotation = annotations[node.id]
            if (not type_name and not annotation) or (
                type_name and any(word in annotation for word in (type_name[:5], "| None", " | "))
            ):
                return node.id
    return expression


def _parsed(expression: str) -> ast.expr | None:
    try:
        return ast.parse(expression, mode="eval").body
    except SyntaxError:
        return None


def _attribute_of(operand: str, row: Module | None) -> str | None:
    name = operand.removeprefix("self.")
    names = [attribute.name for attribute in row.attributes] + row.modules if row is not None else []
    return name if operand.startswith("self.") and name in names else None


def _owner(message: str, attribute: str | None, row: Module | None, recorder: Recorder) -> Module | None:
    """Return the module that lacks an attribute: the given row, or a module of the class that torch names."""
    pieces = message.partition("Module '")[2].partition("' has no attribute")
    if not attribute or not pieces[1] or (row is not None and row.class_name == pieces[0]):
        return row
    return next((module for module in recorder.record.modules if module.class_name == pieces[0]), row)


def _place_without_quote(fields: dict[str, str], steps: tuple[Step, ...], functions: list[Any]) -> Place | None:
    if "hook" in fields:
        module = next((step.thing for step in reversed(steps) if hasattr(step.thing, "_forward_hooks")), None)
        hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()] if module is not None else []
        return next((place_of(hook) for hook in hooks if getattr(hook, "__name__", "") == fields["hook"]), None)
    for function in functions if "context" in fields else ():
        if block := where_in(function, lambda node: isinstance(node, ast.With) and fields["context"] in _heads(node)):
            return block
    for function in functions:
        if loop := where_in(function, lambda node: isinstance(node, ast.While | ast.For) and bool(node.orelse)):
            return loop
    target = next((step.thing for step in reversed(steps) if step.thing is not None), None)
    return place_of(target if inspect.isclass(target) or inspect.isroutine(target) else type(target))


def _heads(block: ast.With) -> str:
    return " ".join(ast.unparse(item.context_expr) for item in block.items)


def _inside(place: Place | None, functions: list[Any]) -> str | None:
    for function in map(plain, functions if place is not None else ()):
        code = getattr(function, "__code__", None)
        if code is not None and place is not None and code.co_filename == place.file:
            lines, start = inspect.getsourcelines(function)
            if start <= place.line < start + len(lines):
                return name_of(function)
    return None


def _subject(row: Module | None, attribute: str | None, inside: str | None, steps: tuple[Step, ...]) -> str:
    if row is None:
        return inside or name_of(steps[-1].thing if not hasattr(steps[-1].thing, "_modules") else type(steps[-1].thing))
    if attribute is not None:
        path = f"{row.path}.{attribute}" if row.path else attribute
        return f"attribute {path} of {row.class_name}"
    name = inside or row.class_name
    return f"{name}, module {row.path}" if row.path else name
