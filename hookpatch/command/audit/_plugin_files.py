"""Fill in the files of an adopted plugin: the patches as rows, diffs and recipes in source form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, Final

from hookpatch._engine.patch.target import Target
from hookpatch.command._new import files_for, literal, words_for

_TEMPLATE: Final = Path(__file__).parent / "_adopted"
_ANY: Final = "name"  # words_for asks for an address: an entered plugin waits for a module
_BODIES: Final = {  # of the context manager that applies and undoes
    "function": """    undo = value_at("{undo}")
    value_at("{apply}")()
    try:
        yield
    finally:
        undo()""",
    "method": """    patcher = value_at("{apply}")()
    try:
        yield
    finally:
        patcher.{undo}()""",
    "context": """    with value_at("{apply}")():
        yield""",
}
_MADE: Final = {"source": "made(*row.source)", "literals": "", "imports": "", "types": "", "enter": ""}
_TAKEN: Final = {  # with values that a run of the apply function makes
    **_MADE,
    "source": "made(*row.source) if row.source else taken()[row.target]",
    "literals": "from ast import literal_eval\n",
    "imports": "from functools import cache\n",
}
_UNNAMED: Final = {  # with slots that no address leads to
    **_TAKEN,
    "imports": "from contextlib import contextmanager\nfrom functools import cache, partial\n",
    "types": ", ModuleType",
    "enter": """    if row.verb == "enter":  # no address leads to the slot
        return hookpatch.enter(row.target.partition(":")[0], partial(entered, row.target), **facts)
""",
}


def plugin_files(name: str, distribution: str, apply: str, answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file: the files of ``hookpatch new``, with another module and another test.

    Args:
        name: the plugin's name.
        distribution: the distribution's name.
        apply: the address of the apply function.
        answer: the answer of the process in which the apply function ran.
    """
    written = [entry for entry in answer["entries"] if entry["verb"]]
    targets = [target for entry in written for target in entry.get("targets", [entry["target"]]) if ":" in target]
    module = targets[0].partition(":")[0] if answer["enter"] is None else answer["enter"]["module"]
    words = dict(words_for(name, distribution, Target(f"{module}:{_ANY}")))
    packages = {target.partition(":")[0].partition(".")[0] for target in targets}
    kind = "entered" if answer["enter"] else "plugin"
    for path, text in files_for(words):
        if path.endswith(f"/{name}.py"):
            text = _filled(f"{kind}.py.in", apply=apply, **_words_of(apply, written, targets, answer))
        elif path.startswith("tests/"):
            text = _filled(f"test_{kind}.py.in", name=name, package=words["package"])
        elif path == "README.md":
            text = f"# {distribution}\n\nWhat `{apply}` does, as the hookpatch plugin `{name}`.\n"
        elif path == "pyproject.toml" and len(packages) > 1:
            text = "\n\n".join(part for part in text.split("\n\n") if "hookpatch.waits_for" not in part)
        yield path, text


def _filled(file: str, **words: str) -> str:
    return Template((_TEMPLATE / file).read_text(encoding="utf-8")).substitute(words)


def _words_of(
    apply: str, written: Sequence[Any], targets: Sequence[str], answer: Mapping[str, Any]
) -> Mapping[str, str]:
    """Return the words of the plugin's module."""
    if (entered := answer["enter"]) is None:
        missing = [entry for entry in answer["entries"] if not entry["verb"]]
        words = {"diffs": _diffs(written), "patches": _patches(written), "missing": _missing(missing, answer["states"])}
        if not any("taken" in entry for entry in written):
            return {**words, **_MADE, "taken": ""}
        is_unnamed = any(entry["verb"] == "enter" for entry in written)
        files = ["taken", *(["unnamed"] if is_unnamed else []), "slots"]
        facts = {"apply": apply, "imported": repr(tuple(answer["imported"]))}
        facts["unnamed"] = _filled("entries.py.in") if is_unnamed else ""
        taken = "".join(_filled(f"{file}.py.in", **facts).rstrip("\n") + "\n\n\n" for file in files)
        return {**words, **(_UNNAMED if is_unnamed else _TAKEN), "taken": taken}
    requires = f", requires={tuple(entered['requires'])!r}" if entered["requires"] else ""
    rows = "\n".join(f"    {literal(target)}," for target in targets)
    body = _BODIES[entered["way"]].format(apply=apply, undo=entered["name"])
    return {
        "module": entered["module"],
        "targets": rows,
        "body": body,
        "requires": requires,
        "slots": _filled("slots.py.in").rstrip(),
    }


def _patches(written: Sequence[Any]) -> str:
    rows = []
    for number, entry in enumerate(written, 1):
        value = f"DIFF_{number}" if entry["verb"] == "edit" else entry.get("value") or _recipe(entry)
        is_plain = "value" in entry or entry["verb"] == "edit"
        cells = [repr(entry["target"]), repr(entry["verb"]), value, str(is_plain), repr(entry["requires"])]
        if "targets" in entry:
            cells += [repr(tuple(entry["targets"])), repr(entry["matches"])]
        rows.append(f"    ({', '.join(cells)}),")
    return "\n".join(rows)


def _diffs(written: Sequence[Any]) -> str:
    """Return the constants of the edits, each with its diff."""
    constants = []
    for number, entry in enumerate(written, 1):
        if entry["verb"] == "edit":
            diff = entry["diff"]
            quotes = "'''" if '"""' in diff else '"""'
            text = repr(diff) if quotes in diff or diff.endswith(("\\", quotes[0])) else f"r{quotes}\n{diff}{quotes}"
            constants.append(f"\nDIFF_{number}: Final = {text}")
    return "".join(constants)


def _recipe(entry: Mapping[str, Any]) -> str:
    """Return a tuple in source form: how the plugin makes a value; empty if a run of the apply function makes it."""
    if "taken" in entry:
        return "()"
    of = _recipe(entry["of"]) if "of" in entry else None
    cells = "".join(f"{_recipe(cell)}, " for cell in entry.get("cells", ()))
    parts = [repr(entry.get("source", "")), entry.get("defaults"), entry.get("keywords"), f"({cells})", of]
    while parts[-1] in (None, "None", "()"):
        parts.pop()
    return f"({', '.join(map(str, parts))},)"


def _missing(missing: Sequence[Any], states: Sequence[str]) -> str:
    lines = [f"\n# Not written: {entry['target']}: {entry['reason']}" for entry in missing]
    return "".join([*lines, *(f"\n# Changed too, and in no patch: {state}" for state in states)])
