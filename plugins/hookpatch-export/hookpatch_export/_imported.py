"""The module that holds a model: by its name, or by its file, as its own package would import it."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

from hookpatch_export.errors import ModelError

HOW: Final = "write package.module:Model or path/to/file.py:Model"


def by_name(word: str, name: str, root: Path | None) -> ModuleType:
    """Import a module by its name, from ``root`` or the current folder or where Python finds it.

    Raises:
        ModelError: there is none, or its import fails.
    """
    if "/" in name or "\\" in name:
        raise ModelError(word, f"is neither a module's name nor a Python file; {HOW}")
    with _first_on_path(word, root or Path.cwd()):
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise _failed(word, error) from error  # a package on the way to it needs what is not there
            found = None
        except (Exception, SystemExit) as error:
            raise _failed(word, error) from error
        if found is None:
            raise ModelError(
                word, f"no module '{name}' can be imported; name a file, or the folder it is in with --root"
            )
        return _imported(word, name)


def by_file(word: str, path: Path, root: Path | None) -> ModuleType:
    """Import a module by its file, as part of its package: what it imports beside it is found.

    Raises:
        ModelError: there is no such file, it is not under ``root``, or its import fails.
    """
    file = path.resolve()
    if not file.is_file():
        raise ModelError(word, f"there is no file {path}; {HOW}")
    if root is not None and not file.is_relative_to(root.resolve()):
        raise ModelError(word, f"{path} is not under --root {root}; name a folder that it is in")
    top = root.resolve() if root is not None else _above_packages(file)
    parts = file.relative_to(top).with_suffix("").parts
    with _first_on_path(word, top):
        if all(part.isidentifier() for part in parts) and _found_at(".".join(parts)) == file:
            return _imported(word, ".".join(parts))
        return _loaded(word, file)  # its name is none that can be imported, or another module's


def _above_packages(file: Path) -> Path:
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


@contextlib.contextmanager
def _first_on_path(word: str, folder: Path) -> Iterator[None]:
    """Have a folder first on ``sys.path``. It stays there: what is imported later, by a forward, is there, too."""
    if not folder.is_dir():
        raise ModelError(word, f"there is no folder {folder}; name one with --root")
    if str(folder) not in sys.path[:1]:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    yield


def _found_at(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (Exception, SystemExit):  # the import itself will tell
        return None
    return Path(spec.origin).resolve() if spec is not None and spec.origin is not None else None


def _imported(word: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise _failed(word, error) from error


def _loaded(word: str, file: Path) -> ModuleType:
    name = "_scanned_" + "".join(letter if letter.isalnum() else "_" for letter in file.stem)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # it is a .py file
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look for it there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _failed(word, error) from error
    return module


def _failed(word: str, error: BaseException) -> ModelError:
    if isinstance(error, SyntaxError) and error.filename is not None:
        return ModelError(word, f"cannot be imported: {error.msg} ({error.filename}:{error.lineno}); mend that line")
    now = "install what is missing, or name the folder it is in with --root" if isinstance(error, ImportError) else ""
    return ModelError(word, f"cannot be imported: {said(error)}; {now or 'mend it, so that python can import it'}")


def said(error: BaseException) -> str:
    """Return an error's class, its first line, and the line of the user's code that it comes from."""
    first = str(error).strip().partition("\n")[0]
    text = f"{type(error).__name__}: {first}" if first else type(error).__name__
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not _is_ours(one.filename)]
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno})" if frames else text


def _is_ours(file: str) -> bool:
    return file.startswith("<frozen") or Path(file).parent == Path(__file__).parent or "importlib" in Path(file).parts
