"""Finds the selected plugins and loads them through pluggy; knows nothing of attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final, final

import pluggy

from hookpatch import hookspecs
from hookpatch._discovery import WAITS_FOR, Installed, check_allowed, find
from hookpatch._options import options_of
from hookpatch._patch import Patch
from hookpatch._relations import Relations
from hookpatch._selection import Selection, normalise
from hookpatch._site import Site
from hookpatch._target import a_kind
from hookpatch.errors import OptionsError, PluginError, SettingError


@final
class Plugin:
    """One loaded entry point. Read-only.

    Attributes:
        name: its name.
        installed: where it comes from.
        module: the module that it is.
        options_type: its ``Options`` dataclass, None when it has none.
        relations: how it stands to other plugins.
    """

    __slots__ = ("installed", "module", "name", "options_type", "relations")

    def __init__(self, installed: Installed, module: ModuleType, relations: Relations) -> None:
        self.name: Final = installed.name
        self.installed: Final = installed
        self.module: Final = module
        self.options_type: Final[type | None] = getattr(module, "Options", None)
        self.relations: Final = relations

    @property
    def description(self) -> str:
        """The first line of the module's docstring."""
        return (self.module.__doc__ or "").strip().partition("\n")[0]


@final
class Host:
    """Loads the plugins of one selection. Lives as long as its session."""

    def __init__(self) -> None:
        self._pluggy: Final = pluggy.PluginManager("hookpatch")
        self._pluggy.add_hookspecs(hookspecs)
        self._plugins: Final[dict[Installed, Plugin]] = {}

    def load(self, selection: Selection) -> list[tuple[str, Plugin, list[Patch]]]:
        """Return each name asked for, its plugin, and what that wants to patch. Imports no target.

        A plugin asked for under two names is there once, under the first.

        Raises:
            SelectionError: a name is unknown or ambiguous, or its options do not fit.
            PluginError: a plugin could not be loaded, or yields something else than patches.
        """
        names: dict[Installed, str] = {}
        for name in selection.names:
            plugin = find(name, selection.asked_by)
            check_allowed(plugin, selection.asked_by)  # all of them before any is loaded
            names.setdefault(plugin, name)
        options = _by_plugin(selection, names)
        loaded = [(name, self.loaded(installed)) for installed, name in names.items()]
        try:
            return [(name, plugin, self.patches(plugin, options.get(plugin.installed, {}))) for name, plugin in loaded]
        except OptionsError as error:
            raise _with_key(error, selection) from None

    def plugin(self, installed: Installed, asked_by: str) -> Plugin:
        """Return an installed plugin, loaded.

        Raises:
            NotAllowed: there is an allow list that does not name it; nothing of it has run.
            PluginError: its module cannot be imported, or is not a plugin.
        """
        check_allowed(installed, asked_by)
        return self.loaded(installed)

    def loaded(self, installed: Installed) -> Plugin:
        """Return a plugin, loaded: one that is known to be allowed, or hookpatch's own, which nobody has to allow.

        Raises:
            PluginError: as ``plugin``.
        """
        if installed in self._plugins:
            return self._plugins[installed]
        try:
            module = import_module(installed.module)
        except Exception as error:
            problem = f"raised {type(error).__name__} when it was loaded: {error}; mend or uninstall it"
            raise PluginError(installed.name, installed.origin, problem) from error
        options = getattr(module, "Options", None)
        if options is not None and not dataclasses.is_dataclass(options):
            raise PluginError(installed.name, installed.origin, f"has an Options that is no dataclass: {options!r}")
        relations = {id(value): value for value in vars(module).values() if isinstance(value, Relations)}
        if len(relations) > 1:
            raise PluginError(installed.name, installed.origin, "has more than one hookpatch.Relations; make them one")
        if self._pluggy.is_registered(module):
            twin = self._pluggy.get_name(module)
            problem = f"is the same module as plugin '{twin}'; select one of the two"
            raise PluginError(installed.name, installed.origin, problem)
        try:
            self._pluggy.register(module, name=_key(installed))
            self._pluggy.check_pending()
        except pluggy.PluginValidationError as error:
            problem = f"does not fit hookpatch's hooks: {str(error).splitlines()[-1]}"
            raise PluginError(installed.name, installed.origin, problem) from error
        self._plugins[installed] = Plugin(installed, module, next(iter(relations.values()), Relations()))
        return self._plugins[installed]

    @property
    def relations(self) -> dict[Installed, Relations]:
        """How each of the loaded plugins stands to others."""
        return {installed: plugin.relations for installed, plugin in self._plugins.items()}

    def patches(self, plugin: Plugin, options: Mapping[str, Any]) -> list[Patch]:
        """Return what a plugin wants to patch, each in the place that the plugin declares for all.

        Raises:
            OptionsError: the options do not fit.
            PluginError: it raises, or yields something else than patches.
        """
        name, origin = plugin.name, plugin.installed.origin
        typed = options_of(plugin.options_type, options, name, origin)
        hook = self._of(plugin, "hookpatch_patches")
        if not hook.get_hookimpls():
            raise PluginError(
                name, origin, f"has no hookpatch_patches marked with hookpatch.hookimpl in {plugin.module.__name__}"
            )
        try:
            yielded: list[Iterable[Patch]] = hook(options=typed)
            if not yielded:
                raise PluginError(name, origin, "returns None from hookpatch_patches; yield the patches")
            patches = [patch for part in yielded for patch in part]
        except PluginError:
            raise
        except Exception as error:
            problem = f"raised {type(error).__name__} when asked for its patches: {error}"
            raise PluginError(name, origin, problem) from error
        for patch in patches:
            if not isinstance(patch, Patch):
                raise PluginError(
                    name,
                    origin,
                    f"yields {a_kind(patch)}, not a patch; yield hookpatch.wrap(...) or another verb",
                )
            waits_for = plugin.installed.waits_for
            if waits_for and not f"{patch.module}.".startswith(f"{waits_for}."):
                raise PluginError(
                    name,
                    origin,
                    f"patches {patch.address}, which is not in '{waits_for}', for which its distribution has it wait; "
                    f"take '{name}' out of the entry point group {WAITS_FOR}, or name there what has all its targets, "
                    "and install it anew",
                )
        before, after = plugin.relations.before, plugin.relations.after
        if not (before or after):
            return patches
        return [
            dataclasses.replace(patch, before=(*patch.before, *before), after=(*patch.after, *after))
            for patch in patches
        ]

    def changed(self, sites: Sequence[Site]) -> list[Exception]:
        """Tell each plugin that the patches at these sites have changed; return the errors of those that fail."""
        errors: list[Exception] = []
        for plugin in self._plugins.values():
            try:
                self._of(plugin, "hookpatch_changed")(sites=tuple(sites))
            except Exception as error:  # collected: the others are to hear of it, too
                problem = f"raised {type(error).__name__} when told of changes at {_words(sites)}: {error}"
                errors.append(PluginError(plugin.name, plugin.installed.origin, problem))
        return errors

    def has_commands_only(self, plugin: Plugin) -> bool:
        """Tell whether a plugin patches nothing and has commands of its own."""
        hooks = [self._of(plugin, name) for name in ("hookpatch_patches", "hookpatch_commands")]
        return [bool(hook.get_hookimpls()) for hook in hooks] == [False, True]

    def add_commands(self, plugin: Plugin, app: Any) -> None:
        """Have a plugin add its own commands to a ``typer.Typer``.

        Raises:
            PluginError: it has none, or raises.
        """
        name, origin = plugin.name, plugin.installed.origin
        hook = self._of(plugin, "hookpatch_commands")
        if not hook.get_hookimpls():
            problem = f"has no commands of its own; hookpatch run -p {name} SCRIPT switches it on"
            raise PluginError(name, origin, problem)
        try:
            hook(app=app)
        except Exception as error:
            problem = f"raised {type(error).__name__} when asked for its commands: {error}"
            raise PluginError(name, origin, problem) from error

    def _of(self, plugin: Plugin, hook: str) -> Any:
        """Return what calls one plugin's implementation of a hook."""
        others = [module for other, module in self._pluggy.list_name_plugin() if other != _key(plugin.installed)]
        return self._pluggy.subset_hook_caller(hook, others)


def _words(sites: Sequence[Site]) -> str:
    return ", ".join(str(site.slot) for site in sites)


def _key(installed: Installed) -> str:
    """Return the name under which pluggy knows a plugin: two distributions may each have one of a name."""
    return f"{installed.name}@{installed.distribution}"


def _with_key(error: OptionsError, selection: Selection) -> OptionsError:
    """Return an error that names the key of the configuration that has options for the plugin, if one has."""
    keys = [
        key
        for name, key in selection.options_by.items()
        if normalise(name.partition("@")[0]) == normalise(error.plugin)
    ]
    return OptionsError(error.plugin, error.distribution, f"{error.problem} ({keys[0]})") if keys else error


def _by_plugin(selection: Selection, names: Mapping[Installed, str]) -> dict[Installed, Mapping[str, Any]]:
    """Return the options by plugin; ``name@distribution`` is understood here too."""
    options: dict[Installed, Mapping[str, Any]] = {}
    for name, given in selection.options.items():
        meant = [installed for installed in names if installed.answers_to(name)]
        if not meant:
            chosen = ", ".join(installed.name for installed in names) or "none"
            raise SettingError("options", f"given for '{name}', which is not among the selected plugins: {chosen}")
        if len(meant) > 1:
            ways = " or ".join(f"'{_key(installed)}'" for installed in meant)
            raise SettingError("options", f"given for '{name}', which names two of the selected plugins; take {ways}")
        if not isinstance(given, Mapping):
            problem = f"they are {a_kind(given)}, not a mapping of names to values"
            raise OptionsError(meant[0].name, meant[0].origin, problem)
        options[meant[0]] = given
    return options
