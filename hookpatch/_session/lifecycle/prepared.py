"""Results of preparing a patch, kept with the patch: the patch is applied without a lock, and not prepared twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from sys import _getframe
from types import FunctionType, ModuleType
from typing import Any, Final, final
from weakref import ReferenceType

from hookpatch._bootstrap import imports, interrupts
from hookpatch._bootstrap.interrupts import Turn, fast_path, is_interrupt, take_fast_path
from hookpatch._engine.patch.describe import PLAIN
from hookpatch._engine.patch.patch import CALL_VERBS, Patch
from hookpatch._engine.patch.target import Attribute
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.site import Alone, Site
from hookpatch._engine.site.sites import claims
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.slot import Slot, alike
from hookpatch._plugins import notify
from hookpatch._session.ledger import Requested
from hookpatch._session.lifecycle.applied import AppliedLayer

_NONE: Final[dict[str, Any]] = {}  # shared by most patches, never written to


@final
class Prepared:
    """A patch that fits as long as its stamp holds: the same module, class and own value, and no layers on the site.

    Lives as long as the patch, and is used by one session at a time. ``begin`` applies the same layer as a session, but
    without an entry in a ledger. ``applied`` and ``watch`` go to a lifecycle if a lifecycle is needed later.

    Attributes:
        is_first: True until the end of the first session, of a patch prepared without a lock.
        home: the target's slot, for a function changed in place; else None.
        is_kept: False if the results would keep further objects alive after the end of the session.
        number: the number of the session that uses the object, 0 without a session.
        requests: the arguments of a session of the patch alone, by the value of ``children``.
    """

    __slots__ = (
        *("_is_plain", "_session", "alone", "applied", "is_first", "is_kept", "module", "number"),
        *("class_", "home", "own", "ready", "request", "requests", "site", "watch"),
    )

    def __init__(
        self,
        module: ModuleType,
        class_: str | None,
        site: Site,
        own: Any,
        is_plain: bool,
        is_first: bool = False,
        home: AttributeSlot | None = None,
    ) -> None:
        self.module: Final = module
        self.class_: Final = class_  # the name of the class in the module, None for a function of the module
        self.site: Final = site
        self.own: Final = own
        self.home: Final = home
        self._is_plain: Final = is_plain
        self.is_first = is_first
        self.is_kept: Final = home is not None or type(own) in _KINDS
        self.number = 0
        self.requests: dict[str, tuple[tuple[Requested, ...], tuple[Any, ...]]] = _NONE
        self.ready: Any = None  # what a session of the patch alone applies without notes, for the next such session
        self.alone: Alone | None = None
        self.applied: AppliedLayer | None = None
        self.watch: imports.Watch | None = None
        self.request: Requested | None = None  # the request that ``alone`` was made for or compared with
        self._session: Callable[[], Any] | None = None

    def holds(self, module: ModuleType | None) -> bool:
        """Return True if the stamp holds for a module."""
        if self.is_first:  # prepared without a lock: another site of the slot may be known
            return False
        if self.site.layers or not (self.home or isinstance(self.own, FunctionType)):
            return False
        if self.module is not module or not self.is_current:
            return False
        is_home = self.home is None or self.home.read() is self.site.slot.owner
        return is_home and self.is_of_its_class() and self.site.slot.read() is self.own

    @property
    def is_current(self) -> bool:
        """False if the function of the layer, changed in place, has got other defaults."""
        return self.alone is None or self.alone.has_present_defaults

    def is_of_its_class(self) -> bool:
        return self.class_ is None or vars(self.module).get(self.class_) is (self.home or self.site.slot).owner

    def begin(self, request: Requested, number: int, place: int, session: ReferenceType[Any]) -> bool:
        """Apply the patch for a session; return False, with nothing changed, if the stamp does not hold."""
        if self.number or not (self.request is request or self._suits(request)):
            return False
        if self.class_ is not None and not self.is_of_its_class():
            return False
        alone: Any = self.alone  # not None, as ``_suits``
        watch: Any = self.watch
        self.number, self._session = number, session
        if watch.begin_again(self.module, self):
            alone.layer.rank, alone.layer.notes = (number, place), self
            if self.site.lay_again(alone):
                return True
            watch.end_again()
        self.number = 0
        return False

    def write_notes(self, number: int, place: int, session: ReferenceType[Any]) -> None:
        """Write the notes of a patch applied without. On the fast path; repeated after an interrupt."""
        if self.number == number:
            alone: Any = self.alone  # not None while applied, as the watch
            watch: Any = self.watch
            self._session = session
            watch.note_watch(self)
            alone.layer.rank, alone.layer.notes = (number, place), self
            self.site.note_layer(alone)

    def _suits(self, request: Requested) -> bool:
        """Return True if the layer is, or can be made, the layer of a request."""
        if not self._is_plain or (alone := self.alone or self._make_alone(request)) is None:
            return False
        if alone.layer.plugin != request.plugin or alone.layer.distribution != request.distribution:
            return False
        if self.is_first and not claims(self.site):
            return False
        self.request = request
        return True

    def _make_alone(self, request: Requested) -> Alone | None:
        patch = request.patch
        layer = Layer(patch, request.plugin, request.owner, (), distribution=request.distribution)
        try:
            alone = self.site.alone(layer, self.own, self.home)
        except Exception as error:
            if is_interrupt(error):
                raise
            return None  # the opening with locks raises the error, as an error of the patch
        if alone is not None:
            self.applied = AppliedLayer(self.site, layer)
            self.watch = imports.Watch(str(patch.module), self)
            self.alone = alone  # last: ``begin`` relies on all three
        return alone

    def end(self) -> bool:
        """Restore the patch; called again after an interrupt. Return ``is_kept``."""
        alone, watch = self.alone, self.watch
        if watch is not None:
            watch.end_again()
        if alone is not None and alone.is_applied and not self.site.lift_again(alone):
            self.alone = self.request = None  # foreign code holds the wrapper, which passes calls through for ever
        if self.is_first:
            self._forget_first()
        self.number, self._session = 0, None
        return self.is_kept

    def _forget_first(self) -> None:
        """Drop the layer after the first end: the layer refers to the patch, and would be garbage for the collector."""
        if self.alone is not None:
            self.site.spare(self.alone)
        self.alone = self.applied = self.watch = self.request = None
        self.is_first = False

    def undo(self, number: int) -> None:
        """Restore the patch of a collected session, whatever the state of the patch."""
        applied, alone, watch = self.applied, self.alone, self.watch
        if applied is None or alone is None or watch is None or not take_fast_path(_getframe(), self):
            return
        # No session is left to report an error of a plugin.
        notifying = interrupts.begin(partial(notify.sites_changed, [self.site]))
        try:
            is_usual = self.number == number and self.site.lies_alone(alone)
            if is_usual and not self.end():
                forget(alone.layer.patch)
        finally:
            del fast_path[None]
        if not is_usual:
            watch.cancel()
            applied.restore(Requested(alone.layer.patch, alone.layer.plugin, alone.layer.distribution))
            self.hand_over()
        notifying.finish()
        interrupts.end(notifying)

    def finish(self, entrance: object) -> None:
        """Do nothing: ``undo`` is repeated."""

    def hand_over(self) -> None:
        """Leave the layer and the watch to a lifecycle."""
        if self.alone is not None and not self.is_kept:
            forget(self.alone.layer.patch)
        self.alone = self.applied = self.watch = self.request = self._session = None
        self.number = 0

    def needs(self, lock: Turn) -> bool:
        """Return True for the lock of the site."""
        return self.site.lock is lock

    # --- events while the patch is applied

    def __call__(self, module: ModuleType) -> None:
        """Apply the patch to the module after a new execution, by a lifecycle."""
        if (watch := self._handed_over()) is not None:
            watch.fire(module)

    def left_out(self, error: Exception | None) -> Callable[[], None] | None:
        """See ``Notes``."""
        applied = self.applied
        self._handed_over()
        return None if applied is None or applied.entry is None else applied.left_out(error)

    def _handed_over(self) -> imports.Watch | None:
        watch, weak = self.watch, self._session
        session = None if weak is None else weak()
        if session is None:
            return None
        session.make_entries()
        return None if self.watch is watch else watch  # unchanged in the midst of a change by this thread


def is_usual(patch: Patch) -> bool:
    """Return True if no option of the patch asks for more than the slot and the slot's present value."""
    if patch.callers or patch.required_calls or not patch.check_signature or patch.source or patch.is_for_absent:
        return False
    return patch.verb in CALL_VERBS or (patch.verb == "replace" and type(patch.change) is not cached_property)


def is_plain(patch: Patch, slot: Any, own: object) -> bool:
    """Return True if the patch's value for the slot depends on the slot's present value alone."""
    if type(slot) is not AttributeSlot or not slot.is_plain:
        return False
    return patch.verb in CALL_VERBS or not alike(patch.change, own)


_KINDS: Final = (FunctionType, *PLAIN)  # other values would keep further objects alive


def keep(patch: Patch, module: ModuleType | None, slot: Slot, own: object, site: Site) -> None:
    """Note that a patch fits a Python function or a plain value of a module, or of a class of a module.

    ``site``: of the slot, or of the code of the function in the slot.
    """
    if module is None or type(own) not in _KINDS or type(slot) is not AttributeSlot or patch.target is None:
        return
    home = None if type(site.slot) is AttributeSlot else slot
    own_there = own if home is None else site.original
    former = patch._prepared
    earlier = former if former is not None and former.is_current else None
    if earlier is not None and earlier.module is module and earlier.site is site and earlier.own is own_there:
        return
    if patch.requires is None and patch.until is None:
        *way, _ = patch.target.steps
        names = [step.name for step in way if isinstance(step, Attribute)]
        if len(names) == len(way) < 2:
            can_be_fast = is_usual(patch) and is_plain(patch, slot, own) and (home is None or patch.is_around_calls)
            preparation = Prepared(module, names[0] if names else None, site, own_there, can_be_fast, home=home)
            if not take_fast_path(_getframe(), preparation):
                return
            try:
                if (current := patch._prepared) is None or not current.number:  # else in use by another session
                    _note(patch, preparation)
            finally:
                del fast_path[None]


def note_first(patch: Patch, preparation: Prepared) -> None:
    """Note the results of a preparation, unless the patch has others. On the fast path."""
    if patch._prepared is None:
        _note(patch, preparation)


def forget_unused(patch: Patch) -> None:
    """Drop the results of a preparation that no session has used. On the fast path."""
    if (preparation := patch._prepared) is not None and preparation.is_first and not preparation.number:
        forget(patch)


def forget(patch: Patch) -> None:
    """Drop the results of a preparation, after the last look at the site."""
    _note(patch, None)


def _note(patch: Patch, preparation: Prepared | None) -> None:
    if (former := patch._prepared) is not None and not former.number:
        former.alone = former.request = None  # sessions may keep the object, and the wrapper is to have no other holder
    object.__setattr__(patch, "_prepared", preparation)
