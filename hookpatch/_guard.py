"""What must hold of a slot before a patch is applied there: what it holds, and what that takes."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from inspect import Parameter, Signature
from types import FunctionType
from typing import Any

from hookpatch._attribute_slot import AttributeSlot
from hookpatch._beneath import originals
from hookpatch._calls import PACKED, as_text, misfit, take_the_same, takes
from hookpatch._function_slot import FunctionSlot
from hookpatch._patch import CALL_VERBS, Patch, Scope
from hookpatch._requirement import check_requirement
from hookpatch._resolve import missing
from hookpatch._slot import ABSENT, KEPT, Slot, along_mro, inner
from hookpatch._target import a_kind, describe
from hookpatch.errors import SignatureError, TargetRefused, _suggest


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
        _refuse_unsettable(patch, slot, owner)
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


def check_patch(patch: Patch, scope: Scope, owner: object) -> None:
    """Refuse a patch that was not made for what is installed, or cannot hold for one task.

    Raises:
        RequirementError: an installed version is not one that it requires.
        TargetRefused: its session holds for one task, and it is not around calls: it cannot tell who asks.
    """
    check_requirement(patch, owner)
    if scope == "task" and patch.verb not in CALL_VERBS:
        problem = f"scope='task' is for wrap and inject: a call can ask who makes it, what {patch.verb} does is for all"
        raise TargetRefused(patch.address, owner, f"{problem}; take scope='process', or wrap what calls it")


def _refuse_unsettable(patch: Patch, slot: AttributeSlot, owner: object) -> None:
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


def check_call(patch: Patch, parameters: Sequence[Parameter], owner: object) -> None:
    """Refuse a patch that gives an argument which the callee does not take, or expects a parameter that it has not.

    Args:
        patch: one made by ``inject`` or ``wrap``.
        parameters: what ``takes`` returned.
        owner: who asks for it, for messages.

    Raises:
        SignatureError: it does not take it, or has it not.
    """
    # A wrapper looks for what it expects by its name or place: not among what **kwargs take.
    open_ended = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters)
    given = () if open_ended or patch.verb != "inject" else patch.change
    names = [parameter.name for parameter in parameters if parameter.kind not in PACKED]
    for name in (*given, *patch.expects):
        if name not in names:
            hint = _suggest(name, names) or ";"
            lacks = f"takes no argument '{name}'" if name in given else f"has no parameter '{name}' (expects=)"
            problem = f"{patch.address} {lacks}{hint} it takes {', '.join(names) or 'nothing'}"
            raise SignatureError(patch.address, owner, problem)


def check_value(patch: Patch, slot: Slot, original: Any, value: Any, owner: object) -> None:
    """Refuse a value that is to stand for a Python function and does not take what that takes.

    What cannot be called at all may stand for one: many a library asks whether it has a function. A function that
    takes ``*args, **kwargs`` and nothing else, such as somebody's wrapper, does not tell what it is called with.

    Args:
        patch: one made by ``replace`` or ``derive``.
        slot: where it is to stand.
        original: what stands there, as it lies there.
        value: what is to stand there.
        owner: who asks for it, for messages.

    Raises:
        SignatureError: a call that the function takes would fail.
    """
    function, new = inner(original), inner(value)
    if type(function) is not FunctionType or not callable(new) or new is function:
        return
    if take_the_same(function, new) and _is_bound(original) == _is_bound(value):
        return
    what = f"what {patch.verb} puts at {patch.address}"
    binds = slot.binds if isinstance(slot, FunctionSlot) else slot.in_class is not None and not _is_new(slot)
    taken, offered = takes(function, binds and _is_bound(original)), takes(new, binds and _is_bound(value))
    if taken is None or offered is None or _shape(taken) == _shape(offered) or {one.kind for one in taken} == {*PACKED}:
        return
    if (failure := misfit(Signature(offered), Signature(taken), function.__name__)) is not None:
        problem = f"{what} takes {as_text(offered)}, and {failure}"
        raise SignatureError(patch.address, owner, f"{problem}; take what the original takes, or *args, **kwargs")


def _shape(parameters: Sequence[Parameter]) -> list[tuple[Any, ...]]:
    return [(one.name, one.kind, one.default is one.empty) for one in parameters]


def _is_bound(held: Any) -> bool:
    """Tell whether what lies in a class gets the object or class that it is called on as its first argument."""
    return hasattr(type(held), "__get__") and not isinstance(held, (staticmethod, type))


def _is_new(slot: Slot) -> bool:
    """Tell whether it is a class's ``__new__``, a static method also where it is a plain function."""
    return isinstance(slot, AttributeSlot) and slot.name == "__new__"
