"""Looks for what keeps patches from being on: each thing that is wrong with its mend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from hookpatch import _environment, _selection
from hookpatch._config import TABLE, Config
from hookpatch._discovery import Installed, check_allowed, check_config, find, installed
from hookpatch._host import Host
from hookpatch._relations import check
from hookpatch._startup import LINE
from hookpatch.errors import HookpatchError, OptionsError, SettingError


class Finding(NamedTuple):
    """One thing that was looked at.

    Attributes:
        about: what.
        found: what is so.
        mend: what to do if that is wrong; None if it is well.
    """

    about: str
    found: str
    mend: str | None = None


def findings() -> Iterator[Finding]:
    """Look at this Python, its start-up files, the variables and the installed plugins. Applies nothing."""
    yield Finding("python", f"{sys.version.split()[0]}, {sys.executable}")
    flags = [name for name in ("isolated", "ignore_environment", "no_site", "safe_path") if getattr(sys.flags, name)]
    if sys.flags.ignore_environment or sys.flags.no_site:
        yield Finding(
            "flags", ", ".join(flags), "leave out -I, -E and -S: with them no start-up file of ours does anything"
        )
    yield from _startup_files()
    yield from _variables()
    for plugin in installed():
        yield from _plugin(plugin)
    if not installed():
        yield Finding("plugins", "none is installed", "install one, such as hookpatch-onnxsim")


# --- the start-up file

# In a Python of its own, as a program would be started: a comma is no name, so nothing is applied.
_LOOK: Final = """
import json, os, site, sys
folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
module = sys.modules.get("hookpatch._startup")
print(json.dumps({"folders": folders, "active": module and module.__file__}))
"""


def _startup_files() -> Iterator[Finding]:
    environment = {**_environment.without_ours(), _environment.PLUGINS: ","}
    command = [sys.executable, "-c", _LOOK]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode or not done.stdout:
        yield Finding("start-up", f"a new Python fails: {done.stderr.strip()}", "mend what it says")
        return
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    paths = [path for folder in dict.fromkeys(seen["folders"]) if (path := Path(folder, "hookpatch.pth")).exists()]
    for path in paths:
        changed = path.read_text(encoding="utf-8", errors="replace") != LINE
        mend = "it is of another version, or was changed: install hookpatch anew" if changed else None
        yield Finding("start-up file", str(path), mend)
    if not paths:
        mend = "install hookpatch with pip into this Python; until then HOOKPATCH_PLUGINS does nothing here, and "
        yield Finding("start-up file", "none in a site-packages folder", f"{mend}`hookpatch run` does without")
    elif len(paths) > 1:
        yield Finding("start-up file", f"{len(paths)} of them", "uninstall hookpatch from all folders but one")
    mine = Path(__file__).with_name("_startup.py")
    if paths and seen["active"] is None:
        yield Finding(
            "start-up", "not active in a new Python", "install hookpatch anew: its start-up file does nothing"
        )
    elif seen["active"] is not None and not os.path.samefile(seen["active"], mine):
        mend = f"this is {mine.parent}: uninstall one of the two"
        yield Finding("start-up", f"active, from {os.path.dirname(seen['active'])}", mend)
    elif seen["active"] is not None:
        yield Finding("start-up", f"active in a new Python, from {mine.parent}")


# --- the variables


def _variables() -> Iterator[Finding]:
    try:
        selection = _selection.from_environment()
        check_config()
        _selection.on_error()
        _selection.lock()
        _selection.on_drift()
    except HookpatchError as error:
        yield Finding("variables", str(error), "correct that, or unset the variable")
        return
    if _environment.disabled():
        yield Finding(
            _environment.DISABLE, "set: no patch is applied, whoever asks for it", f"unset {_environment.DISABLE}"
        )
    config = _selection.config()
    if config is not None:
        found = "found from the current folder; 'hookpatch run' hands it on, python by itself does not look for it"
        how = found if _selection.config_was_found() else f"named by {_environment.CONFIG}"
        yield Finding("configuration", f"{config.path}, {how}")
    by_config = config is not None and selection.asked_by == config.where("plugins")
    about, asked_by = (f"{TABLE}.plugins", selection.asked_by) if by_config else (_environment.PLUGINS,) * 2
    for name in selection.names:
        try:
            plugin = find(name, asked_by)
            check_allowed(plugin, asked_by)
        except HookpatchError as error:
            yield Finding(about, str(error), "correct the name, or install the plugin")
        else:
            yield Finding(about, f"{name} from {plugin.origin}")
    host = Host()
    if selection.options and selection.names:
        try:
            host.load(selection)
        except HookpatchError as error:
            options = f"{TABLE}.options" if selection.options_by and not _environment.read(_environment.OPTIONS) else ""
            yield Finding(options or _environment.OPTIONS, str(error), "correct the options")
    for name in selection.names:
        with suppress(HookpatchError):  # it is found again below, and told of
            host.plugin(find(name, asked_by), asked_by)
    try:
        check(host.relations, selection.asked_by)
    except HookpatchError as error:
        yield Finding(about, str(error), "correct the list")
    yield from _settings(config, by_config)
    folder = _environment.report_folder()
    if folder is not None:
        parent = next(path for path in (Path(folder).absolute(), *Path(folder).absolute().parents) if path.exists())
        is_well = parent.is_dir() and os.access(parent, os.W_OK)
        yield Finding(
            _environment.REPORT, folder, None if is_well else f"{parent} cannot be written: name another folder"
        )


def _settings(config: Config | None, has_plugins: bool) -> Iterator[Finding]:
    """Tell where each setting comes from: a variable, or a key of the configuration."""
    for key, variable in _SETTINGS.items():
        if key != "plugins" and (text := _environment.read(variable)):
            yield Finding(variable, text)
    if config is None:
        return
    for key, variable in _SETTINGS.items():
        value = getattr(config, key)
        if value and not (key == "plugins" and has_plugins):
            words = value if isinstance(value, str) else ", ".join(value)
            yield Finding(
                f"{TABLE}.{key}", f"{words}; {variable} comes first" if _environment.read(variable) else words
            )
    for name, given in config.options.items():
        yield Finding(f"{TABLE}.options.{name}", ", ".join(given))
    if config.allow is not None:
        yield Finding(f"{TABLE}.allow", ", ".join(config.allow) or "none")


_SETTINGS: Final = {
    "plugins": _environment.PLUGINS,
    "on_error": _environment.ON_ERROR,
    "on_drift": _environment.ON_DRIFT,
    "lock": _environment.LOCK,
}


# --- the plugins


def _plugin(plugin: Installed) -> Iterator[Finding]:
    twins = Counter(_selection.normalise(other.name) for other in installed())
    if twins[_selection.normalise(plugin.name)] > 1:
        mend = f"ask for {plugin.name}@{plugin.distribution}, or uninstall one of the two"
        yield Finding(f"plugin {plugin.name}", f"{plugin.origin} is not the only one to offer this name", mend)
    try:
        host = Host()
        if host.has_commands_only(host.plugin(plugin, "hookpatch doctor")):
            yield Finding(f"plugin {plugin.name}", f"commands: hookpatch {plugin.name}")
            return
        name = f"{plugin.name}@{plugin.distribution}"
        ((_, loaded, patches),) = host.load(_selection.selection_of([name], {}, "hookpatch doctor"))
    except SettingError:
        return  # what is wrong with the variables is told of them
    except OptionsError as error:
        yield Finding(f"plugin {plugin.name}", f"needs options: {error.problem}")
        return
    except HookpatchError as error:
        yield Finding(f"plugin {plugin.name}", str(error), "mend or uninstall it")
        return
    for patch in patches:
        reason = _reason(patch, loaded.installed.origin)
        yield Finding(f"plugin {plugin.name}", f"{patch.verb} {patch.address}", reason)


def _reason(patch: Any, origin: str) -> str | None:
    from hookpatch._requirement import check_requirement, unneeded

    try:
        check_requirement(patch, origin)
    except HookpatchError as error:
        return str(getattr(error, "problem", error))
    return unneeded(patch, origin)
