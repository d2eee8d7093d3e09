"""``hookpatch check`` and ``hookpatch lock``: check the targets of plugins, here or in other releases."""

from __future__ import annotations

import json as _json
import os
import re
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

from hookpatch._bootstrap import environment, selection
from hookpatch._bootstrap.imports import matches
from hookpatch._bootstrap.selection import normalise
from hookpatch._engine.lock.lockfile import NAME, Lock, key_of, write_lock
from hookpatch._inspect import check as _check
from hookpatch._inspect.check import lockable
from hookpatch._inspect.rehearsal import SEVERITY
from hookpatch._inspect.releases import PYTHON, has_pip, install, last_line, packages_of, run_outside
from hookpatch.command._app import AsJson, Names, OptionWords, print_json, print_text
from hookpatch.command._tables import FOLD, NO_WRAP, WORDS, print_table, print_targets, progress
from hookpatch.command._targets import imports_aside, load_named, lock_of, words_of
from hookpatch.errors import SettingError


def check(
    names: Names = None,
    option: OptionWords = None,
    path: Annotated[
        str | None, typer.Option("--lock", metavar="FILE", help=f"The lock file; default: {NAME}, if it exists.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="NAME==A,B,C",
            help="Check releases of a distribution, each in an environment of its own.",
        ),
    ] = None,
    pip_arg: Annotated[
        list[str] | None,
        typer.Option("--pip-arg", metavar="WORD", help="With --against: a word for pip install."),
    ] = None,
    no_deps: Annotated[
        bool,
        typer.Option(
            "--no-deps", help="With --against: install the release alone, and take its dependencies from here."
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Check whether the targets of plugins have changed, and still fit.

    Imports the targets, applies the patches, and restores the targets. Compares the targets with a lock file, if one
    exists.

    Ends with status 0 if all targets are as locked, or fit without a lock file. Ends with 1 if a target has changed but
    takes the same arguments; if a target is not in the lock file; if an optional patch does not fit; or if no target is
    of the distribution named by --against. Ends with 2 if
    a target is gone or a patch does not fit.

    Example: hookpatch check fuse_qkv_off --against onnxsim==0.4.36,0.8.1
    """
    lock = lock_of(path)
    with imports_aside():
        selected = load_named("check", names or (), option or (), lock)
    if against is not None:
        changed = {name: of for name, of in selected.options.items() if lock is None or lock.options.get(name) != of}
        words = [*selected.names, *(word for text in words_of(changed, "--against") for word in ("-o", text))]
        releases = _against_releases(_releases_of(against), words, lock, pip_arg or (), no_deps)
        status = max((release.severity for release in releases), default=0)
        if json:
            rows = [release.to_dict() for release in releases]
            print_json({"against": releases[0].distribution, "status": status, "releases": rows})
        else:
            _print_releases(releases)
        raise typer.Exit(status)
    environment.set_variables({environment.DISABLE: ""})  # check the patches even if hookpatch is switched off
    with imports_aside():
        targets = _check.check(selected.requests, lock)
    status = max((target.severity for target in targets), default=0)
    if json:
        print_json({"lock": lock and lock.path, "status": status, "targets": [target._asdict() for target in targets]})
    else:
        print_targets(targets)
    raise typer.Exit(status)


def lock(
    names: Names = None,
    option: OptionWords = None,
    path: Annotated[str | None, typer.Option("--lock", metavar="FILE", help=f"The lock file; default: {NAME}.")] = None,
    json: AsJson = False,
) -> None:
    """Write the source and signature of each target into a lock file.

    Review and commit the file. Each call writes the whole file: name all its plugins. The file has the distribution,
    the version, the signature and the source of each target; the members of a class; the keys of a registry. Imports
    the targets, applies the patches, and restores the targets. If a patch does not fit, writes no file and ends with
    status 2.

    Example: hookpatch lock fuse_qkv_off
    """
    default, _ = selection.lock_path()
    locked = lock_of(path) if not names and (path or not default or os.path.exists(default)) else None
    with imports_aside():
        selected = load_named("lock", names or (), option or (), locked)
    environment.set_variables({environment.DISABLE: ""})  # check the patches even if hookpatch is switched off
    with imports_aside():
        entries, problems = lockable(selected.requests)
    if problems:
        if json:
            print_json({"lock": None, "targets": [target._asdict() for target in problems]})
        else:
            print_targets(problems)
        raise typer.Exit(2)
    written = Lock(selected.names, selected.options, entries, path or default or NAME)
    is_new = write_lock(written)
    if json:
        print_json({"lock": written.path, "written": is_new, "targets": sorted(entries)})
        return
    for address in sorted(entries):
        print_text(f"{entries[address].fingerprint.release}  {address}")
    for address in sorted({request.patch.address for request in selected.requests if key_of(request.patch) is None}):
        print_text(f"not locked: {address}, an object without an address")
    print_text(f"{written.path} {'written' if is_new else 'holds that already'}")


class _Release(NamedTuple):
    """The check of one release."""

    distribution: str
    version: str
    # The worst status of a target; "elsewhere" if all targets fit, and none is of the distribution; "uninstallable", or
    # "failed" if the check ended with an error.
    status: str
    reasons: tuple[str, ...] = ()
    targets: tuple[dict[str, Any], ...] = ()  # as in `hookpatch check --json`

    @property
    def severity(self) -> int:
        return {**SEVERITY, "elsewhere": 1, "uninstallable": 1, "failed": 2}[self.status]

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if name != "distribution"}


def _releases_of(text: str) -> list[tuple[str, str]]:
    """Return name and version of each release in a text, for example ``onnxsim==0.4.36,0.8.1``."""
    name, equals, listed = text.partition("==")
    versions = [version.strip() for version in listed.split(",") if version.strip()]
    if not (equals and name.strip() and versions) or any("=" in version or " " in version for version in versions):
        raise SettingError("--against", f"'{text}' cannot be read; write it like onnxsim==0.4.36,0.8.1")
    return [(name.strip(), version) for version in dict.fromkeys(versions)]


def _against_releases(
    releases: Sequence[tuple[str, str]], words: Sequence[str], lock: Lock | None, pip_args: Sequence[str], no_deps: bool
) -> list[_Release]:
    """Check each release, installed by pip into a folder before the current environment on the path."""
    if not has_pip():
        raise SettingError("--against", "this environment has no pip to install a release; run python -m ensurepip")
    words = [*words, "--json", *(["--lock", os.path.abspath(lock.path)] if lock is not None else [])]
    checked = partial(_checked, words=words, pip_args=[*pip_args, *(["--no-deps"] if no_deps else [])])
    message = f"checking {len(releases)} releases of {releases[0][0]}"
    with progress(message), ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(checked, releases))


def _checked(release: tuple[str, str], words: Sequence[str], pip_args: Sequence[str]) -> _Release:
    with tempfile.TemporaryDirectory(prefix="hookpatch-") as folder:
        problem = install("==".join(release), "--target", folder, *pip_args)
        if problem is not None:
            return _Release(*release, "uninstallable", (problem,))
        completed = run_outside([*PYTHON, "-m", "hookpatch", "check", *words], folder)
        try:
            targets = tuple(_json.loads(completed.stdout)["targets"])
        except (ValueError, KeyError):
            return _Release(*release, "failed", (last_line(completed),))
        rows: list[dict[str, Any]] = [*targets] or [{"status": "fits", "reasons": ()}]
        worst = max(rows, key=lambda target: SEVERITY[target["status"]])
        status, reasons = worst["status"], tuple(worst["reasons"])
        packages = packages_of(release[0], folder)
        modules = [target["target"].partition(":")[0].partition(".")[0] for target in targets]
        required = {normalise(re.split(r"[^\w.-]", text)[0]) for target in targets for text in target["requires"]}
        is_of_release = any(matches(module, package) for module in modules for package in packages)
        if packages and not is_of_release and normalise(release[0]) not in required:
            patched = ", ".join(dict.fromkeys(target["release"] or target["target"] for target in targets)) or "nothing"
            reasons = (f"patches nothing of {release[0]}, but {patched}", *reasons)
            status = "elsewhere" if not SEVERITY[status] else status
        return _Release(*release, status, reasons, targets)


def _print_releases(releases: Sequence[_Release]) -> None:
    words = {
        **WORDS,
        "elsewhere": ("not patched", "yellow"),
        "uninstallable": ("not installable here", "yellow"),
        "failed": ("the check failed", "red"),
    }
    rows = (
        (
            [(f"{release.distribution} {release.version}", "")],
            [words[release.status]],
            [("\n".join(release.reasons), "")],
        )
        for release in releases
    )
    print_table({"release": NO_WRAP, "verdict": FOLD, "why": FOLD}, rows)
