"""A wrapper, factory or value may be a method of an object, which has the values of the method."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from snapshot import Snapshot

import hookpatch
from hookpatch.errors import PatchError

VENDOR: Final = """
class Base:
    def run(self, x=1): return ["own", x]
def f(x=1): return ["own", x]
def g(x=1): return ["own", x]
base = Base()
"""
GIVEN: Final = """
from dataclasses import dataclass
import functools
@dataclass(frozen=True)
class Options:
    mark: str = "given"
    def around(self, wrapped, instance, args, kwargs): return [self.mark, *wrapped(*args, **kwargs)]
    def subclass(self, original): return type("Sub", (original,), {"mark": self.mark})
    def instead(self, x=1): return [self.mark, x]
    def is_meant(self, base): return getattr(base, "mark", self.mark) == self.mark
    def two(self, wrapped, args): return 1
    def none(self): return 1
"""
CELLS: Final[dict[str, tuple[Callable[[Any], hookpatch.Patch], str, Any]]] = {
    "wrap": (
        lambda given: hookpatch.wrap("method_vendor:{f,g}", given.around),
        "[f(2), g(3)]",
        [["it", "own", 2], ["it", "own", 3]],
    ),
    "wrap everywhere": (
        lambda given: hookpatch.wrap("method_vendor:f", given.around, reach="everywhere"),
        "f(2)",
        ["it", "own", 2],
    ),
    "wrap a method": (
        lambda given: hookpatch.wrap("method_vendor:Base.run", given.around),
        "base.run()",
        ["it", "own", 1],
    ),
    "wrap instances": (
        lambda given: hookpatch.wrap("method_vendor:Base().run", given.around, only=given.is_meant),
        "base.run()",
        ["it", "own", 1],
    ),
    "replace": (lambda given: hookpatch.replace("method_vendor:f", given.instead), "f(2)", ["it", 2]),
    "replace for callers": (
        lambda given: hookpatch.replace("method_vendor:f", given.instead, callers="method_vendor"),
        "f(2)",
        ["it", 2],
    ),
    "derive": (lambda given: hookpatch.derive("method_vendor:Base", given.subclass), "Base().mark", "it"),
}


@pytest.fixture
def modules(make_module: Callable[[str, str], ModuleType]) -> Any:
    """The module to patch, and the module with the methods."""
    return make_module("method_vendor", VENDOR), make_module("method_given", GIVEN)


@pytest.mark.parametrize("cell", CELLS)
def test_a_method_is_given(cell: str, modules: Any, folder: Path) -> None:
    """Here and in a program started inside, which gets the object with the method; the end is exact."""
    vendor, given = modules
    declare, probe, expected = CELLS[cell]
    snapshot = Snapshot(vendor)
    with hookpatch.active(declare(given.Options("it")), children="require"):
        assert eval(probe, vars(vendor)) == expected
        code = f"import method_vendor as m; print(eval({probe!r}, vars(m)))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    assert (done.stdout.strip(), done.stderr) == (str(expected), "")
    assert snapshot.changed() == []


def test_the_form_of_a_method_is_checked(modules: Any) -> None:
    """A method that cannot be called as hookpatch calls it is refused where it is declared."""
    options = modules[1].Options()
    with pytest.raises(PatchError) as caught:
        hookpatch.wrap("m:f", options.two)
    called = "wrapper(wrapped, instance, args, kwargs)"
    assert caught.value.problem == f"the wrapper is called as {called}, and cannot be: it is two(wrapped, args)"
    with pytest.raises(
        PatchError, match=r"the factory is called as factory\(original\), and cannot be: it is none\(\)"
    ):
        hookpatch.derive("m:f", options.none)
