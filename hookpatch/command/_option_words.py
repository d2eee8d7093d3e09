"""``-o PLUGIN.NAME=VALUE``: options of plugins, as words of a command, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hookpatch._discovery import find
from hookpatch._host import Host
from hookpatch._options import option_from_text
from hookpatch._selection import Selection, normalise
from hookpatch.errors import SettingError


def options_of_words(words: Iterable[str], selection: Selection, host: Host, way: str) -> dict[str, dict[str, Any]]:
    """Return the options by plugin, each of the type that the plugin declares.

    Args:
        words: each such as ``onnxsim_skip.passes=fuse_qkv``.
        selection: the plugins that are asked for.
        host: loads them.
        way: how to ask for a plugin that is not, with ``{name}`` in it.

    Raises:
        SettingError: a word cannot be read, or is for a plugin that is not asked for.
        OptionsError: the plugin has no such option, or takes another type.
    """
    given: dict[str, dict[str, Any]] = {}
    for word in words:
        name, dot, rest = word.partition(".")
        key, equals, value = rest.partition("=")
        if not (dot and equals and name and key):
            raise SettingError(
                "-o", f"'{word}' cannot be read; write it like onnxsim_skip.passes=fuse_qkv,fuse_bn_into_conv"
            )
        asked = [plugin for plugin in selection.names if normalise(plugin.partition("@")[0]) == normalise(name)]
        if not asked:
            raise SettingError("-o", f"'{word}' is for a plugin that is not switched on; {way.format(name=name)}")
        plugin = host.plugin(find(asked[0], selection.asked_by), selection.asked_by)
        typed = option_from_text(plugin.options_type, key, value, plugin.name, plugin.installed.origin)
        given.setdefault(plugin.name, {})[key] = typed
    return given


def words_of(options: Mapping[str, Mapping[str, Any]], way: str) -> list[str]:
    """Return options as such words, for another process.

    Raises:
        SettingError: there is no word for one: it is a table, or a list of what has a comma in it.
    """
    return [f"{name}.{key}={_text(value, way, name, key)}" for name in options for key, value in options[name].items()]


def _text(value: Any, way: str, name: str, key: str) -> str:
    if isinstance(value, (list, tuple)) and not any("," in str(item) for item in value):
        return ",".join(_text(item, way, name, key) for item in value)
    if isinstance(value, (list, tuple, Mapping)):
        raise SettingError(way, f"the option {key} of '{name}' cannot be handed on as {name}.{key}=VALUE: {value!r}")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
