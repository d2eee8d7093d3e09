"""Write plugins/README.md, the table of the plugins, from their declarations and the releases in their tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from environments import ROOT
from packaging.requirements import Requirement
from plugin_facts import PROJECTS, Project, facts

PAGE: Final = ROOT / "plugins" / "README.md"

_HEAD: Final = """\
# The plugins

What each changes, where, and on which releases of its targets its tests run. `make plugins-table` writes this page from
what the plugins declare. [A plugin of one's own](../docs/tutorial.md) begins with `hookpatch new`, which writes what
is in `_template`; [test_contract.py](test_contract.py) says what those here keep. From a clone, as long as
hookpatch is on no index: `pip install . ./plugins/hookpatch-onnxsim`. For hookpatch-torchscript add
`./plugins/hookpatch-export`.

| plugin | package | what it changes | targets | releases; tested on |
|---|---|---|---|---|
"""


def page(declared: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of plugins/README.md.

    Args:
        declared: the declarations of the plugins, as returned by ``facts()``.
    """
    rows = [row for project in PROJECTS for row in _rows(project, declared)]
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _rows(project: Project, declared: Mapping[str, Mapping[str, Any]]) -> Iterator[list[str]]:
    package = f"[{project.name}]({project.folder.name}/README.md)"
    for name in sorted(project.plugins):
        plugin = declared[name]
        targets = dict.fromkeys(patch["target"] for patch in plugin["patches"])
        releases = dict.fromkeys(release for patch in plugin["patches"] for release in patch["requires"])
        shown = [f"`{release}`; {', '.join(_tested(project, release))}" for release in releases]
        yield [
            f"`{name}`",
            package,
            plugin["description"],
            "<br>".join(f"`{target}`" for target in targets) or f"the command `hookpatch {name}`",
            "<br>".join(shown),
        ]


def _tested(project: Project, requirement: str) -> list[str]:
    """Return the releases of a distribution in a project's tests: the pinned release, and further releases."""
    distribution = Requirement(requirement).name
    files = [project.folder / "tests" / "releases.txt", ROOT / "constraints.txt"]
    text = "\n".join(path.read_text() for path in files if path.is_file())
    return re.findall(rf"^{re.escape(distribution)}==([\w.]+)", text, re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(page(facts()))
