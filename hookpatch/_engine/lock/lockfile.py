"""Read and write the lock file: the fingerprints of all targets of some plugins, as once reviewed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, final

from hookpatch._bootstrap.config import toml_of
from hookpatch._bootstrap.files import read_given
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.lock.fingerprint import Fingerprint
from hookpatch._engine.patch.patch import Patch
from hookpatch.errors import SettingError

NAME: Final = "hookpatch.lock"
_FORMAT: Final = 1
_HEAD: Final = """\
# What the targets of these plugins were like: written by `hookpatch lock`, compared by `hookpatch check`.
# Sources are without comments and docstrings.
"""
_COMMA: Final = ",\n    "
_TEXTS: Final = frozenset({"kind", "distribution", "version", "signature", "source"})
_ORDER: Final = ("distribution", "version", "patches", "kind", "signature", "members", "keys", "hash", "source")


@final
@dataclass(frozen=True, slots=True)
class Locked:
    """One target in a lock file. Frozen."""

    fingerprint: Fingerprint
    patches: tuple[str, ...] = ()  # the plugins and verbs that patch the target, in words


@final
@dataclass(frozen=True, slots=True)
class Lock:
    """The content of a lock file. Frozen."""

    plugins: tuple[str, ...]  # names
    options: Mapping[str, Mapping[str, Any]]  # by plugin and name
    targets: Mapping[str, Locked]  # by address
    path: str = NAME

    def to_toml(self) -> str:
        """Return the file's content, sorted by address; raise SettingError for an option that TOML cannot hold."""
        parts = [f"{_HEAD}\nformat = {_FORMAT}\nplugins = {_value(sorted(self.plugins))}\n"]
        for plugin, options in sorted(self.options.items()):
            parts.append(_table(f"options.{_key(plugin)}", sorted(options.items())))
        for address, locked in sorted(self.targets.items()):
            parts.append(_table(f"target.{_key(address)}", _rows(locked)))
        return "\n".join(parts)


def read_lock(path: str) -> Lock:
    """Return the content of a lock file; raise SettingError for a missing or malformed file."""
    try:
        content = toml_of(read_given(path))
        if content["format"] != _FORMAT:
            raise ValueError(f"the format is {content['format']!r}, and this hookpatch reads {_FORMAT}")
        targets = {address: _locked(table) for address, table in content.get("target", {}).items()}
        return Lock(tuple(content["plugins"]), content.get("options", {}), targets, path)
    except OSError as error:
        if is_interrupt(error):
            raise
        problem = f"{path} cannot be read ({error.strerror})"
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        problem = f"{path} is no lock file ({reason})"
    raise SettingError("lock", f"{problem}; 'hookpatch lock NAME...' writes one")


def key_of(patch: Patch) -> str | None:
    """Return the address of a patch's target in the lock file, None for an object without an address."""
    if patch.target is None:
        return patch.module
    address = patch.target.up_to(len(patch.target.steps))
    return None if address.startswith("<") else address


def _locked(table: Mapping[str, Any]) -> Locked:
    features = {field.name: table[field.name] for field in fields(Fingerprint) if field.name in table}
    for name, value in features.items():
        if not isinstance(value, str if name in _TEXTS else list):
            raise ValueError(f"{name} is {value!r}")
        features[name] = value if name in _TEXTS else tuple(value)
    if "signature" in features and (lines := features["signature"].strip()).startswith("(\n"):
        features["signature"] = f"({lines[1:-1].strip().replace(_COMMA, ', ')})"
    if "source" in features:
        features["source"] = features["source"].removesuffix("\n")
    fingerprint = Fingerprint(**features)
    if fingerprint.hash != table.get("hash"):
        raise ValueError("a hash does not fit its source: other code has changed the file")
    return Locked(fingerprint, tuple(table.get("patches", ())))


def _rows(locked: Locked) -> Iterable[tuple[str, Any]]:
    fingerprint = locked.fingerprint
    rows = {name: getattr(locked if name == "patches" else fingerprint, name) for name in _ORDER}
    if len(signature := fingerprint.signature or "") > 100:  # a parameter a line, for reviews
        rows["signature"] = _Block(f"(\n    {signature[1:-1].replace(', ', _COMMA)}\n)")
    if fingerprint.source is not None:
        rows["source"] = _Block(fingerprint.source)
    return ((name, value) for name, value in rows.items() if value not in (None, "", ()))


class _Block(str):
    """A text to be written line by line."""


def _table(name: str, rows: Iterable[tuple[str, Any]]) -> str:
    lines = (f"{_key(key)} = {_value(value)}\n" for key, value in rows)
    return f"[{name}]\n{''.join(lines)}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(str(name))


def _value(value: Any) -> str:
    """Return a value in TOML: a long list has one entry a line, for reviews."""
    if isinstance(value, _Block):
        plain = "'''" not in value and all(character >= " " or character in "\n\t" for character in value)
        return f"'''\n{value}\n'''" if plain and "\x7f" not in value else _value(f"{value}\n")
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (bool, int, float)):
        return json.dumps(value) if value == value and abs(value) != float("inf") else str(float(value))
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(key)} = {_value(entry)}' for key, entry in value.items())} }}"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        entries = [_value(entry) for entry in value]
        line = f"[{', '.join(entries)}]"
        return line if len(line) < 80 else "[\n" + "".join(f"    {entry},\n" for entry in entries) + "]"
    raise SettingError("lock", f"an option is {value!r}, which TOML cannot hold; leave the option out, or write a text")


def write_lock(lock: Lock) -> bool:
    """Write a lock file in one step, or raise SettingError; return False if the file has this content already."""
    text, path, temporary = lock.to_toml(), Path(lock.path), Path(f"{lock.path}.{os.getpid()}")
    try:
        if path.exists() and path.read_text("utf-8") == text:
            return False
        temporary.write_text(text, "utf-8", newline="\n")
        temporary.replace(path)
    except OSError as error:
        if is_interrupt(error):
            raise
        raise SettingError("lock", f"{lock.path} cannot be written ({error.strerror})") from None
    return True
