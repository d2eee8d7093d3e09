"""Convert the options of a plugin to the types declared by its ``Options`` dataclass."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, get_type_hints

from hookpatch.errors import OptionsError, _suggest


def options_of(
    kind: type | None,
    values: Mapping[str, Any],
    plugin: str,
    origin: str,
    making: AbstractContextManager[object] | None = None,
) -> Any:
    """Return the option values as an instance of the plugin's ``Options``; None for a plugin without options.

    ``making`` is entered while the class of the plugin runs.

    Raise OptionsError for an unknown name, a value of the wrong type, or a missing value.
    """
    _check_names(kind, values, plugin, origin)
    if kind is None:
        return None
    import msgspec  # only for plugins with options

    with making or nullcontext():
        try:
            return msgspec.convert(dict(values), kind)
        except msgspec.ValidationError as error:
            raise OptionsError(plugin, origin, f"{_plain(str(error))}; it takes {_signature(kind)}") from None


def option_from_text(kind: type | None, name: str, text: str, plugin: str, origin: str) -> Any:
    """Return the value of one option of the command line: ``3``, ``true``, or a comma list for a sequence.

    Raise OptionsError for an unknown name, or a text that does not fit the declared type.
    """
    _check_names(kind, {name: text}, plugin, origin)
    assert kind is not None  # checked just now
    import msgspec
    from msgspec import inspect

    declared = get_type_hints(kind)[name]
    info = inspect.type_info(declared)
    types = info.types if isinstance(info, inspect.UnionType) else (info,)
    many = any(isinstance(member, (inspect.CollectionType, inspect.TupleType)) for member in types)
    words: Any = [word.strip() for word in text.split(",") if word.strip()] if many else text
    try:
        return msgspec.to_builtins(msgspec.convert(words, declared, strict=False))
    except msgspec.ValidationError as error:
        mismatch = _plain(str(error))
        if not many:  # all values of the command line are texts: no need to say so
            mismatch = re.sub(r"(Expected '.*'), got 'str'$", rf"\1, and the text '{text}' is none", mismatch)
        problem = f"{name}={text}: {mismatch}; it takes {_signature(kind)}"
        raise OptionsError(plugin, origin, problem) from None


def _check_names(kind: type | None, values: Mapping[str, Any], plugin: str, origin: str) -> None:
    if kind is None:
        if values:
            raise OptionsError(plugin, origin, f"the plugin has no options, but '{min(values)}' was given")
        return
    names = [field.name for field in dataclasses.fields(kind)]
    for name in values:
        if name not in names:
            problem = f"no option '{name}'{_suggest(name, names) or ';'} it takes {_signature(kind)}"
            raise OptionsError(plugin, origin, problem)


def _plain(text: str) -> str:
    """Return a message of msgspec, with the JSON path (``$.passes``) in plain words."""
    text = re.sub(r"^Object missing required field (`\w+`)$", r"\1 must be given", text)
    return text.replace(" - at `$.", " - at `").replace("`", "'")


def _signature(kind: type) -> str:
    return ", ".join(f"{field.name}: {_type_name(field.type)}" for field in dataclasses.fields(kind)) or "nothing"


def _type_name(declared: Any) -> str:
    if isinstance(declared, str) or getattr(declared, "__args__", None):
        return str(declared)
    return str(getattr(declared, "__name__", declared))
