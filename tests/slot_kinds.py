"""A module with a slot of every kind, and the contents of its owners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

SOURCE = """
    from types import MappingProxyType

    def function():
        return "original"

    class Meta(type):
        def meta_method(cls):
            return "original"

    class Base(metaclass=Meta):
        limit = 1
        def inherited(self):
            return "original"
        @classmethod
        def inherited_class(cls):
            assert issubclass(cls, Base)
            return "original"
        @staticmethod
        def inherited_static():
            return "original"

    class Child(Base):
        first = "first"
        def method(self):
            return "original"
        @classmethod
        def class_method(cls):
            assert cls is Child
            return "original"
        @staticmethod
        def static_method():
            return "original"
        @property
        def attribute(self):
            return "original"
        class Nested:
            def method(self):
                return "original"
        last = "last"

    class Slotted:
        __slots__ = ("member", "unset")
        def __init__(self):
            self.member = function

    instance = Child()
    instance.own = function
    slotted = Slotted()
    table = {"first": 1, "function": function, "last": 3}
    rows = [function, 2, function]
    shown = MappingProxyType(table)
    LIMIT = 1
"""

# address -> a call of the slot; all return "original"
CALLABLE = {
    "function": lambda m: m.function(),
    "Child.method": lambda m: m.Child().method(),
    "Child.class_method": lambda m: m.Child.class_method(),
    "Child.static_method": lambda m: m.Child.static_method(),
    "Child.inherited": lambda m: m.Child().inherited(),
    "Child.inherited_class": lambda m: m.Child.inherited_class(),
    "Child.inherited_static": lambda m: m.Child.inherited_static(),
    "Child.Nested.method": lambda m: m.Child.Nested().method(),
    "Meta.meta_method": lambda m: m.Child.meta_method(),
    "instance.own": lambda m: m.instance.own(),
    "instance.method": lambda m: m.instance.method(),
    "slotted.member": lambda m: m.slotted.member(),
    "table['function']": lambda m: m.table["function"](),
    "rows[0]": lambda m: m.rows[0](),
    "rows[-1]": lambda m: m.rows[2](),
}

OWN = [address for address in CALLABLE if "inherited" not in address and address not in ("instance.method",)]


def owners_of(module: ModuleType) -> list[Mapping[Any, Any]]:
    classes = (module.Meta, module.Base, module.Child, module.Child.Nested, module.Slotted)
    return [
        vars(module),
        *map(vars, classes),
        vars(module.instance),
        vars(module.function),
        vars(vars(module.Child)["method"]),
        module.table,
        dict(enumerate(module.rows)),
        {"member": module.slotted.member, "unset": getattr(module.slotted, "unset", None)},
    ]


def contents_of(module: ModuleType) -> list[list[tuple[Any, Any]]]:
    return [list(owner.items()) for owner in owners_of(module)]


def are_identical(before: list[list[tuple[Any, Any]]], after: list[list[tuple[Any, Any]]]) -> bool:
    """Return True if all owners hold identical objects under the same keys in the same order."""
    return [[key for key, _ in owner] for owner in before] == [[key for key, _ in owner] for owner in after] and all(
        old is new for owners in zip(before, after, strict=True) for (_, old), (_, new) in zip(*owners, strict=True)
    )


def around(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> str:
    return f"patched({wrapped(*args, **kwargs)})"
