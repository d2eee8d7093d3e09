"""The steps of an address for many slots: names and keys by pattern, subclasses, instances."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, final


@final
@dataclass(frozen=True, slots=True)
class NameGlob:
    """A step of a rule: each name that matches a pattern, in which ``*`` matches any characters.

    A name with two underscores at both ends does not match. A name of a module with a value of another module does not
    match, either: an alias would be matched twice.
    """

    pattern: str

    def __str__(self) -> str:
        return f".{self.pattern}"

    def matches(self, name: str) -> bool:
        """Return True if a name matches the pattern."""
        return not is_dunder(name) and fnmatchcase(name, self.pattern)


@final
@dataclass(frozen=True, slots=True)
class EachItem:
    """A step of a rule, ``[*]``: each entry of a mapping or list."""

    def __str__(self) -> str:
        return "[*]"


@final
@dataclass(frozen=True, slots=True)
class Subclasses:
    """A step of a rule, ``+`` behind a class: the class, and each subclass that defines the next name itself."""

    def __str__(self) -> str:
        return "+"


@final
@dataclass(frozen=True, slots=True)
class Instances:
    """A step of an address, ``()`` behind a class: each instance of the class, alive or to come.

    As the last step: the places that hold the instances.

    Attributes:
        with_subclasses: False for ``Class()``, where ``type(instance) is Class``; True for ``Class+()``, which takes
            instances of subclasses, too.
    """

    with_subclasses: bool = False

    def __str__(self) -> str:
        return "+()" if self.with_subclasses else "()"


def is_dunder(name: str) -> bool:
    """Return True if a name has two underscores at both ends."""
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def is_looked_up_in_class(name: str) -> bool:
    """Return True if Python looks a name up in the class of an object, past the object's own attributes."""
    return name in _OF_CLASS


_OPERATORS: Final = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or"
_OTHERS: Final = (
    "lt le eq ne gt ge neg pos abs invert int float complex index round trunc floor ceil bool hash "
    "len length_hint getitem setitem delitem missing contains iter next reversed await aiter anext "
    "call init new del getattr getattribute setattr delattr dir get set delete set_name "
    "repr str bytes format fspath sizeof buffer release_buffer copy replace "
    "enter exit aenter aexit instancecheck subclasscheck"
)
_OF_CLASS: Final = frozenset(
    f"__{name}__"
    for name in (*_OTHERS.split(), *(prefix + name for prefix in ("", "r", "i") for name in _OPERATORS.split()))
)
