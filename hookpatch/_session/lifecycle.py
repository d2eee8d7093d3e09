"""One patch in one session: waiting for its module, applied, ended.

Long because applying and restoring share one state, and each may begin while the other runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._bootstrap.stderr import refusal
from hookpatch._engine.patch.patch import GIVING_VERBS, MAKING_VERBS, Patch, Scope, Wrapper
from hookpatch._engine.patch.target import Target
from hookpatch._engine.patch.versions import unneeded
from hookpatch._engine.site.call_count import Tally, counters
from hookpatch._engine.site.layer import Gate, Layer, Only
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.sites import newly_hidden, site_at
from hookpatch._engine.site.slot_state import Former
from hookpatch._engine.slots import guard
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.originals import beneath, own_beneath
from hookpatch._engine.slots.resolve import resolve, seen_from
from hookpatch._engine.slots.slot import ABSENT, Slot, inner
from hookpatch._engine.slots.trial import PROXIES, functions_stand_in
from hookpatch._plugins import notify
from hookpatch._session import task
from hookpatch._session.applied import AppliedInstances, AppliedLayer, EditedClass, Entered, undo
from hookpatch._session.ledger import Entry, Ledger, Requested
from hookpatch._session.prepared import Prepared, keep, prepared
from hookpatch.errors import (
    ApplyError,
    DriftWarning,
    EditError,
    HookpatchError,
    HookpatchWarning,
    LateWarning,
    PatchFailedWarning,
    PatchUnneededWarning,
    for_stderr,
)

if TYPE_CHECKING:
    from hookpatch._engine.instances.exchange import Exchange  # most patches mean no instances
    from hookpatch._engine.instances.living import Living
    from hookpatch._engine.lock.drift import Drift  # slow to import, and most sessions have no lock file
    from hookpatch._engine.source.loading import Change  # slow to import, and most patches change no source

Policy: TypeAlias = Literal["exit", "warn"]
Gone: TypeAlias = dict[Site, Former]
_NOWHERE: Final = "nothing that only_in= and except_in= let it go to holds the target"
_KEPT: Final = "the module runs changed till the end of the process; reload=True runs it anew at the end"
_NONE: Final[list[Entered]] = []  # shared by most patches, never written to


@final
class Lifecycle:
    """The lifecycle of one patch in one session: waiting for its module, applied, ended.

    Thread safety without a lock: ``_lay`` notes the site in ``_placed`` and then reads ``_ended``; ``restore`` sets
    ``_ended`` and takes the sites from ``_placed`` afterwards. Whichever thread comes second sees the other's mark.
    Therefore no layer is applied after the end, and no layer is forgotten. GIL: each step is a single operation of a
    dict, a list or an attribute; all threads see the steps in the same order.
    """

    __slots__ = (
        *(
            "_asked",
            "_change",
            "_count",
            "_derived",
            "_drift",
            "_edited",
            "_elsewhere",
            "_ended",
            "_entered",
            "_entry",
            "_home",
            "_instances",
            "_is_beginning",
            "_late",
        ),
        *("_ledger", "_owner", "_placed", "_policy", "_rank", "_scope", "_unseen", "_warnings", "_watch"),
    )

    def __init__(
        self,
        asked: Requested,
        rank: tuple[int, ...],
        ledger: Ledger,
        policy: Policy,
        scope: Scope = "process",
        count: bool = False,
        drift: Drift | None = None,
    ) -> None:
        self._asked: Final = asked
        self._owner: Final = asked.owner
        self._rank: Final = rank
        self._ledger: Final = ledger
        self._policy: Final = policy
        self._scope: Final = scope
        self._count: Final = count
        self._drift: Final = drift
        self._late = ""  # why the patch of a match could not be applied in time
        self._warnings: tuple[str, ...] = ()  # made while the patch is being applied
        self._entry: Entry = ledger.open(asked)
        self._ended = False
        self._placed: Final[dict[Site, AppliedLayer]] = {}
        self._instances: Sequence[
            AppliedInstances
        ] = ()  # of an address of instances; after a reload of another class, too
        self._unseen: Collection[Site] = ()  # sites of hookpatch's own patches, which notice new instances
        self._edited: tuple[EditedClass[Lifecycle], ...] = ()  # by an edit of a class; a further entry after a reload
        self._entered: Final[list[Entered]] = [] if asked.patch.verb == "enter" else _NONE
        self._watch: imports.Watch | None = None
        self._change: Change | None = None  # of the source of a module
        self._is_beginning = False  # until the module has been run anew
        self._home: ModuleType | None = None  # the module with the object given as of=
        self._elsewhere: imports.Watch | None = None  # of all modules, for only_in and except_in
        self._derived: Final[dict[int, tuple[Any, Any]] | None] = {} if asked.patch.verb in MAKING_VERBS else None

    @property
    def touched(self) -> list[Site]:
        """The sites of the patch's layers, for notifying plugins; empty for a patch of hookpatch itself."""
        if self._asked.plugin == "hookpatch":
            return []
        if self._edited:
            return [site for edited in self._edited for part in edited.begun for site in part.touched]
        return [site for site in list(self._placed) if site not in self._unseen] if self._unseen else list(self._placed)

    def skip(self, reason: str) -> None:
        """Never apply the patch."""
        self._entry.become("skipped", reason)

    def begin(self) -> None:
        """Apply the patch, now and after each import of the module; raise if a required patch cannot be applied."""
        name = self._asked.patch.module
        module = None
        try:
            if self._asked.patch.is_of_source:
                return self._begin_source()
            if name is not None:
                self._watch = imports.Watch(name, self.arrive)
                module = self._watch.begin() or self._watch.present()
            if name is None or module is not None:
                self._apply(module)
        except HookpatchError as error:
            self._entry.become("failed", error)
            raise

    def apply(self, module: ModuleType | None) -> None:
        """Apply the patch now, to a module or to an object at hand; raise if a required patch cannot be applied."""
        try:
            self._apply(module)
        except HookpatchError as error:
            self._entry.become("failed", error)
            raise

    def check(self) -> list[Any]:
        """Raise like ``begin`` if a required patch cannot be applied to the imported module; change nothing.

        Return the objects for the search of holders, if the patch needs a search.
        """
        patch = self._asked.patch
        if patch.required:
            guard.check_not_run(patch, self._owner)
        module = imports.present(patch.module) if patch.module is not None else None
        if not patch.required or patch.target is None or (module is None and patch.module is not None):
            return []
        if self._prepared(module) is not None:
            return []
        try:
            guard.check_patch(patch, self._scope, self._owner)
            if patch.target.of_instances is not None:
                if _of_instances().awaited(patch) is None:
                    _of_instances().check(patch, module, self._owner)
                if self._drift is not None and self._drift.policy == "error":
                    self._drift.look(patch, seen_from(patch.target, module, self._owner), self._owner)
                return []
            if (edited := self._edited_class(module)) is not None:
                return [thing for part in edited.parts for thing in part.check()]
            slot, _, everywhere = self._checked_slot(module, anew=False)
            if self._drift is not None and self._drift.policy == "error":
                self._drift.look(patch, slot, self._owner)
            return [] if everywhere is None else everywhere.held()
        except HookpatchError as error:
            self._entry.become("failed", error)
            raise

    def _checked_slot(self, module: ModuleType | None, anew: bool) -> tuple[Slot, Any, Any]:
        """Return the slot of the target, the owner's own value without our layers, and the finder of other places.

        The finder is None for a patch of the slot alone. Raises if the patch does not fit.
        """
        patch = self._asked.patch
        assert patch.target is not None  # only enter has no target
        slot = resolve(patch.target, module, self._owner)
        if anew:
            site_at(slot).refresh()  # first: a site with layers still has the old original
        own = own_beneath(slot)
        guard.check_slot(patch, slot, own, self._owner)
        if patch.reach == "slot":
            return slot, own, None
        changes = [entry.asked.patch.change for entry in self._ledger.entries]
        everywhere = _reach().Everywhere(patch, slot, own, self._asked.goes_to, changes, self._asked.home)
        everywhere.check(self._owner)
        return slot, own, everywhere

    def _edited_class(self, module: ModuleType | None, anew: bool = False) -> EditedClass[Lifecycle] | None:
        """Return the changes of an edit of a class, not applied yet; None for any other patch."""
        asked, patch = self._asked, self._asked.patch
        if patch.verb != "edit" or patch.target is None:
            return None
        slot = resolve(patch.target, module, self._owner)
        if anew:
            site_at(slot).refresh()
        cls = beneath(slot)
        if not issubclass(type(cls), type):
            return None
        last = self._edited[-1] if self._edited else None
        if last is not None and last.cls is cls:
            return last
        with imports.for_ourselves():
            from hookpatch._engine.source.members import members  # few patches edit a class
        patches, doubts = members(cls, patch, self._owner)
        make = partial(Lifecycle, rank=self._rank, ledger=self._ledger, policy=self._policy, scope=self._scope)
        parts = [make(asked._replace(patch=part, rule=asked), count=self._count) for part in patches]
        edited = EditedClass(slot, cls, doubts, parts)
        self._edited = (*self._edited, edited)
        return edited

    def _edit_class(self, edited: EditedClass[Lifecycle], module: ModuleType | None) -> None:
        """Apply the patches of the parts of a class: all or none."""
        if self._is_skipped(edited.slot):
            return
        try:
            for part in edited.parts:
                edited.begun.append(part)  # first: the end of the session restores the part
                part._fit(module, anew=False)
                if self._ended:
                    part.restore([], [], {})
        except Exception as error:
            if not is_interrupt(error):  # else the session restores the parts
                edited.restore([], [], {})
            raise
        entry = self._next_entry()
        entry.become("applied")
        entry.warnings = (*self._warnings, *edited.doubts)

    def restore(self, errors: list[Exception], touched: list[Site], gone: Gone) -> None:
        """Remove all layers, past every error; collect the errors, the layers' sites, and values that may be copied."""
        module = str(self._asked.patch.module)
        never = f"{module} was never imported"
        if self._entry.state == "waiting" and imports.is_overlooked(module):  # asked before the watch is cancelled
            never = imports.past_us(module)
        if self._watch is not None:
            self._watch.cancel()
        self._ended = True
        if self._elsewhere is not None:
            self._elsewhere.cancel()
        touched += [] if self._edited else self.touched
        placed = list(self._placed.values())
        if self._entry.state == "waiting":
            self._entry.become("unused", self._entry.reason or never)
        is_everywhere = self._asked.patch.reach == "everywhere"
        for site, entry in [(applied.site, applied.entry) for applied in placed if is_everywhere]:
            if entry is not None and entry.original is not None:
                own = entry.original
                gone.setdefault(site, Former(site.stands, inner(beneath(site.slot)) if own is ABSENT else own))
        for instances in self._instances:
            instances.deaf()
            if instances.library is not None:
                instances.library.cancel()
            instances.look()
        for applied in reversed(placed):
            undo(applied, self._asked, errors)
        for instances in self._instances:
            instances.ended()
        for edited in reversed(self._edited):
            edited.restore(errors, touched, gone)
        if self._edited and self._entry.state == "applied":
            self._entry.become("restored")
        self._leave(errors)
        if self._change is not None:
            self._change.end()

    def forget(self) -> None:
        """Forget the restored layers and instances. Last: an interrupted restore is repeated."""
        placed = list(self._placed.values())
        entries = [applied.entry for applied in placed if applied.entry is not None]
        entries += [instances.entry for instances in self._instances]
        self._instances = ()
        for edited in self._edited:
            edited.forget()
        self._edited = ()
        for entry in entries:
            entry.original, entry.put = None, ()  # a session may be kept for the report alone
            entry.look = entry.differences = None
        for applied in placed:
            self._placed.pop(applied.site, None)

    def arrive(self, module: ModuleType | None, late: str = "") -> None:
        """Apply the patch to a module executed just now, inside a foreign import.

        ``late``: why the patch of a match is applied at another moment.
        """
        try:
            self._late = late
            self._apply(module, anew=not late)
            for failure in notify.sites_changed(self.touched):
                warnings.warn(str(failure), PatchFailedWarning, stacklevel=2)
        except HookpatchError as error:
            fail_late(self._next_entry(), self._policy, error, is_late=bool(late))
        finally:
            self._ledger.notify()

    # --- the source of a module

    def _begin_source(self) -> None:
        """Change the source at each execution of the module from now on; note whether to run the module anew."""
        asked, patch, name = self._asked, self._asked.patch, str(self._asked.patch.module)
        with imports.for_ourselves():
            from hookpatch._engine.site.order import ordered
            from hookpatch._engine.source.loading import Change  # few patches change a source
        try:
            if self._scope == "task":
                guard.check_patch(patch, self._scope, self._owner)
            guard.check_not_run(patch, self._owner)
            layer = Layer(patch, asked.plugin, self._owner, self._rank, distribution=asked.distribution)
            self._change = Change(layer, self._check_source, self._fail_source)
            self._change.begin(partial(ordered, site=name))
            self._watch = imports.Watch(name, self._has_run)
            if self._watch.begin() is None:
                self._watch.present()
            self._is_beginning = imports.begun(name) and not imports.is_ahead(name)
        except ApplyError as error:
            if patch.required:
                raise
            self._next_entry().become("skipped", error)

    def run_anew(self) -> None:
        """Execute the module of a changed source anew, if the module has run before: once for all of a session.

        Raises:
            HookpatchError: the change does not fit, or the module raises an error.
        """
        change = self._change
        if change is None or not self._is_beginning:
            return
        try:
            if not change.runs:
                change.run_again(is_entering=True)
        except HookpatchError as error:
            if self._asked.patch.required:
                self._entry.become("failed", error)
                raise
        except Exception as error:
            if is_interrupt(error):
                raise
            problem = f"running it anew raised {type(error).__name__}: {error}"
            failure = ApplyError(self._asked.patch.address, self._owner, problem)
            self._entry.become("failed", failure)
            raise failure from error
        finally:
            self._is_beginning = False

    def _check_source(self) -> None:
        self._warnings = ()
        guard.check_patch(self._asked.patch, self._scope, self._owner)
        if (reason := unneeded(self._asked.patch, self._owner)) is not None:
            self._warn(reason, f"{self._asked.patch.address} of {self._owner}: {reason}", PatchUnneededWarning)

    def _fail_source(self, error: ApplyError) -> None:
        """Note an unfit change of the source; raise while the session is entered, else proceed as at any import."""
        if self._is_beginning and self._asked.patch.required:
            raise error
        if self._asked.patch.required:
            late = imports.how_late(self._asked.patch.module)
            fail_late(self._next_entry(), self._policy, error, is_late=bool(late))
        else:
            self._next_entry().become("skipped", error)

    def _has_run(self, module: ModuleType) -> None:
        """Note the execution of the module, inside a foreign import."""
        assert self._change is not None  # made before the watch
        name = str(self._asked.patch.module)
        try:
            if self._change.runs:
                entry = self._entry if self._entry.state == "applied" else self._next_entry()
                entry.become("applied")
                entry.warnings = self._warnings
            elif imports.how_late(name):
                self._fail_source(EditError(name, self._owner, f"{imports.past_us(name)}, and has run as it is"))
            elif getattr(module, "__file__", None) is None and hasattr(module, "__path__"):
                self._fail_source(EditError(name, self._owner, f"{name} is a namespace package, and has no source"))
        finally:
            self._ledger.notify()

    def end_source(self, errors: list[Exception]) -> None:
        """Execute the module anew without the ended changes, if the patch has reload=True."""
        change = self._change
        if change is None:
            return
        if self._asked.patch.reload and change.runs:
            try:
                change.run_again()
            except Exception as error:
                if is_interrupt(error):
                    raise
                if self._entry.state == "applied":
                    self._entry.become("failed", f"could not be run anew: {type(error).__name__}: {error}")
                errors.append(error)
                return
        if self._entry.state == "applied":
            self._entry.become(*(("restored",) if self._asked.patch.reload else ("kept", _KEPT)))

    def _apply(self, module: ModuleType | None, anew: bool = False) -> None:
        """Apply the patch to a module, None for an object at hand; ``anew``: the module was executed just now.

        Raises:
            HookpatchError: the patch does not fit, and is required. An optional patch is skipped.
        """
        patch, owner = self._asked.patch, self._owner
        try:
            try:
                self._guarded(module, anew)
            except (HookpatchError, HookpatchWarning):  # the user can make a warning an error
                raise
            except Exception as error:
                if is_interrupt(error):
                    raise
                problem = f"the {patch.verb} raised {type(error).__name__}: {error}"
                raise ApplyError(patch.address, owner, problem) from error
        except ApplyError as error:
            if patch.required:
                raise
            self._next_entry().become("skipped", error)

    def _guarded(self, module: ModuleType | None, anew: bool) -> None:
        patch, owner = self._asked.patch, self._owner
        self._warnings = guard.unchecked(patch)
        if not (anew or self._late or imports.how_late(patch.module)) and (kept := self._prepared(module)) is not None:
            return self._lay(*kept)
        guard.check_patch(patch, self._scope, owner)
        if how := self._late or imports.how_late(patch.module):
            late = f"applied late: {how}"
            self._warn(late, f"{patch.address} of {owner}: {late}; what ran before that was not patched", LateWarning)
        if (reason := unneeded(patch, owner)) is not None:
            self._warn(reason, f"{patch.address} of {owner}: {reason}", PatchUnneededWarning)
        if patch.verb == "enter":
            assert module is not None  # enter has a module
            return self._enter(module)
        if patch.target is not None and patch.target.of_instances is not None:
            looked_at = seen_from(patch.target, module, owner) if self._drift is not None else None
            return None if looked_at is not None and self._is_skipped(looked_at) else self._over_instances(module)
        if (edited := self._edited_class(module, anew)) is not None:
            return self._edit_class(edited, module)
        return self._fit(module, anew)

    def _fit(self, module: ModuleType | None, anew: bool) -> None:
        """Apply the patch to the slot, and to all other places of the patch, if the patch fits."""
        patch = self._asked.patch
        slot, own, everywhere = self._checked_slot(module, anew)
        callee = inner(slot.inherited() if own is ABSENT else own) if patch.is_around_calls else None
        if type(callee) is FunctionType and not functions_stand_in():
            self._warnings = (*self._warnings, PROXIES)
        self._warnings = (*self._warnings, *guard.proxied(patch, callee))
        if self._is_skipped(slot):
            return None
        if everywhere is not None and everywhere.is_decorated:
            self._warnings = (*self._warnings, _reach().DECORATED)
        places = [(slot, None)] if everywhere is None else everywhere.places(self._ledger.holders)
        if patch.is_narrowed:
            self._follow_imports(everywhere, inner(own))
        if not places:
            self._entry.become("waiting", _NOWHERE)
        for place, words in places:
            try:
                is_inside = isinstance(place, FunctionSlot)
                home = (slot, own) if is_inside else None
                self._lay(site_at(place), None if is_inside else inner(own), words, home)
            except Exception as error:
                if words is None or is_interrupt(error):
                    raise  # the target itself; a report lists other places as stale
        if self._is_simple and not self._warnings:
            keep(patch, module, site_at(slot), own)
        return None

    def _is_skipped(self, slot: Slot) -> bool:
        """Compare a slot with the lock file; return True if the patch is left out because the slot has changed."""
        patch = self._asked.patch
        if self._drift is None or (reason := self._drift.look(patch, slot, self._owner)) is None:
            return False
        if self._drift.policy == "skip":
            self._next_entry().become("skipped", reason)
            return True
        self._warn(reason, f"{reason} (target {patch.address} of {self._owner})", DriftWarning)
        return False

    @property
    def _is_simple(self) -> bool:
        """True if module and slot alone decide whether the patch fits."""
        return self._drift is None and self._scope == "process" and self._asked.patch.reach == "slot"

    def _prepared(self, module: ModuleType | None) -> tuple[Site, Any] | None:
        """Return site and original of a patch that fits as before; None if the fit is unknown."""
        kept = prepared(self._asked.patch) if self._is_simple else None
        return (kept.site, kept.own) if kept is not None and kept.holds(module) else None

    def adopt(self, kept: Prepared, applied_at: float) -> None:
        """Take over a patch applied without a lifecycle, with the time of applying."""
        assert kept.applied is not None  # made when the patch was applied
        assert kept.watch is not None
        self._watch, applied = kept.watch, kept.applied
        self._placed[applied.site] = applied
        self._note(applied, kept.own)
        self._entry.applied_at = applied_at
        applied.layer.notes = applied
        self._watch.tell(self.arrive)

    def _note(self, applied: AppliedLayer, original: object, words: str | None = None) -> None:
        entry = applied.entry = self._next_entry()
        entry.become("applied")
        entry.place, entry.original, entry.put = words, original, applied.layer.put
        entry.warnings, entry.without_effect = () if words else self._warnings, applied.layer.without_effect
        entry.look, entry.differences = applied.look, applied.differences

    def _follow_imports(self, everywhere: Any, original: Any) -> None:
        """Patch the values held by each module imported from now on, if the patch goes to the module."""
        target = site_at(everywhere.slot)

        def arrive(module: ModuleType) -> None:
            for slot, words in everywhere.places_in(module, inner(target.stands)):
                try:
                    self._lay(site_at(slot), original, words)
                except Exception as error:
                    if is_interrupt(error):
                        raise  # else a report lists the place as stale
            self._ledger.notify()

        if self._elsewhere is not None:
            self._elsewhere.cancel()
        self._elsewhere = imports.Watch(imports.ANY, arrive)
        self._elsewhere.begin()
        if self._ended:
            self._elsewhere.cancel()

    def _warn(self, reason: str, message: str, kind: type[HookpatchWarning]) -> None:
        self._warnings = (*self._warnings, reason)
        warnings.warn(message, kind, stacklevel=3)

    def _lay(
        self, site: Site, original: object, words: str | None = None, home: tuple[Slot, Any] | None = None
    ) -> None:
        """Put a layer on a site, and note the original; ``home``: the target, if the function is changed in place."""
        patch = self._asked.patch
        if original is not None and patch.reach == "everywhere":
            self._ledger.note_modules()
        applied, tally = self._layer(site)
        layer = applied.layer
        if not self._place(applied):
            return

        def note() -> None:
            self._note(applied, original, words)
            self._entry.tally = tally

        if home is not None:
            for former in self._placed.values():  # of the module before a reload: the target holds another function
                former.layer.home = None
            layer.home = home
        self._commit(applied, note)
        self._await_library(applied, site, layer)
        is_of_value = patch.verb not in GIVING_VERBS  # of arguments another patch decides, which may come and go
        is_alone = words is None and site.layers == (layer,)
        reasons = [(layer, layer.without_effect)] if layer.without_effect and is_of_value and is_alone else []
        reasons += [(other, by.text) for other, by in newly_hidden(site, layer) if not by.is_meant]
        for other, reason in reasons:
            message = f"{other.patch.address} of {other.owner}: {reason}"
            warnings.warn(message, PatchUnneededWarning, stacklevel=3)

    def _layer(
        self, site: Site, only: Only | None = None, tally: Tally | None = None, patch: Patch | None = None
    ) -> tuple[AppliedLayer, Tally | None]:
        """Return a layer of the patch over a site, not applied yet, and its tally."""
        asked, patch = self._asked, patch or self._asked.patch
        gate: Gate | None = partial(task.only_inside, self._rank[0]) if self._scope == "task" else None
        if only is not None:
            gate = partial(_only, only, gate)
        tally, gate, count = counters(patch, self._count, gate, tally)
        rest = self._rank, gate, self._derived, asked.distribution, count, only
        return AppliedLayer(site, Layer(patch, asked.plugin, self._owner, *rest)), tally

    def _place(self, applied: AppliedLayer) -> bool:
        """Note a layer before applying; return False if the session has ended, or the site has a layer of the patch."""
        site = applied.site
        earlier = self._placed.setdefault(site, applied)
        if self._ended:
            if earlier is applied:
                self._placed.pop(site, None)
            return False
        if earlier is not applied:
            earlier.site.refresh()  # reloaded: the same module with new values
        return earlier is applied

    def _commit(self, applied: AppliedLayer, note: Callable[[], None]) -> None:
        """Apply a noted layer."""
        site, layer = applied.site, applied.layer
        layer.notes = applied
        try:
            site.apply(layer, note)
        except Exception as error:
            layer.end()
            if not is_interrupt(error):  # else the session restores the layer
                self._placed.pop(site, None)
            raise

    def _await_library(self, applied: AppliedLayer | AppliedInstances, site: Site, layer: Layer) -> None:
        """Tell the plugin for torch of a layer once torch is imported, if torch has to know."""
        if applied.library is None and notify.awaits_library(site, layer):
            applied.library = notify.watch_of_library()
            applied.library.begin()
            if self._ended:
                applied.library.cancel()

    def _over_instances(self, module: ModuleType | None) -> None:
        """Apply the patch to the instances of a class: to methods in the class, to values in each instance."""
        patch = self._asked.patch
        parts = _of_instances()
        home = module if isinstance(patch.of, Target) and patch.of.module == patch.module else self._home
        if home is None and (name := parts.awaited(patch)) is not None:
            return self._await_whole(name)
        found = parts.prepared(patch, module, self._owner, home)
        entry = self._next_entry()
        if not found.name:
            return self._exchange(
                entry, parts.Exchange(found, patch, parts.whole(patch, self._owner, home), self._owner)
            )

        def lay(slot: Slot) -> Callable[[], None]:
            return self._lay_instance(applied, slot)

        living = parts.Living(found, patch, self._owner, lay)
        applied = AppliedInstances(entry, living)
        with self._all_or_none(applied):
            for slot in found.in_class:
                only = parts.OnlyFor(found.meant.at(slot.owner, found.name))
                self._lay_quietly(applied, *self._layer(site_at(slot), only, entry.tally))
            applied.born = born = partial(self._born, living)
            applied.deaf = parts.hear(found.meant, born)
            self._hook(applied, parts.of_making(found, born))
            if not found.in_class:
                self._hook_copies(applied)
            living.adopt_all()
        return None

    def _await_whole(self, name: str) -> None:
        """Apply the patch after the import of the module with the object given as of=."""
        of_class = self._asked.patch.module
        self._entry.become("waiting", f"of= is in {name}, which is not imported")

        def arrive(home: ModuleType) -> None:
            self._home = home
            if of_class is None or (module := imports.present(of_class)) is not None:
                self.arrive(module)

        if self._elsewhere is None:
            self._elsewhere = imports.Watch(name, arrive)
            self._elsewhere.begin()
            if self._ended:
                self._elsewhere.cancel()

    def _exchange(self, entry: Entry, exchange: Exchange) -> None:
        applied = AppliedInstances(entry, exchange)
        with self._all_or_none(applied):
            for slot in exchange.places:
                self._lay_quietly(applied, *self._layer(site_at(slot)))
            exchange.check()

    @contextmanager
    def _all_or_none(self, applied: AppliedInstances) -> Iterator[None]:
        """Note that a patch of instances is applied; restore the layers of a failing block."""
        self._instances = (*self._instances, applied)
        try:
            yield
        except Exception as error:
            if not is_interrupt(error):  # else the session restores the instances
                applied.deaf()
                for one in reversed(list(applied.layers.values())):
                    self._placed.pop(one.site, None)
                    undo(one, self._asked, [])
                self._instances = tuple(other for other in self._instances if other is not applied)
            raise
        entry = applied.entry
        entry.become("applied")
        entry.warnings, entry.look = (*self._warnings, *applied.living.doubts()), applied.look
        entry.instances = applied.living.count()

    def _lay_instance(self, instances: AppliedInstances, slot: Slot) -> Callable[[], None]:
        """Apply the patch to an instance; return the function that forgets the layer of a dead instance."""
        self._hook_copies(instances)
        patch, of = self._asked.patch, instances.living.of
        if of.in_class:
            patch = _of_instances().for_one(patch, slot.owner)
        applied, tally = self._layer(site_at(slot), tally=instances.entry.tally, patch=patch)
        self._lay_quietly(instances, applied, tally)

        def forget() -> None:
            applied.layer.end()
            self._placed.pop(applied.site, None)
            instances.layers.pop(applied.site, None)

        return forget

    def _hook(self, instances: AppliedInstances, hooks: Iterable[tuple[Slot, Patch]]) -> None:
        """Apply hookpatch's own patches, which notice new instances."""
        # An owner of their own, in conflict with no other owner.
        owner = f"hookpatch for {self._asked.patch.address} ({-self._rank[1]}) of {self._owner}"
        for slot, hook in hooks:
            site = site_at(slot)
            self._unseen = {*self._unseen, site}
            self._lay_quietly(instances, AppliedLayer(site, Layer(hook, None, owner, self._rank)), None)

    def _hook_copies(self, instances: AppliedInstances) -> None:
        if not instances.hears_copies:
            self._hook(instances, _of_instances().of_copies(instances.living.of, instances.born))
            instances.hears_copies = True  # last: an interrupted look is repeated

    def _lay_quietly(self, instances: AppliedInstances, applied: AppliedLayer, tally: Tally | None) -> None:
        """Apply a layer among many, with an entry outside of all reports."""
        if not self._place(applied):
            return
        instances.layers[applied.site] = applied
        instances.entry.tally = tally or instances.entry.tally

        def note() -> None:
            applied.entry = Entry(self._asked)
            applied.entry.become("applied")

        try:
            self._commit(applied, note)
        except Exception as error:
            if not is_interrupt(error):
                instances.layers.pop(applied.site, None)
            raise
        self._await_library(instances, applied.site, applied.layer)

    def _born(self, living: Living, thing: Any) -> None:
        """Patch an instance made just now, amid foreign code."""
        if self._ended:
            return
        try:
            if (site := living.born(thing)) is not None:
                for failure in notify.sites_changed([site]):
                    warnings.warn(str(failure), PatchFailedWarning, stacklevel=4)
        except Exception as error:
            if is_interrupt(error):
                raise
            message = f"not patched: an instance made just now: {error}"
            warnings.warn(message, PatchFailedWarning, stacklevel=4)

    def _enter(self, module: ModuleType) -> None:
        entry = None
        while (entered := self._taken()) is not None:
            entry = entered.entry
            entered.stack.close()  # reloaded: leave the context manager of the old content
        stack = ExitStack()
        entry = entry or self._next_entry()
        self._entered.append(entered := Entered(entry, stack))  # first: the end of the session leaves it
        try:
            stack.enter_context(self._asked.patch.change(module))
        except Exception as error:
            if not is_interrupt(error) and entered in self._entered:
                self._entered.remove(entered)
            raise
        entry.become("applied")
        entry.warnings = self._warnings
        if self._ended:
            errors: list[Exception] = []
            undo(entered, self._asked, errors)
            if errors:
                raise errors[0]

    def _next_entry(self) -> Entry:
        """Return the waiting entry, or a new entry for a module imported more than once."""
        if self._entry.state != "waiting":
            self._entry = self._ledger.open(self._asked, again=True)
        return self._entry

    def _leave(self, errors: list[Exception]) -> None:
        while (entered := self._taken()) is not None:
            undo(entered, self._asked, errors)

    def _taken(self) -> Entered | None:
        try:
            return self._entered.pop() if self._entered else None
        except IndexError:  # another thread took the last
            return None


def fail_late(entry: Entry, policy: Policy, error: HookpatchError, is_late: bool) -> None:
    """Note that a patch or rule does not fit a module imported just now: warn, or end the program."""
    entry.become("failed", error)
    patch = entry.asked.patch
    if patch.required and policy == "exit" and not (is_late or imports.how_late(patch.module)):
        raise refusal(for_stderr(error)) from error
    warnings.warn(f"not patched: {error}", PatchFailedWarning, stacklevel=3)


def restore_copies(gone: Gone, were_there: frozenset[str], errors: list[Exception]) -> None:
    """Restore the originals in modules that copied our values from the slots; collect the errors.

    ``were_there``: the names of the modules imported before the session.
    """
    # A look at all objects takes long, and mostly no module has copied a value.
    left = [
        former
        for site, former in gone.items()
        if not site.layers and site.may_be_copied(former) and not _inherits_other(site, former)
    ]
    if ended := {id(former.value): former for former in left}:
        _reach().restore_copies(ended.values(), were_there, errors.append)


def _inherits_other(site: Site, former: Former) -> bool:
    """Return True for a method of a base class that is now wrapped: our ended wrapper finds the wrapper of the base."""
    slot = site.slot
    return (
        former.original is not ABSENT
        and slot.in_class is not None
        and site.original is ABSENT
        and inner(slot.inherited()) is not former.original
    )


def look_for_holders(ledger: Ledger, things: list[Any]) -> None:
    """Note the holders of objects: a single look for all patches of a session."""
    ledger.holders = _reach().holders(things)


def _only(only: Only, gate: Gate | None, wrapper: Wrapper) -> Wrapper:
    return only.around(wrapper if gate is None else gate(wrapper))


def _of_instances() -> Any:
    with imports.for_ourselves():
        from hookpatch._engine.instances import prepare  # most patches mean no instances
    return prepare


def _reach() -> Any:
    with imports.for_ourselves():
        from hookpatch._engine.site import reach  # most patches need no search for holders
    return reach
