"""A process has a single copy of hookpatch: a second import or a reload knows the patches of the first."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path

import pytest
from environments import VENDOR, Environment
from messages import shown

import hookpatch
from hookpatch.errors import SecondCopyWarning

PLUGIN = """
    '''Speak louder.'''
    import hookpatch
    def first(wrapped, instance, args, kwargs):
        return "first " + wrapped(*args, **kwargs)
    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.wrap("vendor:speak", first)
"""
PURGE = """
for name in [name for name in sys.modules if name.startswith({!r})]:
    del sys.modules[name]
"""
OTHER = "del sys.modules['hookpatch']; sys.path.insert(0, 'other')"
# The code that makes the process import hookpatch anew, and the words of the warnings: which copy was not used.
WAYS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "package": ("del sys.modules['hookpatch']", []),
    "everything": (PURGE.format("hookpatch"), []),
    "files": (PURGE.format("hookpatch."), []),
    "session": ("del sys.modules['hookpatch._session.session'], sys.modules['hookpatch._session']", []),
    "sites": ("del sys.modules['hookpatch._engine.site.sites']; import hookpatch._engine.site.sites", []),
    "finders": (PURGE.format("hookpatch") + "sys.path_importer_cache.clear()", []),
    "restored": (
        "from pytest import MonkeyPatch\nwith MonkeyPatch.context() as patch:\n"
        "    patch.delitem(sys.modules, 'hookpatch'); import hookpatch as inside\n    print(inside is kept)",
        [],
    ),
    "snapshot": ("sys.modules.clear(); sys.modules.update(before)", []),
    "spec": (
        "found = importlib.util.find_spec('hookpatch'); made = importlib.util.module_from_spec(found)\n"
        "sys.modules['hookpatch'] = made; found.loader.exec_module(made)",
        [],
    ),
    "thread": (
        PURGE.format("hookpatch") + "thread = threading.Thread(target=importlib.import_module, args=['hookpatch'])\n"
        "thread.start(); thread.join()",
        [],
    ),
    "other": (OTHER, [("hookpatch 9.9 from other", "used")]),
    "other's files": (
        PURGE.format("hookpatch") + "sys.path.insert(0, 'other')",
        [("hookpatch 9.9 from other", "used")],
    ),
    "reload": ("importlib.reload(kept)", [("hookpatch 0.1.0 from kept", "executed anew")]),
    "reload of other": (
        "sys.path.insert(0, 'other'); importlib.reload(kept)",
        [("hookpatch 9.9 from other", "executed anew")],
    ),
    "reload of a file": (
        "importlib.reload(sys.modules['hookpatch._session.session'])",
        [("hookpatch._session.session", "executed anew")],
    ),
    "deep reload": (
        "from IPython.lib import deepreload\nwith contextlib.redirect_stdout(None):\n"
        "    deepreload.reload(importlib.import_module('user'), ('sys', 'os', 'builtins', 'importlib', 'warnings'))",
        [("hookpatch 0.1.0 from kept", "executed anew")],
    ),
}
PROGRAM = """
import contextlib, importlib, importlib.util, json, os, sys, threading, warnings
import vendor
before = dict(sys.modules)
import hookpatch

def second(wrapped, instance, args, kwargs):
    return "second " + wrapped(*args, **kwargs)

kept, version, file = hookpatch, hookpatch.__version__, hookpatch.__file__
block = contextlib.nullcontext() if {at_start} else hookpatch.active(hookpatch.wrap("vendor:speak", vendor.first))
with block, warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    files = {{name: module for name, module in sys.modules.items() if name.startswith("hookpatch.")}}
    look = hookpatch.report
    facts = [(module.__spec__, module.__loader__, module.__file__) for module in files.values()]
{way}
    import hookpatch as anew
    from hookpatch import why
    print(anew is kept, anew.report is look, [importlib.import_module(name) for name in files] == [*files.values()])
    print(facts == [(module.__spec__, module.__loader__, module.__file__) for module in files.values()])
    print((anew.__version__, anew.__file__) == (version, file))
    print(*(patch.state for patch in anew.report()))
    with anew.active(anew.wrap("vendor:speak", second)):
        print(len(why("vendor:speak").layers), vendor.speak(), *(patch.state for patch in look()))
    print(vendor.speak(), *(patch.state for patch in look()))
    if hasattr(os, "fork") and not (child := os.fork()):
        del sys.modules["hookpatch"]
        from hookpatch import report
        print("child", vendor.speak(), *(patch.state for patch in report()), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print("after", vendor.speak(), [patch.state for patch in look()], json.dumps([str(c.message) for c in caught]))
"""


@pytest.fixture(scope="module")
def home(_hookpatch_alone: Environment, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Make an environment with a plugin, and a folder with a second copy of hookpatch of another version."""
    environment = Environment(tmp_path_factory.mktemp("home") / "venv")
    environment.take_over(_hookpatch_alone)
    environment.add_plugin("loud", PLUGIN)
    first = "\ndef first(wrapped, instance, args, kwargs):\n    return 'first ' + wrapped(*args, **kwargs)\n"
    folder = tmp_path_factory.mktemp("work")
    environment.work_in(folder, {"vendor.py": VENDOR + first, "user.py": "import hookpatch\n"})
    (folder / "other" / "hookpatch").mkdir(parents=True)
    for path in (environment.site_packages / "hookpatch").iterdir():
        (folder / "other" / "hookpatch" / path.name).symlink_to(path)
    face = folder / "other" / "hookpatch" / "__init__.py"
    text = face.read_text()
    face.unlink()
    face.write_text(text.replace('__version__ = "0.1.0"', '__version__ = "9.9"'))
    return environment


@pytest.mark.parametrize("at_start", [False, True], ids=["block", "start"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.sampled(6)
def test_patches_are_known_after_a_second_import(home: Environment, way: str, at_start: bool) -> None:
    """The second import is the first copy: the report is true, and new patches lie over the earlier ones."""
    code, warned = WAYS[way]
    if "IPython" in code:
        pytest.importorskip("IPython")
    program = PROGRAM.format(way="\n".join(f"    {line}" for line in code.splitlines()), at_start=at_start)
    (home.folder / "program.py").write_text(program)
    variables = {"HOOKPATCH_PLUGINS": "loud"} if at_start else {}
    completed = home.run("program.py", PYTHONUNBUFFERED="1", **variables)  # a forked child would print the buffer, too
    assert (completed.stderr, completed.returncode) == ("", 0)
    *lines, last = completed.stdout.splitlines()
    inside = ["True"] if way == "restored" else []
    assert lines == [
        *inside,
        *("True True True", "True", "True", "applied"),
        *("3 second first vendor applied applied", "first vendor applied", "child first vendor applied"),
    ]
    assert last.startswith("after first vendor ['applied'] [" if at_start else "after vendor [] [")
    messages = json.loads(last[last.rindex("] [") + 2 :])
    kept = home.site_packages / "hookpatch" / "__init__.py"
    named = [
        message.replace(str(kept), "kept").replace(f"{home.folder}/other/hookpatch/__init__.py", "other")
        for message in messages
    ]
    expected = [
        f"{words} was not {done}: a process keeps its first copy, which knows the open sessions: hookpatch 0.1.0 from "
        "kept; start a new process"
        for words, done in warned
    ]
    assert [message for message in named if way != "deep reload" or message in expected] == expected


PYTESTER = """
import sys
import vendor

pytest_plugins = "pytester"
INNER = '''
import hookpatch, vendor
def test_inner():
    with hookpatch.active(hookpatch.wrap("vendor:speak", vendor.first)):
        assert len(list(hookpatch.report())) == {count}
        assert vendor.speak() == "first " * {count} + "vendor"
'''

def test_outer(pytester):
    import hookpatch
    assert "hookpatch._session.session" not in sys.modules
    pytester.makepyfile(test_inner=INNER.format(count=1))
    pytester.inline_run().assertoutcome(passed=1)
    assert "hookpatch._session.session" not in sys.modules
    with hookpatch.active(hookpatch.wrap("vendor:speak", vendor.first)) as session:
        pytester.makepyfile(test_inner=INNER.format(count=2))
        pytester.inline_run().assertoutcome(passed=1)
        assert [patch.state for patch in hookpatch.report()] == ["applied"]
        assert [patch.state for patch in session.report()] == ["applied"]
    assert (vendor.speak(), list(hookpatch.report())) == ("vendor", [])
"""


@pytest.mark.ends
def test_run_of_pytester_forgets_our_files(home: Environment) -> None:
    """pytester removes all modules that a run has imported from sys.modules; patches before and after are known."""
    (home.folder / "test_outer.py").write_text(PYTESTER)
    options = ("-W", "error", "-p", "no:cacheprovider", "-p", "no:xdist", "-q")
    completed = home.run("-m", "pytest", *options, "test_outer.py")
    assert "1 passed" in completed.stdout, completed.stdout


def test_other_interpreter_has_a_copy_of_its_own(home: Environment) -> None:
    """A subinterpreter is a world of its own: it imports hookpatch without a warning, and knows its own patches."""
    program = """
import sys, vendor, hookpatch
try:
    import _interpreters as interpreters
    run = interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string
CODE = '''
import warnings
warnings.simplefilter("error")
import sys
sys.path[:0] = ["other", "."]
import hookpatch, vendor
print(hookpatch.__version__, vendor.speak(), hookpatch.report(), flush=True)
with hookpatch.active(hookpatch.wrap("vendor:speak", vendor.first), children="local"):
    print(vendor.speak(), *(patch.state for patch in hookpatch.report()), flush=True)
print(vendor.speak(), hookpatch.report(), flush=True)
'''
with hookpatch.active(hookpatch.wrap("vendor:speak", vendor.first), children="local"):
    other = interpreters.create()
    run(other, CODE)
    print(vendor.speak(), *(patch.state for patch in hookpatch.report()))
    interpreters.destroy(other)
"""
    completed = home.run("-c", program)
    assert completed.stdout.splitlines() == [
        *("9.9 vendor no patches", "first vendor applied", "vendor no patches", "first vendor applied")
    ], completed.stderr


def test_every_file_is_imported_once() -> None:
    """Each file of hookpatch imported in this process is the same object after a purge, with the same facts."""
    ours = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "hookpatch"}
    facts = {name: {**vars(module)} for name, module in ours.items()}
    assert len(ours) > 50
    try:
        for name in ours:
            del sys.modules[name]
        anew = {name: importlib.import_module(name) for name in ours}
    finally:
        sys.modules.update(ours)
    assert [name for name in ours if anew[name] is not ours[name]] == []
    assert [name for name in ours if vars(ours[name]) != facts[name]] == []


def test_warning_of_a_reload() -> None:
    """The text is that of docs/messages.md; as an error it is raised by the reload, and the report stays true."""
    with pytest.warns(SecondCopyWarning) as warned:
        importlib.reload(hookpatch)
    folder = str(Path(hookpatch.__file__).parents[1])
    assert [str(warning.message).replace(f"{folder}/", "") for warning in warned] == [shown(SecondCopyWarning)]
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SecondCopyWarning) as raised:
            importlib.reload(sys.modules["hookpatch.errors"])
    assert raised.value.second == "hookpatch.errors"
    assert sys.modules["hookpatch.errors"] is hookpatch.errors
