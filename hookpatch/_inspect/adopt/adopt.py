"""Run a foreign apply function in a throwaway process, and express each of the patches as a patch of hookpatch."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from hookpatch._engine.patch.target import Target
from hookpatch._engine.patch.versions import release_of, releases_like
from hookpatch._engine.slots.slot import ABSENT
from hookpatch._inspect.adopt.changes import Changes
from hookpatch._inspect.adopt.copies import diff_to
from hookpatch._inspect.adopt.recipe import recipe_of, value_at
from hookpatch._inspect.adopt.rules import with_rules
from hookpatch._inspect.adopt.states import States
from hookpatch._inspect.adopt.undo import Undo, called, undo_of
from hookpatch._inspect.adopt.values import SPECIAL, is_lock, take_values
from hookpatch._inspect.audit.snapshot import Change
from hookpatch.errors import TargetSyntaxError


def adopted(request: list[Any]) -> dict[str, Any]:
    """Run an apply function; return the equivalent patches, the inexpressible changes, and changes left by the undo.

    Args:
        request: the address of the function, for example ``package.module:apply``; the address of the undo function,
            or None; the modules to import before.

    Returns:
        ``entries``; ``left``; ``enter``, the module, the way and the name of a working undo, or None; ``others``,
        patches by other distributions meanwhile; ``states``, changes of what is in no slot; ``imported``, the modules
        to import before the function runs; or ``error``, the reason, and ``at``, what cannot be run.
    """
    apply, undo, modules = request
    sys.path.insert(0, os.getcwd())
    steps = [apply]
    try:
        return _adopted(apply, undo, modules, steps)
    except (SystemExit, KeyboardInterrupt):
        raise
    except EOFError:
        return {"error": "it reads the standard input, which is empty here", "at": steps[-1]}
    except BaseException as error:  # foreign code
        return {"error": _in_words(error), "at": steps[-1]}


def _in_words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:  # foreign code
        return type(error).__name__


def _adopted(apply: str, undo_address: str | None, modules: Sequence[str], steps: list[str]) -> dict[str, Any]:
    home = apply.partition(":")[0]
    undos = [(undo_address, undo_address.partition(":")[0])] if undo_address else []
    for step, name in [(apply, home), *((f"--import {name}", name) for name in modules), *undos]:
        steps.append(step)
        import_module(name)  # the undo's module, too: it may keep the originals
    changes, states = Changes(home), States()
    steps.append(apply)
    result = called(value_at(apply))
    steps.append(undo_address or apply)
    is_inert = not (changes.of_apply() or changes.of_no_name() or changes.of_entries())
    undo = undo_of(undo_address, value_at(undo_address) if undo_address else None, result, is_inert)
    changed_states = states.changed()
    of_entries = changes.of_entries()
    of_slots, of_no_name, of_others = changes.of_apply(), changes.of_no_name(), changes.patches_of_others()
    written = frozenset(changes.addresses() | changes.written_names())
    entries = with_rules([_entry(target, of_slots, home, written) for target in of_slots], of_slots)
    for others in of_no_name, of_entries:
        entries += [_entry(target, others, home, written) for target in others]
    changed = {**of_slots, **of_no_name, **of_entries}
    targets = [*changed]
    beside = changes.addresses() - {*targets}
    unrestored: set[str] = set()
    if undo is not None:
        undo.run()
        unrestored = changes.left_after_undo(of_slots) - beside
    enter = None
    if undo is not None and (changed_states or targets) and _undoes(undo, unrestored, targets):
        enter = _enter_of(undo, targets, home)
        changed_states = []  # the undo's task
    elif undo is None or undo.way == "function":
        take_values(entries, changed, changes, beside)
        left = [target for target in targets if target in unrestored]
        is_partly = len(left) < len(targets) and not any(is_lock(changed[target].now) for target in left)
        if undo is not None and is_partly and not all(entry["verb"] for entry in entries):
            enter = _enter_of(undo, targets, home)  # the plugin restores what the undo leaves
    if enter is not None:
        entries = [{"target": target, "verb": "enter", "requires": ""} for target in targets]
    entries.sort(key=lambda entry: (not entry.get("taken"), str(entry["target"])))
    answer = {"entries": entries, "left": sorted(unrestored), "enter": enter, "others": of_others}
    return {**answer, "states": changed_states, "imported": [*modules, home]}


def _undoes(undo: Undo, unrestored: set[str], targets: Sequence[str]) -> bool:
    """Return True if the plugin may rely on an undo. What a context manager or a method leaves, the plugin restores."""
    left = unrestored.intersection(targets)
    return not left or (undo.way != "function" and len(left) < len(targets))


def _enter_of(undo: Undo, targets: Sequence[str], home: str) -> dict[str, Any]:
    """Return the module to wait for, the one with most patched slots; the way of the undo; the requirements."""
    modules = Counter(target.partition(":")[0] for target in sorted(targets) if ":" in target)
    [(module, _)] = modules.most_common(1) or [(home, 0)]
    requires = sorted({_requirement(module), _requirement(home)} - {""})
    return {"module": module, "way": undo.way, "name": undo.name, "requires": requires}


def _requirement(module: str) -> str:
    """Return the releases like the installed release of a module's distribution; empty without a distribution."""
    distribution, version = release_of(module)
    return releases_like(distribution, version) if distribution else ""


def _entry(target: str, changes: Mapping[str, Change], home: str, written: frozenset[str]) -> dict[str, Any]:
    """Return a patch: target, verb, source and requirement; or the reason why no patch is equivalent.

    Args:
        target: the address of the slot.
        changes: the changes of such slots, by address.
        home: the module of the apply function.
        written: the addresses that hold another value than before, so none of them leads to a value.
    """
    change = changes[target]
    entry: dict[str, Any] = {"target": target, "requires": _requirement(target.partition(":")[0])}
    try:
        Target(target)
    except TargetSyntaxError:
        return {**entry, "verb": None, "reason": "its name is in no address", "verb_if_taken": "enter"}
    is_item = issubclass(type(change.owner), dict)
    if is_item and not _is_address(target):
        return {**entry, "verb": None, "reason": "no address leads to its key", "verb_if_taken": "enter"}
    if change.now is ABSENT:
        return {**entry, "verb": "remove"}
    if not is_item and change.name not in SPECIAL and (diff := diff_to(target, changes)) is not None:
        return {**entry, "verb": "edit", "diff": diff}
    recipe = recipe_of(change.now, change.before, home, written)
    verb = "replace" if change.before is not ABSENT or _is_inherited(change, changes) else "add"
    if "reason" in recipe:
        return {**entry, "verb": None, **recipe, "verb_if_taken": verb}
    return {**entry, "verb": verb, **recipe}


def _is_address(target: str) -> bool:
    """Return True if the address of an entry can be read, and a class that is its key is at the address."""
    try:
        key = getattr(Target(target).slot, "key", None)
        return not isinstance(key, Target) or value_at(key.address) is not None
    except (AttributeError, ImportError, TargetSyntaxError):
        return False


def _is_inherited(change: Change, changes: Mapping[str, Change]) -> bool:
    """Return True if a base class has the name, and not by a patch alone."""
    owner = change.owner
    if issubclass(type(owner), (dict, ModuleType)):
        return False
    bases = owner.__mro__[1:] if issubclass(type(owner), type) else type(owner).__mro__
    added = {id(other.owner) for other in changes.values() if other.name == change.name and other.before is ABSENT}
    return any(change.name in vars(base) and id(base) not in added for base in bases)
