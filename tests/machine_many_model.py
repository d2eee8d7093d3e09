"""The model of the machine of many places: classes, slots and instances, and the effect of sessions on them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine
from machine_many_slots import EDITS, V
from machine_many_things import (
    Alien,
    Asked,
    Function,
    Instance,
    Kind,
    Spot,
    Wrapping,
    innermost,
    is_at_home,
    own,
)
from model import NOTHING, Entry, Given, Layer, Place, Refused, in_order
from snapshot import Snapshot

import hookpatch


class ManyModel(RuleBasedStateMachine):
    """The classes, slots and instances of both modules, and the expected effect of the open sessions."""

    examples = steps = refused = 0
    ended: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).examples += 1
        gc.freeze()
        self.meta_path = list(sys.meta_path)
        self.count = 0
        self.open: list[tuple[hookpatch.Session, list[Asked]]] = []
        self.kinds: list[Kind] = []  # of all executions of the modules
        self.spots: list[Spot] = []
        self.classes: dict[str, Kind] = {}  # by address in words: as of now
        self.now: dict[str, Spot] = {}
        self.has_moved = False
        self.has_executed = False  # since the patches were last matched
        self.foreign: list[tuple[Spot, Callable[[], None]]] = []
        self.idle = hookpatch.active().open()
        self.instances: list[Instance] = []
        self.snapshots: list[Snapshot] = []
        vars(sys.modules["many_witness"]).update(executed=self.executed)

    # --- modules

    def executed(self, name: str) -> None:
        """Note all objects of a module; the last line of the module calls this method, before any patch."""
        m: Any = sys.modules[name]
        self.has_executed = True
        for snapshot in self.snapshots:
            snapshot.forget_module(m)
        self.snapshots.append(Snapshot(m))
        # A reload throws away the foreign values of the module; the foreign code never removes them.
        self.foreign = [(spot, off) for spot, off in self.foreign if spot.owner is not m]
        if name == V:
            self._class("Base", m.Base, None, "a")
            self._class("Middle", m.Middle, "Base")
            self._class("Child", m.Child, "Middle", "b")
            for number, letter in (("one", "c"), ("two", "d")):
                function = Function(m.table[number], self._letter(letter))
                self._spot(f"get_{number}", m, f"get_{number}", function)
                self._spot(f"table[{number!r}]", m.table, number, function)
            self.instances.append(Instance(m.k, self.classes["Base"], m.called, is_of_module=True))
            self.now |= {f"k.{name}": self.instances[-1].spots[name] for name in ("n", "call")}
        else:
            self._class("Late", m.Late, "Base", "h")
            self._class("Lazy", m.Lazy, "Base")
            self._spot("get_three", m, "get_three", Function(m.get_three, "e"))

    def _letter(self, letter: str) -> str:
        """Return the letter of a function in the source as changed by the open sessions, the outermost first."""
        verb = {"c": "edit", "d": "transform"}[letter]
        return letter + "".join(layer.tag for layer in in_order(map(Layer, self._module_edits(verb))))

    def _module_edits(self, verb: str) -> list[Asked]:
        return [asked for _, plan in self.open for asked in plan if asked.verb == verb]

    def _spot(self, label: str, owner: Any, key: str, function: Function) -> None:
        spot = self.now.get(label)
        if spot is None or spot.owner is not owner:
            self.now[label] = Spot(Place(label, function), owner, key)
            self.spots.append(self.now[label])
            return
        spot.place.execute(function)
        spot.place.refresh()
        for _, plan in self.open:
            for asked in plan:
                asked.seen.discard(spot.place)

    def _class(self, name: str, cls: type, base: str | None, letter: str = "") -> None:
        above = None if base is None else next(kind for kind in self.kinds if kind.cls is cls.__mro__[1])
        method = vars(cls).get("run")
        content = NOTHING if method is None else Function(method, letter, above and above.place)
        place = Place(f"{name}.run", content, parent=above and above.place, is_in_class=True)
        kind = Kind(f"{name} {len(self.kinds)}", cls, above, place)
        self.kinds.append(kind)
        self.classes[name] = kind
        self.now[place.label] = Spot(place, cls, "run")
        self.spots.append(self.now[place.label])

    # --- patches

    def _match_again(self, looks: bool = False) -> None:
        """Apply the patches to what has come: watches of a module's name fire first, watches of all modules last.

        ``looks``: a report is made, which also finds instances that came without notice.
        """
        self.has_executed = False
        plans = [asked for _, plan in self.open for asked in plan]
        for asked in sorted(
            plans, key=lambda asked: 2 * (asked.is_rule and "+" in asked.label) or "many_*" in asked.label
        ):
            self._apply(asked, is_late=True, looks=looks)

    def _meant(self, asked: Asked) -> list[Kind]:
        """Return the classes whose instances are meant."""
        is_spread = asked.path.partition("(")[0].endswith("+")
        return [
            kind for kind in self.kinds if any(kind is cls or (is_spread and cls in kind.mro) for cls in asked.bases)
        ]

    def _matches(self, asked: Asked) -> list[Place]:
        """Return the slots of a patch that is not of instances, as of now."""
        path = asked.path
        if not asked.is_rule:
            return [self.now[path].place] if path in self.now else []
        if "+" in path:
            cls = self.classes.get(path.partition("+")[0])
            places = [kind.place for kind in self.kinds if cls in kind.mro]
        else:
            names = {
                "*.run": ["Base.run", "Middle.run", "Child.run"],
                "get_*": ["get_one", "get_two", *(["get_three"] if asked.label.startswith("many_*") else [])],
                "table[*]": ["table['one']", "table['two']"],
            }[path]
            places = [self.now[name].place for name in names if name in self.now]
        return [
            place for place in places if own(place) is not NOTHING and ("get_" not in path or is_at_home(own(place)))
        ]

    def _apply(self, asked: Asked, is_late: bool = False, looks: bool = False) -> None:
        """Apply a patch to all slots without a layer of the patch; a late refusal concerns one slot only."""
        if asked.is_of_instances:
            self._apply_to_instances(asked, is_late, looks)
            return
        for place in [] if asked.is_of_module else self._matches(asked):
            if place in asked.seen:
                continue
            asked.seen.add(place)
            try:
                self._apply_to(asked, place)
            except Refused:
                if not is_late:
                    raise

    def _apply_to(self, asked: Asked, place: Place) -> None:
        value = place.beneath()
        if value is NOTHING:
            raise Refused
        if asked.verb in EDITS:
            value = innermost(value)
            if not isinstance(value, Function):
                raise Refused
            edits = value.body.edits[asked.verb]
            if asked in edits:
                return
            if edits:
                raise Refused
            edits.append(asked)
            asked.edited.append(edits)
            return
        if asked.reach == "everywhere" and own(place) is not NOTHING:
            assert isinstance(value, (Function, Wrapping, Alien))
            place = value.inside
        if all(destination is not place for destination, _ in asked.laid):
            self._lay(asked, place, Layer(asked))

    def _lay(self, asked: Asked, place: Place, layer: Layer) -> None:
        layer.derived = {}  # each match of a rule has its own patch
        place.add(layer)
        layer.entry = Entry("applied")
        asked.laid.append((place, layer))

    # --- patches of instances

    def _apply_to_instances(self, asked: Asked, is_late: bool, looks: bool) -> None:
        if asked.label.partition(":")[0] not in sys.modules:
            return
        name = asked.path.rpartition(".")[2]
        cls = self.classes[asked.path.partition("(")[0].removesuffix("+")]
        is_first = cls not in asked.bases
        if is_first:
            asked.bases.append(cls)
        if name == "run":
            self._apply_to_classes(asked)
        meant = [instance for instance in self.instances if instance.kind in self._meant(asked)]
        meant = meant if is_first or looks else []
        for instance in meant:
            try:
                self._adopt(asked, instance, name)
            except Refused:
                if not is_late:
                    raise
        of_class = [instance for instance in meant if cls in instance.kind.mro]
        if is_first and not is_late and of_class and not any(instance in asked.adopted for instance in of_class):
            raise Refused  # all lack the attribute

    def _apply_to_classes(self, asked: Asked) -> None:
        """Put a patch of a method into the classes that define the method for the meant instances."""
        known = {name for _, layer in asked.laid for name in layer.kinds or ()}
        by_place: dict[Place, set[str]] = {}
        for kind in self._meant(asked):
            if kind.name not in known:
                (first,) = (cls for cls in asked.bases if cls in kind.mro)
                places = [ancestor.place for ancestor in kind.mro[: kind.mro.index(first) + 1]]
                owner = next((place for place in places if place.content is not NOTHING), places[-1])
                by_place.setdefault(owner, set()).add(kind.name)
        for place, kinds_of in by_place.items():
            mine = next((layer for other, layer in asked.laid if other is place), None)
            if mine is not None:
                assert mine.kinds is not None
                mine.kinds |= kinds_of
            else:
                layer = Layer(asked)
                layer.kinds = kinds_of
                self._lay(asked, place, layer)

    def _adopt(self, asked: Asked, instance: Instance, name: str) -> None:
        """Patch the own value of an instance; without an own value its method is patched in the class."""
        place = instance.spots[name].place
        if instance in asked.adopted or (own(place) is NOTHING and name != "run"):
            return
        if own(place) is not NOTHING:
            value = None if asked.value is None else Given(asked.tag, asked.value.note[0])
            if value is not None and name == "run":
                value.note = ()  # a method bound to the instance
            self._lay(asked, place, Layer(replace(asked, value=value)))
        asked.adopted.append(instance)

    def _welcome(self, instance: Instance) -> None:
        """Patch a new instance."""
        self.instances.append(instance)
        for _, plan in self.open:
            for asked in plan:
                if asked.is_of_instances and instance.kind in self._meant(asked):
                    self._adopt(asked, instance, asked.path.rpartition(".")[2])

    def _end_all(self, plan: list[Asked]) -> None:
        for asked in reversed(plan):
            for edits in asked.edited:
                edits.remove(asked)
            for place, layer in reversed(asked.laid):
                place.drop(layer)
            asked.laid.clear()
            asked.adopted.clear()
