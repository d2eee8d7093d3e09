"""Types of arguments, results and variables, as a run of the model shows them, in TorchScript's words."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Final, final

import torch

_NAMES: Final[dict[type, str]] = {bool: "bool", int: "int", float: "float", str: "str"}


@final
class Observed:
    """The types that a function's names had in a run.

    Attributes:
        given: of each parameter, at the calls.
        names: of each variable, at the returns.
        returned: of the results.
    """

    def __init__(self) -> None:
        self.given: Final[dict[str, str]] = {}
        self.names: Final[dict[str, str]] = {}
        self.returned: str | None = None

    def run_and_record(self, code: CodeType, call: Callable[[], object]) -> object:
        """Run a call, and record the types of each run of a function's code."""

        def record(frame: FrameType, event: str, result: object) -> None:
            if frame.f_code is not code:
                return
            types = self.given if event == "call" else self.names if event == "return" else None
            if types is not None:
                for name, value in frame.f_locals.items():
                    if (type_ := type_of(value)) is not None:
                        types[name] = type_
            if event == "return":
                self.returned = type_of(result)

        before = sys.getprofile()
        sys.setprofile(record)
        try:
            return call()
        finally:
            sys.setprofile(before)


def type_of(value: object) -> str | None:
    """Return TorchScript's type of a value, None if it has none or the value does not show it."""
    if isinstance(value, torch.Tensor):
        return "Tensor"
    if isinstance(value, list):
        return _container("List", [value])
    if isinstance(value, dict):
        return _container("Dict", [value.keys(), value.values()])
    if isinstance(value, tuple):
        parts = [type_of(element) for element in value]
        return f"Tuple[{', '.join(map(str, parts))}]" if parts and None not in parts else None
    return _NAMES.get(type(value))


def _container(name: str, parts: Iterable[Iterable[object]]) -> str | None:
    types = [{type_of(element) for element in part} for part in parts]
    if any(len(kinds) != 1 or None in kinds for kinds in types):
        return None
    return f"{name}[{', '.join(str(next(iter(kinds))) for kinds in types)}]"
