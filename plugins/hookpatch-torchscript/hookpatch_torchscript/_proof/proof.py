"""Prove a remedy: apply it to a copy in memory, script the copy, and compare its answers with those of the model."""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import re
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from types import FunctionType
from typing import Any, Final

import torch
from hookpatch_probe.compare import difference
from hookpatch_probe.example import flat
from hookpatch_probe.quiet import quiet
from hookpatch_probe.seed import seeded

from hookpatch_torchscript._proof.change import Change, Span, changed, copied, diff, function_in, shown, with_class
from hookpatch_torchscript._proof.inputs import guesses, optional_arguments
from hookpatch_torchscript._proof.moved import chosen_module, in_init
from hookpatch_torchscript._proof.observed import Observed, type_of
from hookpatch_torchscript._proof.site import Site
from hookpatch_torchscript._proof.syntax import (
    guarded,
    with_index,
    with_isinstance,
    with_loop,
    with_stack,
    without_context,
    without_star,
    without_tuple,
    without_walrus,
)
from hookpatch_torchscript._proof.typed import (
    TYPES,
    annotated,
    asserted,
    asserted_parts,
    begun_with_none,
    of_attribute,
    of_elements,
    with_float,
)
from hookpatch_torchscript._values.record import Failure, Proof

_REMEDIES: Final[tuple[Callable[[Site], Iterator[Change]], ...]] = (
    without_context,
    with_isinstance,
    with_loop,
    without_walrus,
    without_star,
    without_tuple,
    with_stack,
    with_index,
    chosen_module,
    asserted,
    of_elements,
    begun_with_none,
    with_float,
    of_attribute,
    annotated,
    in_init,
    guarded,
    asserted_parts,
)
_INPUTS: Final = 3  # for the comparison of answers
_SECONDS: Final = 10.0  # time limit for trying remedies

Answer = list[torch.Tensor]


def proved(obj: Any, failure: Failure, script: Callable[[Any], Any], inputs: tuple[Any, ...] | None) -> Failure:
    """Return the failure with the first remedy that scripts and answers as the model does.

    Only copies of the model run. If no remedy passes, or no answers can be compared, the failure is returned unchanged.

    Args:
        obj: the module or function that could not be scripted.
        failure: why not.
        script: scripts a module or function, and records nothing.
        inputs: positional arguments that the model takes; None to guess them.
    """
    begun = time.monotonic()
    with alone():
        site = _site(obj, failure, lambda function: _observed(obj, function, answers))
        answers = list(islice(_answers(obj, inputs), _INPUTS)) if site is not None else []
        if site is None or not answers:
            return failure
        for remedy in _REMEDIES:
            for change in _changes(remedy, site):
                if time.monotonic() - begun > _SECONDS:
                    return failure
                whole = replace(change, spans=(*change.spans, *_imports(site, change)))
                with suppress(Exception):  # any error with the remedy means that the remedy does not work
                    if _passes(obj, failure, site, whole, script, answers):
                        return replace(failure, proof=Proof(diff(site.file, changed(site.file, whole)), len(answers)))
    return failure


def _site(obj: Any, failure: Failure, observe: Callable[[FunctionType], Observed]) -> Site | None:
    if failure.place is None:
        return None
    module = obj.get_submodule(failure.path or "") if isinstance(obj, torch.nn.Module) else None
    for function in _functions(obj if module is None else module):
        code = function.__code__
        with suppress(OSError, TypeError):
            lines, start = inspect.getsourcelines(function)
            if code.co_filename == failure.place.file and start <= failure.place.line < start + len(lines):
                return Site(code.co_filename, failure.place.line, function, module, failure.attribute, observe)
    return None


def _functions(called: Any) -> Iterator[FunctionType]:
    """Yield a function, or the methods of a module's class, and the functions that their globals name."""
    own = (
        [value for cls in type(called).__mro__ for value in vars(cls).values()]
        if isinstance(called, torch.nn.Module)
        else [called]
    )
    for value in own:
        if isinstance(value, FunctionType) and not value.__module__.startswith("torch."):
            yield value
            names = (value.__globals__.get(name) for name in value.__code__.co_names)
            yield from (callee for callee in names if isinstance(callee, FunctionType))


def _changes(remedy: Callable[[Site], Iterator[Change]], site: Site) -> Iterator[Change]:
    with suppress(Exception):  # source of an unforeseen form: the remedy does not apply
        yield from remedy(site)


def _answers(obj: Any, inputs: tuple[Any, ...] | None) -> Iterator[tuple[tuple[Any, ...], Answer]]:
    """Yield inputs accepted by the model, each with the answer. All inputs have the types of the first input."""
    optional = optional_arguments(obj)
    first: tuple[str | None, ...] | None = None
    for arguments in guesses(obj) if inputs is None else (inputs,):
        types = tuple(map(type_of, arguments))
        if first is not None and not all(
            kind == first_kind or (index in optional and None in (kind, first_kind))
            for index, (kind, first_kind) in enumerate(zip(types, first, strict=True))
        ):
            continue
        with suppress(Exception):  # the model rejects the guessed inputs
            if answer := answer_of(copy_of(obj), arguments):
                first = first or types
                yield arguments, answer


def answer_of(called: Callable[..., Any], arguments: Sequence[Any]) -> Answer:
    """Return the tensors that a call on copies of the arguments returns."""
    with seeded():
        return flat(called(*copy.deepcopy(arguments)))


def copy_of(obj: Any) -> Any:
    """Return a copy of a module; a function itself."""
    return copied(obj) if isinstance(obj, torch.nn.Module) else obj


def _observed(obj: Any, function: FunctionType, answers: Sequence[tuple[tuple[Any, ...], Answer]]) -> Observed:
    observed = Observed()
    for arguments, _ in answers[:1]:
        called = copy_of(obj)
        observed.run_and_record(function.__code__, lambda: answer_of(called, arguments))  # noqa: B023 - called at once
    return observed


def _passes(
    obj: Any,
    failure: Failure,
    site: Site,
    change: Change,
    script: Callable[[Any], Any],
    answers: Sequence[tuple[tuple[Any, ...], Answer]],
) -> bool:
    text = changed(site.file, change)
    with shown(text) as file:
        try:
            scripted = script(_mended(obj, failure.path or "", site, change, text, file))
        except Exception as error:
            # Torch keeps compiled functions in frame variables, and would quote the functions in the next error.
            traceback.clear_frames(error.__traceback__)
            raise
        return all(difference(answer, answer_of(scripted, arguments)) is None for arguments, answer in answers)


def _mended(obj: Any, path: str, site: Site, change: Change, text: str, file: str) -> Any:
    """Return a copy of the model, or the function, with the change."""
    module = obj.get_submodule(path) if isinstance(obj, torch.nn.Module) else None
    copies: dict[FunctionType, FunctionType] = {}
    namespace = {**site.function.__globals__, "torch": torch}
    namespace = {**TYPES, **namespace}
    for function in dict.fromkeys(_functions(obj if module is None else module)):
        if function.__code__.co_filename == site.file and not hasattr(function, "__wrapped__"):
            anew = function_in(text, file, function)
            copies[function] = FunctionType(
                anew.__code__, namespace, anew.__name__, anew.__defaults__, anew.__closure__
            )
            copies[function].__kwdefaults__, copies[function].__qualname__ = anew.__kwdefaults__, anew.__qualname__
    for name, value in site.function.__globals__.items():
        if isinstance(value, FunctionType) and value in copies:
            namespace[name] = copies[value]
    if module is None:
        return copies[obj]
    members = {
        name: copies[value]
        for cls in reversed(type(module).__mro__)
        for name, value in vars(cls).items()
        if isinstance(value, FunctionType) and value in copies
    }
    return with_class(obj, path, members, change)


def _imports(site: Site, change: Change) -> list[Span]:
    """Return the imports that the file lacks for a change."""
    used = set(
        re.findall(
            r"\b(?:Dict|List|Optional|Tuple|Tensor|torch)\b(?!\.nn)", " ".join(span.text for span in change.spans)
        )
    )
    missing = sorted(used - site.function.__globals__.keys())
    typing = [name for name in missing if name not in ("Tensor", "torch")]
    lines = [f"from typing import {', '.join(typing)}"] * bool(typing)
    lines += ["import torch"] * ("torch" in missing) + ["from torch import Tensor"] * ("Tensor" in missing)
    first = next(statement for statement in site.tree.body if not _is_heading(statement))
    return [site.lines_at(first.lineno, 0, *lines)] if lines else []


def _is_heading(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Run quietly, without gradients, and with the same random numbers in each run."""
    with quiet(), seeded(), torch.no_grad():
        yield
