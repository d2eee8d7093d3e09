"""Import the object named by a word of a command: ``package.module:name`` or ``path/to/file.py:name``."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, final

# The prefix of a module's name if the module is loaded from a file, and no import would find the file.
ALONE: Final = "_named_"

Lack = Literal["word", "form", "file", "outside", "folder", "module", "name", "import"]


@final
class NotNamed(Exception):
    """A word names nothing that can be had.

    Attributes:
        lack: what is missing: a colon in the ``word``; the ``form`` of a module's name or of a file's; the ``file``;
            the file, which is ``outside`` of the root; the ``folder`` that is the root; the ``module``; the ``name`` in
            it; or its ``import``, which failed.
        problem: that in words, without what is to be done; empty where an import failed.
        near: a name in the module that is like the one that is missing.
        module: the module that lacks a name.
        error: what an import raised.
    """

    def __init__(
        self,
        lack: Lack,
        problem: str = "",
        *,
        near: str | None = None,
        module: ModuleType | None = None,
        error: BaseException | None = None,
    ) -> None:
        self.lack: Final = lack
        self.problem: Final = problem
        self.near: Final = near
        self.module: Final = module
        self.error: Final = error
        super().__init__(problem)


def named(word: str, root: Path | None = None) -> Any:
    """Import the module of a word and return the named object.

    The folder of the module stays first on ``sys.path``: functions of the module may import other files later.

    Args:
        word: ``package.module:name`` or ``path/to/file.py:name``; the name may have dots.
        root: the folder to import from; None for the current folder, or the folder of a file's outermost package.

    Raises:
        NotNamed: the object is missing, or the import fails.
    """
    where, colon, path = word.rpartition(":")
    if not colon or not where or not path:
        raise NotNamed("word")
    module = _by_file(Path(where), root) if where.endswith(".py") else _by_name(where, root)
    target: Any = module
    for name in path.split("."):
        if not hasattr(target, name):
            near = difflib.get_close_matches(name, [var for var in vars(target) if not var.startswith("_")], 1)
            problem = f"{module.__name__.removeprefix(ALONE)} has no '{path}'"
            raise NotNamed("name", problem, near=near[0] if near else None, module=module)
        target = getattr(target, name)
    return target


def kinds(result: object) -> str:
    """Return the type of a function's result in words: ``None``, ``a Net``, ``(Net, Tensor)``."""
    if isinstance(result, tuple):
        return f"({', '.join(type(element).__name__ for element in result)})"
    return f"a {type(result).__name__}" if result is not None else "None"


def _by_name(name: str, root: Path | None) -> ModuleType:
    if "/" in name or "\\" in name:
        raise NotNamed("form", "is neither a module's name nor a Python file")
    _put_first(root or Path.cwd())
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise NotNamed("import", error=error) from error  # a package around the module needs a missing module
        spec = None
    except (Exception, SystemExit) as error:
        raise NotNamed("import", error=error) from error
    if spec is None:
        raise NotNamed("module", f"no module '{name}' can be imported")
    return _imported(name)


def _by_file(path: Path, root: Path | None) -> ModuleType:
    file = path.resolve()
    if not file.is_file():
        raise NotNamed("file", f"there is no file {path}")
    if root is not None and not file.is_relative_to(root.resolve()):
        raise NotNamed("outside", f"{path} is not under {root}")
    top = root.resolve() if root is not None else _above_packages(file)
    parts = file.relative_to(top).with_suffix("").parts
    _put_first(top)
    if all(part.isidentifier() for part in parts) and _found_at(".".join(parts)) == file:
        return _imported(".".join(parts))
    return _loaded(file)  # the name cannot be imported, or is the name of another module


def _above_packages(file: Path) -> Path:
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _put_first(folder: Path) -> None:
    if not folder.is_dir():
        raise NotNamed("folder", f"there is no folder {folder}")
    if str(folder) not in sys.path[:1]:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()


def _found_at(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (Exception, SystemExit):  # the import itself will raise the error
        return None
    return Path(spec.origin).resolve() if spec is not None and spec.origin is not None else None


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise NotNamed("import", error=error) from error


def _loaded(file: Path) -> ModuleType:
    name = ALONE + "".join(letter if letter.isalnum() else "_" for letter in file.stem)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # the file is a .py file
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look up the module here
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise NotNamed("import", error=error) from error
    return module
