"""What must hold in the machine of many places, after each step and at the end."""

from __future__ import annotations

import contextvars
import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from hypothesis.stateful import invariant
from machine_many_model import ManyModel
from machine_many_slots import L, V
from machine_many_things import Spot, called
from machine_slots import MISSING
from model import NOTHING, Call, Place, take_off
from watching import watched

import hookpatch
from hookpatch import errors
from hookpatch._engine.site import late_restore, site, sites


class ManyAgreement(ManyModel):
    """Each slot, each call and each report is as the model says; at the end all is as before."""

    def look(self) -> None:
        """Make all reports, which must be honest."""
        gc.collect()
        with self._quiet():
            for session, _ in self.open:
                session.report()  # rules notice a name that foreign code has set again
        self._match_again(looks=True)
        answers = "".join(self._answers())
        for session, plan in self.open:
            with self._quiet():
                report = session.report()
            for asked in plan:
                rows = [row for row in report if row.why == asked.tag and (row.rule is not None or not asked.is_rule)]
                hidden = [any(text.startswith("without effect: ") for text in row.warnings) for row in rows]
                limited = any(text.startswith("without effect") for row in rows for text in row.warnings)
                if asked.is_of_instances:
                    meant = [instance for instance in self.instances if instance.kind in self._meant(asked)]
                    patched = meant if asked.path.endswith(".run") else asked.adopted
                    counts = [int(row.instances.split()[0]) for row in rows if row.instances is not None]
                    assert sum(counts) == len(patched), ("other instances patched than reported", asked.label, counts)
                if asked.verb in ("inject", "default") or asked.is_of_instances:
                    continue
                if {row.state for row in rows} == {"applied"} and not limited:
                    assert asked.tag in answers, ("applied, and not seen", asked)
                if rows and all(hidden):
                    assert asked.tag not in answers, ("without effect, and seen", asked)

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield

    def _calls(self) -> Iterator[tuple[str, Place, str, Callable[[], Any]]]:
        """Give each call: its name, its place, the class of the instance, and a function that gets what is called."""
        for spot in self.spots:
            if not spot.label.endswith(".run"):
                yield spot.label, spot.place, "", spot.raw
        for kind in self.kinds:
            yield f"{kind.name}().run", kind.place, kind.name, lambda kind=kind: kind.cls().run
        for number, instance in enumerate(self.instances):
            for name in ("run", "call"):
                get = lambda value=instance.value, name=name: getattr(value, name)  # noqa: E731 - bound now
                yield f"{number} of {instance.kind.name}: {name}", instance.spots[name].place, instance.kind.name, get

    def _answers(self) -> Iterator[str]:
        for _, place, _, get in self._calls():
            if place.found() is not NOTHING:
                yield from (called(get, x) for x in ("", "-"))
        yield from (getattr(instance.value, "n", "") for instance in self.instances)

    @invariant()
    def agrees(self) -> None:
        """Each slot and each call is as the model says, in this task and in another."""
        type(self).steps += 1
        self.idle.report()  # each look restores the slots that can be restored
        all_spots = [*self.spots, *(spot for instance in self.instances for spot in instance.spots.values())]
        for spot in all_spots:
            spot.place.settle()
        for spot in all_spots:
            self._compare(spot)
        for name, place, kind, get in self._calls():
            if place.found() is not NOTHING:
                for x in ("", "-"):
                    for inside in (True, False):
                        answer = self._in_task(get, x, inside)
                        expected = place.found().answer(x, Call(inside, kind))
                        assert answer == expected, (name, x, inside, answer, expected)
        for instance in self.instances:
            content = instance.spots["n"].place.content
            assert content is NOTHING or instance.value.n == content.answer("", Call(True))

    def _in_task(self, get: Callable[[], Any], x: str, inside: bool) -> str:
        return called(get, x) if inside else contextvars.Context().run(called, get, x)

    def _compare(self, spot: Spot) -> None:
        raw, value = spot.raw(), spot.place.content
        if value is NOTHING:
            assert raw is MISSING, (spot.label, raw)
        elif value.note:
            assert is_same(spot, raw, value.note[0]), (spot.label, raw)
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

    def close(self, index: int) -> None:
        """Close a session, also in the model."""
        session, plan = self.open.pop(index)
        self._end_all(plan)
        type(self).ended += 1
        with self._quiet():
            session.close()
        if self.has_executed:
            self._match_again()

    def _end_example(self, has_failed: bool) -> None:
        sessions = [session for session, _ in self.open]
        try:
            while not has_failed and self.open:
                self.close(0)
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
        for spot in [*self.spots, *(spot for instance in self.instances for spot in instance.spots.values())]:
            assert spot.place.content is spot.place.original, spot.label
            assert is_same(spot, spot.raw(), (*spot.place.original.note, MISSING)[0]), spot.label
        for instance in self.instances:
            names = [name for name, spot in instance.spots.items() if spot.place.original is not NOTHING]
            assert sorted(vars(instance.value)) == sorted(names)
            assert self.has_moved or [*vars(instance.value)][:2] == ["n", "call"]
        for snapshot in self.snapshots:
            changed = snapshot.changed()  # foreign code that deletes a name and sets it again moves the name
            assert [place for place in changed if not (self.has_moved and place.startswith("order of"))] == []
        assert sys.meta_path == self.meta_path
        assert watched() == []
        assert sites.patched() == []


def is_same(spot: Spot, value: object, other: object) -> bool:
    """Return True for the same object; a text may be a copy made by pickle."""
    return value == other if spot.name == "n" else value is other
