"""The model and inputs that a factory makes: ``module:function`` or ``file.py:function``, called with a batch size."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, final

import torch

from hookpatch_torchscript._runtimes._reason import reason

HOW: Final = "write module:function or path/to/file.py:function"


@final
@dataclass(frozen=True, slots=True)
class Built:
    """A model and what it is called with.

    Attributes:
        model: the model.
        inputs: its arguments.
        keywords: those by keyword.
    """

    model: torch.nn.Module
    inputs: tuple[Any, ...]
    keywords: Mapping[str, Any]


class FactoryError(Exception):
    """A factory is not there, or does not make a model and inputs; the message says what now."""


def build(word: str, batch: int) -> Built:
    """Return what the factory of that name makes for a batch size.

    Raises:
        FactoryError: there is none, its import or the call fails, or it returns something else.
    """
    factory = _found(word)
    if not callable(factory) or isinstance(factory, torch.nn.Module | type):
        kind = f"the class {factory.__name__}" if isinstance(factory, type) else f"of type {type(factory).__name__}"
        raise FactoryError(f"is {kind}; name a function that takes a batch size and returns (model, inputs)")
    try:
        inspect.signature(factory).bind(batch)
    except TypeError:
        wrong = f"{factory.__name__}{inspect.signature(factory)}"
        raise FactoryError(
            f"{wrong} cannot be called with a batch size alone; write def {factory.__name__}(batch)"
        ) from None
    try:
        made = factory(batch)
    except (Exception, SystemExit) as error:
        raise FactoryError(f"called with {batch} it raised {reason(error)}; mend the function") from error
    return _checked(made)


def _checked(made: Any) -> Built:
    model, inputs, keywords = (*made, {})[:3] if isinstance(made, tuple) and len(made) in (2, 3) else (None, None, {})
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    right = isinstance(inputs, tuple) and isinstance(keywords, Mapping)
    if not isinstance(model, torch.nn.Module) or not right:
        raise FactoryError(f"returned {_kinds(made)}; return (model, inputs) or (model, inputs, keywords)")
    return Built(model, inputs, keywords)


def _found(word: str) -> Any:
    where, colon, path = word.rpartition(":")
    if not colon or not where or not path:
        raise FactoryError(f"names no factory; {HOW}")
    found: Any = _by_file(Path(where)) if where.endswith(".py") else _by_name(where)
    for name in path.split("."):
        if not hasattr(found, name):
            near = difflib.get_close_matches(name, [other for other in vars(found) if not other.startswith("_")], 1)
            hint = f"did you mean '{near[0]}'?" if near else HOW
            raise FactoryError(f"{where} has no '{path}'; {hint}")
        found = getattr(found, name)
    return found


def _by_name(name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise FactoryError(f"no module '{name}' can be imported from here; {HOW}") from None
        raise _unimportable(error) from error
    except (Exception, SystemExit) as error:
        raise _unimportable(error) from error


def _by_file(path: Path) -> ModuleType:
    """Import a file as its package would, so that what it imports beside it is found."""
    file = path.resolve()
    if not file.is_file():
        raise FactoryError(f"there is no file {path}; {HOW}")
    top = file.parent
    while (top / "__init__.py").is_file():
        top = top.parent
    sys.path.insert(0, str(top))
    name = ".".join(file.relative_to(top).with_suffix("").parts)
    if top != file.parent:
        return _by_name(name)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # it is a .py file
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _unimportable(error) from error
    return module


def _unimportable(error: BaseException) -> FactoryError:
    now = "install what is missing" if isinstance(error, ImportError) else "mend it, so that python can import it"
    return FactoryError(f"cannot be imported: {reason(error)}; {now}")


def _kinds(made: Any) -> str:
    if isinstance(made, tuple):
        return f"({', '.join(type(one).__name__ for one in made)})"
    return f"a {type(made).__name__}" if made is not None else "None"
