"""All errors and warnings of hookpatch. Each message says who, what, where, and what to do now.

Attributes named ``distribution`` hold a name with its version, and ``asked_by`` the setting or call of the request.

Long because it is the public list of all errors and warnings, to be read from the root down as ``hookpatch.errors``.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # no typing and importlib here: a process may read this file for one line at the end
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Final

importer: Callable[[str], Any] = __import__  # replaced at start-up by ``imports.fetch_ours``, see there


def _suggest(word: str, candidates: Iterable[str], least: float = 0.6, within: str = "") -> str:
    """Return ``; did you mean 'x'?`` for the nearest known word; empty if none is as near as ``least`` (0 to 1).

    ``within``: shown before the word.
    """
    if len(word) > 100:
        return ""  # to compare it would take long
    near = importer("difflib").get_close_matches(
        word, [candidate for candidate in candidates if candidate != word], n=1, cutoff=least
    )
    return f"; did you mean '{within}{near[0]}'?" if near else ""


_MOST: Final = 4_000  # characters of a message


def printable(text: str) -> str:
    """Return a text for a terminal or a log: control characters are escaped, and the middle of a long text is cut.

    Names and messages of others may hold anything: an escape sequence would act on the terminal.
    """
    if len(text) > _MOST:
        text = f"{text[: _MOST // 2]} [{len(text) - _MOST} characters left out] {text[-_MOST // 2 :]}"
    return text if text.isprintable() else "".join(map(_escaped, text))


def one_line(text: str) -> str:
    """Return a text as ``printable`` does, with line breaks escaped, too: a name must not begin a second line."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _escaped(character: str) -> str:
    is_plain = character.isprintable() or character in "\n\t"
    return character if is_plain else character.encode("unicode_escape").decode()


def warn(warning: Warning, past: Sequence[str] = (), source: object = None) -> None:
    """Make a warning at the line that led to hookpatch: a line of the program, of no library on the way.

    Args:
        past: the top-level names of further modules on the way.
        source: the object that a ``ResourceWarning`` speaks of.
    """
    place, registry = _place_of_caller((*_ON_THE_WAY, *past))
    importer("warnings").warn_explicit(warning, None, *place, registry, source=source)


_ON_THE_WAY: Final = ("hookpatch", "pluggy", "contextlib", "importlib")


def _place_of_caller(past: Sequence[str]) -> tuple[tuple[str, int, str], dict[Any, Any]]:
    """Return file, line and module of the first frame past some packages, and the module's register of warnings.

    A function of its own: a warning raised as an error would keep a frame in a local variable of ``warn``.
    """
    frame = sys._getframe(2)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in past:
        frame = frame.f_back
    place = frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__", "<unknown>")
    return place, frame.f_globals.setdefault("__warningregistry__", {})


def for_stderr(error: Exception) -> str:
    """Return the text of an error or warning for stderr: one line that ends with the command that explains it."""
    return f"{one_line(str(error))} [hookpatch explain {type(error).__name__}]"


class HookpatchError(Exception):
    """The root of all errors of hookpatch. Errors keep class, text and attributes when they cross processes.

    A traceback ends with a note: the command that explains the error.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*(printable(arg) if isinstance(arg, str) else arg for arg in args))
        _note_page(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self.args), self.__dict__


def _note_page(error: HookpatchError) -> None:
    error.add_note(f"'hookpatch explain {type(error).__name__}' prints the meaning and the remedy")


def _unpickled(kind: type[HookpatchError], args: tuple[Any, ...]) -> HookpatchError:
    error = kind.__new__(kind)
    error.args = args
    return error


# --- requests


class SelectionError(HookpatchError):
    """A request makes no sense: its names, options or policies."""


class UnknownPlugin(SelectionError):
    """No installed distribution offers a plugin of the requested name.

    Has ``name``, ``asked_by`` and ``installed`` (the names of the installed plugins).
    """

    def __init__(self, name: str, asked_by: str, installed: Sequence[str]) -> None:
        self.name: Final = name
        self.asked_by: Final = asked_by
        self.installed: Final = tuple(installed)
        hint = _hint_for(name, asked_by, installed) or _suggest(name, installed) or ";"
        names = ", ".join(installed) or "none"
        super().__init__(f"no plugin '{name}' (asked for by {asked_by}){hint} installed: {names}")


def _hint_for(name: str, asked_by: str, installed: Sequence[str]) -> str:
    """Return the hint for several names in one, a path, a module or an address; empty for any other name."""
    known = {plugin.replace("-", "_").lower(): plugin for plugin in installed}
    words = "".join(letter if letter.isalnum() or letter in "_-./\\" else " " for letter in name).split()
    if len(words) > 1 and any(word.replace("-", "_").lower() in known for word in words):
        if asked_by.startswith("HOOKPATCH_"):
            return f"; separate names by commas: {','.join(words)};"
        return f"; give each name by itself: {', '.join(map(repr, words))};"
    if ":" in name and "\\" not in name:
        return "; an address goes into a patch, such as hookpatch.wrap(address, wrapper);"
    is_path = "/" in name or "\\" in name or name.endswith(".py")
    parts = name.removesuffix(".py").replace("\\", "/").replace("/", ".").split(".")
    last = parts[-1].replace("-", "_").lower().removeprefix("hookpatch_")
    if last in known:
        return f"; did you mean '{known[last]}'?"
    return (
        "; a path names no plugin: install its folder with pip, 'hookpatch list' then has the name;" if is_path else ""
    )


class UnknownCommand(SelectionError):
    """The word after ``hookpatch`` is neither a command nor a plugin.

    Has ``word``, ``commands`` (all commands) and ``installed`` (the names of the installed plugins).
    """

    def __init__(self, word: str, commands: Sequence[str], installed: Sequence[str]) -> None:
        self.word: Final = word
        self.commands: Final = tuple(commands)
        self.installed: Final = tuple(installed)
        hint = _suggest(word, [*commands, *installed]) or ";"
        if word.endswith(".py"):
            hint = f"; 'hookpatch run {word}' runs a program;"
        super().__init__(
            f"no command and no plugin '{word}'{hint} commands: {', '.join(commands)}; "
            "a plugin's own commands are under its name, and 'hookpatch list' has the names"
        )


class UnknownMessage(SelectionError):
    """``hookpatch explain`` was asked for an unknown error or warning.

    Has ``name`` and ``known`` (the names of all errors and warnings).
    """

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name: Final = name
        self.known: Final = tuple(known)
        hint = _suggest(name, known) or ";"
        super().__init__(f"no error or warning '{name}' is explained here{hint} 'hookpatch explain' lists all")


class AmbiguousPlugin(SelectionError):
    """Several installed distributions offer a plugin of one name.

    Has ``name``, ``asked_by`` and ``distributions`` (the distributions, without versions).
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
    """An allow list of the environment does not name the plugin.

    Has ``name``, ``distribution``, ``asked_by`` and ``problem`` (which list, and the reason).
    """

    def __init__(self, name: str, distribution: str, asked_by: str, problem: str) -> None:
        self.name: Final = name
        self.distribution: Final = distribution
        self.asked_by: Final = asked_by
        self.problem: Final = problem
        super().__init__(f"plugin '{name}' of {distribution} (asked for by {asked_by}) is not allowed here: {problem}")


class MissingPlugin(SelectionError):
    """A plugin needs another plugin, which was not requested.

    Has ``plugin``, ``distribution``, ``needs`` (the name of the needed plugin) and ``asked_by``.
    """

    def __init__(self, plugin: str, distribution: str, needs: str, asked_by: str, way: str) -> None:
        self.plugin: Final = plugin
        self.distribution: Final = distribution
        self.needs: Final = needs
        self.asked_by: Final = asked_by
        super().__init__(f"plugin '{plugin}' of {distribution} (asked for by {asked_by}) needs plugin '{needs}', {way}")


class ConflictingPlugins(SelectionError):
    """A plugin declares a conflict with another requested plugin.

    Has ``plugin``, ``distribution``, ``other`` (the name and distribution of the other plugin) and ``asked_by``.
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
    """An option is unknown to its plugin, or of the wrong type.

    Has ``plugin``, ``distribution`` and ``problem``.
    """

    def __init__(self, plugin: str, distribution: str, problem: str) -> None:
        self.plugin: Final = plugin
        self.distribution: Final = distribution
        self.problem: Final = problem
        super().__init__(f"options of plugin '{plugin}' ({distribution}): {problem}")


class SettingError(SelectionError):
    """An environment variable, an argument of hookpatch or a key of a configuration has an unusable value.

    Has ``setting`` (the variable, the argument, or the key with its file) and ``problem``.
    """

    def __init__(self, setting: str, problem: str) -> None:
        self.setting: Final = setting
        self.problem: Final = problem
        super().__init__(f"{setting}: {problem}")


class NewPluginError(HookpatchError):
    """``hookpatch new`` cannot write a plugin, and has written no file.

    Has ``name`` (the intended name of the plugin) and ``problem``.
    """

    def __init__(self, name: str, problem: str) -> None:
        self.name: Final = name
        self.problem: Final = problem
        super().__init__(f"new plugin '{name}': {problem}")


# --- declarations of plugins and patches


class PluginError(HookpatchError):
    """A plugin could not be loaded, or failed when it was asked for its patches.

    Has ``plugin``, ``distribution`` and ``problem``.
    """

    def __init__(self, plugin: str, distribution: str, problem: str) -> None:
        self.plugin: Final = plugin
        self.distribution: Final = distribution
        self.problem: Final = problem
        super().__init__(f"plugin '{plugin}' ({distribution}) {problem}")


class PatchError(HookpatchError, TypeError):
    """A patch was declared with unusable arguments.

    Has ``verb`` (the function that was called) and ``problem``.
    """

    def __init__(self, verb: str, problem: str) -> None:
        self.verb: Final = verb
        self.problem: Final = problem
        super().__init__(f"{verb}(): {problem}")


class TargetSyntaxError(HookpatchError, ValueError):
    """The address of a target cannot be read.

    Has ``address`` and ``problem``.
    """

    def __init__(self, address: str, problem: str) -> None:
        self.address: Final = address
        self.problem: Final = problem
        end = "" if problem.endswith("?") else ";"
        form = "write module:name, module:Class.method or module:mapping['key']"
        super().__init__(f"target '{address}' {problem}{end} {form}")


# --- the target of a patch


class ApplyError(HookpatchError):
    """A patch could not be applied at its target.

    Has ``target`` (the address), ``owner`` (the plugin or caller of the patch) and ``problem``.
    """

    def __init__(self, target: object, owner: object, problem: str) -> None:
        self.target: Final = str(target)
        self.owner: Final = str(owner)
        self.problem: Final = problem
        super().__init__(f"{problem} (target {target} of {owner})")


class TargetNotFound(ApplyError):
    """The module of a target is there, its name or key is not."""

    def __init__(
        self, target: object, owner: object, where: str, kind: str, name: object, known: Iterable[str], now: str = ""
    ) -> None:
        hint = _suggest(name, known) if isinstance(name, str) else ""
        remedy = f"{hint or ';'} {now}" if now else hint
        super().__init__(target, owner, f"{where} has no {kind} {name!r}{remedy}")


class TargetRefused(ApplyError):
    """The slot of a target must not or cannot be patched."""


class SignatureError(ApplyError):
    """The target's function does not take the arguments that the patch relies on."""


class EditError(ApplyError):
    """The source of the target cannot be edited: the piece is missing, or occurs more often than expected."""


class MatchesError(ApplyError):
    """A rule matches fewer or more slots than its ``matches`` allows."""


class RequirementError(ApplyError):
    """The installed version of a distribution is outside of the versions declared by the patch."""


class DriftError(ApplyError):
    """The target differs from the lock file, and ``on_drift`` is *error*."""


class ConflictError(ApplyError):
    """Two patches put a value into one slot, or inject two for one parameter.

    They are of two plugins that declare no order, or of one owner in one session.
    """


class OrderError(HookpatchError):
    """The ``before`` and ``after`` of several patches on one site, or of their plugins, form a cycle.

    Has ``cycle`` (the plugins, the first repeated at the end) and ``declared`` (who declares each step, in words).
    """

    def __init__(self, site: object, cycle: Sequence[str], declared: Sequence[str]) -> None:
        self.cycle: Final = tuple(cycle)
        self.declared: Final = tuple(declared)
        super().__init__(
            f"the patches on {site} cannot be put in order: {' before '.join(cycle)}; {', '.join(declared)}; drop a "
            "declaration, or leave a plugin out"
        )


class BypassError(HookpatchError):
    """Code is captured past a patch, or a patch cannot be captured: the result would silently lack the patch.

    Has ``target``, ``mode`` (the capturing function, such as ``torch.jit.script``) and ``problem``.
    """

    def __init__(self, target: object, mode: str, problem: str) -> None:
        self.target: Final = str(target)
        self.mode: Final = mode
        self.problem: Final = problem
        super().__init__(f"{mode} would go past the patch of {target} by hookpatch: {problem}")


# --- sessions


class SessionError(HookpatchError):
    """A session was misused, such as on a generator."""


class CallsError(SessionError):
    """Applied patches received fewer calls than required (``required_calls=``) until their session ended.

    Has ``problems`` (each patch with its number of calls).
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems: Final = tuple(problems)
        super().__init__("; ".join(problems))


class NotCarriedError(SessionError):
    """Patches of a block are required in its child processes, and cannot be carried there.

    Has ``problems`` (each patch with the reason).
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems: Final = tuple(problems)
        super().__init__(f"cannot be carried to another process: {'; '.join(problems)}")


class RestoreError(ExceptionGroup[Exception], HookpatchError):
    """Some undos failed at the end of a session; all others were done. Holds one error for each failed undo."""

    def __new__(cls, errors: Sequence[Exception]) -> RestoreError:
        count = "one undo" if len(errors) == 1 else f"{len(errors)} undos"
        return super().__new__(cls, f"{count} failed at the end of a session; everything else was restored", errors)

    def __init__(self, errors: Sequence[Exception]) -> None:
        super().__init__(self.message, errors)
        _note_page(self)  # the __init__ of ExceptionGroup calls no other

    def __reduce__(self) -> tuple[Any, ...]:
        return RestoreError, (list(self.exceptions),)

    def derive(self, errors: Sequence[Any], /) -> RestoreError:  # type: ignore[override]  # typeshed's is generic
        """Return a group of the same class for a part of the errors, as ``except*`` needs it."""
        return RestoreError(errors)


# --- warnings


class HookpatchWarning(UserWarning):
    """The root of all warnings of hookpatch."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*(printable(arg) if isinstance(arg, str) else arg for arg in args))


class PatchFailedWarning(HookpatchWarning):
    """A patch could not be applied when its module was imported: the program goes on without the patch.

    Remedy: the message holds the error that ``active`` would have raised; correct the patch, or declare it
    ``required=False`` if the program may run without it.
    """


class PatchUnneededWarning(HookpatchWarning):
    """A patch's ``until`` is met: the installed version no longer needs it. Or the slot already held the patch's value.

    Remedy: stop selecting the plugin, or ask its author to narrow ``requires``.
    """


class DriftWarning(HookpatchWarning):
    """A patch was applied to a target that differs from the lock file.

    Remedy: look at the difference (``hookpatch check``); if the patch still fits, write the lock file anew.
    """


class BypassWarning(HookpatchWarning):
    """Code is captured past a patch, or runs a patch more than once, and hookpatch cannot prevent this.

    Remedy: patch the caller of the target instead, or capture while the patch is off.
    """


class NeverCalledWarning(HookpatchWarning):
    """A required patch whose calls were counted was applied and received no call until its session ended.

    Remedy: the target was not called, or its callers hold the original from before: look at the patch's stale holders
    in the report, and consider ``reach="everywhere"``.
    """


class NeverOpenedWarning(HookpatchWarning):
    """A session made by ``active`` was dropped without being opened: no patch was applied.

    Remedy: write ``with hookpatch.active(...):``, or ``@hookpatch.active(...)`` above a function.
    """


class SecondCopyWarning(HookpatchWarning):
    """hookpatch was reloaded, or imported a second time from another folder: the process keeps the first copy.

    Remedy: start a new process for changed files; keep a single copy on ``sys.path``. Has ``second``, the copy or
    module that was not used.
    """

    def __init__(self, second: str, first: str, is_reload: bool) -> None:
        self.second: Final = second
        done = "executed anew" if is_reload else "used"
        reason = f"a process keeps its first copy, which knows the open sessions: {first}"
        super().__init__(f"{second} was not {done}: {reason}; start a new process")


class UnknownModuleWarning(HookpatchWarning):
    """A required patch waited in vain for a module that does not exist; a module of a similar name does.

    Remedy: correct the address, install the module, or declare ``required=False``.
    """


class TooFewMatchesWarning(HookpatchWarning):
    """A required rule matched fewer slots than its ``matches`` says until its session ended.

    Remedy: correct the address by what the message names as near, or say with ``matches`` how few may be there.
    """


class NotCarriedWarning(HookpatchWarning):
    """A child process starts inside a block, and some of the block's patches cannot be carried to it.

    Remedy: define the functions of the patch in a module that the child process can import, or make it a plugin.
    ``children="local"`` carries no patches, without a warning; ``children="require"`` makes this an error on entering.
    """


class LateWarning(HookpatchWarning):
    """A patch was applied long after its module was imported, by a finder before hookpatch's.

    Remedy: import the module before the session is opened, or put the other finder on ``sys.meta_path`` before that.
    """


class OutlivedWarning(HookpatchWarning):
    """An interpreter of this process was made inside a block, and keeps the patches after the block's end.

    Remedy: close the interpreter inside the block; with ``children="local"`` it runs without the patches.
    """


class DisplacedWarning(HookpatchWarning):
    """At the end of a session a slot held another value than that of the patch, and was left alone.

    Remedy: undo the other patch of the same slot before this session ends.
    """
