"""The lock file: what the targets of plugins were like when somebody had looked at them."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, final

from hookpatch._fingerprint import Fingerprint
from hookpatch._patch import Patch
from hookpatch.errors import SettingError

NAME: Final = "hookpatch.lock"
_FORMAT: Final = 1
_HEAD: Final = """\
# What the targets of these plugins were like: written by `hookpatch lock`, compared by `hookpatch check`.
# Sources are without comments and docstrings.
"""
_COMMA: Final = ",\n    "
_TEXTS: Final = frozenset({"kind", "distribution", "version", "signature", "source"})


@final
@dataclass(frozen=True, slots=True)
class Locked:
    """One target in a lock file. Frozen.

    Attributes:
        fingerprint: what it was like.
        patches: which plugins patch it, and how, in words.
    """

    fingerprint: Fingerprint
    patches: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Lock:
    """The content of a lock file. Frozen.

    Attributes:
        plugins: the names of the plugins whose targets are locked.
        options: their options, by plugin.
        targets: the targets by their addresses.
        path: the file that it was read from.
    """

    plugins: tuple[str, ...]
    options: Mapping[str, Mapping[str, Any]]
    targets: Mapping[str, Locked]
    path: str = NAME

    def to_toml(self) -> str:
        """Return the file's content: the same for the same targets, in the order of their addresses.

        Raises:
            SettingError: an option is none that TOML can hold.
        """
        parts = [f"{_HEAD}\nformat = {_FORMAT}\nplugins = {_value(sorted(self.plugins))}\n"]
        for plugin, given in sorted(self.options.items()):
            parts.append(_table(f"options.{_key(plugin)}", sorted(given.items())))
        for address, locked in sorted(self.targets.items()):
            rows = ((name, value) for name, value in _rows(locked) if value not in (None, "", ()))
            parts.append(_table(f"target.{_key(address)}", rows))
        return "\n".join(parts)


def read_lock(path: str) -> Lock:
    """Return what a lock file holds.

    Raises:
        SettingError: it is not there, or is none.
    """
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r}, and this hookpatch reads {_FORMAT}")
        targets = {address: _locked(table) for address, table in content.get("target", {}).items()}
        return Lock(tuple(content["plugins"]), content.get("options", {}), targets, path)
    except OSError as error:
        problem = f"{path} cannot be read ({error.strerror})"
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        problem = f"{path} is no lock file ({what})"
    raise SettingError("lock", f"{problem}; 'hookpatch lock NAME...' writes one")


def key_of(patch: Patch) -> str | None:
    """Return the address under which a patch's target is locked, None for an object at hand that has no address."""
    if patch.target is None:
        return patch.module
    address = patch.target.up_to(len(patch.target.steps))
    return None if address.startswith("<") else address


def _locked(table: Mapping[str, Any]) -> Locked:
    given = {field.name: table[field.name] for field in fields(Fingerprint) if field.name in table}
    for name, value in given.items():
        if not isinstance(value, str if name in _TEXTS else list):
            raise ValueError(f"{name} is {value!r}")
    given = {name: value if name in _TEXTS else tuple(value) for name, value in given.items()}
    if "signature" in given and (lines := given["signature"].strip()).startswith("(\n"):
        given["signature"] = f"({lines[1:-1].strip().replace(_COMMA, ', ')})"
    if "source" in given:
        given["source"] = given["source"].removesuffix("\n")
    found = Fingerprint(**given)
    if found.hash != table.get("hash"):
        raise ValueError("a hash is not that of its source: it was not written by hookpatch")
    return Locked(found, tuple(table.get("patches", ())))


def _rows(locked: Locked) -> Iterator[tuple[str, Any]]:
    found = locked.fingerprint
    yield from (("distribution", found.distribution), ("version", found.version), ("patches", locked.patches))
    signature = found.signature
    if signature is not None and len(signature) > 100:
        signature = _Block(f"(\n    {signature[1:-1].replace(', ', _COMMA)}\n)")  # a parameter a line, for reviews
    yield from (("kind", found.kind), ("signature", signature))
    yield from (("members", found.members), ("keys", found.keys), ("hash", found.hash))
    yield "source", None if found.source is None else _Block(found.source)


class _Block(str):
    """A text that is written line by line."""


def _table(name: str, rows: Iterable[tuple[str, Any]]) -> str:
    lines = (f"{_key(key)} = {_value(value)}\n" for key, value in rows)
    return f"[{name}]\n{''.join(lines)}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(str(name))


def _value(value: Any) -> str:
    """Return a value as TOML has it: a list one entry a line where it is long, so that a review shows the entry."""
    if isinstance(value, _Block):
        plain = "'''" not in value and all(character >= " " or character in "\n\t" for character in value)
        return f"'''\n{value}\n'''" if plain and "\x7f" not in value else _value(f"{value}\n")
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (bool, int, float)):
        return json.dumps(value) if value == value and abs(value) != float("inf") else str(float(value))
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(key)} = {_value(one)}' for key, one in value.items())} }}"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        words = [_value(one) for one in value]
        line = f"[{', '.join(words)}]"
        return line if len(line) < 80 else "[\n" + "".join(f"    {word},\n" for word in words) + "]"
    raise SettingError("lock", f"an option is {value!r}, which TOML cannot hold; leave it out, or give it as text")


def write_lock(lock: Lock) -> bool:
    """Write a lock file in one step; return False where it holds that already.

    Raises:
        SettingError: it cannot be written, or an option is none that TOML can hold.
    """
    text = lock.to_toml()
    try:
        if os.path.exists(lock.path):
            with open(lock.path, encoding="utf-8") as file:
                if file.read() == text:
                    return False
        beside = f"{lock.path}.{os.getpid()}"
        with open(beside, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(beside, lock.path)
    except OSError as error:
        raise SettingError("lock", f"{lock.path} cannot be written ({error.strerror})") from None
    return True
