"""Patches of instances and edits of classes in child processes, in the lock file, in plan, why and check."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from environments import Environment, hookpatch

pytestmark = pytest.mark.once

VENDOR = """
class Thing:
    kind = "thing"
    def __init__(self): self.size = 1
    def speak(self): return "thing"

there = Thing()
"""
PLUGIN = '''
"""Patch the instances of a class."""
import hookpatch

def loud(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs).upper()

@hookpatch.hookimpl
def hookpatch_patches():
    yield hookpatch.wrap("vendor:Thing().speak", loud)
    yield hookpatch.replace("vendor:Thing().size", 7)
    yield hookpatch.edit("vendor:Thing", 'kind = "thing"', 'kind = "edited"')
'''
SEEN = "[vendor.there.speak(), vendor.there.size, vendor.Thing().speak(), vendor.Thing().size, vendor.there.kind]"
PROGRAM = f"""
import json, multiprocessing, subprocess, sys
import hookpatch, vendor
from patches import loud

def seen(*_):
    return {SEEN}

def in_process(method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.apply(seen)

def in_program():
    code = "import json, sys, vendor; print(json.dumps({SEEN}))"
    return json.loads(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True).stdout)

def everywhere():
    return [seen(), in_program(), *map(in_process, ("fork", "spawn", "forkserver"))]

if __name__ == "__main__":
    what = WHAT
    print(json.dumps(everywhere()))
    with hookpatch.active(*what):
        print(json.dumps(everywhere()))
    print(json.dumps(everywhere()))
"""
PATCHES = """(
    hookpatch.wrap("vendor:Thing().speak", loud),
    hookpatch.replace("vendor:Thing().size", 7),
    hookpatch.edit("vendor:Thing", 'kind = "thing"', 'kind = "edited"'),
)"""
PLAIN = ["thing", 1, "thing", 1, "thing"]
PATCHED = ["THING", 7, "THING", 7, "edited"]


@pytest.fixture
def home(environment: Environment, tmp_path: Path) -> Environment:
    """An environment with the plugin; each program has the vendor in the same folder."""
    environment.work_in(tmp_path / "work", {"vendor.py": VENDOR, "patches.py": PLUGIN})
    environment.add_plugin("parts", dedent(PLUGIN))
    return environment


@pytest.mark.parametrize(
    "arguments", [PATCHES, pytest.param('("parts",)', marks=pytest.mark.ends)], ids=["patches", "plugin"]
)
def test_in_each_child_process(home: Environment, arguments: str) -> None:
    """Instances of the child process are patched, and the class is edited; after the block no instance is patched."""
    script = home.folder / "program.py"
    script.write_text(PROGRAM.replace("WHAT", arguments))
    completed = home.run(script)
    assert completed.returncode == 0, completed.stderr
    assert completed.stderr == ""
    lines = [*map(eval, completed.stdout.splitlines())]
    assert lines == [[PLAIN] * 5, [PATCHED] * 5, [PLAIN] * 5]


@pytest.mark.ends
def test_lock_and_check(home: Environment) -> None:
    """Each address is locked; a changed method, class body or default is noticed, and nothing else."""
    completed = hookpatch(home, "lock", "parts", PYTHONPATH=str(home.folder))
    assert completed.returncode == 0, completed.stderr
    assert hookpatch(home, "check", "parts", PYTHONPATH=str(home.folder)).returncode == 0
    lock = (home.folder / "hookpatch.lock").read_text()
    for address in ("vendor:Thing().speak", "vendor:Thing().size", "vendor:Thing", "vendor:Thing.kind"):
        assert f'"{address}"' in lock
    vendor = home.folder / "vendor.py"
    vendor.write_text(VENDOR.replace('return "thing"', 'return "other"'))
    completed = hookpatch(home, "check", "parts", PYTHONPATH=str(home.folder))
    assert completed.returncode != 0
    assert "vendor:Thing().speak" in completed.stdout
    vendor.write_text(VENDOR.replace('kind = "thing"', 'kind = "things"'))
    completed = hookpatch(home, "check", "parts", PYTHONPATH=str(home.folder))
    assert completed.returncode != 0
    assert "'kind = \"thing\"' is not in the source;" in completed.stdout


def test_plan_is_what_the_run_reports(home: Environment) -> None:
    """Of a plugin with all three: a row each, and one for each part of the class."""
    completed = hookpatch(home, "plan", "parts", PYTHONPATH=str(home.folder))
    assert completed.returncode == 0, completed.stdout + completed.stderr
    rows = ["vendor:Thing().speak", "vendor:Thing().size", "vendor:Thing", "vendor:Thing.kind"]
    assert [line.split()[0] for line in completed.stdout.splitlines() if line.startswith("vendor:")] == rows
    code = "import vendor, hookpatch; print(hookpatch.report()); print(hookpatch.why('vendor:Thing().speak'))"
    completed = home.run("-c", code, HOOKPATCH_PLUGINS="parts")
    assert [line.split()[2] for line in completed.stdout.splitlines() if line.startswith("applied")] == rows
    assert "wrap by plugin 'parts' from parts-dist 1.0, session 1" in completed.stdout
