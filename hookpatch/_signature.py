"""The signature that a function of ours shows: that of the function it stands for, read when somebody asks."""

from __future__ import annotations

import inspect
from types import FunctionType, MappingProxyType
from typing import Any, final


@final
class Signature(inspect.Signature):
    """The signature of a function, until somebody looks at it: few do, and to read it is half of what a copy costs.

    At the first look it becomes a plain one.
    """

    __slots__ = ()

    def __init__(self, like: FunctionType) -> None:
        self._parameters: Any = like  # kept in a place of the plain one's, so that it can become one

    def __getattribute__(self, name: str) -> Any:
        like = object.__getattribute__(self, "_parameters")
        if type(like) is not MappingProxyType:  # no other thread has been here; it may be a proxy of a function
            read = inspect.signature(like)
            self._return_annotation: Any = read.return_annotation
            self._parameters = read.parameters
        self.__class__ = inspect.Signature  # type: ignore[assignment]  # of the same layout
        return getattr(self, name)
