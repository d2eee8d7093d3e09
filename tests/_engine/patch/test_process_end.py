"""ExitGuard: code of a plugin does not end the process by os._exit; all other code does."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from hookpatch._engine.patch.process_end import ExitGuard, ProcessEnd

ORIGINAL = os._exit


def guarded(act: Callable[[], object]) -> None:
    """Run code as code of a plugin."""
    guard = ExitGuard(sys._getframe())
    guard.begin()
    try:
        act()
    finally:
        guard.end()


def status_of(act: Callable[[], object]) -> int:
    """Run code in a fork; return the exit status, 99 if the code does not end the process."""
    pid = os.fork()
    if not pid:
        try:
            act()
        finally:
            ORIGINAL(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("status", [0, 3])
def test_code_of_a_plugin_raises(status: int) -> None:
    """The error names the call, and os._exit is restored."""
    with pytest.raises(ProcessEnd, match=rf"^os\._exit\({status}\)$"):
        guarded(lambda: os._exit(status))
    assert os._exit is ORIGINAL


def test_plugin_inside_a_plugin() -> None:
    """The inner plugin's end does not lift the guard of the outer plugin."""
    with pytest.raises(ProcessEnd):
        guarded(lambda: (guarded(lambda: None), os._exit(0)))
    assert os._exit is ORIGINAL


def test_fork_of_a_plugin_ends() -> None:
    """A plugin may start a process: multiprocessing ends a forked process by os._exit."""
    guarded(lambda: statuses.append(status_of(lambda: os._exit(4))))
    assert statuses.pop() == 4


def test_another_thread_ends_the_process() -> None:
    """The program may end itself while one of its threads loads a plugin."""

    def act() -> None:
        thread = threading.Thread(target=lambda: os._exit(5))
        thread.start()
        thread.join()

    assert status_of(lambda: guarded(act)) == 5


def test_signal_handler_ends_the_process() -> None:
    """The handler is code of the program."""

    def act() -> None:
        signal.signal(signal.SIGUSR1, lambda *_: os._exit(6))
        signal.raise_signal(signal.SIGUSR1)

    assert status_of(lambda: guarded(act)) == 6


def test_kept_function_ends_the_process_afterwards() -> None:
    """A module imported by a plugin may keep os._exit for later."""
    kept: list[Callable[[int], object]] = []
    guarded(lambda: kept.append(os._exit))
    assert status_of(lambda: kept[0](7)) == 7


def test_kept_function_raises_in_later_code_of_a_plugin() -> None:
    """A module imported by a plugin keeps os._exit, and calls it in a hook."""
    kept: list[Callable[[int], object]] = []
    guarded(lambda: kept.append(os._exit))
    with pytest.raises(ProcessEnd, match=r"^os\._exit\(8\)$"):
        guarded(lambda: kept[0](8))


def test_function_of_posix_raises_and_is_restored() -> None:
    """The module os has taken the function from another module."""
    home = importlib.import_module(os.name)
    with pytest.raises(ProcessEnd, match=r"^os\._exit\(9\)$"):
        guarded(lambda: home._exit(9))
    assert home._exit is ORIGINAL


def test_kept_function_is_called_at_the_exit_without_a_frame() -> None:
    """atexit calls a function from C code: there is no frame to look at."""
    code = (
        "import atexit, os, sys; from hookpatch._engine.patch.process_end import ExitGuard; "
        "guard = ExitGuard(sys._getframe()); guard.begin(); atexit.register(os._exit, 5); guard.end()"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (completed.returncode, completed.stderr) == (5, "")


def test_foreign_value_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin may replace os._exit itself."""

    def foreign(status: int) -> None:
        """Stand for a function of the plugin."""

    monkeypatch.setattr(os, "_exit", ORIGINAL)
    guarded(lambda: setattr(os, "_exit", foreign))
    assert os._exit is foreign


def test_guards_of_two_threads_end_in_any_order() -> None:
    """Each thread has its guard; after both ends os._exit is the original."""
    first, second = ExitGuard(sys._getframe()), threading.Event()
    first.begin()
    inside, errors = threading.Event(), []

    def act() -> None:
        inside.set()
        assert second.wait(60)
        os._exit(0)

    def run() -> None:
        try:
            guarded(act)
        except ProcessEnd as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    assert inside.wait(60)
    first.end()
    second.set()
    thread.join()
    assert (errors, os._exit) == (["os._exit(0)"], ORIGINAL)


statuses: list[int] = []
