"""Find the causes that keep patches from being applied, each with a remedy."""

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

from hookpatch._bootstrap import environment as _environment
from hookpatch._bootstrap import selection as _selection
from hookpatch._bootstrap.config import TABLE, Config
from hookpatch._bootstrap.environment import LINE
from hookpatch._bootstrap.imports import missing_internals
from hookpatch._bootstrap.installed import (
    Installed,
    check_allowed,
    check_config,
    distributions_in,
    find,
    installed,
    leftovers_in,
)
from hookpatch._engine.slots import trial
from hookpatch._engine.slots.guard import UNCHECKED
from hookpatch._engine.slots.referrers import lists_references
from hookpatch._inspect.cache import LookOptions
from hookpatch._inspect.seen import PluginFacts, facts_of_plugins
from hookpatch._plugins.host import Host
from hookpatch._plugins.relations import check
from hookpatch._processes.aside import Ended
from hookpatch._processes.aside import results as results_of
from hookpatch.errors import HookpatchError, _suggest


class Finding(NamedTuple):
    """The result of one check."""

    about: str
    found: str
    mend: str | None = None  # the remedy of a bad result


def findings() -> Iterator[Finding]:
    """Check the interpreter, its start-up files, the variables and the installed plugins. Applies nothing."""
    yield Finding("python", f"{sys.version.split()[0]}, {sys.executable}")
    yield from _python()
    flags = [name for name in ("isolated", "ignore_environment", "no_site", "safe_path") if getattr(sys.flags, name)]
    if sys.flags.ignore_environment or sys.flags.no_site:
        mend = "leave out -I, -E and -S: with them no start-up file of ours does anything"
        yield Finding("flags", ", ".join(flags), mend)
    yield from _startup_files()
    yield from _distributions()
    yield from _plugins()
    if not installed():
        yield Finding("plugins", "none is installed", "install a plugin, such as hookpatch-onnxsim")


def _python() -> Iterator[Finding]:
    """Yield a finding if the interpreter is untested, or breaks an assumption of hookpatch."""
    if sys.version_info[:2] > trial.NEWEST:
        oldest, newest = (".".join(map(str, version)) for version in (trial.OLDEST, trial.NEWEST))
        tested = f"hookpatch was tested on Python {oldest} to {newest}"
        yield Finding("python", f"{tested}; hookpatch tries out the interpreter's internals when first needed")
    if not getattr(sys, "_is_gil_enabled", bool)() and hasattr(sys, "_is_gil_enabled"):
        reason = "hookpatch relies on the GIL, and was never tested without it"
        yield Finding("python", "a free-threaded build, its GIL is off", f"run the program with PYTHON_GIL=1: {reason}")
    mend = "install a hookpatch that knows this Python"
    if not trial.functions_stand_in():
        yield Finding("functions", trial.PROXIES, mend)
    if not trial.functions_change_inside():
        yield Finding("functions", "reach='everywhere' is refused for functions", mend)
    if not lists_references():
        yield Finding("referrers", f"{trial.UNSEEN}; reach='everywhere' is refused for what is no function", mend)
    for name, fallback in missing_internals():
        yield Finding("imports", f"{name} cannot be seen: {fallback}", mend)


def _distributions() -> Iterator[Finding]:
    """Yield what an interrupted installation has left in the folders of the path."""
    for folder in filter(None, dict.fromkeys(sys.path)):
        for name in leftovers_in(folder):
            yield Finding("distribution", f"{os.path.join(folder, name)} is left of an interrupted pip", "delete it")
        for distribution, names in distributions_in(folder).items():
            if len(names) > 1:
                newest = max(names, key=lambda name: os.stat(os.path.join(folder, name)).st_mtime_ns)
                old_folders = ", ".join(os.path.join(folder, name) for name in names if name != newest)
                problem = f"{distribution} is in {folder} {len(names)} times: {', '.join(names)}; {newest} counts"
                yield Finding("distribution", problem, f"delete {old_folders}; then install {distribution} anew")


# Runs in a new interpreter. The value "," of HOOKPATCH_PLUGINS starts hookpatch and selects no plugin.
_PROBE: Final = """
import json, os, site, sys
folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
module = sys.modules.get("hookpatch._startup")
print(json.dumps({"folders": folders, "active": module.__file__ if hasattr(module, "main") else None}))
"""


def _startup_files() -> Iterator[Finding]:
    environment = {**_environment.without_ours(), _environment.PLUGINS: ",", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-P", "-c", _PROBE]
    completed = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", errors="replace")
    if completed.returncode or not completed.stdout:
        yield Finding("start-up", f"a new Python fails: {completed.stderr.strip()}", "correct the named fault")
        return
    probe: dict[str, Any] = json.loads(completed.stdout.splitlines()[-1])
    paths = [path for folder in dict.fromkeys(probe["folders"]) if (path := Path(folder, "hookpatch.pth")).exists()]
    for folder in probe["folders"]:
        if sys.version_info >= (3, 15) and (start_file := Path(folder, "hookpatch.start")).exists():
            problem = "Python 3.15 and later ignore hookpatch.pth in the same folder: the file is of another version"
            yield Finding("start-up file", str(start_file), f"{problem}; install hookpatch anew")
    for path in paths:
        changed = path.read_text(encoding="utf-8", errors="replace") != LINE
        remedy = "it is of another version, or was changed: install hookpatch anew" if changed else None
        yield Finding("start-up file", str(path), remedy)
    if not paths:
        mend = "install hookpatch with pip into this Python; until then HOOKPATCH_PLUGINS does nothing here, and "
        yield Finding("start-up file", "none in a site-packages folder", f"{mend}`hookpatch run` does without")
    elif len(paths) > 1:
        yield Finding("start-up file", f"{len(paths)} of them", "uninstall hookpatch from all folders but one")
    mine, active = Path(__file__).parents[1] / "_startup.py", probe["active"]
    if active is not None and os.path.samefile(active, mine):
        yield Finding("start-up", f"active in a new Python, from {mine.parent}")
    elif active is not None:
        mend = f"this is {mine.parent}: uninstall one of the two"
        yield Finding("start-up", f"active, from {os.path.dirname(active)}", mend)
    elif paths:
        # Python 3.18 and later ignore lines of code in .pth files (PEP 829).
        is_ignored = f"{trial.THIS_PYTHON} ignores hookpatch.pth: `hookpatch run` does without"
        mend = is_ignored if sys.version_info >= (3, 18) else "install hookpatch anew: its start-up file does nothing"
        yield Finding("start-up", "not active in a new Python", mend)


_SETTINGS: Final = {
    "plugins": _environment.PLUGINS,
    "on_error": _environment.ON_ERROR,
    "on_drift": _environment.ON_DRIFT,
    "lock": _environment.LOCK,
}


def variables(config_was_found: bool) -> list[Finding]:
    """Return the findings on the variables and the configuration; loads the requested plugins."""
    return [*_variables(config_was_found)]


def _variables(config_was_found: bool) -> Iterator[Finding]:
    try:
        selection = _selection.from_environment()
        check_config()
        _selection.on_error()
        _selection.lock()
        _selection.on_drift()
    except HookpatchError as error:
        yield Finding("variables", str(error), "correct the value, or unset the variable")
        return
    for name in _environment.unknown():
        yield Finding(
            name, f"no variable of hookpatch{_suggest(name, _environment.NAMES)}", "correct or unset the variable"
        )
    if _environment.disabled():
        text = "set: no patch is applied"
        yield Finding(_environment.DISABLE, text, f"unset {_environment.DISABLE}")
    config = _selection.config()
    if config is not None:
        origin = f"named by {_environment.CONFIG}"
        if config_was_found:
            origin = "found from the current folder; only 'hookpatch run' reads the file, plain python does not"
        yield Finding("configuration", f"{config.path}, {origin}")
    by_config = config is not None and selection.asked_by == config.where("plugins")
    about, asked_by = (f"{TABLE}.plugins", selection.asked_by) if by_config else (_environment.PLUGINS,) * 2
    host, plugins = Host(), []
    for name in selection.names:
        try:
            plugin = find(name, asked_by)
            check_allowed(plugin, asked_by)
        except HookpatchError as error:
            yield Finding(about, str(error), "correct the name, or install the plugin")
        else:
            plugins.append(plugin)
            yield Finding(about, f"{name} from {plugin.origin}")
    if selection.options and selection.names:
        try:
            host.load(selection)
        except HookpatchError as error:
            options = f"{TABLE}.options" if selection.options_by and not _environment.read(_environment.OPTIONS) else ""
            yield Finding(options or _environment.OPTIONS, str(error), "correct the options")
    for plugin in plugins:
        with suppress(HookpatchError):  # _plugin() reports the error
            host.plugin(plugin, asked_by)
    try:
        check(host.relations, selection.asked_by)
    except HookpatchError as error:
        yield Finding(about, str(error), "correct the list")
    yield from _settings(config, by_config)
    folder = _environment.report_folder()
    if folder is not None:
        parent = next(path for path in (Path(folder).absolute(), *Path(folder).absolute().parents) if path.exists())
        is_well = parent.is_dir() and os.access(parent, os.W_OK)
        mend = None if is_well else f"{parent} cannot be written: name another folder"
        yield Finding(_environment.REPORT, folder, mend)


def _settings(config: Config | None, has_plugins: bool) -> Iterator[Finding]:
    """Yield the variable or the key of the configuration for each setting."""
    for key, variable in _SETTINGS.items():
        if key != "plugins" and (text := _environment.read(variable)):
            yield Finding(variable, text)
    if config is None:
        return
    for key, variable in _SETTINGS.items():
        value = getattr(config, key)
        if value and not (key == "plugins" and has_plugins):
            text = value if isinstance(value, str) else ", ".join(value)
            overridden = f"; {variable} comes first" if _environment.read(variable) else ""
            yield Finding(f"{TABLE}.{key}", f"{text}{overridden}")
    for name, options in config.options.items():
        yield Finding(f"{TABLE}.options.{name}", ", ".join(options))
    if config.allow is not None:
        yield Finding(f"{TABLE}.allow", ", ".join(config.allow) or "none")


def _plugins() -> Iterator[Finding]:
    """Yield findings on the variables and on each plugin. Plugins are loaded in a throwaway child process."""
    requested, was_found = ", ".join(_selection.asked_names()), _selection.config_was_found()
    of_variables: Any = (
        variables(was_found) if not requested else next(results_of([(f"{__name__}:variables", was_found)]))
    )
    if isinstance(of_variables, Ended):
        problem = f"the process that loaded the plugins asked for ({requested}) {of_variables}"
        yield Finding(_environment.PLUGINS, problem, "leave out the plugin named below")
    else:
        yield from (Finding(*finding) for finding in of_variables)
    plugins = installed()
    for plugin, facts in zip(
        plugins, facts_of_plugins(plugins, LookOptions(imports=False), "hookpatch doctor"), strict=True
    ):
        yield from _plugin(plugin, facts)


def _plugin(plugin: Installed, facts: PluginFacts) -> Iterator[Finding]:
    about = f"plugin {plugin.name}"
    twins = Counter(_selection.normalise(twin.name) for twin in installed())
    if twins[_selection.normalise(plugin.name)] > 1:
        mend = f"ask for {plugin.name}@{plugin.distribution}, or uninstall one of the two"
        yield Finding(about, f"{plugin.origin} shares its name with a plugin of another distribution", mend)
    match facts.status:
        case "commands":
            yield Finding(about, f"commands: hookpatch {plugin.name}{f' {facts.problem}' if facts.problem else ''}")
        case "needs options":
            yield Finding(about, f"needs options: {facts.problem}")
        case "broken" | "not allowed":
            mend = "fix or uninstall it"
            yield Finding(about, str(facts.problem).removesuffix(f"; {mend}"), mend)
    for patch in facts.planned:
        is_seen = patch["finding"] != "not looked at"
        description = f"{patch['verb']} {patch['target']}{'' if is_seen else ', not looked at'}"
        if UNCHECKED in patch["warnings"]:  # the plugin says why, and there is nothing to mend
            description += f", {UNCHECKED}"
        warnings = [warning for warning in patch["warnings"] if warning != UNCHECKED]
        yield Finding(about, description, (is_seen and patch["reason"]) or "; ".join(warnings) or None)
