"""Execute a module by the module's own loader, with changed source.

A copy of the loader gets a compiler that changes the text first. The copy also gets a failing `path_stats`, so
importlib reads and writes no bytecode file. Loaders that rewrite source still do.
"""

from __future__ import annotations

import ast
import io
import itertools
import linecache
import tokenize
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from importlib.machinery import SourceFileLoader
from importlib.util import decode_source
from types import CodeType, ModuleType
from typing import Any, Final, Protocol, final

from hookpatch._bootstrap.interrupts import ErrorsOfCode, is_interrupt
from hookpatch._engine.source.pieces import lines_of
from hookpatch.errors import ApplyError, EditError

_numbers: Final = itertools.count(1)


class Change(Protocol):
    """A change of the source of a module; ``loading.Change`` explains the attributes."""

    runs: bool

    @property
    def owner(self) -> str: ...
    def check(self) -> None: ...
    def fail(self, error: ApplyError, /) -> None: ...
    def changed(self, text: str, file: str, before: Sequence[tuple[str, str]]) -> str: ...


class NoChangeFits(Exception):
    """No change fits the source of a module that has run unchanged."""


@final
class Compiling:
    """An execution of a module with changed source.

    Attributes:
        files: the names of the changed text in linecache.
    """

    def __init__(self, name: str, loader: Any, changes: Sequence[Change], is_entering: bool) -> None:
        """Compile a module by a loader; ``is_entering``: the module has run; raise NoChangeFits if none fits."""
        self._name: Final = name
        self._loader: Final = loader
        self._waiting: Sequence[Change] = changes
        self._is_entering: Final = is_entering
        self.files: list[str] = []

    def execute(self, module: ModuleType) -> None:
        """Execute the module; errors of the module's code and of a change's ``fail`` are raised."""
        own = self._with_our_compiler()
        if own is not None:
            own.exec_module(module)
        elif self._is_executed_as_usual and (text := self._text()) is not None:
            file = str(getattr(module, "__file__", None) or self._name)
            # The loader compiles by itself, for example the loader of zipimport.
            code = self._compiled(text, file, lambda new, shown: compile(new, shown, "exec", dont_inherit=True))
            exec(code, vars(module))
        else:
            self._refuse(f"{self._kind} has no Python source of it, or compiles by itself")
            self._loader.exec_module(module)
        self._refuse(f"{self._kind} compiles by itself, and has executed the module as it is")

    @property
    def _kind(self) -> str:
        kind = self._loader if isinstance(self._loader, type) else type(self._loader)
        return f"its loader ({kind.__module__}.{kind.__qualname__})"

    @property
    def _is_executed_as_usual(self) -> bool:
        return getattr(type(self._loader), "exec_module", None) is SourceFileLoader.exec_module

    def _refuse(self, problem: str) -> None:
        waiting, self._waiting = self._waiting, ()
        for change in waiting:
            change.fail(EditError(self._name, change.owner, problem))

    def _text(self) -> str | None:
        text = None
        with ErrorsOfCode(AttributeError, ImportError, OSError):
            text = self._loader.get_source(self._name)
        return text if isinstance(text, str) else None

    def _with_our_compiler(self) -> Any:
        """Return a copy of the loader that compiles the changed text; None if no copy can do this."""
        if not all(hasattr(self._loader, name) for name in ("source_to_code", "get_code", "exec_module")):
            return None
        if self._text() is None:
            return None  # a file of bytecode alone
        try:
            own = copy(self._loader)
            attributes, original, get_code = vars(own), own.source_to_code, own.get_code
        except Exception as error:  # a foreign __copy__ failed, or the loader takes no attribute
            if is_interrupt(error):
                raise
            return None

        def source_to_code(data: Any, path: Any = "<string>", *args: Any, **kwargs: Any) -> CodeType:
            if not isinstance(data, (str, bytes, bytearray, memoryview)):
                code: CodeType = original(data, path, *args, **kwargs)
                return code
            text = data if isinstance(data, str) else decode_source(bytes(data))

            def by_loader(new: str, shown: str) -> CodeType:
                code: CodeType = original(new if isinstance(data, str) else _as_bytes(new), shown, *args, **kwargs)
                return code

            return self._compiled(text, str(path), by_loader)

        def path_stats(path: Any) -> Any:
            raise OSError("no bytecode is read or written for a source that is changed")

        def checked_code(fullname: str) -> Any:
            code = get_code(fullname)
            self._refuse(f"{self._kind} compiles by itself")  # before the module runs
            return code

        attributes.update(source_to_code=source_to_code, path_stats=path_stats, get_code=checked_code)
        return own

    def _compiled(self, text: str, file: str, compiler: Callable[[str, str], CodeType]) -> CodeType:
        waiting, self._waiting = self._waiting, ()
        try:
            ast.parse(text, file)
        except SyntaxError:
            return compiler(text, file)  # raises the error of the module itself
        before: list[tuple[str, str]] = []
        applied: list[Change] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # the compiler warns once
            for change in waiting:
                try:
                    change.check()
                    new = change.changed(text, file, before)
                except ApplyError as error:
                    change.fail(error)
                    continue
                before.append((change.owner, text))
                applied.append(change)
                text = new
        if not applied:
            if self._is_entering:
                raise NoChangeFits
            return compiler(text, file)
        owners = ", ".join(dict.fromkeys(change.owner for change in applied))
        # In angle brackets: the sign for coverage and other tools that no file has this name.
        shown = f"<{file.strip('<>')}, edited by {owners}, {next(_numbers)}>"
        code = compiler(text, shown)
        lines = lines_of(text)
        # Under the file's own name, too: inspect finds the source of a class and of the module by this name.
        self.files = [shown, file]
        for name in self.files:
            linecache.cache[name] = len(text), None, lines, name
        for change in applied:
            change.runs = True
        return code


def _as_bytes(text: str) -> bytes | str:
    """Return a text in the encoding named in the text; the unchanged text if the encoding lacks a letter."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(text.encode()).readline)
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return text
