"""Recognise functions of other distributions: not the model's own, nor Python's, nor torch's."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from hookpatch_export._frames.frame import Frame
from hookpatch_export._frames.source import belongs_to_python, belongs_to_torch
from hookpatch_export._values.value import Args, Instance, Known


def packages_of(model: Any) -> frozenset[str]:
    """Return the packages that a model is of: of its classes and, for an instance, of its submodules' classes."""
    classes: Iterable[type] = [model] if isinstance(model, type) else map(type, model.modules())
    return frozenset(_package(base.__module__) for cls in classes for base in cls.__mro__)


def is_third_party(frame: Frame, function: Any, args: Args, packages: frozenset[str]) -> bool:
    """Return True if a call goes from the model's own code to a distribution that the model is not of.

    Methods of a module, ``forward`` among them, are the model's own, wherever the module's class is from.

    Args:
        frame: the frame of the caller.
        function: the function or class.
        args: the positional arguments; of a method the object comes first.
        packages: the packages of the model.
    """
    module = getattr(function, "__module__", None)
    if not isinstance(module, str) or belongs_to_python(module) or belongs_to_torch(module):
        return False
    to, by = _package(module), _package(str(frame.names.get("__name__", "")))
    if to in packages or to == by or (by not in packages and _is_installed(by)) or not _is_installed(to):
        return False
    return not (args and _is_module(args[0]))


def _package(module: str) -> str:
    return module.partition(".")[0]


def _is_installed(package: str) -> bool:
    """Return True if a package was installed as a copy; an editable install is the user's own code."""
    module = sys.modules.get(package)
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    place = next((Path(location) for location in places if location is not None), None)
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
