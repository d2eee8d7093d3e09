"""The model that a word of the command line names: a class, an instance, or a function that makes one."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, final

from hookpatch_export.errors import ModelError

_HOW: Final = "write package.module:Model or path/to/file.py:Model"


@final
@dataclass(frozen=True)
class Named:
    """A model that was named, and its inputs where a function gave them, too.

    Attributes:
        word: what was written.
        model: a subclass of ``torch.nn.Module`` or an instance of one.
        inputs: the arguments of its ``forward``; None when there are none.
        keywords: those by keyword.
    """

    word: str
    model: Any
    inputs: tuple[Any, ...] | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)


def named(word: str, root: Path | None) -> Named:
    """Return what a word names; what its module prints while it is imported goes to stderr.

    Args:
        word: ``package.module:Model`` or ``path/to/file.py:Model``; Model is a class, an instance, or a function
            without arguments that returns a module, ``(module, inputs)`` or ``(module, inputs, keywords)``.
        root: the folder that the file's package is imported from; None for the one that holds its outermost package.

    Raises:
        ModelError: there is no such thing, its import or the function fails, or it is no module.
    """
    where, colon, path = word.rpartition(":")
    if not colon or not where or not path:
        raise ModelError(word, f"names no model; {_HOW}")
    with contextlib.redirect_stdout(sys.stderr):
        module = _of_file(word, Path(where), root) if where.endswith(".py") else _of_name(word, where, root)
        return _made(word, _attribute(word, module, path))


def _of_name(word: str, name: str, root: Path | None) -> ModuleType:
    if "/" in name or "\\" in name:
        raise ModelError(word, f"is neither a module's name nor a Python file; {_HOW}")
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


def _of_file(word: str, path: Path, root: Path | None) -> ModuleType:
    file = path.resolve()
    if not file.is_file():
        raise ModelError(word, f"there is no file {path}; {_HOW}")
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


def _attribute(word: str, module: ModuleType, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        if not hasattr(found, name):
            near = difflib.get_close_matches(name, [other for other in vars(found) if not other.startswith("_")], 1)
            hint = f"did you mean '{near[0]}'?" if near else _offer(module)
            raise ModelError(word, f"{module.__name__.removeprefix('_scanned_')} has no '{path}'; {hint}")
        found = getattr(found, name)
    return found


def _offer(module: ModuleType) -> str:
    import torch

    own = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, torch.nn.Module) and value.__module__ == module.__name__
    ]
    return f"it has {', '.join(sorted(own))}" if own else "it has no subclass of torch.nn.Module"


def _made(word: str, found: Any) -> Named:
    import torch

    if isinstance(found, torch.nn.Module) or (isinstance(found, type) and issubclass(found, torch.nn.Module)):
        return Named(word, found)
    kind = f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"
    if not isinstance(found, FunctionType):
        raise ModelError(word, f"is {kind}, no torch.nn.Module; name a module, its class, or a function that makes one")
    try:
        made = found()
    except (Exception, SystemExit) as error:
        raise ModelError(word, f"raised {said(error)}; mend the function, it is called without arguments") from error
    model, *more = made if isinstance(made, tuple) and made else (made,)
    if not isinstance(model, torch.nn.Module) or len(more) > 2:
        raise ModelError(
            word, f"returned {_kinds(made)}; return a module, (module, inputs) or (module, inputs, keywords)"
        )
    inputs, keywords = more[0] if more else None, more[1] if len(more) == 2 else {}
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)  # as torch.onnx.export takes it
    if not isinstance(inputs, tuple | None) or not isinstance(keywords, Mapping):
        raise ModelError(
            word, f"returned {_kinds(made)}; the inputs are a tensor or a tuple, the keywords a dict of them by name"
        )
    return Named(word, model, inputs, keywords)


def _kinds(made: Any) -> str:
    if isinstance(made, tuple):
        return f"({', '.join(type(one).__name__ for one in made)})"
    return f"a {type(made).__name__}" if made is not None else "None"
