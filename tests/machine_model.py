"""The state machine's model: the slots of the modules, and the effect of a session on the slots."""

from __future__ import annotations

import functools
import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine
from machine_slots import MISSING, Spot, U, V
from model import NOTHING, Layer, Lifecycle, Locked, Origin, Ours, Place, Refused, Thing

import hookpatch


class MachineModel(RuleBasedStateMachine):
    """The slots of all modules, and the expected effect of the open sessions."""

    examples = steps = 0  # of all runs
    ended: ClassVar[Counter[str]] = Counter()  # how many patches of all runs ended in each state

    def __init__(self) -> None:
        super().__init__()
        type(self).examples += 1
        gc.freeze()  # leave out earlier objects: looks at all objects would take most of the time
        self.meta_path = list(sys.meta_path)
        self.patches: dict[str, list[hookpatch.Patch]] = {}
        vars(sys.modules["machine_witness"]).update(executed=self.executed, patches=self.patches)
        self.count = 0
        self.spots: list[Spot] = []  # of all modules ever executed, as foreign code may hold a module
        self.now: dict[str, Spot] = {}  # by address in words: the current spot
        self.pending: list[str] = []
        self.rest: dict[int, tuple[Any, dict[str, tuple[Any]]]] = {}  # all attributes of the owners of places
        self.orders: list[tuple[Any, list[str]]] = []  # mappings, each with its keys
        self.open: list[tuple[hookpatch.Session, list[Lifecycle]]] = []
        self.closed: list[tuple[hookpatch.Session, list[Lifecycle]]] = []
        self.attempts: list[Lifecycle] = []  # waiting for imports, in the order of their watches
        self.foreign: list[tuple[Spot, Callable[[], None]]] = []
        self.entered: Counter[str] = Counter()
        self.is_exit_armed = False
        self.sessions: list[hookpatch.Session] = []
        self.idle = hookpatch.active().open()
        self.warned: Counter[str] = Counter()

    # --- modules

    def executed(self, name: str) -> None:
        """Note that a module has been executed; the last line of the module calls this method."""
        self.arrive()
        module = sys.modules[name]
        reloaded = [spot for spot in self.spots if spot.owner is module]
        # A reload throws away the foreign values of the module; the foreign code never removes them.
        self.foreign = [(spot, off) for spot, off in self.foreign if spot not in reloaded or spot.name == "added"]
        keep = {spot.name: spot for spot in reloaded}
        (self._vendor if name == V else self._user)(module, keep)
        self.pending.append(name)
        for owner in {id(spot.owner): spot.owner for spot in self.spots if hasattr(spot.owner, "__dict__")}.values():
            if owner is module or id(owner) not in self.rest:
                self.rest[id(owner)] = owner, {key: (value,) for key, value in vars(owner).items()}

    def _spot(
        self, label: str, owner: Any, name: Any, call: Callable[[], Any], content: Thing | None = None, **facts: Any
    ) -> Spot:
        spot = Spot(Place(label, NOTHING, **facts), owner, name, call)
        raw = spot.raw()
        if content is None:
            content = NOTHING if raw is MISSING else Origin(raw, takes=label not in (f"{V}:c", f"{V}:Base.prop"))
        spot.place.content = spot.place.original = content
        self.spots.append(spot)
        self.now[label] = spot
        return spot

    def _kept(
        self,
        former: dict[str, Spot],
        label: str,
        module: ModuleType,
        name: str,
        call: Callable[[], Any],
        content: Any = None,
    ) -> Spot:
        """Return the spot of a module's attribute: the same after a reload, with new content."""
        if name not in former:
            return self._spot(label, module, name, call, content)
        spot = former[name]
        if name != "added":  # a reload keeps a name absent from the source
            spot.place.execute(content or Origin(spot.raw(), takes=name != "c"))
        self.now[label] = spot
        return spot

    def _vendor(self, m: Any, former: dict[str, Spot]) -> None:
        base, child_class, child, locked = m.Base, m.Child, m.child, m.Locked
        self._kept(former, f"{V}:function", m, "function", lambda: m.function)
        self._kept(former, f"{V}:added", m, "added", lambda: m.added)
        kind = self._kept(former, f"{V}:Kind", m, "Kind", lambda: lambda: m.Kind())
        c = self._kept(former, f"{V}:c", m, "c", lambda: m.c)
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
        elements, holder, default, cell, kinds = m.elements, m.held, m.default, m.closure.__closure__[0], m.kinds
        self._spot(f"{V}:elements[1]", elements, 1, lambda: elements[1])
        original = c.place.content
        self._spot("held", holder, "c", lambda: holder["c"], original)
        self._spot("default", default, "__defaults__", lambda: default, original)
        self._spot("closure", cell, "cell_contents", lambda: cell.cell_contents, original)
        self._spot("kinds", kinds, 0, lambda: lambda: kinds[0](), kind.place.content)

    def _user(self, m: Any, former: dict[str, Spot]) -> None:
        alias, copied = self.now[f"{V}:function"].place.content, self.now[f"{V}:c"].place.content
        registry, default, closure = m.registry, m.default, m.closure
        self._kept(former, f"{U}:alias", m, "alias", lambda: m.alias, alias)
        self._kept(former, f"{U}:copied", m, "copied", lambda: m.copied, copied)
        self._spot(f"{U}:registry['function']", registry, "function", lambda: registry["function"], alias)
        self._spot("user default", default, "__defaults__", lambda: default, alias)
        self._spot("user closure", closure.__closure__[0], "cell_contents", lambda: closure, alias)

    def arrive(self) -> None:
        """Apply in the model the patches that waited for the modules just executed."""
        while self.pending:
            name = self.pending.pop(0)
            for spot in self.spots:
                if spot.owner is sys.modules[name]:
                    spot.place.refresh()
            for attempt in [candidate for candidate in self.attempts if candidate.module == name]:
                try:
                    self._apply(attempt)
                except Refused:
                    attempt.entry().state = "failed"
                    self.warned["PatchFailedWarning"] += 1

    def _is_there(self, name: str | None) -> bool:
        return name is None or name in sys.modules

    # --- our sessions, in the model

    def _check(self, attempt: Lifecycle) -> None:
        """Raise Refused for a patch that hookpatch refuses before any patch is applied."""
        if attempt.verb == "enter" or not self._is_there(attempt.module):
            return
        place = self.now[attempt.label].place
        if attempt.verb != "replace" and not place.layers and place.found() is NOTHING:
            raise Refused

    def _apply(self, attempt: Lifecycle) -> None:
        if attempt.verb == "enter":
            if not attempt.is_inside:
                attempt.entry().state = "applied"
                attempt.is_inside = True
            return
        self._check(attempt)
        place = self.now[attempt.label].place
        for number, destination in enumerate(self._places(attempt, place)):
            if any(laid is destination for laid, _ in attempt.laid):
                destination.refresh()
                continue
            layer = Layer(attempt)
            if isinstance(value := place.beneath(), Origin) and value.inside is destination:
                for _, former in attempt.laid:
                    former.home = None
                layer.home = (place, place.base if place.layers else place.content, value)
            try:
                destination.add(layer)
            except Refused:
                if number == 0:
                    raise
                continue
            layer.entry = attempt.entry()
            layer.entry.state = "applied"
            attempt.laid.append((destination, layer))

    def _places(self, attempt: Lifecycle, place: Place) -> list[Place]:
        if attempt.reach == "slot":
            return [place]
        if (place.base if place.layers else place.content) is NOTHING:
            return [place]  # an inherited value belongs to another class
        value = place.beneath()
        assert isinstance(value, Origin)  # see _can
        if attempt.label not in (f"{V}:c", f"{V}:Kind"):
            return [value.inside]
        other_places = [spot.place for spot in self.spots if spot.place is not place]
        return [
            place,
            *(
                candidate
                for candidate in other_places
                if (candidate.base if candidate.layers else candidate.content) is value
            ),
        ]

    def _end_all(self, attempts: list[Lifecycle], failures: list[Exception]) -> None:
        """End the patches of a session, the last first; afterwards restore the copies of all patches."""
        stood = [(attempt, self._end(attempt, failures)) for attempt in reversed(attempts)]
        for attempt, places in stood:
            if attempt.reach == "everywhere" and attempt.label in (f"{V}:c", f"{V}:Kind"):
                originals = {value: place.base for place, value in places if not place.layers}
                now = self.now.get(attempt.label)  # the target has the last original, the other places the one before
                originals |= {v: place.base for place, v in places if v in originals and now and place is now.place}
                self._call_back(attempt, originals)

    def _end(self, attempt: Lifecycle, failures: list[Exception]) -> list[tuple[Place, Thing]]:
        """End a patch; return the places of its layers, each with the value held before."""
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
            derived.note = ()  # the derived object holds the original: reach="everywhere" would find both
        stood = [(place, place.held) for place, _ in attempt.laid]
        for place, layer in reversed(attempt.laid):
            try:
                place.drop(layer)
            except Locked as error:
                failures.append(error)
            self.warned.update(place.warned)  # a place inside a function has no spot
            place.warned.clear()
        return stood

    def _call_back(self, attempt: Lifecycle, originals: dict[Thing, Thing]) -> None:
        """Put the original into a module that was executed during the session and copied the patched value.

        A module imported before the session keeps a given value: the value may be its own.
        """
        spot = self.now.get(f"{U}:copied")
        if spot is None or not self._is_there(U) or spot.place.layers:
            return
        place = spot.place
        is_copied = isinstance(place.content, Ours) or U not in attempt.came_before
        if is_copied and place.content in originals:
            place.content = place.original = originals[place.content]
