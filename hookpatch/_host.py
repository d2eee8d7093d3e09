"""Finds the selected plugins and loads them through pluggy; knows nothing of attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final, final

import pluggy

from hookpatch import hookspecs
from hookpatch._discovery import Installed, find
from hookpatch._options import options_of
from hookpatch._patch import Patch
from hookpatch._selection import Selection, normalise
from hookpatch.errors import OptionsError, PluginError, SettingError


@final
class Plugin:
    """One loaded entry point. Read-only.

    Attributes:
        name: its name.
        installed: where it comes from.
        module: the module that it is.
        options_type: its ``Options`` dataclass, None when it has none.
    """

    __slots__ = ("installed", "module", "name", "options_type")

    def __init__(self, installed: Installed, module: ModuleType) -> None:
        self.name: Final = installed.name
        self.installed: Final = installed
        self.module: Final = module
        self.options_type: Final[type | None] = getattr(module, "Options", None)

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

    def load(self, selection: Selection) -> list[tuple[Plugin, list[Patch]]]:
        """Return the selected plugins and what each wants to patch, in the order selected. Imports no target.

        Raises:
            SelectionError: a name is unknown or ambiguous, or its options do not fit.
            PluginError: a plugin could not be loaded, or yields something else than patches.
        """
        plugins = [self.plugin(find(name, selection.asked_by)) for name in selection.names]
        options = _by_plugin(selection, plugins)
        return [(plugin, self.patches(plugin, options.get(plugin.name, {}))) for plugin in plugins]

    def plugin(self, installed: Installed) -> Plugin:
        """Return an installed plugin, loaded.

        Raises:
            PluginError: its module cannot be imported, or is not a plugin.
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
        try:
            self._pluggy.register(module, name=installed.name)
            self._pluggy.check_pending()
        except (pluggy.PluginValidationError, ValueError) as error:
            problem = f"does not fit hookpatch's hooks: {str(error).splitlines()[-1]}"
            raise PluginError(installed.name, installed.origin, problem) from error
        self._plugins[installed] = Plugin(installed, module)
        return self._plugins[installed]

    def patches(self, plugin: Plugin, options: Mapping[str, Any]) -> list[Patch]:
        """Return what a plugin wants to patch.

        Raises:
            OptionsError: the options do not fit.
            PluginError: it raises, or yields something else than patches.
        """
        name, origin = plugin.name, plugin.installed.origin
        typed = options_of(plugin.options_type, options, name, origin)
        others = [module for other, module in self._pluggy.list_name_plugin() if other != name]
        hook = self._pluggy.subset_hook_caller("hookpatch_patches", others)
        if not hook.get_hookimpls():
            raise PluginError(
                name, origin, f"has no hookpatch_patches marked with hookpatch.hookimpl in {plugin.module.__name__}"
            )
        try:
            yielded: list[Iterable[Patch]] = hook(options=typed)
            patches = [patch for part in yielded for patch in part]
        except Exception as error:
            problem = f"raised {type(error).__name__} when asked for its patches: {error}"
            raise PluginError(name, origin, problem) from error
        for patch in patches:
            if not isinstance(patch, Patch):
                raise PluginError(
                    name,
                    origin,
                    f"yields a {type(patch).__name__}, not a patch; yield hookpatch.wrap(...) or another verb",
                )
        return patches


def _by_plugin(selection: Selection, plugins: Iterable[Plugin]) -> dict[str, Mapping[str, Any]]:
    """Return the options by the plugins' own names."""
    names = {normalise(plugin.name): plugin.name for plugin in plugins}
    options: dict[str, Mapping[str, Any]] = {}
    for name, given in selection.options.items():
        plain = normalise(name.partition("@")[0])
        if plain not in names:
            chosen = ", ".join(names.values()) or "none"
            raise SettingError("options", f"given for '{name}', which is not among the selected plugins: {chosen}")
        if not isinstance(given, Mapping):
            raise OptionsError(names[plain], "options", f"a {type(given).__name__}, not a mapping of names to values")
        options[names[plain]] = given
    return options
