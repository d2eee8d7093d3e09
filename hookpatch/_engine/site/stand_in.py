"""The stand-in of a run of call layers: the wrapper in the slot, the same object while layers come and go."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from inspect import Parameter
from itertools import zip_longest
from types import CellType, CodeType, FunctionType
from typing import Any, Final, cast, final
from weakref import ReferenceType, ref

from hookpatch._bootstrap import imports
from hookpatch._engine.calls.beneath import METHODS, calling, inherited, looking_up
from hookpatch._engine.calls.shortcut import Shortcut, shortcut
from hookpatch._engine.calls.signatures import takes
from hookpatch._engine.calls.trampoline import HOOK, Swap, Trampoline, is_changed_in_place, is_trampoline, pass_through
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.layers.rivals import Among
from hookpatch._engine.slots.attribute import AttributeSlot, look_up_of
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.slot import Slot, inner
from hookpatch._engine.slots.trial import functions_stand_in

_NO_RANKS: Final[frozenset[tuple[int, ...]]] = frozenset()
_NO_TRAMPOLINES: Final[dict[Layer, Trampoline]] = {}  # shared: an empty dict for each patch takes 64 bytes


@final
class StandIn:
    """Our wrapper (``value``) of a ``base`` for a run of call layers, the outermost first.

    Lives as long as the site; a leaked wrapper passes calls through. ``derived_by``: the ranks of the layers that have
    derived a value from the wrapper, and of the ended layers that gave a former base.
    """

    __slots__ = (
        *("__weakref__", "_alone", "_binds", "_bottom", "_callee", "_inner", "_top", "base", "derived_by", "layers"),
        "value",
    )

    def __init__(self, base: Any, slot: Slot, own: bool) -> None:
        self.layers: Sequence[Layer] = ()
        self.derived_by = _NO_RANKS
        self._inner = _NO_TRAMPOLINES  # replaced, never changed: other threads read the dict
        self._top: Trampoline | None = None
        self._binds = binds(slot, base)
        self.base = base
        self._callee: Any = inner(base)
        self._bottom: Any = _bottom(base, self._callee, slot, own)
        if isinstance(slot, FunctionSlot):
            assert slot.copy is not None  # made by the site
            self._top = Trampoline(self._bottom, self._bottom, self._binds)
            self.value: Any = Swap(slot.copy, self._top, self._bottom)
        elif isinstance(self._bottom, FunctionType) and functions_stand_in():
            like: Any = self._callee if isinstance(self._callee, FunctionType) else self._bottom
            self._top = Trampoline(like, self._bottom, self._binds)
            self.value = self._top.function if base is self._callee else type(base)(self._top.function)
        else:
            with imports.for_ourselves():
                # wrapt is slow to import, and mostly not needed
                from hookpatch._engine.site.proxy import Proxy, reference

            self.value = Proxy(base, reference(slot), look_up_of(slot, own))
        self._alone: Final = self._references()

    def rest_on(self, base: Any, own: bool, slot: Slot, layers: Sequence[Layer], ended: Layer) -> None:
        """Take another base and run a list of layers, since the layer that gave the present base has ended.

        Foreign code may hold the wrapper. The wrapper looks like the former base. No new layer comes but those inside
        of the ended layer: beneath another wrapper, they would override the arguments that this wrapper gives.
        """
        is_alike = self._top is not None or type(base) is type(self.base)
        if not (callable(inner(base)) and is_alike and binds(slot, base) == self._binds):
            return  # a value, or the wrapper would bind the new base in another way
        self._callee = inner(base)
        self._bottom = _bottom(base, self._callee, slot, own)
        self.derived_by |= {ended.rank}
        if self._top is None:
            self.value._self_rest_on(base, look_up_of(slot, own))
        elif not isinstance(self._bottom, FunctionType):
            self._bottom = calling(self._bottom, self._top.function)
        self.point(layers, anew=True)
        self.base = base  # last: an interrupted change is repeated

    @property
    def is_free(self) -> bool:
        """True if no other code holds the wrapper of a Python function, and the wrapper can be used again unseen."""
        is_plain = self._top is not None and self.value is self._top.function and self.base is self._callee
        is_simple = is_plain and self.foreign_code is None and not (self._inner or self.derived_by)
        return is_simple and self._references() == self._alone

    def has_holders(self, count: int) -> bool:
        """Return True if the wrapper has exactly ``count`` holders beside this stand-in: no other code is a holder."""
        return self._references() == self._alone + count

    def _references(self) -> int:
        """Return the reference count of the wrapper: asked here alone, since the way of asking counts, too."""
        return sys.getrefcount(self.value)

    @property
    def foreign_code(self) -> CodeType | None:
        """The code that other code has assigned to a wrapper; None if each wrapper has its own."""
        if self._top is None:
            return None
        functions = [trampoline.function for trampoline in (self._top, *self._inner.values()) if trampoline]
        return next((function.__code__ for function in functions if not is_trampoline(function)), None)

    @property
    def link(self) -> CellType | None:
        """The cell of the wrapper's link; None for a wrapper that is no plain function."""
        return None if self._top is None or isinstance(self.value, Swap) else self._top.link

    @property
    def value_for_outer(self) -> Any:
        """The value for an outer layer: for a function changed in place the trampoline, else the wrapper."""
        return self._top.function if isinstance(self.value, Swap) and self._top is not None else self.value

    @property
    def links(self) -> list[tuple[CellType, Layer]]:
        """The links of all trampolines, each with the layer."""
        tops = [] if self._top is None else [self._top.link]
        return [*zip(tops, self.layers, strict=False), *((inside.link, layer) for layer, inside in self._inner.items())]

    def links_alone(self, layer: Layer) -> list[CellType]:
        """Return the links of a layer; from now on the wrapper runs the layer by a link, without a shortcut."""
        for trampoline in filter(None, (self._top, *self._inner.values())):
            trampoline.shorten(None)
        return [link for link, of_layer in self.links if of_layer is layer]

    def parameters(self) -> list[Parameter] | None:
        """Return the parameters of the callable below; None without a signature."""
        return takes(self._callee, self._binds)

    def fit(self, layer: Layer, parameters: list[Parameter] | None) -> None:
        """Prepare a layer to run here, over a callable with the parameters; raises like ``Layer.fit``."""
        layer.fit(self._callee, self._binds, int(self._binds and self._top is not None), parameters)

    def point(self, layers: Sequence[Layer], anew: bool = False) -> None:
        """Run a list of layers from now on, the outermost first; ``anew``: the callable below has changed."""
        if self._top is None:
            self.layers = layers
            self.value._self_point(layers)
            return
        # A link stays while its layer is around the same layer. Else a change of one layer would make all links anew.
        known = () if anew else self.layers
        links = {*zip_longest(layers, layers[1:])}.difference(zip_longest(known, known[1:]))
        dependent = [layer for layer in layers if layer.depends_on_outer]
        changed = {layer for layer, _ in links}.union(layers[:1], {*layers}.difference(self._inner), dependent)
        among = Among(layers) if dependent else None
        for place, layer in [pair for pair in reversed([*enumerate(layers)]) if pair[1] in changed]:
            if place and layer not in self._inner:
                # A trampoline for each inner layer, kept with the layer: an outer wrapper may hold it in a variable.
                self._inner = {**self._inner, layer: Trampoline(self._top.function, self._bottom, self._binds)}
            below = self._inner[layers[place + 1]].function if place + 1 < len(layers) else self._bottom
            call = layer.between(among, place)
            for trampoline in filter(None, (self._inner.get(layer), None if place else self._top)):
                short = self._shortcut(layers, place, trampoline)
                trampoline.point(call, below, layer.owner, layer.asks_for_object, short)
        if not layers:
            self._top.point(pass_through, self._bottom)
        if isinstance(self.value, Swap):
            self.value.shorten(self._code_in_place(layers))
        # A running call may be about to reach an ended layer: the call goes on to the next, and runs no layer twice.
        gone, below = {*self.layers}.difference(layers), self._bottom
        for layer in reversed([layer for layer in self.layers if layer in self._inner] if gone else ()):
            if layer in gone:
                self._inner[layer].point(pass_through, below)
            below = below if layer in gone else self._inner[layer].function
        if not gone.isdisjoint(self._inner):
            self._inner = {layer: kept for layer, kept in self._inner.items() if layer not in gone}
        self.layers = layers  # last: an interrupted change is repeated

    def _shortcut(self, layers: Sequence[Layer], place: int, trampoline: Trampoline) -> Shortcut | None:
        """Return the shortcut with the effect of the layers from a place on, without a frame; else None."""
        callee: Any = self._callee
        is_plain = type(callee) is FunctionType and self._bottom is callee  # isinstance is true for a foreign proxy
        if (
            not layers[place].gives_plainly
            or not is_plain
            or isinstance(self.value, Swap)
            or callee.__closure__
            or is_changed_in_place(callee)
        ):
            return None
        if (arguments := _arguments_of(layers[place:], callee if self._binds else None)) is None:
            return None
        return shortcut(callee, *arguments, trampoline.function.__code__.co_freevars)

    def _code_in_place(self, layers: Sequence[Layer]) -> CodeType | None:
        """Return code for a function changed in place, with the effect of all layers but without a frame; else None."""
        bottom = self._bottom
        if not layers or bottom is not self.base or type(bottom) is not FunctionType:
            return None
        arguments = _arguments_of(layers, bottom if self._binds else None) if self.value.takes_code_of(bottom) else None
        if arguments is None or arguments[1]:
            return None  # a caller would see other defaults
        if (short := shortcut(bottom, *arguments, ())) is None or short.defaults is not bottom.__defaults__:
            return None
        return short.code if short.keyword_defaults is bottom.__kwdefaults__ else None

    def adds_no_frame(self, layer: Layer) -> bool:
        """Return True if a layer runs here without a frame on the stack."""
        if isinstance(self.value, Swap):
            return self.value.short is not None
        trampoline = self._inner.get(layer, self._top)
        return trampoline is not None and (trampoline.is_short or (self._top is not None and self._top.is_short))


def _arguments_of(layers: Sequence[Layer], method: FunctionType | None) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the arguments that layers inject and default; None for other layers, repeats, or a method's self."""
    arguments: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    names = set(method.__code__.co_varnames[:1]) if method is not None else set()
    for layer in layers:
        if not layer.gives_plainly or not names.isdisjoint(layer.patch.change):
            return None
        names |= layer.patch.change.keys()
        arguments[layer.patch.verb == "default"].update(layer.patch.change)
    return arguments


def keep_pointed(
    stand_ins: Sequence[StandIn], retired: Sequence[ReferenceType[StandIn]], layers: Sequence[Layer]
) -> Sequence[ReferenceType[StandIn]]:
    """Return the retired stand-ins with the stand-ins that have left the slot. The wrapper keeps a stand-in alive.

    While foreign code holds the wrapper, a stand-in runs each layer until the layer's end. A stand-in over a value of
    ours calls the value until the end of the value's layer. ``layers``: the site's layers.
    """
    if not stand_ins:
        return retired
    remaining = {*layers}
    for stand_in in stand_ins:
        if not remaining.issuperset(stand_in.layers):
            stand_in.point([layer for layer in stand_in.layers if layer in remaining])
    given = {number for layer in layers for number in layer.value_ids}
    kept = [each for each in stand_ins if each.layers or id(inner(each.base)) in given] if layers else []
    if retired:
        retired = reuse({*stand_ins}.difference(kept), retired)
    came = [stand_in for stand_in in kept if ref(stand_in) not in retired]
    for stand_in in came:
        _kept_alive_by(stand_in.value).append(stand_in)
    return [*map(ref, came), *retired]


def reuse(stand_ins: set[StandIn], retired: Sequence[ReferenceType[StandIn]]) -> list[ReferenceType[StandIn]]:
    """Return the retired stand-ins without the given stand-ins, no longer kept alive by the wrappers."""
    living = [(weak, stand_in) for weak in retired if (stand_in := weak()) is not None]
    for _, stand_in in living:
        if stand_in in stand_ins:
            with suppress(ValueError):  # an interrupted change is repeated
                _kept_alive_by(stand_in.value).remove(stand_in)
    return [weak for weak, stand_in in living if stand_in not in stand_ins]


def keep_alive(value: object, companion: object) -> bool:
    """Keep an object alive as long as a wrapper of ours; return False if the value is no wrapper of ours."""
    if is_our_wrapper(value):
        _kept_alive_by(value).append(companion)
        return True
    return False


def is_our_wrapper(value: object) -> bool:
    """Return True if a value is a wrapper of ours."""
    callee = inner(value)
    return is_trampoline(callee) if type(callee) is FunctionType else type(value) is Swap or is_proxy(value)


def is_proxy(value: object) -> bool:
    """Return True if a value is a proxy of ours: the wrapper of a callable that is no Python function."""
    return getattr(type(inner(value)), "__module__", None) == "hookpatch._engine.site.proxy"


def _kept_alive_by(value: Any) -> list[object]:
    """Return the list of the objects that a wrapper keeps alive."""
    callee = value.link[-1] if type(value) is Swap else inner(value)
    if type(callee) is FunctionType:
        return cast("list[object]", vars(callee).setdefault(HOOK, []))
    return cast("list[object]", callee._self_kept_alive)


def _bottom(base: Any, callee: Any, slot: Slot, own: bool) -> Any:
    """Return the callable that the innermost layer calls: a function, or the base of a proxy."""
    if isinstance(slot, FunctionSlot):
        assert slot.copy is not None  # made by the site
        return base if isinstance(base, FunctionType) else calling(base, slot.copy)
    if not own and slot.in_class is not None and isinstance(callee, (FunctionType, *METHODS)):
        return inherited(slot.in_class, cast(AttributeSlot, slot).name, base)
    if own or not isinstance(callee, FunctionType):
        return callee
    return looking_up(look_up_of(slot, own), callee)


def binds(slot: Slot, value: Any) -> bool:
    """Return True if the value of a slot gets, as its first argument, the object or class of a method call."""
    if isinstance(slot, FunctionSlot):
        return slot.binds
    return slot.in_class is not None and hasattr(type(value), "__get__") and not isinstance(value, (staticmethod, type))
