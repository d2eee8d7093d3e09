"""Measure a collection of patches and the port to hookpatch in a separate process.

    python tests/wild/measure.py NAME

Prints as JSON the effects, the leftovers and the number of lines of each. ``ports/NAME.py`` is the port.
``beside/NAME.py`` applies and undoes the collection itself and observes the effects.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from lines import lines_of_file, lines_of_functions

import hookpatch
from hookpatch.errors import SignatureError
from hookpatch.testing import pristine

HERE: Final = Path(__file__).parent
ABOUT_ITSELF: Final = re.compile(r" is patched by | is waited for$|^<Session of .* is open$")  # made by hookpatch

IMPORTED: Final = re.compile(r" was absent, is module ")  # an import adds a module to its package
weakref.finalize(type("Anything", (), {})(), int)  # the first use in a process changes finalize


class Side(NamedTuple):
    """The measurements of a collection, or of the port.

    Attributes:
        lines: how many lines apply and undo the patches; 0 if the number means nothing.
        effect: each observed place, and whether the patch takes effect there.
        changed: the places that the patch changes, anywhere in the process.
        left: the places that differ after the end, and the effects that remain.
    """

    lines: int
    effect: dict[str, bool]
    changed: list[str]
    left: list[str]


def everything(own: tuple[str, ...]) -> Iterator[object]:
    """Yield each module of the process and each class in a module, except the packages in ``own``."""
    visited = set()
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or name.partition(".")[0] in own:
            continue
        for value in (module, *list(vars(module).values())):
            if isinstance(value, type) and str(value.__module__).partition(".")[0] in own:
                continue
            if isinstance(value, ModuleType | type) and id(value) not in visited:
                visited.add(id(value))
                yield value


def differences(block: AbstractContextManager[None], names: dict[int, str]) -> list[str]:
    """Leave a block of ``pristine`` and return the changed places."""
    try:
        block.__exit__(None, None, None)
    except AssertionError as error:  # NotPristine
        lines = [line for line in error.differences if not IMPORTED.search(line)]
        return sorted({shown(line, names) for line in lines})
    return []


def shown(difference: str, names: dict[int, str]) -> str:
    """Return a difference without numbers that vary from run to run."""
    place, was, _ = difference.partition(" was ")
    place = re.sub(r"<[^<>]* at (0x[0-9a-f]+)>", lambda match: names.get(int(match[1], 16), match[0]), place)
    if " was absent, is " in difference:
        return f"{place} (added)"
    return f"{place} (missing)" if was and difference.endswith("is absent") else place


def measure_patches(beside: Any, apply: Callable[[], object], undo: Callable[[], object], lines: int) -> Side:
    """Apply patches, look, undo the patches, and look again."""
    named: dict[str, object] = getattr(beside, "owners", dict)()
    names = {id(owner): name for name, owner in named.items()}
    state: Callable[[], dict[str, object]] = getattr(beside, "state", dict)
    owners = [*everything(("__main__", "beside", "ports", "hookpatch", *beside.OWN)), *named.values()]
    values, for_good, meanwhile = state(), pristine(*owners, order=True), pristine(*owners)
    for_good.__enter__()
    meanwhile.__enter__()
    apply()
    changed = [line for line in differences(meanwhile, names) if not ABOUT_ITSELF.search(line)]
    effect = beside.observe()
    undo()
    leftovers = differences(for_good, names)
    leftovers += [f"{name}: {values[name]} became {value}" for name, value in state().items() if value != values[name]]
    leftovers += [f"in effect: {label}" for label, holds in beside.observe().items() if holds]
    return Side(lines, effect, changed, leftovers)


def covered(beside: Any, apply: Callable[[], object], undo: Callable[[], object]) -> list[str]:
    """Wrap a patched function with a foreign wrapper, undo the patch, and return the problems."""
    owner, name = beside.covered()
    original = getattr(owner, name)
    apply()
    below = getattr(owner, name)
    theirs = functools.wraps(below)(lambda *args, **kwargs: below(*args, **kwargs))
    setattr(owner, name, theirs)
    undo()
    wrong = [] if getattr(owner, name) is theirs else ["the other wrapper is gone"]
    wrong += [f"in effect: {label}" for label, holds in beside.observe().items() if holds]
    setattr(owner, name, original)
    return wrong


def misfits(patches: list[hookpatch.Patch]) -> list[str]:
    """Return the targets of patches that disable the signature check and would fail the check."""
    addresses = []
    for patch in patches:
        if not patch.check_signature:
            try:
                with hookpatch.active(dataclasses.replace(patch, check_signature=True)):
                    pass
            except SignatureError:
                addresses.append(patch.address)
    return addresses


def measure(name: str) -> dict[str, Any]:
    """Measure first the port, which leaves no change behind, and second the collection."""
    beside: Any = import_module(f"beside.{name}")
    port: Any = import_module(f"ports.{name}")
    if any((at_first := beside.observe()).values()):
        raise SystemExit(f"{name}: seen without any patch: {at_first}")
    patches = list(port.hookpatch_patches())
    bodies = getattr(beside, "BODIES", frozenset())
    session = hookpatch.active(*patches)
    ways = {
        "port": (session.open, session.close, lines_of_file(HERE / "ports" / f"{name}.py", bodies)),
        "own": (beside.apply, beside.undo, lines_of_functions(beside.SOURCES, bodies) if beside.SOURCES else 0),
    }
    release = f"{beside.DISTRIBUTION} {version(beside.DISTRIBUTION)}" if beside.DISTRIBUTION else ""
    results: dict[str, Any] = {"release": release, "patches": len(patches), "misfits": misfits(patches)}
    for side, (apply, undo, lines) in ways.items():
        results[side] = measure_patches(beside, apply, undo, lines)._asdict()
    for side, (apply, undo, _) in ways.items() if hasattr(beside, "covered") else ():
        results[side]["covered"] = covered(beside, apply, undo)
    return results


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    print(json.dumps(measure(sys.argv[1]), indent=1))
