"""`hookpatch.audit()` reports the patches of a running program, and no changes by a module's own source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from environments import Environment

pytestmark = pytest.mark.once
SHOW = "\nimport hookpatch; print(hookpatch.audit().to_json())\n"
MINE = "def mine(*args, **options): return 'mine'\n"
# A module of the program, a module used there, and a patching statement; the findings.
USED = """
import functools
def keep(value): return value
def around(function):
    @functools.wraps(function)
    def wrapper(*args): return function(*args)
    return wrapper
def with_method(kind):
    kind.speak = lambda self: "made"
    return kind
class Meta(type):
    def __new__(cls, name, bases, names): return super().__new__(cls, name, bases, {**names, "speak": keep})
class Base:
    def speak(self): return "base"
    def walk(self): return "base"
"""
CELL = """
import colorsys, functools, pprint, shlex, textwrap
def mine(*args): return 1
colorsys.rgb_to_hls = mine
shlex.join = lambda words: ""
textwrap.TextWrapper = type("Wrapper", (), {})
pprint.isreadable = functools.wraps(pprint.isreadable)(mine)
"""
HELD = [  # the module, the statement that patches, the patches
    ("def f(): pass", "module.f = used.keep", {("module:f", "replaced")}),
    ("def f(): pass", "module.f = used.around(module.f)", {("module:f", "replaced")}),
    ("def f(): pass", "module.f.__code__ = (lambda: 1).__code__", {("module:f", "code")}),
    ("class C:\n    def f(self): pass", "module.C = used.Base", {("module:C", "replaced")}),
    ("class C:\n    def f(self): pass", "module.C.f = used.keep", {("module:C.f", "replaced")}),
    ("class C:\n    def f(self): pass", "module.C.f = classmethod(used.keep)", {("module:C.f", "replaced")}),
    ("class C:\n    class D:\n        def f(self): pass", "module.C.D.f = used.keep", {("module:C.D.f", "replaced")}),
    ("class C(used.Base): pass", "module.C.speak = used.keep", {("module:C.speak", "overridden")}),
    ("from json import dumps", "module.dumps = used.keep", {("module:dumps", "replaced")}),
    ("__all__ = ['f']\ndef f(): pass", "del module.f", {("module:f", "removed")}),
    ("if True:\n    def f(): pass", "module.f = used.keep", {("module:f", "replaced")}),
    ("def f(): pass", "from unittest.mock import Mock; module.f = Mock()", {("module:f", "replaced")}),
    ("from used import keep as f", "module.f = lambda: 1", {("module:f", "replaced")}),
    ("def g(): pass\nf = g", "module.f = used.keep", {("module:f", "replaced")}),
    ("class C:\n    def g(self): pass\n    f = g", "module.C.f = used.keep", {("module:C.f", "replaced")}),
    ("from used import keep as f\nif False: f = 1", "module.f = lambda: 1", {("module:f", "replaced")}),
    ("from used import *", "module.keep = lambda: 1", {("module:keep", "replaced")}),
    (
        "def g(): pass\nif False: f = None\nelse: f = g\nh = f",
        "module.f = module.h = used.keep",
        {("module:f", "replaced"), ("module:h", "replaced")},
    ),
    (
        "class C:\n    def f(self): pass\n    def g(self): pass\nif False: C = None",
        "module.C.f = used.keep",
        {("module:C.f", "replaced")},
    ),
    # The module's own source did these, or may have.
    ("if False:\n    def f(): pass\nglobals()['f'] = len", "", set()),
    ("def f(): pass\ndef g(h):\n    global f\n    f = h\ng(used.keep)", "", set()),
    ("if False: f = 1\nelse: f = used.around(used.keep)", "", set()),
    ("from used import keep as f", "module.f = used.around(module.f)", set()),
    ("from used import keep as f\nf = f", "module.f = lambda: 1", set()),
    ("@used.around\ndef f(): pass", "", set()),
    ("def f(): pass\nf = used.around(f)", "", set()),
    ("from used import keep as f", "", set()),
    ("from used import *", "", set()),
    ("def keep(): pass\nfrom used import *", "", set()),
    ("try:\n    from used import keep as f\nexcept ImportError:\n    def f(): pass", "", set()),
    ("f = used.keep", "", set()),
    ("exec('def f(): pass')", "", set()),
    ("f, g = used.keep, len", "", set()),
    ("class C:\n    f = used.keep", "", set()),
    ("class C:\n    @used.around\n    def f(self): pass", "", set()),
    ("@used.with_method\nclass C:\n    def speak(self): pass", "", set()),
    ("@used.with_method\nclass C(used.Base): pass", "", set()),
    ("class C(metaclass=used.Meta):\n    def speak(self): pass", "", set()),
    ("if False:\n    class C:\n        f = 1\nelse:\n    class C:\n        f = used.keep", "", set()),
    ("__all__ = ['f']\nif False:\n    def f(): pass", "", set()),
    ("__all__ = ['f']\ndef f(): pass\ndel f", "", set()),
    ("def f(): pass\ndef g():\n    global f\n    f = h\ndef h(): pass\ng()", "", set()),
    ("import dataclasses\n@dataclasses.dataclass\nclass C(used.Base):\n    x: int = 0", "", set()),
    ("import functools\n@functools.total_ordering\nclass C:\n    def __lt__(self, other): return True", "", set()),
    ("import enum\nclass C(enum.Enum):\n    A = 1", "", set()),
    ("import typing\nclass C(typing.NamedTuple):\n    a: int", "", set()),
]


def audited(folder: Path, program: str) -> dict[str, Any]:
    """Run a program that prints its own audit; return the audit."""
    (folder / "program.py").write_text(program)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    command = [sys.executable, "program.py"]
    completed = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    content: dict[str, Any] = json.loads(completed.stdout)
    assert content["recorded"] is False
    return content


def slots(content: dict[str, Any]) -> set[tuple[str, str]]:
    """Return slot and kind of each finding."""
    return {(finding["target"], finding["kind"]) for finding in content["findings"]}


def test_every_way_to_patch_the_standard_library(tmp_path: Path) -> None:
    """Functions, builtins, methods, classes, code, removals: found from the source, with the author."""
    lines = {
        "json.dumps = mine": ("json:dumps", "replaced"),
        "time.sleep = mine": ("time:sleep", "replaced"),
        "json.encoder.JSONEncoder.default = mine": ("json.encoder:JSONEncoder.default", "replaced"),
        "textwrap.TextWrapper = type('Other', (), {})": ("textwrap:TextWrapper", "replaced"),
        "queue.LifoQueue.put = mine": ("queue:LifoQueue.put", "overridden"),
        "del textwrap.shorten": ("textwrap:shorten", "removed"),
        "json.loads.__code__ = mine.__code__": ("json:loads", "code"),
        "builtins.patched = mine": ("builtins:patched", "added"),
        "textwrap.dedent = functools.wraps(textwrap.dedent)(mine)": ("textwrap:dedent", "replaced"),
        "shlex.quote = len": ("shlex:quote", "replaced"),
        "pprint.pformat = unittest.mock.Mock()": ("pprint:pformat", "replaced"),
        "gc.get_referents(vars(sqlite3.Cursor))[0]['fetchone'] = mine": ("sqlite3:Cursor.fetchone", "replaced"),
        "gc.get_referents(vars(bytearray))[0]['pop'] = mine": ("builtins:bytearray.pop", "replaced"),
        "gc.get_referents(vars(_io.FileIO))[0]['fileno'] = mine": ("_io:FileIO.fileno", "replaced"),
        "textwrap.__spec__ = importlib.machinery.ModuleSpec('six.moves.textwrap', None)": None,
        "time.now = mine  # a new name": None,
        "socket._added = mine  # socket has a star import": None,
        "logging.BASIC_FORMAT = 'mine'  # a plain value": None,
    }
    names = "_io, builtins, functools, gc, importlib.machinery, json, logging, pprint, queue, shlex, socket, sqlite3"
    names += ", textwrap, time, unittest.mock"
    program = "\n".join([f"import {names}", "before = textwrap.dedent", MINE, *lines])
    content = audited(tmp_path, program + SHOW)
    assert slots(content) == {slot for slot in lines.values() if slot is not None}
    by_target = {finding["target"]: finding for finding in content["findings"]}
    assert by_target["json:dumps"]["before"] == "json:dumps"
    assert by_target["json:dumps"]["place"] == f"{tmp_path}/program.py:3"
    assert by_target["time:sleep"]["before"] == "not known"
    assert (by_target["textwrap:dedent"]["layers"], by_target["textwrap:dedent"]["undo"]) == (1, "__wrapped__")
    assert by_target["textwrap:dedent"]["stale"] == ["__main__:before"]


def test_what_the_source_itself_does_is_no_patch(tmp_path: Path) -> None:
    """Each module of HELD under a name of its own: the patches are found, decorators and imports are not."""
    (tmp_path / "used.py").write_text(USED)
    statements, expected = ["import used"], set()
    for number, (source, statement, changes) in enumerate(HELD):
        (tmp_path / f"module{number}.py").write_text(f"import used\n{source}\n")
        statements += [f"import module{number} as module", statement]
        expected |= {(target.replace("module", f"module{number}", 1), kind) for target, kind in changes}
    assert len(expected) == 20
    assert slots(audited(tmp_path, "\n".join(statements) + SHOW)) == expected


def test_a_logger_of_a_foreign_class_is_no_patch_of_its_module(tmp_path: Path) -> None:
    """Modules imported later ask ``logging`` for their loggers: the class of loggers alone is a patch."""
    program = "import logging\nclass Mine(logging.Logger): pass\nlogging.setLoggerClass(Mine)\nimport asyncio"
    assert slots(audited(tmp_path, program + SHOW)) == {("logging:_loggerClass", "replaced")}


def test_a_program_that_only_imports_has_no_findings(tmp_path: Path) -> None:
    """The standard library looks unpatched, despite the modules' own changes during import."""
    names = """
        argparse asyncio bisect collections.abc concurrent.futures contextlib copyreg csv ctypes dataclasses datetime
        decimal difflib email.message enum fractions functools hashlib heapq http.server inspect ipaddress json logging
        multiprocessing.pool operator pathlib pickle queue random selectors socket sqlite3 ssl statistics string
        subprocess tempfile threading tkinter typing unittest.mock uuid xml.dom.minidom xml.etree.ElementTree
        zipfile zoneinfo"""
    tries = [f"try: import {name}\nexcept ImportError: pass" for name in names.split()]
    assert audited(tmp_path, "\n".join(tries) + SHOW)["findings"] == []


def test_an_error_shown_by_a_prompt_is_no_patch_of_sys(tmp_path: Path) -> None:
    """Python keeps the error in ``sys.last_value`` and three more names."""
    program = "import code\nclass Mine(Exception): pass\ncode.InteractiveInterpreter(globals()).runcode('raise Mine')"
    assert audited(tmp_path, program + SHOW)["findings"] == []


TWINS = """
import asyncio, asyncio.futures, asyncio.tasks, importlib.util, queue, shlex, threading
asyncio.Future = asyncio.futures.Future = asyncio.futures._CFuture = asyncio.futures._PyFuture
asyncio.tasks.Task = asyncio.tasks._CTask = asyncio.tasks._PyTask
queue.SimpleQueue = queue._PySimpleQueue
threading.RLock = threading._RLock
spec = importlib.util.spec_from_file_location("again", shlex.__file__)
again = importlib.util.module_from_spec(spec)
spec.loader.exec_module(again)
again.shlex.__module__ = "shlex"
shlex.join, shlex.shlex = again.join, again.shlex
"""


def test_python_twins_and_second_executions_in_the_standard_library(tmp_path: Path) -> None:
    """A class of Python in place of the class of C, and values of a second execution of the file, are found."""
    assert slots(audited(tmp_path, TWINS + SHOW)) == {
        (target, "replaced")
        for target in (
            *("asyncio:Future", "asyncio.futures:Future", "asyncio.futures:_CFuture"),
            *("asyncio.tasks:Task", "asyncio.tasks:_CTask", "queue:SimpleQueue"),
            *("threading:RLock", "shlex:join", "shlex:shlex"),
        )
    }


def test_our_patches_are_in_the_same_table(tmp_path: Path) -> None:
    """A patch of hookpatch is in the table while its session is open, with the way of the undo."""
    (tmp_path / "vendor.py").write_text("def speak(): return 'vendor'\ndef walk(): return 'vendor'\n")
    program = f"""{MINE}
import hookpatch, vendor
patches = (
    hookpatch.wrap("vendor:speak", lambda wrapped, *rest: "ours"),
    hookpatch.wrap("vendor:walk", lambda wrapped, *rest: "ours", reach="everywhere"),
)
with hookpatch.active(*patches):
    inside = hookpatch.audit()
print(inside.to_json() if not hookpatch.audit().findings else "left behind")
"""
    by_target = {finding["target"]: finding for finding in audited(tmp_path, program)["findings"]}
    ours = {target: finding["kind"] for target, finding in by_target.items() if target.startswith("vendor:")}
    assert ours == {"vendor:speak": "replaced", "vendor:walk": "code"}
    assert {(by_target[target]["plugin"], by_target[target]["undo"]) for target in ours} == {("active()", "session")}


def test_under_the_command_the_notes_are_compared(tmp_path: Path) -> None:
    """In a program run by ``hookpatch audit`` the function has the notes: it finds a constant, too."""
    program = "import logging, hookpatch; logging.BASIC_FORMAT = 'mine'; "
    program += "found = hookpatch.audit(); print(found.recorded, *found)"
    command = [sys.executable, "-m", "hookpatch", "audit", "-c", program]
    completed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert completed.stdout.startswith("True replaced   logging:BASIC_FORMAT"), completed.stderr


SHOP = {  # an installed package, whose public module rewrites __module__
    "shop/__init__.py": """
from shop._client import Client, Made, sell
from shop._more import Agreed, Kept, late, mixed
from shop import _more
Client.__module__ = sell.__module__ = "shop"
""",
    "shop/_client.py": """
import typing
def own(function):
    return lambda *args: function(*args)
def sell(): return 1
@own
class Made:
    pass
@typing.final
class Client:
    def never_patched(self): return 1
    def send(self): return 1
    @own
    def decorated(self): return 1
    @typing.overload
    def many(self): ...
    @typing.overload
    def many(self, word): ...
    def many(self, word=1): return word
    @property
    def price(self): return 1
    kind = own
""",
    "shop/_more.py": """
import agent
def by_agent(function): return agent.around(function)
@by_agent
def mixed(): return 1
@agent.around
def late(): return 1
@agent.marked
class Agreed:
    def walk(self): return 1
class Kept:
    talk = agent.around(print)
    from agent import around
""",
}
AGENT = """
def around(function):
    def wrapper(*args): return function(*args)
    return wrapper
def marked(kind):
    kind.walk = around(kind.walk)
    return kind
def patch():
    import _datetime, shop
    client = shop.Client
    for name in ("send", "decorated", "many"):
        setattr(client, name, around(getattr(client, name)))
    client.price = property(around(client.price.fget))
    client.kind = shop.sell = shop.Made = around(len)
    _datetime.tzinfo = type("tzinfo", (), {})
"""


def test_decorators_copies_and_rewritten_modules_of_distributions(home: Environment) -> None:
    """A foreign value is a patch where no decorator, import or assignment of the source can have left the value."""
    for distribution, files in (("shop", SHOP), ("agent", {"agent.py": AGENT})):
        for name, text in files.items():
            (home.site_packages / name).parent.mkdir(exist_ok=True)
            (home.site_packages / name).write_text(text)
        info = home.site_packages / f"{distribution}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "RECORD").write_text("".join(f"{name},,\n" for name in files))
    completed = home.run("-c", f"import _datetime, shop, agent{SHOW}agent.patch(){SHOW}")
    before, after = json.JSONDecoder().raw_decode(completed.stdout), completed.stdout
    assert before[0]["findings"] == [], completed.stderr
    findings = json.loads(after[before[1] :])["findings"]
    assert {(finding["target"], finding["distribution"]) for finding in findings} == {
        (target, "agent")
        for target in (
            *("shop:Client.send", "shop:Client.decorated", "shop:Client.many", "shop:Client.price"),
            *("shop:Client.kind", "shop:sell", "shop:Made", "_datetime:tzinfo"),
        )
    }


ORDER = {  # the files of three distributions
    "early": {"early.py": "from colorsys import hls_to_rgb\nfrom colorsys import rgb_to_hls\n"},
    "late": {"late.py": "from colorsys import hls_to_rgb, rgb_to_hls\n"},
    "agent": {
        "agent.py": """
import colorsys
def hls_to_rgb(): return 1
def patch(early):
    colorsys.rgb_to_hls = early.rgb_to_hls = lambda: 1
    colorsys.hls_to_rgb = early.hls_to_rgb = hls_to_rgb
"""
    },
}


@pytest.mark.parametrize("requirement", ["", "Requires-Dist: Agent ; extra == 'more'\n"])
def test_a_module_imported_before_the_author_cannot_have_copied_the_value(home: Environment, requirement: str) -> None:
    """The copies in ``early`` are patches, those in ``late`` are imports; a requirement leaves ``early`` in doubt."""
    for distribution, files in ORDER.items():
        for name, text in files.items():
            (home.site_packages / name).write_text(text)
        info = home.site_packages / f"{distribution}-1.0.dist-info"
        info.mkdir()
        facts = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        (info / "METADATA").write_text(facts + (requirement if distribution == "early" else ""))
        (info / "RECORD").write_text("".join(f"{name},,\n" for name in files))
    completed = home.run("-c", f"import early, agent; agent.patch(early); import late{SHOW}")
    found = {finding["target"] for finding in json.loads(completed.stdout)["findings"]}
    in_early = set() if requirement else {"early:rgb_to_hls", "early:hls_to_rgb"}
    assert found == {"colorsys:rgb_to_hls", "colorsys:hls_to_rgb", *in_early}, completed.stderr


def test_the_author_of_an_assignment_in_a_cell_is_the_program(tmp_path: Path) -> None:
    """A function, lambda or class of a cell is the program's own, although IPython has patched other slots."""
    pytest.importorskip("IPython")
    program = f"""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "hookpatch")
shell.run_cell({CELL!r})
print(shell.run_line_magic("hookpatch", "audit").to_json())
"""
    by_target = {finding["target"]: finding for finding in audited(tmp_path, program)["findings"]}
    assert by_target["builtins:get_ipython"]["distribution"] == "ipython"
    for target in ("colorsys:rgb_to_hls", "shlex:join", "textwrap:TextWrapper", "pprint:isreadable"):
        finding = by_target[target]
        assert (finding["distribution"], finding["probable"]) == (None, False), target
        assert finding["place"] == "__main__" or finding["place"].startswith("<ipython-input-1"), target


def test_the_program_of_minus_c_is_an_author(tmp_path: Path) -> None:
    """A class and a function in the words after -c are the program's own, also in a distribution's folder."""
    program = f"import shlex, textwrap\n{MINE}shlex.join = mine\ntextwrap.TextWrapper = type('Other', (), {{}})\n"
    command = [sys.executable, "-c", program + "import hookpatch\nprint(*hookpatch.audit(), sep='\\n')"]
    folder = Path(__file__).parents[3]  # an editable distribution
    completed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert [line for line in completed.stdout.splitlines() if not line.startswith(" ")] == [
        "replaced   shlex:join  by the program",
        "replaced   textwrap:TextWrapper  by the program",
    ], completed.stderr
