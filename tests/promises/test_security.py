"""Attacks on the promises of docs/security.md: hookpatch runs only requested and installed code."""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path

import pytest
from distributions import build_wheel
from environments import ROOT, Environment, furnished

pytestmark = pytest.mark.once

LOUD = """
    '''Speak louder.'''
    import hookpatch

    def louder(wrapped, instance, args, kwargs):
        return str(wrapped(*args, **kwargs)).upper()

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.wrap("vendor:speak", louder)
        yield hookpatch.wrap("vendor:length", louder, requires="pip>=1")
        yield hookpatch.inject("vendor:speak", wrod=1, required=False)
"""
VENDOR = "def speak(word='vendor'): return word\nlength = len\n"
PLANTED = "open('EVIL', 'a').write(f'{__name__}\\n')\nraise ImportError('planted')\n"


@pytest.fixture
def home(environment: Environment, tmp_path: Path) -> Environment:
    """An environment with a plugin, and a folder with the vendor's module and a script."""
    environment.add_plugin("loud", LOUD)
    script = "import vendor; print(vendor.speak(), vendor.length('ab'))\n"
    environment.work_in(tmp_path / "work", {"vendor.py": VENDOR, "script.py": script})
    return environment


def evil(home: Environment) -> list[str]:
    """Return the planted modules after their run."""
    path = home.folder / "EVIL"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize(
    "way", [["script.py"], ["-c", "import script"], ["-m", "script"]], ids=["script", "code", "module"]
)
def test_planted_module_is_not_run(home: Environment, way: list[str]) -> None:
    """A planted module in the script's folder, named like a dependency, is not run at start-up or later."""
    names = "hookpatch wrapt pluggy packaging msgspec typer rich loud_dist_loud difflib asyncio email".split()  # noqa: SIM905
    for name in (*names, "sitecustomize", "hookpatch_loud", "loud"):
        (home.folder / f"{name}.py").write_text(PLANTED)
    completed = home.run(*way, HOOKPATCH_PLUGINS="loud")
    assert (completed.stdout, completed.stderr) == ("VENDOR 2\n", "")
    assert evil(home) == []


def test_planted_distribution_is_not_a_plugin(home: Environment) -> None:
    """A dist-info folder in the current folder offers no plugin."""
    info = home.folder / "evil-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[hookpatch]\nevil = evil\n")
    (home.folder / "evil.py").write_text(PLANTED)
    completed = home.run("script.py", HOOKPATCH_PLUGINS="evil")
    assert completed.returncode == 78
    assert "no plugin 'evil'" in completed.stderr
    assert evil(home) == []


@pytest.mark.parametrize("name", ["evil:main", "./evil.py", "/tmp/evil.py", "evil.module", "os:system", "../evil", "*"])
def test_names_are_names_of_plugins_and_nothing_else(home: Environment, name: str) -> None:
    """No module path and no file is ever loaded."""
    (home.folder / "evil.py").write_text(PLANTED)
    completed = home.run("script.py", HOOKPATCH_PLUGINS=name)
    assert (completed.stdout, completed.returncode) == ("", 78)
    assert f"no plugin '{name}'" in completed.stderr
    assert evil(home) == []


def test_name_of_two_distributions_is_refused(home: Environment) -> None:
    """A second distribution cannot take a name over."""
    home.add_plugin("loud", LOUD.replace("upper", "lower"), "evil-dist")
    completed = home.run("script.py", HOOKPATCH_PLUGINS="loud")
    assert (completed.stdout, completed.returncode) == ("", 78)
    assert completed.stderr == (
        "hookpatch: error: plugin 'loud' (asked for by HOOKPATCH_PLUGINS=loud) is offered by 2 distributions: "
        "evil-dist, loud-dist; ask for 'loud@evil-dist' or 'loud@loud-dist', or uninstall one "
        "[hookpatch explain AmbiguousPlugin]\n"
    )
    assert home.run("script.py", HOOKPATCH_PLUGINS="loud@loud-dist").stdout == "VENDOR 2\n"


@pytest.mark.parametrize("flag", ["-I", "-E"])
def test_flags_that_ignore_the_environment_switch_us_off(home: Environment, flag: str) -> None:
    """With these flags no file of hookpatch is imported."""
    code = "import sys; print([name for name in sys.modules if name.startswith('hookpatch')])"
    for variable in ("HOOKPATCH_PLUGINS", "HOOKPATCH_CONFIG", "HOOKPATCH_INHERIT"):
        completed = home.run(flag, "-c", code, **{variable: "loud"})
        assert (completed.stdout, completed.stderr, completed.returncode) == ("[]\n", "", 0)


def test_configuration_that_lies_there_is_not_looked_at(home: Environment) -> None:
    """No program reads an unnamed configuration; a named configuration chooses among installed plugins."""
    table = "[tool.hookpatch]\nplugins = ['{}']\n"
    (home.folder / "pyproject.toml").write_text(table.format("loud"))
    assert home.run("script.py").stdout == "vendor 2\n"
    (home.folder / "evil.py").write_text(PLANTED)
    (home.folder / "tomllib.py").write_text(PLANTED)
    (home.folder / "evil.toml").write_text(table.format("evil"))
    for name, status in (("pyproject.toml", 0), ("evil.toml", 78)):
        assert home.run("script.py", HOOKPATCH_CONFIG=str(home.folder / name)).returncode == status
    assert evil(home) == []


def test_allow_list_of_a_configuration_only_narrows(home: Environment) -> None:
    """What the environment's list does not name stays forbidden; no variable and no argument widens either."""
    home.add_plugin("other", LOUD.replace("upper", "lower"))
    config = home.folder / "ours.toml"
    config.write_text("[tool.hookpatch]\nallow = ['loud', 'other']\n")
    (home.python.parents[1] / "hookpatch.allow").write_text("loud\n")
    ways = [{"HOOKPATCH_CONFIG": str(config), "HOOKPATCH_PLUGINS": plugin} for plugin in ("loud", "other")]
    assert [home.run("script.py", **way).returncode for way in ways] == [0, 78]
    config.write_text("[tool.hookpatch]\nallow = []\n")
    for command in (["script.py"], ["-m", "hookpatch", "run", "-p", "loud", "script.py"]):
        completed = home.run(*command, HOOKPATCH_CONFIG=str(config), HOOKPATCH_PLUGINS="loud")
        assert (completed.stdout, completed.returncode) == ("", 78)
        message = (
            f"is not allowed here: {config}: tool.hookpatch.allow does not name it [hookpatch explain NotAllowed]\n"
        )
        assert completed.stderr.endswith(message)


def test_nothing_is_imported_when_nothing_is_asked_for(home: Environment) -> None:
    """Each start of each Python imports no file of hookpatch without a request."""
    code = "import sys; print([name for name in sys.modules if name.startswith(('hookpatch', 'wrapt', 'pluggy'))])"
    assert home.run("-c", code).stdout == "[]\n"


def test_installer_and_resource_tracker_are_not_patched(home: Environment) -> None:
    """`HOOKPATCH_PLUGINS=x pip install y` works, even with a plugin for a library inside pip."""
    home.add_plugin("breaks", LOUD.replace("vendor:speak", "os:replace").replace("vendor:length", "os.path:join"))
    project = home.folder / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'hatchling.build'\n[project]\nname = 'thing'\nversion = '1'\n"
        "[tool.hatch.build.targets.wheel]\ninclude = ['thing.py']\n"
    )
    (project / "thing.py").write_text("x = 1")
    command = [
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--target",
        "there",
        "./project",
    ]
    completed = home.run(*command, HOOKPATCH_PLUGINS="breaks")
    assert completed.returncode == 0, completed.stderr
    assert (home.folder / "there" / "thing.py").exists()
    code = (
        "from multiprocessing.resource_tracker import main; import sys; "
        "print('hookpatch._session.session' in sys.modules)"
    )
    assert home.run("-c", code, HOOKPATCH_PLUGINS="breaks").stdout == "False\n"


# --- the allow list


@pytest.mark.ends
def test_allow_list_of_the_environment(home: Environment) -> None:
    """An allow list refuses other plugins, also in a block; comments and blank lines are ignored."""
    home.add_plugin("other", LOUD.replace("upper", "lower"))
    allow = home.python.parents[1] / "hookpatch.allow"
    block = "import hookpatch, vendor\nwith hookpatch.active('loud'): print(vendor.speak())"
    for text in ("# ours\n\nloud\n", "loud@loud-dist", "LOUD@Loud_Dist  # the one\n"):
        allow.write_text(text)
        assert home.run("script.py", HOOKPATCH_PLUGINS="loud").stdout == "VENDOR 2\n"
        assert home.run("-c", block).stdout == "VENDOR\n"
        refused = home.run("script.py", HOOKPATCH_PLUGINS="loud,other")
        assert (refused.stdout, refused.returncode) == ("", 78)
        assert refused.stderr == (
            "hookpatch: error: plugin 'other' of other-dist 1.0 (asked for by HOOKPATCH_PLUGINS=loud,other) is not "
            f"allowed here: {allow} does not name it [hookpatch explain NotAllowed]\n"
        )
    for text in ("", "loud@another-dist\n", "loud-dist\n"):
        allow.write_text(text)
        assert home.run("script.py", HOOKPATCH_PLUGINS="loud").returncode == 78
        assert "NotAllowed" in home.run("-c", block).stderr
    allow.write_bytes(b"loud\n\xff\xfe")
    assert "it cannot be read" in home.run("script.py", HOOKPATCH_PLUGINS="loud").stderr


def test_what_only_looks_at_plugins_loads_none_that_is_not_allowed(home: Environment) -> None:
    """Commands list and examine a plugin outside the allow list by name, without an import."""
    home.add_plugin("noisy", "print('loaded')")
    (home.python.parents[1] / "hookpatch.allow").write_text("loud\n")
    for words in (["list"], ["list", "--json"], ["doctor"]):
        completed = home.run("-m", "hookpatch", *words)
        assert "noisy" in completed.stdout
        assert "not allowed" in " ".join(completed.stdout.split())
        assert "loaded" not in completed.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["doctor"],
        ["plan"],
        ["lock", "noisy"],
        ["lock", "-o", "noisy.a=1"],
        ["run", "-p", "noisy", "-o", "noisy.a=1", "x"],
    ],
)
def test_what_is_asked_for_and_not_allowed_is_not_loaded(home: Environment, words: list[str]) -> None:
    """A selected plugin outside the allow list is refused without an import, with or without options."""
    home.add_plugin("noisy", "print('loaded')")
    (home.python.parents[1] / "hookpatch.allow").write_text("loud\n")
    completed = home.run("-m", "hookpatch", *words, HOOKPATCH_PLUGINS="noisy")
    output = " ".join((completed.stdout + completed.stderr).split())
    assert completed.returncode != 0
    assert "is not allowed here" in output
    assert "loaded" not in output


def test_allow_list_is_that_of_the_environment_alone(home: Environment) -> None:
    """None in the current folder or at home is looked at."""
    for folder in (home.folder, home.folder / "home"):
        folder.mkdir(exist_ok=True)
        (folder / "hookpatch.allow").write_text("")
    completed = home.run("script.py", HOOKPATCH_PLUGINS="loud", HOME=str(home.folder / "home"))
    assert completed.stdout == "VENDOR 2\n"


# --- commands, and their child processes

CALLED = """
    '''Has to be called.'''
    import hookpatch

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.inject("vendor:speak", word="called", required_calls=1)
"""
PLANTED_NAMES = (
    *(
        "json",
        "typing",
        "hookpatch",
        "pluggy",
        "sitecustomize",
        "usercustomize",
        "typer",
        "rich",
        "wrapt",
        "msgspec",
        "packaging",
    ),
    *(
        "subprocess",
        "tempfile",
        "signal",
        "queue",
        "threading",
        "dataclasses",
        "inspect",
        "difflib",
        "shlex",
        "hashlib",
        "pip",
        "venv",
    ),
    *(
        "importlib",
        "email",
        "asyncio",
        "concurrent",
        "tomllib",
        "click",
        "markdown_it",
        "pygments",
        "readline",
        "string",
        "html",
    ),
)
COMMANDS = {
    "list": ["list"],
    "list --look": ["list", "--look"],
    "list --json": ["list", "--json"],
    "plan": ["plan", "loud"],
    "plan --no-import": ["plan", "--no-import", "loud"],
    "lock": ["lock", "loud", "--lock", "new.lock"],
    "check": ["check", "loud"],
    "check --against": [
        "check",
        "loud",
        *["--against", "vendor-kit==1.0", "--pip-arg", "--no-index", "--pip-arg", "--find-links=../wheels"],
    ],
    "doctor": ["doctor"],
    "report": ["report", "."],
    "why": ["why", "vendor:speak", "-p", "loud"],
    "explain": ["explain", "UnknownPlugin"],
    "explain all": ["explain"],
    "run": ["run", "-p", "loud", "-c", "pass"],
    "run calls": ["run", "-p", "called", "-c", "pass"],
    "new": ["new", "mine"],
    "help": ["--help"],
    "version": ["--version"],
    "misspelt": ["lisst"],
}
QUICK = ("list", "plan", "check", "run", "doctor", "why", "report")  # in `make test`


@pytest.fixture(scope="module")
def planted(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A current folder with a file of the name of each module that hookpatch or a child process may import."""
    files = {f"{name}.py": PLANTED for name in PLANTED_NAMES}
    files["evil-1.0.dist-info/entry_points.txt"] = "[hookpatch]\nevil = evil\n"
    files["evil.py"] = PLANTED
    folder = tmp_path_factory.mktemp("planted")
    environment = furnished(folder, wheels, {"loud": LOUD, "called": CALLED}, files)
    (environment.site_packages / "vendor.py").write_text(VENDOR)
    (folder / "wheels").mkdir()
    build_wheel(folder / "wheels", "vendor-kit", "1.0", "vendor", VENDOR)
    return environment


@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.ends) for name in COMMANDS]
)
@pytest.mark.parametrize("way", ["script", pytest.param("module", marks=pytest.mark.ends)])
@pytest.mark.sampled(3)
def test_no_command_runs_what_lies_in_the_current_folder(planted: Environment, way: str, command: str) -> None:
    """Nor does a child process that the command starts: json.py, typing.py, hookpatch.py and their like are not run."""
    (planted.folder / "EVIL").unlink(missing_ok=True)
    shutil.rmtree(planted.folder / "hookpatch-mine", ignore_errors=True)
    start = [planted.python.parent / "hookpatch"] if way == "script" else ["-m", "hookpatch"]
    for name in ("hookpatch", "importlib", "threading") if way == "module" else ():  # run by Python itself
        (planted.folder / f"{name}.py").unlink(missing_ok=True)
    completed = planted.run(*start, *COMMANDS[command])
    assert "Traceback" not in completed.stderr
    assert evil(planted) == []
    assert (completed.returncode, completed.stderr) == (0, "") or command not in (
        "list",
        "explain",
        "help",
        "version",
        "new",
    )


def test_every_child_of_a_command_is_in_the_test_above(planted: Environment) -> None:
    """The planted files would be run by a Python without -P: the test above can fail."""
    planted.run("-c", "import json")
    assert "json" in evil(planted)
    (planted.folder / "EVIL").unlink()


def test_distribution_in_the_current_folder_is_no_plugin_of_a_command(planted: Environment, tmp_path: Path) -> None:
    """`python -m` has the folder on the path."""
    (tmp_path / "evil-1.0.dist-info").mkdir()
    (tmp_path / "evil-1.0.dist-info" / "entry_points.txt").write_text("[hookpatch]\nevil = evil\n")
    (tmp_path / "evil.py").write_text(PLANTED)
    for way in ([planted.python.parent / "hookpatch"], ["-m", "hookpatch"]):
        completed = planted.run(*way, "list", "--json", cwd=tmp_path)
        assert [row["name"] for row in json.loads(completed.stdout)["plugins"]] == ["called", "loud"]
    assert not (tmp_path / "EVIL").exists()


def test_every_attack_of_the_page_is_a_test() -> None:
    """The table of docs/reference/attacks.md names each test of the three files, once, and no other."""
    test_file = Path(__file__)
    others = [test_file.with_name(name).read_text() for name in ("test_faults.py", "test_hostile_plugins.py")]
    files = [test_file.read_text(), *others]
    tests = [node.name for text in files for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    page = (ROOT / "docs" / "reference" / "attacks.md").read_text()
    listed = re.findall(r"\| `(test_\w+)` \|$", page, re.MULTILINE)
    assert sorted(listed) == sorted(name for name in tests if name.startswith("test_"))
    assert len(listed) > 40
