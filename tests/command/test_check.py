"""`hookpatch lock` and `hookpatch check`, as a user types both, on distributions that are built and installed."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from distributions import build_wheel
from environments import Environment

pytestmark = pytest.mark.once

AS_IT_WAS = '''
    def shorten(text, width=10):
        """Return the beginning of a text."""
        return text[:width]  # from the left
    '''

RELEASES = {
    "1.0": AS_IT_WAS,
    "1.0.1": AS_IT_WAS.replace("Return the", "The").replace("  # from the left", ""),  # comments and documentation
    "1.1": AS_IT_WAS.replace("text[:width]", "text[-width:]"),  # a changed body
    "1.2": AS_IT_WAS.replace("width", "limit"),  # a renamed parameter
    "1.3": AS_IT_WAS.replace("shorten", "cut"),  # another name
    "1.4": "raise RuntimeError('no licence\\nsecond line')",
    "2.0": AS_IT_WAS,  # a version that the plugin is not made for
}

PLUGIN = '''
    """Shorten all texts to three characters."""
    import hookpatch

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.inject("vendor:shorten", width=3, requires="vendor-kit>=1,<2")
    '''

EDITS = '''
    """Shorten all texts by one character less."""
    import hookpatch

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.edit("vendor:shorten", "return text[:width]", "return text[:width + 1]")
    '''

GONE = "'return text[:width]' is not in the source; nearest is line 4:"
MISSES = "vendor:shorten takes no argument 'width'; it takes text, limit"
NOT_FOR_2 = (
    "made for vendor-kit>=1,<2, but vendor-kit 2.0 is installed; install a fitting one, or a newer release "
    "of the plugin"
)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheels of all releases and of the plugins."""
    folder = tmp_path_factory.mktemp("index")
    for version, source in RELEASES.items():
        build_wheel(folder, "vendor-kit", version, "vendor", source)
    build_wheel(folder, "hookpatch-short", "0.3", "short_plugin", PLUGIN, {"short": "short_plugin"})
    build_wheel(folder, "hookpatch-edits", "0.1", "edits_plugin", EDITS, {"edits": "edits_plugin"})
    return folder


@pytest.fixture(scope="module")
def home(_hookpatch_alone: Environment, index: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with the plugins and the first release, locked. Tests leave the lock file alone."""
    folder = tmp_path_factory.mktemp("check")
    environment = Environment(folder / "venv")
    environment.take_over(_hookpatch_alone)
    environment.install(*index.glob("hookpatch_*.whl"), index / "vendor_kit-1.0-py2.py3-none-any.whl")
    environment.work_in(folder / "work", {"a file": ""})
    completed = hookpatch(environment, "lock", "short")
    expected = "vendor-kit 1.0  vendor:shorten\nhookpatch.lock written\n"
    assert (completed.stdout, completed.stderr, completed.returncode) == (expected, "", 0)
    return environment


Install = Callable[[str], None]


@pytest.fixture
def installed(home: Environment, index: Path) -> Install:
    """Return a function that installs a release with pip, unless the release is installed already."""

    def install(version: str) -> None:
        if not [*home.site_packages.glob(f"vendor_kit-{version}.dist-info")]:
            home.install(index / f"vendor_kit-{version}-py2.py3-none-any.whl")

    return install


def hookpatch(home: Environment, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return home.run(home.python.parent / "hookpatch", *words, COLUMNS="200", **variables)


def rows(completed: subprocess.CompletedProcess[str]) -> list[list[str]]:
    """Return the cells of each table row below the heading."""
    lines = [line.split("  ") for line in completed.stdout.splitlines()[1:]]
    return [[word.strip() for word in line if word.strip()] for line in lines]


def test_lock_file_has_what_a_reviewer_wants_to_see(home: Environment) -> None:
    """The lock file shows release, plugin and verb, signature, and source."""
    text = (home.folder / "hookpatch.lock").read_text()
    head, _, table = text.partition('plugins = ["short"]\n\n')
    assert head.startswith("# What the targets of these plugins were like")
    lines = table.splitlines()
    assert lines[:6] == [
        '[target."vendor:shorten"]',
        'distribution = "vendor-kit"',
        'version = "1.0"',
        'patches = ["short: inject"]',
        'kind = "a function"',
        'signature = "(text, width=10)"',
    ]
    assert lines[6].startswith('hash = "sha256:')
    assert lines[7:] == ["source = '''", "def shorten(text, width=10):", "    return text[:width]", "'''"]


def test_locked_anew_it_is_the_same(home: Environment) -> None:
    """A second lock without names takes the plugins of the lock file and changes no line."""
    completed = hookpatch(home, "lock")
    assert completed.stdout == "vendor-kit 1.0  vendor:shorten\nhookpatch.lock holds that already\n"


@pytest.mark.ends
def test_what_is_as_it_was_is_the_same(home: Environment) -> None:
    """An unchanged target gives status 0, with plugin names, without names, and with HOOKPATCH_DISABLE."""
    for names, variables in (([], {}), (["short"], {}), (["short"], {"HOOKPATCH_DISABLE": "1"})):
        completed = hookpatch(home, "check", *names, **variables)
        assert rows(completed) == [["vendor:shorten", "vendor-kit 1.0", "same"], ["short: inject"]]
        assert (completed.stderr, completed.returncode) == ("", 0)


def test_changed_body_is_shown(home: Environment, installed: Install) -> None:
    """A changed body is compatible: status 1, with a diff. The JSON output has the same content."""
    installed("1.1")
    completed = hookpatch(home, "check")
    table, _, diff = completed.stdout.partition("\n\n")
    assert "changed, takes the same arguments" in table
    assert "vendor-kit 1.1" in table
    assert "locked vendor-kit 1.0" in table
    assert "its source has changed" in table
    lines = [
        "--- locked (vendor-kit 1.0)",
        "+++ installed (vendor-kit 1.1)",
        "@@ -1,2 +1,2 @@",
        " def shorten(text, width=10):",
        "-    return text[:width]",
        "+    return text[-width:]",
    ]
    assert diff.splitlines() == ["vendor:shorten", *lines]
    assert completed.returncode == 1
    completed = hookpatch(home, "check", "--json")
    assert completed.returncode == 1
    assert json.loads(completed.stdout) == {
        "lock": "hookpatch.lock",
        "status": 1,
        "targets": [
            {
                "target": "vendor:shorten",
                "patches": ["short: inject"],
                "status": "compatible",
                "release": "vendor-kit 1.1",
                "locked": "vendor-kit 1.0",
                "reasons": ["its source has changed"],
                "warnings": [],
                "requires": ["vendor-kit>=1,<2"],
                "diff": lines,
            }
        ],
    }


def test_guards_alone_are_looked_at_without_a_lock_file(home: Environment, installed: Install, tmp_path: Path) -> None:
    """Without a lock file only the guards are checked: a changed body fits."""
    installed("1.1")
    completed = home.run(home.python.parent / "hookpatch", "check", "short", "--json", cwd=tmp_path)
    (target,) = json.loads(completed.stdout)["targets"]
    assert (target["status"], target["reasons"], completed.returncode) == ("fits", [], 0)
    nothing = home.run(home.python.parent / "hookpatch", "check", cwd=tmp_path)
    assert (nothing.stderr, nothing.returncode) == (
        "hookpatch: error: hookpatch check: no plugin is named, and no hookpatch.lock is here to name one; "
        "write it like 'hookpatch check fuse_qkv_off' [hookpatch explain SettingError]\n",
        78,
    )


@pytest.mark.ends
def test_renamed_parameter_does_not_fit(home: Environment, installed: Install) -> None:
    """A renamed parameter gives status 2, because the patch injects the old name.

    The lock command refuses the target and leaves the lock file unchanged.
    """
    installed("1.2")
    completed = hookpatch(home, "check", "--json")
    (target,) = json.loads(completed.stdout)["targets"]
    assert (target["status"], completed.returncode) == ("unfit", 2)
    assert target["reasons"] == [
        MISSES,
        "it took (text, width=10) and takes (text, limit=10): a call(text=..., width=...) fails: got an unexpected "
        "keyword argument 'width'",
        "its source has changed",
    ]
    before = (home.folder / "hookpatch.lock").read_text()
    completed = hookpatch(home, "lock")
    assert (MISSES in completed.stdout, completed.returncode) == (True, 2)
    assert (home.folder / "hookpatch.lock").read_text() == before
    completed = hookpatch(home, "run", "-p", "short", "-c", "import vendor")
    assert (f"hookpatch: error: {MISSES}" in completed.stderr, completed.returncode) == (True, 78)


@pytest.mark.ends
def test_wrong_version_does_not_fit(home: Environment, installed: Install) -> None:
    """A release outside the required versions does not fit, although the source is the same."""
    installed("2.0")
    (target,) = json.loads(hookpatch(home, "check", "--json").stdout)["targets"]
    assert (target["status"], target["reasons"], target["diff"]) == ("unfit", [NOT_FOR_2], [])
    completed = hookpatch(home, "run", "-p", "short", "-c", "import vendor")
    assert (f"hookpatch: error: {NOT_FOR_2}" in completed.stderr, completed.returncode) == (True, 78)


@pytest.mark.ends
def test_release_that_cannot_be_imported_is_broken(home: Environment, installed: Install) -> None:
    """A release that cannot be imported is broken. The reason is the first line of the error."""
    installed("1.4")
    (target,) = json.loads(hookpatch(home, "check", "--json").stdout)["targets"]
    assert (target["status"], target["reasons"]) == ("broken", ["vendor cannot be imported: RuntimeError: no licence"])


@pytest.mark.ends
def test_releases_are_checked_in_environments_of_their_own(home: Environment, index: Path, installed: Install) -> None:
    """Each release has a row. The installed release and the lock file stay unchanged."""
    installed("1.0")
    versions = "1.0.1,1.1,1.2,1.3,9.9"
    local = ["--pip-arg=--no-index", f"--pip-arg=--find-links={index}"]
    completed = hookpatch(home, "check", "short", "--against", f"vendor-kit=={versions}", "--json", *local)
    content = json.loads(completed.stdout)
    assert (content["against"], content["status"], completed.returncode) == ("vendor-kit", 2, 2)
    assert [(row["version"], row["status"], row["reasons"][:1]) for row in content["releases"]] == [
        ("1.0.1", "same", []),
        ("1.1", "compatible", ["its source has changed"]),
        ("1.2", "unfit", [MISSES]),
        ("1.3", "gone", ["vendor has no attribute 'shorten'"]),
        ("9.9", "uninstallable", ["No matching distribution found for vendor-kit==9.9"]),
    ]
    assert content["releases"][1]["targets"][0]["release"] == "vendor-kit 1.1"
    assert json.loads(hookpatch(home, "check", "--json").stdout)["status"] == 0


def test_table_of_releases(home: Environment, index: Path, tmp_path: Path) -> None:
    """Releases can be checked without a lock file, and with dependencies of the current environment."""
    words = ["--against", "vendor-kit==1.1", "--no-deps", "--pip-arg=--no-index", f"--pip-arg=--find-links={index}"]
    completed = home.run(home.python.parent / "hookpatch", "check", "short", *words, cwd=tmp_path)
    assert [line.split() for line in completed.stdout.splitlines()] == [
        ["release", "verdict", "why"],
        ["vendor-kit", "1.1", "fits"],
    ]
    assert (completed.stderr, completed.returncode) == ("", 0)


ELSEWHERE = """
    import hookpatch

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.wrap("{target}", print, requires={requires})
    """


@pytest.mark.parametrize(
    ("target", "requires", "row", "status"),
    [
        ("json:dumps", None, ["vendor-kit 1.1", "not patched", "patches nothing of vendor-kit, but json:dumps"], 1),
        pytest.param(
            *("json:dumbs", None, ["vendor-kit 1.1", "gone", "patches nothing of vendor-kit, but json:dumbs"], 2),
            marks=pytest.mark.ends,
        ),
        pytest.param("vend*:shorten", None, ["vendor-kit 1.1", "fits"], 0, marks=pytest.mark.ends),
        ("json:dumps", "Vendor_Kit >= 1", ["vendor-kit 1.1", "fits"], 0),
    ],
)
@pytest.mark.ends
def test_a_plugin_without_a_patch_of_the_distribution(
    target: str, requires: str | None, row: list[str], status: int, home: Environment, index: Path, tmp_path: Path
) -> None:
    """No release of a distribution "fits" that the plugin neither patches nor requires."""
    name = f"elsewhere_{status}_{bool(requires)}".lower()
    home.add_plugin(name, ELSEWHERE.format(target=target, requires=repr(requires)))
    words = ["--against", "vendor-kit==1.1", "--no-deps", "--pip-arg=--no-index", f"--pip-arg=--find-links={index}"]
    command = [home.python.parent / "hookpatch", "check", name, *words]
    completed = home.run(*command, cwd=tmp_path, COLUMNS="200")
    assert re.split("  +", completed.stdout.splitlines()[1].strip()) == row
    assert (completed.stderr, completed.returncode) == ("", status)
    (release,) = json.loads(home.run(*command, "--json", cwd=tmp_path).stdout)["releases"]
    assert release["status"] == {"not patched": "elsewhere"}.get(row[1], row[1])


@pytest.mark.parametrize("words", ["vendor-kit", "vendor-kit>=1", "==1", "vendor-kit==", "vendor-kit==1==2"])
def test_releases_that_cannot_be_read_are_refused(home: Environment, words: str) -> None:
    """A misspelt release list is refused before any installation."""
    completed = hookpatch(home, "check", "--against", words)
    assert (completed.stderr, completed.returncode) == (
        f"hookpatch: error: --against: '{words}' cannot be read; write it like onnxsim==0.4.36,0.8.1 "
        "[hookpatch explain SettingError]\n",
        78,
    )


OTHERS = '''
    """Patches of all sorts."""
    import dataclasses
    import hookpatch

    @dataclasses.dataclass(frozen=True)
    class Options:
        word: str

    @hookpatch.hookimpl
    def hookpatch_patches(options):
        yield hookpatch.wrap("vendor:shorten", print, until="vendor-kit>=0.5")
        yield hookpatch.wrap("vendor:cut", print, required=False)
        yield hookpatch.wrap("math:hypot", print, expects="x")
        yield hookpatch.inject("no_such_module:f", x=options.word)
    '''


@pytest.mark.ends
def test_all_that_is_to_be_said_is_said(home: Environment, installed: Install) -> None:
    """The check reports an unneeded patch, a skipped patch, an unknown signature and a missing module."""
    installed("1.0")
    home.add_plugin("others", OTHERS)
    words = ["check", "others", "-o", "others.word=a", "--json"]
    completed = hookpatch(home, *words, "--lock", str(home.folder / "hookpatch.lock"))
    verdicts = {
        target["target"]: (target["status"], target["reasons"], target["warnings"])
        for target in json.loads(completed.stdout)["targets"]
    }
    assert verdicts == {
        "vendor:shorten": ("same", [], ["not needed from vendor-kit>=0.5 on, and vendor-kit 1.0 is installed"]),
        "vendor:cut": ("skipped", ["others: wrap is skipped: vendor has no attribute 'cut'"], []),
        "math:hypot": (
            "unlocked",
            [],
            ["it has no signature: hookpatch cannot check the arguments of the patch"],
        ),
        "no_such_module:f": ("gone", ["there is no module no_such_module"], []),
    }
    assert completed.returncode == 2
    completed = hookpatch(home, "lock", "others", "-o", "others.word=a", "--lock", "other.lock", "--json")
    assert [target["target"] for target in json.loads(completed.stdout)["targets"]] == ["no_such_module:f"]
    assert (completed.returncode, (home.folder / "other.lock").exists()) == (2, False)


@pytest.mark.ends
def test_options_are_locked(home: Environment, installed: Install) -> None:
    """Without names, the plugins of the lock file get the locked options.

    Options on the command line override the locked options.
    """
    installed("1.0")
    source = OTHERS.replace("no_such_module:f", "vendor:shorten").replace("x=options.word", "{options.word: 1}")
    home.add_plugin("chosen", source.replace("vendor:cut", "vendor:shorten"))
    lock = ["--lock", "chosen.lock"]
    assert hookpatch(home, "lock", "chosen", "-o", "chosen.word=width", *lock).returncode == 0
    assert '[options.chosen]\nword = "width"\n' in (home.folder / "chosen.lock").read_text()
    assert hookpatch(home, "check", *lock).returncode == 0
    assert hookpatch(home, "check", HOOKPATCH_LOCK="chosen.lock").stdout == hookpatch(home, "check", *lock).stdout
    assert hookpatch(home, "lock", *lock).stdout.splitlines()[-1] == "chosen.lock holds that already"
    completed = hookpatch(home, "check", *lock, "-o", "chosen.word=zzz", "--json")
    assert "vendor:shorten takes no argument 'zzz'; it takes text, width" in completed.stdout


AT_HAND = '''
    """A patch of what has no address."""
    import hookpatch
    import vendor

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.wrap(hookpatch.Target.attribute(vendor, "shorten"), print)
        yield hookpatch.replace(hookpatch.Target.item({"a": 1}, "a"), 2)
    '''


def test_object_at_hand_is_not_locked(home: Environment, installed: Install) -> None:
    """An object without an address is not locked. The lock command says so, and the check still examines the object."""
    installed("1.0")
    home.add_plugin("at_hand", AT_HAND)
    completed = hookpatch(home, "lock", "at_hand", "--lock", "at_hand.lock")
    first, second, third = completed.stdout.splitlines()
    assert first == "vendor-kit 1.0  vendor:shorten"
    assert re.fullmatch(r"not locked: <dict object at 0x\w+>\['a'\], an object without an address", second)
    assert (third, completed.returncode) == ("at_hand.lock written", 0)
    completed = hookpatch(home, "check", "--lock", "at_hand.lock", "--json")
    assert sorted(target["status"] for target in json.loads(completed.stdout)["targets"]) == ["fits", "same"]
    assert completed.returncode == 0


def test_help_has_an_example(home: Environment) -> None:
    """The help of both commands shows an example."""
    for command in ("lock", "check"):
        assert f"Example: hookpatch {command} " in hookpatch(home, command, "--help").stdout


@pytest.mark.ends
def test_an_edit_is_looked_for_in_other_releases(home: Environment, index: Path, tmp_path: Path) -> None:
    """Comments and documentation do not count in the search for an edit.

    If the old text is missing, the nearest line is named.
    """
    versions = "1.0,1.0.1,1.1,1.2"
    local = ["--no-deps", "--pip-arg=--no-index", f"--pip-arg=--find-links={index}"]
    words = ["check", "edits", "--against", f"vendor-kit=={versions}", *local]
    completed = home.run(home.python.parent / "hookpatch", *words, cwd=tmp_path, COLUMNS="200")
    assert [line.split(maxsplit=2) for line in map(str.rstrip, completed.stdout.splitlines()[1:])] == [
        ["vendor-kit", "1.0", "fits"],
        ["vendor-kit", "1.0.1", "fits"],
        ["vendor-kit", "1.1", f"does not fit  {GONE} 'return text[-width:]  # from the left'"],
        ["vendor-kit", "1.2", f"does not fit  {GONE} 'return text[:limit]  # from the left'"],
    ]
    assert (completed.stderr, completed.returncode) == ("", 2)
