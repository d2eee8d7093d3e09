"""Change the source of a module before the module runs, in memory."""

from __future__ import annotations

import ast
import importlib
import linecache
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, Final, Protocol, TypeAlias, final
from weakref import WeakValueDictionary

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import Turn, is_interrupt
from hookpatch._engine.patch.describe import a_kind
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.process_end import call_guarded, raised, text_of
from hookpatch._engine.source.compiling import Compiling, NoChangeFits
from hookpatch._engine.source.pieces import Source, UnfitEdit, lines_of, replaced
from hookpatch.errors import ApplyError, ConflictError, EditError


class RequestedEdit(Protocol):
    """The part of a layer that a change reads."""

    @property
    def patch(self) -> Patch: ...
    @property
    def owner(self) -> str: ...


Order: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]  # puts layers in order, the outermost first
_lock: Final = Turn()
_changes: Final[dict[str, tuple[Change, ...]]] = {}  # by module, the innermost first
_shown: Final[dict[str, list[str]]] = {}  # by module, the names of files that linecache shows changed
_entering: Final[set[str]] = set()  # modules run anew for changes that may not fit


@final
class Change:
    """A change of the source of a module. Lives as long as the session.

    Attributes:
        layer: the patch, its owner and its place among others.
        check: called before the source is changed; raises an ApplyError if the change must not be made.
        fail: called with an ApplyError where the change does not fit the source.
        runs: True if the module runs the source as changed.
    """

    __slots__ = ("_added", "_module", "check", "fail", "layer", "runs")

    def __init__(self, layer: RequestedEdit, check: Callable[[], None], fail: Callable[[ApplyError], None]) -> None:
        self.layer: Final = layer
        self.check: Final = check
        self.fail: Final = fail
        self.runs = False
        self._module: Final = str(layer.patch.module)
        self._added: dict[str, Any] = {}  # attributes that the changed source has added

    @property
    def owner(self) -> str:
        """The plugin or the block, in words for messages."""
        return self.layer.owner

    def begin(self, ordered: Order) -> None:
        """Change the source at each execution of the module from now on; errors of ``ordered`` are raised."""
        with _lock:
            changes = [*reversed(_changes.get(self._module, ())), self]
            of_layer = {id(change.layer): change for change in changes}
            in_order = [of_layer[id(layer)] for layer in ordered([change.layer for change in changes])]
            _changes[self._module] = tuple(reversed(in_order))
            imports.execute_by(self._module, _execute)

    def end(self) -> None:
        """Stop changing the source at further executions of the module; a second call has no effect."""
        with _lock:
            remaining = tuple(change for change in _changes.get(self._module, ()) if change is not self)
            if remaining:
                _changes[self._module] = remaining
            elif _changes.pop(self._module, None) is not None:
                # The executor stays until the module has run unchanged: `_execute` drops the changed text of linecache.
                imports.execute_by(self._module, _execute if self._module in _shown else None)

    def run_again(self, is_entering: bool = False) -> None:
        """Execute the module anew, first without the added attributes; errors of the module's code are raised.

        ``is_entering``: do not execute the module if no change fits.
        """
        module = imports.module_named(self._module)
        if module is None:
            return
        ran = {*_running.get(self._module, ()), self}
        for name, value in [added for change in ran for added in change._added.items()]:
            if vars(module).get(name) is value:
                del vars(module)[name]
        _forget(self._module)
        _entering.add(self._module) if is_entering else None
        try:
            with suppress(NoChangeFits):
                importlib.reload(module)
        except BaseException:  # an interrupt there may leave the note of a running reload: later ones would do nothing
            importlib._RELOADING.pop(self._module, None)  # type: ignore[attr-defined]  # has no public name
            raise
        finally:
            _entering.discard(self._module)
        for change in ran.difference(_changes.get(self._module, ())):  # last: an interrupted call is repeated
            change.runs = False

    def note_added(self, before: Collection[str], module: ModuleType) -> None:
        """Note the attributes that the changed source has added to the module."""
        # A submodule is set by the submodule's own import, which a further execution does not repeat.
        added = {key: value for key, value in vars(module).items() if not isinstance(value, ModuleType)}
        self._added = {key: value for key, value in added.items() if key not in before or key in self._added}

    def changed(self, text: str, file: str, before: Sequence[tuple[str, str]]) -> str:
        """Return the changed text; ``before``: the owner of each earlier change, with the text before that change.

        Raises:
            EditError: the text lacks the piece, or the changed text is no source.
            ConflictError: the text had the piece before another patch changed the text.
            ApplyError: the function raised an error.
        """
        patch, owner = self.layer.patch, self.layer.owner
        try:
            new = _edited(text, file, patch) if patch.verb == "edit" else self._transformed(text, file)
            try:
                tree = ast.parse(new)  # without a file name: the error would show a line of the file
            except SyntaxError as error:
                line = f"line {error.lineno}: {(error.text or '').strip()!r}"
                raise UnfitEdit(f"what comes of the {patch.verb} cannot be read: {error.msg} ({line})") from None
            if ast.dump(tree) == ast.dump(ast.parse(text, file)):
                raise UnfitEdit(f"the {patch.verb} changes no code that runs")
        except UnfitEdit as problem:
            for other_owner, earlier in reversed(before) if patch.verb == "edit" else ():
                with suppress(UnfitEdit):
                    _edited(earlier, file, patch)
                    raise ConflictError(
                        patch.address, owner, f"{other_owner} edits the same lines; select only one of the two edits"
                    ) from None
            raise EditError(patch.address, owner, str(problem)) from None
        return new

    def _transformed(self, text: str, file: str) -> str:
        patch = self.layer.patch
        try:
            result = call_guarded(patch.change, ast.parse(text, file) if patch.is_tree else text)
        except Exception as error:
            if is_interrupt(error):
                raise
            problem = f"the function {raised(error)}{text_of(error)}"
            raise ApplyError(patch.address, self.layer.owner, problem) from error
        if not isinstance(result, ast.Module if patch.is_tree else str):
            raise UnfitEdit(
                f"the function returned {a_kind(result)}, not {'an ast.Module' if patch.is_tree else 'text'}"
            )
        try:
            return result if isinstance(result, str) else ast.unparse(result) + "\n"
        except Exception as error:  # the tree is malformed
            if is_interrupt(error):
                raise
            raise UnfitEdit(f"the function returned a tree that cannot be written: {error}") from None


def _edited(text: str, file: str, patch: Patch) -> str:
    return replaced(Source(text, ast.parse(text, file), 1, len(lines_of(text))), patch.change)


def who_changed(module: str) -> list[str]:
    """Return the changes that a module runs, in words; an empty list if another module now has the name."""
    if _changed.get(module) is not imports.module_named(module):
        return []
    return [f"{change.layer.patch.verb} by {change.layer.owner}" for change in _running.get(module, ())]


_running: Final[dict[str, tuple[Change, ...]]] = {}  # by module
_changed: Final[WeakValueDictionary[str, ModuleType]] = WeakValueDictionary()  # the modules themselves


def _execute(loader: Any, module: ModuleType) -> None:
    """Execute a module by the module's loader, with the changes of the source."""
    name = module.__name__ if module.__spec__ is None else module.__spec__.name
    changes = _changes.get(name, ())
    for change in changes:
        change.runs = False
    _forget(name)
    if not changes:
        imports.execute_by(name, None)
        return loader.exec_module(module)  # type: ignore[no-any-return]
    names = dict.fromkeys(vars(module))
    compiling = Compiling(name, loader, changes, is_entering=name in _entering)
    try:
        compiling.execute(module)
    finally:
        _shown[name] = compiling.files
    _running[name], _changed[name] = tuple(change for change in changes if change.runs), module
    for change in _running[name]:
        change.note_added(names.keys(), module)
    return None


def _forget(module: str) -> None:
    """Forget the changed source of a module before a new execution."""
    _running.pop(module, None)
    for file in _shown.pop(module, ()):
        linecache.cache.pop(file, None)
