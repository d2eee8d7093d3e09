"""The declarations of installed plugins, read in a new process without an import of their targets."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments import ROOT

# Options of plugins with required options: valid values.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "onnx": {"folder": "graphs"},
    "onnx_function": {"functions": ["Norm=torch.nn:LayerNorm"]},
    "onnxsim_skip": {"passes": ["fuse_qkv"]},
}

_PROGRAM = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from hookpatch._bootstrap.installed import installed
from hookpatch._plugins.host import Host
from hookpatch._engine.patch.versions import release_of
options, before, found = json.loads(sys.argv[2]), set(sys.modules), {}
for one in installed():
    host = Host()
    plugin = host.plugin(one, "plugin_facts.py")
    patches = [] if host.has_commands_only(plugin) else host.patches(plugin, options.get(one.name, {}))
    found[one.name] = {
        "module": one.module, "distribution": one.distribution, "version": one.version, "waits_for": one.waits_for,
        "description": plugin.description,
        "patches": [
            {"verb": p.verb, "target": p.address, "module": p.module, "why": p.why, "upstream": p.upstream,
             "requires": p.requirements, "release": release_of(p.module)} for p in patches
        ],
    }
for one in found.values():
    one["imported"] = sorted({p["module"].partition(".")[0] for p in one["patches"]} & (set(sys.modules) - before))
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Project:
    """A distribution's folder, and the contents of its pyproject.toml.

    Attributes:
        folder: the folder.
        name: the distribution.
        version: its version.
        plugins: the module of each plugin.
        waits_for: the module for which each plugin waits.
    """

    folder: Path
    name: str
    version: str
    plugins: Mapping[str, str]
    waits_for: Mapping[str, str]

    @property
    def package(self) -> Path:
        """The folder of its package."""
        return self.folder / self.name.replace("-", "_")

    def modules_with_hooks(self) -> set[str]:
        """Return the modules with a hook of hookpatch; read the sources, import no module."""
        modules = set()
        for path in self.package.rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.FunctionDef) and "hookpatch.hookimpl" in map(ast.unparse, node.decorator_list):
                    modules.add(".".join(path.relative_to(self.folder).with_suffix("").parts))
        return modules


def project(folder: Path) -> Project:
    """Return the project of a distribution's folder."""
    settings = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    groups = settings.get("entry-points", {})
    return Project(
        folder,
        settings["name"],
        settings["version"],
        groups.get("hookpatch", {}),
        groups.get("hookpatch.waits_for", {}),
    )


PROJECTS = [project(path.parent) for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))]


def facts(*folders: Path) -> dict[str, dict[str, Any]]:
    """Return the declarations of each installed plugin, by name; also of plugins in further folders, searched first."""
    command = [sys.executable, "-c", _PROGRAM, json.dumps([*map(str, folders)]), json.dumps(OPTIONS)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    completed = subprocess.run(command, env=clean, cwd=ROOT, capture_output=True, text=True, check=True)
    declared: dict[str, dict[str, Any]] = json.loads(completed.stdout)
    return declared
