"""What of the reference is made from the code and is not a docstring: the commands, and where public names are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import typer

import hookpatch
from hookpatch.command import app
from hookpatch.command.run._run import run
from hookpatch.command.run._words import help_text

LINK: Final = re.compile(r"^- \[([^]]+)\]\(([^)]+)\.md\)", re.MULTILINE)


def contents(index: str) -> str:
    """Return the site's navigation: for each heading of the index the pages that are linked in the list below it."""
    parts = re.split(r"^## (.+)$", index, flags=re.MULTILINE)[1:]
    lines = []
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        pages = [f"{title} <{page}>" for title, page in LINK.findall(text)]
        lines += ["", "```{toctree}", ":hidden:", f":caption: {heading}", "", *pages, "```", ""]
    return "\n".join(lines)


def public_name(name: str) -> str | None:
    """Return the public name of what a private module defines, None if it has none."""
    last = name.rpartition(".")[2]
    return f"hookpatch.{last}" if name.startswith("hookpatch._") and last in hookpatch.__all__ else None


def commands() -> str:
    """Return a section of Markdown for each command: its use, what it does, its arguments and options."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("hookpatch", [], resilient_parsing=True)
    sections = [_section(group, context, "hookpatch")]
    for name in group.list_commands(context):
        if name == "run":  # parsed without typer
            sections.append(f"## hookpatch run\n\n```text\n{help_text(run.__doc__ or '')}\n```\n")
            continue
        command = group.get_command(context, name)
        own = command.make_context(name, [], parent=context, resilient_parsing=True)
        sections.append(_section(command, own, f"hookpatch {name}"))
    return "\n".join(sections)


def _section(command: Any, context: Any, name: str) -> str:
    use = " ".join([name, *command.collect_usage_pieces(context)])
    lines = [f"## {name}", "", "```text", use, "```", "", *(command.help or "").replace("\b\n", "").splitlines(), ""]
    if rows := list(_rows(command, context)):
        lines += ["| | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _rows(command: Any, context: Any) -> Iterator[str]:
    for parameter in command.get_params(context):
        shown = parameter.get_help_record(context)
        if shown:
            word, text = (" ".join(part.split()).replace("|", "\\|") for part in shown)
            yield f"| `{word}` | {text} |"
