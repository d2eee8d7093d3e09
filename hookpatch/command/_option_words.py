"""``-o PLUGIN.NAME=VALUE``: options of plugins, as words of a command."""

from __future__ import annotations

from collections.abc import Iterable
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
        plugin = host.plugin(find(asked[0], selection.asked_by))
        typed = option_from_text(plugin.options_type, key, value, plugin.name, plugin.installed.origin)
        given.setdefault(plugin.name, {})[key] = typed
    return given
