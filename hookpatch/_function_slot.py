"""The code of a Python function as a slot; the only file that changes a foreign function inside."""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any, Final, final

from hookpatch._slot import ABSENT
from hookpatch._trampoline import Swap, as_it_was


@final
class FunctionSlot:
    """The code of a Python function, for patches that hold wherever the function is bound: its identity stays."""

    __slots__ = ("_added", "_keyword_defaults", "_swap", "binds", "copy", "key", "owner")

    def __init__(self, function: FunctionType, binds: bool) -> None:
        """Take a function.

        Args:
            function: the function.
            binds: True when its first argument is the object or class that it is called on.

        Attributes:
            copy: what ``copy_with`` returned last.
            key: what two slots share when they are the same place.
        """
        self.owner: Final = function
        self.binds: Final = binds
        self.key: Final[tuple[Any, ...]] = ("function", id(function))
        self._swap: Swap | None = None
        self.copy: FunctionType | None = None
        self._keyword_defaults: dict[str, Any] | None = None
        self._added: set[str] = set()

    @property
    def in_class(self) -> None:
        """None: where the function is bound does not matter here."""
        return None

    def read(self) -> Any:
        """Return the Swap that is in force, else the function's code."""
        code = self.owner.__code__
        return self._swap if self._swap is not None and code is self._swap.code else code

    def inherited(self) -> Any:
        """Return ABSENT: a function always has code of its own."""
        return ABSENT

    def copy_with(self, code: CodeType) -> FunctionType:
        """Return a function that does what this one does with that code: the same one for the same code."""
        if self.copy is None or self.copy.__code__ is not code:
            self.copy = as_it_was(self.owner, code)
        return self.copy

    def write(self, value: Any) -> None:
        """Put a Swap, or the code of before, into the function.

        A call that has begun has its code and its defaults already; the order here is for one that begins between.
        """
        function = self.owner
        if isinstance(value, Swap):
            if self._swap is None:
                self._keyword_defaults = function.__kwdefaults__
                self._added = value.attributes.keys() - vars(function).keys()
            function.__kwdefaults__ = value.keyword_defaults
            function.__code__ = value.code
            vars(function).update({name: one for name, one in value.attributes.items() if name in self._added})
            self._swap = value
            return
        function.__code__ = value
        function.__kwdefaults__ = self._keyword_defaults
        for name in self._added:
            vars(function).pop(name, None)
        self._swap = None

    def delete(self) -> None:
        """Refuse: a function always has code."""
        raise TypeError(f"the code of {self} cannot be absent")

    def __str__(self) -> str:
        return f"{self.owner.__module__}:{self.owner.__qualname__}"
