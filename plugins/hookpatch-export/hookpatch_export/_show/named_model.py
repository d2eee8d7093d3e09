"""Find the model named on the command line: a class, an instance, or a function that makes an instance."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, final

import hookpatch_probe.named
from hookpatch_probe.named import NotNamed, kinds
from hookpatch_probe.named import named as named_by

from hookpatch_export.errors import ModelError

HOW: Final = "write package.module:Model or path/to/file.py:Model"
_OURS: Final = {Path(__file__), Path(hookpatch_probe.named.__file__)}


@final
@dataclass(frozen=True)
class NamedModel:
    """A model named on the command line, with its inputs if a function returned them.

    Attributes:
        word: the argument of the command.
        model: a subclass of ``torch.nn.Module`` or an instance of one.
        inputs: the positional arguments of ``forward``; None if no function returned any.
        keywords: the keyword arguments of ``forward``.
    """

    word: str
    model: Any
    inputs: tuple[Any, ...] | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)


def find_model(word: str, root: Path | None) -> NamedModel:
    """Return the model that a word names; prints of its module during import go to stderr.

    Args:
        word: ``package.module:Model`` or ``path/to/file.py:Model``; Model is a class, an instance, or a function
            without arguments that returns a module, ``(module, inputs)`` or ``(module, inputs, keywords)``.
        root: the folder that the file's package is imported from; None for the folder of the outermost package.

    Raises:
        ModelError: the name does not exist, its import or the function fails, or the object is no module.
    """
    with contextlib.redirect_stdout(sys.stderr):
        try:
            target = named_by(word, root)
        except NotNamed as lack:
            raise ModelError(word, _reason_for(word, root, lack)) from lack.error
        return _model_of(word, target)


def _reason_for(word: str, root: Path | None, lack: NotNamed) -> str:
    """Return the reason why a word names no model, and a remedy."""
    match lack.lack:
        case "word":
            return f"names no model; {_meant(word)}"
        case "outside":
            return f"{word.rpartition(':')[0]} is not under --root {root}; name a folder that contains the file"
        case "folder":
            return f"{lack.problem}; name one with --root"
        case "module":
            return f"{lack.problem}; name a file, or the folder it is in with --root"
        case "name":
            assert lack.module is not None
            hint = f"did you mean '{lack.near}'?" if lack.near else _offer(lack.module)
            return f"{lack.problem}; {hint}"
        case "import":
            assert lack.error is not None
            return _failed(lack.error)
        case _:
            return f"{lack.problem}; {HOW}"


def _meant(word: str) -> str:
    """Return how to name the model that a word without a colon may mean."""
    if word.endswith(".py"):
        return f"write {word}:Model, with the name of a model in the file"
    module, dot, name = word.rpartition(".")
    return f"write {module}:{name}" if dot and "/" not in word and ":" not in word else HOW


def _offer(module: ModuleType) -> str:
    import torch

    own = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, torch.nn.Module) and value.__module__ == module.__name__
    ]
    return f"it has {', '.join(sorted(own))}" if own else "it has no subclass of torch.nn.Module"


def _model_of(word: str, target: Any) -> NamedModel:
    import torch

    if isinstance(target, torch.nn.Module) or (isinstance(target, type) and issubclass(target, torch.nn.Module)):
        return NamedModel(word, target)
    kind = f"the class {target.__name__}" if isinstance(target, type) else f"of type {type(target).__name__}"
    if not isinstance(target, FunctionType):
        raise ModelError(
            word, f"is {kind}, no torch.nn.Module; name a module, its class, or a function that makes a module"
        )
    try:
        result = target()
    except (Exception, SystemExit) as error:
        raise ModelError(
            word, f"raised {_error_in_words(error)}; correct the function; the scan calls functions without arguments"
        ) from error
    model, *extras = result if isinstance(result, tuple) and result else (result,)
    if not isinstance(model, torch.nn.Module) or len(extras) > 2:
        raise ModelError(
            word, f"returned {kinds(result)}; return a module, (module, inputs) or (module, inputs, keywords)"
        )
    inputs, keywords = extras[0] if extras else None, extras[1] if len(extras) == 2 else {}
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)  # torch.onnx.export accepts a single tensor, too
    if not isinstance(inputs, tuple | None) or not isinstance(keywords, Mapping):
        raise ModelError(
            word, f"returned {kinds(result)}; the inputs are a tensor or a tuple, the keywords a dict of them by name"
        )
    return NamedModel(word, model, inputs, keywords)


def _failed(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"cannot be imported: {error.msg} ({error.filename}:{error.lineno}); correct the line"
    remedy = "install the missing package, or name its folder with --root" if isinstance(error, ImportError) else ""
    return f"cannot be imported: {_error_in_words(error)}; {remedy or 'correct the module until python can import it'}"


def _error_in_words(error: BaseException) -> str:
    """Return an error's class, its first line, and its line in the user's code."""
    first = str(error).strip().partition("\n")[0]
    text = f"{type(error).__name__}: {first}" if first else type(error).__name__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_file_of_hookpatch(frame.filename)]
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno})" if frames else text


def _is_file_of_hookpatch(file: str) -> bool:
    return file.startswith("<frozen") or Path(file) in _OURS or "importlib" in Path(file).parts
