"""The code of a Python function as a slot. No other file changes a foreign function in place."""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any, Final, final

from hookpatch._engine.calls.trampoline import Swap, as_it_was
from hookpatch._engine.slots.slot import OwnValueSlot


@final
class FunctionSlot(OwnValueSlot):
    """The code of a Python function, for patches wherever the function is bound: its identity stays.

    Attributes:
        binds: True if the function's first argument is the object or class of the call.
        copy: the last result of ``copy_with``.
    """

    __slots__ = ("_added", "_keyword_defaults", "_swap", "binds", "copy", "key", "owner")

    def __init__(self, function: FunctionType, binds: bool) -> None:
        self.owner: Final = function
        self.binds: Final = binds
        self.key: Final[tuple[Any, ...]] = ("function", id(function))
        self._swap: Swap | None = None
        self.copy: FunctionType | None = None
        self._keyword_defaults: dict[str, Any] | None = None
        self._added: set[str] = set()

    def read(self) -> Any:
        """Return the Swap in force, or else the function's code."""
        code = self.owner.__code__
        return self._swap if self._swap is not None and code is self._swap.code else code

    def copy_with(self, code: CodeType) -> FunctionType:
        """Return a copy of the function with other code: the same copy for the same code."""
        if self.copy is None or self.copy.__code__ is not code:
            self.copy = as_it_was(self.owner, code)
        return self.copy

    def write(self, value: Any) -> None:
        """Write a Swap, or the original code, into the function.

        A running call keeps its code and defaults. A call that begins meanwhile sees the assignments in order
        (GIL: each is one operation).
        """
        function = self.owner
        if isinstance(value, Swap):
            if self._swap is None:
                self._keyword_defaults = function.__kwdefaults__
                self._added = value.attributes.keys() - vars(function).keys()
            function.__kwdefaults__ = value.keyword_defaults
            function.__code__ = value.code
            vars(function).update(
                (name, attribute) for name, attribute in value.attributes.items() if name in self._added
            )
            self._swap = value
            return
        function.__code__ = value
        function.__kwdefaults__ = self._keyword_defaults
        for name in self._added:
            vars(function).pop(name, None)
        self._swap = None

    def __str__(self) -> str:
        return f"{self.owner.__module__}:{self.owner.__qualname__}"
