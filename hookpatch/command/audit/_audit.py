"""``hookpatch audit``: run a program and print every patch in the program, of any author."""

from __future__ import annotations

import json as _json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from hookpatch._bootstrap import environment as _environment
from hookpatch._bootstrap.stderr import write_line
from hookpatch.command._app import AsJson, PluginWords, print_text
from hookpatch.command._tables import print_line
from hookpatch.command.run._words import check_program
from hookpatch.errors import SettingError, printable

_OF_AUDIT: Final = ("--baseline", "--write-baseline", "--fail-on")  # no other program is likely to have these
_TAKES_VALUE: Final = ("-p", "--plugin", "--html", "--baseline", "--write-baseline", "--fail-on")


class AuditCommand(TyperCommand):
    """Parse the words up to the script, ``-m`` or ``-c``; all later words belong to the program, as with python."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``--`` before the words of the program."""
        index = 0
        while index < len(args) and args[index] != "--":
            word = args[index]
            if not word.startswith("-") or word == "-" or word[:2] in ("-m", "-c"):
                args = [*args[:index], "--", *args[index:]]
                break
            index += 2 if word in _TAKES_VALUE else 1
        return list(super().parse_args(ctx, args))


def audit(
    target: Annotated[list[str], typer.Argument(metavar="SCRIPT | -m MODULE | -c CODE [ARGUMENTS]")],
    plugin: PluginWords = None,
    everything: Annotated[bool, typer.Option("--all", help="List added names, changed values, entries, too.")] = False,
    json: AsJson = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the audit as a page, too; the page needs no network."),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", metavar="FILE", help="The known patches, from --write-baseline.")
    ] = None,
    write_baseline: Annotated[
        Path | None,
        typer.Option("--write-baseline", metavar="FILE", help="Write the patches into a file, as known patches."),
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option("--fail-on", metavar="new|any", help="End with status 1 for a new patch, or for any patch."),
    ] = None,
) -> None:
    """Run a program, and list every patch in the program, by any author.

    What it is, by which file and line, since when. With --json the program's output goes to stderr. Ends with the
    program's status.

    Example: hookpatch audit -c "import torch"
    """
    from hookpatch._inspect.audit.baseline import new_in, patches_in_baseline, write_known
    from hookpatch._plugins.variables import environment_with

    check_program(target)
    if misplaced := [word for word in target if word.partition("=")[0] in _OF_AUDIT]:
        problem = f"{misplaced[0]} is behind the program, so the program gets the option; write it before the program"
        write_line(problem, kind="warning")
    if fail_on not in (None, "new", "any"):
        raise SettingError("--fail-on", f"'{fail_on}' is neither 'new' nor 'any'")
    if fail_on == "new" and baseline is None:
        raise SettingError("--fail-on", "'new' compares with a file: name it with --baseline")
    known_patches = patches_in_baseline(baseline) if baseline is not None else frozenset()
    if sys.flags.ignore_environment:
        raise SettingError("hookpatch audit", "this python ignores the environment (-I or -E); leave the flag out")
    for option, path in (("--html", html), ("--write-baseline", write_baseline)):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):  # before the program runs for an hour
            reason = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
            raise SettingError(option, f"{path} cannot be written: {reason}")
    variables = environment_with(plugin or (), {}) if plugin else _environment.without_audit()
    status, result = _recorded(target, variables, everything, to_stderr=json)
    if result is None:
        problem = f"the program ended with status {status} and without an audit: it was killed, or ran os._exit"
        raise SettingError("hookpatch audit", problem)
    new = new_in(result, known_patches)
    if html is not None:
        from hookpatch._inspect.audit.page import page_of

        _write(html, "--html", page_of(result, target, new if baseline is not None else ()))
    if write_baseline is not None:
        _write(write_baseline, "--write-baseline", write_known(result))
    if json:
        content = result.to_dict()
        typer.echo(_json.dumps({"status": status, "new": [finding.target for finding in new], **content}, indent=2))
    else:
        for line in str(result).split("\n"):
            text = line.lstrip()
            print_line((printable(text), "" if len(text) < len(line) else "bold"), indent=len(line) - len(text))
        if baseline is not None:
            print_text("\n".join([f"{len(new)} new since {baseline}", *(f"  {finding.target}" for finding in new)]))
    failing = new if fail_on == "new" else result.findings if fail_on == "any" else ()
    raise typer.Exit(status or int(bool(failing)))


def _recorded(target: list[str], variables: dict[str, str], everything: bool, to_stderr: bool) -> tuple[int, Any]:
    """Run a program under the recorder; return its status and the audit, None if the program left none."""
    from hookpatch._inspect.audit import finding, recorder

    folder = str(Path(recorder.__file__).parent / "_sitecustomize")
    with tempfile.TemporaryDirectory(prefix="hookpatch-") as temporary_folder:
        file = os.path.join(temporary_folder, "audit.json")
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
        command = [sys.executable, *flags, *target]
        environment = _environment.recording(file, everything, folder, variables)
        sys.stdout.flush()
        completed = subprocess.run(command, env=environment, stdout=sys.stderr if to_stderr else None, check=False)
        status = completed.returncode if completed.returncode >= 0 else 128 - completed.returncode
        try:
            content = _json.loads(Path(file).read_text(encoding="utf-8"))
        except OSError:
            return status, None
        return status, finding.audit_from(content)


def _write(path: Path, option: str, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise SettingError(option, f"{path} cannot be written: {error.strerror}") from None
    write_line(f"wrote {path}")
