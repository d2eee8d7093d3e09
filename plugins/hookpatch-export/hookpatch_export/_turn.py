"""Which turns of a loop are walked."""

from __future__ import annotations

from typing import Final

from hookpatch_export._value import Known, Seq, Value

_UNROLLED: Final = 8  # the items of a tuple are looked at one by one, up to that many


def turns_of(whole: Seq) -> tuple[list[Value], bool]:
    """Return what a loop's variable holds in each turn that is walked, and whether there are no others."""
    if whole.items is None:
        return [whole.each, whole.each], False
    if len(whole.items) <= _UNROLLED:
        return list(whole.items), bool(whole.items)
    return _different(whole.items), False


def _different(items: tuple[Value, ...]) -> list[Value]:
    """Keep the first, the last and one of each kind: a model's layers are mostly alike."""
    kinds: dict[object, Value] = {}
    for one in items:
        kinds.setdefault(_kind_of(one), one)
    return [*kinds.values(), items[-1]]


def _kind_of(one: Value) -> object:
    if isinstance(one, Known) and hasattr(one.obj, "named_modules"):
        return tuple(
            (
                name,
                type(part),
                *(held for key, held in vars(part).items() if isinstance(held, str | bool) and key != "training"),
            )
            for name, part in one.obj.named_modules()
        )
    return type(one)
