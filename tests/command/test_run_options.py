"""An option of `hookpatch run` that a plugin declares: the plugin runs the program in the plugin's own way.

The plugin here runs the program twice and records words. hookpatch-onnx has the tests of `--graph-diff`.
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
    def hookpatch_run(value, run):
        import os
        folders = [f"{value}/{name}" for name in ("plain", "patched")]
        for folder in folders:
            os.makedirs(folder)
        run.write_line(f"runs {run.target[0]}")
        plain = run.plain({"twice": {"folder": folders[0]}})
        patched = run.patched({"twice": {"folder": folders[1]}})
        print([open(f"{folder}/said").read() for folder in folders], plain)
        return patched
'''
QUIET = LOUD.replace("upper", "title")


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with the plugins loud, quiet and twice. The plugin twice declares --run-twice."""
    script = (
        "import os, sys, vendor; print(vendor.speak(), sys.argv[1:]); sys.exit(len(os.environ['HOOKPATCH_PLUGINS']))"
    )
    files = {"vendor.py": "def speak(): return 'a word'\n", "script.py": script}
    plugins = {"loud": LOUD, "quiet": QUIET, "twice": RECORDER}
    home = furnished(tmp_path_factory.mktemp("run_options"), wheels, plugins, files)
    with (home.site_packages / "twice_dist-1.0.dist-info" / "entry_points.txt").open("a") as entry_points:
        entry_points.write("[hookpatch.run_options]\nrun-twice = twice\nnobody = loud\n")
    return home


def run(home: Environment, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return home.run(home.python.parent / "hookpatch", "run", *words, **variables)


def test_program_is_run_as_the_plugin_says(home: Environment, tmp_path: Path) -> None:
    """The plain run ignores the plugins of the environment, too.

    The declaring plugin is outermost and returns the status.
    """
    completed = run(home, "--run-twice", tmp_path, "-p", "loud", "script.py", "-p", "x", HOOKPATCH_PLUGINS="quiet")
    assert (
        completed.stdout == "a word ['-p', 'x']\nA Word ['-p', 'x']\n['a word', 'A Word'] 5\n"
    )  # quiet lies outside loud
    assert completed.returncode == len("twice,quiet,loud")
    assert completed.stderr.splitlines()[0] == "hookpatch: --run-twice: runs script.py"


@pytest.mark.parametrize("words", [["--run-twice={}"], ["--run-twice", "{}"]])
def test_calls_of_the_patched_run_are_counted(home: Environment, tmp_path: Path, words: list[str]) -> None:
    """Only the patched run reports the number of calls. The value may be written with ``=``."""
    options = [word.format(tmp_path) for word in words]
    completed = run(home, *options, "-p", "loud", "-c", "import vendor; vendor.speak()")
    assert [line.partition("]: ")[2] for line in completed.stderr.splitlines() if line.startswith("hookpatch[")] == [
        "vendor:speak (twice): 1 made",
        "vendor:speak (loud): 1 made",
    ]


def test_signal_that_ends_the_patched_run_is_in_the_status(home: Environment, tmp_path: Path) -> None:
    """A signal that ends the patched run gives status 128 plus the number, as in shells."""
    kill = "import os, signal, vendor; vendor.speak(); os.kill(os.getpid(), signal.SIGTERM)"
    completed = run(home, "--run-twice", tmp_path, "-p", "loud", "-c", kill)
    assert completed.returncode == 128 + signal.SIGTERM


def test_the_help_names_it(home: Environment) -> None:
    """The help names the option without loading the plugin."""
    assert "--run-twice VALUE" in run(home, "--help").stdout


def test_plugin_that_declares_it_and_does_not_implement_it_is_told(home: Environment) -> None:
    """A plugin that declares an option without hookpatch_run is named in the error."""
    completed = run(home, "--nobody", "x", "-c", "print('ran')")
    problem = "declares --nobody for hookpatch run, and implements no hookpatch_run"
    assert (completed.stdout, completed.returncode) == ("", 78)
    assert f"plugin 'loud' (loud-dist 1.0) {problem}" in completed.stderr


def test_option_that_nobody_declares_is_a_usage_error(environment: Environment) -> None:
    """An option that no plugin declares is a usage error, and no program runs."""
    completed = environment.run(
        environment.python.parent / "hookpatch", "run", "--run-twice", "out", "-c", "print('ran')"
    )
    assert (completed.stdout, completed.returncode) == ("", 2)
    assert "--run-twice" in completed.stderr
