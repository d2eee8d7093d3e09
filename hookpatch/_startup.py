"""What the start-up line calls: apply what the environment asks for, or refuse the program before it starts.

Imported at interpreter start, with os and sys alone; all else follows only when plugins are asked for. The one place
that sets two functions of the module ``site``, for the time until it has called them.

Long because each file costs each start of a patched interpreter: what may have to happen before the first line of a
program runs is in this one.
"""

from __future__ import annotations

import _thread
import os
import sys

from hookpatch import _environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from hookpatch._imports import Watch

# What is in hookpatch.pth; hookpatch doctor compares.
LINE = (
    'import os, sys; any(map(os.environ.get, ("HOOKPATCH_PLUGINS", "HOOKPATCH_CONFIG", "HOOKPATCH_INHERIT"))) and '
    'not sys.flags.ignore_environment and __import__("hookpatch._startup", fromlist=["main"]).main()\n'
)
_OF_MULTIPROCESSING = tuple(f"multiprocessing.{name}" for name in ("resource_tracker", "spawn", "forkserver"))

_begun = False
_session: Any = None  # held for the life of the process
_NEEDED: Final = ("pluggy", "wrapt", "packaging", "msgspec")  # by what opens a session, beside the standard library
_waiting: Final[list[Watch]] = []  # for what the plugins wait for; while there is one they are not there
_put_off_now: Final[list[str]] = []  # what is to be said of them if that stays so
_late: Final = _thread.RLock()  # held while they are loaded in the midst of the program
_is_opening = False
_PATIENCE: Final = 10.0  # seconds


def main(site_is_done: bool = False) -> None:
    """Do what the environment asks for, once all .pth files have been read.

    In a virtual environment the start-up line runs twice; the second run does nothing.

    Args:
        site_is_done: True when they have been.
    """
    global _begun
    if _begun or not _environment.asked():
        return
    _begun = True
    program = _program(sys.orig_argv)
    if program in ("pip", "ensurepip"):
        _environment.forget()  # an installer must run unpatched, and so must the builds it starts
        return
    if program in ("multiprocessing.spawn", "multiprocessing.forkserver"):
        # What blocks hand on comes with each process; a fork server outlives the block in which it was started.
        _environment.take_inherited()
    if program not in ("hookpatch", "multiprocessing.resource_tracker"):
        if site_is_done:
            _apply()
        else:
            _after_site(_apply)


def _apply() -> None:
    try:
        begin()
    except Exception as error:  # raised here it would be a fatal error of the interpreter, without a hint at us
        from hookpatch.errors import HookpatchError, for_stderr

        if isinstance(error, HookpatchError):
            said = for_stderr(error)
        else:
            what = f"{type(error).__name__}: {error}"
            said = f"start-up failed: {what}; set {_environment.DISABLE}=1 to run without patches"
        _refuse(said)


def begin() -> None:
    """Have what the environment asks for, for the rest of this process; leave a receipt if one is asked for.

    Raises:
        HookpatchError: something of it cannot be had, and HOOKPATCH_ON_ERROR does not say to go on.
    """
    import atexit

    from hookpatch import _imports, _selection  # here and below: an empty wish costs no import

    if _selection.asked_names() and _environment.is_first():
        atexit.register(_end, os.getpid())  # before the program's own: what is registered first is called last
    _imports.trust()
    try:
        is_put_off = _put_off()
    except Exception:
        is_put_off = False  # it is found again, and said, on the way that all else goes
    if not is_put_off:
        _open()


def _put_off() -> bool:
    """Wait until a package is imported that the plugins wait for, if all of them declare one; return False if not.

    So a process that imports none of them imports nothing of ours but this. What can be wrong with a name is found
    now; options, reports and what blocks hand on need the plugins at once.
    """
    if _environment.report_folder() or _environment.counts() or _environment.inherits():
        return False
    from hookpatch import _imports, _selection
    from hookpatch._discovery import check_allowed, check_config, find

    selection = _selection.from_environment()
    check_config()
    _selection.on_error()
    _selection.lock()
    if not selection.names and not selection.options:
        return True  # a configuration that asks for no plugin
    modules = {}
    for name in selection.names:
        plugin = find(name, selection.asked_by)
        check_allowed(plugin, selection.asked_by)
        modules[plugin.waits_for] = True
        _put_off_now.append(f"plugin '{plugin.name}' from {plugin.origin}: never bound: {plugin.waits_for}")
    if selection.options or "" in modules or any(map(_imports.begun, modules)):
        return False
    packages = {module.partition(".")[0] for module in modules}
    if not packages.isdisjoint(_NEEDED) or not packages.isdisjoint(sys.stdlib_module_names):
        return False  # in the midst of that import we could not be imported ourselves
    _waiting.extend(_imports.foresee(module, _open_late) for module in modules)
    # Or until somebody hands blocks on to this process: they lie over what it was started with.
    _waiting.append(_imports.watch("hookpatch._children", _open_late))
    return True


def _end(process: int) -> None:
    """Say at the program's end what has not become of its patches, and see to its status."""
    if os.getpid() != process or hasattr(sys, "last_value"):
        return  # a forked child; or it ended with an error, and did not get so far
    if _waiting:
        from hookpatch._stderr import of_this_process, say  # here and below: most starts have nothing to say

        say(*(f"{said} not imported" for said in _put_off_now), kind="warning", who=of_this_process())
    elif _session is not None:
        from hookpatch import _imports

        with _imports.for_ourselves():
            from hookpatch._exit import tell_at_end
        tell_at_end(_session)


def open_now() -> None:
    """Open what has been put off, if something has: somebody begins with patches of his own, or asks for a report."""
    if _waiting:
        _open_late(None)


def _open_late(_: object) -> None:
    """Open what has been put off, in the midst of an import; end the program if that cannot be."""
    global _is_opening
    if not _late.acquire(timeout=_PATIENCE):
        return  # an import of this thread and one of the thread that opens it wait for each other
    try:
        if _waiting and not _is_opening:
            _is_opening = True
            try:
                _or_exit(_open)
            finally:  # not before: other threads that import such a package are to wait until it is open
                for wish in _waiting:
                    wish.cancel()
                _waiting.clear()
    finally:
        _late.release()


def _open() -> None:
    """Open it.

    Raises:
        HookpatchError: as ``begin``.
    """
    global _session
    from hookpatch import _imports, _selection

    folder = _environment.report_folder()
    with _imports.for_ourselves():
        from hookpatch._load import session_of_environment
        from hookpatch.errors import HookpatchError, for_stderr

        if folder is not None:
            from hookpatch._receipt import leave_in

            receipt = leave_in(folder)
    try:
        with _imports.for_ourselves():
            session = session_of_environment()
        _session = session.open()
        if _environment.inherits():
            from hookpatch._children import open_inherited

            if (open_rest := open_inherited()) is not None:
                _when_run(lambda: _or_exit(open_rest))
    except HookpatchError as error:
        if folder is not None:
            receipt.say(str(error))
        if _selection.on_error() == "exit":
            raise
        from hookpatch._stderr import say

        say(f"nothing is patched: {for_stderr(error)}", kind="warning")
        return
    if _environment.counts():
        from hookpatch._receipt import tell_calls_at_exit

        tell_calls_at_exit(_session)


def _or_exit(open_it: Callable[[], None]) -> None:
    from hookpatch.errors import HookpatchError, for_stderr

    try:
        open_it()
    except HookpatchError as error:
        from hookpatch._stderr import refusal

        raise refusal(for_stderr(error)) from None


def _after_site(then: Callable[[], None]) -> None:
    """Call ``then`` when the module site has done its work: editable plugins are on sys.path only then.

    Before Python 3.15 this runs from a .pth line, with the later .pth files still to come. The last things site does
    are to run sitecustomize and, where it is enabled, usercustomize.
    """
    if sys.version_info >= (3, 15):
        then()  # called from a .start file: all .pth files have been read (PEP 829)
        return
    import site

    original = {"execsitecustomize": site.execsitecustomize, "execusercustomize": site.execusercustomize}

    def sitecustomize() -> None:
        site.execsitecustomize = original["execsitecustomize"]
        original["execsitecustomize"]()
        if not site.ENABLE_USER_SITE:
            site.execusercustomize = original["execusercustomize"]
            then()

    def usercustomize() -> None:
        site.execusercustomize = original["execusercustomize"]
        original["execusercustomize"]()
        then()

    site.execsitecustomize = sitecustomize
    site.execusercustomize = usercustomize


def _refuse(message: str) -> None:
    """End the program before its first line runs, with one line on stderr and status 78.

    An error raised here would be printed by site and forgotten, and SystemExit would be a fatal error with status 1.
    """

    def refuse() -> None:
        from hookpatch._stderr import refusal

        raise refusal(message)

    _when_run(refuse)


def _when_run(then: Callable[[], None]) -> None:
    """Call something once when the program is about to run: its folder is on sys.path, no line of it has run.

    By an audit hook, which can end the program cleanly; it cannot be removed, so it is set only where it must be.
    """
    fired = False

    def hook(event: str, args: object) -> None:
        nonlocal fired
        if not fired and event.startswith("cpython.run_"):
            fired = True
            then()

    sys.addaudithook(hook)


def _program(argv: list[str]) -> str:
    """Return what an interpreter's command line runs: a module's name, a script's base name, or ``-c``."""
    words = iter(argv[1:])
    for word in words:
        if word == "--" or not word.startswith("-") or word == "-":
            script = next(words, "") if word == "--" else word
            name = os.path.splitext(os.path.basename(script))[0]
            if name == "__main__":
                name = os.path.basename(os.path.dirname(script))
            return "pip" if name.rstrip("0123456789.") == "pip" else name
        if word.startswith("--"):
            if word == "--check-hash-based-pycs":
                next(words, "")
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in "mc":
                rest = word[at:] or next(words, "")
                if letter == "m":
                    return rest
                return next((name for name in _OF_MULTIPROCESSING if f"from {name} import" in rest), "-c")
            if letter in "WX":
                if not word[at:]:
                    next(words, "")
                break
    return ""
