"""Put the layers of a site in order, and refuse plugins that exclude each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, NamedTuple

from hookpatch._bootstrap.selection import PluginName
from hookpatch._engine.patch.patch import MAKING_VERBS
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.layers.rivals import contested
from hookpatch._engine.slots.function import leads_to
from hookpatch.errors import ConflictError, OrderError


def ordered(layers: Sequence[Layer], site: object) -> list[Layer]:
    """Return layers from the outermost to the innermost.

    By rank: the layers of a later session are outside, and within a session the layer selected first. Outside of all
    are the layers that notice new instances: a new ``__init__`` must not hide them. A layer that declares ``before`` or
    ``after`` moves only as far as declared; the other layers keep their order.

    Args:
        layers: the layers of one site in any order, the new layer last; errors name the new layer. The other layers
            were compared with one another when each was new.
        site: the site, in words for messages.

    Raises:
        OrderError: ``before`` and ``after`` form a cycle.
        ConflictError: two plugins put values of their own, or inject two values for a parameter, and neither plugin
            declares a place; or a single owner does both in one session.
    """
    if len(layers) < 2:
        return list(layers)
    by_rank = sorted(layers, key=lambda layer: (layer.rank[2:], layer.rank), reverse=True)
    _check_pairs(by_rank, layers[-1])
    if not any(layer.patch.before or layer.patch.after for layer in by_rank):
        return _edits_inside(by_rank)
    outside: dict[Layer, list[Layer]] = {
        inner: [outer for outer in by_rank if outer.owner != inner.owner and _declared(outer, inner)]
        for inner in by_rank
    }
    _check_cycles(outside, site)
    result: list[Layer] = []

    def place(layer: Layer) -> None:
        for outer in outside[layer]:
            if outer not in result:
                place(outer)
        result.append(layer)

    # A layer with a declared place moves, the others stay as selected: out to the layer named in ``before``, and no
    # further; in to the layer named in ``after``.
    while waiting := [layer for layer in by_rank if layer not in result]:
        held_back = {
            layer for layer in waiting for outer in outside[layer] if outer in waiting and _waits(layer, outer)
        }
        place(next(layer for layer in waiting if layer not in held_back))
    return _edits_inside(result)


class Hidden(NamedTuple):
    """Why no call reaches a layer.

    Attributes:
        outer: the layer that keeps the calls away.
        text: the reason in words, with the owner of the outer layer.
        is_meant: True if the outer layer was chosen over this layer: by a declared place, in a later session, by hand
            over a plugin, or for some calls or objects alone.
    """

    outer: Layer
    text: str
    is_meant: bool


def hidden_by(layer: Layer, outside: Iterable[Layer], through: Iterable[Layer], function: Any) -> Hidden | None:
    """Return why no call reaches a layer; None if calls reach the layer.

    A ``replace`` or ``remove`` keeps all calls from the layers inside. The same patch can lie in the slot of a target
    whose function is changed in place. Then calls through the slot reach the function only if the new value calls it.

    Args:
        outside: the layers outside of the layer at the same site.
        through: for a layer in a function changed in place, the layers in the slot of the target.
        function: the function changed in place.
    """
    for outer_layer in filter(hides_layers, outside):
        if _hides(outer_layer, layer):
            return _hidden(layer, outer_layer, "", "lies outside")
    for outer_layer in through:
        if _hides(outer_layer, layer) and not leads_to(outer_layer.patch.change, function):
            return _hidden(layer, outer_layer, f" through {outer_layer.patch.address}", "lies there")
    return None


def _hidden(layer: Layer, outer: Layer, way: str, place: str) -> Hidden:
    when = outer.patch.in_calls or (" in the task or thread of its session" if outer.wraps else "")
    if not outer.is_for_all_of(layer):
        when += f" in calls of {outer.patch.address}"
    is_by_hand = outer.plugin is None and layer.plugin is not None
    is_meant = is_by_hand or bool(when) or outer.rank[0] > layer.rank[0] or _declared(outer, layer) is not None
    return Hidden(outer, f"without effect{way}{when}: {outer.patch.verb} of {outer.owner} {place}", is_meant)


def hides_layers(layer: Layer) -> bool:
    """Return True if a layer may keep calls from the layers inside."""
    return layer.patch.verb in ("replace", "remove")


def _hides(outer: Layer, inner: Layer) -> bool:
    """Return True if a layer keeps some calls from an inner layer."""
    if outer.ended or outer.is_left_out or not hides_layers(outer):
        return False
    if outer.patch.is_for_absent:
        return False
    is_for_others = outer.only is not None and inner.only is not None and not outer.only.meets(inner.only)
    return outer.patch.may_meet(inner.patch) and not is_for_others


def _edits_inside(layers: list[Layer]) -> list[Layer]:
    """Return layers with edits moved inside wrappers and rewrites of the whole source, if not declared otherwise."""
    for start in reversed(range(len(layers))):
        place = start
        while layers[place].patch.verb == "edit" and any(map(_is_over_edits, layers[place + 1 : place + 2])):
            if _declared(layers[place], layers[place + 1]):
                break
            layers[place : place + 2] = layers[place + 1], layers[place]
            place += 1
    return layers


def _is_over_edits(layer: Layer) -> bool:
    return layer.wraps or layer.patch.verb == "transform"


def _check_pairs(by_rank: Sequence[Layer], new: Layer) -> None:
    """Raise ConflictError if a new layer and another layer put values that exclude each other."""
    place = len(by_rank)
    for index, layer in enumerate(by_rank if new.patch.verb != "wrap" else ()):
        if layer is new:
            place = index
        elif layer.patch.verb != "wrap":
            _check_values(*((layer, new) if index < place else (new, layer)), later=new)


def _check_values(outer: Layer, inner: Layer, later: Layer) -> None:
    """Raise ConflictError if the value of the inner layer has no effect, and no plugin has declared the order."""
    where = "into the same slot"
    verbs = {outer.patch.verb, inner.patch.verb}
    if verbs == {"edit"} or verbs == {"edit", "transform"}:
        return  # the edited lines decide
    if not outer.patch.is_for_callers_of(inner.patch):
        return  # other callers get the inner layer's value
    if outer.patch.is_for_absent or inner.patch.is_for_absent:
        return  # an existing value stays
    if not outer.is_for_all_of(inner):
        return  # other objects get the inner layer's value
    if outer.wraps or inner.wraps:
        names = contested(outer, inner) if outer.wraps and inner.wraps else []
        if not names and not outer.wraps == inner.wraps == (outer.patch.verb == inner.patch.verb == "replace"):
            return
        where = f"for {', '.join(names)}" if names else where
    earlier = inner if later is outer else outer
    if outer.owner == inner.owner:
        is_one_session = outer.rank[0] == inner.rank[0]
        if is_one_session and outer.patch.verb not in MAKING_VERBS:  # a making verb makes a value of the value below
            problem = f"{outer.owner} puts a value {where} twice ({_verb(outer)}, {_verb(inner)})"
            remedy = "only one of the two can take effect; leave the other out"
            raise ConflictError(later.patch.address, later.owner, f"{problem}, and {remedy}")
    elif outer.plugin and inner.plugin and not (_declared(outer, inner) or _declared(inner, outer)):
        problem = f"{earlier.owner} also puts a value {where} ({_verb(earlier)})"
        remedy = "select only one of the two, or declare the order with before= or after="
        raise ConflictError(later.patch.address, later.owner, f"{problem}; {remedy}")


def _verb(layer: Layer) -> str:
    """Return the verb of a layer, and the rule that matched the slot."""
    return f"{layer.patch.verb} {layer.patch.by_rule}".rstrip()


def _check_cycles(outside: Mapping[Layer, Sequence[Layer]], site: object) -> None:
    """Raise OrderError if layers lie outside each other in a circle."""
    try:
        TopologicalSorter(outside).prepare()
    except CycleError as error:
        # From the first name of the alphabet on, whatever the order of selection.
        around: list[Layer] = error.args[1][:-1]
        names = [layer.plugin or layer.owner for layer in around]
        first = names.index(min(names))
        cycle = [*around[first:], *around[: first + 1]]
        declared = [_declared(outer, inner) or "" for outer, inner in pairwise(cycle)]
        raise OrderError(site, [layer.plugin or layer.owner for layer in cycle], declared) from None


def _waits(layer: Layer, outer: Layer) -> bool:
    """Return True if a layer itself declares a place inside another layer."""
    return _name_of_plugin(outer, layer.patch.after) is not None


def _declared(outer: Layer, inner: Layer) -> str | None:
    """Return the declaration, in words, that puts a layer outside another; None without a declaration."""
    if name := _name_of_plugin(inner, outer.patch.before):
        return f"{outer.owner} declares before='{name}'"
    if name := _name_of_plugin(outer, inner.patch.after):
        return f"{inner.owner} declares after='{name}'"
    return None


def _name_of_plugin(layer: Layer, names: Sequence[str]) -> str | None:
    """Return the first name, with or without ``@distribution``, that means the plugin of a layer."""
    if layer.plugin is None or not names:
        return None
    distribution = (layer.distribution or "").partition(" ")[0]
    return next((name for name in names if PluginName(name).means(layer.plugin, distribution)), None)
