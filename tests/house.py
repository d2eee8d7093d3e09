"""The plan of the house: the rooms, from the ground up, and the imports between the files."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "hookpatch"

# From the ground up: a file imports its own room and earlier rooms. A file in no room is a door.
ROOMS: Final = {
    "errors": "all errors and warnings",
    "_bootstrap": "runs when the interpreter starts; imports os, sys and itself",
    "_engine/patch": "what is declared",
    "_engine/calls": "what runs at a call",
    "_engine/slots": "the places that hold a value",
    "_engine/rules": "the slots that a rule stands for",
    "_engine/source": "the source of functions, edited",
    "_engine/lock": "what was locked",
    "_engine/site": "layers over a slot",
    "_engine/instances": "the instances of a class",
    "hookspecs": "the hooks of a plugin",
    "_plugins": "load plugins, options, relations; notify",
    "_session": "the span: all in or nothing, everything out",
    "_torch": "torch's caches",
    "_processes": "child processes and their report files",
    "_inspect": "ask without changing",
    "testing": "the test kit",
    "command": "the command line",
}
DOORS: Final = {"__init__", "__main__", "_pytest", "_startup", "notebook"}  # opened from outside; rooms import no door

# The rooms of plugins, likewise.
ROOMS_OF_PLUGINS: Final[dict[str, list[str]]] = {
    "hookpatch_export": [
        *("_findings", "errors", "_values", "_frames", "_torch_rules"),
        *("_evaluate/expressions", "_evaluate/calls", "_evaluate/statements", "_scan", "_probe", "_show"),
    ],
    "hookpatch_onnx": [
        *("errors", "_model", "_record", "_compare", "_measure", "_picture", "_outside", "_export", "_nodes"),
    ],
    "hookpatch_torchscript": [
        *("_values", "errors", "_source", "_mends", "_proof", "_report", "_scripting", "_tracing", "_models"),
        *("_runtimes/jobs", "_runtimes/measure", "_runtimes/show", "_runtimes/command"),
    ],
}


class Package:
    """A package with the imports between its files.

    Attributes:
        files: the path of each file, by its dotted name within the package.
    """

    def __init__(self, folder: Path, rooms: Iterable[str] = ()) -> None:
        self.name: Final = folder.name
        self.rooms: Final = [*rooms]
        self.files: Final = {
            ".".join(path.relative_to(folder).with_suffix("").parts): path
            for path in sorted(folder.rglob("*.py"))
            if path.parent.name != "_sitecustomize"  # a folder for PYTHONPATH, not of the package
            and not (path.name == "__init__.py" and [*path.parent.glob("*.py")] == [path])  # a folder of rooms
        }

    def imports(self, name: str) -> set[str]:
        """Return the package's own files that a file imports, also inside functions, also for types."""
        imported = set()
        for node in ast.walk(ast.parse(self.files[name].read_text())):
            if isinstance(node, ast.Import):
                imported |= {self._file(alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                # ``from package import file``, or another name of ``package``.
                parts = [self._file(f"{node.module}.{alias.name}") for alias in node.names]
                imported |= {part or self._file(node.module or "") for part in parts}
        return {file for file in imported if file is not None and file != name}

    def _file(self, module: str) -> str | None:
        own = module.removeprefix(self.name).removeprefix(".")
        is_ours = module == self.name or module.startswith(f"{self.name}.")
        return next((file for file in (own, f"{own}.__init__".strip(".")) if is_ours and file in self.files), None)

    def room(self, name: str) -> str | None:
        """Return the room of a file; None for a door."""
        path = name.replace(".", "/")
        return next((room for room in self.rooms if path == room or path.startswith(f"{room}/")), None)

    def arrows_up(self) -> list[str]:
        """Return the imports of a higher room, or of a door."""
        height: dict[str | None, int] = {room: floor for floor, room in enumerate(self.rooms)}
        height[None] = len(self.rooms)
        return [
            f"{name} imports {imported}"
            for name in self.files
            for imported in sorted(self.imports(name))
            if height[self.room(imported)] > height[self.room(name)]
        ]

    def circle(self) -> list[str]:
        """Return a circle of imports: each file imports the next, and the last the first; else an empty list."""
        walked: set[str] = set()

        def walk(name: str, way: list[str]) -> list[str]:
            if name in way:
                return way[way.index(name) :]
            for imported in sorted(self.imports(name)) if name not in walked else ():
                if circle := walk(imported, [*way, name]):
                    return circle
            walked.add(name)
            return []

        return next(filter(None, (walk(name, []) for name in self.files)), [])


HOUSE: Final = Package(PACKAGE, ROOMS)
FILES: Final = HOUSE.files
PLUGINS: Final = [
    Package(folder, ROOMS_OF_PLUGINS.get(folder.name, ()))
    for folder in sorted((ROOT / "plugins").glob("*/hookpatch_*"))
    if folder.is_dir()
]


_PUBLIC: Final = ("__init__", "testing.__init__", "command.__init__")


def picture() -> str:
    """Return the rooms as docs/design.md shows the table: the highest first, each with the rooms beneath."""
    rooms = [*ROOMS, "doors"]
    stands: dict[str, set[str]] = {room: set() for room in rooms}
    for name in FILES:
        stands[HOUSE.room(name) or "doors"] |= {HOUSE.room(imported) or "doors" for imported in HOUSE.imports(name)}
    lines = ["| room | what it does | files | imports from |", "|---|---|---|---|"]
    for room in reversed(rooms):
        files = [name for name in FILES if (HOUSE.room(name) or "doors") == room]
        named = [name for name in files if not name.endswith("__init__") or name in _PUBLIC]
        shown = " ".join(f"`{name.split('.')[-1]}`" for name in named)
        below = " ".join(f"`{lower}`" for lower in rooms if lower in stands[room] - {room})
        lines.append(f"| `{room}` | {ROOMS.get(room, 'opened from outside')} | {shown} | {below} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(picture(), end="")
