"""Whatever is opened, closed, imported, reloaded and patched by others in whatever order: as the model says."""

from __future__ import annotations

import contextvars
import functools
import gc
import importlib
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Final
from unittest import mock

import pytest
import wrapt
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from model import NOTHING, Attempt, Entry, Foreign, Given, Layer, Locked, Origin, Ours, Place, Refused, Thing

import hookpatch
from hookpatch import Target, _imports, _leftover, _site, _sites, errors

VENDOR: Final = '''
from collections import OrderedDict
from collections.abc import MutableMapping

def function(x=""): return "o" + x

class Base:
    def own(self, x=""): return "o" + x
    @staticmethod
    def static(x=""): return "o" + x
    @classmethod
    def of_class(cls, x=""): return "o" + x
    @property
    def prop(self): return "o"

class Child(Base):
    __slots__ = ("member",)

class Stubborn(type):
    """Its classes refuse, while ``locked``, to have an attribute set or deleted."""
    locked = False
    def __setattr__(cls, name, value):
        if Stubborn.locked: raise RuntimeError(f"{name} is locked")
        super().__setattr__(name, value)
    def __delattr__(cls, name):
        if Stubborn.locked: raise RuntimeError(f"{name} is locked")
        super().__delattr__(name)

class Locked(metaclass=Stubborn):
    def own(self, x=""): return "o" + x

class Kind:
    def __str__(self): return "o"

class Mapping(MutableMapping):
    def __init__(self, **entries): self.entries = entries
    def __getitem__(self, key): return self.entries[key]
    def __setitem__(self, key, value): self.entries[key] = value
    def __delitem__(self, key): del self.entries[key]
    def __iter__(self): return iter(self.entries)
    def __len__(self): return len(self.entries)

def made():
    return lambda x="": "o" + x

child = Child()
child.attribute, child.member = made(), made()
table = {"first": 1, "entry": made(), "last": 2}
ordered = OrderedDict(first=1, entry=made(), last=2)
mapping = Mapping(first=1, entry=made(), last=2)
elements = [1, made(), 2]
c = "o".strip
held = {"first": 1, "c": c}
def default(held=c): return held()
def outer():
    held = c
    return lambda: held()
closure = outer()
kinds = [Kind, 1]

import machine_witness
machine_witness.executed(__name__)
'''
USER: Final = """
from machine_vendor import c as copied, function as alias
registry = {"first": 1, "function": alias}
def default(held=alias): return held()
def outer():
    held = alias
    return lambda: held()
closure = outer()

import machine_witness
machine_witness.executed(__name__)
"""
PLUGIN: Final = """
import hookpatch, machine_witness
@hookpatch.hookimpl
def hookpatch_patches():
    yield from machine_witness.patches["{owner}"]
"""
V, U = "machine_vendor", "machine_user"
CALLS, VALUES = ("wrap", "inject"), ("replace", "derive")

# What is tried on each place: verbs with reach="slot", and those with reach="everywhere". What is left out:
# - remove where others inherit the name, or where there is no removing (a list, a class method);
# - a property and a class are not called but derived and replaced; inject needs an argument, which `c` does not take.
TRIED: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    f"{V}:function": ((*CALLS, *VALUES, "remove"), (*CALLS, *VALUES)),
    f"{V}:Base.own": ((*CALLS, *VALUES), (*CALLS, *VALUES)),
    f"{V}:Child.own": ((*CALLS, *VALUES), ("wrap",)),
    f"{V}:child.own": ((*CALLS, *VALUES), ()),
    f"{V}:Base.static": ((*CALLS, *VALUES), (*CALLS, "derive")),
    f"{V}:Child.static": ((*CALLS, *VALUES), ()),
    f"{V}:Base.of_class": ((*CALLS, *VALUES), (*CALLS,)),
    f"{V}:Child.of_class": ((*CALLS, *VALUES), ()),
    f"{V}:Base.prop": (VALUES, ()),
    f"{V}:child.attribute": ((*CALLS, *VALUES, "remove"), ("wrap",)),
    f"{V}:child.member": ((*CALLS, *VALUES, "remove"), ("wrap",)),
    f"{V}:Locked.own": ((*CALLS, *VALUES), ("wrap",)),
    f"{V}:table['entry']": ((*CALLS, *VALUES, "remove"), ("wrap",)),
    f"{V}:ordered['entry']": ((*CALLS, *VALUES, "remove"), ("wrap",)),
    f"{V}:mapping['entry']": ((*CALLS, *VALUES, "remove"), ("wrap",)),
    f"{V}:elements[1]": ((*CALLS, *VALUES), ("wrap",)),
    f"{V}:added": ((*CALLS, *VALUES, "remove"), ()),
    f"{V}:table['added']": ((*CALLS, *VALUES, "remove"), ()),
    f"{V}:ordered['added']": ((*CALLS, *VALUES, "remove"), ()),
    f"{V}:mapping['added']": ((*CALLS, *VALUES, "remove"), ()),
    f"{V}:c": (("wrap", *VALUES), ("wrap", *VALUES)),
    f"{V}:Kind": (VALUES, VALUES),
    f"{U}:alias": ((*CALLS, *VALUES), (*CALLS, *VALUES)),
    f"{U}:registry['function']": ((*CALLS, *VALUES), ("wrap",)),
    f"{U}:copied": (("wrap", *VALUES), ()),
    f"{V} (enter)": (("enter",), ()),
}
# Where others put something. Left out: entries of mappings are not deleted by others, since theirs would then come
# back at the end; static and class methods, properties, classes.
FOREIGN: Final = ("closure", "lambda", "proxy", "mock", "value", "deleted")
OTHERS: Final[dict[str, tuple[str, ...]]] = {
    f"{V}:function": FOREIGN,
    f"{V}:Base.own": FOREIGN[:-1],
    f"{V}:Child.own": FOREIGN[:-1],
    f"{V}:child.own": FOREIGN[:-1],
    f"{V}:child.attribute": FOREIGN,
    f"{V}:child.member": FOREIGN,
    f"{V}:Locked.own": FOREIGN[:-1],
    f"{V}:table['entry']": ("closure", "lambda", "proxy", "value"),
    f"{V}:ordered['entry']": ("closure", "proxy", "value"),
    f"{V}:mapping['entry']": ("closure", "proxy", "value"),
    f"{V}:elements[1]": ("closure", "proxy", "value"),
    f"{V}:added": ("value", "deleted"),
    f"{U}:alias": FOREIGN,
}
# Places that see each other; and some alone, where all that happens happens.
TOGETHER: Final = (
    (f"{V}:function", f"{U}:alias"),
    (f"{V}:c", f"{U}:copied"),
    (f"{V}:c",),
    (f"{V}:Kind",),
    (f"{V}:Base.own", f"{V}:Child.own", f"{V}:child.own"),
    (f"{V}:Base.static", f"{V}:Child.static"),
    (f"{V}:child.attribute",),
    (f"{V}:Locked.own",),
    (f"{V}:added",),
    (f"{V}:table['entry']", f"{V}:table['added']"),
)
# Whose calls take no argument.
WITHOUT: Final = {f"{V}:c", f"{V}:Kind", f"{V}:Base.prop", f"{U}:copied", "held", "default", "closure", "kinds"} | {
    "user default",
    "user closure",
}
# Attributes of modules are named in words: what is named by the module at hand does not hear of its reload.
OF_MODULES: Final = {f"{V}:function", f"{V}:added", f"{V}:Kind", f"{V}:c", f"{U}:alias", f"{U}:copied", f"{V} (enter)"}
OWNERS: Final = (None, None, None, "outer", "inner", "third")
MISSING: Final = object()


class Spot:
    """A place of the model and the real slot, which is read here without hookpatch."""

    def __init__(self, place: Place, owner: Any, name: Any, call: Callable[[], Any]) -> None:
        self.place: Final = place
        self.owner: Final = owner
        self.name: Final = name
        self._call: Final = call

    @property
    def is_item(self) -> bool:
        return isinstance(self.owner, (Mapping, list))

    def raw(self) -> Any:
        """Return what lies there."""
        if isinstance(self.owner, list):
            return self.owner[self.name]
        if self.is_item:
            return self.owner.get(self.name, MISSING)
        if self.name == "member":
            return getattr(self.owner, self.name, MISSING)
        if self.name == "__defaults__":
            return self.owner.__defaults__[0]
        if self.name == "cell_contents":
            return self.owner.cell_contents
        return vars(self.owner).get(self.name, MISSING)

    def set(self, value: Any) -> None:
        """Put something there, or delete what is there, as anybody does."""
        if self.is_item:
            self.owner[self.name] = value
        elif value is not MISSING:
            setattr(self.owner, self.name, value)
        elif self.raw() is not MISSING:
            delattr(self.owner, self.name)

    def answer(self, x: str) -> str:
        """Return what a call answers."""
        return str(self._call()(x=x) if x else self._call()())

    def target(self) -> Target:
        """Return the target for the owner at hand."""
        return Target.item(self.owner, self.name) if self.is_item else Target.attribute(self.owner, self.name)


class Machine(RuleBasedStateMachine):
    """The rules. All is done twice, really and in the model; ``agrees`` compares after each step."""

    examples = steps = 0  # of all runs
    ended: ClassVar[Counter[str]] = Counter()  # in which states the patches of all runs did

    def __init__(self) -> None:
        super().__init__()
        type(self).examples += 1
        gc.freeze()  # what is there already: looks at all objects would take most of the time
        self.meta_path = list(sys.meta_path)
        self.patches: dict[str, list[hookpatch.Patch]] = {}
        vars(sys.modules["machine_witness"]).update(executed=self.executed, patches=self.patches)
        self.count = 0
        self.spots: list[Spot] = []  # of all modules that ever were, as long as somebody may hold them
        self.now: dict[str, Spot] = {}  # those that an address in words leads to
        self.pending: list[str] = []
        self.rest: dict[int, tuple[Any, dict[str, tuple[Any]]]] = {}  # all that the owners of places have
        self.orders: list[tuple[Any, list[str]]] = []  # mappings, each with its keys
        self.open: list[tuple[hookpatch.Session, list[Attempt]]] = []
        self.closed: list[tuple[hookpatch.Session, list[Attempt]]] = []
        self.attempts: list[Attempt] = []  # that hear of imports, in the order of their watches
        self.foreign: list[tuple[Spot, Callable[[], None]]] = []
        self.entered: Counter[str] = Counter()
        self.is_exit_armed = False
        self.sessions: list[hookpatch.Session] = []
        self.idle = hookpatch.active().open()
        self.warned: Counter[str] = Counter()

    # --- modules

    def executed(self, name: str) -> None:
        """Hear from a module, at the end of its source, that it has been executed."""
        self.arrive()
        module = sys.modules[name]
        reloaded = [spot for spot in self.spots if spot.owner is module]
        keep = {spot.name: spot for spot in reloaded}
        (self._vendor if name == V else self._user)(module, keep)
        self.pending.append(name)
        for owner in {id(spot.owner): spot.owner for spot in self.spots if hasattr(spot.owner, "__dict__")}.values():
            if owner is module or id(owner) not in self.rest:
                self.rest[id(owner)] = owner, {key: (value,) for key, value in vars(owner).items()}

    def _spot(
        self, label: str, owner: Any, name: Any, call: Callable[[], Any], content: Thing | None = None, **more: Any
    ) -> Spot:
        spot = Spot(Place(label, NOTHING, **more), owner, name, call)
        raw = spot.raw()
        if content is None:
            content = NOTHING if raw is MISSING else Origin(raw, takes=label not in (f"{V}:c", f"{V}:Base.prop"))
        spot.place.content = spot.place.original = content
        self.spots.append(spot)
        self.now[label] = spot
        return spot

    def _kept(
        self,
        kept: dict[str, Spot],
        label: str,
        module: ModuleType,
        name: str,
        call: Callable[[], Any],
        content: Any = None,
    ) -> Spot:
        """Return the spot of a module's attribute: the same after a reload, with new content."""
        if name not in kept:
            return self._spot(label, module, name, call, content)
        spot = kept[name]
        if name != "added":  # what the source does not have stays
            spot.place.content = spot.place.original = content or Origin(spot.raw(), takes=name != "c")
        self.now[label] = spot
        return spot

    def _vendor(self, m: Any, kept: dict[str, Spot]) -> None:
        base, child_class, child, locked = m.Base, m.Child, m.child, m.Locked
        self._kept(kept, f"{V}:function", m, "function", lambda: m.function)
        self._kept(kept, f"{V}:added", m, "added", lambda: m.added)
        kind = self._kept(kept, f"{V}:Kind", m, "Kind", lambda: lambda: m.Kind())
        c = self._kept(kept, f"{V}:c", m, "c", lambda: m.c)
        own = self._spot(f"{V}:Base.own", base, "own", lambda: base().own, is_in_class=True)
        static = self._spot(f"{V}:Base.static", base, "static", lambda: base.static, is_in_class=True)
        of_class = self._spot(f"{V}:Base.of_class", base, "of_class", lambda: base.of_class, is_in_class=True)
        self._spot(f"{V}:Base.prop", base, "prop", lambda: lambda: base().prop)
        inherits: dict[str, Any] = {"is_in_class": True}
        child_own = self._spot(
            f"{V}:Child.own", child_class, "own", lambda: child_class().own, parent=own.place, **inherits
        )
        self._spot(
            f"{V}:Child.static", child_class, "static", lambda: child_class.static, parent=static.place, **inherits
        )
        self._spot(
            f"{V}:Child.of_class",
            child_class,
            "of_class",
            lambda: child_class.of_class,
            parent=of_class.place,
            **inherits,
        )
        self._spot(f"{V}:child.own", child, "own", lambda: child.own, parent=child_own.place)
        self._spot(f"{V}:child.attribute", child, "attribute", lambda: child.attribute)
        self._spot(f"{V}:child.member", child, "member", lambda: child.member)
        self._spot(f"{V}:Locked.own", locked, "own", lambda: locked().own, is_in_class=True, is_stubborn=True)
        for name in ("table", "ordered", "mapping"):
            mapping = vars(m)[name]
            self.orders.append((mapping, list(mapping)))
            for key in ("entry", "added"):
                self._spot(f"{V}:{name}[{key!r}]", mapping, key, functools.partial(mapping.__getitem__, key))
        elements, held, default, cell, kinds = m.elements, m.held, m.default, m.closure.__closure__[0], m.kinds
        self._spot(f"{V}:elements[1]", elements, 1, lambda: elements[1])
        thing = c.place.content
        self._spot("held", held, "c", lambda: held["c"], thing)
        self._spot("default", default, "__defaults__", lambda: default, thing)
        self._spot("closure", cell, "cell_contents", lambda: cell.cell_contents, thing)
        self._spot("kinds", kinds, 0, lambda: lambda: kinds[0](), kind.place.content)

    def _user(self, m: Any, kept: dict[str, Spot]) -> None:
        alias, copied = self.now[f"{V}:function"].place.content, self.now[f"{V}:c"].place.content
        registry, default, closure = m.registry, m.default, m.closure
        self._kept(kept, f"{U}:alias", m, "alias", lambda: m.alias, alias)
        self._kept(kept, f"{U}:copied", m, "copied", lambda: m.copied, copied)
        self._spot(f"{U}:registry['function']", registry, "function", lambda: registry["function"], alias)
        self._spot("user default", default, "__defaults__", lambda: default, alias)
        self._spot("user closure", closure.__closure__[0], "cell_contents", lambda: closure, alias)

    def arrive(self) -> None:
        """Apply in the model what waited for the modules that have been executed just now."""
        while self.pending:
            name = self.pending.pop(0)
            for spot in self.spots:
                if spot.owner is sys.modules[name]:
                    spot.place.refresh()
            for attempt in [one for one in self.attempts if one.module == name]:
                try:
                    self._apply(attempt)
                except Refused:
                    attempt.entry().state = "failed"
                    self.warned["PatchFailedWarning"] += 1

    def _is_there(self, name: str | None) -> bool:
        return name is None or name in sys.modules

    # --- our sessions, in the model

    def _check(self, attempt: Attempt) -> None:
        """Say what is refused before anything is applied."""
        if attempt.verb == "enter" or not self._is_there(attempt.module):
            return
        place = self.now[attempt.label].place
        if attempt.verb != "replace" and not place.layers and place.found() is NOTHING:
            raise Refused

    def _apply(self, attempt: Attempt) -> None:
        if attempt.verb == "enter":
            if not attempt.is_inside:
                attempt.entry().state = "applied"
                attempt.is_inside = True
            return
        self._check(attempt)
        place = self.now[attempt.label].place
        for number, at in enumerate(self._places(attempt, place)):
            if any(other is at for other, _ in attempt.laid):
                at.refresh()
                continue
            layer = Layer(attempt)
            try:
                at.add(layer)
            except Refused:
                if number == 0:
                    raise
                continue
            layer.entry = attempt.entry()
            layer.entry.state = "applied"
            attempt.laid.append((at, layer))

    def _places(self, attempt: Attempt, place: Place) -> list[Place]:
        if attempt.reach == "slot":
            return [place]
        thing = place.beneath()
        assert isinstance(thing, Origin)  # see _can
        if attempt.label not in (f"{V}:c", f"{V}:Kind"):
            return [thing.inside]
        others = [spot.place for spot in self.spots if spot.place is not place]
        return [place, *(other for other in others if (other.base if other.layers else other.content) is thing)]

    def _end(self, attempt: Attempt, failures: list[Exception]) -> None:
        if attempt in self.attempts:
            self.attempts.remove(attempt)
        if attempt.entries[-1].state == "waiting":
            attempt.entries[-1].state = "unused"
        if attempt.is_inside:
            attempt.is_inside = False
            attempt.entries[-1].state = "failed" if self.is_exit_armed else "restored"
            if self.is_exit_armed:
                failures.append(RuntimeError())
        for derived in attempt.derived.values():
            derived.note = ()  # it holds the original: as long as we hold it, reach="everywhere" goes there
        stood = [(place, place.held) for place, _ in attempt.laid]
        for place, layer in reversed(attempt.laid):
            try:
                place.drop(layer)
            except Locked as error:
                failures.append(error)
        if attempt.reach == "everywhere" and attempt.label in (f"{V}:c", f"{V}:Kind"):
            self._call_back(attempt, {held: place.base for place, held in stood if not place.layers})

    def _call_back(self, attempt: Attempt, originals: dict[Thing, Thing]) -> None:
        """Give the original to a module that was executed meanwhile and copied what stood there.

        A given value is left to a module that was there before: it may be its own.
        """
        spot = self.now.get(f"{U}:copied")
        if spot is None or not self._is_there(U) or spot.place.layers:
            return
        place = spot.place
        is_copied = isinstance(place.content, Ours) or U not in attempt.came_before
        if is_copied and place.content in originals:
            place.content = place.original = originals[place.content]

    # --- rules

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Take a few places, so that sessions meet."""
        some = st.sets(st.sampled_from(sorted(TRIED)), min_size=1, max_size=6)
        labels = data.draw(st.sampled_from(TOGETHER) | some, "places")
        self.labels = sorted(labels)
        for name in data.draw(st.sampled_from([(V, U), (V,), (V, U), ()]), "modules"):
            importlib.import_module(name)
        self.arrive()

    def _drawn(self, patch: tuple[str, str, str], owner: str | None, in_words: bool) -> Attempt:
        label, verb, reach = patch
        self.count += 1
        if not self._is_there(_module(label)) or label in OF_MODULES:
            in_words = True
        if label.startswith(U) and reach == "everywhere":
            in_words = False
        return Attempt(label, verb, reach, owner, in_words, f"t{self.count}")

    def _can(self, attempt: Attempt) -> bool:
        """Tell whether the model knows what the patch is to do.

        Left out: reach="everywhere" where not an original but something of somebody else's or a copied name of ours
        lies beneath: it would be changed inside, and has no model. A remove where somebody's value is: theirs could
        not be told from the original any more. Targets in a module that was dropped from sys.modules, by hand.
        """
        if attempt.verb == "enter" or not self._is_there(_module(attempt.label)):
            return attempt.in_words
        spot = self.now[attempt.label]
        if attempt.verb == "remove" and spot.place.is_changed_by_others():
            return False
        return attempt.reach == "slot" or isinstance(spot.place.beneath(), Origin)

    def _patch(self, attempt: Attempt) -> hookpatch.Patch:
        tag, label = attempt.tag, attempt.label
        if attempt.verb == "enter":
            return hookpatch.enter(V, lambda module: self._entering(tag), why=tag)
        target: Any = label if attempt.in_words else self.now[label].target()
        facts: dict[str, Any] = {"reach": attempt.reach, "why": tag}
        if attempt.owner == "outer":
            facts["before"] = "machine-inner"
        if attempt.verb == "wrap":
            return hookpatch.wrap(target, lambda w, i, a, k: f"{tag}({w(*a, **k)})", **facts)
        if attempt.verb == "inject":
            return hookpatch.inject(target, {"x": tag}, **facts)
        if attempt.verb == "remove":
            return hookpatch.remove(target, **facts)
        if attempt.verb == "derive":
            return hookpatch.derive(target, functools.partial(_derived, tag), **facts)
        value = _given(tag, label)
        attempt.value = Given(tag, value)
        return hookpatch.replace(target, value, **facts)

    @contextmanager
    def _entering(self, tag: str) -> Iterator[None]:
        self.entered[tag] += 1
        try:
            yield
        finally:
            self.entered[tag] -= 1
            if self.is_exit_armed:
                raise RuntimeError("the exit")

    @rule(data=st.data(), task=st.integers(0, 3))
    def open_session(self, data: st.DataObject, task: int) -> None:
        """Open a session of up to four patches, some of plugins, for all or for this task."""
        tried = [st.sampled_from(_tried(label)) for label in self.labels]
        plans = st.lists(st.tuples(st.one_of(tried), st.sampled_from(OWNERS), st.booleans()), min_size=1, max_size=4)
        drawn = [self._drawn(*one) for one in data.draw(plans, "patches")]
        scope: Any = "process"
        if task == 0:
            drawn = [attempt for attempt in drawn if attempt.verb in CALLS]
            scope = "task"
        for attempt in drawn:
            attempt.module = _module(attempt.label) if attempt.in_words else None
            attempt.is_for_task = scope == "task"
            attempt.came_before = frozenset(sys.modules)
        drawn = [attempt for attempt in drawn if self._can(attempt)]
        if not drawn:
            return
        owners = list(dict.fromkeys(attempt.owner for attempt in drawn))
        plan = [attempt for owner in owners for attempt in drawn if attempt.owner == owner]
        patches = {attempt.tag: self._patch(attempt) for attempt in plan}
        what: list[Any] = []
        for owner in owners:
            of_owner = [patches[attempt.tag] for attempt in plan if attempt.owner == owner]
            what += [f"machine-{owner}"] if owner else of_owner
            if owner:
                self.patches[owner] = of_owner
        session = hookpatch.active(*what, scope=scope)
        self.sessions.append(session)
        self.count += 1
        try:
            self._open_in_model(plan)
        except Refused:
            with self._telling(), pytest.raises(errors.ApplyError):
                session.open()
            self.sessions.remove(session)
            self.ended["refused"] += 1
            self.closed.append((session, plan))
        else:
            with self._telling():
                session.open()
            self.open.append((session, plan))

    def _open_in_model(self, plan: list[Attempt]) -> None:
        begun: list[Attempt] = []
        for place, attempt in enumerate(plan):
            attempt.rank = (self.count, -place)
            attempt.entries = [Entry()]
        try:
            for attempt in plan if len(plan) > 1 or plan[0].is_for_task else ():
                self._check(attempt)  # all before any is applied
            for attempt in plan:
                begun.append(attempt)
                if attempt.module is not None:
                    self.attempts.append(attempt)
                if self._is_there(attempt.module):
                    try:
                        self._apply(attempt)
                    except Refused:
                        attempt.entries[-1].state = "failed"
                        raise
        except Refused:
            failures: list[Exception] = []
            for attempt in reversed(begun):
                self._end(attempt, failures)
            raise

    @precondition(lambda self: self.open)
    @rule(data=st.data(), lock=st.integers(0, 2), arm=st.integers(0, 4))
    def close_session(self, data: st.DataObject, lock: int, arm: int) -> None:
        """Close any open session; perhaps an owner refuses to be set meanwhile, or an exit raises."""
        at = data.draw(st.integers(0, len(self.open) - 1), "which")
        self._close(at, lock == 0, arm == 0)

    def _close(self, at: int, lock: bool = False, arm: bool = False) -> None:
        session, plan = self.open.pop(at)
        self.closed.append((session, plan))
        stubborn = [spot for spot in self.spots if spot.place.is_stubborn]
        failures: list[Exception] = []
        self.is_exit_armed = arm
        for spot in stubborn:
            spot.place.is_locked = type(spot.owner).locked = lock
        for attempt in reversed(plan):
            self._end(attempt, failures)
        with self._telling():
            if failures:
                with pytest.raises(errors.RestoreError) as caught:
                    session.close()
                assert len(caught.value.exceptions) == len(failures)
            else:
                session.close()
        self.sessions.remove(session)
        self.ended.update(entry.state for attempt in plan for entry in attempt.entries)
        self.is_exit_armed = False
        for spot in stubborn:
            spot.place.is_locked = type(spot.owner).locked = False

    @rule(name=st.sampled_from([V, U]), what=st.sampled_from(["import", "reload", "drop"]))
    def execute_module(self, name: str, what: str) -> None:
        """Import a module, reload it, or drop it from sys.modules."""
        # A reload throws away what others put into the module; what they would put back later is of the old one.
        if what == "drop":
            sys.modules.pop(name, None)
            return
        module = sys.modules.get(name)
        if what == "reload" and any(spot.owner is module for spot, _ in self.foreign):
            return
        # Left out: a reload of a module that reach="everywhere" has gone to copies what stands in the vendor's now.
        copied = self.now.get(f"{U}:copied")
        if (
            name == U
            and copied is not None
            and any(layer.attempt.label != f"{U}:copied" for layer in copied.place.layers)
        ):
            return
        # What the user imports must be there.
        removes: bool = any(
            one.label == f"{V}:function" and one.verb == "remove" for _, plan in self.open for one in plan
        )
        function = self.now.get(f"{V}:function")
        if name == U and (removes or (function is not None and self._is_there(V) and function.raw() is MISSING)):
            return
        with self._telling():
            if what == "import":
                importlib.import_module(name)
            elif name in sys.modules:
                importlib.reload(sys.modules[name])
            self.arrive()

    @rule(data=st.data())
    def put_foreign(self, data: st.DataObject) -> None:
        """Somebody else patches a place of their own accord."""
        labels = [label for label in self.labels if label in OTHERS and label in self.now]
        if not labels:
            return
        label = data.draw(st.sampled_from(labels), "place")
        how = data.draw(st.sampled_from(OTHERS[label]), "how")
        spot = self.now[label]
        raw, place = spot.raw(), spot.place
        verbs = {layer.verb for layer in place.layers}
        # Left out: over a name or key that we removed, they would in the end remove it themselves.
        if "remove" in verbs or (raw is MISSING and how == "deleted") or (place.found() is NOTHING and how != "value"):
            return
        # Left out: what a proxy of theirs hands out through a subclass is another one, made at that moment, which keeps
        # what we gave for good.
        found = place.found()
        if raw is MISSING and isinstance(found, Foreign) and found.is_proxy and how in ("closure", "lambda", "proxy"):
            return
        self.count += 1
        tag = f"F{self.count}"
        saved = raw if raw is not MISSING or how in ("value", "mock") else getattr(spot.owner, spot.name)
        off = functools.partial(spot.set, raw)
        if how == "mock":
            new: Any = _given(tag, label)
            patcher = mock.patch.object(spot.owner, spot.name, new)
            patcher.start()
            off = patcher.stop
        else:
            new = MISSING if how == "deleted" else _FOREIGN[how](tag, saved)
            spot.set(new)
        thing: Thing = NOTHING if how == "deleted" else Given(tag, new)
        if how in ("closure", "lambda", "proxy"):
            thing = Foreign(tag, place.found(), is_proxy=how == "proxy")
            thing.note = (new,)
        place.put_foreign(thing)
        self.foreign.append((spot, off))

    @precondition(lambda self: self.foreign)
    @rule(data=st.data())
    def take_off_foreign(self, data: st.DataObject) -> None:
        """Somebody else puts back what he had found; on each place the last one first."""
        at = data.draw(st.integers(0, len(self.foreign) - 1), "which")
        self._take_off(at)

    def _take_off(self, at: int) -> None:
        spot = self.foreign[at][0]
        last = max(place for place, (other, _) in enumerate(self.foreign) if other is spot)
        _, off = self.foreign.pop(last)
        off()
        spot.place.take_off_foreign()

    @precondition(lambda self: self.orders)
    @rule(data=st.data())
    def add_key(self, data: st.DataObject) -> None:
        """Somebody adds a key to a mapping."""
        mapping, order = self.orders[data.draw(st.integers(0, len(self.orders) - 1), "mapping")]
        self.count += 1
        mapping[f"k{self.count}"] = self.count
        order.append(f"k{self.count}")

    @rule(which=st.integers(0, 20))
    def look(self, which: int) -> None:
        """Collect garbage; make the report now and then, which looks at all objects."""
        gc.collect()
        if which == 0:
            hookpatch.report()

    # --- what must hold

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Compare the warnings of a step with the model's."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        expected = self.warned + sum((spot.place.warned for spot in self.spots), Counter())
        said = Counter(warning.category.__name__ for warning in caught)
        assert said == expected, [str(warning.message) for warning in caught]
        self.warned.clear()
        for spot in self.spots:
            spot.place.warned.clear()

    @invariant()
    def agrees(self) -> None:
        """Each place holds what the model says, a call answers it, and so does the report."""
        type(self).steps += 1
        self.idle.report()  # any look gives back what can be given back
        for spot in self.spots:
            spot.place.settle()
        for spot in self.spots:
            self._compare(spot)
        for mapping, order in self.orders:
            self._compare_order(mapping, order)
        # Those that derived from what others copy hold the original: they are looked at once, and not kept.
        self.closed = [one for one in self.closed if one is self.closed[-1]]
        for session, plan in (*self.open, *self.closed):
            said: dict[str | None, list[str]] = {}
            for entry in session._ledger.entries:  # not report(), which looks at all objects: see `look`
                said.setdefault(entry.asked.patch.why, []).append(entry.state)
            for attempt in plan:
                assert sorted(said[attempt.tag]) == sorted(entry.state for entry in attempt.entries), (
                    attempt.label,
                    attempt.verb,
                    attempt.reach,
                    [(e.state, e.place) for e in session._ledger.entries if e.asked.patch.why == attempt.tag],
                    [place.label for place, _ in attempt.laid],
                )
        if any(attempt.verb == "derive" for _, plan in self.closed for attempt in plan):
            self.closed.clear()
        for _, plan in self.open:
            for attempt in plan:
                assert self.entered[attempt.tag] == attempt.is_inside

    def _compare(self, spot: Spot) -> None:
        raw, thing = spot.raw(), spot.place.content
        if thing is NOTHING:
            assert raw is MISSING, spot.place.label
        elif thing.note:
            assert raw is thing.note[0], (spot.place.label, raw)
        else:
            assert raw is not MISSING, spot.place.label
            assert not any(raw is one for one in (*spot.place.base.note, *spot.place.original.note)), spot.place.label
            thing.note = (raw,)
        found = spot.place.found()
        if found is not NOTHING:
            x = "" if spot.place.label in WITHOUT else "-"
            assert spot.answer(x) == found.answer(x, here=True), (
                spot.place.label,
                spot.answer(x),
                found.answer(x, here=True),
            )
            neighbour = contextvars.Context()
            assert neighbour.run(spot.answer, x) == found.answer(x, here=False), spot.place.label

    def _compare_order(self, mapping: Any, order: list[str]) -> None:
        """Compare the keys of a mapping: each where it was; one that we added behind all, and there to our end."""
        (added,) = (spot for spot in self.spots if spot.owner is mapping and spot.name == "added")
        if "added" in mapping and "added" not in order:
            order.append("added")
        if not added.place.layers and "added" in order:
            order.remove("added")
        assert list(mapping) == [key for key in order if key in mapping]

    def teardown(self) -> None:
        """Close what is open, take off what others put on: then all is as before, and nothing is kept."""
        try:
            self._teardown()  # by itself: its local variables would keep something alive
            waiting = -1
            while waiting != (waiting := len(_site.leftovers())):  # what a look lets go may have kept something else
                gc.collect()
                assert list(hookpatch.report()) == []
                gc.collect()
            assert [*_leftover.leftovers(), *_leftover._unborne, *_site.covered] == []
        finally:
            for left in (_leftover._waiting, _leftover._unborne, _site.covered):
                left.clear()  # a failure is this example's alone

    def _teardown(self) -> None:
        try:
            while self.open:
                self._close(0)
                self.agrees()
            while self.foreign:
                self._take_off(len(self.foreign) - 1)
                self.agrees()
            for spot in self.spots:
                if not spot.place.is_spoilt:
                    assert spot.place.content is spot.place.original, spot.place.label
            for owner, before in self.rest.values():
                ours = {spot.name for spot in self.spots if spot.owner is owner}  # compared by `agrees`
                assert vars(owner).keys() - ours == before.keys() - ours
                assert all(vars(owner)[key] is value for key, (value,) in before.items() if key not in ours)
            assert sys.meta_path == self.meta_path
            assert _imports.watched() == []
            assert _sites.patched() == []
        finally:
            self.is_exit_armed = False
            for spot in self.spots:
                if spot.place.is_stubborn:
                    type(spot.owner).locked = False
            for session in (*self.sessions, self.idle):  # those that a failure left open
                with warnings.catch_warnings(), suppress(errors.RestoreError):
                    warnings.simplefilter("ignore")
                    session.close()
            for name in (V, U):
                sys.modules.pop(name, None)
            vars(sys.modules["machine_witness"]).update(executed=None, patches={})
            vars(self).clear()


def _tried(label: str) -> list[tuple[str, str, str]]:
    slot, everywhere = TRIED[label]
    return [*((label, verb, "slot") for verb in slot), *((label, verb, "everywhere") for verb in everywhere)]


def _module(label: str) -> str:
    """Return the module of a label."""
    return label.replace(" ", ":").partition(":")[0]


def _wrapped(tag: str, saved: Any) -> Any:
    @functools.wraps(saved)
    def closure(*args: Any, **kwargs: Any) -> str:
        return f"{tag}<{saved(*args, **kwargs)}>"

    return closure


def _lambda(tag: str, saved: Any) -> Any:
    return lambda *args, **kwargs: f"{tag}<{saved(*args, **kwargs)}>"


def _proxy(tag: str, saved: Any) -> Any:
    return wrapt.FunctionWrapper(saved, lambda w, i, a, k: f"{tag}<{w(*a, **k)}>")


_FOREIGN: Final[dict[str, Callable[[str, Any], Any]]] = {
    "closure": _wrapped,
    "lambda": _lambda,
    "proxy": _proxy,
    "value": lambda tag, saved: _given(tag, "Base.static" if isinstance(saved, staticmethod) else ""),
}


def _given(tag: str, label: str) -> Any:
    """Return a new object that answers with a tag, for a place."""
    if label == f"{V}:Base.prop":
        return property(lambda self: tag)
    if label == f"{V}:Kind":
        return type("Given", (), {"__str__": lambda self: tag})

    def given(*args: Any, **kwargs: Any) -> str:
        return tag

    if label.endswith(".of_class"):
        return classmethod(given)
    return staticmethod(given) if label.endswith(".static") else given


def _derived(tag: str, below: Any) -> Any:
    """Return what a derive makes of an object, of its kind."""
    if isinstance(below, type):

        class Kind(below):  # type: ignore[misc]  # mypy has no name for it
            def __str__(self) -> str:
                return f"{tag}[{super().__str__()}]"

        return Kind
    if isinstance(below, property):
        return property(lambda self: f"{tag}[{below.fget(self)}]")
    if isinstance(below, (staticmethod, classmethod)):
        return type(below)(_derived(tag, below.__func__))
    return lambda *args, **kwargs: f"{tag}[{below(*args, **kwargs)}]"


SETTINGS: Final = settings(
    max_examples=int(os.environ.get("MACHINE_EXAMPLES", "500")),  # fewer on the other Pythons
    stateful_step_count=25,
    deadline=None,
    database=None,
    derandomize=True,  # `make soak` tries others, for as long as one likes
    print_blob=True,  # to be put over Machine
    report_multiple_bugs=False,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def world(folder: Path) -> Iterator[None]:
    """Write the modules, and three plugins with their distributions, to a folder on sys.path; hear from them."""
    (folder / f"{V}.py").write_text(VENDOR)
    (folder / f"{U}.py").write_text(USER)
    for owner in ("outer", "inner", "third"):
        (folder / f"machine_{owner}.py").write_text(PLUGIN.format(owner=owner))
        info = folder / f"machine_{owner}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: machine-{owner}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[hookpatch]\nmachine-{owner} = machine_{owner}\n")
    importlib.invalidate_caches()
    sys.modules["machine_witness"] = ModuleType("machine_witness")
    gc.collect()
    try:
        yield
    finally:
        del sys.modules["machine_witness"]
        gc.unfreeze()  # what each example had the collector leave out


def test_any_order_and_any_interference(folder: Path) -> None:
    """After each step all places are as the model says, and at the end as before."""
    with world(folder):
        run_state_machine_as_test(Machine, settings=SETTINGS)
