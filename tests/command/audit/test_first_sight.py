"""The audit finds the patches, and names the authors, of programs that were chosen after the audit was written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.once, pytest.mark.ends]

FILES = {  # by distribution; "shop" is a package with a submodule
    "agent": """
SPEAK = "def speak(*args, **options): return 'agent'"
def spy():  # the code of a function is made by exec, and set
    def of(function):
        names = {}
        exec(SPEAK, names)
        function.__code__ = names["speak"].__code__
        return function
    return of
def sell(*args): return 2
class Stand: pass
class Proxy:  # as in wrapt without C code
    __slots__ = ("__wrapped__",)
    __module__ = property(lambda self: self.__wrapped__.__module__)
    def __init__(self, wrapped): self.__wrapped__ = wrapped
    def __call__(self): return 2
PRICE = "1"
def reprice(module):  # a constant of its own, too: no patch
    global PRICE
    PRICE = "2"
    module.sell = sell
""",
    "shop/__init__": """
import contextlib, other
maker = checker = None
late = None
other.Later.__module__ = other.Mark.__module__ = __name__  # shown as its own, as openai does with httpx2's
def lend():
    global late
    late = other.speak
def sell(): return 1
def wrap(): return 1
class Client:
    mark, stamp = other.Mark(), other.Mark()
    def send(self): return 1
    def clean(self): return 1
def forget():
    del Client.clean
@contextlib.contextmanager
def lazy():
    import builtins
    original = builtins.__import__
    builtins.__import__ = lambda *args: other.Later()
    yield
    builtins.__import__ = original
with lazy():
    import agent as helper
""",
    "shop/store": "def buy(): return 1",
    "shop/borrowed": "from other import later",
    "other": """
def speak(): return 3
class Later:
    def __call__(self): return 4
class Mark:  # a stand-in in foreign classes, for a mark made at the first use
    def __set_name__(self, owner, name): self.name = name
class Made: pass
later = Later()
""",
}
PATCHES: list[tuple[str, list[tuple[str, str, str]]]] = [  # a statement, and slot, kind and author of the findings
    ("agent.spy()(shop.sell)", [("shop:sell", "code", "agent")]),
    (
        "import types; copy = types.FunctionType(shop.Client.send.__code__, vars(shop), 'send');"
        " shop.Client.send = agent.spy()(copy)",
        [("shop:Client.send", "replaced", "agent")],
    ),
    ("import socket; socket.socket.connect = agent.sell", [("socket:socket.connect", "overridden", "agent")]),
    ("shop.maker = agent.Stand", [("shop:maker", "replaced", "agent")]),
    ("import xmlrpc.client as c; c.FastParser = agent.Stand", [("xmlrpc.client:FastParser", "replaced", "agent")]),
    ("shop.lend(); shop.forget()", []),
    (
        "import other; shop.Client.mark = other.Made(); shop.Client.stamp = agent.Stand()",
        [("shop:Client.stamp", "replaced", "agent")],
    ),
    (
        "agent.reprice(shop); shop.wrap = agent.Proxy(shop.wrap)",
        [("shop:sell", "replaced", "agent"), ("shop:wrap", "replaced", "agent")],
    ),
    (
        "import other, shop.borrowed; other.later = shop.borrowed.later = agent.sell",
        [("other:later", "replaced", "agent"), ("shop.borrowed:later", "replaced", "agent")],
    ),
    ("import shop.store; shop.store = agent", [("shop:store", "replaced", "agent")]),
    ("import asyncio; asyncio.subprocess = agent", [("asyncio:subprocess", "replaced", "agent")]),
    (
        "import importlib._bootstrap_external as b; b.SourceFileLoader.set_data = agent.sell",
        [("_frozen_importlib_external:SourceFileLoader.set_data", "replaced", "agent")],
    ),
]


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with installed distributions."""
    folder = tmp_path_factory.mktemp("shops") / "site-packages"
    for name, text in FILES.items():
        file = folder / f"{name}.py"
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text)
        distribution = name.partition("/")[0]
        info = folder / f"{distribution}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        with (info / "RECORD").open("a") as record:
            record.write(f"{name}.py,,\n")
    return folder


def run(folder: Path, *words: str) -> list[tuple[str, str, str]]:
    """Run Python with the distributions of a folder; return slot, kind and distribution of each printed finding."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    completed = subprocess.run(
        [sys.executable, *words],
        env={**clean, "PYTHONPATH": str(folder)},
        cwd=folder.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    findings: list[dict[str, Any]] = json.loads(completed.stdout)["findings"]
    return [(finding["target"], finding["kind"], finding["distribution"]) for finding in findings]


def recorded(folder: Path, program: str) -> list[tuple[str, str, str]]:
    return run(folder, "-m", "hookpatch", "audit", "--json", "-c", program)


def running(folder: Path, program: str) -> list[tuple[str, str, str]]:
    return run(folder, "-c", f"{program}\nimport hookpatch; print(hookpatch.audit().to_json())")


@pytest.mark.parametrize(("statement", "findings"), PATCHES)
def test_a_patch_and_its_author(shops: Path, statement: str, findings: list[tuple[str, str, str]]) -> None:
    """The recorded audit finds the patch and names the author."""
    assert recorded(shops, f"import agent, shop\n{statement}") == findings


@pytest.mark.parametrize(
    ("statement", "findings"),
    [row for row in PATCHES if not {"maker", "later", "mark"} & set(row[0].replace(".", " ").split())],
)
def test_a_patch_in_a_running_program(shops: Path, statement: str, findings: list[tuple[str, str, str]]) -> None:
    """The audit of a running process finds the patch, too, but in place of None or an object."""
    found = [slot for slot, _, _ in running(shops, f"import agent, shop\n{statement}")]
    assert found == [slot for slot, _, _ in findings]


def test_the_value_of_a_lazy_import_is_no_patch(shops: Path) -> None:
    """A stand-in that an import left, and the imported value in its place, are no patches; any other value is one."""
    assert recorded(shops, "import shop, agent\nshop.helper = agent") == []
    assert running(shops, "import shop, agent") == []
    assert recorded(shops, "import shop, agent\nshop.helper = agent.sell") == [("shop:helper", "replaced", "agent")]


def test_a_trace_function_of_c_code(tmp_path: Path) -> None:
    """The author of a bound method of C code is the author of its object's class; the slot is listed once."""
    program = "import threading, numpy; threading.setprofile(numpy.random.RandomState().seed)"
    assert running(tmp_path, program) == [("threading.setprofile", "trace", "numpy")]


def test_a_program_that_replaces_open_in_all_modules(shops: Path) -> None:
    """The audit is written even if the program has replaced the functions of files everywhere, as pyfakefs does."""
    program = """
import agent, builtins, os, sys, io
def refuse(*args, **options): raise OSError("no file here")
real = {id(open), id(os.replace), id(os.listdir), id(os.path.realpath)}
slots = [(vars(module), name) for module in list(sys.modules.values()) for name in list(vars(module))]
for names, name in [(names, name) for names, name in slots if id(names[name]) in real]:
    names[name] = refuse
sys.modules["json"].dumps = agent.sell
"""
    found = recorded(shops, f"import json\n{program}")
    assert {target for target, _, _ in found} >= {"builtins:open", "io:open", "os:replace", "posix:replace"}
    assert [author for target, _, author in found if target == "json:dumps"] == ["agent"]
