"""Put the patches of a plan over one another, as a session does, but write no slot."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import MemberDescriptorType
from typing import Any, Final, TypeAlias, final

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.lock.drift import Drift
from hookpatch._engine.patch.patch import NOT_NEEDED, Patch
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.layers.order import hidden_by
from hookpatch._engine.site.layers.rivals import lost, lost_beneath
from hookpatch._engine.site.sites import site_of
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.slot import Slot, along_mro, mro
from hookpatch._inspect.dry_run import by_target, by_version
from hookpatch._inspect.rehearsal import Outcome, with_matches
from hookpatch._session.additions import additions, behind_additions
from hookpatch._session.ledger import Ledger, Requested
from hookpatch.errors import ApplyError, HookpatchError

_Row: TypeAlias = tuple[int, int]  # the number of a patch, and 0, or the number of a match of the rule


def outcomes_here(requests: Sequence[Requested], is_here: Sequence[bool], drift: Drift | None) -> list[Outcome]:
    """Return the outcomes of one session of all patches; *waiting*: a child process has to look.

    ``is_here``: this process has imported the target of the patch. A child process looks at a patch that runs foreign
    code when applied, and at the patches of the same slot.
    """
    ledger = Ledger()
    for request in requests:
        ledger.open(request)
    outcomes = [
        by_target(request, drift, ledger) if here else by_version(request)
        for request, here in zip(requests, is_here, strict=True)
    ]
    added_by = additions([request.patch for request in requests])
    for number in added_by:
        if requests[number].patch.is_rule or outcomes[number].error == "TargetNotFound":
            outcomes[number] = by_version(requests[number])._replace(place=outcomes[number].place)
    layers = _Layers(requests, outcomes)
    for number in behind_additions(range(len(requests)), added_by):
        layers.add(number)
    return layers.outcomes()


@final
class _Layers:
    """The patches of a plan and their layers, by the key of the slot."""

    def __init__(self, requests: Sequence[Requested], outcomes: Sequence[Outcome]) -> None:
        pairs = zip(requests, outcomes, strict=True)
        rows = [[*with_matches([request], [outcome])] for request, outcome in pairs]
        self._requests: Final = [[request for request, _ in of_patch] for of_patch in rows]
        self._outcomes: Final = [[outcome for _, outcome in of_patch] for of_patch in rows]
        self._layers: Final[dict[tuple[Any, ...], list[Layer]]] = {}
        self._placed: Final[dict[_Row, tuple[Layer, Slot, list[Layer]]]] = {}
        unseen = [row for of_patch in rows for row in of_patch if row[1].state == "waiting"]
        self._unseen_rules: Final = [str(request.patch.module) for request, _ in unseen if request.patch.is_rule]
        places = [(request.patch.verb, outcome.place) for request, outcome in unseen if outcome.place is not None]
        self._unseen: Final = {place.key for _, place in places} | _met_elsewhere(
            row for of_patch in rows for row in of_patch
        )
        self._edited: Final = [place.read() for verb, place in places if verb == "edit"]

    def add(self, number: int) -> None:
        """Put the layers of a patch over the layers of the patches before, or note why the patch is refused."""
        outcomes = self._outcomes[number]
        if outcomes[0].state != "applied":
            return
        for index, outcome in enumerate(outcomes):
            if (place := outcome.place) is None or outcome.state != "applied":
                continue
            request = self._requests[number][index]
            try:
                refused = self._lay((number, index), request, place)
            except HookpatchError as error:
                is_skipped = isinstance(error, ApplyError) and not request.patch.required
                problem = error.problem if isinstance(error, ApplyError) else str(error)
                refused = Outcome(
                    "skipped" if is_skipped else "failed", problem, type(error).__name__, outcome.warnings
                )
            if refused is not None and refused.state != "skipped":
                self._drop(number)
                outcomes[:] = [refused]
                return
            outcomes[index] = refused or outcome

    def _lay(self, row: _Row, request: Requested, place: Slot) -> Outcome | None:
        """Put a layer over the layers of a slot; raise if the layer is refused.

        Return the outcome *waiting* if the child process has to look: at an unseen patch of the slot, or an error.
        """
        rank = sys.maxsize, -row[0]
        layer = Layer(request.patch, request.plugin, request.owner, rank, distribution=request.distribution)
        layers = self._layers.setdefault(place.key, [])
        if self._is_unseen(request.patch.module, place):
            return Outcome("waiting")
        if request.patch.is_of_instances:
            return None  # the layers have other slots
        try:
            site_of(place).try_layers([*layers, layer])
        except HookpatchError:
            raise
        except Exception as error:
            if is_interrupt(error):
                raise
            return Outcome("waiting")
        layers.append(layer)
        self._placed[row] = layer, place, layers
        return None

    def _is_unseen(self, module: str | None, place: Slot) -> bool:
        is_of_edited = any(place.in_class is cls for cls in self._edited)
        is_of_rule = module is not None and any(imports.matches(pattern, module) for pattern in self._unseen_rules)
        return place.key in self._unseen or is_of_edited or is_of_rule

    def _drop(self, number: int) -> None:
        """Forget the layers of a patch: the session is opened without the patch."""
        for row in [row for row in self._placed if row[0] == number]:
            layer, _, layers = self._placed.pop(row)
            layers.remove(layer)

    def outcomes(self) -> list[Outcome]:
        """Return the outcome of each patch, with places and warnings as in a session of all patches."""
        in_order = {
            id(layers): site_of(place).try_layers(layers) for _, place, layers in self._placed.values() if layers
        }
        for (number, index), (layer, place, layers) in self._placed.items():
            of_slot, outcome = in_order[id(layers)], self._outcomes[number][index]
            depth = int(isinstance(place, FunctionSlot)), of_slot.index(layer)
            outside, inside = of_slot[: depth[1]], of_slot[depth[1] + 1 :]
            home = outcome.slot if isinstance(place, FunctionSlot) else None
            through = () if home is None else in_order.get(id(self._layers.get(home.key)), ())
            by = hidden_by(layer, outside, through, place.owner)
            effect = layer.without_effect or lost(outside, layer, inside)
            effect = effect or (lost_beneath(layer, inside) if by is None else by.text)
            outcome = outcome._replace(depth=depth)
            if effect == NOT_NEEDED:
                outcome = outcome._replace(reason=NOT_NEEDED)
            elif effect:
                outcome = outcome._replace(warnings=(*outcome.warnings, effect))
            self._outcomes[number][index] = outcome
        return [
            first._replace(
                matches=tuple(
                    match._replace(outcome=of_match) for match, of_match in zip(first.matches, of_matches, strict=True)
                )
            )
            for first, *of_matches in self._outcomes
        ]


def _met_elsewhere(rows: Iterable[tuple[Requested, Outcome]]) -> set[tuple[Any, ...]]:
    """Return the keys of the slots of patches at which only a child process can look.

    A patch of instances has slots in several objects. An edit of a slot is refused beside patches in place. A subclass
    inherits the value of another patch. Or the code of an owner decides whether a value is stored.
    """
    by_slot: dict[tuple[Any, ...], list[tuple[Patch, Slot, Slot]]] = {}
    met: set[tuple[Any, ...]] = set()
    for request, outcome in rows:
        if outcome.slot is not None and outcome.place is not None:
            by_slot.setdefault(outcome.slot.key, []).append((request.patch, outcome.slot, outcome.place))
            if request.patch.module is not None and _is_stored_by_code(outcome.place):
                met.add(outcome.place.key)
    for of_slot in by_slot.values():
        keys = {place.key for _, _, place in of_slot}
        is_elsewhere = len(of_slot) > 1 and any(patch.is_of_instances for patch, *_ in of_slot)
        if is_elsewhere or (len(keys) > 1 and any(patch.verb == "edit" for patch, *_ in of_slot)):
            met |= keys
        for others in by_slot.values():
            if _inherits(of_slot[0][1], others[0][1]):
                met |= keys | {place.key for _, _, place in others}
    return met


def _inherits(slot: Slot, other: Slot) -> bool:
    """Return True if the class of a slot may inherit the value of another slot."""
    if not (isinstance(slot, AttributeSlot) and isinstance(other, AttributeSlot) and slot.name == other.name):
        return False
    return slot.in_class is not None and any(other.in_class is base for base in mro(slot.in_class)[1:])


def _is_stored_by_code(slot: Slot) -> bool:
    """Return True if the owner's code, or the interpreter for a special attribute, decides about a new value."""
    if isinstance(slot, ItemSlot):
        return not isinstance(slot.owner, dict) and type(slot.owner) is not list
    if not isinstance(slot, AttributeSlot) or slot.is_plain:
        return False
    kind = type(slot.owner)
    member = along_mro(kind, slot.name)
    is_stored = bool(kind.__dictoffset__) and not hasattr(type(member), "__set__")
    if not (is_stored or type(member) is MemberDescriptorType):
        return True
    return along_mro(kind, "__setattr__") is not vars(object)["__setattr__"]
