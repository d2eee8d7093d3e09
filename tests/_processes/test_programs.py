"""Commands that run Python must leave a report, and a required block must reach them."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any, Final

import pytest

import hookpatch
from hookpatch._processes.programs import command_of, python_command

RUN: Final = ["worker.py", "a"]
FILES: Final = {"archive": "#!/usr/bin/env python3\nPK", "tool": "#!/bin/sh\n", "binary": "\0ELF python", "empty": ""}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the commands."""
    folder = tmp_path_factory.mktemp("programs")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "link").symlink_to(sys.executable)
    return folder


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are in the current folder and on the path."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.once
@pytest.mark.parametrize(
    "words",
    [
        ["python", *RUN],
        ["/usr/bin/python3.11", *RUN],
        [sys.executable, *RUN],
        ["archive", "a"],
        ["./archive", "a"],
        ["./link", "a"],
        ["uv", "run", *RUN],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize(
    "before",
    [
        *([], ["env", "A=1"], ["/usr/bin/nice", "-n", "5"], ["timeout", "5s"], ["sudo", "-E"], ["env", "nohup"]),
        *(["env", "-u", "HOME"], ["timeout", "-s", "KILL", "5"], ["xargs", "-n", "1"]),
    ],
    ids=lambda words: " ".join(words) or "bare",
)
@pytest.mark.parametrize("way", ["list", "shell", "event", "shell event", "bytes"])
def test_command_runs_python(words: list[str], before: list[str], way: str) -> None:
    """Behind a launcher of programs, in a shell, and as an audit event shows the command."""
    line = [*before, *words]
    arguments: dict[str, tuple[Any, ...]] = {
        "list": (line,),
        "shell": (" ".join(line), None, True),
        "event": (line, line[0]),
        "shell event": (["/bin/sh", "-c", " ".join(line)], "/bin/sh"),
        "bytes": ([word.encode() for word in line], line[0].encode()),
    }
    assert python_command(*arguments[way]) == words


@pytest.mark.once
@pytest.mark.parametrize(
    "words",
    [
        ["tool"],
        ["./binary"],
        ["empty"],
        ["missing", "python"],
        ["uv", "pip", "install", "a"],
        ["env"],
        ["grep", "python"],
        ["python3-config", "--libs"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("before", [[], ["nice", "-n", "5"]], ids=["bare", "nice"])
def test_command_runs_something_else(words: list[str], before: list[str]) -> None:
    """A file without Python in its first line, a missing one, another command of uv."""
    assert python_command([*before, *words]) == []


def test_executable_decides_and_not_the_first_word() -> None:
    """A program may get any name as its first word."""
    assert python_command(["worker-1", "a"], sys.executable) == ["worker-1", "a"]
    assert python_command(["python", "a"], "./tool") == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("cd . && python a", "python a"),
        ("export A=1; set -e; exec python a", "python a"),
        ("'python' a", "python a"),
        ("env -S '-i python a'", "python a"),
        ("grep a && python a", ""),
    ],
)
def test_command_line_of_a_shell(line: str, words: str) -> None:
    """Python comes after the shell's own commands; another program may fail, and Python is not started then."""
    for flag in ("-c", "-lc", "-ec"):
        assert python_command(["bash", flag, line]) == words.split()


@pytest.mark.parametrize(
    ("line", "is_removed"),
    [
        ("env -i python a", True),
        ("env - python a", True),
        ("/usr/bin/env -i A=1 nice python a", True),
        ("env -u HOOKPATCH_INHERIT python a", True),
        ("env --unset=HOOKPATCH_INHERIT python a", True),
        ("HOOKPATCH_INHERIT= python a", True),
        ("unset HOOKPATCH_INHERIT; python a", True),
        ("setpriv --reset-env python a", True),
        ("setpriv --nnp python a --reset-env", False),
        ("sudo python a", True),
        ("sudo -E python a", False),
        ("sudo --preserve-env python a", False),
        ("env -u HOME python a -i", False),
        ("python a HOOKPATCH_INHERIT", False),
    ],
)
def test_command_that_takes_the_blocks_out_of_the_environment(line: str, is_removed: bool) -> None:
    """The program starts in the environment of this process; the words before Python change it."""
    assert command_of(line, shell=True).removes_blocks == is_removed


@pytest.mark.parametrize(
    ("line", "flags"),
    [("python -X utf8 -E a -I", "E"), ("python -Werror -Ic code", "I"), ("./archive -S -I", ""), ("python -VV", "V")],
)
def test_flags_are_those_of_python(line: str, flags: str) -> None:
    """Values of flags are none, nor are the arguments of a program."""
    assert command_of(line).flags == set(flags)


OUTSIDE: Final = """
import os, subprocess, sys, warnings
import hookpatch
warnings.simplefilter("error")
with hookpatch.active(hookpatch.inject("vendor:answer", by=7), children=sys.argv[1]):
    try:
        subprocess.run([sys.executable, "-c", "import vendor; print(vendor.answer())"], check=True)
    except (hookpatch.errors.NotCarriedWarning, hookpatch.errors.NotCarriedError) as error:
        print(error)
"""


@pytest.mark.once
@pytest.mark.parametrize(("children", "runs"), [("inherit", "7"), ("require", "7"), ("local", "2")])
def test_a_python_without_our_start_up_file_says_so(tmp_path: Path, children: str, runs: str) -> None:
    """With hookpatch on PYTHONPATH alone a program of a block starts plain, unless hookpatch run has started all."""
    venv.create(tmp_path / "bare", symlinks=True)
    bare = tmp_path / "bare" / "bin" / "python"
    (tmp_path / "vendor.py").write_text("def answer(by=2): return by")
    (tmp_path / "program.py").write_text(OUTSIDE)
    folders = [str(tmp_path), str(Path(hookpatch.__file__).parents[1]), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}

    def said(*words: str) -> str:
        command = [bare, *words, "program.py", children]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    assert ("has no start-up file of hookpatch" in said()) == (children != "local")
    assert said("-m", "hookpatch", "run").split()[-1] == runs
