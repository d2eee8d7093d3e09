"""An attribute of an instance as a slot that does not keep the instance alive."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final
from weakref import ref

from hookpatch._engine.patch.describe import describe
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.slot import ABSENT


@final
class InstanceSlot(AttributeSlot):
    """An attribute of an instance, which may die. The slot of a dead instance is empty, and cannot be written."""

    __slots__ = ("_instance",)

    @property
    def owner(self) -> Any:
        """The instance; None once the instance is dead."""
        return self._instance()

    @owner.setter
    def owner(self, owner: Any) -> None:
        self._instance = ref(owner)

    def read(self) -> Any:
        return ABSENT if self._instance() is None else super().read()

    def inherited(self) -> Any:
        return ABSENT if self._instance() is None else super().inherited()

    def write(self, value: Any) -> None:
        if self._instance() is not None:
            super().write(value)

    def delete(self) -> None:
        if self._instance() is not None:
            super().delete()

    def __str__(self) -> str:
        return f"{self.name} of an instance of {describe(type(self.owner))}"


def dict_of(instance: Any) -> Any:
    """Return the ``__dict__`` of an instance; None for an instance without one."""
    try:
        return vars(instance)
    except TypeError:
        return None


def entries(instances: Iterable[Any], name: str) -> list[AttributeSlot]:
    """Return the slots of the instances that have a value of their own under a name."""
    return [InstanceSlot(instance, name) for instance in instances if name in (dict_of(instance) or ())]
