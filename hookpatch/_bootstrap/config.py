"""Read and check ``[tool.hookpatch]`` of a TOML file.

Imports tomllib, os and stat alone, since the file may be read at interpreter start.
"""

from __future__ import annotations

import os
import tomllib

from hookpatch._bootstrap.files import read_given
from hookpatch._bootstrap.interrupts import ErrorsOfCode, is_interrupt
from hookpatch.errors import SettingError, _suggest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

TABLE: Final = "tool.hookpatch"
NAME: Final = "pyproject.toml"

_OPTIONS: Final = "options"
_KEYS: Final = ("allow", "lock", "on_drift", "on_error", _OPTIONS, "plugins")
_POLICIES: Final = {"on_error": ("exit", "warn"), "on_drift": ("warn", "skip", "error")}
_KINDS: Final[dict[type, str]] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a float",
    list: "an array",
    dict: "a table",
}


class Config:
    """The table of one file. Frozen by convention; a process keeps the first one read from a path.

    Policies, the lock file (as an absolute path) and the allow list are None where the file does not set them.
    """

    __slots__ = ("allow", "lock", "on_drift", "on_error", "options", "path", "plugins")

    def __init__(self, path: str, table: Mapping[str, Any]) -> None:
        self.path: Final = path
        self.plugins: Final[list[str]] = table.get("plugins", [])
        self.options: Final[dict[str, dict[str, Any]]] = table.get(_OPTIONS, {})
        self.on_error: Final[str | None] = table.get("on_error")
        self.on_drift: Final[str | None] = table.get("on_drift")
        lock = table.get("lock")
        self.lock: Final = lock and os.path.normpath(os.path.join(os.path.dirname(path), lock))
        self.allow: Final[list[str] | None] = table.get("allow")

    def where(self, *keys: str) -> str:
        """Return a key with its file, for messages."""
        return _where(self.path, *keys)


def read_config(path: str, asked_by: str) -> Config:
    """Return the configuration of a file named by the setting ``asked_by``; raise SettingError for an unusable file."""
    if not os.path.isabs(path):
        remedy = f'write "$PWD/{path}"' if os.name != "nt" else "write the path with drive and folder"
        problem = f"'{path}' is no absolute path, and child processes may have other current folders; {remedy}"
        raise SettingError(asked_by, problem)
    try:
        content = toml_of(read_given(path))
    except FileNotFoundError:
        raise SettingError(asked_by, f"there is no file {path}") from None
    except OSError as error:
        if is_interrupt(error):
            raise
        raise SettingError(asked_by, f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SettingError(path, f"the file is no TOML: {error}") from None
    table = _table_of(content)
    if table is None:
        raise SettingError(path, f"the file has no table [{TABLE}]; {asked_by} takes a file with such a table")
    _check(path, table)
    return Config(path, table)


def nearest_config(folder: str) -> str | None:
    """Return the nearest pyproject.toml with a table [tool.hookpatch], in a folder or above; None if none has.

    A file with the word hookpatch that is no TOML is returned, too: reading the file then raises the error.
    """
    while True:
        path = os.path.join(folder, NAME)
        with ErrorsOfCode(OSError):  # no such file, or not readable
            content = read_given(path)
            try:
                if b"hookpatch" in content and _table_of(toml_of(content)) is not None:
                    return path
            except ValueError:
                return path
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def toml_of(content: bytes) -> dict[str, Any]:
    """Return the value of a TOML file; raise ValueError for other content, and for tables nested too deep."""
    try:
        return tomllib.loads(content.decode())
    except RecursionError as error:
        raise ValueError(str(error)) from None


def _table_of(content: Mapping[str, Any]) -> Any:
    tool = content.get("tool")
    return tool.get("hookpatch") if isinstance(tool, dict) else None


def _check(path: str, table: Any) -> None:
    if not isinstance(table, dict):
        raise _wrong(_where(path), "a table", table)
    for key, value in table.items():
        where = _where(path, key)
        if key not in _KEYS:
            keys = ", ".join(_KEYS)
            raise SettingError(where, f"there is no such key{_suggest(key, _KEYS) or ';'} there are {keys}")
        if key == _OPTIONS:
            form = "a table for each plugin, such as [tool.hookpatch.options.onnxsim_skip]"
            if not isinstance(value, dict):
                raise _wrong(where, form, value)
            for name, options in value.items():
                if not isinstance(options, dict):
                    raise _wrong(_where(path, key, name), form, options)
        elif key in ("allow", "plugins"):
            form = 'an array of plugin names, such as ["fuse_qkv_off"]'
            if not isinstance(value, list):
                raise _wrong(where, form, value)
            for name in value:
                if not isinstance(name, str) or not name.strip():
                    raise _wrong(where, form, name, "an array with ")
        elif not isinstance(value, str) or not value:
            raise _wrong(where, _takes(key), value)
        elif key in _POLICIES and value not in _POLICIES[key]:
            raise SettingError(where, f"'{value}' is not a policy; it takes {_takes(key)}")


def _takes(key: str) -> str:
    if key not in _POLICIES:
        return "a path, from the folder of this file"
    *values, last = _POLICIES[key]
    return f"{', '.join(values)} or {last}"


def _wrong(where: str, takes: str, value: object, inside: str = "") -> SettingError:
    kind = "an empty string" if value == "" else _KINDS.get(type(value), "a date or time")
    return SettingError(where, f"it takes {takes}, not {inside}{kind}")


def _where(path: str, *keys: str) -> str:
    return f"{path}: {'.'.join((TABLE, *keys))}"
