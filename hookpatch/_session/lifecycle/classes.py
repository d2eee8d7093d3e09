"""An edit of a class: a patch of each part that the edit changes. An edit of a function is a patch of the slot."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, final

from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.site.site import Site
from hookpatch._engine.slots.originals import beneath
from hookpatch._engine.slots.slot import Slot
from hookpatch._engine.source.members import members
from hookpatch._session.lifecycle.lifecycle import Formers
from hookpatch._session.lifecycle.slots import SlotLifecycle


@final
@dataclass(slots=True, eq=False)
class EditedClass:
    """The functions and attributes changed by an edit of a class.

    Attributes:
        slot: the slot of the class.
        cls: the class.
        doubts: in words, the code that has used the unedited class.
        parts: the lifecycle of each part's patch.
        begun: the lifecycles whose patches were applied, or begun to be.
    """

    slot: Slot
    cls: type
    doubts: tuple[str, ...]
    parts: list[SlotLifecycle]
    begun: list[SlotLifecycle] = field(default_factory=list)

    def restore(self, errors: list[Exception], touched: list[Site], copied: Formers) -> None:
        """Restore all parts, past every error; collect as ``Lifecycle.restore``."""
        for part in reversed([*self.begun]):
            part.restore(errors, touched, copied)

    def forget(self) -> None:
        """Forget the restored parts."""
        for part in self.begun:
            part.forget()


@final
class EditLifecycle(SlotLifecycle):
    """The lifecycle of an edit of a function or class."""

    __slots__ = ("_edited",)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._edited: tuple[EditedClass, ...] = ()  # a further entry after a reload

    @property
    def touched(self) -> list[Site]:
        """See ``Lifecycle``; of a class, the sites of the parts."""
        if not self._edited or self._request.plugin == "hookpatch":
            return super().touched
        return [site for edited in self._edited for part in edited.begun for site in part.touched]

    def _check_target(self, module: ModuleType | None) -> list[Any]:
        edited = self._edited_class(module, anew=False)
        if edited is None:
            return super()._check_target(module)
        return [value for part in edited.parts for value in part.check()]

    def _edited_class(self, module: ModuleType | None, anew: bool) -> EditedClass | None:
        """Return the changes of an edit of a class, not applied yet; None for an edit of a function."""
        request = self._request
        slot = self._slot(module, anew)
        cls = beneath(slot)
        if not issubclass(type(cls), type):
            return None
        last = self._edited[-1] if self._edited else None
        if last is not None and last.cls is cls:
            return last
        patches, doubts = members(cls, request.patch, self._owner)
        parts = [
            SlotLifecycle(
                request._replace(patch=patch, rule=request),
                self._rank,
                self._ledger,
                self._policy,
                self._scope,
                self._count,
            )
            for patch in patches
        ]
        edited = EditedClass(slot, cls, doubts, parts)
        self._edited = (*self._edited, edited)
        return edited

    def _fit(self, module: ModuleType | None, anew: bool) -> None:
        edited = self._edited_class(module, anew)
        if edited is None:
            super()._fit(module, anew)
        elif not self._is_skipped(edited.slot):
            self._edit(edited, module)

    def _edit(self, edited: EditedClass, module: ModuleType | None) -> None:
        """Apply the patches of the parts of a class: all or none."""
        try:
            for part in edited.parts:
                edited.begun.append(part)  # first: the end of the session restores the part
                part._fit(module, anew=False)
                if self._ended:
                    part.restore([], [], {})
        except Exception as error:
            if not is_interrupt(error):  # else the session restores the parts
                for waiting in edited.parts[max(len(edited.begun) - 1, 0) :]:
                    waiting.skip("the edit of the class was refused")
                edited.restore([], [], {})
            raise
        entry = self._next_entry()
        entry.become("applied")
        entry.warnings = (*self._warnings, *edited.doubts)

    def _restore(self, errors: list[Exception], touched: list[Site], copied: Formers) -> None:
        super()._restore(errors, [] if self._edited else touched, copied)
        for edited in reversed(self._edited):
            edited.restore(errors, touched, copied)
        if self._edited and self._entry.state == "applied":
            self._entry.become("restored")

    def forget(self) -> None:
        """Forget the restored layers and parts."""
        for edited in self._edited:
            edited.forget()
        self._edited = ()
        super().forget()
