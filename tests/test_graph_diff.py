"""`hookpatch run --graph-diff`: a program twice, plain and patched; what records and compares is a plugin called onnx.

Here that plugin is one that records words. The real one has its own tests, with real models.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from environments import LOUD, Environment, furnished

pytestmark = pytest.mark.once

RECORDER = '''
    """Record what the vendor says."""
    from dataclasses import dataclass
    from typing import Annotated
    import hookpatch

    @dataclass(frozen=True)
    class Options:
        folder: str

    @hookpatch.hookimpl
    def hookpatch_patches(options):
        def record(wrapped, instance, args, kwargs):
            said = wrapped(*args, **kwargs)
            with open(f"{options.folder}/said", "a") as file:
                file.write(said)
            return said
        yield hookpatch.wrap("vendor:speak", record)

    @hookpatch.hookimpl
    def hookpatch_commands(app):
        import typer

        @app.command()
        def diff(before: str, after: str, output: Annotated[str, typer.Option("-o")]):
            print([open(f"{folder}/said").read() for folder in (before, after)], output)
'''
QUIET = LOUD.replace("upper", "title")


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the plugins loud, quiet and onnx."""
    script = (
        "import os, sys, vendor; print(vendor.speak(), sys.argv[1:]); sys.exit(len(os.environ['HOOKPATCH_PLUGINS']))"
    )
    files = {"vendor.py": "def speak(): return 'a word'\n", "script.py": script}
    plugins = {"loud": LOUD, "quiet": QUIET, "onnx": RECORDER}
    return furnished(tmp_path_factory.mktemp("graph_diff"), wheels, plugins, files)


def run(home: Environment, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return home.run(home.python.parent / "hookpatch", "run", *words, **variables)


def test_program_is_run_plain_then_patched_and_compared(home: Environment, tmp_path: Path) -> None:
    """Plain is without what the environment asks for, too; the recorder lies outermost; the status is the second's."""
    done = run(home, "--graph-diff", tmp_path, "-p", "loud", "script.py", "-p", "x", HOOKPATCH_PLUGINS="quiet")
    assert done.stdout == (
        f"a word ['-p', 'x']\nA Word ['-p', 'x']\n['a word', 'A Word'] {tmp_path}\n"  # quiet lies outside loud
    )
    assert done.returncode == len("onnx,quiet,loud")
    assert [line for line in done.stderr.splitlines() if line.startswith("hookpatch: ")] == [
        "hookpatch: --graph-diff: the program is run twice; now plain",
        "hookpatch: --graph-diff: the plain run ended with status 4; what it made until then is compared",
        "hookpatch: --graph-diff: now patched",
    ]


def test_calls_of_the_patched_run_are_counted(home: Environment, tmp_path: Path) -> None:
    """So that the recorder knows which patches were called; the plain run says nothing of it."""
    done = run(home, "--graph-diff", tmp_path, "-p", "loud", "-c", "import vendor; vendor.speak()")
    assert [line.partition("]: ")[2] for line in done.stderr.splitlines() if line.startswith("hookpatch[")] == [
        "vendor:speak (onnx): 1 made",
        "vendor:speak (loud): 1 made",
    ]


def test_signal_that_ends_the_patched_run_is_in_the_status(home: Environment, tmp_path: Path) -> None:
    """As shells tell it; what was recorded until then is compared."""
    kill = "import os, signal, vendor; vendor.speak(); os.kill(os.getpid(), signal.SIGTERM)"
    done = run(home, "--graph-diff", tmp_path, "-p", "loud", "-c", kill)
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stdout == f"['a word', 'A WORD'] {tmp_path}\n"


def test_folder_of_an_earlier_run_is_refused(home: Environment, tmp_path: Path) -> None:
    """Two runs' models are never mixed."""
    (tmp_path / "plain").mkdir()
    done = run(home, "--graph-diff", tmp_path, "-p", "loud", "script.py")
    assert (done.stdout, done.stderr, done.returncode) == (
        "",
        f"hookpatch: error: --graph-diff: {tmp_path / 'plain'} is of an earlier run; name another folder "
        "[hookpatch explain SettingError]\n",
        78,
    )


@pytest.mark.parametrize(
    ("words", "variables", "problem"),
    [
        (["-"], {}, "runs the program twice, and stdin can be read once; put it into a file"),
        (["--in-process", "script.py"], {}, "runs the program twice, which --in-process cannot; leave that out"),
        (
            ["script.py"],
            {"HOOKPATCH_DISABLE": "1"},
            "HOOKPATCH_DISABLE is set, so nothing would be patched; unset it",
        ),
    ],
)
def test_what_cannot_be_run_twice_is_refused(
    home: Environment, tmp_path: Path, words: list[str], variables: dict[str, str], problem: str
) -> None:
    """Before anything is run or made."""
    done = run(home, "--graph-diff", tmp_path / "out", "-p", "loud", *words, **variables)
    said = f"hookpatch: error: --graph-diff: {problem} [hookpatch explain SettingError]\n"
    assert (done.stdout, done.stderr, done.returncode) == ("", said, 78)
    assert not (tmp_path / "out").exists()


def test_folder_that_cannot_be_made_is_refused(home: Environment, tmp_path: Path) -> None:
    """A file is in its place."""
    (tmp_path / "out").write_text("")
    done = run(home, "--graph-diff", tmp_path / "out", "-p", "loud", "script.py")
    assert (done.stdout, done.returncode) == ("", 78)
    said = f"--graph-diff: {tmp_path / 'out'} cannot be written: Not a directory [hookpatch explain SettingError]"
    assert done.stderr == f"hookpatch: error: {said}\n"


def test_plugin_that_is_not_installed_is_named(environment: Environment, tmp_path: Path) -> None:
    """With what to install."""
    done = environment.run(
        environment.python.parent / "hookpatch", "run", "--graph-diff", tmp_path / "out", "-c", "print('ran')"
    )
    assert (done.stdout, done.stderr, done.returncode) == (
        "",
        "hookpatch: error: --graph-diff: the plugin 'onnx' does it, which is not installed; "
        "pip install hookpatch-onnx [hookpatch explain SettingError]\n",
        78,
    )
