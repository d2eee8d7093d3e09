"""Write docs/how-it-works.md: the files that a block, a start and a patched call pass, in order, from a traced run."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from environments import ROOT

PAGE: Final = ROOT / "docs" / "how-it-works.md"
OF_HOOKPATCH: Final = {str(path.relative_to(ROOT / "hookpatch")) for path in (ROOT / "hookpatch").rglob("*.py")}

VENDOR: Final = """\
def speak(word):
    return f"vendor {word}"


def other(word):
    return word
"""
PLUGIN: Final = """\
import hookpatch


def loud(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs).upper()


@hookpatch.hookimpl
def hookpatch_patches():
    yield hookpatch.wrap("vendor:speak", loud)
"""
BLOCK: Final = """\
import hookpatch
import vendor
from loud import loud

with hookpatch.active(hookpatch.wrap("vendor:other", loud), children="local"):
    pass  # the first block imports hookpatch's files

patch = hookpatch.wrap("vendor:speak", loud)
session = hookpatch.active(patch, children="local")
session.open()
print(vendor.speak("one"))
session.close()
with session:
    print(vendor.speak("two"))
"""
PROGRAM: Final = """\
import vendor

print(vendor.speak("one"))
"""
# Traces the calls of the program's lines and of the start. Comprehensions belong to their functions. Calls during the
# import of hookpatch's own files are left out.
_TRACER: Final = """
import gc, json, os, sys
gc.disable()
FOLDER, OUT = sys.argv[1:3]
OPTIMIZED = 1  # set for the code of functions, not for that of classes
with open("vendor.py") as file:
    CONSTANTS = compile(file.read(), "vendor.py", "exec").co_consts
ORIGINALS = [code.co_code for code in CONSTANTS if hasattr(code, "co_code")]
passed, line, ran = [], 0, 0

def look(frame, event, _):
    global line, ran
    code = frame.f_code
    if event == "line" and code.co_filename == "program.py":
        line, ran = frame.f_lineno, ran + 1
    if event == "call" and code.co_filename == "program.py":
        return look
    if event != "call" or not code.co_flags & OPTIMIZED or is_importing(frame):
        return None
    if code.co_filename.startswith(FOLDER):
        passed.append([ran, line, code.co_filename[len(FOLDER):], code.co_qualname])
        return None
    file = os.path.basename(code.co_filename)
    if file == "vendor.py" and code.co_code not in ORIGINALS:
        file = "wrapper"  # compiled by hookpatch, with the name and place of the function
    if file in ("wrapper", "vendor.py", "loud.py"):
        passed.append([ran, line, file, code.co_qualname])

def is_importing(frame):
    if frame.f_code.co_name == "find_spec":
        return True  # the search for one of hookpatch's own files
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(FOLDER)

sys.settrace(look)
import site
site.main()
sys.path.insert(0, os.getcwd())
exec(compile(open("program.py").read(), "program.py", "exec"), {"__name__": "__main__"})
sys.settrace(None)
with open(OUT, "w") as file:
    json.dump(passed, file)
"""
_HEAD: Final = """\
# What does hookpatch do, in which order?

A patch is made, a block is opened, a call goes through, the block is closed. Each list has the files that one line
passes, in order, with the first function that the line enters in a file. `make road` writes this page from a run under
a tracer.

"""


class Step(NamedTuple):
    """A function entered by a program. ``ran`` counts the lines that the program has run; 0 is the start."""

    ran: int
    line: int
    file: str
    function: str


def steps(program: str, **settings: str) -> list[Step]:
    """Run a program under a tracer; return the functions of hookpatch and of the program that were entered, in order.

    Args:
        program: the source.
        **settings: variables of the environment.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {"vendor.py": VENDOR, "loud.py": PLUGIN, "program.py": program, "tracer.py": _TRACER}
        for file, text in files.items():
            (folder / file).write_text(text)
        distribution = folder / "loud-1.0.dist-info"
        distribution.mkdir()
        (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n")
        (distribution / "entry_points.txt").write_text("[hookpatch]\nloud = loud\n")
        out = folder / "steps.json"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HOOKPATCH_")}
        environment |= {"PYTHONPATH": name, "HOOKPATCH_CACHE": str(folder / "cache"), **settings}
        command = [sys.executable, "-S", "tracer.py", f"{ROOT / 'hookpatch'}{os.sep}", str(out)]
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        return [Step(*step) for step in json.loads(out.read_text())]


def page() -> str:
    """Return the text of docs/how-it-works.md."""
    listed: set[tuple[str, str]] = set()
    first = BLOCK.split("\n").index('patch = hookpatch.wrap("vendor:speak", loud)') + 1
    block = "".join(_sections(BLOCK, [step for step in steps(BLOCK) if step.line >= first], listed))
    start = "".join(_sections(PROGRAM, steps(PROGRAM, HOOKPATCH_PLUGINS="loud"), listed))
    return (
        f"{_HEAD}```python\n# vendor.py\n{VENDOR}```\n\n```python\n# loud.py\n{PLUGIN}```\n\n"
        f"## One block\n\n```python\n{BLOCK}```\n\n```text\nVENDOR ONE\nVENDOR TWO\n```\n\n{block}"
        "## One start from the environment\n\nThe plugin `loud` is installed, and `HOOKPATCH_PLUGINS=loud` is set.\n\n"
        f"```python\n# program.py\n{PROGRAM}```\n\n{start}"
    ).rstrip() + "\n"


def _sections(program: str, steps_taken: list[Step], listed: set[tuple[str, str]]) -> Iterator[str]:
    """Yield a section for each line of a program that entered a function. A function is listed once in the page."""
    lines = program.split("\n")
    for ran, of_line in groupby(steps_taken, key=lambda step: step.ran):
        first: dict[str, Step] = {}
        for step in of_line:
            first.setdefault(step.file, step)
        line = next(iter(first.values())).line
        yield f"### {f'`{lines[line - 1].strip()}`' if ran else 'Before the first line'}\n\n"
        again = [step for step in first.values() if (step.file, step.function) in listed]
        for step in first.values():
            if step not in again:
                yield f"1. {_row(step, is_new=all(step.file != file for file, _ in listed))}\n"
                if step.file in OF_HOOKPATCH:
                    listed.add((step.file, step.function))
        yield f"\nAnd {len(again)} functions named above.\n\n" if again else "\n"


def _row(step: Step, is_new: bool) -> str:
    """Return the row of a function, with the file's own sentence if the file is new to the reader."""
    if step.file == "wrapper":
        return f"`{step.function}`, the wrapper in the slot, compiled by `_engine/calls/trampoline.py`."
    if step.file not in OF_HOOKPATCH:
        return f"`{step.file}`: `{step.function}`."
    sentences = _sentences(step.file)
    about, does = f" {sentences['']}" if is_new else "", sentences.get(step.function)
    return f"[`{step.file}`](../hookpatch/{step.file}){about} `{step.function}`{f': {does}' if does else '.'}"


@cache
def _sentences(file: str) -> dict[str, str]:
    """Return the first sentences of the docstrings of a file, by qualified name; the file's own has an empty name."""
    sentences: dict[str, str] = {}

    def visit(node: ast.AST, name: str) -> None:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            sentences[name] = (ast.get_docstring(node) or "").partition("\n")[0].replace("``", "`")
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                visit(child, f"{name}.{child.name}".lstrip("."))

    visit(ast.parse((ROOT / "hookpatch" / file).read_text()), "")
    return sentences


if __name__ == "__main__":
    PAGE.write_text(page())
