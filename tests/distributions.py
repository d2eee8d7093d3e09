"""Real distributions built for a test: wheels of projects with a single module, in a folder for pip to search."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "{version}"
dependencies = {needs}

[project.entry-points.hookpatch]
{plugins}
[tool.hatch.build.targets.wheel]
only-include = ["{module}.py"]
"""


def build_wheel(
    folder: Path, name: str, version: str, module: str, source: str, plugins: Mapping[str, str] = {}, needs: str = ""
) -> Path:
    """Build the wheel of a distribution with a single module into ``folder``; return the path."""
    project = folder / "projects" / f"{name}-{version}"
    project.mkdir(parents=True)
    entry_points = "".join(f"{plugin} = '{where}'\n" for plugin, where in plugins.items())
    text = PROJECT.format(
        name=name, version=version, module=module, plugins=entry_points, needs=[needs] if needs else []
    )
    (project / "pyproject.toml").write_text(text)
    (project / f"{module}.py").write_text(textwrap.dedent(source))
    (built,) = WheelBuilder(str(project)).build(directory=str(folder))
    return Path(built)
