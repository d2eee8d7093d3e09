"""Join patches of several slots with one value into a rule, if the rule matches these slots and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from os.path import commonprefix
from pathlib import Path
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.target import Target
from hookpatch._engine.rules.match import addresses_of
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.slot import write_or_delete
from hookpatch._inspect.audit.snapshot import Change

_LEAST: Final = 3  # slots of a rule, and literal characters in the pattern of a name
_VERBS: Final = ("replace", "derive", "remove")
_LAST_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]*$")
_WORD: Final = re.compile(r"[A-Z_]")


def with_rules(entries: Sequence[dict[str, Any]], changes: Mapping[str, Change]) -> list[dict[str, Any]]:
    """Return the patches, with a rule in place of each group of patches that a rule can express.

    Args:
        entries: the patches.
        changes: the change of each slot, by address.

    Returns:
        The patches; a rule has ``targets``, the slots, and ``matches``, the number of slots.
    """
    groups: dict[Any, list[dict[str, Any]]] = {}
    for entry in entries:
        groups.setdefault(_key(entry), []).append(entry)
    joined = []
    for group in groups.values():
        targets = sorted(entry["target"] for entry in group)
        rule = _rule_for(targets) if group[0]["verb"] in _VERBS and len(group) >= _LEAST else None
        if rule is not None and _is_exact(rule, targets, changes):
            matches = f">=1,<={len(targets)}" if "*" in rule.partition(":")[0] else len(targets)
            group = [{**group[0], "target": rule, "targets": targets, "matches": matches}]
        joined += group
    return joined


def _key(entry: Mapping[str, Any]) -> Any:
    """Return what the patches of a rule have in common."""
    module, _, path = str(entry["target"]).partition(":")
    common = {key: value for key, value in entry.items() if key != "target"}
    return module.partition(".")[0], module.count("."), path.partition(".")[2], repr(sorted(common.items()))


def _rule_for(targets: Sequence[str]) -> str | None:
    """Return a rule for addresses that differ in the module and in the first name; None without a common word."""
    modules, paths = zip(*(target.split(":") for target in targets), strict=True)
    names = sorted({path.partition(".")[0] for path in paths})
    name = names[0] if len(names) == 1 else _pattern_of_words(names)
    if len(name) <= _LEAST:
        return None
    parts = zip(*(module.split(".") for module in modules), strict=True)
    module = ".".join(_pattern(sorted(set(part)), *_ends(part)) for part in parts)
    return f"{module}:{name}{paths[0][len(paths[0].partition('.')[0]) :]}"


def _pattern_of_words(names: Sequence[str]) -> str:
    """Return a pattern that leaves out whole words of the names."""
    head, tail = _ends(names)
    if any(name[len(head) : len(head) + 1].islower() for name in names):
        head = _LAST_WORD.sub("", head)
    word = _WORD.search(tail)
    tail = tail[word.start() :] if word else ""
    return _pattern(names, head, tail)


def _pattern(texts: Sequence[str], head: str, tail: str) -> str:
    return texts[0] if len(set(texts)) == 1 else f"{head}*{tail}"


def _ends(texts: Sequence[str]) -> tuple[str, str]:
    """Return the common beginning and the common end of texts; the two do not overlap in any text."""
    head = commonprefix(texts)  # noqa: RUF071  # names, not paths
    return head, commonprefix([text[len(head) :][::-1] for text in texts])[::-1]  # noqa: RUF071  # names, not paths


def _is_exact(rule: str, targets: Sequence[str], changes: Mapping[str, Change]) -> bool:
    """Return True if a rule matches the slots, and no other slot of an imported module or of an installed file."""
    slots = [(AttributeSlot(changes[target].owner, changes[target].name), changes[target]) for target in targets]
    try:
        for slot, change in slots:  # a rule matches names by the module that defines the value
            write_or_delete(slot, change.before)
        matched = addresses_of(Target(rule))
    finally:
        for slot, change in slots:
            write_or_delete(slot, change.now)
    return sorted(matched) == [*targets] and not any(_in_files(rule))


def _in_files(rule: str) -> Iterator[str]:
    """Yield the modules that are not imported and define a name matched by a rule."""
    pattern, _, path = rule.partition(":")
    top = imports.loaded(pattern.partition(".")[0]) if "*" in pattern else None
    name = re.escape(path.partition(".")[0]).replace(r"\*", r"\w*")
    definition = re.compile(rf"^(class|def|async def) {name}\b", re.MULTILINE)
    for folder in map(Path, getattr(top, "__path__", ())):
        for file in folder.rglob("*.py"):
            module = ".".join((folder.name, *file.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
            is_other = imports.matches(pattern, module) and imports.loaded(module) is None
            if is_other and definition.search(file.read_text(encoding="utf-8", errors="ignore")):
                yield module
