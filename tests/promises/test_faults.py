"""Faults: whatever breaks around hookpatch, the program runs as requested or is refused, and the user is told."""

from __future__ import annotations

import base64
import html
import json
import os
import pickle
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from environments import LOUDER, SCRIPT, VENDOR, Environment, furnished, hookpatch

from hookpatch._bootstrap.command_line import redacted
from hookpatch._bootstrap.installed import installed
from hookpatch._bootstrap.program import words_of
from hookpatch._inspect.cache import LookOptions
from hookpatch._inspect.seen import facts_of_plugins
from hookpatch._processes.receipt import ReportFile
from hookpatch._processes.run_page import page_of
from hookpatch._processes.run_report import receipts

pytestmark = pytest.mark.once

# --- plugins failing at their import: the module's code, and the error with the plugin's name

PATCHES: Final = LOUDER.replace("'''Speak louder.'''", "'''{}'''\n    {}")
RAISES: Final = {
    "exit": "raise SystemExit",
    "exit_with_3": "import sys; sys.exit(3)",
    "exit_with_text": "raise SystemExit('no licence')",
    "interrupt": "raise KeyboardInterrupt",
    "generator_exit": "raise GeneratorExit",
    "base_exception": "raise type('Own', (BaseException,), {})('own')",
    "recursion": "def again(): again()\n    again()",
    "memory": "raise MemoryError",
    "import_error": "import nowhere_at_all",
    "syntax": "this is no Python",
    "os_exit": "import os; os._exit(0)",
    "os_exit_by_name": "from os import _exit; _exit(3)",
    "os_exit_of_posix": "import posix; posix._exit(0)",
}
OPTIONS: Final = {
    f"{name}_in_options": RAISES[name].replace("\n    ", "; ") for name in ("exit", "base_exception", "os_exit")
}
IN_HOOK: Final = {f"{name}_in_hook": RAISES[name] for name in ("exit", "interrupt", "base_exception", "os_exit")}
ENDS: Final = {
    "ends_process": "import ctypes; ctypes.CDLL(None)._exit(0)",
    "kills_itself": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "crashes": "import ctypes; ctypes.string_at(0)",
    "execs": "import os; os.execv('/bin/true', ['true'])",
}
DOES: Final = {
    "prints": "print('NOISE'); import os; os.write(1, b'NOISE')",
    "changes_path": "import sys; sys.path[:] = []",
    "changes_folder": "import os; os.chdir('/')",
    "closes_stdout": "import os; os.close(1)",
    "reads_stdin": "import sys; sys.stdin.read()",
}


def source(name: str) -> str:
    """Return the source of a plugin with a fault."""
    if name in IN_HOOK:
        return LOUDER.replace('yield hookpatch.wrap("vendor:speak", louder)', IN_HOOK[name] + "\n        yield")
    if name in OPTIONS:
        made = f"def __post_init__(self): {OPTIONS[name]}"
        lines = (
            "from dataclasses import dataclass",
            "@dataclass",
            f"class Options:\n        {made}",
            "import hookpatch",
        )
        return LOUDER.replace("import hookpatch", "\n    ".join(lines)).replace("patches()", "patches(options)")
    code = (RAISES | ENDS | DOES)[name]
    return LOUDER.replace("import hookpatch", f"{code}\n    import hookpatch")


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Make an environment with a plugin for each fault, a good plugin, and a plugin last in the order."""
    plugins = {name: source(name) for name in (RAISES | OPTIONS | IN_HOOK | ENDS | DOES)}
    files = {"script.py": SCRIPT, "vendor.py": VENDOR}
    return furnished(tmp_path_factory.mktemp("faults"), wheels, {"loud": LOUDER, "zoo": LOUDER, **plugins}, files)


@pytest.fixture(scope="module")
def listed(home: Environment) -> dict[str, tuple[str, str]]:
    """Return the lines of `hookpatch list` for unselected plugins."""
    completed = hookpatch(home, "list", "--json")
    assert (completed.stderr, completed.returncode) == ("", 0)
    return {row["name"]: (row["status"], row["reason"] or "") for row in json.loads(completed.stdout)["plugins"]}


@pytest.fixture(scope="module")
def findings(home: Environment) -> dict[str, list[str]]:
    """Return the lines of `hookpatch doctor` for each plugin."""
    completed = hookpatch(home, "doctor", "--json")
    assert (completed.stderr, completed.returncode) == ("", 1)
    lines: dict[str, list[str]] = {}
    for finding in json.loads(completed.stdout)["findings"]:
        lines.setdefault(finding["about"], []).append(finding["found"])
    return lines


@pytest.mark.parametrize("name", [*RAISES, *OPTIONS, *IN_HOOK, *ENDS])
@pytest.mark.sampled(6)
def test_broken_plugin_is_told_and_hides_no_other(
    home: Environment, listed: dict[str, tuple[str, str]], findings: dict[str, list[str]], name: str
) -> None:
    """list and doctor name an unselected broken plugin, and list all others."""
    status, reason = listed[name]
    assert status == "broken"
    assert reason.startswith(f"plugin '{name}' ({name.replace('_', '-')}-dist 1.0) ")
    assert findings[f"plugin {name}"] == [reason.removesuffix("; fix or uninstall it")]  # doctor has a remedy a line
    assert set(listed) == {"loud", "zoo", *RAISES, *OPTIONS, *IN_HOOK, *ENDS, *DOES}
    assert listed["loud"][0] == listed["zoo"][0] == "not found"  # vendor lies beside the script alone
    assert findings["plugin zoo"] == ["wrap vendor:speak"]


@pytest.mark.parametrize("name", DOES)
def test_plugin_that_changes_the_process_spoils_no_listing(
    listed: dict[str, tuple[str, str]], findings: dict[str, list[str]], name: str
) -> None:
    """A plugin's output reaches neither table nor JSON; other plugins see the user's path and folder."""
    assert listed[name][0] == "not found"
    assert findings[f"plugin {name}"] == ["wrap vendor:speak"]


QUICK: Final = (
    "2>&-",
    "exit",
    "interrupt",
    "os_exit",
    "second_line",
    "cut",
    "pickle_of_no_patch",
    "folder",
    "main",
    "too_long",
)


def of_each(names: Iterable[str]) -> list[Any]:
    """Return the names, a sample for each run of the tests and the others for all tests: each is a process."""
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.ends) for name in names]


@pytest.mark.parametrize("name", of_each(RAISES | OPTIONS | IN_HOOK))
@pytest.mark.parametrize("way", ["run", "environment", "warn", "block"])
def test_broken_plugin_that_is_asked_for_refuses_the_program(home: Environment, way: str, name: str) -> None:
    """A line names the plugin; the status is 78, or a warning comes by policy. No line of the program has run."""
    code = "import hookpatch\ntry:\n    with hookpatch.active('{}'): pass\nexcept Exception as error: print(error)"
    match way:
        case "run":
            completed = hookpatch(home, "run", "-p", name, "script.py")
        case "environment" | "warn":
            policy = {"environment": "exit", "warn": "warn"}[way]
            completed = home.run("script.py", HOOKPATCH_PLUGINS=name, HOOKPATCH_ON_ERROR=policy)
        case _:
            completed = home.run("-c", code.format(name))
    out, status = {"warn": ("vendor __main__\n", 0), "block": (completed.stdout, 0)}.get(way, ("", 78))
    assert (completed.stdout, completed.returncode) == (out, status)
    (line,) = (completed.stdout if way == "block" else completed.stderr).splitlines()
    start = {"warn": "hookpatch: warning: nothing is patched: ", "block": ""}.get(way, "hookpatch: error: ")
    act = "called os._exit(" if name.startswith("os_exit") else "raised "
    assert line.startswith(f"{start}plugin '{name}' ({name.replace('_', '-')}-dist 1.0) {act}")


@pytest.mark.parametrize("way", ["run", "list", "environment"])
def test_ctrl_c_stays_ctrl_c(home: Environment, way: str) -> None:
    """An interrupt while a plugin is loaded is none of the plugin's faults, and no traceback of the interpreter."""
    # A shell's background job, such as a run of tests, ignores the signal.
    listens = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    home.add_plugin(f"slow_{way}", f"import signal; {listens}; signal.raise_signal(signal.SIGINT)")
    try:
        if way == "environment":
            completed = home.run("script.py", HOOKPATCH_PLUGINS=f"slow_{way}")
        else:
            completed = hookpatch(home, *({"run": ["run", "-p", f"slow_{way}", "script.py"], "list": ["list"]}[way]))
    finally:
        for path in home.site_packages.glob(f"slow_{way}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    # In the listing the plugin interrupted its child process.
    # A shell shows 130 for both: the status, and the end by the signal.
    assert completed.returncode in ((0,) if way == "list" else (130, -signal.SIGINT))
    assert "Fatal Python error" not in completed.stderr
    assert "fix or uninstall" not in completed.stderr


@pytest.mark.parametrize("command", [["plan", "--json", "prints"], ["list", "--json"], ["doctor", "--json"]])
@pytest.mark.sampled(1)
def test_output_of_a_plugin_is_not_in_json(home: Environment, command: list[str]) -> None:
    """Also where the plugin is named."""
    assert json.loads(hookpatch(home, *command).stdout)


def test_output_of_a_plugin_is_in_the_program_once(home: Environment) -> None:
    """`hookpatch run` loads the plugin before the program does; the program's output is that of the program."""
    completed = hookpatch(home, "run", "-p", "prints", "script.py")
    assert (completed.stdout.count("NOISE"), completed.returncode) == (2, 0)  # print and os.write


@pytest.fixture
def hanging(make_distribution: object) -> None:
    """Make a plugin whose import never ends, and a plugin after the first."""
    make = make_distribution
    assert callable(make)
    module = "while True: pass"
    make("hangs-dist", plugins={"a_hang": "hangs_module"}, modules={"hangs_module": module})
    make("well-dist", plugins={"well": "well_module"}, modules={"well_module": LOUDER})
    return


@pytest.mark.ends  # ten seconds
def test_plugin_that_hangs_costs_its_time_and_no_other(hanging: None) -> None:
    """The hanging plugin is named; the next plugin loads in another process; the first process is gone."""
    plugins = [plugin for plugin in installed() if plugin.name in ("a_hang", "well")]
    began = time.monotonic()
    hung, well = facts_of_plugins(plugins, LookOptions(imports=False), "a test", limit=10)
    assert hung.problem == (
        "plugin 'a_hang' (hangs-dist 1.0) could not be loaded: the child process took longer than 10 s; fix or "
        "uninstall the plugin"
    )
    assert (well.status, well.description) == ("patches", "Speak louder.")
    assert time.monotonic() - began < 60
    assert "hangs_module" not in sys.modules


# --- programs like installers, and unlikely installers

PROGRAMS: Final = ["pip.py", "pip3.11.py", "ensurepip.py", "venv.py", "hookpatch.py", "pip3", "hookpatch", "pip.exe"]


@pytest.mark.parametrize("way", ["environment", pytest.param("run", marks=pytest.mark.ends)])
@pytest.mark.parametrize("name", [PROGRAMS[0], *(pytest.param(name, marks=pytest.mark.ends) for name in PROGRAMS[1:])])
def test_program_named_like_an_installer_is_patched(home: Environment, tmp_path: Path, name: str, way: str) -> None:
    """A program is not taken for an installer by its name."""
    (tmp_path / name).write_text(SCRIPT)
    (tmp_path / "vendor.py").write_text(VENDOR)
    script = str(tmp_path / name)
    completed = (
        hookpatch(home, "run", "-p", "loud", script) if way == "run" else home.run(script, HOOKPATCH_PLUGINS="loud")
    )
    assert (completed.stdout, completed.stderr, completed.returncode) == ("VENDOR! __main__\n", "", 0)


@pytest.mark.parametrize("words", [["pip"], ["-m", "pip"], ["pip/__main__.py"], ["-m", "pip.other"]], ids=" ".join)
def test_package_of_the_user_named_like_an_installer_is_patched(
    home: Environment, tmp_path: Path, words: list[str]
) -> None:
    """A folder pip beside the script is no installer, in each way to run Python."""
    for name in ("__init__.py", "__main__.py", "other.py"):
        (tmp_path / "pip" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "pip" / name).write_text(SCRIPT if name != "__init__.py" else "")
    for folder in (tmp_path, tmp_path / "pip"):
        (folder / "vendor.py").write_text(VENDOR)
    completed = home.run(*words, cwd=tmp_path, HOOKPATCH_PLUGINS="loud")
    assert (completed.stdout, completed.stderr, completed.returncode) == ("VENDOR! __main__\n", "", 0)


INSTALLER: Final = "import pip, os; print(os.path.dirname(pip.__file__))"
WAYS_OF_PIP: Final = {
    "module": ["-m", "pip", "--version"],
    "main": ["-m", "pip.__main__", "--version"],
    "flags": ["-Bsm", "pip", "--version"],
    "folder": ["{pip}", "--version"],
    "runner": ["{pip}/__pip-runner__.py", "--version"],
    "ensurepip": ["-m", "ensurepip", "--version"],
    "venv": ["-m", "venv", "--help"],
    "script": ["{bin}/pip", "--version"],
    "script_with_version": ["{bin}/pip3.11", "--version"],
}


@pytest.mark.parametrize("way", of_each(WAYS_OF_PIP))
def test_installer_runs_plain_however_it_is_started(home: Environment, way: str) -> None:
    """A misspelt name in the environment ends no installation."""
    pip = home.run("-c", INSTALLER).stdout.strip()
    for name in ("pip", "pip3.11"):
        text = f"#!{home.python}\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n"
        (home.python.parent / name).write_text(text)
    words = [word.format(pip=pip, bin=home.python.parent) for word in WAYS_OF_PIP[way]]
    completed = home.run(*words, HOOKPATCH_PLUGINS="misspelt")
    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout.split()[0] in ("pip", "usage:")


def test_installer_under_the_command_says_that_it_is_plain(home: Environment) -> None:
    """An installer under hookpatch run warns that no patch is applied."""
    completed = hookpatch(home, "run", "-p", "loud", "-m", "pip", "--version")
    assert completed.stdout.startswith("pip ")
    assert completed.stderr == "hookpatch: warning: pip runs without patches: an installer is never patched\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("x s.py -a", "s.py -a"),
        ("x -I -W error -X dev s.py", "s.py"),
        ("x -Werror -Xdev -- s.py", "s.py"),
        ("x -Bm mod -m", "-m mod -m"),
        ("x -Bmmod a", "-m mod a"),
        ("x -c code -c", "-c code -c"),
        ("x --check-hash-based-pycs always s.py", "s.py"),
        ("x - a", "- a"),
        ("x -m", "-m"),
        ("x", ""),
    ],
)
def test_words_of_a_command_line(command: str, words: str) -> None:
    """Parse Python's flags, their values, and the program."""
    assert words_of(command.split()) == words.split()


# --- report files: folder, files, content


def program(home: Environment, reports: Path | str, *words: str, **variables: str) -> tuple[str, str, int]:
    """Run a program with a report folder; return output, errors and status."""
    completed = home.run(
        *(words or ("script.py",)), HOOKPATCH_PLUGINS="loud", HOOKPATCH_REPORT=str(reports), **variables
    )
    return completed.stdout, completed.stderr, completed.returncode


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.sampled(2)
def test_plugin_that_ends_the_program_is_in_the_report(home: Environment, tmp_path: Path, name: str) -> None:
    """A program that ends so writes nothing more; a note from before the load of the plugins stays."""
    home.run("script.py", HOOKPATCH_PLUGINS=f"loud,{name}", HOOKPATCH_REPORT=str(tmp_path / "reports"))
    completed = hookpatch(home, "report", str(tmp_path / "reports"))
    assert (completed.returncode, completed.stdout.splitlines()[1:2]) == (
        1,
        [f"  did not get past this: load {name}, loud"],
    )
    program(home, tmp_path / "whole")
    whole = hookpatch(home, "report", str(tmp_path / "whole"))
    assert (whole.returncode, "get past" in whole.stdout) == (0, False)


def test_report_is_for_its_owner_alone(home: Environment, tmp_path: Path) -> None:
    """The folder and the file."""
    assert program(home, tmp_path / "reports") == ("VENDOR! __main__\n", "", 0)
    (file,) = (tmp_path / "reports").iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file.parent, file)] == [0o700, 0o600]


PLANTS: Final = {
    "link": "path.symlink_to(victim)",
    "dangling_link": "path.symlink_to(victim.parent / 'nowhere')",
    "hard_link": "os.link(victim, path)",
    "pipe": "os.mkfifo(path)",
    "folder": "path.mkdir()",
}


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", ["hookpatch-{pid}.json", "hookpatch-{pid}.unfinished"])
def test_report_is_written_through_nothing_planted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: str, name: str
) -> None:
    """Another user knows the process id: what lies under the name stays, and the report gets another name."""
    reports, victim = tmp_path / "reports", tmp_path / "victim"
    reports.mkdir()
    victim.write_text("precious")
    path = reports / name.format(pid=os.getpid())
    exec(PLANTS[plant], {"path": path, "victim": victim, "os": os})
    planted = path.lstat()
    monkeypatch.setenv("HOOKPATCH_REPORT", str(reports))
    monkeypatch.setenv("HOOKPATCH_REPORT_ROOT", "run")
    ReportFile(str(reports)).write()
    assert victim.read_text() == "precious"
    assert path.lstat() == planted
    assert not (tmp_path / "nowhere").exists()
    (process,) = receipts(reports).processes
    assert process.pid == os.getpid()


FOLDERS: Final = {
    "too_long": "x" * 300,
    "far_too_long": "y/" * 3000,
    "file": "script.py",
    "below_a_file": "script.py/reports",
    "not_there_and_not_allowed": "/proc/nowhere/reports",
    "device": "/dev/null",
}


@pytest.mark.parametrize("folder", of_each(FOLDERS))
def test_report_that_cannot_be_left_fails_no_run(home: Environment, folder: str) -> None:
    """An unwritable report folder is a line on stderr, and does not fail the program."""
    out, errors, status = program(home, FOLDERS[folder])
    assert (out, status) == ("VENDOR! __main__\n", 0)
    (line,) = errors.splitlines()
    assert line.startswith("hookpatch: warning: no report left at ")
    completed = hookpatch(home, "report", FOLDERS[folder])
    assert (completed.stdout, completed.returncode) == ("", 78)
    assert len(completed.stderr.splitlines()) == 1


def test_relative_report_in_a_deleted_folder_fails_no_run(home: Environment, tmp_path: Path) -> None:
    """Nor is a report left where the program goes to."""
    code = (
        "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); "
        "os.execv(sys.executable, [sys.executable, '-c', 'import os; os.chdir(\"/\"); print(1)'])"
    )
    completed = home.run("-c", code, cwd=tmp_path, HOOKPATCH_REPORT="reports", HOOKPATCH_PLUGINS="")
    assert completed.stdout == "1\n"
    code = code.replace("os.execv", "os.environ['HOOKPATCH_PLUGINS'] = 'loud'; os.execv")
    completed = home.run("-c", code, cwd=tmp_path, HOOKPATCH_REPORT="reports")
    assert (completed.stdout, completed.returncode) == ("1\n", 0)
    assert "no report left at reports/hookpatch-" in completed.stderr
    assert "the current folder has been deleted" in completed.stderr
    assert not Path("/reports").exists()


LIMITED: Final = """
import os, resource, signal, sys
from hookpatch._processes.receipt import ReportFile
from hookpatch._processes.run_report import receipts
os.environ["HOOKPATCH_REPORT"] = sys.argv[1]
file = ReportFile(sys.argv[1])
{}
file.write(); file.write()
print("went on")
"""


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))", "File too large"),
        ("resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))", "Too many open files"),
        ("os.mkdir(sys.argv[1]); os.chmod(sys.argv[1], 0o755); os.setuid(65534)", "Permission denied"),
        ("os.mkdir(sys.argv[1], 0o700); os.setuid(65534)", "Permission denied"),
    ],
    ids=["full", "no_descriptors", "folder_of_another_user", "hidden_folder_of_another_user"],
)
def test_report_without_room_or_rights_is_one_warning(tmp_path: Path, fault: str, says: str) -> None:
    """The program goes on, and no half a file stays."""
    if "setuid" in fault and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    tmp_path.chmod(0o755)
    command = [sys.executable, "-c", LIMITED.format(fault), str(tmp_path / "reports")]
    completed = subprocess.run(command, capture_output=True, text=True)
    assert (completed.stdout, completed.returncode) == ("went on\n", 0), completed.stderr
    (line,) = completed.stderr.splitlines()
    assert line.startswith("hookpatch: warning: no report left at ")
    assert line.endswith(says)
    assert not [*tmp_path.glob("reports/*")]


def test_report_needs_little_memory(tmp_path: Path) -> None:
    """A process with 32 MiB left writes its report, and reads those of its child processes."""
    lines = (
        "file.write(); size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize() + 2**25; "
        "resource.setrlimit(resource.RLIMIT_AS, (size, size)); print(len(receipts(sys.argv[1]).processes))"
    )
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc")
    command = [sys.executable, "-c", LIMITED.format(lines), str(tmp_path / "reports")]
    completed = subprocess.run(command, capture_output=True, text=True)
    assert (completed.stdout, completed.stderr, completed.returncode) == ("1\nwent on\n", "", 0)


@pytest.mark.parametrize("kind", ["mkfifo {}", pytest.param("ln -s /dev/zero {}", marks=pytest.mark.ends)])
@pytest.mark.parametrize("place", ["config", "pyproject.toml", "allow"])
def test_pipe_in_place_of_a_setting_is_told(home: Environment, tmp_path: Path, place: str, kind: str) -> None:
    """Nothing waits for a writer, and nothing reads for ever."""
    path = home.python.parents[1] / "hookpatch.allow" if place == "allow" else tmp_path / place
    program = f"{home.python} script.py"
    command = {
        "config": f"HOOKPATCH_CONFIG={path} {program}",
        "pyproject.toml": f"cd {tmp_path}; {home.python.parent / 'hookpatch'} run -p loud {home.folder / 'script.py'}",
        "allow": f"HOOKPATCH_PLUGINS=loud {program}",
    }[place]
    try:
        completed = in_shell(home, f"ulimit -v 2000000; {kind.format(path)}; {command}")
    finally:
        path.unlink()
    is_passed_over = place == "pyproject.toml"
    assert completed.stdout == ("VENDOR! __main__\n" if is_passed_over else "")
    assert completed.returncode == (0 if is_passed_over else 78)
    message = r"hookpatch: error: .*it is no file but a pipe or a device.*\n"
    assert re.fullmatch("" if is_passed_over else message, completed.stderr)


CLOSED: Final = ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-", "2>/dev/full"]
STATUS_OF: Final = {
    "list": 0,
    "plan loud": 1,
    "explain ConflictError": 0,
    "report /nowhere": 78,
    "run -p loud script.py": 0,
}


@pytest.mark.parametrize("streams", of_each(CLOSED))
@pytest.mark.parametrize("words", STATUS_OF)
@pytest.mark.sampled(2)
def test_closed_or_full_stream_ends_no_command(home: Environment, words: str, streams: str) -> None:
    """The command has the status that it has with all streams; what can be written is."""
    script = home.python.parent / "hookpatch"
    completed = in_shell(home, f"{script} {words} {streams}")
    assert completed.returncode == STATUS_OF[words], completed.stderr
    assert bool(completed.stdout) == ("1>" not in streams and STATUS_OF[words] != 78)
    assert bool(completed.stderr) == ("2>" not in streams and STATUS_OF[words] == 78)


@pytest.mark.parametrize("streams", of_each(CLOSED))
def test_closed_or_full_stream_ends_no_program(home: Environment, streams: str) -> None:
    """The plugin of the environment is in effect."""
    completed = in_shell(home, f"HOOKPATCH_PLUGINS=loud {home.python} script.py {streams}")
    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout == ("" if "1>" in streams else "VENDOR! __main__\n")


def in_shell(home: Environment, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of sh in the folder of the programs."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    return subprocess.run(["sh", "-c", line], cwd=home.folder, env=clean, capture_output=True, text=True, timeout=300)


def test_small_disk_is_one_warning(home: Environment, tmp_path: Path) -> None:
    """A file system of 4 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("this process may not mount a file system")
    try:
        (disk / "full").write_bytes(b"x" * 4096)
        out, errors, status = program(home, disk / "reports")
        assert (out, status) == ("VENDOR! __main__\n", 0)
        (line,) = errors.splitlines()
        assert line.endswith("No space left on device")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.ends
def test_home_that_cannot_be_written_spoils_no_command(home: Environment, tmp_path: Path) -> None:
    """Commands work without a writable home; results are not kept."""
    (tmp_path / "home").write_text("no folder")
    for words in (["list", "--look"], ["plan", "loud"], ["doctor"]):
        variables = {"HOME": str(tmp_path / "home"), "HOOKPATCH_CACHE": "", "XDG_CACHE_HOME": ""}
        completed = hookpatch(home, *words, **variables)
        assert (completed.stderr, completed.returncode in (0, 1)) == ("", True)


# --- files for `hookpatch report`

GOOD: Final[dict[str, Any]] = {
    "format": 1,
    "pid": 7,
    "ppid": 1,
    "host": "h",
    "rank": None,
    "argv": ["s.py"],
    "root": "r",
    "first": True,
    "began": 10.0,
    "written": 20.0,
    "ended": True,
    "asked": ["loud"],
    "started": [],
    "problems": [],
    "patches": [],
}
PATCH: Final[dict[str, Any]] = {
    "plugin": "loud",
    "distribution": "loud-dist 1.0",
    "target": "vendor:speak",
    "verb": "wrap",
    "place": None,
    "state": "restored",
    "reason": None,
    "stale": [],
    "calls": {"eager": 1},
    "stays": None,
    "warnings": [],
    "why": None,
    "upstream": None,
    "applied_at": 11.0,
    "ended_at": 12.0,
}
TEXT: Final = json.dumps({"processes": [GOOD]})


def with_field(field: str, value: object) -> bytes:
    """Return a report file with a changed field; ``...`` removes the field."""
    process = {name: entry for name, entry in {**GOOD, field: value}.items() if entry is not ...}
    return json.dumps({"processes": [process]}).encode()


def with_patch(field: str, value: object) -> bytes:
    """Return a report file with a changed field of its patch."""
    patch = {name: entry for name, entry in {**PATCH, field: value}.items() if entry is not ...}
    return json.dumps({"processes": [{**GOOD, "patches": [patch]}]}).encode()


DAMAGED: Final = {
    "empty": b"",
    "cut": TEXT.encode()[:100],
    "cut_at_the_end": TEXT.encode()[:-1],
    "zeros": bytes(300),
    "no_text": b"\xff\xfe\x00{",
    "text": b"hello",
    "number": b"3",
    "list": b"[]",
    "null": b"null",
    "no_processes": b"{}",
    "two_processes": json.dumps({"processes": [GOOD, GOOD]}).encode(),
    "deep": b"[" * 100_000,
    "lone_surrogate": with_field("host", "h").replace(b'"h"', b'"\\ud800"'),
    "another_version": with_field("format", 2),
    "version_of_wrong_type": with_field("format", "1"),
    **{f"without_{name}": with_field(name, ...) for name in GOOD if name != "format"},
    **{f"text_for_{name}": with_field(name, {"x": 1}) for name in GOOD if name != "format"},
    "negative_pid": with_field("pid", -1),
    "script_for_pid": with_field("pid", "<script>alert(1)</script>"),
    "huge_pid": with_field("pid", 10**30),
    "endless_time": with_field("began", 1).replace(b"1,", b"1e999,", 1),
    "time_far_away": with_field("written", 1e300),
    "not_a_number": with_field("began", float("nan")),
    "started_nothing": with_field("started", [{}]),
    "patch_without_state": with_patch("state", ...),
    "patch_of_no_calls": with_patch("calls", [1]),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_file_is_told_and_hides_no_other(tmp_path: Path, name: str) -> None:
    """A damaged file may belong to the run, and is named."""
    (tmp_path / "hookpatch-7.json").write_text(TEXT)
    (tmp_path / "hookpatch-8.json").write_bytes(DAMAGED[name])
    run = receipts(tmp_path)
    assert [process.pid for process in run] == [7]
    (line,) = run.unread
    assert line.startswith("hookpatch-8.json is no report: the file is ")
    assert line.endswith("; delete it, or run again with another folder")
    assert (len(line) < 400, run.problems) == (True, (line,))
    assert json.loads(run.to_json())["unread"] == [line]
    assert line.split(": ", 1)[1][:40] in html.unescape(page_of(run))


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "unreadable", "large"])
def test_what_is_no_file_is_told_and_does_not_hang(tmp_path: Path, kind: str) -> None:
    """A pipe without a writer would be waited for."""
    (tmp_path / "hookpatch-7.json").write_text(TEXT)
    path = tmp_path / "hookpatch-8.json"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(tmp_path / "hookpatch-7.json")
        case "folder":
            path.mkdir()
        case "large":
            path.touch()
            os.truncate(path, 2**40)
        case _:
            path.symlink_to("/proc/self/mem")
    (line,) = receipts(tmp_path).unread
    assert line.startswith("hookpatch-8.json is no report: ")


def test_report_command_ends_with_1_for_a_damaged_file(home: Environment, tmp_path: Path) -> None:
    """The table and the page have the damaged file; without a good file the command ends with an error."""
    for number in range(5):
        (tmp_path / f"hookpatch-{number}.json").write_text("{")
    alone = hookpatch(home, "report", str(tmp_path))
    assert (alone.stdout, alone.returncode, len(alone.stderr.splitlines())) == ("", 78, 1)
    assert "hookpatch-2.json is no report" in alone.stderr
    assert "and 2 more" in alone.stderr
    (tmp_path / "hookpatch-7.json").write_text(TEXT)
    completed = hookpatch(home, "report", str(tmp_path), "--html", str(tmp_path / "page.html"))
    assert (completed.stderr, completed.returncode) == ("", 1)
    assert completed.stdout.count("is no report: the file is cut off") == 5
    assert (tmp_path / "page.html").read_text().count("is no report: the file is cut off") == 5


ODD: Final = {
    "escapes": "\x1b]0;title\x07\x1b[31mred\x1b[0m",
    "clears": "\x1b[2J\x9b2J",
    "second_line": "a\nhookpatch: error: forged\r\nb",
    "right_to_left": "\u202egnp.exe\u2066",
    "markup": "<script>alert(1)</script><img src=x onerror=y>",
    "rich_markup": "[bold red]x[/bold red][link=http://evil]y[/link]",
    "undecodable": "caf\udce9",
    "no_ascii": "Grüße, 世界",
    "long": "x" * 200_000,
    "quotes": "\"'`&;",
}


@pytest.mark.parametrize("name", of_each(ODD))
def test_names_in_a_report_act_on_no_terminal_and_no_page(tmp_path: Path, name: str) -> None:
    """In each field of text: no control character, no second line, no tag."""
    text = ODD[name]
    patch = {**PATCH, **dict.fromkeys(("plugin", "distribution", "target", "verb", "place", "reason", "why"), text)}
    patch |= {"warnings": [text], "stale": [text], "stays": text, "upstream": text, "calls": {text: 1}}
    process = {**GOOD, "argv": [text, text], "host": text, "problems": [text], "asked": [text], "patches": [patch]}
    process["started"] = [{"pid": 3, "argv": [text]}]
    content = json.dumps({"processes": [process]})
    if name == "undecodable":  # as in a command line: written as an escape
        content = content.replace("\\udce9", "\\\\udce9")
    (tmp_path / "hookpatch-7.json").write_text(content)
    run = receipts(tmp_path)
    assert run.unread == ()
    lines = str(run).splitlines()
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 2 + 2 + len(run.processes[0].problems) - 1
    page = page_of(run)
    assert "<script" not in page
    assert "<img" not in page
    code = "import sys; sys.argv[:] = ['hookpatch', 'report', sys.argv[1]]; from hookpatch.command import main; main()"
    variables = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "COLUMNS": "200"}
    completed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, env={**os.environ, **variables}
    )
    assert (completed.stderr, completed.returncode) == ("", 1)
    assert all(line.isprintable() and line.isascii() for line in completed.stdout.splitlines())
    assert not any(line.startswith("hookpatch: error") for line in completed.stdout.splitlines())
    assert len(completed.stdout) < 100_000


SECRETS: Final = {
    "option": (["--password=hunter2"], ["--password=***"]),
    "option_and_word": (["--password", "hunter2", "x"], ["--password", "***", "x"]),
    "option_without_word": (["--token", "--verbose"], ["--token", "--verbose"]),
    "long_option": (["--db-password=a b c"], ["--db-password=***"]),
    "api_key": (["--api-key=k", "--apikey", "k", "--api_key=k"], ["--api-key=***", "--apikey", "***", "--api_key=***"]),
    "variable": (["HF_TOKEN=abc", "PGPASSWORD=abc"], ["HF_TOKEN=***", "PGPASSWORD=***"]),
    "hydra": (["+db.password=x", "model.auth_token=y"], ["+db.password=***", "model.auth_token=***"]),
    "access_key": (["--aws-secret-access-key", "k"], ["--aws-secret-access-key", "***"]),
    "address": (["postgres://me:hunter2@db/x"], ["postgres://me:***@db/x"]),
    "bearer": (["-H", "Authorization: Bearer abcdefghij"], ["-H", "Authorization: ***"]),
    "github": (["ghp_" + "a" * 36], ["***"]),
    "openai": (["x", "sk-proj-" + "a" * 30], ["x", "***"]),
    "amazon": (["AKIA" + "A" * 16], ["***"]),
    "jwt": (["eyJhbGciOiJI.eyJzdWIiOiIx.abc"], ["***"]),
    "code": (["-c", "login(password='hunter2', user='me')"], ["-c", "login(password=***, user='me')"]),
    "json": (['{"token": "abc", "x": 1}'], ['{"token": ***, "x": 1}']),
    "no_secrets": (
        ["--tokenizer=gpt2", "--max-tokens=3", "--author", "me", "-p", "80", "--bypass=1", "key=1", "http://h:80/@x"],
        ["--tokenizer=gpt2", "--max-tokens=3", "--author", "me", "-p", "80", "--bypass=1", "key=1", "http://h:80/@x"],
    ),
}


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_in_a_command_line_are_hidden(name: str) -> None:
    """By the name before them, or by the form of a key; other words stay."""
    words, shown = SECRETS[name]
    assert redacted(words) == shown


def test_command_line_in_a_report(home: Environment, tmp_path: Path) -> None:
    """A command line has the target of -c and -m; secrets are hidden, in child processes too; a setting hides all."""
    code = "import vendor, subprocess, sys; subprocess.run([sys.executable, '-c', 'pass', '--token=abc'])"
    hidden = code.replace("abc", "***")
    for number, (words, variables, shown) in enumerate(
        [
            (["-c", code, "--token=abc"], {}, {("-c", hidden, "--token=***"), ("-c", "pass", "--token=***")}),
            (["-m", "script", "x"], {}, {(str(home.folder / "script.py"), "x")}),
            (["-c", code, "x"], {"HOOKPATCH_REPORT_ARGUMENTS": "0"}, {("-c", "...")}),
            (["script.py", "x"], {"HOOKPATCH_REPORT_ARGUMENTS": "0"}, {("script.py", "...")}),
        ]
    ):
        reports = tmp_path / str(number)
        assert program(home, reports, *words, **variables)[2] == 0
        assert {process.argv for process in receipts(reports)} == shown
        assert "abc" not in "".join(path.read_text() for path in reports.iterdir())


def test_clock_that_goes_back_spoils_no_report(tmp_path: Path) -> None:
    """A process with an end before its begin is reported."""
    late = {**GOOD, "pid": 8, "first": False, "began": 5.0, "written": 1.0, "patches": [{**PATCH, "ended_at": 2.0}]}
    (tmp_path / "hookpatch-7.json").write_text(json.dumps({"processes": [{**GOOD, "began": 20.0, "written": 10.0}]}))
    (tmp_path / "hookpatch-8.json").write_text(json.dumps({"processes": [late]}))
    run = receipts(tmp_path)
    assert ([process.pid for process in run], run.problems) == ([8, 7], ())
    assert page_of(run).count("<details") == 2
    widths = [float(width) for width in re.findall(r"(?:width|left):(-?[\d.]+)%", page_of(run))]
    assert all(-1 <= width <= 101 for width in widths), widths


def test_two_thousand_reports_are_read_in_two_seconds(home: Environment, tmp_path: Path) -> None:
    """Measured in processor time, since other programs run beside the test."""
    for number in range(2000):
        process = {**GOOD, "pid": number, "first": number == 0, "patches": [PATCH, {**PATCH, "target": "vendor:b"}]}
        (tmp_path / f"hookpatch-{number}.json").write_text(json.dumps({"processes": [process]}))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    completed = hookpatch(home, "report", str(tmp_path))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (completed.returncode, completed.stderr, completed.stdout.count("vendor:b")) == (0, "", 2000)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2


# --- leftovers of an interrupted installation


LEFT: Final = ("~loud_dist-1.0.dist-info", "~oud_dist-1.0.dist-info", "~~oud_dist-0.9.dist-info")


def test_what_a_killed_pip_leaves_is_no_distribution(home: Environment) -> None:
    """pip renames folders before deletion: the plugin is offered once, and doctor names the folder."""
    for folder in LEFT:
        shutil.copytree(home.site_packages / "loud_dist-1.0.dist-info", home.site_packages / folder)
    try:
        completed = home.run("script.py", HOOKPATCH_PLUGINS="loud")
        assert (completed.stdout, completed.stderr, completed.returncode) == ("VENDOR! __main__\n", "", 0)
        rows = json.loads(hookpatch(home, "doctor", "--json").stdout)["findings"]
    finally:
        for folder in LEFT:
            shutil.rmtree(home.site_packages / folder)
    assert [(finding["found"], finding["mend"]) for finding in rows if finding["about"] == "distribution"] == [
        (f"{home.site_packages / folder} is left of an interrupted pip", "delete it") for folder in LEFT
    ]


@pytest.mark.parametrize("newer", ["1.1", pytest.param("1.0", marks=pytest.mark.ends)])
@pytest.mark.ends
def test_two_dist_infos_of_one_distribution_are_told(home: Environment, newer: str) -> None:
    """The newer of two dist-info folders counts; doctor names both, and the folder to delete."""
    first, second = (home.site_packages / f"loud_dist-{version}.dist-info" for version in ("1.0", "1.1"))
    shutil.copytree(first, second)
    (home.site_packages / "loud_dist_loud.py").touch()
    os.utime(first if newer == "1.0" else second, (time.time() + 60,) * 2)
    try:
        completed = hookpatch(home, "list", "--json")
        rows = json.loads(hookpatch(home, "doctor", "--json").stdout)["findings"]
        refused = home.run("script.py", HOOKPATCH_PLUGINS="loud")
    finally:
        shutil.rmtree(second)
        os.utime(first)
    versions = [row["version"] for row in json.loads(completed.stdout)["plugins"] if row["name"] == "loud"]
    assert versions == [newer]
    assert (refused.stdout, refused.stderr) == ("VENDOR! __main__\n", "")
    counting, surplus = (first, second) if newer == "1.0" else (second, first)
    assert [(finding["found"], finding["mend"]) for finding in rows if finding["about"] == "distribution"] == [
        (
            f"loud-dist is in {home.site_packages} 2 times: {first.name}, {second.name}; {counting.name} counts",
            f"delete {surplus}; then install loud-dist anew",
        )
    ]


# --- malformed settings


SETTINGS: Final = ("PLUGINS", "OPTIONS", "CONFIG", "ON_ERROR", "ON_DRIFT", "LOCK")


@pytest.mark.parametrize("name", of_each(ODD))
@pytest.mark.parametrize(
    "setting", ["PLUGINS", *(pytest.param(name, marks=pytest.mark.ends) for name in SETTINGS if name != "PLUGINS")]
)
def test_setting_with_odd_text_is_one_line(home: Environment, setting: str, name: str) -> None:
    """No escape reaches the terminal, no name begins a second line, no message is long."""
    text = ODD[name][:100_000]  # Linux starts no program with a longer variable
    completed = home.run("script.py", **{"HOOKPATCH_PLUGINS": "loud", f"HOOKPATCH_{setting}": text.replace("\0", "")})
    assert (completed.stdout, completed.returncode) == ("", 78)
    (line,) = completed.stderr.splitlines()
    assert line.startswith("hookpatch: error: ")
    assert (line.isprintable(), len(line) < 5_000) == (True, True)


@pytest.mark.parametrize("name", of_each(ODD))
@pytest.mark.parametrize("words", [["{}"], ["explain", "{}"], ["plan", "{}"], ["run", "-p", "{}", "x"]], ids="-".join)
def test_argument_with_odd_text_is_one_line(home: Environment, words: list[str], name: str) -> None:
    """Of the command, too."""
    text = ODD[name][:100_000]
    code = f"import sys; sys.argv[1:] = {[text if word == '{}' else word for word in words]!a}"
    code = code.encode("ascii", "backslashreplace").decode()
    (home.folder / "odd.py").write_text(f"{code}\nfrom hookpatch.command import main\nmain()\n")
    completed = home.run("odd.py")
    assert (completed.stdout, completed.returncode) == (
        "",
        2 if words == ["{}"] else 78,
    )  # 2: a command that does not exist
    (line,) = completed.stderr.splitlines()
    assert (line.startswith("hookpatch: error: "), line.isprintable(), len(line) < 5_000) == (True, True, True)


BLOCK: Final = (
    '[{"id": "1-a-1", "what": [{"plugin": "loud", "options": {}}], "require": true, "count": false, "lock": null}]'
)
PATCH_BLOCK: Final = (
    BLOCK.replace('{"plugin": "loud", "options": {}}', '{{"patch": "{}", "of": "a patch"}}')
    .replace('[{"id', '[{{"id')
    .replace("null}]", "null}}]")
)


DAMAGED_BLOCKS: Final = {
    "text": "hello",
    "cut": '[{"id": "1-a-1", "req',
    "number": "3",
    "null": "null",
    "list_of_numbers": "[1]",
    "object": '{"id": "x"}',
    "deep": "[" * 50_000,
    "without_id": '[{"what": [{"plugin": "loud", "options": {}}], "require": true, "count": false, "lock": null}]',
    "id_of_wrong_type": BLOCK.replace('"1-a-1"', "[1]"),
    "what_of_wrong_type": BLOCK.replace('[{"plugin": "loud", "options": {}}]', '"loud"'),
    "item_of_wrong_type": BLOCK.replace('{"plugin": "loud", "options": {}}', "3"),
    "plugin_of_wrong_type": BLOCK.replace('"loud"', "3"),
    "options_of_wrong_type": BLOCK.replace('"options": {}', '"options": 3'),
    "lock_of_wrong_type": BLOCK.replace('"lock": null', '"lock": 3'),
    "lock_of_one": BLOCK.replace('"lock": null', '"lock": ["x"]'),
    "no_base64": PATCH_BLOCK.format("!!!"),
    "no_pickle": PATCH_BLOCK.format(base64.b64encode(b"hello").decode()),
    "cut_pickle": PATCH_BLOCK.format(base64.b64encode(pickle.dumps([1, 2, 3])[:-3]).decode()),
    "pickle_of_no_patch": PATCH_BLOCK.format(base64.b64encode(pickle.dumps({})).decode()),
}


@pytest.mark.parametrize("name", of_each(DAMAGED_BLOCKS))
def test_damaged_blocks_are_one_line(home: Environment, name: str) -> None:
    """A damaged HOOKPATCH_INHERIT is a line with the remedy, or the patch; the program does not run."""
    completed = home.run("script.py", HOOKPATCH_INHERIT=DAMAGED_BLOCKS[name])
    assert (completed.stdout, completed.returncode) == ("", 78), completed.stderr
    (line,) = completed.stderr.splitlines()
    assert line.startswith("hookpatch: error: cannot be carried to another process: ")
    assert line.endswith("[hookpatch explain NotCarriedError]")


@pytest.mark.parametrize(
    ("setting", "words"),
    [("ON_DRIFT", ["script.py"]), ("ON_ERROR", ["script.py"]), ("ON_DRIFT", ["-m", "hookpatch", "plan", "loud"])],
)
def test_wrong_policy_is_refused_where_it_has_no_effect_yet(home: Environment, setting: str, words: list[str]) -> None:
    """Without a lock file, too."""
    completed = home.run(*words, HOOKPATCH_PLUGINS="loud", **{f"HOOKPATCH_{setting}": "wran"})
    assert (completed.stdout, completed.returncode) == ("", 78)
    (line,) = completed.stderr.splitlines()
    assert line.startswith(f"hookpatch: error: HOOKPATCH_{setting}: 'wran' is not a policy; it takes ")
