"""Ways to install hookpatch and to start Python: where HOOKPATCH_PLUGINS works, and where `hookpatch run` helps."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import pytest
from environments import Environment

PLUGIN = """
    '''Speak louder.'''
    import hookpatch

    def louder(wrapped, instance, args, kwargs):
        return wrapped(*args, **kwargs).upper()

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.wrap("vendor:speak", louder)
"""
FILES = {"vendor.py": "def speak():\n    return 'vendor'\n", "script.py": "import vendor\nprint(vendor.speak())\n"}
RUN = ["-m", "hookpatch", "run", "-p", "loud", "script.py"]


@pytest.fixture
def home(environment: Environment, tmp_path: Path) -> Environment:
    """An environment with hookpatch and a plugin, and a folder with the vendor and a script."""
    environment.add_plugin("loud", PLUGIN)
    environment.work_in(tmp_path / "work", FILES)
    return environment


@pytest.fixture
def elsewhere(home: Environment, wheels: Path, tmp_path: Path) -> Path:
    """Make a folder outside site-packages with hookpatch and the plugin, as by `pip install --target`."""
    folder = tmp_path / "elsewhere"
    (wheel,) = wheels.glob("hookpatch-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    for entry in [*home.site_packages.glob("hookpatch*"), *home.site_packages.glob("loud*")]:
        entry.rename(folder / entry.name) if not (folder / entry.name).exists() else None
    for entry in home.site_packages.glob("hookpatch*"):
        subprocess.run(["rm", "-r", entry], check=True)
    return folder


@pytest.mark.parametrize("flag", [[], ["-s"], ["-P"], ["-B"], ["-X", "dev"], ["-O"]])
def test_flags_that_leave_the_start_up_file_alone(home: Environment, flag: list[str]) -> None:
    """The program is patched as without the flags."""
    completed = home.run(*flag, "-W", "ignore", "script.py", HOOKPATCH_PLUGINS="loud", PYTHONPATH=str(home.folder))
    assert (completed.stdout, completed.stderr) == ("VENDOR\n", "")


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_flags_that_switch_it_off(home: Environment, flag: str) -> None:
    """Python ignores the environment, or reads no start-up file: the program runs plain, as documented."""
    packages = str(home.site_packages.parents[3] / "rest")
    program = f"import sys; sys.path[:0] = [{str(home.folder)!r}, {packages!r}]; import vendor; print(vendor.speak())"
    completed = home.run(flag, "-c", program, HOOKPATCH_PLUGINS="loud")
    assert (completed.stdout, completed.stderr) == ("vendor\n", "")


def test_run_refuses_an_interpreter_that_ignores_the_environment(home: Environment) -> None:
    """An interpreter that ignores the environment would not read the request."""
    completed = home.run("-E", *RUN)
    assert "this python ignores the environment (-I or -E), and the program would run unpatched" in completed.stderr
    assert (completed.stdout, completed.returncode) == ("", 78)


def test_folder_on_pythonpath(home: Environment, elsewhere: Path) -> None:
    """After `pip install --target` Python reads no .pth file; `hookpatch run` needs none."""
    path = {"PYTHONPATH": str(elsewhere)}
    assert home.run("script.py", HOOKPATCH_PLUGINS="loud", **path).stdout == "vendor\n"
    completed = home.run(*RUN, **path)
    assert (completed.stdout, completed.stderr) == ("VENDOR\n", "")


def test_wheel_on_pythonpath(home: Environment, elsewhere: Path, wheels: Path) -> None:
    """Blocks and `hookpatch run` work with hookpatch inside a zip file."""
    (wheel,) = wheels.glob("hookpatch-*.whl")
    plugin = elsewhere.parent / "plugin"
    plugin.mkdir()
    for entry in elsewhere.glob("loud*"):
        entry.rename(plugin / entry.name)
    path = {"PYTHONPATH": f"{wheel}{os.pathsep}{plugin}"}
    block = """
import hookpatch, vendor
print(hookpatch.__file__.partition(".whl")[1])
with hookpatch.active("loud", hookpatch.wrap("vendor:speak", lambda w, i, a, k: w() + "!"), children="local"):
    print(vendor.speak())
print(vendor.speak())
"""
    completed = home.run("-c", block, **path)
    assert (completed.stdout, completed.stderr) == (".whl\nVENDOR!\nvendor\n", "")
    completed = home.run(*RUN, **path)
    assert (completed.stdout, completed.stderr) == ("VENDOR\n", "")


def test_environment_made_by_an_environment(home: Environment, tmp_path: Path) -> None:
    """An environment made with --system-site-packages sees the base's start-up line, not the other environment's."""
    inner = tmp_path / "inner"
    subprocess.run([home.python, "-m", "venv", "--without-pip", inner], check=True)
    (site,) = inner.glob("lib/python3*/site-packages")
    python = inner / "bin" / "python"
    command = [str(python), "script.py"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    variables = {**plain, "HOOKPATCH_PLUGINS": "loud"}
    without = subprocess.run(command, env=variables, cwd=home.folder, capture_output=True, text=True)
    assert (without.stdout, without.stderr) == ("vendor\n", "")
    for entry in home.site_packages.iterdir():
        (site / entry.name).symlink_to(entry)
    with_it = subprocess.run(command, env=variables, cwd=home.folder, capture_output=True, text=True)
    assert (with_it.stdout, with_it.stderr) == ("VENDOR\n", "")


DEFAULT = """
import multiprocessing
import hookpatch, vendor, patches

def say(queue):
    queue.put(vendor.speak())

def child():
    queue = multiprocessing.SimpleQueue()
    process = multiprocessing.Process(target=say, args=(queue,))
    process.start()
    process.join()
    return queue.get()

if __name__ == "__main__":
    with hookpatch.active(hookpatch.wrap("vendor:speak", patches.louder)):
        print(child())
    print(child(), vendor.speak())
"""


def test_process_that_is_started_as_python_does_by_default(home: Environment) -> None:
    """By a fork server from Python 3.14 on, which outlives the block: the next process is plain again."""
    patches = "def louder(wrapped, instance, args, kwargs):\n    return wrapped().upper()\n"
    home.work_in(home.folder, {"patches.py": patches, "default.py": DEFAULT})
    completed = home.run("-W", "ignore", "default.py")
    assert (completed.stdout, completed.stderr) == ("VENDOR\nvendor vendor\n", "")
    patched = home.run("-W", "ignore", "default.py", HOOKPATCH_PLUGINS="loud")
    assert (patched.stdout, patched.stderr) == ("VENDOR\nVENDOR VENDOR\n", "")


# --- typed at a prompt


def _typed(home: Environment, lines: list[str], **variables: str) -> str:
    """Return the terminal's text after lines typed at Python's prompt."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HOOKPATCH_", "PYTHON"))}
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(home.folder)
        os.execve(home.python, [str(home.python), "-q"], {**environment, "TERM": "xterm", **variables})
    shown, end = "", time.monotonic() + 60
    for line in [*lines, "raise SystemExit"]:
        os.write(terminal, f"{line}\r".encode())
        quiet = time.monotonic()
        while time.monotonic() < min(end, quiet + 0.7):
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    shown += os.read(terminal, 65536).decode(errors="replace")
                except OSError:  # the program has ended
                    break
                quiet = time.monotonic()
    os.waitpid(child, 0)
    os.close(terminal)
    return shown


@pytest.mark.ends
def test_prompt_of_an_interpreter_is_patched(home: Environment) -> None:
    """The prompt is patched from outside and by a typed block, also on Python 3.13 with its prompt in Python."""
    block = (
        "with hookpatch.active(hookpatch.wrap('vendor:speak', lambda w, i, a, k: 'in' + 'side')): print(vendor.speak())"
    )
    lines = ["import vendor", "print('<' + vendor.speak() + '>')", "import hookpatch", block + "\r"]
    assert "<VENDOR>" in _typed(home, lines[:2], HOOKPATCH_PLUGINS="loud")
    assert "inside" in _typed(home, lines).replace("'in' + 'side'", "")


# --- code run by another process


REMOTE = """
import os, sys, time
import vendor
print(os.getpid(), flush=True)
end = time.monotonic() + 30
while not os.path.exists("done") and time.monotonic() < end:
    time.sleep(0.01)
    vendor.speak()
print(vendor.speak(), flush=True)
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="sys.remote_exec is new in Python 3.14 (PEP 768)")
def test_block_that_another_process_opens_here(home: Environment) -> None:
    """sys.remote_exec runs a script between two instructions of the main thread: a session opened there holds."""
    script = """
        import hookpatch, sys
        sys.session = hookpatch.active("loud").open()
        open("done", "w").close()
    """
    home.work_in(home.folder, {"remote.py": REMOTE, "inject.py": textwrap.dedent(script)})
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    with subprocess.Popen(
        [home.python, "remote.py"], cwd=home.folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        number = running.stdout.readline().strip()
        home.run("-c", f"import sys; sys.remote_exec({number}, {str(home.folder / 'inject.py')!r})")
        assert running.stdout.readline() == "VENDOR\n"
