"""The fixture fresh_process: programs in interpreters of their own, patched from outside, on releases of the target."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from distributions import build_wheel
from environments import LOUD

from hookpatch.errors import SettingError
from hookpatch.testing import FreshProcess, ProgramFailed

MakeDistribution = Callable[..., Path]

VENDOR = """
def speak(word="vendor"):
    return word
"""


@pytest.fixture
def where(make_distribution: MakeDistribution, folder: Path) -> dict[str, str]:
    """Install a plugin that makes vendor.speak() shout; return the environment in which a program finds both."""
    plugin = LOUD.replace("yield", "yield hookpatch.remove('vendor:WORD', required=False)\n        yield")
    make_distribution("kit", plugins={"loud": "kit_loud"}, modules={"kit_loud": plugin, "vendor": VENDOR})
    return {"PYTHONPATH": str(folder)}


def test_program_runs_patched_from_outside_and_unpatched(fresh_process: FreshProcess, where: dict[str, str]) -> None:
    """Run an indented program text: compare output, status, and the report of patches with their calls."""
    program = """
        import sys, vendor
        print(vendor.speak(*sys.argv[1:]))
        print("told", file=sys.stderr)
        sys.exit(3)
    """
    plain = fresh_process(program, args=["a"], env=where)
    assert (plain.status, plain.output, plain.errors, list(plain.report)) == (3, "a\n", "told\n", [])
    completed = fresh_process(program, "loud", args=["b"], env=where)
    assert (completed.status, completed.output, completed.errors.splitlines()[0]) == (3, "B\n", "told")
    ((optional, wrap),) = (process.patches for process in completed.report)
    assert (optional.state, wrap.state, wrap.plugin, wrap.calls) == ("skipped", "applied", "loud", {"eager": 1})


def test_file_runs_in_an_empty_folder(fresh_process: FreshProcess, where: dict[str, str], tmp_path: Path) -> None:
    """The program imports modules from its folder, as any script does, and runs in an empty working folder."""
    (tmp_path / "beside.py").write_text("import vendor")
    (tmp_path / "program.py").write_text("import beside, os; print(beside.vendor.speak(), os.listdir())")
    assert fresh_process(tmp_path / "program.py", "loud", env=where).check().output == "VENDOR []\n"


def test_variables_of_the_test_run_do_not_go_along(
    fresh_process: FreshProcess, where: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables of hookpatch are left out, unless the test passes them; all other variables go along."""
    monkeypatch.setenv("HOOKPATCH_PLUGINS", "nowhere")
    monkeypatch.setenv("HOOKPATCH_OPTIONS", "no JSON")
    monkeypatch.setenv("HOOKPATCH_DISABLE", "1")
    monkeypatch.setenv("WORD", "here")
    program = "import os, vendor; print(vendor.speak(os.environ['WORD']))"
    assert fresh_process(program, "loud", env=where).check().output == "HERE\n"
    assert fresh_process(program, "loud", env={**where, "HOOKPATCH_DISABLE": "1"}).check().output == "here\n"


def test_plugin_that_is_none_is_seen(fresh_process: FreshProcess, where: dict[str, str]) -> None:
    """With an unknown plugin the program does not begin; check() repeats the error."""
    completed = fresh_process("print('begun')", "lout", env=where)
    assert (completed.status, completed.output) == (78, "")
    with pytest.raises(ProgramFailed) as caught:
        completed.check()
    message = "no plugin 'lout' (asked for by HOOKPATCH_PLUGINS=lout); did you mean 'loud'?"
    status, reported = caught.value.problems
    assert status == "the process ended with status 78"
    assert message in reported
    assert f"\n--- its stderr:\nhookpatch: error: {message}" in str(caught.value)


def test_options_reach_the_plugin(fresh_process: FreshProcess, make_distribution: MakeDistribution) -> None:
    """By the plugin's name."""
    plugin = """
        import dataclasses, hookpatch
        @dataclasses.dataclass
        class Options:
            word: str
        @hookpatch.hookimpl
        def hookpatch_patches(options):
            yield hookpatch.replace("string:whitespace", options.word)
    """
    where = make_distribution("kit", plugins={"say": "kit_say"}, modules={"kit_say": plugin}).parent
    completed = fresh_process(
        "import string; print(string.whitespace)",
        "say",
        options={"say": {"word": "given"}},
        env={"PYTHONPATH": str(where)},
    )
    assert completed.check().output == "given\n"


def test_report_is_of_all_processes(fresh_process: FreshProcess, where: dict[str, str]) -> None:
    """The report has the child processes that the program starts by spawn and by subprocess."""
    program = """
        import multiprocessing, subprocess, sys, vendor

        def work():
            print(vendor.speak("spawned"), flush=True)

        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=work)
            process.start()
            process.join()
            subprocess.run([sys.executable, "-c", "import vendor; print(vendor.speak('started'))"], check=True)
    """
    completed = fresh_process(program, "loud", env=where).check()
    assert completed.output == "SPAWNED\nSTARTED\n"
    patched = [patch.state for process in completed.report for patch in process.patches if patch.verb == "wrap"]
    assert patched == ["applied"] * 3


def test_check_tells_a_patch_that_had_no_effect(fresh_process: FreshProcess, where: dict[str, str]) -> None:
    """A test of the status alone would pass on a program that never imports the target."""
    with pytest.raises(ProgramFailed) as caught:
        fresh_process("print('done')", "loud", env=where).check()
    assert caught.value.problems == (
        "vendor:speak of plugin 'loud': was never applied: the program did not import its module",
    )
    assert caught.value.output == "done\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a process group is POSIX's")
@pytest.mark.ends
def test_program_that_does_not_end_is_ended_with_what_it_started(fresh_process: FreshProcess) -> None:
    """The error has the output so far. Its end is read, so the child process, with the same stdout, has ended."""
    program = """
        import subprocess, sys
        print("begun", flush=True)
        subprocess.run([sys.executable, "-c", "import time; time.sleep(3600)"])
    """
    with pytest.raises(ProgramFailed) as caught:
        fresh_process(program, timeout=5)
    assert str(caught.value) == "the program failed: it did not end within 5 s\n--- its stdout:\nbegun"


def test_what_is_no_program_is_refused(fresh_process: FreshProcess, tmp_path: Path) -> None:
    """Before anything is run."""
    with pytest.raises(SettingError) as caught:
        fresh_process("export.py")
    assert (
        str(caught.value) == "fresh_process(): 'export.py' is a file's name and not a program; give pathlib.Path(...)"
    )
    with pytest.raises(SettingError) as caught:
        fresh_process(tmp_path / "none.py")
    assert str(caught.value) == f"fresh_process(): there is no file {tmp_path / 'none.py'}"
    with pytest.raises(SettingError) as caught:
        fresh_process("pass", options={"loud": {"word": {1}}})
    assert str(caught.value).startswith("options: an environment variable takes what JSON can hold: ")


# --- releases of the target


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with the wheels of two releases; pip has no network."""
    folder = tmp_path / "index"
    folder.mkdir()
    for version in ("1.0", "1.1"):
        build_wheel(folder, "vendor-kit", version, "vendor", f"def speak(): return 'of {version}'", needs="nowhere")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def starting(folder: Path, release: str | None = None) -> FreshProcess:
    """Return a fresh_process with a folder for releases."""
    numbers = iter(range(100))

    def new_folder() -> Path:
        path = folder / f"run{next(numbers)}"
        path.mkdir(parents=True)
        return path

    return FreshProcess(new_folder, folder / "releases", release)


SPEAK = "import vendor; print(vendor.speak())"


@pytest.mark.once
def test_program_runs_on_each_release(
    index: Path, where: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release's wheel alone comes first on the path; a second run needs no index."""
    first = starting(tmp_path / "first", "vendor_kit==1.0")
    assert first(SPEAK, "loud", env=where).check().output == "OF 1.0\n"
    assert first(SPEAK, "loud", env=where, release="vendor-kit==1.1").check().output == "OF 1.1\n"
    releases = tmp_path / "first" / "releases"
    assert sorted(path.name for path in releases.iterdir()) == ["vendor-kit==1.0", "vendor-kit==1.1"]
    monkeypatch.delenv("PIP_FIND_LINKS")
    assert first(SPEAK, env=where).check().output == "of 1.0\n"
    assert starting(tmp_path / "second")(SPEAK, env=where).check().output == "vendor\n"


@pytest.mark.once
def test_release_that_is_installed_already_is_run_as_it_is(
    index: Path, make_distribution: MakeDistribution, tmp_path: Path
) -> None:
    """A release that is installed already needs no folder."""
    site = make_distribution("vendor-kit", "1.1", modules={"vendor": VENDOR}).parent
    run = starting(tmp_path / "runs")
    completed = run(SPEAK, release="vendor-kit==1.1", env={"PYTHONPATH": str(site)})
    assert completed.check().output == "vendor\n"
    assert not (tmp_path / "runs" / "releases").exists()


@pytest.mark.once
def test_release_that_cannot_be_had_is_an_error(index: Path, tmp_path: Path) -> None:
    """The error has pip's reason and a remedy; no half installed release is left."""
    run, releases = starting(tmp_path / "runs"), tmp_path / "runs" / "releases"
    with pytest.raises(SettingError) as caught:
        run(SPEAK, release="vendor-kit==9.9")
    folder = releases / "vendor-kit==9.9"
    assert str(caught.value) == (
        "release vendor-kit==9.9: pip cannot install it here: No matching distribution found for vendor-kit==9.9; "
        f"install the release with 'pip install --no-deps --target {folder} vendor-kit==9.9', or name another folder "
        "with --hookpatch-releases=FOLDER"
    )
    assert [*releases.iterdir()] == []
    folder.mkdir()
    with pytest.raises(SettingError) as caught:
        run(SPEAK, release="vendor-kit==9.9")
    assert str(caught.value) == f"release vendor-kit==9.9: {folder} exists without the release; delete the folder"
    (tmp_path / "file").touch()
    with pytest.raises(SettingError) as caught:
        FreshProcess(lambda: tmp_path / "file", tmp_path / "file" / "x")(Path(__file__), release="vendor-kit==1.0")
    assert str(caught.value) == (
        f"release vendor-kit==1.0: nothing can be kept in {tmp_path / 'file' / 'x'}: Not a directory; "
        "name another folder with --hookpatch-releases=FOLDER"
    )


@pytest.mark.parametrize("text", ["kit", "kit>=1", "kit==1.*", "kit==1,<2", "kit[extra]==1", "=="])
def test_what_names_no_release_is_refused(fresh_process: FreshProcess, text: str) -> None:
    """Refuse text that is not one version of one distribution."""
    with pytest.raises(SettingError) as caught:
        fresh_process(SPEAK, release=text)
    assert str(caught.value).startswith(f"fresh_process(): {text!r} names no release (")
    assert str(caught.value).endswith("); write it like 'onnxsim==0.7.3'")
