"""``hookpatch check --against``: the check in throw-away environments, one for each release of a distribution."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any, final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hookpatch._check import SEVERITY
from hookpatch._lock import Lock
from hookpatch._pip import has_pip, install, last_line, run
from hookpatch._take_over import take_over
from hookpatch.command._targets import WORDS, Named
from hookpatch.errors import SettingError


@final
@dataclass(frozen=True, slots=True)
class Release:
    """What a check of one release found. Frozen.

    Attributes:
        distribution: the distribution's name.
        version: the release.
        status: the worst status of a target; *uninstallable* if pip cannot install it here, *failed* if the check did
            not end as it should.
        reasons: why.
        targets: the targets, as ``hookpatch check --json`` has them.
    """

    distribution: str
    version: str
    status: str
    reasons: tuple[str, ...] = ()
    targets: tuple[dict[str, Any], ...] = ()

    @property
    def severity(self) -> int:
        """As that of a target; 1 where nothing is known."""
        return {**SEVERITY, "uninstallable": 1, "failed": 2}[self.status]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {name: getattr(self, name) for name in ("version", "status", "reasons", "targets")}


def releases_of(text: str) -> list[tuple[str, str]]:
    """Return the releases in words such as ``onnxsim==0.4.36,0.8.1``.

    Raises:
        SettingError: they cannot be read.
    """
    name, equals, versions = text.partition("==")
    found = [version.strip() for version in versions.split(",") if version.strip()]
    if not (equals and name.strip() and found) or any("=" in version or " " in version for version in found):
        raise SettingError("--against", f"'{text}' cannot be read; write it like onnxsim==0.4.36,0.8.1")
    return [(name.strip(), version) for version in dict.fromkeys(found)]


def against_releases(
    releases: Sequence[tuple[str, str]],
    given: Named,
    options: Sequence[str],
    lock: Lock | None,
    pip_args: Sequence[str],
    no_deps: bool,
) -> list[Release]:
    """Return what a check finds in each release, in an environment that is thrown away.

    Installed there are the release, by pip as it is configured here, and hookpatch and the plugins as they are here.

    Args:
        releases: names and versions.
        given: the plugins to check.
        options: their options, in words.
        lock: the lock file to compare with.
        pip_args: further words for ``pip install``.
        no_deps: True to install the release alone: what it needs is taken from this environment.

    Raises:
        PluginError: a plugin's distribution has no record of its files, and cannot be taken along.
    """
    words = [*given.names, *(word for option in options for word in ("-o", option)), "--json"]
    words += ["--lock", os.path.abspath(lock.path)] if lock is not None else []
    one = partial(_checked, given=given, words=words, pip_args=pip_args, no_deps=no_deps)
    said = f"checking {len(releases)} releases of {releases[0][0]}"
    with Console(stderr=True).status(said), ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(one, releases))


def _checked(
    release: tuple[str, str], given: Named, words: Sequence[str], pip_args: Sequence[str], no_deps: bool
) -> Release:
    with tempfile.TemporaryDirectory(prefix="hookpatch-") as folder:
        python = _new_environment(folder)
        pip = [sys.executable, "-m", "pip", "--python", python] if has_pip() else [python, "-m", "pip"]
        problem = install("==".join(release), *pip_args, *(["--no-deps"] if no_deps else []), pip=pip)
        if problem is not None:
            return Release(*release, "uninstallable", (problem,))
        site = sysconfig.get_path("purelib", "venv", {"base": folder, "platbase": folder})
        # pip too, as everywhere: onnxsim before 0.7 installs onnxruntime when it is imported.
        take_over(("hookpatch", "pip", *given.distributions), site, with_needs=not no_deps)
        if no_deps:
            rest = sorted({str(one.locate_file("")) for one in metadata.distributions()})
            with open(os.path.join(site, "zz_of_this_environment.pth"), "w", encoding="utf-8") as file:
                file.write("\n".join(rest))
        done = run([python, "-I", "-m", "hookpatch", "check", *words], folder)
        try:
            content = json.loads(done.stdout)
            targets = tuple(content["targets"])
        except (ValueError, KeyError):
            return Release(*release, "failed", (last_line(done),))
        if not targets:
            return Release(*release, "fits")
        worst = max(targets, key=lambda one: SEVERITY[one["status"]])
        return Release(*release, worst["status"], tuple(worst["reasons"]), targets)


def _new_environment(folder: str) -> str:
    """Make a virtual environment; return its interpreter."""
    venv.EnvBuilder(with_pip=not has_pip(), symlinks=os.name != "nt").create(folder)
    scripts = sysconfig.get_path("scripts", "venv", {"base": folder, "platbase": folder})
    return os.path.join(scripts, "python.exe" if os.name == "nt" else "python")


def print_releases(console: Console, rows: Sequence[Release]) -> None:
    """Print a table with a row for each release."""
    words = {**WORDS, "uninstallable": ("not installable here", "yellow"), "failed": ("the check failed", "red")}
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    table.add_column("release", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("why", overflow="fold")
    for row in rows:
        said, style = words[row.status]
        table.add_row(f"{row.distribution} {row.version}", Text(said, style=style), "\n".join(row.reasons))
    console.print(table)
