"""What stands in a slot for call layers that lie together: made once, the same object while layers come and go."""

from __future__ import annotations

import inspect
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from types import CellType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any, Final, cast, final
from weakref import ReferenceType, ref

from hookpatch import _imports
from hookpatch._attribute_slot import AttributeSlot
from hookpatch._function_slot import FunctionSlot
from hookpatch._layer import Layer
from hookpatch._slot import Slot, inner
from hookpatch._trampoline import HOOK, Swap, Trampoline, is_trampoline, pass_through


@final
class Standing:
    """What stands in a slot for a run of call layers. Lives as long as its site; a leaked one passes through.

    Attributes:
        base: what it stands over, as it lay in the slot.
        value: what to put into the slot.
        layers: what it runs, the outermost first.
    """

    __slots__ = ("__weakref__", "_binds", "_bottom", "_callee", "_inner", "_top", "base", "layers", "value")

    def __init__(self, base: Any, slot: Slot, own: bool) -> None:
        self.base: Final = base
        self.layers: Sequence[Layer] = ()
        self._inner: dict[Layer, Trampoline] = {}
        self._top: Trampoline | None = None
        self._callee: Any = inner(base)
        self._binds = binds(slot, base)
        inherits = not own and slot.in_class is not None
        if isinstance(slot, FunctionSlot):
            assert slot.copy is not None  # the site has made it
            self._bottom: Callable[..., Any] = base if isinstance(base, FunctionType) else _calling(base, slot.copy)
            self._top = Trampoline(self._bottom, self._bottom, self._binds)
            self.value: Any = Swap(slot.copy, self._top)
        elif isinstance(self._callee, FunctionType) or (inherits and isinstance(self._callee, _METHODS)):
            self._bottom = _inherited(slot, self._callee, base) if inherits else self._callee
            like: Any = self._callee if isinstance(self._callee, FunctionType) else self._bottom
            self._top = Trampoline(like, self._bottom, self._binds)
            self.value = self._top.function if base is self._callee else type(base)(self._top.function)
        else:
            with _imports.for_ourselves():
                from hookpatch._proxy import Proxy  # wrapt is heavy, and most patches are on functions

            self.value = Proxy(base, _reference(slot))

    @property
    def seen(self) -> Any:
        """What a layer that lies over it gets to see: inside a function the trampoline, else what is in the slot."""
        return self._top.function if isinstance(self.value, Swap) and self._top is not None else self.value

    @property
    def links(self) -> list[tuple[CellType, Layer]]:
        """The links of its functions, each with the layer that is called there."""
        first = [(self._top.link, layer) for layer in self.layers[:1]] if self._top is not None else []
        return [*first, *((trampoline.link, layer) for layer, trampoline in list(self._inner.items()))]

    def fit(self, layer: Layer) -> None:
        """Have a layer get ready to run here; raises what ``Layer.fit`` does."""
        layer.fit(self._callee, self._binds, int(self._binds and self._top is not None))

    def bear(self, something: object) -> None:
        """Keep something alive as long as what stood in the slot is."""
        _borne(self.value).append(something)

    def let_go(self, something: object) -> None:
        """Keep it alive no more."""
        _borne(self.value).remove(something)

    def point(self, layers: Sequence[Layer], by_one: bool = False) -> None:
        """From now on run these layers, the outermost first; ``by_one``: one more or one less than before."""
        before, self.layers = self.layers, layers
        if self._top is None:
            self.value._self_point(layers)
            return
        if len(layers) < 2 and not self._inner:  # nothing lies beneath another
            if layers:
                self._aim(self._top, 0)
            else:
                self._top.point(pass_through, self._bottom)
            return
        at = _one_between(before, layers, by_one)
        for place in reversed(range(len(layers))) if at is None else (at + 1, at, at - 1):
            if 0 <= place < len(layers):
                self._aim(self._top, place)
        if not layers:
            self._top.point(pass_through, self._bottom)
        # A call may be on its way to a layer that has gone: it goes on to what lay beneath, and runs nothing twice.
        if at is not None and len(layers) < len(before):
            self._take_out(before[at], self._beneath(at - 1))
        elif at is None and self._inner:
            for place in reversed(range(len(before))):
                beneath = next((layer for layer in before[place + 1 :] if layer in self._inner), None)
                if before[place] not in layers:
                    self._take_out(before[place], self._bottom if beneath is None else self._inner[beneath].function)

    def _beneath(self, place: int) -> Callable[..., Any]:
        """Return what the layer at a place calls: the next one inside has been aimed before."""
        inside = self.layers[place + 1 : place + 2]
        return self._inner[inside[0]].function if inside and inside[0] in self._inner else self._bottom

    def _aim(self, top: Trampoline, place: int) -> None:
        """Have what runs the layer at a place call it around the next one inside."""
        layer, below = self.layers[place], self._beneath(place)
        if place and layer not in self._inner:
            # One for each inner layer, kept as long as the layer: an outer wrapper may hold it in a variable.
            self._inner[layer] = Trampoline(top.function, self._bottom, self._binds)
        if layer in self._inner:
            self._inner[layer].point(layer.call, below, layer.owner, layer.asks_for_object)
        if not place:
            top.point(layer.call, below, layer.owner, layer.asks_for_object)

    def _take_out(self, layer: Layer, below: Callable[..., Any]) -> None:
        """Let a layer that has gone pass through to what lies beneath."""
        if layer in self._inner:
            self._inner.pop(layer).point(pass_through, below)


def retire(
    standings: Sequence[Standing], retired: Sequence[ReferenceType[Standing]]
) -> Sequence[ReferenceType[Standing]]:
    """Keep pointing what stood in a slot: somebody may hold it still. It is kept by itself, not by the slot's site.

    Args:
        standings: what stands there no more.
        retired: what did before; both together are returned.
    """
    if not standings:
        return retired
    for standing in standings:
        standing.point([layer for layer in standing.layers if not layer.ended])
    if retired:
        retired = bring_back(standings, retired)
    for standing in standings:
        if standing.layers:
            standing.bear(standing)
            retired = [*retired, ref(standing)]
    return retired


def bring_back(
    standings: Sequence[Standing], retired: Sequence[ReferenceType[Standing]]
) -> Sequence[ReferenceType[Standing]]:
    """Have these not keep themselves any more; return the other retired ones that somebody holds."""
    held = [(weak, one) for weak, one in ((weak, weak()) for weak in retired) if one is not None]
    for _, one in held:
        if one in standings:
            one.let_go(one)
    return [weak for weak, one in held if one not in standings]


def _one_between(before: Sequence[Layer], after: Sequence[Layer], is_known: bool) -> int | None:
    """Return where one has a layer that the other has not; None if they differ in more. ``is_known``: they do not."""
    short, long = sorted((before, after), key=len)
    if len(long) != len(short) + 1:
        return None
    at = bisect_left(range(len(short)), True, key=lambda place: short[place] is not long[place])
    return at if is_known or ([*short[:at]] == [*long[:at]] and [*short[at:]] == [*long[at + 1 :]]) else None


def bear(value: object, something: object) -> bool:
    """Have what stood in a slot keep something alive as long as it is itself; return False if it is none of ours."""
    if is_ours(value):
        _borne(value).append(something)
        return True
    return False


def is_ours(value: object) -> bool:
    """Tell whether a value is what stood in a slot for call layers."""
    callee = inner(value)
    if type(callee) is FunctionType:
        return is_trampoline(callee)
    return type(value) is Swap or is_proxy(value)


def is_proxy(value: object) -> bool:
    """Tell whether a value is what stood in a slot for something to call that is no Python function."""
    return getattr(type(inner(value)), "__module__", None) == "hookpatch._proxy"


def _borne(value: Any) -> list[object]:
    """Return the list of what it keeps alive."""
    callee = value.keyword_defaults[HOOK] if type(value) is Swap else inner(value)
    if type(callee) is FunctionType:
        return cast("list[object]", vars(callee).setdefault(HOOK, []))
    return cast("list[object]", callee._self_borne)


def binds(slot: Slot, held: Any) -> bool:
    """Tell whether what lies in a slot gets the object or class that it is called on as its first argument."""
    if isinstance(slot, FunctionSlot):
        return slot.binds
    return slot.in_class is not None and hasattr(type(held), "__get__") and not isinstance(held, (staticmethod, type))


# Functions of C that get the object that they are called on.
_METHODS: Final = (MethodDescriptorType, WrapperDescriptorType)


def _calling(value: Callable[..., Any], like: FunctionType) -> FunctionType:
    """Return a function that calls something else that can be called, with the name and signature of a function."""

    def below(*args: Any, **kwargs: Any) -> Any:
        return value(*args, **kwargs)

    return cast(FunctionType, wraps(like)(below))


def _inherited(slot: Slot, like: Any, base: Any) -> FunctionType:
    """Return a function that calls what the owner inherits, looked up at each call: its base may get patched too."""
    owner, name = slot.in_class, cast(AttributeSlot, slot).name
    if isinstance(base, staticmethod):

        def below(*args: Any, **kwargs: Any) -> Any:
            return getattr(super(owner, owner), name)(*args, **kwargs)
    else:

        def below(*args: Any, **kwargs: Any) -> Any:
            try:
                callee = getattr(super(owner, args[0]), name)
            except (IndexError, TypeError):
                return like(*args, **kwargs)  # called without an object of the class: as if we were not there
            return callee(*args[1:], **kwargs)

    function = cast(FunctionType, below)
    function.__name__, function.__qualname__, function.__doc__ = like.__name__, like.__qualname__, like.__doc__
    function.__module__ = getattr(like, "__module__", None) or cast(type, owner).__module__
    with suppress(TypeError, ValueError):  # a function of C may tell none
        function.__signature__ = inspect.signature(like)  # type: ignore[attr-defined]  # PEP 362: inspect reads it
    return function


def _reference(slot: Slot) -> tuple[str, str] | None:
    """Return the module and path by which pickle finds what stands in a slot, None when there is none."""
    if not isinstance(slot, AttributeSlot):
        return None
    if slot.in_class is not None:
        return slot.in_class.__module__, f"{slot.in_class.__qualname__}.{slot.name}"
    module = getattr(slot.owner, "__name__", None)
    return (module, slot.name) if isinstance(module, str) and hasattr(slot.owner, "__spec__") else None
