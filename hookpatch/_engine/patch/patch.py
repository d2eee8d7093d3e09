"""Declare a patch by one of nine verbs. A declaration imports nothing and changes nothing.

Long because each verb documents the arguments in place.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from functools import partial
from inspect import CO_VARARGS, Parameter, Signature, signature
from operator import attrgetter
from textwrap import dedent
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, Literal, ParamSpec, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, final, overload

from hookpatch._engine.patch.describe import a_kind
from hookpatch._engine.patch.edit import Edit, hunks
from hookpatch._engine.patch.rule import filled, read_bounds
from hookpatch._engine.patch.target import Attribute, Target, is_module_name
from hookpatch.errors import PatchError

Wrapper: TypeAlias = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]
P = ParamSpec("P")
R = TypeVar("R")


class TypedWrapper(Protocol[P, R]):
    """A wrapper whose result has the type of the wrapped function's result."""

    def __call__(
        self, wrapped: Callable[P, R], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> R: ...


Factory: TypeAlias = Callable[[Any], Any]
Entered: TypeAlias = Callable[[ModuleType], AbstractContextManager[object]]
Verb: TypeAlias = Literal["wrap", "inject", "default", "replace", "derive", "remove", "edit", "enter", "transform"]
Reach: TypeAlias = Literal["slot", "everywhere"]
Scope: TypeAlias = Literal["process", "task"]
Add: TypeAlias = Literal["absent"] | bool

GIVING_VERBS: Final = frozenset({"inject", "default"})  # pass arguments to calls
CALL_VERBS: Final = frozenset({"wrap", *GIVING_VERBS})
NOT_NEEDED: Final = "not needed: already there"
MAKING_VERBS: Final = frozenset({"derive", "edit", "transform"})  # make a value of the value below


class Facts(TypedDict, total=False):
    """The options of every verb, by keyword.

    Attributes:
        reach: ``"slot"``, the address alone; or ``"everywhere"``, wherever the same function is bound.
        only_in: patterns of the modules to which ``reach="everywhere"`` goes, such as ``"shop.*"`` (``shop`` included).
        except_in: patterns of the modules without the patch. With ``only_in`` or ``except_in`` each place is patched by
            itself.
        callers: patterns of the modules whose calls have the patch, for example ``"shop.*"`` (``shop`` included); only
            for ``wrap``, ``inject``, ``default``, and ``replace`` of a callable. The module of the nearest Python
            frame counts. With the place of a function, ``"shop.cart:Cart.total"``, all calls count that are made
            while the function runs, also through other functions.
        of: for an address of instances, for example ``m:Class().name``: the object whose parts alone are meant, as a
            model and its submodules; or the object's address.
        requires: supported versions of a distribution, for example ``"onnxsim>=0.4.36,<1"``; or several texts.
        required: False if the program may run without the patch: a refusal is then only reported.
        before: names of plugins whose patches on the same site lie inside this patch.
        after: names of plugins whose patches on the same site lie outside this patch.
        why: the fault of the target, in a line.
        upstream: a link to the issue or change in the target's own project, or the reason for having none.
        until: the versions that no longer need the patch, such as ``"onnxsim>=1.0"``.
        required_calls: the least number of calls until an applied patch ends; only for a value that can be called.
        check_signature: False to apply the patch although the target's signature does not fit; needs ``why``.
        matches: the required number of slots matched by a rule: a number, or a text, for example ``">=1"``, the default
            of a required patch.
        only: for a rule, called with each original value; the rule takes a value if the result is true. For instances,
            called with each instance: once with each part of ``of=``, else at each call of a method, and for a value
            when the instance is found.
    """

    reach: Reach
    only_in: str | Iterable[str]
    except_in: str | Iterable[str]
    callers: str | Iterable[str]
    of: object
    requires: str | Iterable[str] | None
    required: bool
    before: str | Iterable[str]
    after: str | Iterable[str]
    why: str | None
    upstream: str | None
    until: str | None
    required_calls: int
    check_signature: bool
    matches: int | str
    only: Callable[[Any], object]


class _Derived:
    """Values that are no part of the declaration, and therefore no fields.

    Attributes:
        address: the target in words; without a target, the module.
        is_around_calls: True if the patch runs at each call of the target, False if it puts a value into the slot.
        is_for_absent: True if the patch adds a name or key, and keeps an existing value.
        _prepared: what sessions keep with the patch, None until a session keeps something.
    """

    __slots__ = ("_prepared", "address", "is_around_calls", "is_for_absent")
    address: str
    is_around_calls: bool
    is_for_absent: bool
    _prepared: Any

    def __post_init__(self) -> None:
        patch: Any = self
        derive: Any = partial(object.__setattr__, self)
        derive("address", str(patch.target if patch.target is not None else patch.module))
        derive("is_around_calls", patch.verb in CALL_VERBS or bool(patch.callers))
        derive("is_for_absent", patch.add == "absent")
        derive("_prepared", None)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Patch(_Derived):
    """A declared change of a target. Frozen.

    Attributes:
        verb: the name of the verb.
        target: the address; None for ``enter`` and for the source of a module.
        module: the module whose import makes the patch possible, None for objects without an address.
        change: the wrapper, the arguments, the value, the factory or the Edit; None for ``remove``.
        reach, only_in, except_in, callers, of, requires, required, before, after: see ``Facts``.
        why, upstream, until, required_calls, check_signature: likewise.
        expects: for ``wrap``, names of parameters that the target must have.
        by_mapping: for ``inject`` and ``default``, names of arguments given in a mapping, none a misspelt option.
        add: for ``replace`` and ``wrap``, True if the name or key may be absent; ``"absent"`` if an existing one stays.
        matches, only: see ``Facts``.
        source: for ``replace``, the address of the value, or for a rule of the values.
        rule: the address of the rule, or of the edited class, for the patch of one of its matches.
        reload: for the source of a module, True if the module is executed anew on entering and at the end.
        keep: for the source of a module, True if a block may leave the module as it is.
        is_tree: for ``transform``, True if the function takes and returns a tree.
    """

    verb: Verb
    target: Target | None
    module: str | None
    change: Any
    reach: Reach = "slot"
    only_in: tuple[str, ...] = ()
    except_in: tuple[str, ...] = ()
    callers: tuple[str, ...] = ()
    of: Any = field(default=None, repr=False, compare=False)  # an object, or the Target of one
    requires: str | tuple[str, ...] | None = None
    required: bool = True
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    why: str | None = None
    upstream: str | None = None
    until: str | None = None
    required_calls: int = 0
    check_signature: bool = True
    expects: tuple[str, ...] = ()
    by_mapping: tuple[str, ...] = ()
    add: Add = False
    matches: int | str | None = None
    only: Callable[[Any], object] | None = None
    source: str | None = None
    rule: str | None = None
    reload: bool = False
    keep: bool = False
    is_tree: bool = False

    @property
    def is_of_instances(self) -> bool:
        """True if the patch is for the instances of a class, as of ``m:Class().name``."""
        return self.target is not None and self.target.of_instances is not None

    @property
    def is_rule(self) -> bool:
        """True if the target may match any number of slots: a session makes a patch of each match."""
        return self.target is not None and self.target.is_rule

    def of_match(self, target: Target, change: Any) -> Patch:
        """Return the patch of a match of this rule."""
        of_one: dict[str, Any] = {"target": target, "module": target.module, "change": change, "rule": self.address}
        only = self.only if target.of_instances else None
        return dataclasses.replace(self, **of_one, matches=None, only=only, source=None)

    def written_out(self) -> tuple[Patch, ...]:
        """Return the patch of each address named by braces; the patch itself, if the address has no braces."""
        if self.target is None or not (addresses := self.target.written_out):
            return (self,)
        patches = []
        for address, texts in addresses:
            target = Target(address)
            source = None if self.source is None else filled(self.source, texts)
            patches.append(dataclasses.replace(self, target=target, module=target.module, source=source))
        return tuple(patches)

    @property
    def by_rule(self) -> str:
        """In words the rule, or the edit of a class, if the patch is the patch of a match; else empty."""
        if self.rule is None:
            return ""
        return f"by {'the rule' if '*' in self.rule or '+' in self.rule else 'an edit of'} {self.rule}"

    @property
    def is_of_source(self) -> bool:
        """True if the patch changes the source of a module before the module runs."""
        return self.target is None and self.verb in ("edit", "transform")

    @property
    def requirements(self) -> tuple[str, ...]:
        """The texts of ``requires``."""
        return (self.requires,) if isinstance(self.requires, str) else self.requires or ()

    @property
    def is_narrowed(self) -> bool:
        """True if ``only_in`` or ``except_in`` says in which modules the target's holders are patched."""
        return bool(self.only_in or self.except_in)

    def goes_to(self, module: str | None) -> bool:
        """Return True if the patch goes to the values of a module; ``module``: None for a place without a module."""
        if module is None:
            return not self.only_in
        is_in = not self.only_in or any(_matches(pattern, module) for pattern in self.only_in)
        return is_in and not any(_matches(pattern, module) for pattern in self.except_in)

    def is_for_calls_by(self, module: str) -> bool:
        """Return True if the patch is in effect in calls by a module."""
        return not self.callers or any(_matches(pattern, module) for pattern in self.callers)

    @property
    def is_for_calls_in(self) -> Callable[[str | None, str], bool] | None:
        """A function that returns True if ``callers`` names a function of a module, or of any; None without a name."""
        functions = [pattern.partition(":") for pattern in self.callers if ":" in pattern]
        return (functions and partial(_names_function, functions)) or None

    def may_meet(self, other: Patch) -> bool:
        """Return True if one call may have both patches: patches for callers apart do not meet."""
        overlapping = (_overlap(ours, theirs) for ours in self.callers for theirs in other.callers)
        return not self.callers or not other.callers or any(overlapping)

    def is_for_callers_of(self, other: Patch) -> bool:
        """Return True if two patches are for the same callers, or one for all."""
        return not self.callers or not other.callers or self.callers == other.callers

    @property
    def is_of_one_at_hand(self) -> bool:
        """True if ``of`` is an object, and not an address."""
        return not (self.of is None or isinstance(self.of, Target))

    @property
    def in_calls(self) -> str:
        """In words the calls with the patch; empty for all calls."""
        return f" in calls from {', '.join(self.callers)}" if self.callers else ""

    def __reduce__(self) -> Any:
        """Return a short form for pickle: a block packs the patches at each entrance."""
        where = self.target if self.module is None or self.target is None else self.target.address
        return _unpickled, (where, *_all_but_target(self))


_MISSING: Final = object()
_ALL_BUT_TARGET: Final = tuple(field.name for field in fields(Patch) if field.name != "target")
_all_but_target: Final = attrgetter(*_ALL_BUT_TARGET)


def _matches(pattern: str, module: str) -> bool:
    """Return True if a pattern is for a module: ``pkg.*`` also means ``pkg``."""
    return fnmatchcase(module, pattern) or pattern == f"{module}.*"


def _overlap(pattern: str, other: str) -> bool:
    """Return True if a call may be by both; a function may run below any module."""
    if ":" in pattern + other or _matches(pattern, other) or _matches(other, pattern):
        return True
    head, other_head = (re.split(r"[*?[]", each) for each in (pattern, other))
    both = len(head) > 1 and len(other_head) > 1
    return both and (head[0].startswith(other_head[0]) or other_head[0].startswith(head[0]))


def _names_function(patterns: list[tuple[str, str, str]], module: str | None, function: str) -> bool:
    return any((module is None or _matches(of, module)) and fnmatchcase(function, name) for of, _, name in patterns)


def _unpickled(where: str | Target | None, *values: Any) -> Patch:
    target = Target(where) if isinstance(where, str) else where
    return Patch(target=target, **dict(zip(_ALL_BUT_TARGET, values, strict=True)))


def wrap(
    target: str | Target,
    wrapper: TypedWrapper[P, R],
    *,
    expects: str | Iterable[str] = (),
    add: Add = False,
    **facts: Unpack[Facts],
) -> Patch:
    """Return a patch that runs ``wrapper`` around each call of the value at ``target``.

    Args:
        target: the address of a callable.
        wrapper: ``wrapper(wrapped, instance, args, kwargs)``, as in wrapt: for a method ``wrapped`` is bound,
            ``instance`` is the object (for a class method the class) and ``args`` do not contain ``instance``.
        expects: names of parameters that the wrapper needs: if the target lacks one, the patch is refused, or
            skipped. A C function without a signature passes.
        add: True if the name or key may be absent: a new function then calls the wrapper. In a class the function is
            like a ``def`` of the class. There ``wrapped`` calls what a base class has under the name; without any,
            ``wrapped`` raises an AttributeError, for a key a KeyError. ``"absent"``: an existing value stays unwrapped.
        **facts: see ``Facts``.

    Raises:
        TargetSyntaxError: the address cannot be read.
        PatchError: the wrapper cannot be called with these arguments, or an option is invalid.
    """
    if not callable(wrapper):
        raise PatchError("wrap", f"the wrapper is {a_kind(wrapper)} and cannot be called")
    _check_form("wrap", "wrapper", wrapper, "wrapped, instance, args, kwargs")
    _check_add("wrap", add, facts)
    if add and facts.get("reach", "slot") != "slot":
        raise PatchError("wrap", "takes add= for one slot: no other place holds an absent name")
    expected = _texts("wrap", "expects", expects, "a parameter's name")
    if add and expected:
        raise PatchError("wrap", "takes add= or expects=, not both: a new name has no parameters yet")
    patch = _declare("wrap", target, wrapper, facts, expects=expected, add=add)
    if add and patch.is_of_instances:
        way = f"write {patch.target.of_class}" if patch.target is not None else ""
        raise PatchError("wrap", f"takes no add= for instances: a new method belongs to the class; {way}")
    return patch


def _check_add(verb: Verb, add: object, facts: Mapping[str, Any]) -> None:
    if not (isinstance(add, bool) or add == "absent"):
        given = repr(add) if isinstance(add, str) else a_kind(add)
        raise PatchError(verb, f"add= is {given}, and none of True, False and 'absent'")
    if add and facts.get("callers"):
        raise PatchError(verb, "takes add= or callers=, not both: a new name has no callers yet")


def inject(target: str | Target, arguments: Mapping[str, Any] | None = None, /, **more: Any) -> Patch:
    """Return a patch that passes arguments to every call of the value at ``target``.

    An injected argument replaces the caller's argument of the same name. Lists, dicts and sets are copied for each
    call, so a callee may change its copy.

    Args:
        target: the address of a callable.
        arguments: arguments by name; needed for a parameter with the name of an option in ``Facts``. If the target
            takes any keyword, a mapping is also needed for a name close to an option's.
        **more: further arguments by name, and the options in ``Facts``.

    Raises:
        TargetSyntaxError: the address cannot be read.
        PatchError: no argument is given, or an option is invalid.
    """
    return _giving("inject", target, arguments, more)


def default(target: str | Target, arguments: Mapping[str, Any] | None = None, /, **more: Any) -> Patch:
    """Return a patch that passes arguments to calls of ``target``, unless the caller gives the argument.

    An argument counts as given if the call binds the parameter, by place or by keyword, also to None. An argument of an
    ``inject`` counts as given, too. Lists, dicts and sets are copied for each call.

    Args:
        target: the address of a callable that shows its signature.
        arguments: arguments by name; needed for a parameter with the name of an option in ``Facts``. If the target
            takes any keyword, a mapping is also needed for a name close to an option's.
        **more: further arguments by name, and the options in ``Facts``.

    Raises:
        TargetSyntaxError: the address cannot be read.
        PatchError: no argument is given, or an option is invalid.
    """
    return _giving("default", target, arguments, more)


@overload
def replace(target: str | Target, value: object, *, add: Add = False, **facts: Unpack[Facts]) -> Patch: ...
@overload
def replace(target: str | Target, *, source: str, add: Add = False, **facts: Unpack[Facts]) -> Patch: ...
def replace(
    target: str | Target, value: object = _MISSING, *, source: str | None = None, add: Add = False, **facts: Any
) -> Patch:
    """Return a patch that puts ``value`` into the slot at ``target``.

    Args:
        target: the address.
        value: the new value of the slot.
        source: in place of ``value``: the address of the value, read when the patch is applied. The module of the
            source is imported when the target's module is. For a rule, for example ``"torch_npu.npu:*"``: each ``*``
            is replaced by the text matched by a ``*`` of the target.
        add: True to add a name or key that is absent, without which the patch is refused. A name that the owner
            inherits, or may fetch by a ``__getattr__``, is not absent. ``"absent"``: add the name or key where it is
            absent, and keep an existing value.
        **facts: see ``Facts``.

    Raises:
        TargetSyntaxError: the address cannot be read.
        PatchError: neither or both of ``value`` and ``source`` are given, or an option is invalid.
    """
    _check_add("replace", add, facts)
    if add == "absent" and facts.get("reach", "slot") != "slot":
        raise PatchError("replace", "takes add='absent' for one slot: no other place holds an absent name")
    if (value is _MISSING) == (source is None):
        raise PatchError("replace", f"takes a value or source=, not {'both' if source is not None else 'neither'}")
    patch = _declare("replace", target, None if value is _MISSING else value, facts, add=add, source=source)
    if source is not None:
        _check_source(patch, source)
    return patch


def _check_source(patch: Patch, source: str) -> None:
    target, named = Target(source), patch.target.written_out if patch.target is not None else ()
    if target.of_instances or "+" in source:
        raise PatchError("replace", f"source={source!r} has a sign that stands for no name: write names and '*'")
    if target.written_out:
        raise PatchError("replace", f"source={source!r} has braces; write '*', which takes each name of the target's")
    if source.count("*") > (len(named[0].texts) if named else patch.address.count("*")):
        raise PatchError("replace", f"source={source!r} has more '*' than {patch.address}")


def derive(target: str | Target, factory: Factory, **facts: Unpack[Facts]) -> Patch:
    """Return a patch that puts ``factory(original)`` into the slot at ``target``.

    The factory is called after the target's module is imported, so a factory can subclass the vendor's class without
    an import. For a class or static method and for a property, ``original`` is the descriptor. The factory is called
    once for each value beneath: an inner patch that comes or goes makes another value.

    Raises:
        TargetSyntaxError: the address cannot be read.
        PatchError: the factory cannot be called with one argument, or an option is invalid.
    """
    if not callable(factory):
        raise PatchError("derive", f"the factory is {a_kind(factory)} and cannot be called")
    _check_form("derive", "factory", factory, "original")
    return _declare("derive", target, factory, facts)


def remove(target: str | Target, **facts: Unpack[Facts]) -> Patch:
    """Return a patch that deletes the name or key at ``target``.

    Raises:
        TargetSyntaxError: the address cannot be read.
        PatchError: an option is invalid.
    """
    return _declare("remove", target, None, facts)


@overload
def edit(
    target: str | Target,
    old: str,
    new: str,
    *,
    count: int = 1,
    reload: bool = False,
    keep: bool = False,
    **facts: Unpack[Facts],
) -> Patch: ...
@overload
def edit(
    target: str | Target, *, diff: str, reload: bool = False, keep: bool = False, **facts: Unpack[Facts]
) -> Patch: ...
def edit(
    target: str | Target,
    old: str | None = None,
    new: str | None = None,
    *,
    count: int | None = None,
    diff: str | None = None,
    reload: bool = False,
    keep: bool = False,
    **facts: Unpack[Facts],
) -> Patch:
    """Return a patch that changes a piece of the source of the function, class or module at ``target``.

    The function is compiled anew from the edited source, with the same globals, cells and defaults. A piece is searched
    as whole statements, whatever their formatting and comments, else as tokens. The default reach is ``"everywhere"``:
    code that already holds the function calls the edited function. For a decorated function the innermost function is
    edited; for an inherited method the addressed class gets an edited copy.

    A class stays the same object. The functions of the class are edited in place. Other changed statements run anew,
    together with all statements that use the changed names. The head of the class stays: bases, metaclass, decorators.

    The source of a module is changed before the module runs. An executed module cannot be undone: a block needs
    ``keep=True`` or ``reload=True``.

    Args:
        target: the address of a function, a method, a property or a class; or the full name of a module.
        old: the piece to replace.
        new: the new text; empty to delete the piece.
        count: the number of occurrences of ``old``: all are replaced.
        diff: in place of ``old`` and ``new``: a unified diff. Line numbers do not count.
        reload: for a module, True to execute the module anew on entering, if imported, and at the end.
        keep: for a module, True to keep the edited module until the end of the process, although the block ends.
        **facts: see ``Facts``.

    Raises:
        TargetSyntaxError: the address cannot be read.
        PatchError: ``old``, ``new``, ``count``, the diff or an option is invalid.
    """
    change = _as_edit(old, new, count, diff)
    if isinstance(target, str) and is_module_name(target):
        return _of_source("edit", target, change, facts, reload=reload, keep=keep)
    if reload or keep:
        raise PatchError("edit", f"takes {'reload' if reload else 'keep'}= for a module alone, as 'package.module'")
    return _declare("edit", target, change, {"reach": "everywhere", **facts})


def transform(
    module: str,
    function: Callable[[Any], Any],
    *,
    ast: bool = False,
    reload: bool = False,
    keep: bool = False,
    **facts: Unpack[Facts],
) -> Patch:
    """Return a patch that changes the source of a module by a function, before the module runs.

    No file changes. An executed module cannot be undone: a block needs ``keep=True`` or ``reload=True``.

    Args:
        module: the module's full name.
        function: takes the text of the module, and returns the text to run.
        ast: True for a function that takes and returns an ``ast.Module``.
        reload: True to execute the module anew on entering, if imported, and at the end.
        keep: True to keep the changed module until the end of the process, although the block ends.
        **facts: see ``Facts``.

    Raises:
        PatchError: the module's name, the function or an option is invalid.
    """
    _check_of_module("transform", module, "function", function, "tree" if ast else "text")
    return _of_source("transform", module, function, facts, reload=reload, keep=keep, is_tree=bool(ast))


def _of_source(verb: Verb, module: str, change: object, facts: Mapping[str, Any], **own: Any) -> Patch:
    if fact := next((name for name in ("reach", "only_in", "except_in", "check_signature") if name in facts), None):
        raise PatchError(verb, f"takes no {fact}= for a module: all of it runs changed")
    if module == "__main__":
        raise PatchError(verb, "'__main__' is the program, which Python compiles before any patch is applied")
    if own["reload"] and own["keep"]:
        raise PatchError(verb, "takes reload=, which runs the module anew at the end, or keep=, not both")
    return Patch(verb=verb, target=None, module=module, change=change, **_checked(verb, facts), **own)


def _as_edit(old: object, new: object, count: object, diff: object) -> Edit:
    if diff is not None:
        if (old, new, count) != (None, None, None):
            raise PatchError("edit", "takes old and new, or diff=, not both")
        if not isinstance(diff, str):
            raise PatchError("edit", f"diff= is {a_kind(diff)}, not text")
        try:
            return Edit(hunks(diff), is_diff=True)
        except ValueError as error:
            raise PatchError("edit", f"diff= is no unified diff: {error}") from None
    if not (isinstance(old, str) and isinstance(new, str)):
        wrong = next(value for value in (old, new) if not isinstance(value, str))
        kind = "nothing" if wrong is None else a_kind(wrong)
        raise PatchError("edit", f"takes two texts, old and new, or diff=; one text is {kind}")
    if not old.strip():
        raise PatchError("edit", "old is empty: write the piece that is to be replaced")
    if dedent(old).strip() == dedent(new).strip():
        raise PatchError("edit", "old and new are the same")
    if count is not None and (type(count) is not int or count < 1):
        raise PatchError("edit", f"count={count!r} is not a number of places")
    return Edit(((old, new),), count)


def enter(module: str, factory: Entered, **facts: Unpack[Facts]) -> Patch:
    """Return a patch that enters the context manager ``factory(module)`` once the module is imported.

    The context manager is left at the end of the session: for changes that have an undo of their own.

    Args:
        module: the module's full name.
        factory: takes the module, returns a context manager.
        **facts: see ``Facts``.

    Raises:
        PatchError: the module's name, the factory or an option is invalid.
    """
    _check_of_module("enter", module, "factory", factory, "module")
    if rule_facts := {"matches", "only"} & set(facts):
        raise PatchError("enter", f"takes no {min(rule_facts)}=: enter has a single module")
    return Patch(verb="enter", target=None, module=module, change=factory, **_checked("enter", facts))


def _check_of_module(verb: Verb, module: str, role: str, function: Callable[..., Any], form: str) -> None:
    """Refuse a text that is no module's name, and a function that cannot be called as hookpatch does."""
    if not is_module_name(module):
        raise PatchError(verb, f"'{module}' is not a module's name")
    if not callable(function):
        raise PatchError(verb, f"the {role} is {a_kind(function)} and cannot be called")
    _check_form(verb, role, function, form)


def _check_form(verb: Verb, role: str, function: Callable[..., Any], form: str) -> None:
    """Refuse a Python function or method that does not accept the arguments by position; others fail when called."""
    of_method = getattr(function, "__func__", None) if type(function) is MethodType else function
    if type(of_method) is not FunctionType:
        return
    code, count = of_method.__code__, form.count(",") + 1 + (of_method is not function)
    least = code.co_argcount - len(of_method.__defaults__ or ())
    most = count if code.co_flags & CO_VARARGS else code.co_argcount
    if not least <= count <= most or code.co_kwonlyargcount > len(of_method.__kwdefaults__ or ()):
        bare = [parameter.replace(annotation=Parameter.empty) for parameter in signature(function).parameters.values()]
        takes = f"{of_method.__name__}{Signature(bare)}"
        raise PatchError(verb, f"the {role} is called as {role}({form}), and cannot be: it is {takes}")


def _giving(verb: Verb, target: str | Target, arguments: Mapping[str, Any] | None, more: dict[str, Any]) -> Patch:
    """Return a patch that gives arguments to calls; ``more`` also has the options."""
    if arguments is not None and not isinstance(arguments, Mapping):
        raise PatchError(verb, f"the arguments are {a_kind(arguments)}, not a mapping of names to values")
    facts = {name: more.pop(name) for name in Facts.__annotations__ if name in more}
    injected = {**(arguments or {}), **more}
    if not injected:
        raise PatchError(verb, f"no argument to give; write {verb}(target, name=value)")
    for name in injected:
        if not isinstance(name, str):
            raise PatchError(verb, f"an argument's name is {a_kind(name)}, not text")
    return _declare(verb, target, injected, facts, by_mapping=tuple(arguments or ()))


def _declare(verb: Verb, where: str | Target, change: object, facts: Mapping[str, Any], **own: Any) -> Patch:
    """Return a patch; ``own`` are the verb's own options."""
    target = where if isinstance(where, Target) else Target(where)
    if target.of_instances is not None:
        facts = _checked_instances(verb, target, facts)
    elif "of" in facts:
        raise PatchError(verb, f"of= narrows instances, as of m:Class().name, and {target} stands for one slot")
    if "matches" in facts and not target.is_rule:
        raise PatchError(verb, f"matches= is for a rule, and {target} has no '*' and no '+'")
    if "only" in facts and not (target.is_rule or target.of_instances):
        raise PatchError(verb, f"only= is for a rule or for instances, and {target} has no '*', no '+' and no '()'")
    return Patch(verb=verb, target=target, module=target.module, change=change, **_checked(verb, facts), **own)


def _checked_instances(verb: Verb, target: Target, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a patch of instances; refuse an address or an option that instances cannot have."""
    behind = target.steps[target.steps.index(target.of_instances) + 1 :]
    if verb == "edit":
        raise PatchError(
            verb, f"{target} stands for instances, which share the functions of their class; write m:C.name"
        )
    if facts.get("reach", "slot") != "slot":
        raise PatchError(verb, f"reach='everywhere' is for one object, and {target} stands for many")
    if not behind and verb != "derive":
        raise PatchError(
            verb, f"{target} stands for the instances themselves, which derive exchanges; write {target}.name"
        )
    if not behind and facts.get("of") is None:
        raise PatchError(verb, f"{target} exchanges the submodules of a torch model, and needs of= with the model")
    if len(behind) > 1 or not all(isinstance(step, Attribute) for step in behind):
        raise PatchError(verb, f"{target} goes on behind an attribute of the instances; write m:Class().name")
    if not isinstance(of := facts.get("of"), str):
        return facts
    whole = Target(of)
    if whole.is_rule or whole.of_instances or whole.written_out:
        raise PatchError(verb, f"of='{of}' stands for several objects; write the address of a single object")
    return {**facts, "of": whole}


def _checked(verb: Verb, facts: Mapping[str, Any]) -> dict[str, Any]:
    if not facts:
        return {}
    checked = dict(facts)
    if unknown := set(checked) - set(Facts.__annotations__):
        raise PatchError(verb, f"takes no '{min(unknown)}'; it takes {', '.join(Facts.__annotations__)}")
    if checked.get("reach", "slot") not in ("slot", "everywhere"):
        raise PatchError(verb, f"reach={checked['reach']!r} is neither 'slot' nor 'everywhere'")
    for side in ("only_in", "except_in"):
        if side in checked:
            checked[side] = _texts(verb, side, checked[side], "a pattern of modules")
            if checked.get("reach", "slot") == "slot":
                raise PatchError(verb, f"{side}= says where reach='everywhere' goes, and reach is 'slot'")
    for fact in ("why", "upstream", "until"):
        if not isinstance(checked.get(fact), str | None):
            raise PatchError(verb, f"{fact}= is {a_kind(checked[fact])}, not text")
    if not isinstance(checked.get("requires"), str | None):
        checked["requires"] = _texts(verb, "requires", checked["requires"], "a distribution's versions")
    calls = checked.get("required_calls", 0)
    if "callers" in checked:
        checked["callers"] = _texts(verb, "callers", checked["callers"], "a pattern of modules")
        if wrong := next((text for text in checked["callers"] if not _is_caller(text)), None):
            raise PatchError(verb, f"callers={wrong!r} is neither a pattern of modules nor of functions, module:name")
        if verb not in (*CALL_VERBS, "replace"):
            raise PatchError(
                verb, f"takes no callers=: what {verb} does is the same for all callers; wrap the calling function"
            )
    if type(calls) is not int or calls < 0:
        raise PatchError(verb, f"required_calls={calls!r} is not a number of calls")
    if calls and verb in ("remove", "enter", "transform"):
        raise PatchError(verb, "takes no required_calls=: the patch is never called")
    if not isinstance(checks := checked.get("check_signature", True), bool):
        raise PatchError(verb, f"check_signature= is {a_kind(checks)}, not True or False")
    if not checks and not checked.get("why"):
        raise PatchError(verb, "check_signature=False needs why=: what the signature does not tell")
    if "matches" in checked:
        try:
            read_bounds(checked["matches"])
        except ValueError as error:
            raise PatchError(verb, str(error)) from None
    if "only" in checked and not callable(checked["only"]):
        takes = "the original value, or an instance"
        raise PatchError(verb, f"only= is {a_kind(checked['only'])}, not a function that takes {takes}")
    for side in ("before", "after"):
        if side in checked:
            checked[side] = plugin_names(verb, side, checked[side])
    return checked


def _is_caller(text: str) -> bool:
    module, colon, function = text.partition(":")
    return not colon or (bool(module and function) and not set(function) & set(":([{"))


def plugin_names(verb: str, fact: str, value: object) -> tuple[str, ...]:
    """Return the plugin names of an option; raise PatchError for a name with a comma, or not a str."""
    names = _texts(verb, fact, value, "a plugin's name")
    if joined := next((name for name in names if "," in name), None):
        apart = [name.strip() for name in joined.split(",")]
        raise PatchError(verb, f"{fact}= takes a plugin's name or several, not {joined!r}; write {fact}={apart}")
    return names


def _texts(verb: str, fact: str, value: object, expected: str) -> tuple[str, ...]:
    """Return the texts of an option: a text or several."""
    texts = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(text, str) for text in texts):
        raise PatchError(verb, f"{fact}= takes {expected} or several, not {value!r}")
    return texts
