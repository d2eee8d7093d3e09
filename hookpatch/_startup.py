"""Apply the plugins and blocks requested by the environment, at the start of the interpreter; or refuse the program.

The line in hookpatch.pth calls ``main``. Each start imports this file, with os and sys alone; other files are imported
only when plugins are requested. The only file that replaces functions of the module ``site``, until site calls them.

Long because a further file would slow each start.
"""

from __future__ import annotations

import _thread
import os
import sys

from hookpatch._bootstrap import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from hookpatch._bootstrap.imports import Watch

_begun = False
_session: Any = None  # held for the life of the process
_NEEDED: Final = ("pluggy", "wrapt", "packaging", "msgspec")  # imported by a session, beside the standard library
_waiting: Final[list[Watch]] = []  # watches of the packages that the plugins wait for; empty once a session is open
_put_off_lines: Final[list[str]] = []  # written at the end if no session was opened
_late: Final = _thread.RLock()  # held while the session is opened in the midst of the program
_is_opening = False
_PATIENCE: Final = 10.0  # seconds


def main(site_is_done: bool = False) -> None:
    """Apply what the environment requests, now if all .pth files have been read (``site_is_done``), else afterwards.

    In a virtual environment the start-up line runs twice; the second call does nothing.
    """
    global _begun
    if _begun or not environment.asks_for_patches():
        return
    _begun = True
    from hookpatch._bootstrap.program import INSTALLERS, NOT_PATCHED, known_program  # here: most starts need no plugin

    program = known_program(sys.orig_argv)
    if program in INSTALLERS:
        environment.forget()  # an installer and all started builds must run unpatched
        return
    if program in ("multiprocessing.spawn", "multiprocessing.forkserver"):
        # Open blocks come with each process object; a fork server outlives the block in which the server was started.
        environment.take_variable(environment.INHERIT)
    if program in NOT_PATCHED:
        return
    if loader := environment.read(environment.LOADING):  # a plugin runs Python when loaded: here, too, without end
        from hookpatch._bootstrap.stderr import of_this_process, write_line

        why = f"process {loader} started this process while loading its plugins; a plugin must not run Python then"
        return write_line(f"nothing is patched: {why}", kind="warning", speaker=of_this_process())
    if site_is_done:
        _apply()
    else:
        _after_site(_apply)


def _apply() -> None:
    """Open a session for the rest of this process, now or when a target is imported; refuse the program on an error."""
    try:
        import atexit

        from hookpatch._bootstrap import imports, selection

        if selection.asked_names() and environment.is_first():
            atexit.register(_end, os.getpid())  # before the functions of the program: called after all of them
        imports.trust()
        try:
            is_put_off = _put_off()
        except Exception:
            is_put_off = False  # _open will raise the error again
        if not is_put_off:
            _open()
    except BaseException as error:  # raised here it would be a fatal error of the interpreter, without a hint at us
        try:
            _end_program_for(error)
            from hookpatch._bootstrap.imports import begun

            if not begun("site"):  # Python would end with a fatal error
                raise error
        except BaseException:  # a plugin has broken imports, or emptied the list of modules
            asked_by = f"{environment.PLUGINS}={environment.read(environment.PLUGINS)}"
            text = f"{type(error).__name__}: {error} ({asked_by}); set {environment.DISABLE}=1 to run without patches"
            os.write(2, f"hookpatch: error: start-up failed: {ascii(text)[1:-1]}\n".encode())
            os._exit(78)


def _end_program_for(error: BaseException) -> None:
    from hookpatch._bootstrap.interrupts import is_of_code
    from hookpatch._bootstrap.stderr import EXIT_STATUS, INTERRUPTED

    is_ctrl_c = isinstance(error, KeyboardInterrupt) and not is_of_code(error)
    if is_ctrl_c or getattr(error, "code", None) == EXIT_STATUS:  # or the program was refused already

        def end_program() -> None:
            raise SystemExit(INTERRUPTED if is_ctrl_c else EXIT_STATUS)

        return _when_run(end_program)
    message = _message(error)
    if message is not None:
        _refuse(message)


def _message(error: BaseException) -> str | None:
    """Return why the program cannot run as requested; None if it may, with a warning written here."""
    from hookpatch.errors import HookpatchError, for_stderr

    if isinstance(error, HookpatchError):
        return for_stderr(error)
    problem = f"start-up failed: {type(error).__name__}: {error}"
    if environment.read(environment.ON_ERROR) != "warn":
        return f"{problem}; set {environment.DISABLE}=1 to run without patches"
    from hookpatch._bootstrap.stderr import write_line

    write_line(f"nothing is patched: {problem}", kind="warning")
    return None


def _put_off() -> bool:
    """Wait for the imports of the packages awaited by all plugins; return False if a plugin is needed at once.

    A process without an awaited package imports no plugin. The names of the plugins are checked now.
    """
    if environment.report_folder() or environment.counts() or environment.inherits():
        return False
    from hookpatch._bootstrap import imports
    from hookpatch._bootstrap import selection as _selection
    from hookpatch._bootstrap.installed import check_allowed, check_config, find

    selection = _selection.from_environment()
    check_config()
    _selection.on_error()
    _selection.lock()
    if not selection.names and not selection.options:
        return True  # a configuration without plugins
    modules = {}
    for name in selection.names:
        plugin = find(name, selection.asked_by)
        check_allowed(plugin, selection.asked_by)
        modules[plugin.waits_for] = True
        why = f"was never applied: the program did not import {plugin.waits_for}"
        _put_off_lines.append(f"plugin '{plugin.name}' from {plugin.origin}: {why}")
    if selection.options or "" in modules or any(map(imports.begun, modules)):
        return False
    packages = {module.partition(".")[0] for module in modules}
    if "*" in "".join(packages) or not packages.isdisjoint(_NEEDED) or not packages.isdisjoint(sys.stdlib_module_names):
        return False  # in the midst of the import hookpatch could not be imported
    _waiting.extend(imports.foresee(module, open_postponed) for module in modules)
    # A block of the program opens the session, too: patches of the block lie over patches of the environment.
    _waiting.append(imports.watch("hookpatch._processes.children", open_postponed))
    return True


def _end(process: int) -> None:
    """Report patches never applied or called too seldom, at the end of the program."""
    if os.getpid() != process or hasattr(sys, "last_value"):
        return  # a forked child, or a program that ended early, with an error
    try:
        _report_end()
    except Exception as error:
        from hookpatch._bootstrap.stderr import warn_of_end  # here: most starts write no message

        warn_of_end(error)


def _report_end() -> None:
    if _waiting:
        from hookpatch._bootstrap.stderr import of_this_process, write_line  # here: most starts write no message

        write_line(*_put_off_lines, kind="warning", speaker=of_this_process())
    elif _session is not None:
        from hookpatch._bootstrap import imports

        with imports.for_ourselves():
            from hookpatch._processes.exit import write_shortfalls
        imports.notify_late()
        write_shortfalls(_session)


def open_postponed(_: object = None) -> None:
    """Open a session that was put off, mostly in the midst of an import; end the program on an error."""
    global _is_opening
    if not _waiting or not _late.acquire(timeout=_PATIENCE):
        return  # or two imports would wait for each other: of this thread, and of the thread that opens the session
    try:
        if _waiting and not _is_opening:
            _is_opening = True
            try:
                _or_exit(_open)
            finally:  # not before: other threads importing an awaited package must wait until the session is open
                for watch in _waiting:
                    watch.cancel()
                _waiting.clear()
    finally:
        _late.release()


def _open() -> None:
    global _session
    from hookpatch._bootstrap import imports, selection

    folder = environment.report_folder()
    with imports.for_ourselves():
        from hookpatch import errors
        from hookpatch._session.load import session_of_environment
        from hookpatch.errors import HookpatchError, for_stderr

        if folder is not None:
            from hookpatch._processes.receipt import write_reports_in

            report_file = write_reports_in(folder)
            if names := selection.asked_names():
                report_file.begin_step(f"load {', '.join(names)}")
    errors.importer = imports.fetch_ours
    try:
        environment.set_variables({environment.LOADING: str(os.getpid())})
        try:
            with imports.for_ourselves():
                session = session_of_environment()
            _session = session.open()
        finally:
            environment.take_variable(environment.LOADING)
        if folder is not None:
            report_file.end_step()
        if environment.inherits():
            from hookpatch._processes.children import open_inherited

            if (open_rest := open_inherited()) is not None:
                _when_run(lambda: _or_exit(open_rest))
    except HookpatchError as error:
        if folder is not None:
            report_file.note(str(error))
            report_file.end_step()
        if selection.on_error() == "exit":
            raise
        from hookpatch._bootstrap.stderr import write_line

        write_line(f"nothing is patched: {for_stderr(error)}", kind="warning")
        return
    if environment.counts():
        import atexit

        from hookpatch._bootstrap.stderr import call_at_end
        from hookpatch._processes.exit import write_calls

        atexit.register(call_at_end, write_calls, _session)


def _or_exit(open_it: Callable[[], None]) -> None:
    try:
        open_it()
    except Exception as error:
        from hookpatch._bootstrap.interrupts import is_of_code

        if not is_of_code(error):
            raise
        if (message := _message(error)) is not None:
            from hookpatch._bootstrap.stderr import refusal

            raise refusal(message) from None


def _after_site(action: Callable[[], None]) -> None:
    """Call a function after the last .pth file has been read: editable plugins are on sys.path only then.

    The last acts of site are to run sitecustomize and, if enabled, usercustomize.
    """
    import site

    if not (hasattr(site, "execsitecustomize") and hasattr(site, "execusercustomize")):
        action()  # an unknown Python: now or never
        return
    original = {"execsitecustomize": site.execsitecustomize, "execusercustomize": site.execusercustomize}

    def sitecustomize() -> None:
        site.execsitecustomize = original["execsitecustomize"]
        original["execsitecustomize"]()
        if not site.ENABLE_USER_SITE:
            site.execusercustomize = original["execusercustomize"]
            action()

    def usercustomize() -> None:
        site.execusercustomize = original["execusercustomize"]
        original["execusercustomize"]()
        action()

    site.execsitecustomize = sitecustomize
    site.execusercustomize = usercustomize


def _refuse(message: str) -> None:
    """End the program before its first line runs, with one line on stderr and status 78.

    site would print an error raised here and go on. In a subinterpreter each further action raises an error.
    """
    from hookpatch._bootstrap.interpreters import is_main
    from hookpatch._bootstrap.stderr import refusal, write_line

    if is_main():

        def refuse() -> None:
            raise refusal(message)

        _when_run(refuse)
        return
    write_line(f"in a subinterpreter: {message}", kind="error")

    def hook(event: str, args: object) -> None:
        if not event.startswith("cpython."):
            raise RuntimeError(f"hookpatch: {message}")

    sys.addaudithook(hook)


def _when_run(action: Callable[[], None]) -> None:
    """Call a function once, when the program is about to run: with its folder on sys.path, before the first line."""
    from hookpatch._bootstrap.interpreters import is_main

    fired = False
    anything = not is_main()  # a subinterpreter runs no program: its first action counts

    def hook(event: str, args: object) -> None:
        nonlocal fired
        if not fired and (anything or event.startswith("cpython.run_")):
            fired = True
            action()

    sys.addaudithook(hook)  # can end the program cleanly, and cannot be removed: set only where needed
