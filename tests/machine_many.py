"""A state machine of patches for many places: rules, edits and instances, beside patches of the same slots.

Foreign code wraps, replaces and deletes the same slots. After each step the objects in the slots and the answers of all
calls agree with `model.py`. At the end all modules and instances are compared with their start.
"""

from __future__ import annotations

import contextvars
import copy
import gc
import importlib
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from layers import hides
from machine_many_slots import AROUND, EDITS, LATE, OWNERS, PLUGIN, TRIED, VENDOR, L, V
from machine_many_things import (
    Alien,
    Asked,
    Function,
    Kind,
    Spot,
    Value,
    Wrapping,
    called,
    innermost,
    is_at_home,
    made,
    made_method,
    own,
)
from machine_slots import FOREIGN_WRAPPERS, MISSING
from model import NOTHING, Call, Entry, Foreign, Layer, Place, Refused, Thing, take_off
from snapshot import Snapshot
from watching import watched

import hookpatch
from hookpatch import errors
from hookpatch._engine.site import late_restore, site, sites


class ManyMachine(RuleBasedStateMachine):
    """Sessions with patches of many places open and end in any order; the answers are always those of the model."""

    examples = steps = refused = 0
    ended: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).examples += 1
        gc.freeze()
        self.meta_path = list(sys.meta_path)
        self.count = 0
        self.open: list[tuple[hookpatch.Session, list[Asked]]] = []
        self.kinds: dict[str, Kind] = {}
        self.spots: dict[str, Spot] = {}
        self.has_moved = False
        self.foreign: list[tuple[Spot, Callable[[], None]]] = []
        self.idle = hookpatch.active().open()
        self.instances: list[tuple[Any, str]] = []
        self.snapshots: list[Snapshot] = []
        vars(sys.modules["many_witness"]).update(executed=self.executed)

    def executed(self, name: str) -> None:
        """Note all objects of a module; the last line of the module calls this method, before any patch."""
        self.snapshots.append(Snapshot(sys.modules[name]))
        m: Any = sys.modules[name]
        if name == V:
            self._class("Base", m.Base, None, "a")
            self._class("Middle", m.Middle, "Base")
            self._class("Child", m.Child, "Middle", "b")
            for number, letter in (("one", "c"), ("two", "d")):
                function = Function(m.table[number], letter)
                for owner, key, label in (
                    (m, f"get_{number}", f"get_{number}"),
                    (m.table, number, f"table[{number!r}]"),
                ):
                    self.spots[label] = Spot(Place(label, function), owner, key)
        else:
            self._class("Late", m.Late, "Base", "h")
            self._class("Lazy", m.Lazy, "Base")
            self.spots["get_three"] = Spot(Place("get_three", Function(m.get_three, "e")), m, "get_three")

    # --- the model

    def _class(self, name: str, cls: type, base: str | None, letter: str = "") -> None:
        above = None if base is None else self.kinds[base].place
        method = vars(cls).get("run")
        content = NOTHING if method is None else Function(method, letter, above)
        place = Place(f"{name}.run", content, parent=above, is_in_class=True)
        self.kinds[name] = Kind(name, cls, None if base is None else self.kinds[base], place)
        self.spots[place.label] = Spot(place, cls, "run")

    def _match_again(self) -> None:
        """Apply the patches to what has come: watches of a module's name fire first, watches of all modules last."""
        plans = [asked for _, plan in self.open for asked in plan]
        for asked in sorted(
            plans, key=lambda asked: 2 * (asked.is_rule and "+" in asked.label) or "many_*" in asked.label
        ):
            self._apply(asked, is_late=True)

    def _meant(self, asked: Asked) -> list[Kind]:
        """Return the classes whose instances are meant."""
        name = asked.path.partition("(")[0]
        cls = self.kinds.get(name.removesuffix("+"))
        return [kind for kind in self.kinds.values() if kind is cls or ("+" in name and cls in kind.mro)]

    def _matches(self, asked: Asked) -> list[Place]:
        """Return the slots of a patch that is not of instances, as of now."""
        path = asked.path
        if not asked.is_rule:
            return [self.spots[path].place] if path in self.spots else []
        if "+" in path:
            cls = self.kinds.get(path.partition("+")[0])
            places = [kind.place for kind in self.kinds.values() if cls in kind.mro]
        else:
            names = {
                "*.run": ["Base.run", "Middle.run", "Child.run"],
                "get_*": ["get_one", "get_two", *(["get_three"] if asked.label.startswith("many_*") else [])],
                "table[*]": ["table['one']", "table['two']"],
            }[path]
            places = [self.spots[name].place for name in names if name in self.spots]
        return [
            place for place in places if own(place) is not NOTHING and ("get_" not in path or is_at_home(own(place)))
        ]

    def _apply(self, asked: Asked, is_late: bool = False) -> None:
        """Apply a patch to all slots without a layer of the patch; a late refusal concerns one slot only."""
        if asked.is_of_instances:
            if asked.path.endswith(".run") and asked.label.partition(":")[0] in sys.modules:
                self._apply_to_instances(asked)
            return
        for place in self._matches(asked):
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

    def _apply_to_instances(self, asked: Asked) -> None:
        first = asked.path.partition("(")[0].removesuffix("+")
        known = {kind for _, layer in asked.laid for kind in layer.kinds or ()}
        by_place: dict[Place, set[str]] = {}
        for kind in self._meant(asked):
            if kind.name not in known:
                down_to = kind.mro[: kind.mro.index(self.kinds[first]) + 1]
                places = [ancestor.place for ancestor in down_to]
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

    # --- rules

    @initialize(names=st.sampled_from([(), (V,), (V, L)]))
    def begin(self, names: tuple[str, ...]) -> None:
        """Import some of the modules before the first session."""
        for name in names:
            self._import(name)

    def _import(self, name: str) -> None:
        for needed in (V, L) if name == L else (V,):
            if needed not in sys.modules:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    importlib.import_module(needed)
                self._match_again()

    @rule(name=st.sampled_from([V, L]))
    def import_module(self, name: str) -> None:
        """Import a module."""
        self._import(name)

    @rule(data=st.data(), task=st.integers(0, 4), owner=st.sampled_from([None, None, *OWNERS]))
    def open_session(self, data: st.DataObject, task: int, owner: str | None) -> None:
        """Open a session of up to three patches, or of a plugin with up to three patches."""
        drawn = data.draw(st.lists(st.sampled_from(TRIED), min_size=1, max_size=3), "patches")
        self.count += 1
        plan: list[Asked] = []
        for address, verb, reach in drawn:
            tag = f"t{self.count}{'abc'[len(plan)]}."
            rank = (self.count, -len(plan))
            asked = Asked(address, verb, reach, owner, True, tag, rank, is_for_task=task == 0)
            if not self._can(asked):
                continue
            if not (task == 0 and verb not in AROUND) and not any(self._meet(outer, asked) for outer in plan):
                plan.append(asked)
        if not plan:
            return
        patches = [asked.patch() for asked in plan]
        vars(sys.modules["many_witness"]).update(patches=patches)
        arguments: Any = patches if owner is None else [f"many-{owner}"]
        session = hookpatch.active(*arguments, scope="task" if task == 0 else "process", children="local")
        try:
            for asked in plan:
                self._apply(asked)
            is_refused = False
        except Refused:
            is_refused = True
        if is_refused:
            self._end_all(plan)
            type(self).refused += 1
            with self._quiet():
                try:
                    session.open()
                except errors.HookpatchError:
                    return
                session.close()
            raise AssertionError(f"{session} is to be refused")
        self.open.append((session, plan))
        with self._quiet():
            session.open()

    def _can(self, asked: Asked) -> bool:
        """Return True if the model covers a patch: reach="everywhere" over a foreign proxy finds all its holders."""
        if asked.owner == "third" and asked.is_of_instances:
            return False  # left out: a conflict of values in some instances depends on the instances alive
        if asked.verb in EDITS:
            # Left out: an edit of an inherited method, which gives the class an edited copy.
            return asked.is_rule or all(own(place) is not NOTHING for place in self._matches(asked))
        if asked.reach == "slot":
            return True
        values = [place.beneath() for place in self._matches(asked)]
        return not any(isinstance(value, Foreign) and value.is_proxy for value in values)

    def _is_awaited_everywhere(self, place: Place) -> bool:
        """Return True if an open rule may match a slot later with reach="everywhere": see ``_can``."""
        rules = [asked for _, plan in self.open for asked in plan if asked.is_rule and asked.verb not in EDITS]
        return any(asked.reach == "everywhere" and place not in asked.seen for asked in rules)

    def _meet(self, outer: Asked, inner: Asked) -> bool:
        """Return True if two patches of one session may conflict: two values of one slot, or two edits of one piece."""
        if outer.path.split(".")[-1] != inner.path.split(".")[-1] and "run" in outer.path + inner.path:
            return False
        return hides(outer.verb, inner.verb) or outer.verb == inner.verb != "wrap"

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def close_session(self, data: st.DataObject) -> None:
        """Close any open session."""
        self._close(data.draw(st.integers(0, len(self.open) - 1), "which"))

    def _close(self, index: int) -> None:
        session, plan = self.open.pop(index)
        self._end_all(plan)
        type(self).ended += 1
        with self._quiet():
            session.close()

    def _end_all(self, plan: list[Asked]) -> None:
        for asked in reversed(plan):
            for edits in asked.edited:
                edits.remove(asked)
            for place, layer in reversed(asked.laid):
                place.drop(layer)
            asked.laid.clear()

    @precondition(lambda self: self.spots)
    @rule(data=st.data())
    def put_foreign(self, data: st.DataObject) -> None:
        """Put a foreign wrapper or value into a slot, or delete the name."""
        spot = self.spots[data.draw(st.sampled_from(sorted(self.spots)), "slot")]
        how = data.draw(st.sampled_from(["wraps", "lambda", "proxy", "mock", "value", "deleted"]), "how")
        raw, place = spot.raw(), spot.place
        if how == "deleted" and (raw is MISSING or place.parent is None):
            return
        if how == "proxy" and (raw is MISSING or self._is_awaited_everywhere(spot.place)):
            return
        if how == "mock" and type(spot.owner) is dict:
            return
        self.count += 1
        tag = f"F{self.count}."
        saved = raw if raw is not MISSING else getattr(spot.owner, spot.name)
        off = partial(spot.set, raw)
        make = made_method if spot.name == "run" else made
        value: Thing = NOTHING
        if how == "mock":
            value = Alien(tag, make(tag))
            patcher = mock.patch.object(spot.owner, spot.name, value.note[0])
            patcher.start()
            off = patcher.stop
        elif how == "value":
            value = Alien(tag, make(tag))
            spot.set(value.note[0])
        elif how == "deleted":
            spot.set(MISSING)
            self.has_moved = True
        else:
            new = FOREIGN_WRAPPERS[{"wraps": "closure"}.get(how, how)](tag, saved)
            below = place.found()
            value = Foreign(tag, below, is_proxy=True) if how == "proxy" else Wrapping(tag, below, how)
            value.note = (new,)
            spot.set(new)
        place.put_foreign(value)
        self.foreign.append((spot, off))
        self._match_again()
        self.look()

    @precondition(lambda self: self.foreign)
    @rule(data=st.data())
    def take_off_foreign(self, data: st.DataObject) -> None:
        """Remove a foreign value, in each slot the last value first: the removal restores the value found."""
        take_off(self.foreign, data.draw(st.integers(0, len(self.foreign) - 1), "which"))
        self._match_again()
        self.look()

    @precondition(lambda self: V in sys.modules)
    @rule(data=st.data(), how=st.sampled_from(["made", "copied", "deep copied", "pickled", "gone"]))
    def instance(self, data: st.DataObject, how: str) -> None:
        """Make an instance, in one of several ways, or drop one."""
        if how == "made" or not self.instances:
            kind = self.kinds[data.draw(st.sampled_from(sorted(self.kinds)), "class")]
            self.instances.append((kind.cls(), kind))
            return
        index = data.draw(st.integers(0, len(self.instances) - 1), "which")
        if how == "gone":
            del self.instances[index]
            return
        instance, kind = self.instances[index]
        if how == "pickled" and kind.name.startswith("Made"):
            return
        made = {"copied": copy.copy, "deep copied": copy.deepcopy, "pickled": lambda it: pickle.loads(pickle.dumps(it))}
        self.instances.append((made[how](instance), kind))

    @precondition(lambda self: V in sys.modules)
    @rule()
    def make_class(self) -> None:
        """Make a subclass without an import, and look: rules notice the class at the next report."""
        self.count += 1
        name = f"Made{self.count}"
        self._class(name, sys.modules[V].make_class(), "Base", "m")
        self._match_again()
        self.look()

    @rule()
    def look(self) -> None:
        """Make all reports, which must be honest."""
        gc.collect()
        with self._quiet():
            for session, _ in self.open:
                session.report()  # rules notice a name that foreign code has set again
        answers = "".join(self._answers())
        for session, plan in self.open:
            with self._quiet():
                report = session.report()
            for asked in plan:
                rows = [row for row in report if row.why == asked.tag and (row.rule is not None or not asked.is_rule)]
                hidden = [any(text.startswith("without effect: ") for text in row.warnings) for row in rows]
                limited = any(text.startswith("without effect") for row in rows for text in row.warnings)
                if asked.verb in ("inject", "default") or asked.is_of_instances:
                    continue
                if {row.state for row in rows} == {"applied"} and not limited:
                    assert asked.tag in answers, ("applied, and not seen", asked)
                if rows and all(hidden):
                    assert asked.tag not in answers, ("without effect, and seen", asked)

    # --- what must hold

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield

    def _calls(self) -> Iterator[tuple[str, Place, str, Callable[[], Any]]]:
        """Give each call: its name, its place, the class of the instance, and a function that gets what is called."""
        for label, spot in self.spots.items():
            if not label.endswith(".run"):
                yield label, spot.place, "", spot.raw
        for kind in self.kinds.values():
            yield f"{kind.name}().run", kind.place, kind.name, lambda kind=kind: kind.cls().run
        for number, (instance, kind) in enumerate(self.instances):
            yield f"{number} of {kind.name}: run", kind.place, kind.name, lambda instance=instance: instance.run

    def _of_value(self, kind: Kind, name: str, x: str, inside: bool) -> str:
        asked_of_kind = [
            asked
            for _, plan in self.open
            for asked in plan
            if asked.path.endswith(name) and asked.is_of_instances and kind in self._meant(asked)
        ]
        place = Place(name, Value(name))
        for asked in sorted(asked_of_kind, key=lambda asked: asked.rank):
            layer = Layer(asked)
            layer.entry = Entry()
            place.add(layer)
        return place.content.answer(x, Call(inside))

    def _answers(self) -> Iterator[str]:
        for _, place, _, get in self._calls():
            if place.found() is not NOTHING:
                yield from (called(get, x) for x in ("", "-"))
        yield from (instance.n for instance, _ in self.instances)
        yield from (called(lambda instance=instance: instance.call, "") for instance, _ in self.instances)

    @invariant()
    def agrees(self) -> None:
        """Each slot and each call is as the model says, in this task and in another."""
        type(self).steps += 1
        self.idle.report()  # each look restores the slots that can be restored
        for spot in self.spots.values():
            spot.place.settle()
        for spot in self.spots.values():
            self._compare(spot)
        for name, place, kind, get in self._calls():
            if place.found() is not NOTHING:
                for x in ("", "-"):
                    for inside in (True, False):
                        answer = self._in_task(get, x, inside)
                        expected = place.found().answer(x, Call(inside, kind))
                        assert answer == expected, (name, x, inside, answer, expected)
        for number, (instance, kind) in enumerate(self.instances):
            assert instance.n == self._of_value(kind, ".n", "", True), (number, kind)
            for x in ("", "-"):
                for inside in (True, False):
                    answer = self._in_task(lambda instance=instance: instance.call, x, inside)
                    assert answer == self._of_value(kind, ".call", x, inside), (number, kind.name, x, inside)

    def _in_task(self, get: Callable[[], Any], x: str, inside: bool) -> str:
        return called(get, x) if inside else contextvars.Context().run(called, get, x)

    def _compare(self, spot: Spot) -> None:
        raw, value = spot.raw(), spot.place.content
        if value is NOTHING:
            assert raw is MISSING, spot.label
        elif value.note:
            assert raw is value.note[0], (spot.label, raw)
        else:
            assert raw is not MISSING, spot.label
            assert not any(raw is original for original in (*spot.place.base.note, *spot.place.original.note)), (
                spot.label
            )
            value.note = (raw,)

    def teardown(self) -> None:
        """Close all sessions: everything is as before, and no class made by the program is kept."""
        has_failed = sys.exc_info()[0] is not None
        try:
            self._end_example(has_failed)  # a method of its own: local variables would keep objects alive
            waiting = -1
            while not has_failed and waiting != (waiting := len(site.late_restores())):
                gc.collect()
                assert list(hookpatch.report()) == []
            assert has_failed or [*late_restore.late_restores(), *late_restore._unborne, *site.covered] == []
        finally:
            for leftovers in (late_restore.waiting, late_restore._unborne, site.covered):
                leftovers.clear()  # a failure must not reach the next example
            gc.unfreeze()

    def _end_example(self, has_failed: bool) -> None:
        sessions = [session for session, _ in self.open]
        try:
            while not has_failed and self.open:
                self._close(0)
                self.agrees()
            while not has_failed and self.foreign:
                take_off(self.foreign, len(self.foreign) - 1)
                self.agrees()
            self.idle.close()
            if not has_failed:
                self._compare_end()
        finally:
            for session in (*sessions, self.idle):  # a failure may leave sessions open
                with warnings.catch_warnings(), suppress(errors.RestoreError):
                    warnings.simplefilter("ignore")
                    session.close()
            for name in (V, L):
                sys.modules.pop(name, None)
            vars(sys.modules["many_witness"]).update(executed=None)
            vars(self).clear()

    def _compare_end(self) -> None:
        for instance, _ in self.instances:
            assert {**vars(instance)} == {"n": "n", "call": sys.modules[V].called}
            assert [*vars(instance)] == ["n", "call"]
        for spot in self.spots.values():
            assert spot.place.content is spot.place.original, spot.label
            assert spot.raw() is (*spot.place.original.note, MISSING)[0]
        for snapshot in self.snapshots:
            changed = snapshot.changed()  # foreign code that deletes a name and sets it again moves the name
            assert [place for place in changed if not (self.has_moved and place.startswith("order of"))] == []
        assert sys.meta_path == self.meta_path
        assert watched() == []
        assert sites.patched() == []


@contextmanager
def many_world(folder: Path) -> Iterator[None]:
    """Write the modules, and three plugins with their distributions, to a folder on sys.path."""
    for owner in OWNERS:
        (folder / f"many_{owner}.py").write_text(PLUGIN)
        info = folder / f"many_{owner}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: many-{owner}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[hookpatch]\nmany-{owner} = many_{owner}\n")
    (folder / f"{V}.py").write_text(VENDOR)
    (folder / f"{L}.py").write_text(LATE)
    importlib.invalidate_caches()
    sys.modules["many_witness"] = ModuleType("many_witness")
    try:
        yield
    finally:
        del sys.modules["many_witness"]
