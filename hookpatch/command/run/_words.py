"""The words behind ``hookpatch run``: options, the program, and the help."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, final

from hookpatch._bootstrap.installed import is_plugin, run_options

PROGRAM: Final = "SCRIPT | -m MODULE | -c CODE [ARGUMENTS]"
# Names, what the value is called, and help.
OPTIONS: Final[Sequence[tuple[tuple[str, ...], str, str]]] = (
    (("-p", "--plugin"), "NAME", "Switch a plugin on; may be repeated."),
    (("-o", "--option"), "PLUGIN.NAME=VALUE", "An option of a plugin; write a list with commas."),
    (("--report",), "FOLDER", "Let each process write a JSON report into this folder."),
    (("--count",), "", "Count the calls of each patch, and print the counts when a process ends."),
    (("-h", "--help"), "", "Show this message and exit."),
)
_NAMES: Final = {name: names[-1] for names, _, _ in OPTIONS for name in names}
_FLAGS: Final = {names[-1] for names, value, _ in OPTIONS if not value}


@final
class Misspelt(Exception):
    """The words behind ``hookpatch run`` cannot be read; the text says why. Written as click's errors are."""

    format_message = Exception.__str__


class Words(NamedTuple):
    """The words behind ``hookpatch run``: options by their long names, and the words of the program."""

    options: Mapping[str, list[str]]
    target: Sequence[str]
    of_plugin: tuple[str, str, str] | None  # a plugin, its option as written, and the value

    def last(self, option: str) -> str | None:
        """Return the value that was given last for an option; None if there is none."""
        return self.options[option][-1] if option in self.options else None


def parsed(words: Sequence[str]) -> Words:
    """Parse the words up to the script, ``-m`` or ``-c``; all later words belong to the program, as with python.

    Loads no plugin. Raise Misspelt for an unknown option: python's -I would switch hookpatch off in silence.
    """
    options: dict[str, list[str]] = {}
    declared, of_plugin, tail = run_options(), None, list(words)
    while tail and tail[0] != "--" and tail[0].startswith("-") and tail[0] != "-" and tail[0][:2] not in ("-m", "-c"):
        word = tail.pop(0)
        name, equals, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        if name not in _NAMES and name not in declared:
            raise Misspelt(f"No such option: {word if word.startswith('--') else name}")
        if _NAMES.get(name) in _FLAGS:
            if equals:
                raise Misspelt(f"Option '{name}' takes no value")
            options[_NAMES[name]] = []
            continue
        if not equals and not tail:
            raise Misspelt(f"Option '{name}' requires an argument")
        value = value if equals else tail.pop(0)
        if name in declared:
            of_plugin = declared[name], name, value
        else:
            options.setdefault(_NAMES[name], []).append(value)
    return Words(options, tail[1:] if tail[:1] == ["--"] else tail, of_plugin)


def help_text(summary: str) -> str:
    """Return the help of ``hookpatch run``: a summary, the options, and those that plugins declare."""
    import inspect  # here: a program that is run does without
    import textwrap

    of_plugins = [(f"{name} VALUE", f"Let plugin '{of}' run the program.") for name, of in run_options().items()]
    own = [(f"{', '.join(names)} {value}".rstrip(), line) for names, value, line in OPTIONS]
    lines = [f"Usage: hookpatch run [OPTIONS] {PROGRAM}", ""]
    lines += textwrap.indent(inspect.cleandoc(summary), "  ").splitlines()
    for title, rows in (("Options", own), ("Options of plugins", of_plugins)):
        width = max((len(words) for words, _ in rows), default=0) + 4
        lines += ["", f"{title}:"] if rows else []
        for words, line in rows:
            first = f"  {words}".ljust(width)
            lines += textwrap.wrap(line, 79, initial_indent=first, subsequent_indent=" " * width)
    return "\n".join(lines)


def check_program(target: Sequence[str]) -> None:
    """Raise Misspelt if the first word of a program is no file: a plugin, a module, ``python``, or misspelt."""
    word = target[0]
    if word in ("-m", "-c") and len(target) == 1:
        raise Misspelt(f"Option '{word}' requires an argument")
    if word.startswith("-") or os.path.exists(word):
        return
    if is_plugin(word):
        raise Misspelt(f"'{word}' is a plugin, and no file: write '-p {word}'")
    if os.path.basename(word).startswith("python"):
        raise Misspelt(f"there is no script '{word}': this command runs python itself; leave '{word}' out")
    from hookpatch._engine.patch.module_lookup import presence_of  # here: most programs are files

    is_module = all(map(str.isidentifier, word.split("."))) and presence_of(word).installed
    raise Misspelt(f"there is no file '{word}'{f'; -m {word} runs the module' if is_module else ''}")


def check_order(target: Sequence[str]) -> None:
    """Raise Misspelt if a plugin is named behind the program, whose argument the name would be."""
    for option, name in pairwise(target[1:]):
        if option in ("-p", "--plugin") and is_plugin(name):
            before = " ".join(target[:2] if target[0] in ("-m", "-c") else target[:1])
            problem = f"'{option} {name}' behind '{before}' is an argument of the program, and no plugin is on"
            raise Misspelt(f"{problem}; write '{option} {name}' before it, or '--' before it if it is as you mean it")
