"""A function's source is found and compiled as its module compiles the function."""

from __future__ import annotations

import asyncio.base_events
import importlib
import inspect
import shutil
import unittest.mock
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch._engine.source.edited import _Source

# How a module gets at json, or mentions super: each makes Python compile calls of it in another way.
BESIDE: Final = {
    "an import": "import json",
    "an import of a part": "from package import json",
    "an import by another name": "import package as json",
    "in try": "try:\n    import nowhere\nexcept ImportError:\n    import json",
    "in if": "if True:\n    import json",
    "in with": "import contextlib\nwith contextlib.suppress(ImportError):\n    import json",
    "in match": "match 1:\n    case 1:\n        import json",
    "after the function": "json = None",
    "no import": "json = __import__('json')",
    "in a class": "class Holder:\n    import json\njson = Holder.json",
    "in a function": "def fetch():\n    global json\n    import json\nfetch()",
    "super at hand": "import json\n_super = super",
    "super in a function": "import json\ndef other():\n    return super",
    "another super": "import json\nfrom builtins import super",
}
FUNCTIONS: Final = """
def function(x):
    return x if json.loads("1") else 0

class Base:
    def method(self, x):
        return x

class Kind(Base):
    def method(self, x):
        return super().method(x) if json.loads("1") else 0
"""


@pytest.mark.parametrize("beside", BESIDE)
def test_calls_of_what_the_module_imports(write_module: Callable[[str, str], Path], beside: str) -> None:
    """Of 3,829 functions of the standard library 473 were refused before, as running other code than their source."""
    write_module("package.__init__", "import json\nfrom json import loads")
    last = "import json\n" if beside == "after the function" else ""
    write_module("vendor", f"from __future__ import annotations\n{BESIDE[beside]}\n{FUNCTIONS}\n{last}")
    vendor: Any = importlib.import_module("vendor")
    pieces = (("function", "x if"), ("Kind.method", "super().method(x) if"))
    edits = [hookpatch.edit(f"vendor:{name}", old, f"1 + {old}") for name, old in pieces]
    with hookpatch.active(*edits):
        assert (vendor.function(1), vendor.Kind().method(1)) == (2, 2)
    assert (vendor.function(1), vendor.Kind().method(1)) == (1, 1)


def functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yield a module's functions and methods."""
    own = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
    for value in own:
        yield from (
            (part for part in vars(value).values() if isinstance(part, FunctionType)) if isinstance(value, type) else ()
        )
        if isinstance(value, FunctionType):
            yield value


@pytest.mark.parametrize(
    "module",
    [shutil, *(pytest.param(module, marks=pytest.mark.ends) for module in (asyncio.base_events, unittest.mock))],
    ids=lambda module: module.__name__,
)
def test_the_source_of_every_function_is_found(module: ModuleType) -> None:
    """Find the sources in modules with imports in ``try`` and ``if``, and with super."""
    text = inspect.getsource(module)
    codes = [function.__code__ for function in functions(module)]
    codes = [code for code in codes if code.co_filename == module.__file__]
    assert len(codes) > 30
    assert [_Source.of(text, code.co_filename, code).code for code in codes] == codes
