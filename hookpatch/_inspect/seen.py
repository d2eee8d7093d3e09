"""Find the kind and the patches of an installed plugin, for commands that run without the plugin's name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from hookpatch._bootstrap import selection as _selection
from hookpatch._bootstrap.installed import Installed
from hookpatch._engine.patch.versions import release_of
from hookpatch._inspect.plan import plan_alone
from hookpatch._inspect.throwaway import LIMIT as TARGETS
from hookpatch._inspect.throwaway import Look
from hookpatch._plugins.host import Host
from hookpatch._processes import aside
from hookpatch.errors import HookpatchError, NotAllowed, OptionsError, PluginError, SettingError

Status: TypeAlias = Literal["patches", "commands", "needs options", "not allowed", "misconfigured", "broken"]


class Seen(NamedTuple):
    """The kind of a plugin, with the plugin's patches.

    Attributes:
        status: *patches* or *commands*, or why the plugin could not be asked for its patches.
        problem: the error behind the other states; None.
        description: the first line of the plugin's docstring; empty if it was not loaded.
        patches: verb, target and release of each patch, as declared.
        planned: verb, target, finding, reason and warnings of each patch, in the order of a plan.
    """

    status: Status
    problem: str | None = None
    description: str = ""
    patches: Sequence[dict[str, str]] = ()
    planned: Sequence[dict[str, Any]] = ()


def seen(plugins: Sequence[Installed], look: Look, asked_by: str) -> Iterator[Seen]:
    """Yield the facts of each plugin. A throwaway child process loads the plugins; a plugin may end the process."""
    limit = aside.LIMIT + (TARGETS if look.imports else 0)
    results = aside.results([call(plugin, look, asked_by) for plugin in plugins], limit)
    return map(from_result, plugins, results)


def call(plugin: Installed, look: Look, asked_by: str) -> tuple[str, Any]:
    """Return the call of ``see`` for a plugin, for ``aside.results``."""
    facts = [plugin.name, plugin.module, plugin.distribution, plugin.version, plugin.waits_for]
    return f"{__name__}:see", [facts, look, asked_by]


def from_result(plugin: Installed, result: Any) -> Seen:
    """Return the facts of a plugin from the result of a call."""
    if not isinstance(result, aside.Ended):
        return Seen(*result)
    problem = f"did not let itself be loaded: the process that tried {result}; fix or uninstall it"
    return Seen("broken", str(PluginError(plugin.name, plugin.origin, problem)))


def see(task: Any) -> Seen:
    """Load a plugin in this process; return the facts of the plugin."""
    installed, look, asked_by = Installed(*task[0]), Look(*task[1]), task[2]
    host, description, name = Host(), "", f"{installed.name}@{installed.distribution}"
    try:
        options = _selection.selection_of([name], {}, asked_by).options  # first: a plugin may change sys.path
        plugin = host.plugin(installed, asked_by)
        description = plugin.description
        if host.has_commands_only(plugin):
            return Seen("commands", None, description)
        patches = host.patches(plugin, options.get(name, {}))
        targets = plan_alone(installed, patches, options, look)
    except NotAllowed as error:
        return Seen("not allowed", str(error))
    except OptionsError as error:
        return Seen("needs options", error.problem, description)
    except SettingError as error:
        return Seen("misconfigured", str(error), description)
    except HookpatchError as error:
        return Seen("broken", str(error), description)
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
    return Seen("patches", None, description, declared, planned)
