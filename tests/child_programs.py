"""Programs that start child processes inside a block, and their expected output."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

from environments import Environment

VENDOR = """
def speak(word="vendor"):
    return word
"""

LOUD = """
    '''Speak louder.'''
    from dataclasses import dataclass
    import hookpatch

    @dataclass(frozen=True)
    class Options:
        mark: str = "!"

    @hookpatch.hookimpl
    def hookpatch_patches(options):
        def louder(wrapped, instance, args, kwargs):
            return wrapped(*args, **kwargs).upper() + options.mark
        yield hookpatch.wrap("vendor:speak", louder)
"""

AROUND = """
def around(wrapped, instance, args, kwargs):
    return f"<{wrapped(*args, **kwargs)}>"
"""

WORK = """
import multiprocessing, os, subprocess, sys
import vendor

def speak(*_):
    return vendor.speak()

def in_program(*flags, **more):
    code = "import sys; sys.path.insert(0, '.'); import vendor; print(vendor.speak())"
    command = [sys.executable, *flags, "-c", code]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, **more).stdout.strip()

def in_process(method, function=speak, *args):
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.apply(function, args)

def everywhere():
    return [speak(), in_program(), *map(in_process, ("fork", "spawn", "forkserver"))]
"""

BEGIN = """
import json, os, sys, threading, warnings
import hookpatch, vendor
from work import *

said = []

def main():
    environment = dict(os.environ)
{scene}
    assert dict(os.environ) == environment, set(os.environ.items()) ^ set(environment.items())
    print(json.dumps(said))

if __name__ == "__main__":
    warnings.simplefilter("error", hookpatch.errors.NotCarriedWarning)
    main()
"""


def scene(home: Environment, tmp_path: Path, lines: str, before: str = "", **variables: str) -> tuple[Any, str]:
    """Run lines of ``main`` in a script of their own; return the values in ``said``, and stderr."""
    script = home.folder / f"{tmp_path.name}.py"
    indented = dedent(lines).strip("\n").replace("\n", "\n    ")
    script.write_text(BEGIN.format(scene=f"    {indented}").replace("said = []", f"{dedent(before)}\nsaid = []"))
    completed = home.run(script, **variables)
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout.splitlines()[-1]), completed.stderr


PLAIN = ["vendor"] * 5
