"""Patches that projects apply by hand, declared with hookpatch: the table of docs/reference/hand-written.md.

    python tests/wild/hand_written.py docs/reference/hand-written.md

rewrites the text between the marks of the page from hand_written.toml. Without the page the script applies the directly
said patches to the installed libraries, each by itself, and prints the results as JSON.
"""

from __future__ import annotations

import ast
import importlib
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MethodType
from typing import Any, Final, NamedTuple

import hookpatch

BEGIN, END = "<!-- figures: tests/wild/hand_written.py -->\n", "<!-- end of figures -->\n"
VERBS: Final = {
    verb: getattr(hookpatch, verb)
    for verb in ("wrap", "inject", "default", "replace", "derive", "remove", "edit", "transform", "enter")
}
OTHERS: Final = {
    "Target": hookpatch.Target,
    "staticmethod": staticmethod,
    "is_traced": callable,  # a rule without a match is refused
    "config": "a text",  # for a variable of the environment
}
CLAIM: Final = (72, 76)  # of an earlier collection, of which no record is left
WHY: Final = {
    "values": "each patched object needs a value of its own, such as its place in the model, so a loop or a wrapper "
    "makes them",
    "condition": "the project patches only if the present value is Python's own, so a condition stands around",
    "C type": "a method of a type written in C is changed, which Python refuses",
    "absent": "the project adds an entry where another mapping lacks the key, so a condition stands around",
    "during a call": "the patch holds during certain calls alone, so a wrapper opens and closes a session",
    "second copy": "a module is imported a second time, with other modules in `sys.modules`",
}


class HandWritten(NamedTuple):
    """A patch that a project applies by hand.

    Attributes:
        project, source: the project's name, and its release, or its repository and commit.
        place: the position among the project's patches.
        file: the file with the patch.
        by_hand: the change in words.
        said: the declarations for hookpatch.
        how: ``"directly"``, ``"around"`` or ``"not"``.
        why: the reason for around or not, a key of ``WHY``.
        collection: 1, or the number of a later collection.
    """

    project: str
    source: str
    place: int
    file: str
    by_hand: str
    said: list[str]
    how: str
    why: str = ""
    collection: int = 1


def patches() -> list[HandWritten]:
    """Return all patches, in the order of the page."""
    projects = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["project"]
    return [
        HandWritten(project["name"], project["source"], place, **patch, collection=project.get("collection", 1))
        for project in projects
        for place, patch in enumerate(project["patch"])
    ]


def declared(text: str, names: Mapping[str, Any] | None = None) -> hookpatch.Patch:
    """Return the patch of a declaration. A name that ``names`` lacks is the name of some function, or of an object."""
    nodes = ast.walk(ast.parse(text))
    owners = {ast.unparse(node.value): _AtHand() for node in nodes if isinstance(node, ast.Attribute)}
    patch = eval(text, {"__builtins__": {}}, _Names({**owners, **VERBS, **OTHERS, **(names or {})}))
    assert isinstance(patch, hookpatch.Patch)
    return patch


class _AtHand:
    """Stand for an object of a project."""

    def __getattr__(self, name: str) -> Any:
        def method(self: Any, *args: Any, **kwargs: Any) -> None:
            """Stand for a method."""

        return MethodType(method, self)


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        def function(*args: Any, **kwargs: Any) -> None:
            """Stand for a function, class or object of a project."""

        return function


def is_plain(text: str) -> bool:
    """Return True if a text is one call of a verb with names and literals, without a lambda, a loop or a partial."""
    call = ast.parse(text, mode="eval").body
    calls = [ast.unparse(node.func) for node in ast.walk(call) if isinstance(node, ast.Call)]
    allowed = (ast.Call, ast.Name, ast.Load, ast.Constant, ast.keyword, ast.Attribute, ast.List, ast.Dict)
    return (
        calls[:1] != []
        and calls[0] in VERBS
        and set(calls[1:]) <= {"Target.attribute", "staticmethod"}
        and all(isinstance(node, allowed) for node in ast.walk(call))
    )


def gives_method(text: str) -> bool:
    """Return True if a declaration gives a method of an object, which has the values that the method needs."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(isinstance(node, ast.Attribute) for node in given)


def figures() -> str:
    """Return the text between the marks of the page."""
    rows = patches()
    count, why = Counter(row.how for row in rows), Counter(row.why for row in rows if row.why)
    files = len({(row.project, row.file) for row in rows})
    projects = len({row.project for row in rows})
    methods = sum(row.how == "directly" and any(map(gives_method, row.said)) for row in rows)
    wanted = f"The share that an earlier collection claimed, {CLAIM[0]} of {CLAIM[1]} ({CLAIM[0] / CLAIM[1]:.3f}), is "
    wanted += "reached." if count["directly"] / len(rows) >= CLAIM[0] / CLAIM[1] else "not reached."
    lines = [
        f"{len(rows)} patches of {projects} projects, from {files} files: {count['directly']} are said directly "
        f"({count['directly'] / len(rows):.3f}), {count['around']} with code around the declaration, "
        f"{count['not']} not. {wanted} In {methods} of them the function is a method of an object of the project, "
        f"such as `options.guarded`; without these the share is {(count['directly'] - methods) / len(rows):.3f}.",
        *(later(rows, number, name) for number, name in ((2, "second"), (3, "third"))),
        "",
        "Why a patch is not said directly:",
        "",
        *(f"- *{reason}* ({why[reason]}): {text}." for reason, text in sorted(WHY.items(), key=lambda i: -why[i[0]])),
        "",
        "| project | by hand | in hookpatch | said |",
        "|---|---|---|---|",
    ]
    for row in rows:
        project = f"{row.project} (`{row.source}`)" if row.place == 0 else ""
        said = "<br>".join(f"`{text}`" for text in row.said) or "-"
        how = row.how if row.how == "directly" else f"**{row.how}**: {row.why}"
        lines.append(f"| {project} | {row.by_hand} (`{row.file}`) | {said} | {how} |")
    return "\n".join(lines) + "\n"


def later(rows: list[HandWritten], number: int, name: str) -> str:
    """Return the sentence about a later collection."""
    chosen = [row for row in rows if row.collection == number]
    said = sum(row.how == "directly" for row in chosen)
    return (
        f"A {name} collection was chosen before any declaration was tried: of its {len(chosen)} patches of "
        f"{len({row.project for row in chosen})} projects {said} are said directly ({said / len(chosen):.3f})."
    )


def on_installed_libraries() -> dict[str, str]:
    """Apply each directly said patch of an importable module, and return the state, or the error, of each declaration.

    Left out are objects without an address, and edits, as the table shortens the pieces of source.
    """
    states = {}
    for text in (text for row in patches() if row.how == "directly" for text in row.said):
        patch = declared(text)
        if patch.module is None or patch.of is not None or patch.verb == "edit":
            continue
        try:
            for address in (patch.module, patch.source or patch.module):
                importlib.import_module(address.partition(":")[0].partition("*")[0].rstrip("."))
        except ImportError:
            continue
        try:
            with hookpatch.active(patch, children="local") as session:
                states[text] = session.report().patches[0].state
        except hookpatch.errors.HookpatchError as error:
            states[text] = type(error).__name__
    return states


if __name__ == "__main__" and not sys.argv[1:]:
    print(json.dumps(on_installed_libraries()))
elif __name__ == "__main__":
    page = Path(sys.argv[1])
    head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(head + BEGIN + figures() + END + rest.partition(END)[2], encoding="utf-8")
