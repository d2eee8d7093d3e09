"""What preparing a patch has found, kept with the patch: a block that is entered again does not look twice."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import NamedTuple

from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.target import Attribute
from hookpatch._engine.site.site import Site
from hookpatch._engine.slots.attribute import AttributeSlot


class _Stamp(NamedTuple):
    """A patch fits as long as all of this is the same, and the site has no layers. Lives as long as the patch."""

    module: ModuleType
    class_: str | None  # the name of the class in the module, None for a function of the module
    site: Site
    own: FunctionType


def keep(patch: Patch, module: ModuleType | None, site: Site, own: object) -> None:
    """Note that a patch fits a Python function of a module, or of a class of a module."""
    if module is None or type(own) is not FunctionType or type(site.slot) is not AttributeSlot or patch.target is None:
        return
    if patch.requires is None and patch.until is None:
        *way, _ = patch.target.steps
        names = [step.name for step in way if isinstance(step, Attribute)]
        if len(names) == len(way) < 2:
            object.__setattr__(patch, "_prepared", _Stamp(module, names[0] if names else None, site, own))


def prepared(patch: Patch, module: ModuleType | None) -> tuple[Site, FunctionType] | None:
    """Return site and original of a patch that fits as it was kept; None where that is to be found out."""
    kept: _Stamp | None = getattr(patch, "_prepared", None)
    if kept is None or kept.module is not module or kept.site.layers:
        return None
    slot = kept.site.slot
    if kept.class_ is not None and vars(module).get(kept.class_) is not slot.owner:
        return None
    return (kept.site, kept.own) if slot.read() is kept.own else None
