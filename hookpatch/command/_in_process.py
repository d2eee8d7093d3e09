"""Runs a program in this very process, as ``python`` would run it: for debuggers that are attached to it."""

from __future__ import annotations

import linecache
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from types import TracebackType
from typing import Any, Final
from zipfile import is_zipfile

from hookpatch._imports import new_main

# The private functions of runpy are those that `python` itself calls for -m, a folder and a zip file.
_runpy: Any = runpy


class Program(BaseException):
    """A program that is to be run when the command itself is through: typer would take Ctrl-C for its own."""

    def __init__(self, words: list[str]) -> None:
        self.words: Final = words
        super().__init__(words)


def run_program(words: list[str]) -> None:
    """Run a script, ``-m MODULE``, ``-c CODE`` or ``-`` with its arguments; end with its exit status.

    ``__main__`` is a new module and stays it, so that its classes can be pickled until the very end.

    Raises:
        SystemExit: that of the program; or 1 after an error, of which the traceback was printed as Python does.
        KeyboardInterrupt: the program's, likewise.
    """
    try:
        _run(words)
    except SystemExit:
        raise
    except BaseException as error:
        error.with_traceback(_of_program(error.__traceback__))
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__  # as Python does
        sys.excepthook(type(error), error, error.__traceback__)
        if isinstance(error, KeyboardInterrupt):
            sys.excepthook = lambda *_: None  # it is printed; the interpreter ends as the signal has it
            raise
        raise SystemExit(1) from None


def _run(words: list[str]) -> None:
    first, rest = words[0], words[1:]
    if first.startswith("-m"):
        name, *rest = [first[2:], *rest] if first[2:] else rest
        _begin([name, *rest], os.getcwd())
        _runpy._run_module_as_main(name)
    elif first.startswith("-c"):
        text, *rest = [first[2:], *rest] if first[2:] else rest
        if sys.version_info >= (3, 13):  # from there on tracebacks show the lines of such code
            linecache.cache["<string>"] = len(text), None, text.splitlines(keepends=True), "<string>"
        _execute(text, "<string>", _begin(["-c", *rest], ""))
    elif first == "-":
        main = _begin(words, "")
        main.update(__file__="<stdin>", __cached__=None)
        _execute(sys.stdin.read(), "<stdin>", main)
    elif os.path.isdir(first) or (os.path.isfile(first) and is_zipfile(first)):
        path = os.path.abspath(first)
        _begin(words, path)
        if path not in sys.path[:1]:
            sys.path.insert(0, path)  # -P leaves that one on
        _runpy._run_module_as_main("__main__", alter_argv=False)
    else:
        path = os.path.join(os.getcwd(), first)
        main = _begin(words, os.path.dirname(os.path.realpath(first)))
        main.update(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))
        try:
            with open(first, "rb") as file:
                content = file.read()
        except OSError as error:
            why = f"[Errno {error.errno}] {error.strerror}"
            sys.stderr.write(f"{sys.executable}: can't open file {path!r}: {why}\n")
            raise SystemExit(2) from None
        _execute(content, path, main)


def _begin(argv: list[str], folder: str) -> dict[str, Any]:
    """Set what a program finds; return the names of its ``__main__``."""
    sys.argv = argv
    if not sys.flags.safe_path:
        sys.path[0] = folder  # it was that of the command
    return vars(new_main())


def _execute(text: str | bytes, name: str, main: dict[str, Any]) -> None:
    exec(compile(text, name, "exec"), main)


def _of_program(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of ours, and of runpy, that it begins with."""
    ours = (os.path.dirname(__file__), os.path.dirname(runpy.__file__) + os.sep + "runpy", "<frozen runpy")
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(ours):
        traceback = traceback.tb_next
    return traceback
