"""`hookpatch run` runs a program as python does: in the same process, even without a start-up file."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from environments import LOUD, Environment, furnished

pytestmark = pytest.mark.ends

LOOKS = """
import atexit, pickle, sys
class P: pass
atexit.register(lambda: print(pickle.loads(pickle.dumps(P())).__class__ is P, file=sys.stderr))
main = sys.modules["__main__"]
spec = getattr(__spec__, "name", None)
print(sys.argv, __name__, globals().get("__file__"), sys.path[0], spec, vars(main) is globals())
print(sorted(name for name in globals() if name not in ("__annotations__",)), __package__, type(__loader__).__name__)
"""


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with a plugin, and a folder with programs of every kind."""
    files = {"vendor.py": "def speak(*_): return 'vendor'\n", "package/__init__.py": ""}
    files |= dict.fromkeys(("script.py", "package/__main__.py", "package/part.py"), LOOKS)
    loud = LOUD.replace("upper())", "upper(), required=False)")  # most programs here do not import the target
    return furnished(tmp_path_factory.mktemp("run"), wheels, {"loud": loud}, files)


def run(home: Environment, *words: str, stdin: str | None = None) -> tuple[str, str, int]:
    """Run a command in the environment and return output, stderr and status."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    clean["PATH"] = f"{home.python.parent}{os.pathsep}{clean['PATH']}"
    completed = subprocess.run(
        words, cwd=home.folder, env=clean, input=stdin, capture_output=True, text=True, timeout=60
    )
    return completed.stdout, completed.stderr, completed.returncode


@functools.cache  # each way is compared with the same result
def plain(home: Environment, *words: str, stdin: str | None = None) -> tuple[str, str, int]:
    """Run a program with plain python."""
    return run(home, str(home.python), *words, stdin=stdin)


WAYS = [
    pytest.param(["hookpatch", "run", "-p", "loud"], id="program", marks=pytest.mark.once),
]
PROGRAMS = [
    pytest.param(["script.py", "a", "-p"], None, id="script"),
    pytest.param(["./script.py"], None, id="path"),
    pytest.param(["-m", "script", "--help"], None, id="module"),
    pytest.param(["-m", "package", "x"], None, id="package"),
    pytest.param(["-mpackage.part"], None, id="module in a package"),
    pytest.param(["package", "x"], None, id="folder"),
    pytest.param(["-c", LOOKS, "-c"], None, id="code"),
    pytest.param(["-", "x"], LOOKS, id="stdin"),
    pytest.param(["-m", "missing"], None, id="missing module"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("program", "stdin"), PROGRAMS)
def test_program_finds_what_plain_python_gives_it(
    home: Environment, way: list[str], program: list[str], stdin: str | None
) -> None:
    """The program finds the same arguments, path and `__main__` names as under plain python.

    Instances of the program's classes can be pickled at exit.
    """
    expected = plain(home, *program, stdin=stdin)
    result = run(home, *way, *program, stdin=stdin)
    assert result == expected


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "code",
    [
        "raise SystemExit(3)",
        "raise SystemExit('said')",
        "raise SystemExit",
        "import sys; sys.exit(255)",
        "def f(): raise ValueError('x')\nf()",
        "x = (",
        "import os; os._exit(5)",
        "import threading; threading.Thread(target=lambda: print('late')).start(); raise KeyError(1)",
    ],
)
def test_end_is_that_of_plain_python(home: Environment, way: list[str], code: str) -> None:
    """Status, message and traceback equal those of plain python, letter by letter."""
    script = home.folder / f"ends_{zlib.crc32(code.encode())}.py"
    script.write_text(code)
    for program in ([script.name], ["-c", code]):
        out, stderr, status = plain(home, *program)
        found_out, found_stderr, found_status = run(home, *way, *program)
        assert (found_out, found_status) == (out, status)
        assert found_stderr == stderr


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_signal_ends_it_as_it_ends_plain_python(home: Environment, way: list[str], number: signal.Signals) -> None:
    """A signal gives the same status as under plain python. After Ctrl-C the traceback is the same, too."""
    code = "import time; print('ready', flush=True); time.sleep(60)"
    path = f"{home.python.parent}{os.pathsep}{os.environ['PATH']}"
    results = []
    for command in ([str(home.python)], way):
        with subprocess.Popen(
            [*command, "-c", code],
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job ignores SIGINT
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                time.sleep(0.1)
                process.send_signal(number)
                _, stderr = process.communicate(timeout=30)
            finally:
                process.kill()
        results.append((process.returncode, stderr))
    assert results[1] == results[0]


@pytest.mark.parametrize("way", WAYS)
def test_it_and_what_it_starts_are_patched(home: Environment, way: list[str]) -> None:
    """The program is patched, and also spawned child processes and programs that the program runs."""
    (home.folder / "starts.py").write_text(
        "import multiprocessing, subprocess, sys, vendor\n"
        "class Word:\n"
        "    def __init__(self, text): self.text = text\n"
        "def speak(_): return Word(vendor.speak())\n"
        "if __name__ == '__main__':\n"
        "    print(vendor.speak(), flush=True)\n"
        "    subprocess.run([sys.executable, '-c', 'import vendor; print(vendor.speak())'])\n"
        "    for method in ('fork', 'spawn', 'forkserver'):\n"
        "        with multiprocessing.get_context(method).Pool(1) as pool: print(pool.map(speak, [0])[0].text)\n"
    )
    assert run(home, *way, "starts.py") == ("VENDOR\n" * 5, "", 0)
    assert run(home, str(home.python), "starts.py") == ("vendor\n" * 5, "", 0)


@pytest.mark.parametrize("has_other", [True, False], ids=["with a sitecustomize", "alone"])
def test_install_without_a_start_up_file(home: Environment, tmp_path: Path, wheels: Path, has_other: bool) -> None:
    """An install with --target on PYTHONPATH has no .pth file, and still patches.

    The user's own sitecustomize runs too.
    """
    target = tmp_path / "target"
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", target, *wheels.glob("hookpatch-*.whl")], check=True, capture_output=True)
    plugin = Environment(tmp_path / "venv")
    plugin.add_plugin("loud", LOUD)
    plugin.folder = home.folder
    path = [str(target)]
    if has_other:
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "sitecustomize.py").write_text("print('other', __name__, flush=True)")
        path.append(str(tmp_path / "other"))
    words = ("-m", "hookpatch", "run", "-p", "loud", "starts.py")
    (home.folder / "starts.py").write_text("import vendor; print(vendor.speak())")
    completed = plugin.run(*words, PYTHONPATH=os.pathsep.join(path))
    printed = "other sitecustomize\n" * has_other
    assert (completed.stdout, completed.stderr, completed.returncode) == (f"{printed}{printed}VENDOR\n", "", 0)
    unknown = plugin.run(*words, PYTHONPATH=os.pathsep.join(path), HOOKPATCH_PLUGINS="lout")
    assert unknown.returncode == 78
    assert "no plugin 'lout'" in unknown.stderr
