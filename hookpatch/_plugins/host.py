"""Load the selected plugins with pluggy, ask them for patches, call their other hooks."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from sys import _getframe
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, final

import pluggy

from hookpatch import hookspecs
from hookpatch._bootstrap import imports
from hookpatch._bootstrap.installed import WAITS_FOR, Installed, check_allowed, find
from hookpatch._bootstrap.interrupts import ErrorsOfCode, is_of_code
from hookpatch._bootstrap.selection import PluginName, Selection, normalise
from hookpatch._engine.patch.describe import a_kind
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.process_end import ExitGuard, call_guarded, raised, text_of
from hookpatch._plugins.options import options_of
from hookpatch._plugins.relations import Relations
from hookpatch.errors import OptionsError, PluginError, SettingError, _suggest

if TYPE_CHECKING:
    from hookpatch._engine.site.site import Site  # imports all wrapper code, which the command does not need


@final
class Plugin:
    """A loaded entry point, with the module, the ``Options`` dataclass (or None) and the relations. Read-only."""

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
    """The loaded plugins of one selection. Lives as long as the session."""

    def __init__(self) -> None:
        self._pluggy: Final = pluggy.PluginManager("hookpatch")
        self._pluggy.add_hookspecs(hookspecs)
        self._plugins: Final[dict[Installed, Plugin]] = {}

    def load(self, selection: Selection) -> list[tuple[str, Plugin, list[Patch]]]:
        """Return each selected name with its plugin and the patches of the plugin. Imports no target.

        A plugin selected under two names is returned once, under the first name. Raise SelectionError if a name is
        unknown or its options do not fit, and PluginError if a plugin fails.
        """
        names: dict[Installed, str] = {}
        for name in selection.names:
            plugin = find(name, selection.asked_by)
            check_allowed(plugin, selection.asked_by)  # all plugins before the first is loaded
            names.setdefault(plugin, name)
        options = _by_plugin(selection, names)
        loaded = [(name, self.loaded(installed)) for installed, name in names.items()]
        try:
            return [(name, plugin, self.patches(plugin, options.get(plugin.installed, {}))) for name, plugin in loaded]
        except OptionsError as error:
            # Name the key of the configuration that holds the options.
            for name, key in selection.options_by.items():
                if PluginName(name).name == normalise(error.plugin):
                    raise OptionsError(error.plugin, error.distribution, f"{error.problem} ({key})") from None
            raise error from None

    def plugin(self, installed: Installed, asked_by: str) -> Plugin:
        """Return a plugin, loaded; raise NotAllowed, before any code of the plugin runs, or PluginError."""
        check_allowed(installed, asked_by)
        return self.loaded(installed)

    def loaded(self, installed: Installed) -> Plugin:
        """Return a plugin, loaded without a look at the allow lists; raise PluginError if its module is no plugin."""
        if installed in self._plugins:
            return self._plugins[installed]
        with _Asking(installed, "when it was loaded", "; fix or uninstall it"):
            module = import_module(installed.module)
            options = getattr(module, "Options", None)
            relations = {id(value): value for value in vars(module).values() if isinstance(value, Relations)}
        if options is not None and not dataclasses.is_dataclass(options):
            raise _error(installed, f"has an Options that is no dataclass: {options!r}")
        if len(relations) > 1:
            raise _error(installed, "has several hookpatch.Relations; merge them")
        if self._pluggy.is_registered(module):
            twin = self._pluggy.get_name(module)
            raise _error(installed, f"is the same module as plugin '{twin}'; select one of the two")
        try:
            self._pluggy.register(module, name=_key(installed))
            self._pluggy.check_pending()
        except pluggy.PluginValidationError as error:
            problem = f"does not fit hookpatch's hooks: {str(error).splitlines()[-1]}"
            if problem.partition(": ")[2].startswith("unknown hook '"):
                problem += _suggest(
                    problem.split("'")[2], [name for name in vars(hookspecs) if name.startswith("hookpatch_")]
                )
            raise _error(installed, problem) from error
        plugin = Plugin(installed, module, next(iter(relations.values()), Relations()))
        for name in _RUN_BY_A_CALL:
            for implementation in self._hook(plugin, name).get_hookimpls():
                flags = getattr(getattr(implementation.function, "__code__", None), "co_flags", 0)
                if flags & _RUN_LATER and not (implementation.wrapper or implementation.hookwrapper):
                    problem = f"has a {name} with yield or async: a call runs none of its lines; write a plain function"
                    raise _error(installed, problem)
        self._plugins[installed] = plugin
        return plugin

    @property
    def relations(self) -> dict[Installed, Relations]:
        """The relations of each loaded plugin."""
        return {installed: plugin.relations for installed, plugin in self._plugins.items()}

    def patches(self, plugin: Plugin, options: Mapping[str, Any]) -> list[Patch]:
        """Return the patches of a plugin, with the ``before`` and ``after`` of its relations.

        Raise OptionsError if the options do not fit, and PluginError if the plugin yields other objects than patches.
        """
        name, installed = plugin.name, plugin.installed
        making = _Asking(installed, "when its options were made")
        typed = options_of(plugin.options_type, options, name, installed.origin, making)
        missing = f"has no hookpatch_patches marked with hookpatch.hookimpl in {plugin.module.__name__}"
        hook = self._hook(plugin, "hookpatch_patches", missing)
        patches: list[Patch] = []
        with _Asking(installed, "when asked for its patches"):
            results: list[Iterable[Patch]] = hook(options=typed)
            if not results:
                raise _error(installed, "returns None from hookpatch_patches; yield the patches")
            if any(isinstance(result, Patch) for result in results):
                raise _error(installed, "returns a patch from hookpatch_patches; yield the patch")
            for patch in (patch for result in results for patch in result):
                if not issubclass(type(patch), Patch):  # isinstance would ask the object
                    problem = f"yields {a_kind(patch)}, not a patch; yield hookpatch.wrap(...) or another verb"
                    raise _error(installed, problem)  # at once: the next may never come
                patches.append(patch)
        patches = [named for patch in patches for named in patch.written_out()]
        waits_for = installed.waits_for
        for patch in patches:
            if waits_for and not _is_inside(str(patch.module), waits_for):
                near = _suggest(str(patch.module).partition(".")[0], [waits_for.partition(".")[0]])
                problem = (
                    f"patches {patch.address}, which is not in '{waits_for}', the modules named by its distribution in "
                    f"the entry point group {WAITS_FOR}{f'{near} If not,' if near else ';'} remove '{name}' from the "
                    "group or name all modules, and install the distribution anew"
                )
                raise _error(installed, problem)
        before, after = plugin.relations.before, plugin.relations.after
        if not (before or after):
            return patches
        return [
            dataclasses.replace(patch, before=(*patch.before, *before), after=(*patch.after, *after))
            for patch in patches
        ]

    def changed(self, sites: Sequence[Site]) -> list[Exception]:
        """Notify each plugin of changed patches at these sites; return the errors of plugins that fail."""
        errors: list[Exception] = []
        for plugin in self._plugins.values():
            hook = self._hook(plugin, "hookpatch_changed")
            if not hook.get_hookimpls():
                continue
            try:
                call_guarded(hook, sites=tuple(sites))
            except (Exception, KeyboardInterrupt) as error:  # collected: the other plugins are notified, too
                if not is_of_code(error):
                    raise  # of a signal handler: after it the plugins are notified of the change again
                when = f"when told of changes at {', '.join(str(site.slot) for site in sites)}"
                broken = _error(plugin.installed, f"{raised(error)} {when}{text_of(error)}")
                broken.__cause__ = error
                errors.append(broken)
        return errors

    def has_commands_only(self, plugin: Plugin) -> bool:
        """Return True if a plugin has commands and no patches."""
        hooks = [self._hook(plugin, name) for name in ("hookpatch_patches", "hookpatch_commands")]
        return [bool(hook.get_hookimpls()) for hook in hooks] == [False, True]

    def add_commands(self, plugin: Plugin, app: Any) -> None:
        """Add the commands of a plugin to a ``typer.Typer``; raise PluginError if the plugin has none, or fails."""
        missing = f"has no commands; hookpatch run -p {plugin.name} SCRIPT applies its patches"
        hook = self._hook(plugin, "hookpatch_commands", missing)
        with _Asking(plugin.installed, "when asked for its commands"):
            hook(app=app)

    def run_program(self, plugin: Plugin, value: str, run: Any) -> int:
        """Run a program through a plugin, as ``hookpatch run --OPTION VALUE`` asks for; return the status."""
        missing = f"declares {run.option} for hookpatch run, and implements no hookpatch_run"
        (status,) = self._hook(plugin, "hookpatch_run", missing)(value=value, run=run)
        return int(status)

    def _hook(self, plugin: Plugin, name: str, missing: str = "") -> Any:
        """Return the caller of a hook as implemented by one plugin; raise ``missing`` as PluginError if it is not."""
        other_modules = [module for key, module in self._pluggy.list_name_plugin() if key != _key(plugin.installed)]
        hook = self._pluggy.subset_hook_caller(name, other_modules)
        if missing and not hook.get_hookimpls():
            raise _error(plugin.installed, missing)
        return hook


class _Asking:
    """A block that runs code of a plugin. An error of the plugin becomes a PluginError, also SystemExit and the like.

    A plugin must not end the program, by os._exit neither. Ctrl-C and the error of a signal handler pass unchanged.
    """

    def __init__(self, installed: Installed, when: str, remedy: str = "") -> None:
        self._installed, self._when, self._remedy = installed, when, remedy
        self._guard: Final = ExitGuard(_getframe(1))

    def __enter__(self) -> None:
        self._guard.begin()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._guard.end()
        if error is None or isinstance(error, (PluginError, OptionsError)) or not is_of_code(error):
            return
        problem = f"{raised(error)} {self._when}{text_of(error)}{_suggestion_for(error)}"
        raise _error(self._installed, f"{problem}{_line_in(self._installed, error)}{self._remedy}") from error


def _suggestion_for(error: BaseException) -> str:
    """Return the similar name that a traceback would have for a missing attribute."""
    if not isinstance(error, AttributeError) or not error.name:
        return ""
    with ErrorsOfCode(Exception):  # a foreign __dir__
        return _suggest(error.name, call_guarded(dir, error.obj))
    return ""


def _line_in(installed: Installed, error: BaseException) -> str:
    """Return file and line of the plugin's own code that led to an error, as SyntaxError prints them; else nothing."""
    package, place, traceback = installed.module.partition(".")[0], "", error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package:
            place = f" ({os.path.basename(frame.f_code.co_filename)}, line {traceback.tb_lineno})"
        traceback = traceback.tb_next
    return place


_RUN_BY_A_CALL: Final = ("hookpatch_changed", "hookpatch_commands", "hookpatch_run")
_RUN_LATER: Final = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


def _key(installed: Installed) -> str:
    """Return the name of a plugin in pluggy, different for plugins of the same name."""
    return f"{installed.name}@{installed.distribution}"


def _error(installed: Installed, problem: str) -> PluginError:
    return PluginError(installed.name, installed.origin, problem)


def _by_plugin(selection: Selection, names: Mapping[Installed, str]) -> dict[Installed, Mapping[str, Any]]:
    """Return the options of a selection by installed plugin."""
    options: dict[Installed, Mapping[str, Any]] = {}
    for name, values in selection.options.items():
        meant = [installed for installed in names if installed.answers_to(name)]
        if not meant:
            chosen = ", ".join(installed.name for installed in names) or "none"
            raise SettingError("options", f"given for '{name}', which is not among the selected plugins: {chosen}")
        if len(meant) > 1:
            ways = " or ".join(f"'{_key(installed)}'" for installed in meant)
            raise SettingError("options", f"given for '{name}', which names two of the selected plugins; take {ways}")
        if not isinstance(values, Mapping):
            problem = f"they are {a_kind(values)}, not a mapping of names to values"
            raise OptionsError(meant[0].name, meant[0].origin, problem)
        options[meant[0]] = values
    return options


def _is_inside(module: str, waits_for: str) -> bool:
    """Return True if a module, or all modules of a pattern, are in a package, or match the pattern ``waits_for``."""
    is_matched = "*" in waits_for and (
        module == waits_for or ("*" not in module and imports.matches(waits_for, module))
    )
    return is_matched or f"{module}.".startswith(f"{waits_for}.")
