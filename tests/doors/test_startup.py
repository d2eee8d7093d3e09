"""Start-up: the environment's patches are applied, or refused before the program's first line; else nothing happens."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from environments import LOUDER, SCRIPT, VENDOR, Environment


@pytest.fixture
def home(environment: Environment, tmp_path: Path) -> Environment:
    """Make an environment with a plugin, and a folder with the vendor's module and a script."""
    environment.add_plugin("loud", LOUDER)
    environment.work_in(tmp_path / "work", {"vendor.py": VENDOR, "script.py": SCRIPT})
    return environment


WAYS = [
    pytest.param(["script.py"], id="script"),
    pytest.param(["-m", "script"], id="module"),
    pytest.param(["-c", SCRIPT], id="code"),
]


@pytest.mark.parametrize("way", WAYS)
def test_unmodified_program_is_patched(home: Environment, way: list[str]) -> None:
    """HOOKPATCH_PLUGINS is enough; the program stays `__main__`."""
    completed = home.run(*way, HOOKPATCH_PLUGINS="loud")
    assert (completed.stdout, completed.stderr, completed.returncode) == ("VENDOR! __main__\n", "", 0)


@pytest.mark.parametrize("plugins", ["", " ", ",", " , "])
def test_nothing_asked_for_is_nothing_imported(home: Environment, plugins: str) -> None:
    """Unset and empty mean the same: no patch, and no module of ours but the start-up file for an empty list."""
    program = "import sys; print(sorted(m for m in sys.modules if m.startswith('hookpatch')))"
    unset = home.run("-c", program)
    empty = home.run("-c", program, HOOKPATCH_PLUGINS=plugins)
    assert unset.stdout == "[]\n"
    ours = (
        []
        if plugins == ""
        else ["hookpatch", "hookpatch._bootstrap", "hookpatch._bootstrap.environment", "hookpatch._startup"]
    )
    assert empty.stdout == f"{ours}\n"
    assert home.run("script.py", HOOKPATCH_PLUGINS=plugins).stdout == "vendor __main__\n"


@pytest.mark.parametrize(("policy", "out", "status"), [("exit", "", 78), ("warn", "vendor __main__\n", 0)])
def test_refusal_without_a_stderr(home: Environment, policy: str, out: str, status: int) -> None:
    """A service with a closed stderr is refused, or goes on, without a message."""
    closed = "import os, sys; os.close(2); os.environ['HOOKPATCH_PLUGINS'] = 'nope'"
    completed = home.run(
        *("-c", f"{closed}; os.execv(sys.executable, [sys.executable, 'script.py'])"), HOOKPATCH_ON_ERROR=policy
    )
    assert (completed.stdout, completed.stderr, completed.returncode) == (out, "", status)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full device")
@pytest.mark.parametrize(("policy", "out", "status"), [("exit", "", 78), ("warn", "vendor __main__\n", 0)])
@pytest.mark.parametrize("put", ["os.dup2(os.open('/dev/full', 1), 2)", "os.dup2(pipe(), 2)"])
def test_refusal_with_a_stderr_that_takes_nothing(
    home: Environment, put: str, policy: str, out: str, status: int
) -> None:
    """A full disk or a pipe without a reader changes neither the status nor the program.

    PYTHONUNBUFFERED is unset: with a buffer Python would exit with status 120.
    """
    code = f"""
import os, sys
def pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return writing
{put}
os.environ["HOOKPATCH_PLUGINS"] = "nope"
os.execv(sys.executable, [sys.executable, "script.py"])
"""
    completed = home.run("-c", code, HOOKPATCH_ON_ERROR=policy, PYTHONUNBUFFERED="")
    assert (completed.stdout, completed.stderr, completed.returncode) == (out, "", status)


@pytest.mark.parametrize("stderr", ["io.TextIOWrapper(io.BytesIO(), 'ascii')", "closed"])
def test_message_for_a_stderr_of_the_program(stderr: str) -> None:
    """A text that the file cannot hold is escaped; a closed file raises no error in the program."""
    code = f"""
import io, sys
from hookpatch._bootstrap.stderr import write_line
closed = io.StringIO()
closed.close()
sys.stderr, own = {stderr}, sys.stderr
write_line("Gr\xfc\xdfe")
file, sys.stderr = sys.stderr, own
if not file.closed:
    file.flush()
    print(file.buffer.getvalue().decode(), end="")
"""
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (completed.stderr, completed.returncode) == ("", 0)
    assert completed.stdout == ("" if stderr == "closed" else "hookpatch: Gr\\xfc\\xdfe\n")


@pytest.mark.parametrize("flag", ["-I", "-E"])
def test_isolated_interpreter_is_not_patched(home: Environment, flag: str) -> None:
    """-I and -E ignore the environment, with hookpatch's variables."""
    program = "import sys; sys.path.insert(0, '.'); " + SCRIPT + "; print('hookpatch' in sys.modules)"
    completed = home.run(flag, "-c", program, HOOKPATCH_PLUGINS="loud")
    assert completed.stdout == "vendor __main__\nFalse\n"
    unknown = home.run(flag, "-c", program, HOOKPATCH_PLUGINS="nonsense")
    assert (unknown.stdout, unknown.returncode) == ("vendor __main__\nFalse\n", 0)


@pytest.mark.parametrize("way", WAYS)
def test_misspelt_name_refuses_the_program_before_it_starts(home: Environment, way: list[str]) -> None:
    """A misspelt name is a line on stderr and status 78, before the program's first line."""
    completed = home.run(*way, HOOKPATCH_PLUGINS="luod")
    message = (
        "hookpatch: error: no plugin 'luod' (asked for by HOOKPATCH_PLUGINS=luod); "
        "did you mean 'loud'? installed: loud [hookpatch explain UnknownPlugin]\n"
    )
    assert (completed.stdout, completed.stderr, completed.returncode) == ("", message, 78)


def test_unknown_name_refuses_the_program(home: Environment) -> None:
    """A single bad name among good names refuses the program."""
    completed = home.run("script.py", HOOKPATCH_PLUGINS="loud,zebra")
    message = (
        "hookpatch: error: no plugin 'zebra' (asked for by HOOKPATCH_PLUGINS=loud,zebra); installed: loud "
        "[hookpatch explain UnknownPlugin]\n"
    )
    assert (completed.stdout, completed.stderr, completed.returncode) == ("", message, 78)


def test_ambiguous_name_refuses_the_program_and_the_distribution_settles_it(home: Environment) -> None:
    """No distribution wins in silence."""
    home.add_plugin("loud", LOUDER.replace(".upper()", ".title()"), distribution="other")
    completed = home.run("script.py", HOOKPATCH_PLUGINS="loud")
    message = (
        "hookpatch: error: plugin 'loud' (asked for by HOOKPATCH_PLUGINS=loud) is offered by 2 distributions: "
        "loud-dist, other; ask for 'loud@loud-dist' or 'loud@other', or uninstall one "
        "[hookpatch explain AmbiguousPlugin]\n"
    )
    assert (completed.stdout, completed.stderr, completed.returncode) == ("", message, 78)
    assert home.run("script.py", HOOKPATCH_PLUGINS="loud@other").stdout == "Vendor! __main__\n"


def test_plugin_that_raises_when_loaded_refuses_the_program(home: Environment) -> None:
    """The message has the plugin, its distribution and the error."""
    home.add_plugin("broken", "raise RuntimeError('no')")
    completed = home.run("script.py", HOOKPATCH_PLUGINS="broken")
    message = (
        "hookpatch: error: plugin 'broken' (broken-dist 1.0) raised RuntimeError when it was loaded: no "
        "(broken_dist_broken.py, line 1); fix or uninstall it [hookpatch explain PluginError]\n"
    )
    assert (completed.stdout, completed.stderr, completed.returncode) == ("", message, 78)


def test_warn_policy_lets_the_program_run_unpatched_and_says_so(home: Environment) -> None:
    """HOOKPATCH_ON_ERROR=warn."""
    completed = home.run("script.py", HOOKPATCH_PLUGINS="luod", HOOKPATCH_ON_ERROR="warn")
    assert (completed.stdout, completed.returncode) == ("vendor __main__\n", 0)
    assert completed.stderr.startswith("hookpatch: warning: nothing is patched: no plugin 'luod' (asked for by")


def test_policy_that_is_none_is_refused(home: Environment) -> None:
    """A misspelt policy is not taken for the default."""
    completed = home.run("script.py", HOOKPATCH_PLUGINS="loud", HOOKPATCH_ON_ERROR="wran")
    message = (
        "hookpatch: error: HOOKPATCH_ON_ERROR: 'wran' is not a policy; it takes exit or warn "
        "[hookpatch explain SettingError]\n"
    )
    assert (completed.stdout, completed.stderr, completed.returncode) == ("", message, 78)


def test_kill_switch_wins(home: Environment) -> None:
    """HOOKPATCH_DISABLE=1 switches everything off, a block's patches too; bad names do not matter."""
    assert home.run("script.py", HOOKPATCH_PLUGINS="luod", HOOKPATCH_DISABLE="1").stdout == "vendor __main__\n"
    program = (
        "import hookpatch, vendor\nwith hookpatch.active('loud') as session: print(vendor.speak(), *session.report())"
    )
    completed = home.run("-c", program, HOOKPATCH_DISABLE="1")
    assert completed.stdout == "vendor skipped   wrap    vendor:speak  (loud): HOOKPATCH_DISABLE is set\n"


def test_target_that_is_gone_ends_the_program_at_its_import(home: Environment) -> None:
    """A required patch without a fit is a line and status 78; with the policy warn, a warning."""
    home.add_plugin("late", LOUDER.replace("vendor:speak", "vendor:spaek"))
    program = "import warnings; warnings.simplefilter('always'); print('on'); import vendor; print(vendor.speak())"
    problem = (
        "vendor has no attribute 'spaek'; did you mean 'speak'? "
        "(target vendor:spaek of plugin 'late' from late-dist 1.0)"
    )
    completed = home.run("-c", program, HOOKPATCH_PLUGINS="late")
    message = f"hookpatch: error: {problem} [hookpatch explain TargetNotFound]\n"
    assert (completed.stdout, completed.stderr, completed.returncode) == ("on\n", message, 78)
    warned = home.run("-c", program, HOOKPATCH_PLUGINS="late", HOOKPATCH_ON_ERROR="warn")
    assert (warned.stdout, warned.returncode) == ("on\nvendor\n", 0)
    assert f"PatchFailedWarning: not patched: {problem}" in warned.stderr


def test_plugin_whose_path_comes_later_is_found(home: Environment, tmp_path: Path) -> None:
    """An editable plugin is found although its .pth is read after hookpatch's."""
    source = tmp_path / "checkout"
    source.mkdir()
    (source / "editable_plugin.py").write_text(LOUDER.replace("\n    ", "\n").replace("upper", "title"))
    info = home.site_packages / "zeditable-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[hookpatch]\nzed = editable_plugin\n")
    (home.site_packages / "zzz_editable.pth").write_text(f"{source}\n")
    assert home.run("script.py", HOOKPATCH_PLUGINS="zed").stdout == "Vendor! __main__\n"


def test_nothing_is_imported_from_the_current_folder(home: Environment) -> None:
    """A module planted beside the script does not stand in for a plugin or for what we need."""
    for name in ("loud_dist_loud", "pluggy", "hookpatch"):
        (home.folder / f"{name}.py").write_text("print('planted')")
    assert home.run("script.py", HOOKPATCH_PLUGINS="loud").stdout == "VENDOR! __main__\n"


def test_options_come_from_the_environment(home: Environment) -> None:
    """HOOKPATCH_OPTIONS is JSON by plugin; an unfit option refuses the program."""
    source = LOUDER.replace("import hookpatch", "import dataclasses\n    import hookpatch").replace(
        "@hookpatch.hookimpl",
        "@dataclasses.dataclass(frozen=True)\n    class Options:\n        mark: str\n\n    @hookpatch.hookimpl",
    )
    source = source.replace("hookpatch_patches()", "hookpatch_patches(options)").replace(
        'hookpatch.wrap("vendor:speak", louder)', 'hookpatch.inject("vendor:speak", word=options.mark)'
    )
    home.add_plugin("marked", source)
    good = home.run("script.py", HOOKPATCH_PLUGINS="marked", HOOKPATCH_OPTIONS='{"marked": {"mark": "?"}}')
    assert good.stdout == "? __main__\n"
    for options, problem in [
        (
            '{"marked": {"mark": 3}}',
            "options of plugin 'marked' (marked-dist 1.0): Expected 'str', got 'int' - at 'mark'; it takes mark: str "
            "[hookpatch explain OptionsError]",
        ),
        (
            '{"loud": {}}',
            "options: given for 'loud', which is not among the selected plugins: marked "
            "[hookpatch explain SettingError]",
        ),
        (
            "{",
            "HOOKPATCH_OPTIONS: not JSON (Expecting property name enclosed in double quotes: "
            "line 1 column 2 (char 1)); "
            'write a JSON object by plugin, such as {"onnxsim_skip": {"passes": ["fuse_qkv"]}} '
            "[hookpatch explain SettingError]",
        ),
    ]:
        bad = home.run("script.py", HOOKPATCH_PLUGINS="marked", HOOKPATCH_OPTIONS=options)
        assert (bad.stdout, bad.returncode) == ("", 78)
        assert bad.stderr == f"hookpatch: error: {problem}\n"


def test_pip_is_never_patched_nor_refused(home: Environment) -> None:
    """An installer and its child processes run unpatched, with any value of the variable."""
    (home.site_packages / "pip.py").write_text(
        "import os, vendor; print(vendor.speak(), os.environ.get('HOOKPATCH_PLUGINS'))"
    )
    for plugins in ("loud", "luod"):
        completed = home.run("-m", "pip", HOOKPATCH_PLUGINS=plugins)
        assert (completed.stdout, completed.stderr, completed.returncode) == ("vendor None\n", "", 0)


def test_spawned_worker_is_patched_too(home: Environment) -> None:
    """A child process inherits the environment, and the patches."""
    (home.folder / "workers.py").write_text(
        "import multiprocessing, vendor\n"
        "def work(_): return vendor.speak()\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool: print(pool.map(work, [1]))\n"
    )
    assert home.run("workers.py", HOOKPATCH_PLUGINS="loud").stdout == "['VENDOR!']\n"
    assert home.run("workers.py").stdout == "['vendor']\n"


def test_each_process_leaves_its_report(home: Environment) -> None:
    """HOOKPATCH_REPORT names a folder; each process writes a file with the state of each patch."""
    home.add_plugin("idle", LOUDER.replace("vendor:speak", "nowhere:speak"))
    reports = home.folder / "reports"
    completed = home.run("script.py", "x", HOOKPATCH_PLUGINS="loud,idle", HOOKPATCH_REPORT=str(reports))
    assert completed.returncode == 0
    (receipt,) = reports.iterdir()
    (process,) = json.loads(receipt.read_text())["processes"]
    assert receipt.name == f"hookpatch-{process['pid']}.json"
    assert process["argv"] == ["script.py", "x"]
    assert [(p["plugin"], p["distribution"], p["target"], p["verb"], p["state"]) for p in process["patches"]] == [
        ("loud", "loud-dist 1.0", "vendor:speak", "wrap", "applied"),
        ("idle", "idle-dist 1.0", "nowhere:speak", "wrap", "waiting"),
    ]


def test_report_that_cannot_be_written_is_a_warning(home: Environment) -> None:
    """An unwritable report does not fail the run."""
    (home.folder / "reports").write_text("a file, not a folder")
    path = home.folder / "reports"
    completed = home.run("script.py", HOOKPATCH_PLUGINS="loud", HOOKPATCH_REPORT=str(path))
    assert (completed.stdout, completed.returncode) == ("VENDOR! __main__\n", 0)
    assert completed.stderr.startswith(f"hookpatch: warning: no report left at {path}/hookpatch-")
    assert completed.stderr.endswith(".json: Not a directory\n")


# --- plugins with waits_for

PACKAGE = {
    "package/__init__.py": "from package.inner import speak",
    "package/inner.py": "def speak(): return 'package'",
    "package/__main__.py": "from package import speak; print(speak())",
    "spread/part.py": "def speak(): return 'part'",
}
OURS = "import sys; print(sorted(m for m in sys.modules if m.startswith(('hookpatch', 'loud', 'pluggy', 'typing'))))"


def _loud(target: str) -> str:
    return LOUDER.replace("vendor:speak", target)


@pytest.fixture
def waiting(environment: Environment, tmp_path: Path) -> Environment:
    """An environment with plugins that wait for a module, a package, and a package without an ``__init__``."""
    environment.add_plugin("loud", LOUDER, waits_for="vendor")
    environment.add_plugin("louder", _loud("package.inner:speak"), waits_for="package")
    environment.add_plugin("loudest", _loud("spread.part:speak"), waits_for="spread")
    environment.work_in(tmp_path / "work", {"vendor.py": VENDOR, "script.py": SCRIPT, **PACKAGE})
    return environment


def test_nothing_of_a_plugin_is_imported_before_what_it_waits_for(waiting: Environment) -> None:
    """A process without the awaited import has only the start-up files; the import brings the patch."""
    completed = waiting.run("-c", f"{OURS}; {SCRIPT}; print('loud_dist_loud' in sys.modules)", HOOKPATCH_PLUGINS="loud")
    files = ("environment", "imports", "installed", "interrupts", "program", "selection")
    of_bootstrap = [f"hookpatch._bootstrap.{file}" for file in files]
    ours = ["hookpatch", "hookpatch._bootstrap", *of_bootstrap, "hookpatch._startup"]
    assert (completed.stdout, completed.stderr) == (f"{ours}\nVENDOR! __main__\nTrue\n", "")


def test_a_process_without_what_a_plugin_waits_for_imports_nothing_else(waiting: Environment) -> None:
    """From the start to the line at the end; folders and entry points that are not there are no errors to look at."""
    starts = [
        waiting.run("-X", "importtime", "-c", "pass", HOOKPATCH_PLUGINS=plugins).stderr for plugins in ("", "loud")
    ]
    bare, patched = ({line.rpartition("|")[2].strip() for line in start.splitlines()[1:]} for start in starts)
    assert "was never applied: the program did not import vendor" in starts[1]
    files = ("environment", "imports", "installed", "interrupts", "program", "selection", "stderr")
    ours = {"hookpatch", "hookpatch._startup", "hookpatch._bootstrap"}
    ours |= {f"hookpatch._bootstrap.{file}" for file in files}
    ours |= {"gc"} if sys.version_info < (3, 12) else set()  # for the frames of all threads
    assert {name for name in patched - bare if " " not in name} == {*ours, "__future__", "atexit"}


@pytest.mark.parametrize(
    ("way", "output", "plugins"),
    [
        pytest.param(
            ["-c", "import package; print(package.speak())"], "PACKAGE!", "louder", id="copied-in-its-package"
        ),
        pytest.param(["-c", "from package.inner import speak; print(speak())"], "PACKAGE!", "louder", id="submodule"),
        pytest.param(["-m", "package"], "PACKAGE!", "louder", id="run-as-a-module"),
        pytest.param(["-c", "import spread.part; print(spread.part.speak())"], "PART!", "loudest", id="no-init"),
        pytest.param(
            ["-c", "import vendor, package; print(vendor.speak() + package.speak())"],
            "VENDOR!PACKAGE!",
            "loud louder",
            id="two",
        ),
    ],
)
def test_patch_is_there_before_its_package_is_executed(
    waiting: Environment, way: list[str], output: str, plugins: str
) -> None:
    """Names copied within the package are patched, as by a plugin without waits_for.

    At the end those are named whose packages were not imported.
    """
    completed = waiting.run(*way, HOOKPATCH_PLUGINS="loud,louder,loudest")
    assert completed.stdout == f"{output}\n"
    unbound = re.findall(
        r"warning: .* of plugin '(\w+)' .*: was never applied: the program did not import [\w.]+\n", completed.stderr
    )
    assert sorted([*plugins.split(), *unbound]) == ["loud", "louder", "loudest"]
    assert len(completed.stderr.splitlines()) == len(unbound)


def test_thread_that_imports_another_package_meanwhile_has_it_patched_too(waiting: Environment) -> None:
    """While a thread's import loads the plugins, another thread's import waits, so no name is copied unpatched."""
    waiting.add_plugin("slow", "import time; time.sleep(1)\n" + textwrap.dedent(LOUDER), waits_for="vendor")
    program = """
import sys, threading, time
thread = threading.Thread(target=__import__, args=("vendor",))
thread.start()
while "slow_dist_slow" not in sys.modules:
    time.sleep(0.01)
import package
print(package.speak())
thread.join()
print(sys.modules["vendor"].speak())
"""
    completed = waiting.run("-c", program, HOOKPATCH_PLUGINS="louder,slow")
    assert (completed.stdout, completed.stderr) == ("PACKAGE!\nVENDOR!\n", "")


def test_what_lies_beside_the_script_is_not_imported_because_of_a_plugin_that_waits(waiting: Environment) -> None:
    """A plugin loaded inside the program is searched on the path of the start."""
    for name in ("pluggy", "loud_dist_loud", "dataclasses"):
        (waiting.folder / f"{name}.py").write_text("print('planted')")
    assert waiting.run("script.py", HOOKPATCH_PLUGINS="loud").stdout == "VENDOR! __main__\n"


def test_plugin_of_what_opening_a_session_needs_is_opened_at_the_start(waiting: Environment) -> None:
    """A plugin for a dependency of hookpatch opens at the start: inside that import hookpatch could not be imported."""
    waiting.add_plugin("needed", _loud("inspect:cleandoc"), waits_for="inspect")
    completed = waiting.run("-c", "import inspect; print(inspect.cleandoc('text'))", HOOKPATCH_PLUGINS="needed")
    assert (completed.stdout, completed.stderr) == ("TEXT!\n", "")


def test_report_and_patches_of_the_program_do_not_wait(waiting: Environment) -> None:
    """A report has the waiting plugins; a block's patches lie over the environment's, in any order of imports."""
    around = "lambda wrapped, instance, args, kwargs: f'<{wrapped(*args, **kwargs)}>'"
    program = f"""
import hookpatch
print(hookpatch.report())
with hookpatch.active(hookpatch.wrap("vendor:speak", {around}), children="local"):
    import vendor
    print(vendor.speak())
print(vendor.speak())
"""
    completed = waiting.run("-c", program, HOOKPATCH_PLUGINS="loud")
    assert (completed.stdout, completed.stderr) == ("waiting   wrap    vendor:speak  (loud)\n<VENDOR!>\nVENDOR!\n", "")


def test_receipts_do_not_wait(waiting: Environment, tmp_path: Path) -> None:
    """A report file has the awaited packages."""
    waiting.run("-c", "pass", HOOKPATCH_PLUGINS="loud", HOOKPATCH_REPORT=str(tmp_path / "reports"))
    (report_path,) = (tmp_path / "reports").glob("*.json")
    (process,) = json.loads(report_path.read_text())["processes"]
    assert [(patch["plugin"], patch["state"]) for patch in process["patches"]] == [("loud", "waiting")]


def test_tests_that_import_what_a_plugin_waits_for_leave_nothing(waiting: Environment) -> None:
    """The pytest plugin does not take the environment's patches for a test's."""
    (waiting.folder / "test_it.py").write_text(
        "def test_it():\n    import vendor\n    assert vendor.speak() == 'VENDOR!'"
    )
    completed = waiting.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py", HOOKPATCH_PLUGINS="loud")
    assert completed.returncode == 0, completed.stdout


BEYOND = (
    "plugin 'beyond' (beyond-dist 1.0) patches vendor:speak, which is not in 'package', the modules named by its "
    "distribution in the entry point group hookpatch.waits_for; remove 'beyond' from the group or name all modules, "
    "and install the distribution anew [hookpatch explain PluginError]"
)
MISSPELT = (
    "plugin 'misspelt' (misspelt-dist 1.0) patches pakcage:speak, which is not in 'package', the modules named by its "
    "distribution in the entry point group hookpatch.waits_for; did you mean 'package'? If not, remove 'misspelt' from "
    "the group or name all modules, and install the distribution anew [hookpatch explain PluginError]"
)
BROKEN = (
    "plugin 'broken' (broken-dist 1.0) raised RuntimeError when it was loaded: no (broken_dist_broken.py, line 1); "
    "fix or uninstall it [hookpatch explain PluginError]"
)


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        pytest.param("beyond", LOUDER, BEYOND, id="target-elsewhere"),
        pytest.param("misspelt", LOUDER.replace("vendor:", "pakcage:"), MISSPELT, id="misspelt"),
        pytest.param("broken", "raise RuntimeError('no')", BROKEN, id="broken"),
    ],
)
def test_plugin_that_is_wrong_ends_the_program_when_it_is_loaded(
    waiting: Environment, name: str, source: str, message: str
) -> None:
    """A wrong plugin is a line at the awaited import; HOOKPATCH_ON_ERROR=warn goes on, with the line."""
    waiting.add_plugin(name, source, waits_for="package")
    program = "print('begun'); import package; print(package.speak())"
    completed = waiting.run("-c", program, HOOKPATCH_PLUGINS=name)
    assert (completed.stdout, completed.stderr, completed.returncode) == (
        "begun\n",
        f"hookpatch: error: {message}\n",
        78,
    )
    completed = waiting.run("-c", program, HOOKPATCH_PLUGINS=name, HOOKPATCH_ON_ERROR="warn")
    warned = f"hookpatch: warning: nothing is patched: {message}\n"
    assert (completed.stdout, completed.stderr, completed.returncode) == ("begun\npackage\n", warned, 0)


def test_options_are_looked_at_before_the_program_starts(waiting: Environment) -> None:
    """A plugin with options, a twin or a misspelt plugin is loaded at the start."""
    completed = waiting.run("script.py", HOOKPATCH_PLUGINS="loud", HOOKPATCH_OPTIONS='{"loud": {"volume": 11}}')
    message = (
        "hookpatch: error: options of plugin 'loud' (loud-dist 1.0): the plugin has no options, but 'volume' was given "
        "[hookpatch explain OptionsError]\n"
    )
    assert (completed.stdout, completed.stderr, completed.returncode) == ("", message, 78)
    assert waiting.run("script.py", HOOKPATCH_PLUGINS="luod").returncode == 78
