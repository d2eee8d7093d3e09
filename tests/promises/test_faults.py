"""Faults: whatever breaks around hookpatch, the program runs as requested or is refused, and the user is told."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from environments import LOUDER, SCRIPT, VENDOR, Environment, furnished, hookpatch

from hookpatch._bootstrap.installed import installed
from hookpatch._bootstrap.program import words_of
from hookpatch._inspect import seen as looking
from hookpatch._inspect.throwaway import Look
from hookpatch._processes import aside

pytestmark = pytest.mark.once

# --- plugins that fail when they are loaded: the code of the module, and the error that names the plugin

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
}
IN_HOOK: Final = {f"{name}_in_hook": RAISES[name] for name in ("exit", "interrupt", "base_exception")}
ENDS: Final = {
    "ends_process": "import os; os._exit(0)",
    "kills_itself": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "crashes": "import ctypes; ctypes.string_at(0)",
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
    code = (RAISES | ENDS | DOES)[name]
    return LOUDER.replace("import hookpatch", f"{code}\n    import hookpatch")


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with a plugin of each fault, one without, and one that sorts last."""
    plugins = {name: source(name) for name in (RAISES | IN_HOOK | ENDS | DOES)}
    files = {"script.py": SCRIPT, "vendor.py": VENDOR}
    return furnished(tmp_path_factory.mktemp("faults"), wheels, {"loud": LOUDER, "zoo": LOUDER, **plugins}, files)


@pytest.fixture(scope="module")
def listed(home: Environment) -> dict[str, tuple[str, str]]:
    """What `hookpatch list` says of each plugin, asked for by nobody."""
    done = hookpatch(home, "list", "--json")
    assert (done.stderr, done.returncode) == ("", 0)
    return {row["name"]: (row["status"], row["reason"] or "") for row in json.loads(done.stdout)["plugins"]}


@pytest.fixture(scope="module")
def findings(home: Environment) -> dict[str, list[str]]:
    """What `hookpatch doctor` says of each plugin."""
    done = hookpatch(home, "doctor", "--json")
    assert (done.stderr, done.returncode) == ("", 1)
    found: dict[str, list[str]] = {}
    for finding in json.loads(done.stdout)["findings"]:
        found.setdefault(finding["about"], []).append(finding["found"])
    return found


@pytest.mark.parametrize("name", [*RAISES, *IN_HOOK, *ENDS])
def test_broken_plugin_is_told_and_hides_no_other(
    home: Environment, listed: dict[str, tuple[str, str]], findings: dict[str, list[str]], name: str
) -> None:
    """Nobody has asked for it: list and doctor tell of it, and of all others."""
    status, reason = listed[name]
    assert status == "broken"
    assert reason.startswith(f"plugin '{name}' ({name.replace('_', '-')}-dist 1.0) ")
    assert findings[f"plugin {name}"] == [reason]
    assert set(listed) == {"loud", "zoo", *RAISES, *IN_HOOK, *ENDS, *DOES}
    assert listed["loud"][0] == listed["zoo"][0] == "not found"  # vendor lies beside the script alone
    assert findings["plugin zoo"] == ["wrap vendor:speak"]


@pytest.mark.parametrize("name", DOES)
def test_plugin_that_changes_the_process_spoils_no_listing(
    listed: dict[str, tuple[str, str]], findings: dict[str, list[str]], name: str
) -> None:
    """Its output is in no table and no JSON; the path and the folder of the others are those of the user."""
    assert listed[name][0] == "not found"
    assert findings[f"plugin {name}"] == ["wrap vendor:speak"]


QUICK: Final = ("exit", "interrupt", "base_exception_in_hook")


def of_each(names: dict[str, str]) -> list[object]:
    """Return the names, a sample for each run of the tests and the others for all tests."""
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.ends) for name in names]


@pytest.mark.parametrize("name", of_each(RAISES | IN_HOOK))
@pytest.mark.parametrize("way", ["run", "environment", "warn", "block"])
def test_broken_plugin_that_is_asked_for_refuses_the_program(home: Environment, way: str, name: str) -> None:
    """One line names the plugin; status 78, or a warning if the policy says so. Nothing of the program has run."""
    code = "import hookpatch\ntry:\n    with hookpatch.active('{}'): pass\nexcept Exception as error: print(error)"
    match way:
        case "run":
            done = hookpatch(home, "run", "-p", name, "script.py")
        case "environment" | "warn":
            policy = {"environment": "exit", "warn": "warn"}[way]
            done = home.run("script.py", HOOKPATCH_PLUGINS=name, HOOKPATCH_ON_ERROR=policy)
        case _:
            done = home.run("-c", code.format(name))
    out, status = {"warn": ("vendor __main__\n", 0), "block": (done.stdout, 0)}.get(way, ("", 78))
    assert (done.stdout, done.returncode) == (out, status)
    (line,) = (done.stdout if way == "block" else done.stderr).splitlines()
    start = {"warn": "hookpatch: warning: nothing is patched: ", "block": ""}.get(way, "hookpatch: error: ")
    assert line.startswith(f"{start}plugin '{name}' ({name.replace('_', '-')}-dist 1.0) raised ")


@pytest.mark.parametrize("way", ["run", "list", "environment"])
def test_ctrl_c_stays_ctrl_c(home: Environment, way: str) -> None:
    """An interrupt while a plugin is loaded is none of the plugin's faults, and no traceback of the interpreter."""
    home.add_plugin(f"slow_{way}", "import signal; signal.raise_signal(signal.SIGINT)")
    try:
        if way == "environment":
            done = home.run("script.py", HOOKPATCH_PLUGINS=f"slow_{way}")
        else:
            done = hookpatch(home, *({"run": ["run", "-p", f"slow_{way}", "script.py"], "list": ["list"]}[way]))
    finally:
        for path in home.site_packages.glob(f"slow_{way}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    # In the listing it has interrupted the child process that loaded it.
    assert (done.returncode, "Fatal Python error" in done.stderr) == (0 if way == "list" else 130, False)
    assert "fix or uninstall" not in done.stderr


@pytest.mark.parametrize("command", [["plan", "--json", "prints"], ["list", "--json"], ["doctor", "--json"]])
def test_output_of_a_plugin_is_not_in_json(home: Environment, command: list[str]) -> None:
    """Also where the plugin is named."""
    assert json.loads(hookpatch(home, *command).stdout)


def test_output_of_a_plugin_is_in_the_program_once(home: Environment) -> None:
    """`hookpatch run` loads the plugin before the program does; the program's output is that of the program."""
    done = hookpatch(home, "run", "-p", "prints", "script.py")
    assert (done.stdout.count("NOISE"), done.returncode) == (2, 0)  # print and os.write


@pytest.fixture
def hanging(make_distribution: object) -> Iterator[None]:
    """A plugin whose import never ends, and one after it."""
    make = make_distribution
    assert callable(make)
    module = "while True: pass"
    make("hangs-dist", plugins={"a_hang": "hangs_module"}, modules={"hangs_module": module})
    make("well-dist", plugins={"well": "well_module"}, modules={"well_module": LOUDER})
    return


def test_plugin_that_hangs_costs_its_time_and_no_other(hanging: None) -> None:
    """It is named; the next plugin is loaded in another process; nothing of the first one goes on."""
    plugins = [plugin for plugin in installed() if plugin.name in ("a_hang", "well")]
    began = time.monotonic()
    results = aside.results([looking.call(plugin, Look(imports=False), "a test") for plugin in plugins], limit=2)
    hung, well = map(looking.from_result, plugins, results)
    assert hung.problem == (
        "plugin 'a_hang' (hangs-dist 1.0) did not let itself be loaded: the process that tried took longer than 2 s; "
        "fix or uninstall it"
    )
    assert (well.status, well.description) == ("patches", "Speak louder.")
    assert time.monotonic() - began < 20
    assert "hangs_module" not in sys.modules


# --- programs that look like an installer, and installers that do not

PROGRAMS: Final = ["pip.py", "pip3.11.py", "ensurepip.py", "venv.py", "hookpatch.py", "pip3", "hookpatch", "pip.exe"]


@pytest.mark.parametrize("way", ["environment", pytest.param("run", marks=pytest.mark.ends)])
@pytest.mark.parametrize("name", [PROGRAMS[0], *(pytest.param(name, marks=pytest.mark.ends) for name in PROGRAMS[1:])])
def test_program_named_like_an_installer_is_patched(home: Environment, tmp_path: Path, name: str, way: str) -> None:
    """A name says nothing."""
    (tmp_path / name).write_text(SCRIPT)
    (tmp_path / "vendor.py").write_text(VENDOR)
    script = str(tmp_path / name)
    done = hookpatch(home, "run", "-p", "loud", script) if way == "run" else home.run(script, HOOKPATCH_PLUGINS="loud")
    assert (done.stdout, done.stderr, done.returncode) == ("VENDOR! __main__\n", "", 0)


@pytest.mark.parametrize("words", [["pip"], ["-m", "pip"], ["pip/__main__.py"], ["-m", "pip.other"]], ids=" ".join)
def test_package_of_the_user_named_like_an_installer_is_patched(
    home: Environment, tmp_path: Path, words: list[str]
) -> None:
    """A folder pip beside the script, run in each way that Python has."""
    for name in ("__init__.py", "__main__.py", "other.py"):
        (tmp_path / "pip" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "pip" / name).write_text(SCRIPT if name != "__init__.py" else "")
    for folder in (tmp_path, tmp_path / "pip"):
        (folder / "vendor.py").write_text(VENDOR)
    done = home.run(*words, cwd=tmp_path, HOOKPATCH_PLUGINS="loud")
    assert (done.stdout, done.stderr, done.returncode) == ("VENDOR! __main__\n", "", 0)


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


@pytest.mark.parametrize("way", WAYS_OF_PIP)
def test_installer_runs_plain_however_it_is_started(home: Environment, way: str) -> None:
    """A misspelt name in the environment ends no installation."""
    pip = home.run("-c", INSTALLER).stdout.strip()
    for name in ("pip", "pip3.11"):
        text = f"#!{home.python}\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n"
        (home.python.parent / name).write_text(text)
    words = [word.format(pip=pip, bin=home.python.parent) for word in WAYS_OF_PIP[way]]
    done = home.run(*words, HOOKPATCH_PLUGINS="misspelt")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[0] in ("pip", "usage:")


def test_installer_under_the_command_says_that_it_is_plain(home: Environment) -> None:
    """Somebody has asked for patches in it."""
    done = hookpatch(home, "run", "-p", "loud", "-m", "pip", "--version")
    assert done.stdout.startswith("pip ")
    assert done.stderr == "hookpatch: warning: pip runs without patches: an installer is never patched\n"


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
    """The flags of Python, their values, then the program."""
    assert words_of(command.split()) == words.split()
