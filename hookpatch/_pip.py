"""pip as it is configured here, for wheels alone: to build an old release may take an hour and a compiler."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

from hookpatch import _environment


@cache
def has_pip() -> bool:
    """Tell whether this environment has pip. Only when that is needed: setuptools takes who asks for pip itself."""
    return find_spec("pip") is not None


def install(release: str, *words: str, pip: Sequence[str] = (sys.executable, "-m", "pip")) -> str | None:
    """Install a release; return the last line of pip's error, None if there is none.

    Args:
        release: what to install, such as ``onnxsim==0.7.3``.
        *words: further words for ``pip install``; ``--only-binary=:none:`` allows to build.
        pip: the command that is pip.
    """
    fixed = ["--quiet", "--disable-pip-version-check", "--no-input", "--only-binary=:all:"]
    done = run([*pip, "install", *fixed, *words, release])
    return None if done.returncode == 0 else last_line(done)


def run(command: Sequence[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with nothing of ours in its environment."""
    return subprocess.run(command, env=_environment.without_ours(), cwd=folder, capture_output=True, text=True)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the line in which a command says what went wrong."""
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [f"it ended with status {done.returncode}"])[-1].removeprefix("ERROR:").strip()
