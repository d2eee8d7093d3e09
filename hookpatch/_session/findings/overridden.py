"""Find the subclasses whose own method calls past a patched method of the base class."""

from __future__ import annotations

from typing import Any, Final

from hookpatch._engine.calls.overrides import overriding
from hookpatch._engine.patch.describe import describe
from hookpatch._engine.site.sites import site_at
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import leads_to
from hookpatch._engine.slots.originals import is_patched
from hookpatch._engine.slots.referrers import classes
from hookpatch._engine.slots.slot import ABSENT, inner

_MOST: Final = 3  # named subclasses; further subclasses are counted


def overridden(owner: type, name: str, is_of_rule: bool) -> str:
    """Return the subclasses in which a patch of a method has no effect, in words; empty if there are none.

    ``is_of_rule``: the patch is of a match of a rule, and the other matches have patches themselves.
    """
    subclasses = [cls for cls in classes(owner) if not _calls_on(cls, owner, name, is_of_rule)]
    names = sorted({describe(cls) for cls in overriding(owner, name, subclasses)})
    further = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    reason = f"without effect on overrides without a super() call: {', '.join(names[:_MOST])}{further}"
    return reason if names else ""


def _calls_on(cls: type, owner: type, name: str, is_of_rule: bool) -> bool:
    """Return True if a class has the method only because of a patch, and the patch calls the base class's method."""
    slot = AttributeSlot(cls, name)
    if not is_patched(slot):
        return False
    site = site_at(slot)
    if is_of_rule or site.original is not ABSENT:
        return is_of_rule
    if all(layer.wraps or layer.only is not None for layer in site.layers):
        return True  # the inherited method is looked up at each call
    method: Any = inner(vars(owner).get(name))
    return leads_to(site.value, method)  # a derived value calls the method from which it was derived
