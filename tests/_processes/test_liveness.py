"""A copy of the environment outlives its block: a program started later with the copy is plain."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from child_programs import AROUND, LOUD, VENDOR, WORK, scene
from environments import Environment, furnished

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the table of open blocks needs Linux")

AFTER = """
import time
def later(**more):
    time.sleep(0.02)  # no listener: a program that starts within 0.01 s of the end counts as started inside
    return in_program(**more)
"""


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Make an environment with a plugin, and a folder with the vendor's module and its callers."""
    files = {"vendor.py": VENDOR, "around.py": AROUND, "work.py": WORK}
    return furnished(tmp_path_factory.mktemp("liveness"), wheels, {"loud": LOUD}, files)


def test_copy_used_after_the_block_patches_nothing(home: Environment, tmp_path: Path) -> None:
    """The copy patches nothing while another block is open; in the same block entered again the copy is valid."""
    lines = """
    session = hookpatch.active("loud")
    with session:
        copy = dict(os.environ)
        said.append(in_program(env=copy))
    said.append(later(env=copy))
    with hookpatch.active(hookpatch.wrap("vendor:speak", around.around)):
        said.append([later(env=copy), in_program()])
    with session:
        said.append(later(env=copy))
    said.append(later(env=copy))
    """
    expected = ["VENDOR!", "vendor", ["vendor", "<vendor>"], "VENDOR!", "vendor"]
    assert scene(home, tmp_path, lines, f"{AFTER}\nimport around") == (expected, "")


def test_inner_block_that_has_ended_is_left_out(home: Environment, tmp_path: Path) -> None:
    """The open outer block holds, without the ended inner block."""
    lines = """
    with hookpatch.active("loud"):
        with hookpatch.active(hookpatch.wrap("vendor:speak", around.around)):
            copy = dict(os.environ)
        said.append(later(env=copy))
    """
    assert scene(home, tmp_path, lines, f"{AFTER}\nimport around") == (["VENDOR!"], "")


def test_program_that_was_started_inside_may_be_slow(home: Environment, tmp_path: Path) -> None:
    """A slow child process is patched after the end of the block; started by a shell, or with a dead parent."""
    lines = """
    code = "import sys; sys.path.insert(0, '.'); import vendor; print(vendor.speak(), flush=True)"
    python = [sys.executable, "-c", code]
    late = ["sh", "-c", 'sleep 0.2; exec "$0" "$@"', *python]
    orphan = [sys.executable, "-c", "import os, sys; os.fork() or os.execv('/bin/sh', sys.argv[1:])", *late]
    for _ in range(2):  # the first end makes the table
        with hookpatch.active("loud"):
            started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for words in (python, late, orphan)]
        said.append([process.communicate()[0].strip() for process in started])
    """
    assert scene(home, tmp_path, lines) == ([["VENDOR!"] * 3] * 2, "")


def test_forked_process_hands_on_what_it_has(home: Environment, tmp_path: Path) -> None:
    """A block that ended in the parent stays open in the fork, until its end there."""
    lines = """
    session = hookpatch.active("loud").open()
    read, write = os.pipe()
    ended, end = os.pipe()
    pid = os.fork()
    if not pid:
        os.read(ended, 1)
        copy = dict(os.environ)
        words = [later(), later(env=copy)]
        session.close()
        words += [later(), later(env=copy)]
        os.write(write, json.dumps(words).encode())
        os._exit(0)
    session.close()
    os.write(end, b".")
    os.waitpid(pid, 0)
    said.extend(json.loads(os.read(read, 1000)))
    """
    assert scene(home, tmp_path, lines, AFTER) == (["VENDOR!", "VENDOR!", "vendor", "vendor"], "")


def test_environment_that_an_interrupt_left_patches_nothing(home: Environment, tmp_path: Path) -> None:
    """A program with a leftover environment is plain once a later block of this process has ended."""
    lines = """
    with hookpatch.active(hookpatch.wrap("vendor:speak", around.around)):
        left = os.environ["HOOKPATCH_INHERIT"].replace("-1-", "-7-")
    os.environ["HOOKPATCH_INHERIT"] = left
    said.append(in_program())
    del os.environ["HOOKPATCH_INHERIT"]
    """
    assert scene(home, tmp_path, lines, "import around") == (["vendor"], "")


def test_program_in_the_place_of_this_one(home: Environment, tmp_path: Path) -> None:
    """os.exec in an open block starts a patched program; with a copy, after a required block, a plain program."""
    lines = """
    code = "import sys; sys.path.insert(0, '.'); import vendor; print(vendor.speak(), flush=True)"
    def replaced(environment):
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            os.dup2(write, 1)
            try:
                os.execve("/does/not/exist", ["python"], environment)
            except FileNotFoundError:
                os.execve(sys.executable, [sys.executable, "-c", code], environment)
        os.waitpid(pid, 0)
        return os.read(read, 100).decode().strip()
    with hookpatch.active("loud", children="require"):
        copy = dict(os.environ)
        said.append(replaced(copy))
    said.append(replaced(copy))
    """
    assert scene(home, tmp_path, lines) == (["VENDOR!", "vendor"], "")


def test_more_blocks_than_the_table_has_rows(home: Environment, tmp_path: Path) -> None:
    """Blocks in sequence reuse rows; more open blocks than rows are not in the table, and each counts as open."""
    lines = """
    patches = [hookpatch.replace(f"vendor:word{at}", at, add=True) for at in range(400)]
    with hookpatch.active("loud"):
        for patch in patches:
            with hookpatch.active(patch):
                copy = dict(os.environ)
        said.append(in_program())
    said.append(later(env=copy))
    sessions = [hookpatch.active(patch).open() for patch in patches]
    with hookpatch.active("loud"):
        said.append(in_process("spawn"))
    for session in sessions:
        session.close()
    """
    assert scene(home, tmp_path, lines, AFTER) == (["VENDOR!", "vendor", "VENDOR!"], "")


def test_program_in_the_place_of_this_one_in_a_block_without_notes() -> None:
    """A session entered again notes its block when a hook asks: else the program would take the block for ended."""
    lines = """
import os, sys, hookpatch
with hookpatch.active(hookpatch.replace("string:digits", lambda: 0)):
    pass  # not handed on: from now on a hook sees the start of each program
session = hookpatch.active(hookpatch.replace("string:digits", "patched"))
for _ in range(3):
    with session:
        pass
with session:
    os.execv(sys.executable, [sys.executable, "-c", "import string; print(string.digits)"])
"""
    assert subprocess.check_output([sys.executable, "-c", lines], text=True).strip() == "patched"


@pytest.mark.ends
def test_session_entered_again_in_a_fork(home: Environment, tmp_path: Path) -> None:
    """A forked process hands the block on as a block of its own: a copy is valid as long as the block is open.

    Whether the fork keeps the parent's table does not matter: a thread that was running may hold the table for ever.
    """
    lines = """
    session = hookpatch.active(hookpatch.wrap("vendor:speak", around.around))
    for _ in range(4):
        with session:
            pass
    for name in os.listdir("/proc/self/fd"):
        if os.path.exists(f"/proc/self/fd/{name}") and "hookpatch-" in os.readlink(f"/proc/self/fd/{name}"):
            os.dup(int(name))
    for _ in range(3):
        read, write = os.pipe()
        if os.fork() == 0:
            heard = []
            for _ in range(4):
                with session:
                    copy = dict(os.environ)
                    heard.append(in_program())
                heard.append(later(env=copy))
            os.write(write, " ".join(heard).encode())
            os._exit(0)
        os.wait()
        said.append(os.read(read, 200).decode())
        with session:
            said.append(in_program())
    """
    expected = [" ".join(["<vendor>", "vendor"] * 4), "<vendor>"] * 3
    assert scene(home, tmp_path, lines, f"{AFTER}\nimport around") == (expected, "")
