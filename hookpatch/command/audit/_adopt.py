"""``hookpatch adopt``: write a plugin with the patches of a foreign apply function."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Annotated, Any, Final

import typer

from hookpatch._engine.patch.target import Target
from hookpatch.command._app import AsJson, print_json, say
from hookpatch.command._new import check_name, files_for, words_for, write_files
from hookpatch.errors import NewPluginError

_TEMPLATE: Final = Path(__file__).parent / "_adopted"


def adopt(
    apply: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="The function that patches.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="The plugin's name; its module has it, too.")],
    undo: Annotated[
        str | None, typer.Option(metavar="MODULE:FUNCTION", help="Its undo; what it forgets is told.")
    ] = None,
    modules: Annotated[
        list[str] | None, typer.Option("--import", metavar="MODULE", help="Import this before; may be given again.")
    ] = None,
    into: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="The folder to write, new or empty; hookpatch-NAME if none.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Write a plugin that does what a function that patches does.

    The function runs in a process that is thrown away. What no patch can express is listed, and ends with
    status 1.

    Example: hookpatch adopt nest_asyncio:apply --name nested_loops
    """
    from hookpatch._processes.aside import Ended, results

    for address in filter(None, (apply, undo)):
        Target(address)
    distribution = f"hookpatch-{name.replace('_', '-')}"
    check_name(name, distribution)
    [answer] = results([("hookpatch._inspect.adopt.adopt:adopted", [apply, undo, modules or []])], limit=120.0)
    problem = str(answer) if isinstance(answer, Ended) else answer.get("error")
    if problem:
        raise NewPluginError(name, f"{apply} cannot be run here: {problem}")
    written = [entry for entry in answer["entries"] if entry["verb"]]
    missing = [entry for entry in answer["entries"] if not entry["verb"]]
    if not written:
        raise NewPluginError(
            name, f"{apply} changes no slot that a patch can express; --import names what it waits for"
        )
    folder = Path(into or distribution)
    files = dict(sorted(_files(name, distribution, apply, written, missing)))
    try:
        write_files(folder, name, files)
    except OSError as error:
        problem = f"{folder} cannot be written ({error.strerror}); name another one with --into"
        raise NewPluginError(name, problem) from None
    if json:
        print_json({"folder": str(folder), "patches": written, "unsaid": missing, "left": answer["left"]})
    else:
        _tell(folder, files, written, missing, answer["left"])
    raise typer.Exit(int(bool(missing)))


def _tell(
    folder: Path, files: Mapping[str, str], written: Sequence[Any], missing: Sequence[Any], unrestored: Sequence[str]
) -> None:
    say("\n".join([f"{folder}:", *(f"  {path}" for path in files)]))
    say(f"{len(written)} of {len(written) + len(missing)} patches are written:")
    say("\n".join(f"  {entry['verb']:<8} {entry['target']}" for entry in written))
    if missing:
        say("Not written:")
        say("\n".join(f"  {entry['target']}: {entry['reason']}" for entry in missing))
    if unrestored:
        say("Its own undo leaves:")
        say("\n".join(f"  {target}" for target in unrestored))
    say(f"Next:\n  cd {shlex.quote(str(folder))}\n  python -m pip install --editable '.[test]'\n  python -m pytest")


def _files(
    name: str, distribution: str, apply: str, written: Sequence[Any], missing: Sequence[Any]
) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file: the files of ``hookpatch new``, with another module and another test."""
    words = dict(words_for(name, distribution, Target(str(written[0]["target"]))))
    packages = {entry["target"].partition(":")[0].partition(".")[0] for entry in written}
    for path, text in files_for(words):
        if path.endswith(f"/{name}.py"):
            text = _filled("plugin.py.in", apply=apply, patches=_patches(written), missing=_missing(missing))
        elif path.startswith("tests/"):
            text = _filled("test_plugin.py.in", name=name, package=words["package"])
        elif path == "README.md":
            text = f"# {distribution}\n\nWhat `{apply}` does, as the hookpatch plugin `{name}`.\n"
        elif path == "pyproject.toml" and len(packages) > 1:
            text = text[: text.index("# The package that has TARGET")] + text[text.index("[tool.hatch") :]
        yield path, text


def _filled(file: str, **words: str) -> str:
    return Template((_TEMPLATE / file).read_text(encoding="utf-8")).substitute(words)


def _patches(written: Sequence[Any]) -> str:
    rows = []
    for entry in written:
        value = entry.get("value") or _made(entry)
        cells = (repr(entry["target"]), repr(entry["verb"]), value, str("value" in entry), repr(entry["requires"]))
        rows.append(f"    ({', '.join(cells)}),")
    return "\n".join(rows)


def _made(entry: Mapping[str, Any]) -> str:
    """Return a tuple in source form: how the plugin makes a value."""
    of = _made(entry["of"]) if "of" in entry else None
    cells = "".join(f"{_made(cell)}, " for cell in entry.get("cells", ()))
    parts = [repr(entry.get("source", "")), entry.get("defaults"), entry.get("keywords"), f"({cells})", of]
    while parts[-1] in (None, "None", "()"):
        parts.pop()
    return f"({', '.join(map(str, parts))},)"


def _missing(missing: Sequence[Any]) -> str:
    return "".join(f"\n# Not written: {entry['target']}: {entry['reason']}" for entry in missing)
