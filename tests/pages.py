"""A page of the documentation: its code blocks, run in order as a reader would run them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from environments import ROOT, Environment
from sybil import Document, Example, Region
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

# In comments of MyST and, for pages on GitHub, in comments of HTML.
NOT_RUN = re.compile(r"(?:^% not run: (.+)|^<!-- not run: (.+) -->)\n+\Z", re.MULTILINE)
FILE = re.compile(r"# ([\w./-]+\.\w+)\n")
HEADING = re.compile(r"^#+ ", re.MULTILINE)
HEAVY = re.compile(r"^\s*(?:import|from) (?:torch|transformers|onnx\w*)\b", re.MULTILINE)
PAGES = sorted(
    (
        *(ROOT / "README.md", *ROOT.glob("docs/**/*.md")),
        *(*ROOT.glob("plugins/README.md"), *ROOT.glob("plugins/*/README.md"), *ROOT.glob("plugins/*/*/messages.md")),
    ),
    key=lambda path: path.relative_to(ROOT).as_posix(),
)


def name_of(page: Path) -> str:
    """Return the path of a page in the repository."""
    return page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name


@dataclass
class Reader:
    """The state of running one page from top to end: a folder, a shell, and the last output."""

    folder: Path
    environment: Environment
    wheels: Path
    printed: tuple[int, str] | None = None  # the end of the last program on the page, and the output
    state: Path = field(init=False)

    def __post_init__(self) -> None:
        self.work = self.folder / "work"
        self.work.mkdir()
        self.state = self.folder / "state.sh"
        self.state.write_text(f"cd {shlex.quote(str(self.work))}\n")
        tools = self.folder / "tools"
        tools.mkdir()
        for name in ("python", "python3"):
            (tools / name).write_text(
                "#!/bin/sh\n# `python -m venv` has no index to fetch from: all but hookpatch is there.\n"
                f'[ "$1 $2" = "-m venv" ] || exec {self.environment.python} "$@"\n'
                f'exec {sys.executable} {ROOT / "tests" / "environments.py"} "$3"\n'
            )
            (tools / name).chmod(0o755)
        own_folder = str(Path(sys.executable).parent)
        path_entries = [entry for entry in os.environ["PATH"].split(os.pathsep) if entry != own_folder]
        self.variables = {
            **{name: text for name, text in os.environ.items() if not name.startswith(("HOOKPATCH_", "PIP_"))},
            "PATH": os.pathsep.join([str(tools), str(self.environment.python.parent), *path_entries]),
            "HOME": str(self.folder),
            "PYTHONUNBUFFERED": "1",  # stdout and stderr come in order, as in a terminal
            "PYTHONDONTWRITEBYTECODE": "1",
            "COLUMNS": "100",
            "TERM": "dumb",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_NO_BUILD_ISOLATION": "0",  # pip reads the variable as a value of `build_isolation`
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        for name in ("VIRTUAL_ENV", "PYTHONPATH"):
            self.variables.pop(name, None)

    def evaluate(self, example: Example) -> str | None:
        """Run a block; return the problem of the block, or None."""
        language, source = example.parsed
        if why_not(example.document, example.region):
            return None
        printed, self.printed = self.printed, None
        match language:
            case "python" | "toml" if file := FILE.match(source):
                if language == "python":
                    compile(source, file[1], "exec")
                path = self.work / file[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(source)
            case "python":
                return self._run(source, example.region.end)
            case "console":
                return self._type(source)
            case "text" if printed and not HEADING.search(example.document.text[printed[0] : example.region.start]):
                return difference(source, printed[1])
            case "toml":
                tomllib.loads(source)
            case "json":
                json.loads(source)
            case "yaml":
                yaml.safe_load(source)
            case "text":  # shown, and printed by no program on the page
                return None
            case _:
                return f"nobody knows how to run a block of {language or 'no language'}; mark it 'not run'"
        return None

    def _run(self, source: str, end: int) -> str | None:
        """Run a program of its own, in the page's folder."""
        program = self.work / "example.py"
        program.write_text(source)
        completed = subprocess.run(
            [self.environment.python, program.name],
            cwd=self.work,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=300,
        )
        program.unlink()
        self.printed = end, completed.stdout
        unexpected = "" if HEAVY.search(source) else completed.stderr  # torch warns of itself
        return f"status {completed.returncode}\n{completed.stderr}" if completed.returncode or unexpected else None

    def _type(self, source: str) -> str | None:
        """Type each command into a shell; keep its folder, variables and functions for the next block."""
        wrong = []
        for command, expected in commands(source):
            script = (
                f". {self.state}\n{command}\n{{ printf 'cd %q\\n' \"$PWD\"; export -p; declare -f; }} > {self.state}\n"
            )
            completed = subprocess.run(
                ["bash", "-c", script],
                env=self.variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=300,
            )
            if problem := difference(expected, completed.stdout):
                wrong.append(f"$ {command}\n{problem}")
        return "\n".join(wrong) or None


def commands(source: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a block, each with its output; a command goes on after a backslash."""
    first, *parts = re.split(r"^\$ ", source, flags=re.MULTILINE)
    if first.strip() or not parts:
        raise ValueError(f"a console block begins with '$ command': {source!r}")
    for text in parts:
        command, expected = re.fullmatch(r"((?:.*\\\n)*.*\n?)((?s:.*))", text).groups()
        yield command.strip(), expected


def difference(expected: str, printed: str) -> str | None:
    """Return the difference between the output and the expected text; ``...`` stands for any text, or for any lines."""
    # Ignore blanks at the end of a line: editors remove trailing blanks.
    wanted, got = ("\n".join(map(str.rstrip, text.strip("\n").split("\n"))) for text in (expected, printed))
    pattern = re.escape(wanted + "\n")
    pattern = re.sub(r"^[ ]*\\\.\\\.\\\.\\\n", "(?:.*\\\\n)*?", pattern, flags=re.MULTILINE)
    pattern = pattern.replace(r"\.\.\.", ".*")
    if re.fullmatch(pattern, got + "\n"):
        return None
    return f"the page says\n{wanted}\nand it is\n{got}\n"


def why_not(document: Document, region: Region) -> str | None:
    """Return the reason why a block is not run, if the page names a reason before the block."""
    match = NOT_RUN.search(document.text[: region.start])
    return (match[1] or match[2]) if match else None


def blocks(page: Path, evaluator: Reader | None = None) -> Document:
    """Parse a page; directives of the site (``{toctree}``) are no code blocks."""

    def parse(document: Document) -> Iterator[Region]:
        for region in FencedCodeBlockLexer(r"[^\n{]*")(document):
            language, source = region.lexemes["language"].strip(), str(region.lexemes["source"])
            yield Region(region.start, region.end, (language, source), evaluator and evaluator.evaluate)

    return Document.parse(str(page), parse)


def imports_torch(page: Path) -> bool:
    """Return True if a block of the page imports torch: the import takes seconds, and some Pythons lack torch."""
    run = [region for _, region in blocks(page).regions if not why_not(blocks(page), region)]
    return any(HEAVY.search(region.parsed[1]) for region in run)
