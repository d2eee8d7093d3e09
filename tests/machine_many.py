"""A state machine of patches for many places: rules, edits, modules and instances, beside patches of the same slots.

Foreign code wraps, replaces and deletes the same slots, gives an instance another class, and executes the modules anew.
After each step slots and answers are those of `model.py`; at the end all modules and instances are as at their start.
"""

from __future__ import annotations

import copy
import gc
import importlib
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from layers import hides
from machine_many_agrees import ManyAgreement
from machine_many_slots import AROUND, EDITS, LATE, OWNERS, PLUGIN, TRIED, VENDOR, L, V
from machine_many_things import Alien, Asked, Instance, Wrapping, made, made_method, own, without_layers
from machine_slots import FOREIGN_WRAPPERS, MISSING
from model import NOTHING, Foreign, Place, Refused, Thing, take_off

import hookpatch
from hookpatch import errors


class ManyMachine(ManyAgreement):
    """Sessions with patches of many places open and end in any order; the answers are always those of the model."""

    # --- rules

    @initialize(names=st.sampled_from([(), (V,), (V, L)]))
    def begin(self, names: tuple[str, ...]) -> None:
        """Import some of the modules before the first session."""
        for name in names:
            self._import(name)

    def _import(self, name: str) -> None:
        for needed in (V, L) if name == L else (V,):
            if needed not in sys.modules:
                with self._quiet():
                    importlib.import_module(needed)
                self._match_again()

    @rule(name=st.sampled_from([V, L]))
    def import_module(self, name: str) -> None:
        """Import a module."""
        self._import(name)

    @rule(name=st.sampled_from([V, L]))
    def reload(self, name: str) -> None:
        """Execute a module anew: functions and classes are made anew, instances keep the old classes."""
        if name in sys.modules:
            with self._quiet():
                importlib.reload(sys.modules[name])
            self._match_again()

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
                    if self.has_executed:
                        self._match_again()
                    return
                session.close()
            raise AssertionError(f"{session} is to be refused")
        self.open.append((session, plan))
        with self._quiet():
            session.open()
        if self.has_executed:
            self._match_again()

    def _can(self, asked: Asked) -> bool:
        """Return True if the model covers a patch: reach="everywhere" over a foreign proxy finds all its holders."""
        if asked.owner == "third" and asked.is_of_instances:
            return False  # left out: a conflict of values in some instances depends on the instances alive
        if asked.path.startswith("k.") and asked.owner == "third":
            return False  # left out: likewise
        if asked.is_of_module:  # left out: conflicts, which tests/_engine/source has
            return asked.owner != "third" and not (asked.verb == "edit" and self._module_edits("edit"))
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
        self.close(data.draw(st.integers(0, len(self.open) - 1), "which"))

    @precondition(lambda self: self.spots)
    @rule(data=st.data(), is_of_instance=st.booleans())
    def put_foreign(self, data: st.DataObject, is_of_instance: bool) -> None:
        """Put a foreign wrapper or value into a slot of a class, module, table or instance, or delete the name."""
        # Left out: an own method of the module's instance, which `*.run` matches.
        all_spots = [(instance, spot) for instance in self.instances for spot in instance.spots.values()]
        of_instances = [spot for instance, spot in all_spots if not (instance.is_of_module and spot.name == "run")]
        spots = of_instances if is_of_instance and of_instances else self.spots
        spot = spots[data.draw(st.integers(0, len(spots) - 1), "slot")]
        how = data.draw(st.sampled_from(["wraps", "lambda", "proxy", "mock", "value", "deleted"]), "how")
        raw, place = spot.raw(), spot.place
        if how == "deleted" and (raw is MISSING or (place.parent is None and spots is self.spots)):
            return
        if how == "proxy" and (raw is MISSING or self._is_awaited_everywhere(spot.place)):
            return
        if how == "mock" and type(spot.owner) is dict:
            return
        if (place.found() is NOTHING and how != "value") or (spot.name == "n" and how in ("wraps", "lambda", "proxy")):
            return
        self.count += 1
        tag = f"F{self.count}."
        saved = raw if raw is not MISSING else getattr(spot.owner, spot.name, None)
        off = partial(spot.set, raw)
        make = made_method if spot.name == "run" and spots is self.spots else made
        given: Any = tag if spot.name == "n" else make(tag)
        value: Thing = NOTHING
        if how == "mock":
            value = Alien(tag, given)
            patcher = mock.patch.object(spot.owner, spot.name, given)
            patcher.__enter__()  # start() would keep the owner alive
            off = partial(patcher.__exit__, None, None, None)
        elif how == "value":
            value = Alien(tag, given)
            spot.set(given)
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
        self.look()

    @precondition(lambda self: self.foreign)
    @rule(data=st.data())
    def take_off_foreign(self, data: st.DataObject) -> None:
        """Remove a foreign value, in each slot the last value first: the removal restores the value found."""
        take_off(self.foreign, data.draw(st.integers(0, len(self.foreign) - 1), "which"))
        self.look()

    # --- instances

    @precondition(lambda self: V in sys.modules)
    @rule(data=st.data(), is_noticed=st.booleans())
    def make_instance(self, data: st.DataObject, is_noticed: bool) -> None:
        """Make an instance of any class, also of a class made before a reload; or make it without ``__init__``."""
        kind, called = self.kinds[data.draw(st.integers(0, len(self.kinds) - 1), "class")], sys.modules[V].called
        if is_noticed:
            self._welcome(Instance(kind.cls(), kind, called))
            return
        bare: Any = object.__new__(kind.cls)
        vars(bare).update(n="n", call=called)
        self.instances.append(Instance(bare, kind, called))
        self.look()

    @precondition(lambda self: self.instances)
    @rule(data=st.data(), how=st.sampled_from(["copied", "deep copied", "pickled"]))
    def copy_instance(self, data: st.DataObject, how: str) -> None:
        """Copy an instance: the copy has the values without our layers, and is patched as a new instance."""
        instance = self._one_instance(data)
        contents = {name: without_layers(spot.place) for name, spot in instance.spots.items()}
        # Left out: a foreign wrapper in an instance, which may lead to our value, or to a method of this instance; and
        # a value of ours put by the address of the object, which a copy takes along.
        of_object = [asked for _, plan in self.open for asked in plan if asked.path.startswith("k.") and asked.laid]
        if any(isinstance(content, Foreign) for content in contents.values()) or (instance.is_of_module and of_object):
            return
        kind, own_names = instance.kind, {name: content for name, content in contents.items() if content is not NOTHING}
        is_found = getattr(sys.modules[kind.cls.__module__], kind.cls.__name__, None) is kind.cls
        is_found = is_found and sys.modules[V].called is instance.origins["call"].note[0]
        if how == "pickled" and not (is_found and own_names == instance.origins):
            return  # pickle finds classes and functions by name
        make = {"copied": copy.copy, "deep copied": copy.deepcopy, "pickled": lambda it: pickle.loads(pickle.dumps(it))}
        copied = Instance(make[how](instance.value), kind, instance.origins["call"].note[0])
        for name, content in contents.items():
            if content is not instance.origins.get(name, NOTHING):
                copied.put(name, content)
        self._welcome(copied)

    @precondition(lambda self: self.instances)
    @rule(data=st.data())
    def drop_instance(self, data: st.DataObject) -> None:
        """Let an instance die."""
        self._drop(self._one_instance(data))
        gc.collect()  # a session would patch an instance in garbage, too: a foreign method may refer to the instance

    def _drop(self, instance: Instance) -> None:
        # Left out: a patched own method; its original may refer to the instance, which then lives until the end.
        if instance.is_of_module or instance.spots["run"].place.layers:
            return
        self.instances.remove(instance)
        spots = [*instance.spots.values()]
        self.foreign = [(spot, off) for spot, off in self.foreign if spot not in spots]
        for _, plan in self.open:
            for asked in plan:
                asked.adopted[:] = [adopted for adopted in asked.adopted if adopted is not instance]
                asked.laid[:] = [laid for laid in asked.laid if all(laid[0] is not spot.place for spot in spots)]

    @precondition(lambda self: self.instances)
    @rule(data=st.data())
    def change_class(self, data: st.DataObject) -> None:
        """Give an instance another class: reports notice it, and its own values stay patched."""
        instance = self._one_instance(data)
        run = instance.spots["run"]
        # Left out: an own method, perhaps bound to that of the old class; the module's instance: see the snapshot.
        has_own = run.place.content is not NOTHING or run.place.layers or any(spot is run for spot, _ in self.foreign)
        if not (has_own or instance.is_of_module):
            kind = self.kinds[data.draw(st.integers(0, len(self.kinds) - 1), "class")]
            instance.value.__class__ = kind.cls
            instance.become(kind)
            self.look()

    def _one_instance(self, data: st.DataObject) -> Instance:
        return self.instances[data.draw(st.integers(0, len(self.instances) - 1), "which")]

    @precondition(lambda self: V in sys.modules)
    @rule()
    def make_class(self) -> None:
        """Make a subclass without an import, and look: rules notice the class at the next report."""
        self._class("Made", sys.modules[V].make_class(), "Base", "m")
        self.look()

    @rule()
    def look_again(self) -> None:
        """Make all reports."""
        self.look()


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
