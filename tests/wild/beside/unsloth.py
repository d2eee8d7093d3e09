"""unsloth's way, written here: the source of a function with a piece replaced, executed, in the function's place."""

from __future__ import annotations

import inspect
import json.encoder
import linecache
import sys
import textwrap
import traceback
import types
from typing import Any

DISTRIBUTION, OWN = "", ()
SOURCES = ()  # the patch is written here

shop = types.ModuleType("shop")
exec(
    "from json.encoder import JSONEncoder\nencode = JSONEncoder(indent=1).encode\nENCODE = JSONEncoder.encode",
    vars(shop),
)
sys.modules["shop"] = shop


def rewritten(function: Any, old: str, new: str) -> Any:
    source = textwrap.dedent(inspect.getsource(function))
    assert old in source
    namespace: dict[str, Any] = {}
    exec(source.replace(old, new), function.__globals__, namespace)
    return namespace[function.__name__]


def apply() -> None:
    json.encoder.JSONEncoder.encode = rewritten(json.encoder.JSONEncoder.encode, "''.join(chunks)", "'  '.join(chunks)")


def undo() -> None:
    """Do nothing: unsloth has no undo."""


def is_wide(encode: Any) -> bool:
    return bool("  " in encode([1, 2]))


def shown_line() -> str:
    """Return the source line of the function as a traceback shows the line."""

    class Broken(json.encoder.JSONEncoder):
        def iterencode(self, o: Any, _one_shot: bool = False) -> Any:
            return [1]

    try:
        Broken().encode([])
    except TypeError as error:
        linecache.checkcache()
        return traceback.extract_tb(error.__traceback__)[-1].line or ""
    raise AssertionError("no error")


def source() -> str:
    try:
        return inspect.getsource(json.encoder.JSONEncoder.encode)
    except OSError:
        return ""


def observe() -> dict[str, bool]:
    return {
        "a call": is_wide(json.encoder.JSONEncoder(indent=1).encode),
        "a method bound before": is_wide(shop.encode),
        "a name bound before": is_wide(lambda value: shop.ENCODE(json.encoder.JSONEncoder(indent=1), value)),
        "inspect.getsource": "'  '.join" in source(),
        "the line in a traceback": "'  '.join" in shown_line(),
    }
