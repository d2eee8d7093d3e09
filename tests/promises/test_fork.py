"""Forks: a child process forked while other threads patch can patch."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from shared_targets import PATIENCE, SHARED

pytestmark = pytest.mark.ends

WriteModule: TypeAlias = Callable[[str, str], Path]

FORKING: Final = """
    import faulthandler, importlib, itertools, os, random, signal, sys, threading, traceback
    import hookpatch, hookpatch._engine.site.proxy
    from hookpatch import Target
    faulthandler.register(signal.SIGALRM, chain=True)  # the stacks of all threads, and then the end
    signal.alarm({limit})
    sys.path.insert(0, sys.argv[1])
    sys.dont_write_bytecode = True
    import shared

    def around(wrapped, instance, args, kwargs):
        return "patched", wrapped(*args, **kwargs)

    def in_child(body):
        # Run a function in a forked child; return its exit status, less than 0 for one that hangs.
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        try:
            signal.alarm({patience})
            body()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
"""


def _run_forking(folder: Path, code: str) -> str:
    """Run a forking program in a process of its own, and return the output."""
    program = (
        inspect.cleandoc(FORKING.format(limit=int(6 * PATIENCE), patience=int(PATIENCE)))
        + "\n"
        + inspect.cleandoc(code)
    )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, str(folder)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.stderr == "", completed.stderr
    return completed.stdout


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@forks
def test_child_forked_while_other_threads_patch_can_patch(write_module: WriteModule, folder: Path) -> None:
    """A child process opens and closes sessions, even on targets under change by other threads, and imports."""
    write_module("shared", SHARED)
    for number in range(41):
        write_module(f"fresh{number}", "def run():\n    return 'original'\noriginal = run\n")
    code = """
        sys.setswitchinterval(1e-5)
        stop = threading.Event()
        targets = ["shared:plain", "shared:Base.own", "shared:Child.inherited", "shared:table['a']", "shared:steps[1]"]

        def come_and_go(seed):
            choose = random.Random(seed)
            while not stop.is_set():
                with hookpatch.active(
                    hookpatch.wrap(choose.choice(targets), around),
                    hookpatch.derive(choose.choice(targets), lambda below: lambda *a, **k: ("derived", below(*a, **k))),
                    hookpatch.wrap("shared:spread", around, reach="everywhere"),
                    hookpatch.replace(f"never_imported{seed}:x", 1),
                ):
                    pass

        def body():
            # What other threads had open stays open: they are not here to close it.
            with hookpatch.active(*(hookpatch.wrap(target, around) for target in [*targets, f"fresh{number}:run"])):
                fresh = importlib.import_module(f"fresh{number}")
                assert fresh.run() == ("patched", "original"), fresh.run()
                child = shared.Child()
                for call in (shared.plain, child.own, child.inherited, shared.table["a"], shared.steps[1]):
                    assert call()[0] == "patched", call()
            assert fresh.run is fresh.original
            with hookpatch.active(hookpatch.wrap("shared:spread", around, reach="everywhere")):
                assert shared.spread()[0] == "patched"
            hookpatch.report()

        number = 0
        body()  # once here: a module that another thread is importing hangs in a child, with us and without
        threads = [threading.Thread(target=come_and_go, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        ended = []
        for number in range(1, 41):
            ended.append(in_child(body))
        stop.set()
        for thread in threads:
            thread.join()
        print(ended.count(0), set(ended))
    """
    assert _run_forking(folder, code) == "40 {0}\n"


@forks
@pytest.mark.parametrize(
    ("patch", "call"),
    [
        ('hookpatch.wrap("shared:plain", around)', "shared.plain()"),
        ('hookpatch.wrap(Target.attribute(Owner, "other"), around)', "Owner().other()"),
        ('hookpatch.wrap(Target.attribute(Owner, "run"), around)', "Owner().run()"),
    ],
)
def test_child_forked_while_a_setter_runs_can_patch(
    patch: str, call: str, write_module: WriteModule, folder: Path
) -> None:
    """A child process forked during another thread's change can patch the same target and others."""
    write_module("shared", SHARED)
    code = f"""
        reached, go_on = threading.Event(), threading.Event()

        class Kind(type):
            def __setattr__(cls, name, value):
                if threading.current_thread() is not threading.main_thread():
                    reached.set()
                    go_on.wait({PATIENCE})
                super().__setattr__(name, value)

        class Owner(metaclass=Kind):
            def run(self):
                return "original"

            def other(self):
                return "original"

        def change():
            with hookpatch.active(hookpatch.wrap(Target.attribute(Owner, "run"), around)):
                assert Owner().run() == ("patched", "original")

        def body():
            before = dict(vars(Owner))
            with hookpatch.active({patch}):
                assert {call}[0] == "patched"
            assert dict(vars(Owner)) == before

        original = Owner.run
        thread = threading.Thread(target=change)
        thread.start()
        reached.wait()
        print(in_child(body))
        go_on.set()
        thread.join()
        assert Owner.run is original
    """
    assert _run_forking(folder, code) == "0\n"
