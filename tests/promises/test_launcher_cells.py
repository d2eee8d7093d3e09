"""The launchers' matrix: each child process is patched in the right places alone, or a message says why not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from environments import Environment
from launcher_cells import NAMES, all_launchers, home, run_launchers
from launching import GIVEN, INHERITED, OF_PACKAGES
from launching_programs import INHERITS, OF_ROOT, PROGRAMS

SAMPLE = ["subprocess.run", "os.posix_spawn", "os.system"]


@pytest.fixture(scope="module")
def program_home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with a plugin, and the modules of the programs."""
    return home(tmp_path_factory.mktemp("cells"), wheels)


@pytest.mark.parametrize("names", ["block", pytest.param("task", marks=pytest.mark.ends)])
def test_sample_of_launchers_is_right_or_loud(program_home: Environment, names: str) -> None:
    """Three launchers; a report or warning names programs started inside with an earlier environment."""
    cells = run_launchers(program_home, names, SAMPLE)
    assert [cell for cell in cells if cell.verdict not in ("right", "loud")] == []
    loud = {(cell.launcher, cell.environment, cell.phase) for cell in cells if cell.verdict == "loud"}
    takes_environment = [name for name in SAMPLE if name in GIVEN]
    assert len(cells) == 11 * len(takes_environment) + 3 * (len(SAMPLE) - len(takes_environment))
    assert loud >= {(name, "{}", "inside") for name in takes_environment}
    assert {phase for _, _, phase in loud} == {"inside"}


@pytest.mark.ends
@pytest.mark.launcher
@pytest.mark.parametrize("names", NAMES)
def test_every_launcher_is_right_or_loud(program_home: Environment, names: str) -> None:
    """All of them; `make launchers` prints their table."""
    launchers = all_launchers(program_home)
    left_out = () if os.geteuid() == 0 else OF_ROOT
    assert launchers == [name for name in (*GIVEN, *INHERITED, *OF_PACKAGES, *PROGRAMS) if name not in left_out]
    cells = run_launchers(program_home, names, launchers)
    takes_environment = [name for name in launchers if name in GIVEN or (name in PROGRAMS and name not in INHERITS)]
    assert len(cells) == 11 * len(takes_environment) + 3 * (len(launchers) - len(takes_environment))
    assert [cell for cell in cells if cell.verdict not in ("right", "loud")] == []
