"""A plugin's options: from words to the types that its ``Options`` dataclass declares."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, get_type_hints

from hookpatch.errors import OptionsError, _suggest


def options_of(kind: type | None, given: Mapping[str, Any], plugin: str, origin: str) -> Any:
    """Return a plugin's options, None when it has none.

    Args:
        kind: the plugin's ``Options``, None when it has none.
        given: option values by name, of the declared types.
        plugin: the plugin's name, for messages.
        origin: its distribution, for messages.

    Raises:
        OptionsError: a name is unknown, a value is of the wrong type, or one that must be given is not.
    """
    if kind is None:
        if given:
            raise OptionsError(plugin, origin, f"it has none, but '{min(given)}' was given")
        return None
    _check_names(kind, given, plugin, origin)
    import msgspec  # only for plugins that have options

    try:
        return msgspec.convert(dict(given), kind)
    except msgspec.ValidationError as error:
        raise OptionsError(plugin, origin, f"{_plain(str(error))}; it takes {_signature(kind)}") from None


def option_from_text(kind: type | None, name: str, text: str, plugin: str, origin: str) -> Any:
    """Return one option's value read from the command line: ``3``, ``true``, or a comma list for a sequence.

    Raises:
        OptionsError: the name is unknown or the text cannot be of the declared type.
    """
    if kind is None:
        raise OptionsError(plugin, origin, f"it has none, but '{name}' was given")
    _check_names(kind, {name: text}, plugin, origin)
    import msgspec
    from msgspec import inspect

    declared = get_type_hints(kind)[name]
    shape = inspect.type_info(declared)
    shapes = shape.types if isinstance(shape, inspect.UnionType) else (shape,)
    many = any(isinstance(one, (inspect.CollectionType, inspect.TupleType)) for one in shapes)
    words: Any = [word.strip() for word in text.split(",") if word.strip()] if many else text
    try:
        return msgspec.to_builtins(msgspec.convert(words, declared, strict=False))
    except msgspec.ValidationError as error:
        raise OptionsError(
            plugin, origin, f"{name}={text}: {_plain(str(error))}; it takes {_signature(kind)}"
        ) from None


def _check_names(kind: type, given: Mapping[str, Any], plugin: str, origin: str) -> None:
    known = [field.name for field in dataclasses.fields(kind)]
    for name in given:
        if name not in known:
            raise OptionsError(
                plugin, origin, f"no option '{name}'{_suggest(name, known) or ';'} it takes {_signature(kind)}"
            )


def _plain(text: str) -> str:
    """Return msgspec's message with its JSON path (``$.passes``) in our words."""
    text = re.sub(r"^Object missing required field (`\w+`)$", r"\1 must be given", text)
    return text.replace(" - at `$.", " - at `").replace("`", "'")


def _signature(kind: type) -> str:
    return ", ".join(f"{field.name}: {_type_name(field.type)}" for field in dataclasses.fields(kind)) or "nothing"


def _type_name(declared: Any) -> str:
    return (
        declared
        if isinstance(declared, str)
        else str(getattr(declared, "__name__", declared))
        if not getattr(declared, "__args__", None)
        else str(declared)
    )
