"""Exchange the submodules of a torch model in ``_modules`` of each parent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from hookpatch._engine.instances.meant import Meant, OfInstances
from hookpatch._engine.instances.parts import is_model, submodule_places
from hookpatch._engine.patch.describe import a_kind
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.originals import own_beneath
from hookpatch.errors import TargetRefused


@final
class Exchange:
    """The places of exchanged submodules in a model. A module in several places becomes the same new module in each.

    Attributes:
        places: the slots.
    """

    def __init__(self, of: OfInstances, patch: Patch, model: Any, owner: str) -> None:
        """Find the places of the meant modules.

        Raises:
            TargetRefused: ``model`` is no torch model, or only the model itself is meant.
        """
        if not is_model(model):
            problem = f"{patch.address} exchanges the submodules of a torch model, and of= is {a_kind(model)}"
            raise TargetRefused(patch.address, owner, f"{problem}; write {patch.address}.name for an attribute")
        self.of: Final = of
        self.meant: Final[Meant] = of.meant
        self.places: Final[list[ItemSlot]] = [
            slot
            for slot, _ in submodule_places(model)
            if of.meant.takes(module := own_beneath(slot)) and module is not None
        ]
        if not self.places and of.meant.takes(model):
            problem = f"the model is {a_kind(model)} itself, and hangs in no other module of it"
            raise TargetRefused(patch.address, owner, f"{problem}; use of= with a model that contains the submodule")
        self._patch: Final = patch
        self._owner: Final = owner
        self._count: Final = len({id(own_beneath(slot)) for slot in self.places})

    def check(self) -> None:
        """Raise TargetRefused if the factory has made an object that is no torch module."""
        for slot in self.places:
            if not is_model(submodule := slot.read()):
                problem = f"the factory made {a_kind(submodule)}, and a submodule is a torch module"
                raise TargetRefused(self._patch.address, self._owner, problem)

    def entries(self) -> Sequence[AttributeSlot]:
        """Return no slot: the instances themselves are exchanged."""
        return []

    def doubts(self) -> list[str]:
        """Return a doubt in words if no submodule was found."""
        return [] if self.places else [f"of= has no submodule {self._patch.address}"]

    def left_out(self) -> str:
        """Return the number of modules of unmeant subclasses, in words."""
        return self.meant.left_out(())

    def count(self) -> str:
        """Return how many modules were exchanged, in words."""
        places = f" in {len(self.places)} places" if len(self.places) != self._count else ""
        return f"{self._count} exchanged{places}"
