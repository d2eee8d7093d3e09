"""Plugins that break the process, and damaged installations: the program runs patched, or a line says why not."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest
from environments import LOUDER, SCRIPT, VENDOR, Environment, furnished, hookpatch

pytestmark = pytest.mark.once

RUNS_PYTHON: Final = {
    "runs": "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(__name__)'], check=True)",
    "spawns": "from multiprocessing import get_context; p = get_context('spawn').Process(target=print); "
    "p.start(); p.join()",
    "in_hook": "",
}
BREAKS: Final = {
    "recursion_limit": ("import sys; sys.setrecursionlimit(40)", "RecursionError"),
    "path_hooks": ("import sys; sys.path_hooks.clear(); sys.path_importer_cache.clear()", "ModuleNotFoundError"),
    "descriptors": ("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))", "Too many open files"),
    "clock": ("import time; time.time = None", "no report left"),
    "events": (
        "import sys; sys.addaudithook(lambda event, _: 1 / 0 if event == 'open' else None)",
        "ZeroDivisionError: division by zero",
    ),
}
FATAL: Final = {
    "imports": "import builtins; builtins.__import__ = None",
    "modules": "import sys; sys.modules.clear()",
}
NO_PATCHES: Final = {
    "yields_for_ever": ("while True: yield 5", "yields an int, not a patch"),
    "odd_class": (
        "Odd = type('Odd', (type,), {'__getattribute__': lambda *_: exit()}); yield Odd('Thing', (), {})()",
        "raised SystemExit when asked for its patches",
    ),
}
CLOCKS: Final = ("float('nan')", "1e300", "-1e300", "-1.0")


def source(name: str) -> str:
    """Return the source of a plugin with a fault, in the import or in the hook."""
    if name == "in_hook" or name in NO_PATCHES:
        code = RUNS_PYTHON["runs"] if name == "in_hook" else NO_PATCHES[name][0]
        return LOUDER.replace('yield hookpatch.wrap("vendor', f'{code}\n        yield hookpatch.wrap("vendor')
    code = RUNS_PYTHON.get(name) or FATAL.get(name) or BREAKS[name][0]
    return LOUDER.replace("import hookpatch", f"{code}\n    import hookpatch")


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Make an environment with a good plugin and a plugin for each fault."""
    plugins = {name: source(name) for name in (*RUNS_PYTHON, *BREAKS, *FATAL, *NO_PATCHES)}
    files = {"script.py": SCRIPT, "vendor.py": VENDOR}
    return furnished(tmp_path_factory.mktemp("hostile"), wheels, {"loud": LOUDER, **plugins}, files)


@pytest.mark.parametrize("name", RUNS_PYTHON)
@pytest.mark.parametrize("way", ["environment", "run", "report"])
@pytest.mark.sampled(3)
def test_plugin_that_runs_python_does_not_load_itself_for_ever(
    home: Environment, tmp_path: Path, name: str, way: str
) -> None:
    """Python started by a plugin that is being loaded runs plain, with a warning; the program is patched."""
    if way == "run":
        completed = hookpatch(home, "run", "-p", name, "script.py")
    else:
        reports = {"HOOKPATCH_REPORT": str(tmp_path / "reports")} if way == "report" else {}
        completed = home.run("script.py", HOOKPATCH_PLUGINS=name, timeout=60, **reports)
    assert (completed.stdout.splitlines()[-1:], completed.returncode) == (["VENDOR! __main__"], 0)
    plain = "while loading its plugins; a plugin must not run Python then"
    lines = [line for line in completed.stderr.splitlines() if "nothing is patched: process" in line]
    assert lines
    assert all(line.endswith(plain) for line in lines)
    if way == "report":
        report = hookpatch(home, "report", str(tmp_path / "reports"))
        assert ("applied" in report.stdout, report.returncode) == (True, 1), report.stdout
        assert "a plugin must not run Python while plugins are loaded" in " ".join(report.stdout.split())


def test_child_after_the_load_of_a_plugin_is_patched(home: Environment) -> None:
    """Only processes started during the load are plain."""
    code = "import subprocess, sys; subprocess.run([sys.executable, 'script.py'], check=True)"
    completed = home.run("-c", code, HOOKPATCH_PLUGINS="runs")
    assert completed.stdout.splitlines()[-1] == "VENDOR! __main__"


@pytest.mark.parametrize("name", BREAKS)
def test_end_of_a_broken_process_is_a_line(home: Environment, tmp_path: Path, name: str) -> None:
    """No traceback of hookpatch: a line says what cannot be reported."""
    completed = home.run("script.py", HOOKPATCH_PLUGINS=name, HOOKPATCH_REPORT=str(tmp_path / "reports"))
    assert BREAKS[name][1] in completed.stderr
    assert "atexit callback" not in completed.stderr
    assert "ReportFile" not in completed.stderr


@pytest.mark.parametrize("name", FATAL)
def test_broken_start_is_a_line_and_no_fatal_error(home: Environment, name: str) -> None:
    """A plugin that breaks the imports of the interpreter refuses the program."""
    completed = home.run("script.py", HOOKPATCH_PLUGINS=name)
    assert (completed.stdout, completed.returncode) == ("", 78)
    (line,) = completed.stderr.splitlines()
    assert line.startswith("hookpatch: error: start-up failed: ")
    assert line.endswith(f" (HOOKPATCH_PLUGINS={name}); set HOOKPATCH_DISABLE=1 to run without patches")


@pytest.mark.parametrize("name", NO_PATCHES)
def test_first_wrong_value_of_a_hook_is_told(home: Environment, name: str) -> None:
    """A hook without an end is not run to the end, and a hostile class is named."""
    completed = home.run("script.py", HOOKPATCH_PLUGINS=name, timeout=60)
    assert (completed.stdout, completed.returncode) == ("", 78)
    assert f"plugin '{name}' ({name.replace('_', '-')}-dist 1.0) {NO_PATCHES[name][1]}" in completed.stderr


@pytest.mark.parametrize("clock", CLOCKS)
def test_any_clock_leaves_a_report(home: Environment, tmp_path: Path, clock: str) -> None:
    """A program may change the clock, as tests with a frozen time do."""
    code = f"import time, vendor; time.time = lambda: {clock}; print(vendor.speak())"
    home.run("-c", code, HOOKPATCH_PLUGINS="loud", HOOKPATCH_REPORT=str(tmp_path))
    completed = hookpatch(home, "report", str(tmp_path), "--html", str(tmp_path / "page.html"))
    assert (completed.stderr, completed.returncode, "applied" in completed.stdout) == ("", 0, True)


def test_arguments_of_any_bytes_leave_a_report(home: Environment, tmp_path: Path) -> None:
    """A file's name need not be UTF-8; neither the first process nor its child process loses its report."""
    code = "import subprocess, sys; subprocess.run([sys.executable, 'script.py', sys.argv[1]])"
    variables = {**os.environ, "HOOKPATCH_PLUGINS": "loud", "HOOKPATCH_REPORT": str(tmp_path)}
    command = [os.fsencode(home.python), b"-c", code.encode(), b"caf\xe9.txt"]
    subprocess.run(command, env=variables, cwd=home.folder, check=True)
    completed = hookpatch(home, "report", str(tmp_path))
    assert (completed.stderr, completed.returncode) == ("", 0)
    assert completed.stdout.count(r"caf\udce9.txt") == 2


@pytest.mark.parametrize("argv", ["None", "[]", "['program', Path('data'), 5, b'x', None]"])
def test_any_changed_arguments_leave_a_report(home: Environment, tmp_path: Path, argv: str) -> None:
    """A program may set ``sys.argv`` before it calls another program's main function."""
    code = f"import sys, vendor; from pathlib import Path; sys.argv = {argv}; print(vendor.speak())"
    home.run("-c", code, HOOKPATCH_PLUGINS="loud", HOOKPATCH_REPORT=str(tmp_path))
    completed = hookpatch(home, "report", str(tmp_path))
    assert (completed.stderr, completed.returncode, "applied" in completed.stdout) == ("", 0, True)


BROKEN_SYSTEMS: Final = {
    "no_module": "import sys; sys.modules['mmap'] = None",
    "no_memory": "import mmap; mmap.mmap = lambda *_: int('no')",
    "no_clock": "import os, time; time.clock_gettime_ns = lambda _: os.stat('/nowhere')",
    "no_file": "import os; os.memfd_create = lambda _: os.stat('/nowhere')",
}


@pytest.mark.parametrize("name", BROKEN_SYSTEMS)
def test_block_ends_where_the_system_refuses_its_table(home: Environment, name: str) -> None:
    """The end of a block fails for no lack of the system; a child process cannot see the end then."""
    wrapper = "def louder(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs).upper()"
    (home.folder / "wrappers.py").write_text(wrapper)
    code = f"""
{BROKEN_SYSTEMS[name]}
import hookpatch, vendor, wrappers
for _ in range(3):
    with hookpatch.active(hookpatch.wrap("vendor:speak", wrappers.louder)):
        print(vendor.speak(), end=" ")
print(vendor.speak())
"""
    completed = home.run("-c", code)
    assert (completed.stdout, completed.stderr) == ("VENDOR VENDOR VENDOR vendor\n", "")


DAMAGED: Final = {
    "pipe": lambda path: os.mkfifo(path),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
    "loop": lambda path: path.symlink_to(path),
    "no_text": lambda path: path.write_bytes(os.urandom(5000)),
    "utf_16": lambda path: path.write_text("[hookpatch]\nodd = odd\n", "utf-16"),
}


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.sampled(2)
def test_damaged_entry_points_hide_no_other_plugin(home: Environment, kind: str) -> None:
    """Nothing waits for a writer, and nothing reads for ever."""
    folder = home.site_packages / f"damaged_{kind}-1.0.dist-info"
    folder.mkdir()
    DAMAGED[kind](folder / "entry_points.txt")
    try:
        completed = home.run("script.py", HOOKPATCH_PLUGINS="loud", timeout=60)
        assert (completed.stdout, completed.stderr) == ("VENDOR! __main__\n", "")
        assert "loud" in home.run(home.python.parent / "hookpatch", "list", timeout=120).stdout
    finally:
        (folder / "entry_points.txt").rmdir() if kind == "folder" else (folder / "entry_points.txt").unlink()
        folder.rmdir()


@pytest.mark.parametrize("words", [["check"], ["plan", "loud"]], ids=" ".join)
def test_pipe_in_place_of_a_lock_file_is_told(home: Environment, tmp_path: Path, words: list[str]) -> None:
    """No command waits for a writer."""
    os.mkfifo(tmp_path / "hookpatch.lock")
    lock = ["--lock", str(tmp_path / "hookpatch.lock")] if words == ["check"] else []
    completed = hookpatch(home, *words, *lock, HOOKPATCH_LOCK=str(tmp_path / "hookpatch.lock"))
    assert completed.returncode == 78
    assert completed.stderr.startswith("hookpatch: error: ")
    assert str(tmp_path / "hookpatch.lock") in completed.stderr


DEEP: Final = {
    "config": ("HOOKPATCH_CONFIG", "[tool.hookpatch]\nplugins = " + "[" * 9000, "pyproject.toml: the file is no TOML"),
    "lock": ("HOOKPATCH_LOCK", "x = " + "[" * 9000, "is no lock file"),
    "options": ("HOOKPATCH_OPTIONS", "[" * 9000, "HOOKPATCH_OPTIONS: not JSON"),
}


@pytest.mark.parametrize("name", DEEP)
def test_setting_nested_too_deep_is_named(home: Environment, tmp_path: Path, name: str) -> None:
    """Python's parsers call themselves for each bracket."""
    variable, text, message = DEEP[name]
    path = tmp_path / "pyproject.toml"
    path.write_text(text)
    completed = home.run(
        "script.py", **{"HOOKPATCH_PLUGINS": "loud", variable: text if name == "options" else str(path)}
    )
    assert (completed.stdout, completed.returncode) == ("", 78)
    assert message in completed.stderr


@pytest.mark.parametrize("encoding", ["utf-16", "cp037"])
@pytest.mark.sampled(2)
def test_any_encoding_of_streams_spoils_no_command(home: Environment, encoding: str) -> None:
    """PYTHONIOENCODING is for the program: hookpatch talks to its child processes in UTF-8."""
    script = str(home.python.parent / "hookpatch")
    variables = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": str(home.folder)}
    for words in (["list"], ["plan", "loud"], ["doctor"]):
        completed = subprocess.run([str(home.python), script, *words], env=variables, capture_output=True, timeout=120)
        text = completed.stdout.decode(encoding)
        assert "could not" not in text, text
        assert "fails" not in text, text


BUSY: Final = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(os.environ["PIDS"], "w") as file:
    file.write(f"{os.getpid()} {child.pid}.")
while True:
    pass
"""


@pytest.fixture(scope="module")
def busy(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Make an environment with a plugin and a module that start a process, and run for ever."""
    plugins = {"busy": "import busy_module", "patching": LOUDER.replace("vendor:speak", "busy_module:speak")}
    home = furnished(tmp_path_factory.mktemp("busy"), wheels, plugins, {"script.py": ""})
    (home.site_packages / "busy_module.py").write_text(BUSY)
    return home


def is_running(pid: str) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("words", ["list", "doctor", "plan patching", "adopt busy_module:apply --name adopted"])
@pytest.mark.sampled(2)
def test_killed_command_leaves_no_process(busy: Environment, tmp_path: Path, words: str) -> None:
    """The throwaway process of a command ends with the command, as do the processes started there."""
    pids = tmp_path / "pids"
    command = subprocess.Popen(
        [busy.python.parent / "hookpatch", *words.split()],
        env={**os.environ, "PIDS": str(pids), "HOOKPATCH_CACHE": "0"},
        cwd=busy.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not pids.exists() or not pids.read_text().endswith("."):
            assert command.poll() is None, "the command ended before the module ran"
            time.sleep(0.05)
    finally:
        command.kill()
        command.wait()
    for pid in pids.read_text().rstrip(".").split():
        for _ in range(100):
            if not is_running(pid):
                break
            time.sleep(0.05)
        else:
            os.kill(int(pid), signal.SIGKILL)
            pytest.fail(f"process {pid} outlived the command")
