"""Every process writes a report file, and the first process joins the files. An unpatched process is named."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from call_counting import calls_in
from environments import LOUD, Environment, furnished

import hookpatch
from hookpatch._processes.receipt import ReportFile
from hookpatch.errors import SettingError

pytestmark = pytest.mark.once

VENDOR = "def speak(word='vendor'): return word\n"

WORK = """
import multiprocessing, os, subprocess, sys
import hookpatch

def speak(*_):
    import vendor
    return vendor.speak()

def in_process(method, function=speak):
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.apply(function)

def in_program(*flags, **more):
    subprocess.run([sys.executable, *flags, "-c", "import sys; sys.path.insert(0, '.'); import vendor"], **more)
"""


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Make an environment with a plugin, and a folder with the vendor's module and its callers."""
    files = {"vendor.py": VENDOR, "work.py": WORK}
    return furnished(tmp_path_factory.mktemp("receipts"), wheels, {"loud": LOUD}, files)


def run_script(
    home: Environment, reports: Path, lines: str, plugins: str = "loud", **variables: str
) -> tuple[str, str]:
    """Run lines of a script; return its output and stderr."""
    indented = lines.strip("\n").replace("\n", "\n    ")
    script = home.folder / f"{reports.parent.name}.py"
    script.write_text(f"from work import *\nif __name__ == '__main__':\n    {indented}\n")
    completed = home.run(script.name, HOOKPATCH_PLUGINS=plugins, HOOKPATCH_REPORT=str(reports), **variables)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout, completed.stderr


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    return tmp_path / "reports"


def test_every_process_of_a_tree_leaves_one(home: Environment, reports: Path) -> None:
    """Each process writes number, parent, machine, command line and the states of patches, started in any way."""
    lines = """
speak()
for method in ("fork", "spawn", "forkserver"):
    in_process(method)
in_program()
print(os.getpid())
"""
    out, stderr = run_script(home, reports, lines)
    joined = hookpatch.receipts(reports)
    first, *started = joined
    assert first.pid == int(out)
    assert (first.argv, first.rank, first.ended) == ((f"{reports.parent.name}.py",), None, True)
    assert first.host == os.uname().nodename
    commands = [" ".join(process.argv) for process in started]
    assert [process.ppid == first.pid for process in started] == [True] * 2 + [True, False] + [True], started
    assert len(started) == 5, commands
    speaking = [process for process in joined if [patch.state for patch in process.patches] == ["applied"]]
    assert len(speaking) == 5  # not the fork server: the fork server has not imported the target
    assert (joined.problems, stderr) == ((), "")


def test_folder_is_that_of_the_first_process(home: Environment, reports: Path) -> None:
    """A relative folder starts at the first process's folder, for all child processes."""
    script = home.folder / "elsewhere.py"
    script.write_text("from work import *\nif __name__ == '__main__':\n    os.chdir('/')\n    in_process('spawn')\n")
    completed = home.run(script.name, HOOKPATCH_PLUGINS="loud", HOOKPATCH_REPORT=f"relative-{reports.parent.name}")
    assert completed.returncode == 0, completed.stderr
    assert len(hookpatch.receipts(home.folder / f"relative-{reports.parent.name}").processes) == 2


def test_calls_are_in_it(home: Environment, reports: Path) -> None:
    """Report files have calls, also of a forked worker, which ends without atexit."""
    run_script(home, reports, "in_process('fork'); speak()", HOOKPATCH_COUNT="1")
    assert [[patch.calls for patch in process.patches] for process in hookpatch.receipts(reports)] == [
        [{"eager": 1}]
    ] * 2


def test_import_of_many_targets_writes_once(home: Environment, reports: Path) -> None:
    """All patches of an imported module are written together; then each first call is written."""
    lines = """
import json, pathlib
home = pathlib.Path("home_of_many.py")
home.write_text("\\n".join(f"def f{number}(): return {number}" for number in range(50)))
sys.path.insert(0, ".")
written = []
sys.addaudithook(lambda event, args: event == "os.rename" and written.append(args))
around = lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs)
patches = [hookpatch.wrap(f"home_of_many:f{number}", around) for number in range(50)]
with hookpatch.active(*patches, count=True, children="local"):
    written.clear()
    import home_of_many
    print(len(written))
    for call in (lambda: None, home_of_many.f0, home_of_many.f0, home_of_many.f7):
        call()
        report = json.loads(pathlib.Path(written[-1][1]).read_text())
        states = [(patch["state"], patch["calls"]) for patch in report["processes"][0]["patches"]]
        print(len(states), states.count(("applied", {})), states.count(("applied", {"eager": 1})))
"""
    out, _ = run_script(home, reports, lines, plugins="")  # a warning of each patch that was never called
    assert out.splitlines() == ["1", "50 50 0", "50 49 1", "50 49 1", "50 48 2"]


def test_killed_worker_has_left_what_it_knew(home: Environment, reports: Path) -> None:
    """A killed worker's file has an applied patch, without an end."""
    lines = """
pid = os.fork()
if not pid:
    speak()
    os.kill(os.getpid(), 9)
print(pid, os.waitpid(pid, 0)[1])
"""
    out, _ = run_script(home, reports, lines)
    pid, status = map(int, out.split())
    assert status == signal.SIGKILL
    killed = next(process for process in hookpatch.receipts(reports) if process.pid == pid)
    assert ([patch.state for patch in killed.patches], killed.ended) == (["applied"], False)


def test_process_without_patches_is_named(home: Environment, reports: Path) -> None:
    """The report and stderr name a process without the environment, and a process with another selection."""
    lines = """
in_program("-I")
in_program(env={**os.environ, "HOOKPATCH_PLUGINS": "quiet"})
subprocess.run([sys.executable, "-m", "pip", "--version"], stdout=subprocess.DEVNULL)
subprocess.run(["true"])
print(os.getpid())
"""
    home.add_plugin("quiet", LOUD.replace("upper", "lower"), "quiet-dist")
    try:
        out, stderr = run_script(home, reports, lines)
    finally:
        for path in home.site_packages.glob("quiet*"):
            subprocess.run(["rm", "-r", path], check=True)
    first, quiet, isolated = hookpatch.receipts(reports)
    assert first.problems == ()
    assert isolated.problems == (
        f"process {first.pid} started this process, which left no report: hookpatch was not active in the process, had "
        "no HOOKPATCH_REPORT there, or the process was killed before its first line",
    )
    assert quiet.problems == (f"the environment asks for quiet, in process {first.pid} for loud",)
    start = f"hookpatch[{int(out)}]: warning:"
    assert stderr.splitlines() == [
        *(f"{start} process {process.pid}: {process.problems[0]}" for process in (quiet, isolated)),
        f"{start} vendor:speak of plugin 'loud' from loud-dist 1.0: "
        "was never applied: the program did not import vendor",
    ]


def test_what_cannot_be_had_is_in_it(home: Environment, reports: Path) -> None:
    """A report file has the error, from a program without patches and from a refused program."""
    for setting, status in ({"HOOKPATCH_ON_ERROR": "warn"}, 0), ({}, 78):
        completed = home.run(
            "-c", "pass", HOOKPATCH_PLUGINS="loud", HOOKPATCH_OPTIONS="{", HOOKPATCH_REPORT=str(reports), **setting
        )
        assert completed.returncode == status
        (process,) = hookpatch.receipts(reports)
        assert process.problems[0].startswith("HOOKPATCH_OPTIONS: not JSON")


def test_patch_that_failed_in_one_process_is_named(home: Environment, reports: Path) -> None:
    """The report names a failed patch with the reason; a patch of a module never imported may wait."""
    lines = """
in_process("spawn")
open("vendor.py", "w").write("def other(): pass")
import importlib; importlib.invalidate_caches()
in_program()
"""
    try:
        _, stderr = run_script(home, reports, lines, HOOKPATCH_ON_ERROR="warn")
    finally:
        (home.folder / "vendor.py").write_text(VENDOR)
    problems = [process.problems for process in hookpatch.receipts(reports)]
    why = "vendor has no attribute 'speak' (target vendor:speak of plugin 'loud' from loud-dist 1.0)"
    assert problems == [(), (), (f"vendor:speak of plugin 'loud' is failed: {why}",)]
    assert f"vendor:speak of plugin 'loud' is failed: {why}" in stderr


def test_program_without_a_report_is_none_missing(home: Environment, reports: Path) -> None:
    """Python that shows its version, installers, and hookpatch itself leave no report, and need none."""
    lines = """
speak()
python = sys.executable
for words in (["-V"], ["--version"], ["--help"], ["-m", "venv", "--help"], ["-Bm", "pip", "--version"]):
    subprocess.run([python, *words], stdout=subprocess.DEVNULL, check=True)
for command in ([python, "-m", "hookpatch", "--version"], [os.path.join(os.path.dirname(python), "hookpatch"), "-h"]):
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
"""
    assert run_script(home, reports, lines)[1] == ""
    assert [process.problems for process in hookpatch.receipts(reports)] == [()]


@pytest.mark.parametrize(
    "more", ["", "preexec_fn=os.setsid", pytest.param("close_fds=False", marks=pytest.mark.ends)], ids=str
)
@pytest.mark.parametrize(
    "words", ["command", "iter(command)", "['xargs', *command]", "['env', '-u', 'HOME', *command]"]
)
@pytest.mark.sampled(3)
def test_program_without_the_block_is_named(home: Environment, reports: Path, words: str, more: str) -> None:
    """Also behind programs that run others, and where a function runs in the fork before the program."""
    lines = f"""
command = [sys.executable, "-c", "pass"]
with hookpatch.active("loud"):
    subprocess.run({words}, env={{"PATH": os.environ["PATH"]}}, stdin=subprocess.DEVNULL, {more})
    subprocess.run({words}, stdin=subprocess.DEVNULL, {more})
"""
    run_script(home, reports, lines, plugins="")
    (problem,) = hookpatch.receipts(reports).problems
    assert "which left no report" in problem


def test_program_of_a_shell_without_the_block_is_named(home: Environment, reports: Path) -> None:
    """The number of such a process is unknown; the environment shows the lack."""
    lines = """
with hookpatch.active("loud"):
    os.system(f"{sys.executable} -c pass")
    del os.environ["HOOKPATCH_INHERIT"]
    os.system(f"{sys.executable} -c pass")
"""
    run_script(home, reports, lines, plugins="")
    (problem,) = hookpatch.receipts(reports).problems
    assert problem.endswith(
        "-c pass starts without plugin 'loud': the program gets an environment from outside the block; pass the "
        "environment from inside the block"
    )


@pytest.mark.parametrize(
    "clear",
    [
        "os.environ.clear()",
        pytest.param("mock.patch.dict(os.environ, clear=True).start()", marks=pytest.mark.ends),
        pytest.param("del os.environ['HOOKPATCH_PLUGINS']", marks=pytest.mark.ends),
    ],
)
@pytest.mark.parametrize("start", ["subprocess.run(program)", "os.spawnv(os.P_WAIT, program[0], program)"])
def test_program_of_a_cleared_environment_is_named(home: Environment, reports: Path, clear: str, start: str) -> None:
    """This process is patched; its child process is not, for the program has cleared the environment."""
    lines = f"""
import vendor
from unittest import mock
program = [sys.executable, "-c", "pass"]
{clear}
{start}
"""
    run_script(home, reports, lines)
    (problem,) = hookpatch.receipts(reports).problems
    assert "which left no report" in problem


STARTS = {
    "os.spawnv": "os.spawnv(os.P_WAIT, program[0], program)",
    "os.spawnve": "os.spawnve(os.P_WAIT, program[0], program, os.environ)",
    "os.spawnlp": "os.spawnlp(os.P_WAIT, program[0], *program)",
    "preexec_fn": "subprocess.run(program, preexec_fn=os.getpid)",
    "fork and exec": "os.fork() or os.execv(program[0], program); os.wait()",
    "multiprocessing.util": "util.spawnv_passfds(os.fsencode(program[0]), program, ()); os.wait()",
}


@pytest.mark.parametrize(
    "start", ["os.spawnv", *(pytest.param(name, marks=pytest.mark.ends) for name in STARTS if name != "os.spawnv")]
)
@pytest.mark.parametrize("block", ["contextlib.nullcontext()", "hookpatch.active('loud', count=True)"])
def test_program_in_the_place_of_a_fork_is_one_process(
    home: Environment, reports: Path, start: str, block: str
) -> None:
    """A fork made for a program is not a process of its own in the report; a fork with calls is."""
    lines = f"""
import contextlib
from multiprocessing import util
program = [sys.executable, "-c", "import sys; sys.path.insert(0, '.'); import work; work.speak()"]
with {block}:
    {STARTS[start]}
    if os.fork() == 0:
        print(speak(), flush=True)
        os.execv(program[0], program)
    os.wait()
"""
    run_script(home, reports, lines, plugins="loud" if "null" in block else "", HOOKPATCH_COUNT="1")
    run = hookpatch.receipts(reports)
    assert run.problems == ()
    assert [process.argv[0] == "-c" for process in run] == [False, True, False, True]


def test_fork_by_c_code_is_a_process_of_its_own(home: Environment, reports: Path) -> None:
    """The child processes of the parent are none of the fork's, though no function of hookpatch was called."""
    lines = """
import ctypes, vendor
program = [sys.executable, "-c", "import sys; sys.path.insert(0, '.'); import vendor"]
os.waitpid(os.posix_spawn(program[0], program, os.environ), 0)
if ctypes.PyDLL(None).fork() == 0:
    os.waitpid(os.posix_spawn(program[0], program, os.environ), 0)
    ctypes.PyDLL(None)._exit(0)
os.wait()
"""
    run_script(home, reports, lines)
    run = hookpatch.receipts(reports)
    first, spawned, fork, last = run
    assert run.problems == ()
    assert [process.ppid for process in (spawned, fork, last)] == [first.pid, first.pid, fork.pid]


def test_other_programs_than_python_are_noted(home: Environment, reports: Path) -> None:
    """A shell can start Python without the environment, unseen: a note names the shell, and is no problem.

    What is started outside of a block is not noted, nor the secrets of a command; the list is short.
    """
    lines = """
unpatched = ["sh", "-c", f"true; env -i {sys.executable} -c pass"]
subprocess.run(["true", "outside"])
with hookpatch.active("loud", children="require"):
    subprocess.run(unpatched)
    subprocess.run(args=["true", "--token=hidden"])
    os.system("true by-system")
    for number in range(30):
        os.waitpid(os.posix_spawn("/bin/true", ["true", f"spawned-{number}"], os.environ), 0)
"""
    run_script(home, reports, lines, plugins="")
    (first,) = joined = hookpatch.receipts(reports)
    (note,) = first.notes
    python = next(word for word in note.split() if "python" in word)
    spawned = ", ".join(f"true spawned-{number}" for number in range(5))
    assert note == (
        f"started other programs than Python (sh -c true; env -i {python} -c pass, true --token=***, sh -c true "
        f"by-system, {spawned}, ...): hookpatch does not see which Python these start"
    )
    assert (joined.problems, str(joined).splitlines()[1:]) == ((), [f"    note {note}"])
    completed = home.run(home.python.parent / "hookpatch", "report", reports, "--html", reports / "page.html")
    assert completed.returncode == 0
    assert f"  note {note}" in completed.stdout.splitlines()
    assert f"<b>Note</b> {note}</li>" in (reports / "page.html").read_text()


def test_a_fork_notes_its_own_programs_alone(home: Environment, reports: Path) -> None:
    """The note of a forked process ends without the dots that stand for programs of the parent."""
    lines = """
with hookpatch.active("loud"):
    for number in range(10):
        subprocess.run(["true", f"parent-{number}"])
    if not os.fork():
        subprocess.run(["true", "child"])
        sys.exit()
    os.wait()
"""
    run_script(home, reports, lines, plugins="")
    notes = [note for process in hookpatch.receipts(reports) for note in process.notes]
    assert [note.partition(" (")[2].partition(")")[0] for note in notes if "parent" not in note] == ["true child"]


def test_blocks_are_in_it(home: Environment, reports: Path) -> None:
    """The file has ended blocks with their last states; a process started outside the block needs none."""
    lines = """
import vendor
for _ in range(3):
    with hookpatch.active(hookpatch.inject("vendor:speak", word="x"), "loud"):
        in_process("spawn")
in_process("spawn")
"""
    run_script(home, reports, lines, plugins="")
    first, *started = hookpatch.receipts(reports)
    assert [(patch.plugin, patch.state) for patch in first.patches] == [(None, "restored"), ("loud", "restored")]
    assert [[patch.state for patch in process.patches] for process in started[:3]] == [["applied", "applied"]] * 3


# The lines of a killed process, and the last known states and calls: the environment's patch where it has one.
SHARED: dict[str, tuple[str, str, str, dict[str, int] | None]] = {
    "block inside": ("with hookpatch.active('loud'): speak()", "loud", "applied", {"eager": 1}),
    "block counted": ("with hookpatch.active('loud', count=True): speak()", "loud", "applied", {"eager": 1}),
    "called before": ("speak()\nwith hookpatch.active('loud', count=True): pass", "loud", "applied", {"eager": 1}),
    "inside the block": ("hookpatch.active('loud').open(); speak()", "loud", "applied", {"eager": 1}),
    "block waits": ("with hookpatch.active('loud'): pass", "loud", "waiting", None),
    "block first": (
        "a = hookpatch.active('loud').open()\nb = hookpatch.active('loud').open()\nimport vendor\na.close()",
        "",
        "applied",
        None,
    ),
    "both blocks end": (
        "import vendor\nwith hookpatch.active('loud'), hookpatch.active('loud'): pass",
        "",
        "restored",
        None,
    ),
    "fork": (
        "import vendor\nblock = hookpatch.active('loud').open()\n"
        "if os.fork():\n    os.wait(); os._exit(0)\nblock.close()",
        "loud",
        "applied",
        {},
    ),
}


@pytest.mark.parametrize("case", SHARED)
def test_block_and_environment_with_the_same_plugin(home: Environment, reports: Path, case: str) -> None:
    """The end of a block does not end the patches of the environment, in the file of a killed process either."""
    lines, plugins, state, calls = SHARED[case]
    count = {"HOOKPATCH_COUNT": "1"} if plugins else {}
    run_script(home, reports, f"{lines}\nos._exit(0)", plugins=plugins, **count)
    processes = [*hookpatch.receipts(reports)]
    [process] = [process for process in processes if case != "fork" or process.ppid in {p.pid for p in processes}]
    assert [(patch.state, patch.calls) for patch in process.patches] == [(state, calls)]


def test_folder_that_cannot_be_written_is_one_warning(home: Environment, tmp_path: Path) -> None:
    """Never a failed run."""
    (tmp_path / "file").touch()
    _, stderr = run_script(home, tmp_path / "file" / "reports", "speak(); in_process('spawn')")
    first, child = stderr.splitlines()
    for line in (first, child):
        assert re.fullmatch(r"hookpatch: warning: no report left at .*/hookpatch-\d+\.json: Not a directory", line)


def test_full_disk_is_one_warning(home: Environment, reports: Path) -> None:
    """A folder without room, made by a limit on the size of files."""
    lines = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); import signal\n"
    lines += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); speak(); speak()"
    _, stderr = run_script(home, reports, lines)
    assert re.fullmatch(r"hookpatch: warning: no report left at .*\.json: File too large\n", stderr)
    (process,) = hookpatch.receipts(reports)
    assert [patch.state for patch in process.patches] == ["waiting"]  # as of the last written state


def test_run_of_the_same_folder_is_told_apart(home: Environment, reports: Path) -> None:
    """The last run in a folder is shown; an older run by its name."""
    run_script(home, reports, "in_process('spawn')")
    time.sleep(0.01)
    run_script(home, reports, "pass")
    assert len(list(reports.glob("hookpatch-*.json"))) == 3
    assert len(hookpatch.receipts(reports).processes) == 1
    roots = {json.loads(path.read_text())["processes"][0]["root"] for path in reports.glob("*.json")}
    assert sorted(len(hookpatch.receipts(reports, root).processes) for root in roots) == [1, 2]


def test_rank_is_that_of_the_launcher(home: Environment, reports: Path) -> None:
    """Of torchrun; the others have variables of their own."""
    run_script(home, reports, "speak()", RANK="3")
    assert [process.rank for process in hookpatch.receipts(reports)] == [3]


def test_no_report_is_an_error(tmp_path: Path) -> None:
    """With the folder."""
    with pytest.raises(SettingError) as caught:
        hookpatch.receipts(tmp_path)
    assert (
        str(caught.value)
        == f"report: no process has left a report in {tmp_path}; `hookpatch run --report {tmp_path}` writes reports"
    )


def test_command_prints_what_they_left(home: Environment, reports: Path) -> None:
    """Status 0 without findings, 1 with findings, 78 without a report."""
    command = (home.python.parent / "hookpatch", "report", reports)
    missing = home.run(*command)
    assert (missing.returncode, missing.stderr) == (
        78,
        f"hookpatch: error: report: no process has left a report in {reports}; "
        f"`hookpatch run --report {reports}` writes reports [hookpatch explain SettingError]\n",
    )
    run_script(home, reports, "speak()", HOOKPATCH_COUNT="1")
    (process,) = hookpatch.receipts(reports)
    completed = home.run(*command)
    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout == f"{process.pid}  {process.argv[0]}\n  applied   wrap    vendor:speak  (loud)  1 made\n"
    run_script(home, reports, "in_program('-I')")
    completed = home.run(*command, "--json")
    assert completed.returncode == 1
    assert [len(process["problems"]) for process in json.loads(completed.stdout)["processes"]] == [0, 1]


def test_start_of_a_process_costs_the_same_after_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process writes its file after each start; a launcher starts thousands."""
    monkeypatch.setenv("HOOKPATCH_REPORT", str(tmp_path))
    monkeypatch.setenv("HOOKPATCH_REPORT_ROOT", "run")
    file = ReportFile(str(tmp_path))

    def calls(number: int) -> int:
        return calls_in(lambda: file.started(number, ["python", "worker.py", "a"]))

    calls(1)
    second = calls(2)
    for number in range(3, 300):
        file.started(number, ["python", "worker.py"])
    assert calls(300) == second
    process, *missing = hookpatch.receipts(tmp_path)
    assert process.pid == os.getpid()
    assert sorted(started.pid for started in missing) == [*range(1, 301)]
