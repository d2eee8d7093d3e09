"""What can go wrong, each with its own class: who, what, where, and what now.

Long because it is the public list of all errors and warnings, a class for each with nothing but its message: it is
read as one, from the root down, and ``hookpatch.errors`` is the name by which users know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final


def _suggest(word: str, known: Iterable[str], least: float = 0.6) -> str:
    """Return ``; did you mean 'x'?`` for the known word nearest to ``word``; nothing if none is so near (0 to 1)."""
    from hookpatch import _imports

    with _imports.for_ourselves():
        import difflib  # only the failing path pays for it

    near = difflib.get_close_matches(word, [other for other in known if other != word], n=1, cutoff=least)
    return f"; did you mean '{near[0]}'?" if near else ""


def for_stderr(error: Exception) -> str:
    """Return the text of an error or warning for stderr: its first line ends with what to type to read more of it."""
    first, *rest = str(error).split("\n")
    return "\n".join([f"{first} [hookpatch explain {type(error).__name__}]", *rest])


class HookpatchError(Exception):
    """The root of all errors of hookpatch. They keep class, text and attributes when they cross processes.

    A traceback ends with a note that says what to type to read more.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        _note_page(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self.args), self.__dict__


def _note_page(error: HookpatchError) -> None:
    error.add_note(f"'hookpatch explain {type(error).__name__}' tells what it means, and what to do")


def _unpickled(kind: type[HookpatchError], args: tuple[Any, ...]) -> HookpatchError:
    error = kind.__new__(kind)
    error.args = args
    return error


# --- what was asked for


class SelectionError(HookpatchError):
    """What was asked for makes no sense: the names, the options or the policy."""


class UnknownPlugin(SelectionError):
    """No installed distribution offers a plugin of that name.

    Attributes:
        name: the name asked for.
        asked_by: where it was asked for.
        installed: the names of the installed plugins.
    """

    def __init__(self, name: str, asked_by: str, installed: Sequence[str]) -> None:
        self.name: Final = name
        self.asked_by: Final = asked_by
        self.installed: Final = tuple(installed)
        there = ", ".join(installed) or "none"
        hint = _suggest(name, installed) or ";"
        super().__init__(f"no plugin '{name}' (asked for by {asked_by}){hint} installed: {there}")


class UnknownCommand(SelectionError):
    """A word after ``hookpatch`` that is neither a command nor a plugin.

    Attributes:
        word: the word.
        commands: the commands there are.
        installed: the names of the installed plugins.
    """

    def __init__(self, word: str, commands: Sequence[str], installed: Sequence[str]) -> None:
        self.word: Final = word
        self.commands: Final = tuple(commands)
        self.installed: Final = tuple(installed)
        hint = _suggest(word, [*commands, *installed]) or ";"
        super().__init__(
            f"no command and no plugin '{word}'{hint} commands: {', '.join(commands)}; "
            f"a plugin's own commands are under its name, installed: {', '.join(installed) or 'none'}"
        )


class UnknownMessage(SelectionError):
    """``hookpatch explain`` was asked for a message that nobody has written.

    Attributes:
        name: the name asked for.
        known: the names of the errors and warnings there are.
    """

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name: Final = name
        self.known: Final = tuple(known)
        hint = _suggest(name, known) or ";"
        super().__init__(f"no error or warning '{name}' is explained here{hint} 'hookpatch explain' lists all")


class AmbiguousPlugin(SelectionError):
    """Two installed distributions offer a plugin of one name.

    Attributes:
        name: the name asked for.
        asked_by: where it was asked for.
        distributions: the distributions that offer it.
    """

    def __init__(self, name: str, asked_by: str, distributions: Sequence[str]) -> None:
        self.name: Final = name
        self.asked_by: Final = asked_by
        self.distributions: Final = tuple(distributions)
        ways = " or ".join(f"'{name}@{distribution}'" for distribution in distributions)
        super().__init__(
            f"plugin '{name}' (asked for by {asked_by}) is offered by {len(distributions)} distributions: "
            f"{', '.join(distributions)}; ask for {ways}, or uninstall one"
        )


class NotAllowed(SelectionError):
    """The environment has a list of the plugins that may be used there, and this one is not on it.

    Attributes:
        name: the plugin's name.
        distribution: the distribution that offers it, with its version.
        asked_by: where it was asked for.
        problem: which list, and what it says.
    """

    def __init__(self, name: str, distribution: str, asked_by: str, problem: str) -> None:
        self.name: Final = name
        self.distribution: Final = distribution
        self.asked_by: Final = asked_by
        self.problem: Final = problem
        super().__init__(f"plugin '{name}' of {distribution} (asked for by {asked_by}) is not allowed here: {problem}")


class MissingPlugin(SelectionError):
    """A plugin needs another one, which is not on: nothing is switched on that was not asked for.

    Attributes:
        plugin: the name of the plugin that needs it.
        distribution: the distribution that offers that, with its version.
        needs: the name of what it needs.
        asked_by: where the plugin was asked for.
    """

    def __init__(self, plugin: str, distribution: str, needs: str, asked_by: str, way: str) -> None:
        self.plugin: Final = plugin
        self.distribution: Final = distribution
        self.needs: Final = needs
        self.asked_by: Final = asked_by
        super().__init__(f"plugin '{plugin}' of {distribution} (asked for by {asked_by}) needs plugin '{needs}', {way}")


class ConflictingPlugins(SelectionError):
    """Two plugins are to be on of which one declares that it cannot be on together with the other.

    Attributes:
        plugin: the name of the plugin that declares it.
        distribution: the distribution that offers it, with its version.
        other: the other plugin's name, and its distribution with its version.
        asked_by: where they were asked for.
    """

    def __init__(
        self, plugin: str, distribution: str, declared: str, other: tuple[str, str], asked_by: str, way: str
    ) -> None:
        self.plugin: Final = plugin
        self.distribution: Final = distribution
        self.other: Final = other
        self.asked_by: Final = asked_by
        super().__init__(
            f"plugin '{plugin}' of {distribution} and plugin '{other[0]}' of {other[1]} (asked for by {asked_by}) "
            f"cannot be on together: '{plugin}' declares conflicts='{declared}'; {way}"
        )


class OptionsError(SelectionError):
    """Options for a plugin that it does not have, or of the wrong type.

    Attributes:
        plugin: the plugin's name.
        distribution: the distribution that offers it, with its version.
        problem: what is wrong.
    """

    def __init__(self, plugin: str, distribution: str, problem: str) -> None:
        self.plugin: Final = plugin
        self.distribution: Final = distribution
        self.problem: Final = problem
        super().__init__(f"options of plugin '{plugin}' ({distribution}): {problem}")


class SettingError(SelectionError):
    """An environment variable, an argument of hookpatch's own or a key of a configuration holds what it cannot use.

    Attributes:
        setting: the variable, the argument, or the key with its file.
        problem: what is wrong with it, and what it takes.
    """

    def __init__(self, setting: str, problem: str) -> None:
        self.setting: Final = setting
        self.problem: Final = problem
        super().__init__(f"{setting}: {problem}")


class NewPluginError(HookpatchError):
    """``hookpatch new`` cannot write what it was asked for, and has written nothing.

    Attributes:
        name: the name that the plugin was to have.
        problem: what is wrong.
    """

    def __init__(self, name: str, problem: str) -> None:
        self.name: Final = name
        self.problem: Final = problem
        super().__init__(f"new plugin '{name}': {problem}")


# --- what plugins and patches declare


class PluginError(HookpatchError):
    """A plugin could not be loaded, or what it yields is not a patch.

    Attributes:
        plugin: the plugin's name.
        distribution: the distribution that offers it, with its version.
        problem: what went wrong.
    """

    def __init__(self, plugin: str, distribution: str, problem: str) -> None:
        self.plugin: Final = plugin
        self.distribution: Final = distribution
        self.problem: Final = problem
        super().__init__(f"plugin '{plugin}' ({distribution}) {problem}")


class PatchError(HookpatchError, TypeError):
    """A patch was declared with arguments that can mean nothing.

    Attributes:
        verb: the verb that was called.
        problem: what is wrong.
    """

    def __init__(self, verb: str, problem: str) -> None:
        self.verb: Final = verb
        self.problem: Final = problem
        super().__init__(f"{verb}(): {problem}")


class TargetSyntaxError(HookpatchError, ValueError):
    """A target's address cannot be read.

    Attributes:
        address: the address as it was given.
        problem: what is wrong with it.
    """

    def __init__(self, address: str, problem: str) -> None:
        self.address: Final = address
        self.problem: Final = problem
        end = "" if problem.endswith("?") else ";"
        form = "write module:name, module:Class.method or module:mapping['key']"
        super().__init__(f"target '{address}' {problem}{end} {form}")


# --- what a patch meets at its target


class ApplyError(HookpatchError):
    """A patch could not be applied at its target.

    Attributes:
        target: the target's address.
        owner: the plugin or caller that asked for it.
        problem: what is wrong, and what now.
    """

    def __init__(self, target: object, owner: object, problem: str) -> None:
        self.target: Final = str(target)
        self.owner: Final = str(owner)
        self.problem: Final = problem
        super().__init__(f"{problem} (target {target} of {owner})")


class TargetNotFound(ApplyError):
    """The module is there, the name or key in it is not."""

    def __init__(
        self, target: object, owner: object, where: str, kind: str, name: object, known: Iterable[str]
    ) -> None:
        hint = _suggest(name, known) if isinstance(name, str) else ""
        super().__init__(target, owner, f"{where} has no {kind} {name!r}{hint}")


class TargetRefused(ApplyError):
    """The slot is there but must not or cannot be patched."""


class SignatureError(ApplyError):
    """The target's function does not take the arguments that the patch relies on."""


class RequirementError(ApplyError):
    """The installed version of a distribution is not one that the patch was made for."""


class DriftError(ApplyError):
    """The target is no longer what was locked, and ``on_drift`` is *error*."""


class ConflictError(ApplyError):
    """Two plugins want to put a value of their own into one slot, and neither declares its place."""


class OrderError(HookpatchError):
    """The ``before`` and ``after`` of several patches on one site, or of their plugins, form a cycle.

    Attributes:
        cycle: the plugins around the cycle, the first repeated at the end.
        declared: who declares each step of it, in words.
    """

    def __init__(self, site: object, cycle: Sequence[str], declared: Sequence[str]) -> None:
        self.cycle: Final = tuple(cycle)
        self.declared: Final = tuple(declared)
        super().__init__(
            f"the patches on {site} cannot be put in order: {' before '.join(cycle)}; {', '.join(declared)}; "
            "drop one of these, or leave one of the plugins out"
        )


class BypassError(HookpatchError):
    """What captures code would go past a patch, or cannot take it up: a result without the patch would say nothing.

    Attributes:
        target: what is patched.
        mode: what captures it, such as ``torch.jit.script``.
        problem: why, and what now.
    """

    def __init__(self, target: object, mode: str, problem: str) -> None:
        self.target: Final = str(target)
        self.mode: Final = mode
        self.problem: Final = problem
        super().__init__(f"{mode} would go past the patch of {target} by hookpatch: {problem}")


# --- spans


class SessionError(HookpatchError):
    """A session was used in a way that it cannot be, such as opened twice."""


class CallsError(SessionError):
    """Patches were applied and received fewer calls than they require (``required_calls=``) until their session ended.

    Attributes:
        problems: which ones, and how many they received.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems: Final = tuple(problems)
        super().__init__("; ".join(problems))


class NotCarriedError(SessionError):
    """A block's patches are to hold in the processes that it starts, and some cannot be carried there.

    Attributes:
        problems: what cannot be carried, and why.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems: Final = tuple(problems)
        super().__init__(f"cannot be carried to another process: {'; '.join(problems)}")


class RestoreError(ExceptionGroup[Exception], HookpatchError):
    """Some undos failed at the end of a session; all others were done. Holds one error for each."""

    def __new__(cls, errors: Sequence[Exception]) -> RestoreError:
        count = "one undo" if len(errors) == 1 else f"{len(errors)} undos"
        return super().__new__(cls, f"{count} failed at the end of a session; everything else was restored", errors)

    def __init__(self, errors: Sequence[Exception]) -> None:
        super().__init__(self.message, errors)
        _note_page(self)  # the group's own __init__ asks no other

    def __reduce__(self) -> tuple[Any, ...]:
        return RestoreError, (list(self.exceptions),)

    def derive(self, errors: Sequence[Any], /) -> RestoreError:  # type: ignore[override]  # typeshed's is generic
        """Return a group of the same class for a part of the errors, as ``except*`` needs it."""
        return RestoreError(errors)


# --- warnings


class HookpatchWarning(UserWarning):
    """The root of all warnings of hookpatch."""


class PatchFailedWarning(HookpatchWarning):
    """A patch could not be applied when its module was imported: the program goes on without it.

    Remedy: the message holds the error that ``active`` would have raised; mend the patch, or declare it
    ``required=False`` if the program may run without it.
    """


class PatchUnneededWarning(HookpatchWarning):
    """A patch's ``until`` is met: the installed version no longer needs it.

    Remedy: stop selecting the plugin, or ask its author to narrow ``requires``.
    """


class DriftWarning(HookpatchWarning):
    """A patch was applied to a target that is no longer what was locked.

    Remedy: look at the difference (``hookpatch check``); where the patch still fits, write the lock file anew.
    """


class BypassWarning(HookpatchWarning):
    """Something that captures code would go past a patch, or run it more than once, and cannot be kept from it.

    Remedy: patch what calls the target instead, or capture where the patch is not on.
    """


class NeverCalledWarning(HookpatchWarning):
    """A required patch whose calls were counted was applied and received none until its session ended.

    Remedy: nothing called what it patches, or whoever did had taken the original before: look at the patch's stale
    holders in the report, and consider ``reach="everywhere"``.
    """


class NeverOpenedWarning(HookpatchWarning):
    """What ``active`` returned was dropped, and nothing was patched: it had not been opened.

    Remedy: write ``with hookpatch.active(...):``, or ``@hookpatch.active(...)`` above a function.
    """


class UnknownModuleWarning(HookpatchWarning):
    """A required patch waited for a module until its session ended: there is none of that name, but of nearly that.

    Remedy: correct the address; or install what has the module, or say ``required=False``.
    """


class NotCarriedWarning(HookpatchWarning):
    """A process is started inside a block, and some of the block's patches cannot be carried to it.

    Remedy: define what the patch is made of in a module that the process can import, or make it a plugin; with
    ``children="local"`` nothing is carried and nothing said, with ``children="require"`` it is an error on entering.
    """


class DisplacedWarning(HookpatchWarning):
    """At the end of a session a slot no longer held what the patch put there, and was left alone.

    Remedy: end the span of whoever patched the same slot before this session ends.
    """
