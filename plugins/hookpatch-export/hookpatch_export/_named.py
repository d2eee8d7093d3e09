"""The model that a word of the command line names: a class, an instance, or a function that makes one."""

from __future__ import annotations

import contextlib
import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, final

from hookpatch_export._imported import HOW, by_file, by_name, said
from hookpatch_export.errors import ModelError


@final
@dataclass(frozen=True)
class Named:
    """A model that was named, and its inputs where a function gave them, too.

    Attributes:
        word: what was written.
        model: a subclass of ``torch.nn.Module`` or an instance of one.
        inputs: the arguments of its ``forward``; None when there are none.
        keywords: those by keyword.
    """

    word: str
    model: Any
    inputs: tuple[Any, ...] | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)


def named(word: str, root: Path | None) -> Named:
    """Return what a word names; what its module prints while it is imported goes to stderr.

    Args:
        word: ``package.module:Model`` or ``path/to/file.py:Model``; Model is a class, an instance, or a function
            without arguments that returns a module, ``(module, inputs)`` or ``(module, inputs, keywords)``.
        root: the folder that the file's package is imported from; None for the one that holds its outermost package.

    Raises:
        ModelError: there is no such thing, its import or the function fails, or it is no module.
    """
    where, colon, path = word.rpartition(":")
    if not colon or not where or not path:
        raise ModelError(word, f"names no model; {_meant(word)}")
    with contextlib.redirect_stdout(sys.stderr):
        module = by_file(word, Path(where), root) if where.endswith(".py") else by_name(word, where, root)
        return _made(word, _attribute(word, module, path))


def _meant(word: str) -> str:
    """Say how to name the model that a word without a colon may mean."""
    if word.endswith(".py"):
        return f"write {word}:Model, with the name of what is in it"
    module, dot, name = word.rpartition(".")
    return f"write {module}:{name}" if dot and "/" not in word and ":" not in word else HOW


def _attribute(word: str, module: ModuleType, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        if not hasattr(found, name):
            near = difflib.get_close_matches(name, [other for other in vars(found) if not other.startswith("_")], 1)
            hint = f"did you mean '{near[0]}'?" if near else _offer(module)
            raise ModelError(word, f"{module.__name__.removeprefix('_scanned_')} has no '{path}'; {hint}")
        found = getattr(found, name)
    return found


def _offer(module: ModuleType) -> str:
    import torch

    own = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, torch.nn.Module) and value.__module__ == module.__name__
    ]
    return f"it has {', '.join(sorted(own))}" if own else "it has no subclass of torch.nn.Module"


def _made(word: str, found: Any) -> Named:
    import torch

    if isinstance(found, torch.nn.Module) or (isinstance(found, type) and issubclass(found, torch.nn.Module)):
        return Named(word, found)
    kind = f"the class {found.__name__}" if isinstance(found, type) else f"of type {type(found).__name__}"
    if not isinstance(found, FunctionType):
        raise ModelError(word, f"is {kind}, no torch.nn.Module; name a module, its class, or a function that makes one")
    try:
        made = found()
    except (Exception, SystemExit) as error:
        raise ModelError(word, f"raised {said(error)}; mend the function, it is called without arguments") from error
    model, *more = made if isinstance(made, tuple) and made else (made,)
    if not isinstance(model, torch.nn.Module) or len(more) > 2:
        raise ModelError(
            word, f"returned {_kinds(made)}; return a module, (module, inputs) or (module, inputs, keywords)"
        )
    inputs, keywords = more[0] if more else None, more[1] if len(more) == 2 else {}
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)  # as torch.onnx.export takes it
    if not isinstance(inputs, tuple | None) or not isinstance(keywords, Mapping):
        raise ModelError(
            word, f"returned {_kinds(made)}; the inputs are a tensor or a tuple, the keywords a dict of them by name"
        )
    return Named(word, model, inputs, keywords)


def _kinds(made: Any) -> str:
    if isinstance(made, tuple):
        return f"({', '.join(type(one).__name__ for one in made)})"
    return f"a {type(made).__name__}" if made is not None else "None"
