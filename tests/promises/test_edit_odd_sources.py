"""``edit`` in rare kinds of source: the piece is found in its place, and the end restores the function."""

from __future__ import annotations

import asyncio
import importlib
import py_compile
import sys
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

import hookpatch
from hookpatch.errors import EditError
from hookpatch.testing import pristine


async def list_items(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


async def await_value(value: Awaitable[Any]) -> Any:
    return await value


class Cell(NamedTuple):
    """A source with an edit: ``new`` in place of ``old`` turns the result of ``call`` from one value into another."""

    source: str
    call: Callable[[Any], Any]
    before: Any
    inside: Any
    old: str = "x + 1"
    new: str = "x + 2"
    name: str = "f"
    python: tuple[int, int] = (3, 11)


def f_1(module: Any) -> Any:
    return module.f(1)


CELLS: Final = {
    "match": Cell(
        "def f(x):\n    match x:\n        case [a, b]:\n            return a\n        case {'k': x, **rest}:\n"
        "            return x + 1\n        case int() | str() as y if y:\n            return y\n",
        lambda module: [module.f([1, 2]), module.f({"k": 1}), module.f(3)],
        [1, 2, 3],
        [1, 3, 3],
    ),
    "pattern of a case": Cell(
        "def f(x):\n    match x:\n        case [a]:\n            return a\n        case _:\n            return 0\n",
        lambda module: module.f([7, 8]),
        0,
        7,
        "case [a]:",
        "case [a, *_]:",
    ),
    "guard of a case": Cell(
        "def f(x):\n    match x:\n        case y if y > 3:\n            return y\n", f_1, None, 1, "y > 3", "y > 0"
    ),
    "walrus": Cell("def f(x):\n    if (n := x + 1) > 0:\n        return [m := n, m * 2]\n", f_1, [2, 4], [3, 6]),
    "walrus in a comprehension": Cell(
        "def f(x):\n    return [last := x + 1 for x in [x]], last\n", f_1, ([2], 2), ([3], 3)
    ),
    "type comment": Cell("def f(x):\n    # type: (int) -> int\n    y = x + 1  # type: int\n    return y\n", f_1, 2, 3),
    "text over several lines": Cell(
        'class K:\n    def f(self, x):\n        s = """a\n  x + 1\n    b"""\n        return s, x + 1\n',
        lambda module: module.K().f(1),
        ("a\n  x + 1\n    b", 2),
        ("a\n  x + 1\n    b", 3),
        name="K.f",
    ),
    "new text over several lines": Cell(
        'class K:\n    def f(self):\n        s = "a"\n        return s\n',
        lambda module: module.K().f(),
        "a",
        "a\nb",
        's = "a"',
        's = """a\nb"""',
        "K.f",
    ),
    "form feed before": Cell("y = 1\n\x0cdef f(x):\n    return x + 1\n", f_1, 2, 3),
    "form feed in a text": Cell("y = 'a\x0cb'\ndef f(x):\n    z = '\x0c\x1c'\n    return x + 1\n", f_1, 2, 3),
    "separators in a text": Cell("y = 'a\u2028b\x85'\ndef f(x):\n    z = '\u2029'\n    return x + 1\n", f_1, 2, 3),
    "carriage returns": Cell("def f(x):\r\n    y = x + 1\r\n    return y\r\n", f_1, 2, 3),
    "continued line": Cell("def f(x):\n    y = x + \\\n        1\n    return y\n", f_1, 2, 3),
    "tabs": Cell("def f(x):\n\tif x:\n\t\ty = x + 1\n\treturn y\n", f_1, 2, 3, "y = x + 1", "y = x + 2\nz = 1"),
    "several statements on a line": Cell("def f(x):\n    a = 1; b = x + 1; return b\n", f_1, 2, 3),
    "defined under a condition": Cell(
        "if 0:\n    def f(x): return x + 1\nelse:\n    def f(x): return x + 1\n", f_1, 2, 3
    ),
    "defined twice": Cell(
        "def f(x): return x + 1\ng = f\ndef f(x): return x + 1\n",
        lambda module: [module.f(1), module.g(1)],
        [2, 2],
        [3, 2],
    ),
    "defined after an import that fails": Cell(
        "try:\n    import no_such_module\nexcept ImportError:\n    def f(x):\n        return x + 1\n", f_1, 2, 3
    ),
    "lambda of several lines": Cell("f = (lambda x:\n    x\n    + 1)\n", f_1, 2, 3),
    "lambda in a default": Cell("def f(x, k=lambda x: x + 1):\n    return k(x)\n", f_1, 2, 3),
    "nested twice": Cell(
        "def f(x):\n    def g():\n        def h(): return x + 1\n        return h()\n    return g()\n", f_1, 2, 3
    ),
    "super() in a nested class": Cell(
        "class B:\n    def r(self, x): return x\ndef f(x):\n    class C(B):\n        def r(self, x):\n"
        "            return super().r(x) + 1\n    return C().r(x)\n",
        f_1,
        2,
        3,
        "+ 1",
        "+ 2",
    ),
    "private names": Cell(
        "class _K:\n    __a = 1\n    def __g(self, __x): return self.__a + __x\n    def f(self): return self.__g(1)\n",
        lambda module: module._K().f(),
        2,
        3,
        "self.__a + __x",
        "self.__a + __x + self._K__a",
        "_K._K__g",
    ),
    "__new__": Cell(
        "class K(int):\n    def __new__(cls, x):\n        return super().__new__(cls, x + 1)\n",
        lambda module: int(module.K(1)),
        2,
        3,
        name="K.__new__",
    ),
    "slots of a dataclass": Cell(
        "import dataclasses\n@dataclasses.dataclass(slots=True)\nclass K:\n    x: int = 1\n    def f(self):\n"
        "        x = self.x\n        return x + 1\n",
        lambda module: module.K(1).f(),
        2,
        3,
        name="K.f",
    ),
    "method of an enum": Cell(
        "import enum\nclass E(enum.Enum):\n    A = 1\n    def f(self, x): return self.value * (x + 1)\n",
        lambda module: module.E.A.f(1),
        2,
        3,
        name="E.f",
    ),
    "method of a metaclass": Cell(
        "class M(type):\n    def f(cls, x): return x + 1\nclass K(metaclass=M): pass\n",
        lambda module: module.K.f(1),
        2,
        3,
        name="M.f",
    ),
    "asynchronous generator": Cell(
        "async def g(x):\n    yield x\nasync def f(x):\n    async for x in g(x):\n        yield x + 1\n",
        lambda module: asyncio.run(list_items(module.f(1))),
        [2],
        [3],
    ),
    "types.coroutine": Cell(
        "import types\n@types.coroutine\ndef f(x):\n    if False: yield\n    return x + 1\n",
        lambda module: asyncio.run(await_value(module.f(1))),
        2,
        3,
    ),
    "except*": Cell(
        "def f(x):\n    try: raise ExceptionGroup('', [OSError()])\n    except* OSError: y = x + 1\n    return y\n",
        f_1,
        2,
        3,
    ),
    "empty piece": Cell("def f(x):\n    for _ in [0]:\n        x = x + 1\n    return x\n", f_1, 2, 1, "x = x + 1", ""),
    "later annotations": Cell(
        "from __future__ import annotations\ndef f(x: Undefined = 1) -> Other:\n    return x + 1\n", f_1, 2, 3
    ),
    "type parameter": Cell("def f[T](x: T):\n    return T.__name__, x + 1\n", f_1, ("T", 2), ("T", 3), python=(3, 12)),
    "type parameters of class and method": Cell(
        "class K[T]:\n    __p = 1\n    def f[U](self, x: U): return T.__name__, U.__name__, self.__p * (x + 1)\n",
        lambda module: module.K().f(1),
        ("T", "U", 2),
        ("T", "U", 3),
        name="K.f",
        python=(3, 12),
    ),
    "super() in a class with type parameters": Cell(
        "class B:\n    def f(self, x): return x\nclass K[T](B):\n    def f(self, x: T): return super().f(x + 1)\n",
        lambda module: module.K().f(1),
        2,
        3,
        name="K.f",
        python=(3, 12),
    ),
    "type statement": Cell("def f(x):\n    type A = int\n    return A.__value__(x + 1)\n", f_1, 2, 3, python=(3, 12)),
    "nested f-string": Cell('def f(x):\n    return f\'{f"{x + 1}" + "a"}\'\n', f_1, "2a", "3a", python=(3, 12)),
    "f-string of several lines": Cell(
        "def f(x):\n    return f'{\n        x + 1  # why\n    }'\n", f_1, "2", "3", python=(3, 12)
    ),
    "t-string": Cell("def f(x):\n    return t'{x + 1}'.interpolations[0].value\n", f_1, 2, 3, python=(3, 14)),
}


@pytest.fixture
def odd(folder: Path) -> Iterator[Callable[[str], Any]]:
    def write(source: str) -> Any:
        (folder / "odd.py").write_bytes(source.encode())
        importlib.invalidate_caches()
        return importlib.import_module("odd")

    yield write
    sys.modules.pop("odd", None)


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("name", [name for name, cell in CELLS.items() if sys.version_info >= cell.python])
def test_the_piece_is_edited_and_restored(odd: Callable[[str], Any], name: str, reach: Any) -> None:
    cell = CELLS[name]
    module = odd(cell.source)
    with pristine():
        assert cell.call(module) == cell.before
        with hookpatch.active(hookpatch.edit(f"odd:{cell.name}", cell.old, cell.new, reach=reach)):
            assert cell.call(module) == cell.inside
        assert cell.call(module) == cell.before


def test_a_diff_after_a_form_feed(odd: Callable[[str], Any]) -> None:
    """The lines of a hunk are those of Python, also behind a form feed in a text."""
    module = odd("y = 'a\x0cb'\ndef f(x):\n    z = '\x0c'\n    return x + 1\n")
    diff = "@@ -2,2 +2,2 @@\n     z = '\x0c'\n-    return x + 1\n+    return x + 2\n"
    with hookpatch.active(hookpatch.edit("odd:f", diff=diff)):
        assert module.f(1) == 3
    assert module.f(1) == 2


NO_SOURCE: Final = {
    "a function made by exec": ("exec('def f(x): return x + 1')\n", "f", "cannot be read"),
    "the __init__ of a dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass K:\n    x: int = 1\n",
        "K.__init__",
        "cannot be read",
    ),
    "a method of a named tuple": (
        "import collections\nK = collections.namedtuple('K', 'a b')\n",
        "K.__new__",
        "source",
    ),
    "a decorator without functools.wraps": (
        "def deco(f):\n    def inner(*a): return f(*a)\n    return inner\n@deco\ndef f(x):\n    return x + 1\n",
        "f",
        "not in the source",
    ),
}


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("name", NO_SOURCE)
def test_without_the_piece_in_the_source_the_edit_is_refused(odd: Callable[[str], Any], name: str, reach: Any) -> None:
    source, target, message = NO_SOURCE[name]
    odd(source)
    with pytest.raises(EditError, match=message):
        hookpatch.active(hookpatch.edit(f"odd:{target}", "x + 1", "x + 2", reach=reach)).open()


def test_the_documentation_alone(odd: Callable[[str], Any]) -> None:
    """With reach="everywhere" the code of a function is edited: an edit of the documentation alone is an error."""
    module = odd("def f():\n    'one'\n    return f.__doc__\n")
    with hookpatch.active(hookpatch.edit("odd:f", "'one'", "'two'", reach="slot")):
        assert module.f() == "two"
    with pytest.raises(EditError, match=r"changes the documentation alone, which needs reach='slot'"):
        hookpatch.active(hookpatch.edit("odd:f", "'one'", "'two'")).open()


def test_a_module_in_a_zip_and_a_module_of_bytecode(folder: Path) -> None:
    """A source in a zip is edited; a module without source is refused."""
    with zipfile.ZipFile(folder / "odd.zip", "w") as archive:
        archive.writestr("zipped.py", "def f(x):\n    return x + 1\n")
    (folder / "compiled.py").write_text("def f(x):\n    return x + 1\n")
    py_compile.compile(str(folder / "compiled.py"), str(folder / "compiled.pyc"))
    (folder / "compiled.py").unlink()
    sys.path.insert(0, str(folder / "odd.zip"))
    try:
        zipped, compiled = map(importlib.import_module, ("zipped", "compiled"))
        with hookpatch.active(hookpatch.edit("zipped:f", "x + 1", "x + 2")):
            assert zipped.f(1) == 3
        assert zipped.f(1) == 2
        with pytest.raises(EditError, match="cannot be read"):
            hookpatch.active(hookpatch.edit("compiled:f", "x + 1", "x + 2")).open()
        assert compiled.f(1) == 2
    finally:
        sys.path.remove(str(folder / "odd.zip"))
        for name in ("zipped", "compiled"):
            sys.modules.pop(name, None)
