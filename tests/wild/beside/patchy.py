"""patchy: functions edited by a diff."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress

import patchy
import tills
from ports.patchy import DIFF, NEW

DISTRIBUTION, OWN = "patchy", ("patchy",)
SOURCES = ()  # patchy is a library, like hookpatch
edits: list[tuple[object, str]] = []
early = tills.price
TARGETS = {
    "price": tills.price,
    "decorated": tills.decorated,
    "cached": tills.cached,
    "Till.rate": tills.Till.rate,
    "Till.total": tills.Till.total,
}


def apply() -> None:
    for name, function in TARGETS.items():
        with suppress(Exception):  # edits impossible for patchy
            patchy.patch(function, DIFF.format(NEW[name]))
            edits.append((function, DIFF.format(NEW[name])))


def undo() -> None:
    while edits:
        patchy.unpatch(*edits.pop())


def gives(call: Callable[[], object], wanted: object) -> bool:
    tills.cached.cache_clear()
    try:
        return call() == wanted
    except Exception:
        return False
    finally:
        tills.cached.cache_clear()


def observe() -> dict[str, bool]:
    return {
        "a function": gives(lambda: tills.price(), 2),
        "a name bound before": gives(early, 2),
        "inside a decorator": gives(lambda: tills.decorated(), [2]),
        "inside a cache": gives(lambda: tills.cached(), 2),
        "a property": gives(lambda: tills.Till().rate, 2),
        "super() where there was none": gives(lambda: tills.Till().total(), 2),
        "inspect.getsource": "return 2" in inspect.getsource(tills.price),
    }
