"""What must hold of a slot before a patch is applied there."""

from __future__ import annotations

from collections.abc import MutableSequence

from hookpatch._patch import CALL_VERBS, Patch, Scope
from hookpatch._resolve import missing
from hookpatch._calls import check_value
from hookpatch._slot import ABSENT, KEPT, AttributeSlot, Slot, along_mro, originals
from hookpatch._target import a_kind, describe
from hookpatch.errors import TargetRefused


def check_slot(patch: Patch, slot: Slot, own: object, owner: object) -> None:
    """Refuse a patch that the slot cannot take.

    Args:
        patch: the declaration.
        slot: where it is to lie.
        own: what the slot's owner has there of its own, without our layers, or ABSENT.
        owner: who asks for it, for messages.

    Raises:
        TargetNotFound: the slot holds nothing.
        TargetRefused: it cannot be called, or cannot be made absent.
        SignatureError: what is to stand there does not take what stands there takes.
    """
    assert patch.target is not None  # patches without a slot are not checked against one
    # What is replaced is not looked at: a name that a module serves by its __getattr__ would wake.
    held = own if own is not ABSENT or patch.verb == "replace" else slot.inherited()
    # replace adds: a registry's new entry. Where other layers lie already, one may have added it: the site will see.
    if held is ABSENT and patch.verb != "replace" and slot.key not in originals:
        raise missing(slot, patch.target, owner)
    if own is ABSENT and isinstance(slot, AttributeSlot):
        _refuse_unsettable(patch, slot, held, owner)
    if patch.verb == "remove":
        if isinstance(slot.owner, MutableSequence):
            raise TargetRefused(patch.address, owner, f"{slot} cannot be absent: its neighbours would move")
        if own is ABSENT and held is not ABSENT:
            raise TargetRefused(patch.address, owner, f"{slot} is inherited; remove it from the class that defines it")
    if patch.verb == "replace":
        like = slot.inherited() if own is ABSENT and slot.in_class is not None else own
        check_value(patch, slot, like, patch.change, owner)
    if patch.verb in CALL_VERBS and slot.key not in originals:
        check_callable(patch, slot, held, owner)


def check_scope(patch: Patch, scope: Scope, owner: object) -> None:
    """Refuse a patch that cannot tell who asks.

    Raises:
        TargetRefused: it is not around calls, and its session holds for one task.
    """
    if scope == "task" and patch.verb not in CALL_VERBS:
        problem = f"scope='task' is for wrap and inject: a call can ask who makes it, what {patch.verb} does is for all"
        raise TargetRefused(patch.address, owner, f"{problem}; take scope='process', or wrap what calls it")


def _refuse_unsettable(patch: Patch, slot: AttributeSlot, held: object, owner: object) -> None:
    """Refuse an attribute that its owner keeps elsewhere than where it would be set."""
    found = along_mro(type(slot.owner), slot.name)
    if slot.name == "__new__":
        # CPython leaves its slot function behind when a __new__ is set and deleted again: the class would be spoilt.
        problem = "is inherited, and a class whose __new__ was set and deleted can no longer be called with arguments"
        raise TargetRefused(patch.address, owner, f"{slot} {problem}; patch __init__, or the class that defines it")
    if (
        slot.in_class is None
        and found is not ABSENT
        and hasattr(type(found), "__set__")
        and not isinstance(found, KEPT)
    ):
        problem = f"is {a_kind(found)} of its class: to set it would run it"
        raise TargetRefused(patch.address, owner, f"{slot} {problem}; patch {describe(type(slot.owner))}.{slot.name}")
    if slot.is_handed_on and hasattr(slot.owner, "__dict__"):
        for name, kept in vars(slot.owner).items():
            if isinstance(kept, dict) and slot.name in kept:  # as a torch module does: its place there would be lost
                way = f"take hookpatch.Target.item(owner.{name}, {slot.name!r})"
                raise TargetRefused(patch.address, owner, f"{slot} is kept in {name} of {a_kind(slot.owner)}; {way}")


def check_callable(patch: Patch, slot: Slot, held: object, owner: object) -> None:
    """Refuse a patch around the calls of something that cannot be called.

    Raises:
        TargetRefused: it cannot.
    """
    if not callable(held) and not isinstance(held, (staticmethod, classmethod)):
        what = "nothing" if held is ABSENT else f"{a_kind(held)}, which cannot be called"
        raise TargetRefused(patch.address, owner, f"{slot} holds {what}; take hookpatch.replace or hookpatch.derive")
