"""`hookpatch adopt` writes patches whose values have no address: a run of the apply function makes the values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.once, pytest.mark.ends]

FIXES = """
import builtins, calendar, copyreg, difflib, enum, fractions, functools, glob, http.client, inspect, json, linecache
import logging, mimetypes, os, pkgutil, pickle, queue, random, shlex, signal, string, sys, textwrap, threading, types
import uuid, warnings

def counted(function, calls=[]):
    @functools.wraps(function)
    def inner(*args, **options):
        calls.append(function.__name__)
        inner.calls = len(calls)
        return function(*args, **options)
    inner.calls = 0
    return inner

def limited(limit):
    def decorate(function):
        def inner(self, item, *args, **options):
            return function(self, min(item, limit), *args, **options)
        return inner
    return decorate

def first(function):
    return functools.wraps(function)(lambda *args, **options: function(*args, **options) + " one")

def second(function):
    return functools.wraps(function)(lambda *args, **options: function(*args, **options) + " two")

class Once:
    def __init__(self, function): self.function = function
    def __get__(self, instance, owner): return functools.partial(self.function, instance)

class Printer:
    def __init__(self, original): self.original = original
    def __call__(self, *args, **options): return f"printed {self.original(*args, **options)}"

class Module(types.ModuleType):
    version = 3

class Monkey:
    def __init__(self): self.seen = 0
    def wrap(self, function):
        def inner(*args, **options):
            self.seen += 1
            return [*function(*args, **options), self.seen]
        return inner
    def ic(self, *args): return args

def no_lines(a, b, *args, **options): return iter(())
def info(message, *args, **options): return "info"
def lazily(name): raise AttributeError(name)

monkey, rng = Monkey(), random.Random(3)

def apply():
    json.dumps = functools.partial(json.dumps, sort_keys=True)
    json.loads = counted(json.loads)
    json.__getattr__ = lazily
    textwrap.dedent = functools.lru_cache(maxsize=8)(textwrap.dedent)
    textwrap.fill = first(textwrap.fill)
    textwrap.fill = second(textwrap.fill)
    random.random = rng.random
    builtins.ic = monkey.ic
    builtins.ascii = Printer(builtins.ascii)
    shlex.quote = counted(shlex.quote)
    string.capwords = lambda text, sep=None: text
    glob.glob = monkey.wrap(glob.glob)
    queue.Queue.put = limited(7)(queue.Queue.put)
    uuid.UUID.hex = property(lambda self: "hex")
    fractions.Fraction.from_float = classmethod(lambda cls, value: cls(1, 2))
    calendar.TextCalendar.formatday = Once(calendar.TextCalendar.formatday)
    http.client.HTTPConnection.debuglevel = 0.5
    http.HTTPStatus.TEAPOT = http.HTTPStatus.IM_A_TEAPOT
    mimetypes.types_map[".zzz"] = "text/zzz"
    pickle._Pickler.dispatch[complex] = lambda self, value: None
    difflib.ndiff.__code__ = no_lines.__code__
    logging.root.info = info
    random._inst.betavariate = lambda alpha, beta: 0
    linecache.__class__ = Module
    sys.modules["simplejson_of_mine"] = types.ModuleType("simplejson_of_mine")
    warnings.simplefilter("ignore", ResourceWarning)
    logging.root.addHandler(logging.NullHandler())
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    sys.path_hooks.append(lambda path: (_ for _ in ()).throw(ImportError()))
    pkgutil.iter_importer_modules.register(Monkey, lambda importer, prefix="": iter(()))
    os.environ["OF_FIXES"] = "1"
"""
TAKEN = {
    "builtins:ascii",
    "builtins:ic",
    "calendar:TextCalendar.formatday",
    "fractions:Fraction.from_float",
    "glob:glob",
    "http:HTTPStatus.TEAPOT",
    "json:dumps",
    "json:loads",
    "pickle:_Pickler.dispatch[builtins:complex]",
    "queue:Queue.put",
    "random:_inst.betavariate",
    "random:random",
    "shlex:quote",
    "string:capwords",
    "sys:modules['simplejson_of_mine']",
    "textwrap:dedent",
    "textwrap:fill",
    "uuid:UUID.hex",
}
WRITTEN = {
    "difflib:ndiff.__code__",
    "http.client:HTTPConnection.debuglevel",
    "json:__getattr__",
    "linecache:__class__",
    "logging:root.info",
    "mimetypes:types_map['.zzz']",
}
STATES = {
    "handlers of signals",
    "the handlers of logging",
    "the implementations of pkgutil:iter_importer_modules",
    "the hooks of paths",
    "variables of the environment",
    "warnings.filters",
}
USE = """
import builtins, calendar, difflib, fractions, glob, http.client, json, linecache, logging, mimetypes, pickle, queue
import random, shlex, string, sys, textwrap, uuid

def look():
    waiting = queue.Queue()
    waiting.put(9)
    print(json.dumps({"b": 1, "a": 2}), json.loads("[1]"), hasattr(json.loads, "calls"), textwrap.dedent("  a"))
    print(textwrap.fill("text"), random.random.__self__ is random._inst, hasattr(builtins, "ic"), ascii("a"))
    print(shlex.quote("a b"), string.capwords("ab"), len(glob.glob("no such")), waiting.get(), uuid.UUID(int=1).hex)
    print(fractions.Fraction.from_float(0.25), calendar.TextCalendar().formatday(1, 0, 3))
    print(http.client.HTTPConnection.debuglevel, "TEAPOT" in vars(http.HTTPStatus), mimetypes.types_map.get(".zzz"))
    print(complex in pickle._Pickler.dispatch, [*difflib.ndiff(["a"], ["b"])], logging.root.info("x"))
    print(type(linecache).__name__, "simplejson_of_mine" in sys.modules, "betavariate" in vars(random._inst))
"""


def run_python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    path = os.pathsep.join((str(folder), str(folder / "hookpatch-fixed")))
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**clean, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_values_without_an_address(tmp_path: Path) -> None:
    """Each way to make a value is written, works as by hand, is restored; the plugin's own tests pass."""
    (tmp_path / "fixes.py").write_text(FIXES)
    (tmp_path / "use.py").write_text(USE)
    completed = run_python(tmp_path, "-m", "hookpatch", "adopt", "fixes:apply", "--name", "fixed", "--json")
    assert completed.returncode == 0, completed.stderr
    answer = json.loads(completed.stdout)
    assert {entry["target"] for entry in answer["patches"] if "taken" in entry} == TAKEN
    assert {entry["target"] for entry in answer["patches"] if "taken" not in entry} == WRITTEN
    assert (answer["unsaid"], set(answer["states"])) == ([], STATES)
    block = "import hookpatch, use\nfrom hookpatch_fixed import fixed\nuse.look()\n"
    block += "with hookpatch.active(*fixed.hookpatch_patches()):\n    use.look()\nuse.look()"
    plugin = run_python(tmp_path, "-c", block)
    assert plugin.returncode == 0, plugin.stderr
    by_hand = run_python(tmp_path, "-c", "import fixes, use\nuse.look()\nfixes.apply()\nuse.look()").stdout.splitlines()
    lines = len(by_hand) // 2
    assert plugin.stdout.splitlines() == [*by_hand, *by_hand[:lines]]
    assert all(before != after for before, after in zip(by_hand[:lines], by_hand[lines:], strict=True))
    tested = run_python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "hookpatch-fixed")
    assert tested.stdout.splitlines()[-1].startswith(f"{len(TAKEN | WRITTEN)} passed"), tested.stdout


ODD = """
import json, pickle, shop, textwrap, types

class Key: pass

def fill(text, width=70): return "filled"
def save(pickler, value): return None

GONE, dispatch = types.new_class("Gone"), pickle._Pickler.dispatch
dispatch[GONE] = save

def apply():
    setattr(json, "_shop$patched", True)
    setattr(json, "two words", fill)
    delattr(shop, "_$removed")
    original = json.dumps
    json.dumps = lambda *args, **options: original(*args, **options).upper()
    textwrap.fill = fill
    for key in (Key, types.new_class("Odd"), types.new_class("Other"), complex):
        dispatch[key] = save
    del dispatch[GONE]
"""
VERBS = {
    "json:_shop$patched": "enter",
    "json:dumps": "replace",
    "json:two words": "enter",
    "pickle:_Pickler.dispatch[builtins:complex]": "add",
    "pickle:_Pickler.dispatch[fixes:Key]": "add",
    "pickle:_Pickler.dispatch[types:Gone]": "enter",
    "pickle:_Pickler.dispatch[types:Odd]": "enter",
    "pickle:_Pickler.dispatch[types:Other]": "enter",
    "shop:_$removed": "enter",
    "textwrap:fill": "replace",
}


def test_only_slots_without_an_address_are_entered(tmp_path: Path) -> None:
    """Names and keys that are in no address have an ``enter`` each, other patches and entries have their own verbs.

    A second block writes the same values. The plugin's own tests pass.
    """
    (tmp_path / "fixes.py").write_text(ODD)
    (tmp_path / "shop.py").write_text("def price(): return 1\nvars()['_$removed'] = price\n")
    completed = run_python(tmp_path, "-m", "hookpatch", "adopt", "fixes:apply", "--name", "fixed", "--json")
    answer = json.loads(completed.stdout)
    assert (completed.returncode, answer["unsaid"]) == (0, [])
    assert {entry["target"]: entry["verb"] for entry in answer["patches"]} == VERBS
    look = "print(json.dumps('a'), textwrap.fill('a'), [name for name in vars(json) | vars(shop) if {*name} & {*' $'}],"
    look += " sorted(key.__name__ for key in {*fixes.dispatch} ^ keys))"
    block = "import fixes, json, shop, textwrap\nkeys = {*fixes.dispatch}\n"
    by_hand = run_python(tmp_path, "-c", f"{block}{look}\nfixes.apply()\n{look}").stdout.splitlines()
    block += "import hookpatch\nfrom hookpatch_fixed import fixed\n"
    block += f"for _ in range(2):\n    with hookpatch.active(*fixed.hookpatch_patches()):\n        {look}\n    {look}"
    assert run_python(tmp_path, "-c", block).stdout.splitlines() == [*reversed(by_hand)] * 2
    assert "['Gone', 'Key', 'Odd', 'Other', 'complex']" in by_hand[1]
    tested = run_python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "hookpatch-fixed")
    assert tested.stdout.splitlines()[-1].startswith(f"{len(VERBS)} passed"), tested.stdout


FORGETS = """
import json, lazy, threading

class Maker:
    def dumps(self, *args, **options): return original(*args, **options).upper()

original, kept = json.dumps, None

def apply():
    global kept
    kept = json.maker = Maker()
    json.dumps, json.lock = kept.dumps, threading.Lock()
    lazy.range

def undo():
    json.dumps = original
    del json.lock
"""
LAZY = """
def __getattr__(name):
    if name != "range":
        raise RuntimeError(name)  # as torch.classes does
    return globals().setdefault(name, range)
"""


def test_an_undo_is_entered_if_a_value_has_no_address(tmp_path: Path) -> None:
    """A name that the function itself fills leads to no value. The plugin restores what the undo forgets.

    A name that a module makes at the first use is no patch.
    """
    (tmp_path / "fixes.py").write_text(FORGETS)
    (tmp_path / "lazy.py").write_text(LAZY)
    words = ("adopt", "fixes:apply", "--undo", "fixes:undo", "--name", "fixed", "--json")
    answer = json.loads(run_python(tmp_path, "-m", "hookpatch", *words).stdout)
    verbs = {entry["target"]: entry["verb"] for entry in answer["patches"]}
    assert verbs == dict.fromkeys(("json:dumps", "json:lock", "json:maker"), "enter")
    assert (answer["unsaid"], answer["left"]) == ([], ["json:maker"])
    look = "print(json.dumps('a'), hasattr(json, 'maker'), hasattr(json, 'lock'))"
    block = "import hookpatch, json\nfrom hookpatch_fixed import fixed\n"
    block += f"for _ in range(2):\n    with hookpatch.active(*fixed.hookpatch_patches()):\n        {look}\n    {look}"
    assert run_python(tmp_path, "-c", block).stdout.splitlines() == ['"A" True True', '"a" False False'] * 2


def test_values_are_not_taken_if_a_change_would_be_left(tmp_path: Path) -> None:
    """A class whose names can be set once only cannot be restored, so the patch is not written."""
    (tmp_path / "fixes.py").write_text(
        "import lib\ndef apply():\n    text = 'x'\n    lib.Thing.method = lambda self: text"
    )
    (tmp_path / "lib.py").write_text(
        "class Meta(type):\n"
        "    def __setattr__(cls, name, value):\n"
        "        if cls.__dict__[name].__module__ != 'lib': raise TypeError('set already')\n"
        "        super().__setattr__(name, value)\n"
        "class Thing(metaclass=Meta):\n"
        "    def method(self): return 1\n"
    )
    completed = run_python(tmp_path, "-m", "hookpatch", "adopt", "fixes:apply", "--name", "fixed")
    assert completed.returncode == 78
    reason = "a function made in apply: no address leads to it; a run of the function for it alone leaves"
    problem = f"no patch by fixes:apply can be written: lib:Thing.method: {reason} lib:Thing.method changed"
    assert problem in completed.stderr


MISTAKES = """
import getpass, sys
async def asynchronous(): pass
def generator(): yield
def needs(config): pass
def asks(): input("sure? ")
def password(): getpass.getpass()
class Odd(BaseException):
    def __str__(self): raise ValueError
def odd(): raise Odd
def base(): raise BaseException("odd")
def ends(): sys.exit(3)
class Fix:
    def apply(self): pass
"""
NOT_RUN = "so its body has not run; name a function that patches when called"
PROBLEMS = {
    "asynchronous": f"TypeError: it returns a coroutine, {NOT_RUN}",
    "generator": f"TypeError: it returns a generator, {NOT_RUN}",
    "needs": "TypeError: missing a required argument: 'config'; name a function without arguments",
    "asks": "it reads the standard input, which is empty here",
    "password": "it reads the standard input, which is empty here",
    "odd": "Odd",
    "base": "BaseException: odd",
    "ends": "ended with status 3",
    "Fix.apply": "TypeError: missing a required argument: 'self'; name a function without arguments",
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_mistake_of_the_function_is_one_clear_line(tmp_path: Path, name: str) -> None:
    """The error says what is wrong with the function."""
    (tmp_path / "fixes.py").write_text(MISTAKES)
    completed = run_python(tmp_path, "-m", "hookpatch", "adopt", f"fixes:{name}", "--name", "fixed")
    line = f"new plugin 'fixed': fixes:{name} cannot be run here: {PROBLEMS[name]} [hookpatch explain NewPluginError]"
    assert (completed.returncode, completed.stderr) == (78, f"hookpatch: error: {line}\n")


def test_a_patched_method_is_no_source_by_another_name_of_its_class(tmp_path: Path) -> None:
    """httpx shows its classes under other module names than those of the definitions."""
    (tmp_path / "_client.py").write_text("class Client:\n    def send(self): return 'sent'\n")
    (tmp_path / "shop.py").write_text("from _client import Client\nClient.__module__ = 'shop'\n")
    (tmp_path / "fixes.py").write_text(
        "import functools, shop\n"
        "def apply():\n"
        "    send = shop.Client.send\n"
        "    @functools.wraps(send)\n"
        "    def patched(self): return send(self).upper()\n"
        "    shop.Client.send = patched\n"
    )
    answer = run_python(tmp_path, "-m", "hookpatch", "adopt", "fixes:apply", "--name", "fixed", "--json")
    assert [entry["target"] for entry in json.loads(answer.stdout)["patches"]] == ["shop:Client.send"]
    look = "print(shop.Client().send())"
    block = "import hookpatch, shop\nfrom hookpatch_fixed import fixed\n"
    block += f"with hookpatch.active(*fixed.hookpatch_patches()):\n    {look}\n{look}"
    assert run_python(tmp_path, "-c", block).stdout.splitlines() == ["SENT", "sent"]
