"""environment(): the variables for a launcher."""

from __future__ import annotations

from pathlib import Path

import pytest
from child_programs import AROUND, LOUD, VENDOR, WORK, scene
from environments import Environment, furnished

import hookpatch
from hookpatch.errors import SettingError, UnknownPlugin


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Make an environment with a plugin, and a folder with the vendor's module and its callers."""
    files = {"vendor.py": VENDOR, "around.py": AROUND, "work.py": WORK}
    return furnished(tmp_path_factory.mktemp("children"), wheels, {"loud": LOUD}, files)


def test_environment_is_what_a_launcher_hands_over(home: Environment, tmp_path: Path) -> None:
    """A launcher gets names, options, report and count, and no other variable of this process."""
    lines = """
    given = hookpatch.environment("loud", options={"loud": {"mark": "?"}}, report="reports", count=True)
    said.append(given)
    said.append(in_program(env={**os.environ, **given}, stderr=subprocess.DEVNULL))
    said.append(len(os.listdir("reports")))
    """
    noted, _ = scene(home, tmp_path, lines)
    assert noted == [
        {
            "HOOKPATCH_PLUGINS": "loud",
            "HOOKPATCH_OPTIONS": '{"loud": {"mark": "?"}}',
            "HOOKPATCH_REPORT": str(home.folder / "reports"),
            "HOOKPATCH_COUNT": "1",
        },
        "VENDOR?",
        1,
    ]


def test_environment_checks_its_names_and_options(home: Environment, tmp_path: Path) -> None:
    """environment() checks names and options at once: a pool would restart failing workers for ever."""
    with pytest.raises(UnknownPlugin, match=r"no plugin 'lout' \(asked for by environment\(\)\)"):
        hookpatch.environment("lout")
    with pytest.raises(SettingError, match="takes plugin names, not a Patch"):
        hookpatch.environment(hookpatch.remove("vendor:speak"))  # type: ignore[arg-type]
    lines = """
    for wrong in ({"mark": 3}, {"Mark": "?"}):
        try:
            hookpatch.environment("loud", options={"loud": wrong})
        except hookpatch.errors.OptionsError as error:
            said.append(str(error).partition(": ")[2])
    """
    noted, _ = scene(home, tmp_path, lines)
    assert noted == [
        "Expected 'str', got 'int' - at 'mark'; it takes mark: str",
        "no option 'Mark'; did you mean 'mark'? it takes mark: str",
    ]
