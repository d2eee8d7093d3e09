"""The six verbs: what to change at a target, declared and inert."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from inspect import CO_VARARGS, Parameter, Signature, signature
from operator import attrgetter
from types import FunctionType, ModuleType
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack, final

from hookpatch._target import Target, a_kind, is_module_name
from hookpatch.errors import PatchError

Wrapper: TypeAlias = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]
Factory: TypeAlias = Callable[[Any], Any]
Entered: TypeAlias = Callable[[ModuleType], AbstractContextManager[object]]
Verb: TypeAlias = Literal["wrap", "inject", "replace", "derive", "remove", "enter"]
Reach: TypeAlias = Literal["slot", "everywhere"]
Scope: TypeAlias = Literal["process", "task"]

CALL_VERBS: Final = frozenset({"wrap", "inject"})


class Facts(TypedDict, total=False):
    """The options every verb takes, by keyword.

    Attributes:
        reach: ``"slot"``, the address alone; or ``"everywhere"``, wherever the same function is bound.
        requires: the distribution's versions it was made for, such as ``"onnxsim>=0.4.36,<1"``; or several of these.
        required: False when the program may run without it: it is then skipped, with the reason in the report.
        before: names of plugins whose patches on the same site lie inside this one.
        after: names of plugins whose patches on the same site lie outside this one.
        why: what is wrong at the target, in a line.
        upstream: a link to the issue or change in the target's own project, or why there is none.
        until: versions from which on the patch is not needed, such as ``"onnxsim>=1.0"``.
        required_calls: how many calls it has to receive until it ends, if it was applied; they are counted then. For
            ``wrap`` and ``inject``, and for what ``replace`` and ``derive`` put there to be called.
    """

    reach: Reach
    requires: str | Iterable[str] | None
    required: bool
    before: str | Iterable[str]
    after: str | Iterable[str]
    why: str | None
    upstream: str | None
    until: str | None
    required_calls: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A declaration: at this target, this change. Making one imports nothing and changes nothing.

    Attributes:
        verb: the verb that made it.
        target: where; for ``enter`` None.
        module: the module whose import makes it possible, None for objects at hand.
        change: the wrapper, the arguments, the value or the factory; None for ``remove``.
        reach, requires, required, before, after, why, upstream, until, required_calls: see ``Facts``.
        expects: for ``wrap``, names of parameters that the target must have.
    """

    verb: Verb
    target: Target | None
    module: str | None
    change: Any
    reach: Reach = "slot"
    requires: str | tuple[str, ...] | None = None
    required: bool = True
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    why: str | None = None
    upstream: str | None = None
    until: str | None = None
    required_calls: int = 0
    expects: tuple[str, ...] = ()

    @property
    def requirements(self) -> tuple[str, ...]:
        """What ``requires`` names, one by one."""
        return (self.requires,) if isinstance(self.requires, str) else self.requires or ()

    @property
    def address(self) -> str:
        """The target in words."""
        return str(self.target) if self.target is not None else str(self.module)

    def __reduce__(self) -> Any:
        """Return how it is made again: in few steps, for a block packs its patches each time it is entered."""
        where = self.target if self.module is None or self.target is None else self.target.address
        return _again, (where, *_all_but_target(self))


_ALL_BUT_TARGET: Final = tuple(field.name for field in fields(Patch) if field.name != "target")
_all_but_target: Final = attrgetter(*_ALL_BUT_TARGET)


def _again(where: str | Target | None, *rest: Any) -> Patch:
    """Return a patch that was pickled: its target as an address, except for an object at hand."""
    target = Target(where) if isinstance(where, str) else where
    return Patch(target=target, **dict(zip(_ALL_BUT_TARGET, rest, strict=True)))


def wrap(target: str | Target, wrapper: Wrapper, *, expects: str | Iterable[str] = (), **facts: Unpack[Facts]) -> Patch:
    """Return a patch that runs ``wrapper`` around each call of what stands at ``target``.

    Args:
        target: the address of something that can be called.
        wrapper: ``wrapper(wrapped, instance, args, kwargs)``, wrapt's own convention: for a method ``wrapped`` is
            bound, ``instance`` is its object (for a class method its class) and ``args`` come without it.
        expects: names of parameters that the wrapper looks for: where the target has not all of them, the patch is
            refused, or skipped. A C function that tells no signature is taken to have them.
        **facts: see ``Facts``.

    Raises:
        TargetSyntaxError: the address cannot be read.
        PatchError: the wrapper cannot be called like this, or a fact is none.
    """
    if not callable(wrapper):
        raise PatchError("wrap", f"the wrapper is {a_kind(wrapper)} and cannot be called")
    _check_form("wrap", "wrapper", wrapper, "wrapped, instance, args, kwargs")
    return _declare("wrap", target, wrapper, facts, _texts("wrap", "expects", expects, "a parameter's name"))


def inject(target: str | Target, arguments: Mapping[str, Any] | None = None, /, **more: Any) -> Patch:
    """Return a patch that gives these arguments at every call of what stands at ``target``.

    They take the place of what the caller passes under the same name. Lists, dicts and sets are copied anew for each
    call, so that a callee that changes them changes nothing of ours.

    Args:
        target: the address of something that can be called.
        arguments: arguments by name; for a parameter that bears the name of one of ``Facts``.
        **more: further arguments by name, and the facts.

    Raises:
        TargetSyntaxError: the address cannot be read.
        PatchError: there is no argument, or a fact is none.
    """
    if arguments is not None and not isinstance(arguments, Mapping):
        raise PatchError("inject", f"the arguments are {a_kind(arguments)}, not a mapping of names to values")
    facts = {name: more.pop(name) for name in Facts.__annotations__ if name in more}
    given = {**(arguments or {}), **more}
    if not given:
        raise PatchError("inject", "no argument to give; write inject(target, name=value)")
    for name in given:
        if not isinstance(name, str):
            raise PatchError("inject", f"an argument's name is {a_kind(name)}, not text")
    return _declare("inject", target, given, facts)


def replace(target: str | Target, value: object, **facts: Unpack[Facts]) -> Patch:
    """Return a patch that puts ``value`` into the slot at ``target``; a key or name that is absent is added.

    Raises:
        TargetSyntaxError: the address cannot be read.
        PatchError: a fact is none.
    """
    return _declare("replace", target, value, facts)


def derive(target: str | Target, factory: Factory, **facts: Unpack[Facts]) -> Patch:
    """Return a patch that puts ``factory(original)`` into the slot at ``target``.

    The factory is called when the target is there: it can subclass the vendor's class without importing it. It gets
    what the slot holds itself: for a class or static method and for a property the descriptor.

    Raises:
        TargetSyntaxError: the address cannot be read.
        PatchError: the factory cannot be called like this, or a fact is none.
    """
    if not callable(factory):
        raise PatchError("derive", f"the factory is {a_kind(factory)} and cannot be called")
    _check_form("derive", "factory", factory, "original")
    return _declare("derive", target, factory, facts)


def remove(target: str | Target, **facts: Unpack[Facts]) -> Patch:
    """Return a patch that makes the name or key at ``target`` absent.

    Raises:
        TargetSyntaxError: the address cannot be read.
        PatchError: a fact is none.
    """
    return _declare("remove", target, None, facts)


def enter(module: str, factory: Entered, **facts: Unpack[Facts]) -> Patch:
    """Return a patch that enters the context manager ``factory(module)`` once the module is imported.

    It is left at the end: for changes that have an undo of their own.

    Args:
        module: the module's full name.
        factory: takes the module, returns a context manager.
        **facts: see ``Facts``.

    Raises:
        PatchError: the module's name is none, the factory cannot be called like this, or a fact is none.
    """
    if not is_module_name(module):
        raise PatchError("enter", f"'{module}' is not a module's name")
    if not callable(factory):
        raise PatchError("enter", f"the factory is {a_kind(factory)} and cannot be called")
    _check_form("enter", "factory", factory, "module")
    return Patch(verb="enter", target=None, module=module, change=factory, **_checked("enter", facts))


def _check_form(verb: Verb, what: str, function: Callable[..., Any], form: str) -> None:
    """Refuse a Python function that cannot take these by position; of other callables it shows when they are called."""
    if type(function) is not FunctionType:
        return
    code, given = function.__code__, form.count(",") + 1
    least = code.co_argcount - len(function.__defaults__ or ())
    most = given if code.co_flags & CO_VARARGS else code.co_argcount
    if not least <= given <= most or code.co_kwonlyargcount > len(function.__kwdefaults__ or ()):
        bare = [parameter.replace(annotation=Parameter.empty) for parameter in signature(function).parameters.values()]
        takes = f"{function.__name__}{Signature(bare)}"
        raise PatchError(verb, f"the {what} is called as {what}({form}), and cannot be: it is {takes}")


def _declare(
    verb: Verb, where: str | Target, change: object, facts: Mapping[str, Any], expects: tuple[str, ...] = ()
) -> Patch:
    target = where if isinstance(where, Target) else Target(where)
    checked = _checked(verb, facts)
    return Patch(verb=verb, target=target, module=target.module, change=change, expects=expects, **checked)


def _checked(verb: Verb, facts: Mapping[str, Any]) -> dict[str, Any]:
    if not facts:
        return {}
    checked = dict(facts)
    if unknown := set(checked) - set(Facts.__annotations__):
        raise PatchError(verb, f"takes no '{min(unknown)}'; it takes {', '.join(Facts.__annotations__)}")
    if checked.get("reach", "slot") not in ("slot", "everywhere"):
        raise PatchError(verb, f"reach={checked['reach']!r} is neither 'slot' nor 'everywhere'")
    for fact in ("why", "upstream", "until"):
        if not isinstance(checked.get(fact), str | None):
            raise PatchError(verb, f"{fact}= is {a_kind(checked[fact])}, not text")
    if not isinstance(checked.get("requires"), str | None):
        checked["requires"] = _texts(verb, "requires", checked["requires"], "a distribution's versions")
    calls = checked.get("required_calls", 0)
    if type(calls) is not int or calls < 0:
        raise PatchError(verb, f"required_calls={calls!r} is not a number of calls")
    if calls and verb in ("remove", "enter"):
        raise PatchError(verb, "takes no required_calls=: nothing of it is called")
    for side in ("before", "after"):
        if side in checked:
            checked[side] = plugin_names(verb, side, checked[side])
    return checked


def plugin_names(verb: str, fact: str, given: object) -> tuple[str, ...]:
    """Return what was given as the name of one plugin or several.

    Raises:
        PatchError: it is no text; or it is several in one text, which would name nobody.
    """
    names = _texts(verb, fact, given, "a plugin's name")
    if joined := next((name for name in names if "," in name), None):
        apart = [name.strip() for name in joined.split(",")]
        raise PatchError(verb, f"{fact}= takes a plugin's name or several, not {joined!r}; write {fact}={apart}")
    return names


def _texts(verb: str, fact: str, given: object, what: str) -> tuple[str, ...]:
    """Return what was given as one text or several."""
    texts = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(text, str) for text in texts):
        raise PatchError(verb, f"{fact}= takes {what} or several, not {given!r}")
    return texts
