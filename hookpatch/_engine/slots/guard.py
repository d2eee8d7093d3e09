"""Refuse a patch that does not fit the slot, before the patch is applied."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from functools import partial
from inspect import Parameter, Signature
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._engine.calls.signatures import (
    PACKED,
    as_text,
    misfit,
    take_the_same,
    takes,
    takes_any_call,
)
from hookpatch._engine.patch.describe import a_kind, describe
from hookpatch._engine.patch.patch import GIVING_VERBS, Facts, Patch, Scope
from hookpatch._engine.patch.steps import is_looked_up_in_class
from hookpatch._engine.patch.versions import check_requirement
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.lazy import KNOWS_LAZY, is_lazy, source_of
from hookpatch._engine.slots.originals import is_patched
from hookpatch._engine.slots.resolve import has_value, missing
from hookpatch._engine.slots.slot import ABSENT, KEPT, Slot, along_mro, inner
from hookpatch.errors import SignatureError, TargetRefused, _suggest

UNCHECKED: Final = "the signature is not checked (check_signature=False)"
_IMMUTABLE: Final = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
_READ_ONLY: Final[dict[type, tuple[str, ...]]] = {
    property: ("fget", "fset", "fdel"),
    partial: ("func", "args", "keywords"),
    MethodType: ("__func__", "__self__"),
    **dict.fromkeys((staticmethod, classmethod), ("__func__", "__wrapped__")),
}


def check_slot(patch: Patch, slot: Slot, own: object, owner: object) -> None:
    """Raise TargetNotFound, TargetRefused or SignatureError if a patch does not fit a slot.

    ``own`` is the own value of the slot's owner without our layers, or ABSENT. ``owner`` is named in messages.
    """
    assert patch.target is not None  # patches without a slot are not checked against a slot
    # A value to be replaced is not read from a module's __getattr__: the read would import a lazy module.
    is_put = patch.verb == "replace" and not patch.is_around_calls
    original = own if own is not ABSENT or is_put else slot.inherited()
    if patch.is_for_absent and has_value(slot, own):
        return
    # In a slot with layers another layer may have added the value: the site checks.
    if original is ABSENT and not is_patched(slot) and not patch.add:
        if patch.verb != "replace":
            raise missing(slot, patch.target, owner)
        if not _may_exist(slot):
            raise missing(slot, patch.target, owner, remedy="add=True adds it")
    if slot.in_class is not None and slot.in_class.__flags__ & _IMMUTABLE:
        way = f"put a subclass in place of the class, with hookpatch.derive where {describe(slot.in_class)} is used"
        raise TargetRefused(patch.address, owner, f"{slot} is of a class written in C, which cannot be changed; {way}")
    if isinstance(slot, AttributeSlot):
        if own is ABSENT or patch.verb == "remove":
            _refuse_new_of_object(patch, slot, owner)
        if own is ABSENT:
            _refuse_unsettable(patch, slot, owner)
        if patch.reach == "slot" and slot.name in _READ_ONLY.get(type(slot.owner), ()):
            way = "take reach='everywhere', which changes a Python function in place"
            raise TargetRefused(patch.address, owner, f"{slot} is read-only in {a_kind(slot.owner)}; {way}")
    if patch.verb == "remove":
        if isinstance(slot.owner, MutableSequence):
            raise TargetRefused(patch.address, owner, f"{slot} cannot be absent: its neighbours would move")
        if own is ABSENT and original is not ABSENT:
            way = "is inherited; remove the attribute from the class of its definition"
            if not isinstance(slot, AttributeSlot):
                way = "comes from a further map of a ChainMap; remove the entry from that map"
            raise TargetRefused(patch.address, owner, f"{slot} {way}")
    if patch.verb == "replace":
        like = slot.inherited() if own is ABSENT and slot.in_class is not None else own
        if patch.callers:
            _check_called(patch, slot, original, owner)
        check_value(patch, slot, like, patch.change, owner)
    if KNOWS_LAZY and is_lazy(original) and (patch.verb not in ("replace", "remove") or patch.reach == "everywhere"):
        home = ":".join(source_of(original).rsplit(".", 1))
        problem = f"{slot} is a lazy import of {source_of(original)}, unused until now"
        raise TargetRefused(patch.address, owner, f"{problem}; patch {home}, where it is defined")
    in_place = patch.reach == "everywhere" and not patch.is_narrowed and type(getter_of(own)) is FunctionType
    is_new = original is ABSENT and patch.add
    if patch.is_around_calls and not is_patched(slot) and not in_place and not is_new:
        check_callable(patch, slot, original, owner)


def _may_exist(slot: Slot) -> bool:
    """Return True if an owner inherits the name of a slot, or may compute the value. No value is computed here."""
    if not isinstance(slot, AttributeSlot):
        return slot.inherited() is not ABSENT
    if slot.in_class is not None and is_looked_up_in_class(slot.name):  # the metaclass has a name of its own
        return slot.inherited() is not ABSENT
    if along_mro(type(slot.owner), slot.name) is not ABSENT:
        return True
    return (slot.in_class is None and slot.is_fetched) or slot.inherited() is not ABSENT


def check_patch(patch: Patch, scope: Scope, owner: object) -> None:
    """Raise RequirementError for an unsupported installed version, TargetRefused for scope="task" without calls."""
    check_requirement(patch, owner)
    if scope == "task" and patch.add and patch.is_around_calls:
        problem = "scope='task' is for calls, and add= adds a name for all tasks; take scope='process'"
        raise TargetRefused(patch.address, owner, problem)
    if scope == "task" and not patch.is_around_calls:
        verbs = "wrap, inject, default, and replace with callers="
        problem = (
            f"scope='task' is for {verbs}: a call belongs to a task, but {patch.verb} changes the value for all tasks"
        )
        raise TargetRefused(patch.address, owner, f"{problem}; take scope='process', or wrap the calling function")


def check_kept(patch: Patch, owner: object) -> None:
    """Raise TargetRefused for the source of a module in a block that says neither ``keep`` nor ``reload``."""
    if patch.is_of_source and not (patch.keep or patch.reload):
        problem = "a module that ran from changed source stays changed after the block"
        remedy = "pass keep=True to keep the change, or reload=True to run the module anew at the end"
        raise TargetRefused(patch.address, owner, f"{problem}; {remedy}")


def check_not_run(patch: Patch, owner: object) -> None:
    """Raise TargetRefused for the source of a module that ran already without ``reload``, or of no module."""
    name = str(patch.module)
    if patch.is_of_source and not patch.reload and imports.begun(name) and not imports.is_ahead(name):
        problem = f"{name} is imported already, and its source has run"
        remedy = "reload=True runs the source anew on entering and at the end; or patch before the import"
        raise TargetRefused(patch.address, owner, f"{problem}; {remedy}")
    package, _, last = name.rpartition(".")
    parent = imports.loaded(package) if patch.is_of_source and package and not imports.begun(name) else None
    if parent is not None and last in vars(parent) and not isinstance(vars(parent)[last], ModuleType):
        raise TargetRefused(patch.address, owner, f"{name} is no module; did you mean '{package}:{last}'?")


def _refuse_unsettable(patch: Patch, slot: AttributeSlot, owner: object) -> None:
    """Raise TargetRefused if the slot's owner does not store the attribute under its name."""
    member = along_mro(type(slot.owner), slot.name)
    is_data = member is not ABSENT and hasattr(type(member), "__set__")
    if slot.in_class is None and is_data and not isinstance(member, KEPT):
        problem = f"is {a_kind(member)} of its class, and setting the attribute would call the descriptor"
        raise TargetRefused(patch.address, owner, f"{slot} {problem}; patch {describe(type(slot.owner))}.{slot.name}")
    if slot.is_forwarded and hasattr(slot.owner, "__dict__"):
        for name, table in vars(slot.owner).copy().items():
            if isinstance(table, dict) and slot.name in table:  # a torch module: a restored key would be the last one
                way = f"take hookpatch.Target.item(owner.{name}, {slot.name!r})"
                raise TargetRefused(patch.address, owner, f"{slot} is kept in {name} of {a_kind(slot.owner)}; {way}")


def _refuse_new_of_object(patch: Patch, slot: AttributeSlot, owner: object) -> None:
    """Raise TargetRefused where object's ``__new__`` would be called through a class that has, or had, another."""
    if slot.name == "__new__" and slot.inherited() is vars(object)["__new__"]:
        # CPython keeps its slot function after a __new__ is set and deleted, and object.__new__ then refuses arguments.
        is_own = patch.verb == "remove"
        state = "hides object.__new__" if is_own else "is object.__new__"
        act = "deleting its __new__" if is_own else "setting and deleting __new__"
        way = "replace __new__" if is_own else "patch __init__, or derive a class with a __new__"
        raise TargetRefused(
            patch.address, owner, f"{slot} {state}, and a class takes no arguments any more after {act}; {way}"
        )


def check_callable(patch: Patch, slot: Slot, original: object, owner: object) -> None:
    """Raise TargetRefused for a patch around calls if the value cannot be called."""
    if not callable(original) and not isinstance(original, (staticmethod, classmethod)):
        if type(getter_of(original)) is FunctionType:
            problem = f"{slot} holds a property, whose getter is changed in place: take reach='everywhere'"
            raise TargetRefused(patch.address, owner, f"{problem}, at the class of its definition; or hookpatch.derive")
        content = "nothing" if original is ABSENT else f"{a_kind(original)}, which cannot be called"
        instead = "only=callable leaves out such values" if patch.rule else "take hookpatch.replace or hookpatch.derive"
        raise TargetRefused(patch.address, owner, f"{slot} holds {content}; {instead}")


def _check_called(patch: Patch, slot: Slot, original: Any, owner: object) -> None:
    """Raise TargetRefused if the value of a ``replace`` for some callers cannot be called as the original is."""
    form = type(original) if isinstance(original, (staticmethod, classmethod, property)) else None
    new_form = type(patch.change) if isinstance(patch.change, (staticmethod, classmethod, property)) else None
    if not callable(called(patch.change)):
        problem = f"callers= chooses at a call, and {a_kind(patch.change)} cannot be called; leave callers= out"
    elif form is not new_form and original is not ABSENT:
        old, new = (f"a {kind.__name__}" if kind else "no descriptor" for kind in (form, new_form))
        problem = f"{slot} holds {old}, and the new value is {new}; give a value of the same form"
    else:
        return
    raise TargetRefused(patch.address, owner, problem)


def called(value: Any) -> Any:
    """Return the callable behind a call of a slot's value: for a property the getter."""
    return inner(value) if getter_of(value) is None else getter_of(value)


def getter_of(value: Any) -> Any:
    """Return the getter of a property; None for anything else."""
    return value.fget if type(value) is property else None


def check_call(patch: Patch, parameters: Sequence[Parameter] | None, owner: object) -> None:
    """Raise SignatureError if the callee lacks a parameter that a patch gives or expects; None: no signature.

    A callee that takes any keyword would take a misspelt option of ``inject`` and ``default``, too.
    """
    if not patch.check_signature:
        return
    if parameters is None:
        if patch.verb == "default":
            problem = f"{patch.address} shows no signature, and the names of positional arguments are unknown"
            raise SignatureError(patch.address, owner, f"{problem}; take hookpatch.wrap")
        return
    # A wrapper looks for an expected parameter by name or position, so **kwargs of the callee do not help.
    open_ended = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters)
    gives = patch.change if patch.verb in GIVING_VERBS else ()
    injected = () if open_ended else gives
    names = [parameter.name for parameter in parameters if parameter.kind not in PACKED]
    for name in (*injected, *patch.expects):
        if name not in names:
            own = _suggest(name, Facts.__annotations__, 0.8).replace("mean '", "mean the option '")
            hint = _suggest(name, names) or own or ";"
            lacks = f"takes no argument '{name}'" if name in injected else f"has no parameter '{name}' (expects=)"
            problem = f"{patch.address} {lacks}{hint} it takes {', '.join(names) or 'nothing'}"
            raise SignatureError(patch.address, owner, problem)
    for name in gives if open_ended else ():
        if name not in names and name not in patch.by_mapping and (hint := _suggest(name, Facts.__annotations__, 0.8)):
            problem = f"{patch.address} takes any argument, and '{name}' is nearly an option of {patch.verb}{hint}"
            way = f"an argument of that name is given as {patch.verb}(target, {{{name!r}: ...}})"
            raise SignatureError(patch.address, owner, f"{problem} {way}")


def check_value(patch: Patch, slot: Slot, original: Any, value: Any, owner: object) -> None:
    """Raise SignatureError if the new value of a slot fails for a call that the original function accepts.

    A value that cannot be called passes: many libraries set a function to None. A function with only
    ``*args, **kwargs``, such as a foreign wrapper, hides its real signature and passes, too.
    """
    function, new = inner(original), inner(value)
    if not patch.check_signature:
        return
    if type(function) is not FunctionType or not callable(new) or new is function:
        return
    if takes_any_call(new) or (take_the_same(function, new) and _is_bound(original) == _is_bound(value)):
        return
    if isinstance(slot, FunctionSlot):
        binds = slot.binds
    else:  # __new__ is a static method even if defined as a plain function
        binds = slot.in_class is not None and not (isinstance(slot, AttributeSlot) and slot.name == "__new__")
    required, offered = takes(function, binds and _is_bound(original)), takes(new, binds and _is_bound(value))
    if required is None or offered is None or _shape(required) == _shape(offered):
        return
    if {parameter.kind for parameter in required} == {*PACKED}:
        return
    if (failure := misfit(Signature(offered), Signature(required), function.__name__)) is not None:
        problem = f"what {patch.verb} puts at {patch.address} takes {as_text(offered)}, and {failure}"
        way = "take what the original takes, or *args, **kwargs; or say check_signature=False and why="
        if isinstance(original, staticmethod) and _is_bound(value):
            static = takes(new, binds=False)
            if static is not None and misfit(Signature(static), Signature(required), function.__name__) is None:
                way = "the original is a static method: give staticmethod(function)"
        raise SignatureError(patch.address, owner, f"{problem}; {way}")


def unchecked(patch: Patch) -> tuple[str, ...]:
    """Return a note on an unchecked signature, in words for plan and report; empty for a checked signature."""
    return () if patch.check_signature else (UNCHECKED,)


def _shape(parameters: Sequence[Parameter]) -> list[tuple[Any, ...]]:
    return [(parameter.name, parameter.kind, parameter.default is parameter.empty) for parameter in parameters]


def _is_bound(value: Any) -> bool:
    """Return True if a class attribute gets the object or class of a call as the first argument."""
    return hasattr(type(value), "__get__") and not isinstance(value, (staticmethod, type))
