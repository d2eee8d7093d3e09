"""The state machine of tests/promises/test_machine.py."""

from __future__ import annotations

import contextvars
import functools
import gc
import importlib
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from layers import hides
from machine_model import MachineModel
from machine_slots import (
    CALLS,
    FOREIGN_WRAPPERS,
    MISSING,
    OF_MODULES,
    OTHERS,
    OWNERS,
    PLUGIN,
    TOGETHER,
    TRIED,
    USER,
    VENDOR,
    WITHOUT,
    Spot,
    U,
    V,
    derived_of,
    given_for,
    module_of,
    tried_on,
)
from model import NOTHING, Call, Entry, Foreign, Given, Lifecycle, Origin, Refused, Thing, take_off
from watching import watched

import hookpatch
from hookpatch import errors
from hookpatch._engine.site import late_restore, site, sites


class Machine(MachineModel):
    """The rules of the state machine. Each step is done in Python and in the model; ``agrees`` compares both."""

    # --- rules

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Take a few places only: sessions meet more often."""
        subsets = st.sets(st.sampled_from(sorted(TRIED)), min_size=1, max_size=6)
        labels = data.draw(st.sampled_from(TOGETHER) | subsets, "places")
        self.labels = sorted(labels)
        for name in data.draw(st.sampled_from([(V, U), (V,), (V, U), ()]), "modules"):
            importlib.import_module(name)
        self.arrive()

    def _drawn(self, patch: tuple[str, str, str], owner: str | None, in_words: bool) -> Lifecycle:
        label, verb, reach = patch
        self.count += 1
        if not self._is_there(module_of(label)) or label in OF_MODULES:
            in_words = True
        if label.startswith(U) and reach == "everywhere":
            in_words = False
        return Lifecycle(label, verb, reach, owner, in_words, f"t{self.count}")

    def _can(self, attempt: Lifecycle) -> bool:
        """Return True if the model covers the patch.

        Left out:

        - reach="everywhere" over a foreign value or a copied wrapper of ours: hookpatch would change the value inside,
          and the model has no place inside the value.
        - a remove over a foreign value: the model could not tell the foreign value from the original.
        - targets by hand in a module that was dropped from sys.modules.
        """
        if attempt.verb == "enter" or not self._is_there(module_of(attempt.label)):
            return attempt.in_words
        spot = self.now[attempt.label]
        if attempt.verb == "remove" and spot.place.is_changed_by_others():
            return False
        return attempt.reach == "slot" or isinstance(spot.place.beneath(), Origin)

    def _patch(self, attempt: Lifecycle) -> hookpatch.Patch:
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
        if attempt.verb == "default":
            return hookpatch.default(target, {"x": tag}, **facts)
        if attempt.verb == "remove":
            return hookpatch.remove(target, **facts)
        if attempt.verb == "derive":
            return hookpatch.derive(target, functools.partial(derived_of, tag), **facts)
        value = given_for(tag, label)
        attempt.value = Given(tag, value)
        return hookpatch.replace(target, value, **facts, add=True)

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
        tried = [st.sampled_from(tried_on(label)) for label in self.labels]
        plans = st.lists(st.tuples(st.one_of(tried), st.sampled_from(OWNERS), st.booleans()), min_size=1, max_size=4)
        drawn = [self._drawn(*choice) for choice in data.draw(plans, "patches")]
        scope: Any = "process"
        if task == 0:
            drawn = [attempt for attempt in drawn if attempt.verb in CALLS]
            scope = "task"
        for attempt in drawn:
            attempt.module = module_of(attempt.label) if attempt.in_words else None
            attempt.is_for_task = scope == "task"
            attempt.came_before = frozenset(sys.modules)
        drawn = [attempt for attempt in drawn if self._can(attempt)]
        drawn = [
            attempt for place, attempt in enumerate(drawn) if not any(_hides(outer, attempt) for outer in drawn[:place])
        ]
        if not drawn:
            return
        owners = list(dict.fromkeys(attempt.owner for attempt in drawn))
        plan = [attempt for owner in owners for attempt in drawn if attempt.owner == owner]
        patches = {attempt.tag: self._patch(attempt) for attempt in plan}
        arguments: list[Any] = []
        for owner in owners:
            of_owner = [patches[attempt.tag] for attempt in plan if attempt.owner == owner]
            arguments += [f"machine-{owner}"] if owner else of_owner
            if owner:
                self.patches[owner] = of_owner
        if any(attempt.reach == "everywhere" for attempt in drawn):
            gc.collect()  # a place in garbage is patched, too, and the model knows none
        session = hookpatch.active(*arguments, scope=scope)
        self.sessions.append(session)
        self.count += 1
        try:
            plan = self._open_in_model(plan, [patches[attempt.tag] for attempt in plan])
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

    def _open_in_model(self, plan: list[Lifecycle], patches: list[hookpatch.Patch]) -> list[Lifecycle]:
        """Apply the patches of a session in the model; return them in the order of applying, or raise Refused."""
        begun: list[Lifecycle] = []
        for place, attempt in enumerate(plan):
            attempt.rank = (self.count, -place)
            attempt.entries = [Entry()]
        # Each replace here may add a name: a patch of a name of the same spelling is applied behind the last such one.
        slots = [None if patch.target is None else patch.target.slot for patch in patches]
        adding = {slot: place for place, slot in enumerate(slots) if plan[place].verb == "replace"}
        added_by = {
            place: adding[slot] for place, slot in enumerate(slots) if slot in adding and plan[place].verb != "replace"
        }
        last = [max(place, added_by.get(place, place)) for place in range(len(plan))]
        in_order = sorted(range(len(plan)), key=lambda place: (last[place], last[place] != place))
        as_applied = [plan[place] for place in in_order]
        try:
            for place, attempt in enumerate(plan if len(plan) > 1 or plan[0].is_for_task else ()):
                attempt.entries[-1].state = "failed"  # if the check raises
                try:
                    self._check(attempt)  # check all patches before the first is applied
                except Refused:
                    if place not in added_by:
                        raise
                attempt.entries[-1].state = "waiting"
            for attempt in as_applied:
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
            self._end_all(begun, [])
            raise
        return as_applied

    @precondition(lambda self: self.open)
    @rule(data=st.data(), lock=st.integers(0, 2), arm=st.integers(0, 4))
    def close_session(self, data: st.DataObject, lock: int, arm: int) -> None:
        """Close any open session; perhaps an owner refuses to be set meanwhile, or an exit raises."""
        index = data.draw(st.integers(0, len(self.open) - 1), "which")
        self._close(index, lock == 0, arm == 0)

    def _close(self, index: int, lock: bool = False, arm: bool = False) -> None:
        session, plan = self.open.pop(index)
        self.closed.append((session, plan))
        stubborn = [spot for spot in self.spots if spot.place.is_stubborn]
        failures: list[Exception] = []
        self.is_exit_armed = arm
        for spot in stubborn:
            spot.place.is_locked = type(spot.owner).locked = lock
        self._end_all(plan, failures)
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

    @rule(name=st.sampled_from([V, U]), change=st.sampled_from(["import", "reload", "drop"]))
    def execute_module(self, name: str, change: str) -> None:
        """Import a module, reload it, or drop it from sys.modules."""
        if change == "drop":
            sys.modules.pop(name, None)
            return
        # Left out: a reload of the user's module after reach="everywhere" patched its copy. The reload would copy our
        # wrapper from the vendor's module.
        copied = self.now.get(f"{U}:copied")
        if (
            name == U
            and copied is not None
            and any(layer.attempt.label != f"{U}:copied" for layer in copied.place.layers)
        ):
            return
        # The user's import needs the function in the vendor's module.
        removes: bool = any(
            attempt.label == f"{V}:function" and attempt.verb == "remove" for _, plan in self.open for attempt in plan
        )
        function = self.now.get(f"{V}:function")
        if name == U and (removes or (function is not None and self._is_there(V) and function.raw() is MISSING)):
            return
        with self._telling():
            if change == "import":
                importlib.import_module(name)
            elif name in sys.modules:
                importlib.reload(sys.modules[name])
            self.arrive()

    @rule(data=st.data())
    def put_foreign(self, data: st.DataObject) -> None:
        """Put a foreign wrapper or value into a slot."""
        labels = [label for label in self.labels if label in OTHERS and label in self.now]
        if not labels:
            return
        label = data.draw(st.sampled_from(labels), "place")
        how = data.draw(st.sampled_from(OTHERS[label]), "how")
        spot = self.now[label]
        raw, place = spot.raw(), spot.place
        verbs = {layer.verb for layer in place.layers}
        # Left out: a foreign value over a name or key that we removed: the foreign code would remove the name later.
        if "remove" in verbs or (raw is MISSING and how == "deleted") or (place.found() is NOTHING and how != "value"):
            return
        # Left out: a foreign proxy that is fetched through a subclass. The fetch makes a new proxy, and the new proxy
        # keeps our wrapper for good.
        content = place.found()
        if (
            raw is MISSING
            and isinstance(content, Foreign)
            and content.is_proxy
            and how in ("closure", "lambda", "proxy")
        ):
            return
        self.count += 1
        tag = f"F{self.count}"
        saved = raw if raw is not MISSING or how in ("value", "mock") else getattr(spot.owner, spot.name)
        off = functools.partial(spot.set, raw)
        if how == "mock":
            new: Any = given_for(tag, label)
            patcher = mock.patch.object(spot.owner, spot.name, new)
            patcher.__enter__()  # start() would keep the owner alive
            off = functools.partial(patcher.__exit__, None, None, None)
        else:
            new = MISSING if how == "deleted" else FOREIGN_WRAPPERS[how](tag, saved)
            spot.set(new)
        value: Thing = NOTHING if how == "deleted" else Given(tag, new)
        if how in ("closure", "lambda", "proxy"):
            value = Foreign(tag, place.found(), is_proxy=how == "proxy")
            value.note = (new,)
        place.put_foreign(value)
        self.foreign.append((spot, off))

    @precondition(lambda self: self.foreign)
    @rule(data=st.data())
    def take_off_foreign(self, data: st.DataObject) -> None:
        """Remove a foreign value, in each slot the last value first: the removal restores the value found."""
        index = data.draw(st.integers(0, len(self.foreign) - 1), "which")
        take_off(self.foreign, index)

    @precondition(lambda self: self.orders)
    @rule(data=st.data())
    def add_key(self, data: st.DataObject) -> None:
        """Add a key to a mapping, as foreign code does."""
        mapping, order = self.orders[data.draw(st.integers(0, len(self.orders) - 1), "mapping")]
        self.count += 1
        mapping[f"k{self.count}"] = self.count
        order.append(f"k{self.count}")

    @rule(which=st.integers(0, 20))
    def look(self, which: int) -> None:
        """Collect garbage; make the report now and then: the report looks at all objects."""
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
        hidden = "lies outside", "lies there"  # test_hidden.py has these warnings
        shown = Counter(warning.category.__name__ for warning in caught if not str(warning.message).endswith(hidden))
        assert shown == expected, [str(warning.message) for warning in caught]
        self.warned.clear()
        for spot in self.spots:
            spot.place.warned.clear()

    @invariant()
    def agrees(self) -> None:
        """Each place, each call and the report agree with the model."""
        type(self).steps += 1
        self.idle.report()  # each look restores the slots that can be restored
        for spot in self.spots:
            spot.place.settle()
        for spot in self.spots:
            self._compare(spot)
        for mapping, order in self.orders:
            self._compare_order(mapping, order)
        # Check a closed session once: a session that derived from a copied value would keep the original alive.
        self.closed = [closed for closed in self.closed if closed is self.closed[-1]]
        for session, plan in (*self.open, *self.closed):
            states: dict[str | None, list[str]] = {}
            for attempt in plan:
                for place, layer in attempt.laid:
                    if layer.entry is not None and layer.entry.state in ("applied", "overwritten") and layer.is_open:
                        layer.entry.state = "overwritten" if place.is_overwritten(layer) else "applied"
            for entry in session._ledger.entries:
                if entry.applied is not None:
                    entry.applied.compare_slots()
            for entry in session._ledger.entries:  # not report(): report() looks at all objects, see `look`
                states.setdefault(entry.request.patch.why, []).append(entry.state)
            for attempt in plan:
                assert sorted(states[attempt.tag]) == sorted(entry.state for entry in attempt.entries), (
                    attempt.label,
                    attempt.verb,
                    attempt.reach,
                    [(e.state, e.place) for e in session._ledger.entries if e.request.patch.why == attempt.tag],
                    [entry.state for entry in attempt.entries],  # of the model
                    [place.label for place, _ in attempt.laid],
                )
        if any(attempt.verb == "derive" for _, plan in self.closed for attempt in plan):
            self.closed.clear()
        for _, plan in self.open:
            for attempt in plan:
                assert self.entered[attempt.tag] == attempt.is_inside

    def _compare(self, spot: Spot) -> None:
        raw, value = spot.raw(), spot.place.content
        if value is NOTHING:
            assert raw is MISSING, spot.place.label
        elif value.note:
            assert raw is value.note[0], (spot.place.label, raw)
        else:
            assert raw is not MISSING, spot.place.label
            assert not any(raw is original for original in (*spot.place.base.note, *spot.place.original.note)), (
                spot.place.label
            )
            value.note = (raw,)
        content = spot.place.found()
        if content is not NOTHING:
            for x in ("",) if spot.place.label in WITHOUT else ("-", ""):
                assert spot.answer(x) == content.answer(x, Call(is_inside=True)), (
                    spot.place.label,
                    spot.answer(x),
                    content.answer(x, Call(is_inside=True)),
                )
                neighbour = contextvars.Context()
                assert neighbour.run(spot.answer, x) == content.answer(x, Call(is_inside=False)), spot.place.label

    def _compare_order(self, mapping: Any, order: list[str]) -> None:
        """Compare the keys of a mapping: each key in its position; a key of ours stays last until our session ends."""
        (added,) = (spot for spot in self.spots if spot.owner is mapping and spot.name == "added")
        if "added" in mapping and "added" not in order:
            order.append("added")
        if not added.place.layers and "added" in order:
            order.remove("added")
        assert list(mapping) == [key for key in order if key in mapping]

    def teardown(self) -> None:
        """Close the open sessions and remove foreign values: all slots are as before, and no object is kept alive."""
        try:
            self._teardown()  # a method of its own: local variables would keep objects alive
            waiting = -1
            while waiting != (waiting := len(site.late_restores())):  # a released object may have kept others
                gc.collect()
                assert list(hookpatch.report()) == []
                gc.collect()
            assert [*late_restore.late_restores(), *late_restore._unborne, *site.covered] == []
        finally:
            for leftovers in (late_restore.waiting, late_restore._unborne, site.covered):
                leftovers.clear()  # a failure must not reach the next example

    def _teardown(self) -> None:
        try:
            while self.open:
                self._close(0)
                self.agrees()
            while self.foreign:
                take_off(self.foreign, len(self.foreign) - 1)
                self.agrees()
            for spot in self.spots:
                if not spot.place.is_spoilt:
                    assert spot.place.content is spot.place.original, spot.place.label
            for owner, before in self.rest.values():
                ours = {spot.name for spot in self.spots if spot.owner is owner}  # compared by `agrees`
                assert vars(owner).keys() - ours == before.keys() - ours
                assert all(vars(owner)[key] is value for key, (value,) in before.items() if key not in ours)
            assert sys.meta_path == self.meta_path
            assert watched() == []
            assert sites.patched() == []
        finally:
            self.is_exit_armed = False
            for spot in self.spots:
                if spot.place.is_stubborn:
                    type(spot.owner).locked = False
            for session in (*self.sessions, self.idle):  # a failure may leave sessions open
                with warnings.catch_warnings(), suppress(errors.RestoreError):
                    warnings.simplefilter("ignore")
                    session.close()
            for name in (V, U):
                sys.modules.pop(name, None)
            vars(sys.modules["machine_witness"]).update(executed=None, patches={})
            vars(self).clear()


def _hides(outer: Lifecycle, inner: Lifecycle) -> bool:
    """Return True if two values of the same owner may meet in the same slot: a conflict."""
    is_one_place = outer.label == inner.label or "everywhere" in (outer.reach, inner.reach)
    return outer.owner == inner.owner and is_one_place and hides(outer.verb, inner.verb)


SETTINGS: Final = settings(
    max_examples=40,  # in `make test`; `make test-all` tries 500
    stateful_step_count=25,
    deadline=None,
    database=None,
    derandomize=True,  # `make soak` tries other examples, for any time
    print_blob=True,  # a decorator for Machine, to repeat the failure
    report_multiple_bugs=False,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def world(folder: Path) -> Iterator[None]:
    """Write the modules, and three plugins with their distributions, to a folder on sys.path; make their witness."""
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
        gc.unfreeze()  # each example froze the objects of its start
