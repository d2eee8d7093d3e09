"""Find the slots matched by the address of a rule: walk from a module along the steps, through ``vars`` alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.describe import PLAIN, describe
from hookpatch._engine.patch.rule import stars
from hookpatch._engine.patch.steps import EachItem, Instances, NameGlob, Subclasses
from hookpatch._engine.patch.target import Attribute, Item, Step, Target
from hookpatch._engine.rules.entries import assigned_names, item_of, keys_of, own_names, submodules, value_without_code
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.lazy import is_lazy
from hookpatch._engine.slots.originals import is_patched, own_beneath
from hookpatch._engine.slots.resolve import MISSING, follow
from hookpatch._engine.slots.slot import ABSENT, Slot, along_mro, inner, mro
from hookpatch.errors import ApplyError

ALIAS: Final = "is defined in"
INHERITED: Final = "is inherited"
NOT_THERE: Final = "is not there"
ADDED: Final = "is added by a patch"


class Match(NamedTuple):
    """A slot matched by a rule, or a near miss.

    Attributes:
        target: the slot's own address; of instances, if the rule has ``()``.
        module: the module of the address; None for an object without an address. Kept, because Python takes a module
            out of ``sys.modules`` for a moment at the end of the module's import.
        key: the identity of the slot.
        original: the own value of the slot's owner without our layers; the class, if the rule has ``()``.
        texts: the match of each ``*`` of the rule: a text, and the step of the entry for ``[*]``.
        problem: why the slot is a near miss: all parts of the rule match except one; empty for a match.
    """

    target: Target
    module: ModuleType | None
    key: tuple[Any, ...]
    original: Any
    texts: tuple[Any, ...]
    problem: str = ""


class _Way(NamedTuple):
    """A way from a module, or from a class given itself, to an object."""

    module: str | None
    start: Any  # the module, or the class
    steps: tuple[Step, ...]
    texts: tuple[Any, ...]

    def match(self, key: tuple[Any, ...], original: Any, problem: str = "") -> Match:
        """Return the match at the end of the way."""
        module = None if self.module is None else self.start
        return Match(self.target, module, key, original, self.texts, problem)

    def extended(self, *steps: Step, text: Any = ABSENT) -> _Way:
        """Return the way with more steps."""
        texts = self.texts if text is ABSENT else (*self.texts, text)
        return self._replace(steps=(*self.steps, *steps), texts=texts)

    @property
    def target(self) -> Target:
        """The address of the object."""
        return Target.of_steps(self.module, self.start if self.module is None else None, self.steps)


def modules_of(rule: Target) -> list[tuple[str, ModuleType]]:
    """Return the imported modules matched by the module part of a rule, half imported or not."""
    if rule.module is None:
        return []
    if "*" not in rule.module:
        module = imports.module_named(rule.module)
        return [] if module is None else [(rule.module, module)]
    return [pair for pair in imports.matching(rule.module) if not pair[0].endswith("__")]


def matches_in(rule: Target, name: str, module: ModuleType, add: bool = False) -> Iterator[Match]:
    """Yield the slots of a module matched by a rule, and the near misses: slots with all parts matching except one.

    An entry that inherits from a matched class is a near miss: a call would run the patch twice.

    Args:
        rule: the address.
        name: the name of the module.
        module: the module.
        add: True if the last name may be absent.
    """
    pattern = rule.module or ""
    walk = _Walk(pattern, add)
    found = [*walk.along(module, _Way(name, module, (), tuple(stars(pattern, name))), rule.steps)]
    keys = {match.key for match in found if not match.problem}
    for match in found:
        yield match._replace(problem=INHERITED) if walk.inherited.get(match.key) in keys else match


def addresses_of(rule: Target) -> list[str]:
    """Return the addresses of the slots matched by a rule, or named in braces, in fully imported modules."""
    if rule.written_out:
        return [address for named in rule.written_out for address in addresses_of(Target(named.address))]
    modules = [(name, module) for name, module in modules_of(rule) if imports.loaded(name) is module]
    matches = [match for name, module in modules for match in matches_in(rule, name, module) if not match.problem]
    return [*dict.fromkeys(str(match.target) for match in matches)]


def subclasses(base: type) -> list[type]:
    """Return a class and all living subclasses, each once, and a class before the class's own subclasses."""
    family: list[type] = [base]
    members = {base}
    for cls in family:  # grows
        below: list[type] = type.__subclasses__(cls)
        new = [subclass for subclass in below if subclass not in members]
        family += new
        members.update(new)
    return family


def bases_of(rule: Target, name: str, module: ModuleType) -> list[type]:
    """Return the classes of a module with ``+`` in a rule: the subclasses may be anywhere."""
    index = next((index for index, step in enumerate(rule.steps) if isinstance(step, Subclasses)), None)
    if index is None:
        return []
    walk = _Walk(rule.module or "", add=False)
    return [
        match.original
        for match in walk.along(module, _Way(name, module, (), ()), (*rule.steps[:index], Instances()))
        if not match.problem
    ]


class _Walk:
    """A walk along the steps of a rule. Lives for one look at one module."""

    def __init__(self, pattern: str, add: bool) -> None:
        self._pattern: Final = pattern
        self._add: Final = add
        self._assigned: Final[dict[int, frozenset[str]]] = {}  # by the id of a module
        self.inherited: Final[dict[tuple[Any, ...], tuple[Any, ...]]] = {}  # the key of a slot to that of its class

    def along(self, holder: Any, way: _Way, steps: Sequence[Step]) -> Iterator[Match]:
        """Yield the matches to which the steps lead from an object."""
        step, *next_steps = steps
        if isinstance(step, Instances):
            if isinstance(holder, type):
                yield way.extended(step, *next_steps).match(("instances", id(holder), *map(str, steps)), holder)
        elif isinstance(step, Subclasses):
            yield from self._below(holder, way, next_steps)
        elif isinstance(step, NameGlob):
            yield from self._names(holder, way, step, next_steps)
        elif isinstance(step, EachItem):
            if (modules := submodules(holder)) is not None:
                holder, way = modules, way.extended(Attribute("_modules"))
            for key in keys_of(holder):
                yield from self._on(ItemSlot(holder, key), way.extended(item := item_of(key), text=item), next_steps)
        elif next_steps:
            value = _value(holder, way.extended(step))
            if value is not MISSING:
                yield from self.along(value, way.extended(step), next_steps)
        else:
            yield from self._last(holder, way.extended(step), step)

    def _on(self, slot: Slot, way: _Way, next_steps: Sequence[Step]) -> Iterator[Match]:
        """Yield a slot matched by a pattern, or the matches along the further steps."""
        own = own_beneath(slot)
        if own is not ABSENT and next_steps:
            yield from self.along(own, way, next_steps)
        elif own is not ABSENT or is_patched(slot):
            yield way.match(slot.key, own, ADDED if own is ABSENT else "")

    def _names(self, holder: Any, way: _Way, step: NameGlob, next_steps: Sequence[Step]) -> Iterator[Match]:
        for name in [name for name in own_names(holder) if step.matches(name)]:
            slot = AttributeSlot(holder, name)
            way_to_name = way.extended(Attribute(name))._replace(texts=(*way.texts, *stars(step.pattern, name)))
            own = own_beneath(slot)
            home = self._other_home(holder, way, own, name)
            if home is None:
                yield from self._on(slot, way_to_name, next_steps)
            elif home and not next_steps:
                yield way_to_name.match(slot.key, own, f"{ALIAS} {home}")

    def _other_home(self, holder: Any, way: _Way, own: Any, name: str) -> str | None:
        """Return the other module that defines a value, an empty text for an imported module, else None.

        A value that a package imports from an inner module counts as the package's own value, unless the rule matches
        the inner module, too. So does a function of C that the module's code assigns, as torch.nn.functional does.
        """
        if not isinstance(holder, ModuleType):
            return None
        if isinstance(own, ModuleType) or is_lazy(own):
            return ""
        home, module = _home(inner(own)), way.module or ""
        if home in (None, module):
            return None
        is_inside = f"{home}.".startswith(f"{module}.")
        is_once = not imports.matches(self._pattern, home or "")
        is_own = is_once and (is_inside or (type(own) is BuiltinFunctionType and name in self._assigned_in(holder)))
        return None if is_own else home

    def _assigned_in(self, module: ModuleType) -> frozenset[str]:
        if id(module) not in self._assigned:
            self._assigned[id(module)] = assigned_names(module)
        return self._assigned[id(module)]

    def _below(self, holder: Any, way: _Way, next_steps: Sequence[Step]) -> Iterator[Match]:
        """Yield the matches of the further steps from a class, and from each subclass that has the next name itself."""
        step = next_steps[0]
        family: list[type] = subclasses(holder) if isinstance(holder, type) else []
        for cls in family:
            if isinstance(step, Attribute) and own_beneath(AttributeSlot(cls, step.name)) is ABSENT:
                continue
            yield from self.along(cls, way if cls is holder else _way_to(cls, way.texts), next_steps)

    def _last(self, holder: Any, way: _Way, step: Attribute | Item) -> Iterator[Match]:
        slot: Slot
        if isinstance(step, Attribute):
            slot = AttributeSlot(holder, step.name)
            own = own_beneath(slot)
        else:
            key = _value_of_key(step)
            is_there = key is not MISSING and key in keys_of(holder)
            slot, own = ItemSlot(holder, key), own_beneath(ItemSlot(holder, key)) if is_there else ABSENT
        if own is not ABSENT or (self._add and isinstance(holder, (ModuleType, type))):
            yield way.match(slot.key, own)
            return
        name = getattr(step, "name", "")
        if _is_of_entry(holder, way) and along_mro(type(holder), name) is not ABSENT:
            slots = [AttributeSlot(cls, name) for cls in mro(type(holder))]
            self.inherited[slot.key] = next(of_class.key for of_class in slots if own_beneath(of_class) is not ABSENT)
            yield way.match(slot.key, ABSENT)
            return
        is_inherited = isinstance(holder, type) and along_mro(holder, name) is not ABSENT
        yield way.match(slot.key, ABSENT, INHERITED if is_inherited else NOT_THERE)


def _is_of_entry(holder: Any, way: _Way) -> bool:
    """Return True for an attribute of an entry that is an instance: of its class, too, as ``m:table[3].run``."""
    return not isinstance(holder, (ModuleType, type)) and isinstance([None, *way.steps][-2], Item)


def _way_to(cls: type, texts: tuple[Any, ...]) -> _Way:
    """Return the way to a class: from the class's module, if the names lead to the class, else the class itself."""
    name, path = describe(cls).split(":", 1)
    owner: Any = (module := imports.module_named(name))
    for part in path.split("."):
        owner = vars(owner).get(part) if isinstance(owner, (ModuleType, type)) else None
    if owner is cls:
        return _Way(name, module, tuple(map(Attribute, path.split("."))), texts)
    return _Way(None, cls, (), texts)


def is_nameable(target: Target) -> bool:
    """Return True if an address leads to the same slot in another process, too."""
    keys = [step.key for step in target.steps if isinstance(step, Item)]
    return target.module is not None and all(isinstance(key, (Target, *PLAIN, tuple)) for key in keys)


def _value_of_key(step: Item) -> Any:
    if not isinstance(step.key, Target):
        return step.key
    module = imports.module_named(str(step.key.module))
    way = _Way(step.key.module, module, (), ())
    value: Any = MISSING if module is None else module
    for part in step.key.steps:
        value = MISSING if value is MISSING else _value(value, way := way.extended(part))
    return value


def _value(holder: Any, way: _Way) -> Any:
    """Return the value at the last step of a way, without our layers; MISSING if the step leads nowhere."""
    try:
        return follow(holder, way.target, len(way.steps) - 1, "a rule", value_without_code)
    except ApplyError:
        return MISSING


def _home(value: Any) -> str | None:
    """Return the name of the module that defines a value, as named by the value; None without a name."""
    if issubclass(type(value), type):
        home = vars(type)["__module__"].__get__(value)
    elif type(value) in (FunctionType, BuiltinFunctionType):
        home = value.__module__
    else:
        home = AttributeSlot(value, "__module__").read()
    return home if isinstance(home, str) else None
