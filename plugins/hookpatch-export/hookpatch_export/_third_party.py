"""Whether a function is another distribution's: neither the model's own, nor Python's, nor torch's."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from hookpatch_export._frame import Frame
from hookpatch_export._source import belongs_to_python, belongs_to_torch
from hookpatch_export._value import Args, Instance, Known


def homes_of(model: Any) -> frozenset[str]:
    """Return the packages that a model is of: those of its classes and, of an instance, of its submodules' classes."""
    classes: Iterable[type] = [model] if isinstance(model, type) else map(type, model.modules())
    return frozenset(_package(one.__module__) for cls in classes for one in cls.__mro__)


def is_third_party(frame: Frame, function: Any, args: Args, homes: frozenset[str]) -> bool:
    """Tell whether a call goes from the model's own code to a distribution that the model is not of.

    The ``forward`` and other methods of a module are the model's own, wherever its class is from.

    Args:
        frame: where it is called.
        function: the function or class.
        args: what it gets by position; of a method the object is first.
        homes: the packages that the model is of.
    """
    module = getattr(function, "__module__", None)
    if not isinstance(module, str) or belongs_to_python(module) or belongs_to_torch(module):
        return False
    to, by = _package(module), _package(str(frame.names.get("__name__", "")))
    if to in homes or to == by or (by not in homes and _is_installed(by)) or not _is_installed(to):
        return False
    return not (args and _is_module(args[0]))


def _package(module: str) -> str:
    return module.partition(".")[0]


def _is_installed(package: str) -> bool:
    """Whether an installer has put it where it is; code that one works on, installed editable or not, is one's own."""
    module = sys.modules.get(package)
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    place = next((Path(one) for one in places if one is not None), None)
    if place is None:
        return False
    return _has_metadata(place.parent.parent if place.name == "__init__.py" else place.parent)


@cache
def _has_metadata(folder: Path) -> bool:
    return any(folder.glob("*.dist-info"))


def _is_module(value: object) -> bool:
    if isinstance(value, Known):
        return isinstance(value.obj, torch.nn.Module)
    return isinstance(value, Instance) and issubclass(value.cls, torch.nn.Module)
