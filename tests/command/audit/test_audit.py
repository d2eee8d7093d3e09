"""`hookpatch audit` reports each patch in a program, whoever made the patch, and no other change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from environments import Environment, hookpatch

from hookpatch._inspect.audit.baseline import new_in, write_known
from hookpatch._inspect.audit.finding import Audit, AuditFinding

pytestmark = pytest.mark.once

# A program that patches the standard library in every way. Each line has a finding in FOUND, if not marked.
EVERY_WAY = """
import abc, functools, json, string, time, types, builtins, sys, logging, queue, textwrap
def mine(*args, **options): return "mine"
json.dumps = mine                                              # a function
time.sleep = mine                                              # a builtin
json.encoder.JSONEncoder.default = lambda self, value: value   # a method
class Other(json.decoder.JSONDecoder): pass
json.decoder.JSONDecoder = Other                               # a class
queue.LifoQueue.put = mine                                     # a method that hides an inherited one
del textwrap.shorten                                           # removed
json.loads.__code__ = (lambda s, **options: s).__code__        # code
string.hexdigits = "0"                                         # a constant in small letters: not told
logging.BASIC_FORMAT = "mine"                                  # a constant in capitals
builtins.patched = mine                                        # a builtin name
@functools.wraps(textwrap.dedent)
def dedent(text): return text
textwrap.dedent = dedent                                       # with the original beneath
sys.modules["this"] = types.ModuleType("this")                 # a module never imported: not told
stat = __import__("stat"); sys.modules["stat"] = types.ModuleType("stat"); sys.modules["stat"].__file__ = __file__
"""
FOUND = {
    ("builtins:patched", "added"),
    ("json.decoder:JSONDecoder", "replaced"),
    ("json.encoder:JSONEncoder.default", "replaced"),
    ("json:dumps", "replaced"),
    ("json:loads", "code"),
    ("logging:BASIC_FORMAT", "replaced"),
    ("queue:LifoQueue.put", "overridden"),
    ("sys.modules['stat']", "module"),
    ("textwrap:dedent", "replaced"),
    ("textwrap:shorten", "removed"),
    ("time:sleep", "replaced"),
}


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, with the environment of the tests."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    command = [sys.executable, "-m", "hookpatch", "audit", *words]
    return subprocess.run(command, cwd=folder, env={**clean, **variables}, capture_output=True, text=True, check=False)


def findings(completed: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the findings by address, and the whole content under an empty address."""
    assert completed.returncode == 0, completed.stderr
    content = json.loads(completed.stdout)
    return {finding["target"]: finding for finding in content["findings"]} | {"": content}


def test_every_way_to_patch_is_found_and_nothing_else(tmp_path: Path) -> None:
    """The audit finds functions, methods, classes, code, constants, removals, builtins and entries of sys.modules."""
    (tmp_path / "ways.py").write_text(EVERY_WAY)
    by_address = findings(run(tmp_path, "--json", "ways.py"))
    content = by_address.pop("")
    assert {(finding["target"], finding["kind"]) for finding in by_address.values()} == FOUND
    assert by_address["json:dumps"]["place"] == f"{tmp_path}/ways.py:3"
    assert by_address["json:dumps"]["before"] == "json:dumps"
    assert by_address["json:loads"]["assigned_at"] == f"{tmp_path}/ways.py:11"
    assert (by_address["textwrap:dedent"]["layers"], by_address["textwrap:dedent"]["undo"]) == (1, "__wrapped__")
    assert content["recorded"] is True


def test_a_program_that_only_imports_has_no_findings(tmp_path: Path) -> None:
    """Lazy loading, caches and a class that typing completes are no patches."""
    program = "import typing, enum, dataclasses, asyncio, unittest.mock, email.message, http.server, xml.dom.minidom\n"
    protocol = "class P(typing.Protocol): pass\nclass C(P): pass\nC()\n"
    assert findings(run(tmp_path, "--json", "-c", program + protocol))[""]["findings"] == []


def test_all_lists_new_names_and_entries_too(tmp_path: Path) -> None:
    """With --all a new name and each changed entry of a dictionary is listed.

    A dictionary that computes its entries is read without its own methods, and keys are not compared. So is a mapping
    that keeps its entries in dictionaries.
    """
    (tmp_path / "shop.py").write_text("""
from collections.abc import MutableMapping
class Registry(MutableMapping):
    def __init__(self): self._kinds = {"old": int}
    def __setitem__(self, name, kind): self._kinds[name] = kind
    def __getitem__(self, name): 1 / 0
    __delitem__ = __iter__ = __len__ = __getattr__ = __getitem__
REGISTRY = Registry()
class Key:
    def __hash__(self): return 1 if not alive else 1 / 0
    def __eq__(self, other): return self is other if not alive else 1 / 0
class Made(dict):
    def __getitem__(self, name): 1 / 0
    def __iter__(self): 1 / 0
    keys = __getitem__
alive = []
SOLD, KINDS = {"a": 1, "b": 2, Key(): 3}, Made(old=len)
class Shop:
    prices = {str: 1}
""")
    program = """
import shop
shop.extra = 3
shop.SOLD["a"] = 5
del shop.SOLD["b"]
shop.KINDS["new"] = print
shop.Shop.prices[str] = 2
shop.REGISTRY["old"] = str
shop.alive.append(1)
"""
    names = {
        ("shop:extra", "added", None, "3"),
        ("shop:SOLD['a']", "entry", "1", "5"),
        ("shop:SOLD['b']", "entry", "2", None),
        ("shop:KINDS['new']", "entry", None, "builtins:print"),
        ("shop:Shop.prices[builtins:str]", "entry", "1", "2"),
        ("shop:REGISTRY._kinds['old']", "entry", "builtins:int", "builtins:str"),
    }
    by_address = findings(run(tmp_path, "--all", "--json", "-c", program))
    found = [finding for address, finding in by_address.items() if address.startswith("shop:")]
    assert {(finding["target"], finding["kind"], finding["before"], finding["now"]) for finding in found} == names
    assert findings(run(tmp_path, "--json", "-c", program))[""]["findings"] == []


@pytest.mark.ends
def test_the_author_is_the_distribution_that_lists_the_file(home: Environment) -> None:
    """A finding names the distribution that lists the file, even in a shared namespace package.

    A distribution that changes only itself gives no finding.
    """
    for name, body in (("one", "import json\njson.dumps = lambda value: 1"), ("two", "def speak(): return 1")):
        folder = home.site_packages / "space" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(body)
        info = home.site_packages / f"space_{name}-2.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: space-{name}\nVersion: 2.0\n")
        (info / "RECORD").write_text(f"space/{name}/__init__.py,,\n")
    (home.site_packages / "space" / "two" / "later.py").write_text("import space.two\nspace.two.speak = lambda: 2\n")
    with (home.site_packages / "space_two-2.0.dist-info" / "RECORD").open("a") as record:
        record.write("space/two/later.py,,\n")
    by_address = findings(hookpatch(home, "audit", "--json", "-c", "import space.one, space.two.later"))
    assert by_address.pop("") is not None
    assert [(address, finding["distribution"], finding["version"]) for address, finding in by_address.items()] == [
        ("json:dumps", "space-one", "2.0")
    ]


@pytest.mark.ends
def test_our_patches_are_in_the_same_table(home: Environment) -> None:
    """Patches of hookpatch appear in the same table, with the plugin's name."""
    by_address = findings(hookpatch(home, "audit", "--json", "-p", "loud", "script.py"))
    assert [(finding["target"], finding["plugin"], finding["undo"]) for finding in by_address[""]["findings"]] == [
        ("vendor:speak", "loud", "session")
    ]


def test_sitecustomize_is_heard_and_children_are_not_recorded(tmp_path: Path) -> None:
    """A foreign sitecustomize runs as usual, and the audit records a patch made there.

    A child process gets no variable of the audit.
    """
    (tmp_path / "sitecustomize.py").write_text("import json\njson.dumps = lambda value: 1\n")
    program = (
        "import os, subprocess, sys; subprocess.run([sys.executable, '-c', 'import os; print(sorted(os.environ))'])"
    )
    completed = run(tmp_path, "-c", program, PYTHONPATH=str(tmp_path))
    assert "replaced   json:dumps  by the program" in completed.stdout
    assert "during sitecustomize" in completed.stdout
    assert "HOOKPATCH_AUDIT" not in completed.stdout


@pytest.mark.ends
def test_a_baseline_tells_what_is_new(tmp_path: Path) -> None:
    """A baseline is written once and compared later. The status is 1 for a patch that the baseline lacks."""
    (tmp_path / "ways.py").write_text("import json\njson.dumps = len\n")
    assert run(tmp_path, "--write-baseline", "known.json", "ways.py").returncode == 0
    words = ("--baseline", "known.json", "--fail-on", "new", "ways.py")
    completed = run(tmp_path, *words)
    assert (completed.returncode, completed.stdout.splitlines()[-1]) == (0, "0 new since known.json")
    (tmp_path / "other.json").write_text('{"version": 2, "patches": []}')
    completed = run(tmp_path, "--baseline", "other.json", "ways.py")
    assert (completed.returncode, "other.json has version 2, not 1" in completed.stderr) == (78, True)
    (tmp_path / "ways.py").write_text("import json\njson.dumps = json.loads = len\n")
    completed = run(tmp_path, *words)
    assert (completed.returncode, completed.stdout.splitlines()[-2:]) == (1, ["1 new since known.json", "  json:loads"])
    completed = run(tmp_path, "ways.py", *words[:4])
    line = "hookpatch: warning: --baseline is behind the program, so the program gets the option"
    assert (completed.returncode, completed.stderr.partition(";")[0]) == (0, line)
    completed = run(tmp_path, "--baseline", "nowhere.json", "ways.py")
    text = "--baseline: nowhere.json cannot be read: No such file or directory; --write-baseline makes it"
    assert (completed.returncode, completed.stderr) == (
        78,
        f"hookpatch: error: {text} [hookpatch explain SettingError]\n",
    )


def test_a_guess_is_no_author_in_a_baseline() -> None:
    """The author of a value without a file is guessed by time, so two runs of one program may differ."""
    guessed, unknown, known = (
        AuditFinding("select:epoll", "removed", distribution=name, probable=name == "gevent")
        for name in ("gevent", "Python", "eventlet")
    )
    audits = [Audit((finding,), True, 1, (0.0, 0.0)) for finding in (guessed, unknown, known)]
    baseline = {tuple(entry.values()) for entry in json.loads(write_known(audits[0]))["patches"]}
    assert [[*new_in(audit, baseline)] for audit in audits] == [[], [], [known]]


def test_a_place_in_an_installed_package_is_short() -> None:
    """The text and the notebook's table leave out the folder of installed packages; the attribute is the whole path."""
    place = "/env/lib/python3.11/site-packages/shop/fixes.py:3"
    audit = Audit((AuditFinding("json:dumps", "replaced", "json:dumps", "shop.fixes:dumps", place=place),))
    assert str(audit).splitlines()[-1] == "    json:dumps -> shop.fixes:dumps  at shop/fixes.py:3"
    assert (">shop/fixes.py:3<" in audit._repr_html_(), audit.findings[0].place) == (True, place)


@pytest.mark.parametrize("option", ["--html", "--write-baseline"])
@pytest.mark.parametrize(("file", "reason"), [("nowhere/file", "there is no folder nowhere"), (".", "it is a folder")])
def test_a_file_that_cannot_be_written_is_refused_before_the_run(
    tmp_path: Path, option: str, file: str, reason: str
) -> None:
    """A program that runs for an hour does not run at all if its audit could not be written."""
    completed = run(tmp_path, option, file, "-c", "print('run')")
    line = f"hookpatch: error: {option}: {file} cannot be written: {reason} [hookpatch explain SettingError]\n"
    assert (completed.returncode, completed.stdout, completed.stderr) == (78, "", line)


@pytest.mark.ends
@pytest.mark.parametrize(
    ("program", "status"), [("import sys; sys.exit(3)", 3), ("raise RuntimeError('no')", 1), ("print('out')", 0)]
)
def test_the_status_is_the_programs(tmp_path: Path, program: str, status: int) -> None:
    """The audit of a program that fails is printed, too."""
    completed = run(tmp_path, "-c", program)
    assert completed.returncode == status
    assert "0 slots patched" in completed.stdout


@pytest.mark.ends
def test_a_program_that_leaves_no_audit_is_an_error(tmp_path: Path) -> None:
    """A program that a signal killed, or that ended by os._exit, leaves no audit."""
    completed = run(tmp_path, "-c", "import os; os._exit(4)")
    text = "hookpatch audit: the program ended with status 4 and without an audit: it was killed, or ran os._exit"
    assert (completed.returncode, completed.stderr) == (
        78,
        f"hookpatch: error: {text} [hookpatch explain SettingError]\n",
    )


@pytest.mark.ends
def test_the_page_shows_each_slot(tmp_path: Path) -> None:
    """The page escapes foreign names and fetches no resource; against a baseline it marks new slots."""
    (tmp_path / "ways.py").write_text("import json\njson.dumps = type('<b>', (), {'__call__': len})()\n")
    assert run(tmp_path, "--html", "page.html", "ways.py").returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert "<code>json:dumps</code>" in page
    assert "<b>'" not in page
    assert "&lt;b&gt;" in page
    assert "default-src 'none'" in page
    assert "<li><span class=badge>the program</span> 1</li>" in page
    assert "(new)" not in page
    assert run(tmp_path, "--write-baseline", "b.json", "-c", "pass").returncode == 0
    assert run(tmp_path, "--html", "page.html", "--baseline", "b.json", "ways.py").returncode == 0
    assert "replaced (new)" in (tmp_path / "page.html").read_text()


def test_trace_functions_and_loaders_that_change_sources_are_listed(tmp_path: Path) -> None:
    """A trace function and a loader that changes sources are in no slot, and are listed; Python's loaders are not."""
    (tmp_path / "rewriter.py").write_text("""
import sys
from importlib.machinery import PathFinder, SourceFileLoader
class Loader(SourceFileLoader):
    def get_code(self, name): return compile("price = 2", "shop.py", "exec")
class Finder:
    def find_spec(name, path=None, target=None):
        if name == "shop":
            spec = PathFinder.find_spec(name)
            spec.loader = Loader(spec.loader.name, spec.loader.path)
            return spec
sys.meta_path.insert(0, Finder)
""")
    (tmp_path / "shop.py").write_text("price = 1\n")
    program = """
import rewriter, shop, sys, threading
def trace(frame, event, argument): pass
threading.setprofile(trace)
sys.settrace(trace)
assert shop.price == 2
"""
    (tmp_path / "program.py").write_text(program)
    by_address = findings(run(tmp_path, "--json", "program.py"))
    del by_address[""]
    assert {target: (finding["kind"], finding["before"], finding["now"]) for target, finding in by_address.items()} == {
        "sys.settrace": ("trace", None, "__main__:trace"),
        "threading.setprofile": ("trace", None, "__main__:trace"),
        "rewriter:Loader": ("source", "the source of 1 module (shop)", "what the loader makes of the source"),
    }
    assert by_address["sys.settrace"]["place"] == f"{tmp_path}/program.py:3"
