"""``hookpatch adopt``: write a plugin with the patches of a foreign apply function."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from hookpatch._engine.patch.target import Target
from hookpatch.command._app import AsJson, print_json, print_text
from hookpatch.command._new import check_name, write_files
from hookpatch.command.audit._plugin_files import plugin_files
from hookpatch.errors import NewPluginError

_SHOWN: Final = 3  # patches in an error


def adopt(
    apply: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="The function that applies the patches.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="The name of the plugin, and of its module.")],
    undo: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION", help="The undo of the function; used if it works, else its gaps are listed."
        ),
    ] = None,
    modules: Annotated[
        list[str] | None, typer.Option("--import", metavar="MODULE", help="Import this module first; may be repeated.")
    ] = None,
    into: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="A new or empty folder for the files; default: hookpatch-NAME.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Write a plugin with the same patches as a function.

    The function runs in a process that is thrown away. What no patch can express is listed, and ends with
    status 1.

    Example: hookpatch adopt nest_asyncio:apply --name nested_loops
    """
    from hookpatch._processes.aside import Ended, results

    for address in (apply, *filter(None, [undo])):
        Target(address)
    distribution = f"hookpatch-{name.replace('_', '-')}"
    check_name(name, distribution)
    [answer] = results([("hookpatch._inspect.adopt.adopt:adopted", [apply, undo, modules or []])], limit=120.0)
    problem = str(answer) if isinstance(answer, Ended) else answer.get("error")
    if problem:
        culprit = apply if isinstance(answer, Ended) else answer["at"]
        raise NewPluginError(name, f"{culprit} cannot be run here: {problem}")
    written = [entry for entry in answer["entries"] if entry["verb"]]
    missing = [entry for entry in answer["entries"] if not entry["verb"]]
    if not written and answer["enter"] is None:
        reasons = "; ".join(f"{entry['target']}: {entry['reason']}" for entry in missing[:_SHOWN])
        more = f"; and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        problem = f"{apply} changes no slot that a patch can express; --import names what it waits for"
        raise NewPluginError(name, f"no patch by {apply} can be written: {reasons}{more}" if missing else problem)
    folder = Path(into or distribution)
    files = dict(sorted(plugin_files(name, distribution, apply, answer)))
    try:
        write_files(folder, name, files)
    except OSError as error:
        problem = f"{folder} cannot be written ({error.strerror}); name another one with --into"
        raise NewPluginError(name, problem) from None
    if json:
        lists = {"patches": written, "unsaid": missing, "left": answer["left"], "others": answer["others"]}
        lists["states"] = answer["states"]
        print_json({"folder": str(folder), **lists})
    else:
        _print_answer(folder, files, written, missing, answer)
    raise typer.Exit(int(bool(missing)))


def _print_answer(
    folder: Path, files: Mapping[str, str], written: Sequence[Any], missing: Sequence[Any], answer: Mapping[str, Any]
) -> None:
    print_text("\n".join([f"{folder}:", *(f"  {path}" for path in files)]))
    count = sum(len(entry.get("targets", [entry])) for entry in written)
    rows = [f"  {entry['verb']:<8} {entry['target']}{_slots(entry)}" for entry in written]
    print_text("\n".join([f"{count} of {count + len(missing)} patches are written:", *rows]))
    if not rows:
        print_text("The function changes no slot: the plugin runs the function, and its undo at the end.")
    if missing:
        print_text("Not written:")
        print_text("\n".join(f"  {entry['target']}: {entry['reason']}" for entry in missing))
    if any("taken" in entry for entry in written):
        print_text(
            "* No address leads to the value or the slot: the plugin runs the function once, and restores the slots."
        )
    if answer["states"]:
        print_text("Changed too, and in no patch:")
        print_text("\n".join(f"  {state}" for state in answer["states"]))
    if answer["left"]:
        print_text("Its own undo leaves:")
        print_text("\n".join(f"  {target}" for target in answer["left"]))
    if answer["others"]:
        print_text("Left out, since another distribution patched it meanwhile:")
        print_text("\n".join(f"  {target}: {author}" for target, author in answer["others"].items()))
    print_text(
        f"Next:\n  cd {shlex.quote(str(folder))}\n  python -m pip install --editable '.[test]'\n  python -m pytest"
    )


def _slots(entry: Mapping[str, Any]) -> str:
    """Return in words how many slots a rule matches; a star for a value that a run of the function makes."""
    if "taken" in entry:
        return " *"
    return f" ({len(entry['targets'])} slots)" if "targets" in entry else ""
