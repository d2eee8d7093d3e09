"""Choose the rounds of a loop to walk."""

from __future__ import annotations

from typing import Final

from hookpatch_export._values.value import Known, Seq, Value

_UNROLLED: Final = 8  # rounds; of a longer tuple only items that differ are walked


def rounds_of(whole: Seq) -> tuple[list[Value], bool]:
    """Return the loop variable's value in each round to walk, and True if these are all rounds."""
    if whole.items is None:
        return [whole.each, whole.each], False
    if len(whole.items) <= _UNROLLED:
        return list(whole.items), bool(whole.items)
    return _different(whole.items), False


def _different(items: tuple[Value, ...]) -> list[Value]:
    """Keep the first item, the last item and one of each kind: a model's layers are mostly alike."""
    kinds: dict[object, Value] = {}
    for item in items:
        kinds.setdefault(_kind_of(item), item)
    return [*kinds.values(), items[-1]]


def _kind_of(item: Value) -> object:
    if isinstance(item, Known) and hasattr(item.obj, "named_modules"):
        return tuple(
            (
                name,
                type(part),
                *(
                    setting
                    for key, setting in vars(part).items()
                    if isinstance(setting, str | bool) and key != "training"
                ),
            )
            for name, part in item.obj.named_modules()
        )
    return type(item)
