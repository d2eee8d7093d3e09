"""Make the patch of each match of a rule, or give the reason for no patch: ``only=`` and ``source=`` decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from types import ModuleType
from typing import Final

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.process_end import call_guarded, raised, text_of
from hookpatch._engine.patch.rule import Bounds, filled
from hookpatch._engine.patch.steps import Instances, NameGlob
from hookpatch._engine.patch.target import Attribute, Step, Target
from hookpatch._engine.rules.match import NOT_THERE, Match, matches_in
from hookpatch._engine.slots.resolve import value_of
from hookpatch._engine.slots.slot import ABSENT, inner
from hookpatch.errors import ApplyError, TargetNotFound, TargetSyntaxError

REFUSED: Final = "is refused by only="
_MOST: Final = 3  # near misses named in a message
_FEW: Final = 12  # matches named in a message


def patch_of(rule: Patch, match: Match, owner: object) -> Patch | str:
    """Return the patch of a match; or, in words, why the match is none.

    Raises:
        ApplyError: ``only=`` has raised an error, or the module of the source cannot be imported.
    """
    if match.problem:
        return match.problem
    if rule.only is not None and match.original is not ABSENT and match.target.of_instances is None:
        try:
            is_wanted = call_guarded(rule.only, inner(match.original))
        except Exception as error:
            if is_interrupt(error):
                raise
            problem = f"only= {raised(error)} for {match.target}{text_of(error)}"
            raise ApplyError(rule.address, owner, problem) from error
        if not is_wanted:
            return REFUSED
    change = rule.change
    if rule.source is not None:
        source = filled(rule.source, match.texts)
        try:
            change = value_of(Target(source), match.target, owner)
        except TargetSyntaxError:  # a key without an address
            return f"is missing in the source: {source}"
        except TargetNotFound as error:
            if isinstance(error.__cause__, ImportError) and "*" not in rule.source.partition(":")[0]:
                problem = f"the source {rule.source} cannot be imported: {error.__cause__}"
                raise ApplyError(rule.address, owner, problem) from error
            return f"is missing in the source: {source}"
    return rule.of_match(match.target, change)


def with_value_of_source(patch: Patch, owner: object) -> Patch:
    """Return a patch of one slot with the value at the address of its source.

    Raises:
        ApplyError: the address leads nowhere.
    """
    assert patch.source is not None  # the caller has checked
    assert patch.target is not None  # the verb has checked
    try:
        return replace(patch, change=value_of(Target(patch.source), patch.target, owner))
    except TargetNotFound as error:
        is_import = isinstance(error.__cause__, ImportError)
        problem = f"cannot be imported: {error.__cause__}" if is_import else f"leads nowhere: {error.problem}"
        raise ApplyError(patch.address, owner, f"the source {patch.source} {problem}") from error


def too_few(rule: Patch, count: int, bounds: Bounds, near: Iterable[tuple[str, str]]) -> str:
    """Return in words that a rule has fewer matches than required, with the near misses."""
    problem = f"{rule.address} {in_words(count)}, and must match {bounds}"
    other_names = _nearly(rule)
    misses = [*(miss for miss in near if miss[1] != NOT_THERE or not other_names), *other_names]
    missed = [f"{address} {why}" for address, why in sorted(misses, key=lambda miss: miss[1] == REFUSED)]
    shown = [*dict.fromkeys(missed)]
    remainder = f" and {len(shown) - _MOST} more" if len(shown) > _MOST else ""
    return f"{problem}; near: {', '.join(shown[:_MOST])}{remainder}" if shown else problem


def too_many(rule: Patch, addresses: Sequence[str], bounds: Bounds) -> str:
    """Return in words that a rule has more matches than allowed."""
    remainder = f" and {len(addresses) - _FEW} more" if len(addresses) > _FEW else ""
    named = f"{', '.join(addresses[:_FEW])}{remainder}"
    return f"{rule.address} {in_words(len(addresses))}, and must match {bounds}: {named}"


def in_words(count: int) -> str:
    """Return a number of matches in words."""
    return f"matches {count} slot{'' if count == 1 else 's'}" if count else "matches nothing"


def _nearly(rule: Patch) -> list[tuple[str, str]]:
    """Return the near misses of a rule: another name in one place, or another module of the package."""
    assert rule.target is not None  # a rule has a target
    target, misses = rule.target, []
    pattern = target.module or ""
    modules = [pair for pair in imports.modules() if imports.matches(pattern, pair[0])]
    for index, step in enumerate(target.steps):
        if isinstance(step, (Attribute, NameGlob)):
            loose = (*target.steps[:index], NameGlob("*"), *target.steps[index + 1 :])
            position = index - sum(
                not isinstance(earlier_step, (Attribute, NameGlob)) for earlier_step in target.steps[:index]
            )
            names = _names(modules, pattern, loose, position)
            wanted = NameGlob(str(step)[1:])
            misses += _closest({name: names[name] for name in names if not wanted.matches(name)}, wanted.pattern)
    if "*" in pattern and "*" not in (head := pattern.partition(".")[0]):
        siblings = [pair for pair in imports.modules() if pair[0].startswith(f"{head}.") and pair not in modules]
        misses += [(address, "is in another module") for address in _addresses(siblings, head, target.steps)]
    return misses


def _names(
    modules: Iterable[tuple[str, ModuleType]], pattern: str, steps: tuple[Step, ...], index: int
) -> dict[str, str]:
    """Return the addresses that loose steps lead to, by the name at the loose place."""
    addresses: dict[str, str] = {}
    for match in _loosely(modules, pattern, steps):
        names = [step.name for step in match.target.steps if isinstance(step, Attribute)]
        if index < len(names):
            addresses.setdefault(names[index], str(match.target))
    return addresses


def _closest(addresses: dict[str, str], pattern: str) -> list[tuple[str, str]]:
    plain = pattern.replace("*", "").lower()
    by_case = {name.lower().strip("_"): name for name in addresses}
    inside = [name for low, name in by_case.items() if plain and plain in low]
    close = [by_case[low] for low in get_close_matches(plain, by_case, _MOST, 0.75)]
    return [(addresses[name], f"does not match {pattern}") for name in dict.fromkeys([*inside, *close])]


def _addresses(modules: Iterable[tuple[str, ModuleType]], pattern: str, steps: tuple[Step, ...]) -> list[str]:
    return [str(match.target) for match in _loosely(modules, pattern, steps)]


def _loosely(modules: Iterable[tuple[str, ModuleType]], pattern: str, steps: tuple[Step, ...]) -> list[Match]:
    if any(isinstance(step, Instances) for step in steps):
        return []
    target = Target.of_steps(pattern, None, steps)
    return [match for name, module in modules for match in matches_in(target, name, module) if not match.problem]
