"""Find the kind and the patches of an installed plugin, for the commands that show all installed plugins."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from hookpatch._bootstrap import environment
from hookpatch._bootstrap import selection as _selection
from hookpatch._bootstrap.installed import Installed
from hookpatch._inspect import cache
from hookpatch._inspect.cache import LookOptions
from hookpatch.errors import HookpatchError, NotAllowed, OptionsError, PluginError, SettingError

LIMIT: Final = 30.0  # seconds for a plugin
Status: TypeAlias = Literal["patches", "commands", "needs options", "not allowed", "misconfigured", "broken"]


class PluginFacts(NamedTuple):
    """The kind of a plugin, with the plugin's patches.

    Attributes:
        status: *patches* or *commands*, or why the plugin could not be asked for its patches.
        problem: the error behind any other status, or the package that the commands lack; else None.
        description: the first line of the plugin's docstring; empty if the plugin was not loaded.
        patches: verb, target and release of each patch, as declared.
        planned: verb, target, finding, reason and warnings of each patch, in the order of a plan.
    """

    status: Status
    problem: str | None = None
    description: str = ""
    patches: Sequence[dict[str, str]] = ()
    planned: Sequence[dict[str, Any]] = ()


def facts_of_plugins(
    plugins: Sequence[Installed], look: LookOptions, asked_by: str, limit: float = LIMIT
) -> list[PluginFacts]:
    """Return the facts of each plugin. A throwaway child process loads the plugins; a plugin may end the process.

    The facts are kept until a file read by the child process, or a variable of the environment, has changed. A plugin
    that cannot be loaded is looked at each time: the cause may be temporary.
    """
    calls = [(f"{__name__}:facts_of_plugin", [plugin.facts, look, asked_by]) for plugin in plugins]
    variables = {name: value for name, value in environment.without_ours().items() if name not in _OF_A_SHELL}
    question = [calls, sorted((variables | environment.hookpatch_variables()).items())]
    key = cache.key_of({"path": [*map(os.fspath, sys.path)], "lock": None, "question": question})
    rows = cache.find(key) or [None] * len(calls)
    new = [index for index, row in enumerate(rows) if row is None]
    if new:
        # Here, as in ``facts_of_plugin``: kept facts are read without these imports.
        from hookpatch._processes import aside

        limit += cache.LIMIT if look.imports else 0
        results = [*aside.results([*(calls[index] for index in new), (f"{cache.__name__}:files", None)], limit)]
        files = results.pop()
        if len(new) == len(calls) and not any(isinstance(result, aside.Ended) for result in [*results, files]):
            cache.keep(key, [result if _lasts(PluginFacts(*result), look) else None for result in results], files)
        for index, result in zip(new, results, strict=True):
            rows[index] = _of_ended(plugins[index], result) if isinstance(result, aside.Ended) else result
    return [PluginFacts(*row) for row in rows]


# The variables that a shell changes from command to command.
_OF_A_SHELL: Final = ("_", "COLUMNS", "LINES", "OLDPWD", "PWD", "SHLVL")


def _lasts(facts: PluginFacts, look: LookOptions) -> bool:
    """Return True for facts that hold until a file changes."""
    unseen = look.imports and any(patch["finding"] == "not looked at" for patch in facts.planned)
    return facts.status not in ("broken", "misconfigured") and not unseen


def _of_ended(plugin: Installed, end: Exception) -> PluginFacts:
    problem = f"could not be loaded: the child process {end}; fix or uninstall the plugin"
    return PluginFacts("broken", str(PluginError(plugin.name, plugin.origin, problem)))


def facts_of_plugin(task: Any) -> PluginFacts:
    """Load a plugin in this process, which is thrown away; return the facts of the plugin."""
    cache.watch_files()
    from hookpatch._engine.patch.module_lookup import presence_of
    from hookpatch._engine.patch.versions import release_of
    from hookpatch._inspect.plan import plan_alone
    from hookpatch._plugins.host import Host

    installed, look, asked_by = Installed(*task[0]), LookOptions(*task[1]), task[2]
    host, description, name = Host(), "", f"{installed.name}@{installed.distribution}"
    try:
        options = _selection.selection_of([name], {}, asked_by).options  # first: a plugin may change sys.path
        plugin = host.plugin(installed, asked_by)
        description = plugin.description
        if host.has_commands_only(plugin):
            package = installed.waits_for
            is_missing = bool(package) and presence_of(package).installed is False
            return PluginFacts(
                "commands", f"needs {package}, which is not installed" if is_missing else None, description
            )
        patches = host.patches(plugin, options.get(name, {}))
        targets = plan_alone(installed, patches, options, look)
    except NotAllowed as error:
        return PluginFacts("not allowed", str(error))
    except OptionsError as error:
        return PluginFacts("needs options", error.problem, description)
    except SettingError as error:
        return PluginFacts("misconfigured", str(error), description)
    except HookpatchError as error:
        return PluginFacts("broken", str(error), description)
    declared = [
        {"verb": patch.verb, "target": patch.address, "release": " ".join(release_of(patch.module)).strip()}
        for patch in patches
    ]
    planned = [
        {
            "verb": patch.verb,
            "target": target.target,
            "finding": patch.finding,
            "reason": patch.reason,
            "warnings": patch.warnings,
        }
        for target in targets
        for patch in target.patches
    ]
    return PluginFacts("patches", None, description, declared, planned)
