"""Lock: what a target was like is noted so that a person can review it, and what has become of it is told."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from environments import LOUD, Environment

import hookpatch
from hookpatch import Target
from hookpatch._difference import difference
from hookpatch._fingerprint import Fingerprint, of_slot
from hookpatch._lock import Lock, Locked, key_of, read_lock, write_lock
from hookpatch._resolve import resolve
from hookpatch._source import normalised
from hookpatch.errors import DriftError, DriftWarning, SettingError

pytestmark = pytest.mark.once

MakeModule = Callable[..., ModuleType]
WriteModule = Callable[[str, str], Path]

OURS = "a patch given to active()"


def taken(address: str) -> Fingerprint:
    """Return the fingerprint of a target."""
    target = Target(address)
    return of_slot(resolve(target, importlib.import_module(str(target.module)), "this test"))


# --- the source

AS_WRITTEN = '''
    @decorated( 1 )
    def speak(word , times = 2):
        """Say it."""
        # twice by default

        return  (word
                 * times)
'''


def test_comments_formatting_and_docstrings_do_not_count() -> None:
    """They change nothing that a patch meets."""
    assert normalised(AS_WRITTEN) == normalised("@decorated(1)\ndef speak(word, times=2):\n  return word * times")


@pytest.mark.parametrize(
    "other",
    [
        "@decorated(2)\ndef speak(word, times=2): return word * times",
        "@decorated(1)\ndef speak(word, times=3): return word * times",
        "@decorated(1)\ndef speak(word, times=2): return word * times + ''",
        "@decorated(1)\ndef speak(word, times=2):\n    'Say it.'\n    'and this'\n    return word * times",
    ],
    ids=["decorator", "default", "body", "a second text"],
)
def test_all_else_counts(other: str) -> None:
    """A decorator, a default, a statement."""
    assert normalised(AS_WRITTEN) != normalised(other)


def test_what_python_would_warn_of_is_read_all_the_same() -> None:
    """An invalid escape is in many a library; here warnings are errors."""
    assert normalised("def f(): return '\\d'  # any") == "def f():\n    return '\\\\d'"


@pytest.mark.parametrize("text", ["    rows.sort(key=lambda x: x,\n\n", "a documentation, no code", "\0"])
def test_what_is_no_code_by_itself_is_compared_as_it_stands(text: str) -> None:
    """But for its indentation."""
    assert normalised(text) == text.strip()


def test_docstring_alone_is_a_body() -> None:
    """What is left is still a function."""
    assert normalised("def f():\n    'x'") == "def f():\n    pass"


def test_source_of_decorated_function_has_what_is_around_it(make_module: MakeModule) -> None:
    """inspect.getsource looks through decorators; a patch meets them."""
    source = """
        import functools
        def twice(function):
            @functools.wraps(function)
            def around(*args): return function(*args) * {times}
            return around
        @twice
        def speak(word): return word
    """
    make_module("two", source.format(times=2))
    make_module("three", source.format(times=3))
    found = difference(taken("two:speak"), taken("three:speak"))
    assert (found.change, found.reasons) == ("compatible", ("its source has changed",))
    assert taken("two:speak").signature == "(word)"


# --- what is noted

VENDOR = """
    import functools
    limit, name, nothing = 3, "kit", None
    table = {"a": 1, "b": len, int: 2}
    rows = [1, 2]
    built_in = max
    def speak(word, *, deep=None, mark=object()): return word
    async def wait(): pass
    def count(): yield 1
    async def stream(): yield 1
    class Base:
        def inherited(self, x): return x
    class Model(Base):
        kind = "m"
        _hidden = 1
        def __init__(self, size=1): self._size = size
        def method(self, x): return x
        @staticmethod
        def static(x): return x
        @classmethod
        async def of_class(cls, x): return x
        @property
        def size(self): return self._size
        def _private(self): pass
    class Caller:
        def __call__(self, x): return x
    caller = Caller()
"""

KINDS: dict[str, tuple[str, str | None]] = {
    "speak": ("a function", "(word, *, deep=None, mark=...)"),
    "wait": ("an async function", "()"),
    "count": ("a generator function", "()"),
    "stream": ("an async generator function", "()"),
    "Model": ("a class", "(size=1)"),
    "Model.method": ("a function", "(x)"),
    "Model.inherited": ("a function", "(x)"),
    "Model.static": ("a static method", "(x)"),
    "Model.of_class": ("a class method: an async function", "(x)"),
    "Model.size": ("a property", None),
    "Model.kind": ("a str", None),
    "caller": ("an object of vendor:Caller", "(x)"),
    "built_in": ("a C function", None),
    "limit": ("an int", None),
    "nothing": ("a NoneType", None),
    "table": ("a mapping", None),
    "table['a']": ("an int", None),
    "table['new']": ("nothing", None),
    "rows[0]": ("an int", None),
    "functools": ("a module", None),
}


@pytest.mark.parametrize("name", KINDS)
def test_kind_and_signature_are_noted(make_module: MakeModule, name: str) -> None:
    """As a caller or a subclass meets it: without the object that it is called on."""
    make_module("vendor", VENDOR)
    found = taken(f"vendor:{name}")
    assert (found.kind, found.signature) == KINDS[name]


def test_members_of_a_class_are_its_own_that_others_may_use(make_module: MakeModule) -> None:
    """Sorted, with signatures; what begins with one underscore may change."""
    make_module("vendor", VENDOR)
    assert taken("vendor:Model").members == (
        *("__init__(size=1)", "kind", "method(x)"),
        *("of_class(x)", "size", "static(x)"),
    )


def test_keys_of_a_registry_are_noted(make_module: MakeModule) -> None:
    """With an entry, and with the mapping itself."""
    make_module("vendor", VENDOR)
    for name in ("table", "table['a']"):
        assert taken(f"vendor:{name}").keys == ("'a'", "'b'", "builtins:int")


def test_what_a_c_function_offers_is_noted() -> None:
    """Its documentation, and its signature where it tells one."""
    found = taken("math:isclose")
    assert found.signature == "(a, b, *, rel_tol=1e-09, abs_tol=0.0)"
    assert (found.source or "").startswith("Determine whether two floating")


def test_values_are_noted_and_the_environment_is_not(make_module: MakeModule) -> None:
    """A lock file is committed: what each machine has, and may be secret, is not in it."""
    make_module("vendor", VENDOR)
    assert [taken(f"vendor:{name}").source for name in ("limit", "name", "table['a']")] == ["3", "'kit'", "1"]
    assert taken("os:environ['PATH']") == Fingerprint("a str")
    assert taken("os:environ") == Fingerprint("a mapping")


def test_target_is_noted_without_the_patches_that_are_on(make_module: MakeModule) -> None:
    """Wrapped, replaced, or changed in place."""
    make_module("vendor", VENDOR)
    before = taken("vendor:speak")
    for patch in (
        hookpatch.replace("vendor:speak", max),
        hookpatch.wrap("vendor:speak", print),
        hookpatch.wrap("vendor:speak", print, reach="everywhere"),
    ):
        with hookpatch.active(patch):
            assert taken("vendor:speak") == before


# --- what has become of it

BEFORE = """
    def speak(word, times=2): return word * times
    class Model:
        def method(self, x): return x
        def other(self): return 1
        def _private(self): return 1
    table = {"a": 1, "b": 2}
    limit = 3
    def plain(): return 1
"""
CASES: dict[str, tuple[str, str, str, str, tuple[str, ...]]] = {
    "nothing": ("speak", "return word * times", "return word*times  # so", "same", ()),
    "body": ("speak", "word * times", "word * times * 1", "compatible", ("its source has changed",)),
    "more": (
        "speak",
        "times=2):",
        "times=2, deep=False):",
        "compatible",
        ("it took (word, times=2) and takes (word, times=2, deep=False)", "its source has changed"),
    ),
    "default": (
        "speak",
        "times=2",
        "times=3",
        "compatible",
        ("it took (word, times=2) and takes (word, times=3)", "its source has changed"),
    ),
    "renamed": (
        "speak",
        "times=2",
        "number=2",
        "changed",
        (
            "it took (word, times=2) and takes (word, number=2): a call(word=..., times=...) fails: got an unexpected "
            "keyword argument 'times'",
            "its source has changed",
        ),
    ),
    "kind": ("plain", "def plain", "async def plain", "changed", ("it was a function and is an async function",)),
    "member gone": (
        "Model",
        "def other",
        "def another",
        "changed",
        ("other has gone", "new: another", "its source has changed"),
    ),
    "member renamed its parameter": (
        "Model",
        "self, x",
        "self, y",
        "changed",
        (
            "method took (x) and takes (y): a call(x=...) fails: missing a required argument: 'y'",
            "its source has changed",
        ),
    ),
    "private member gone": ("Model", "_private", "_other", "compatible", ("its source has changed",)),
    "key": ("table['a']", '"b": 2', '"c": 2', "compatible", ("gone among the keys: 'b'", "new among the keys: 'c'")),
    "value": ("limit", "limit = 3", "limit = 4", "compatible", ("its source has changed",)),
    "kind of value": ("limit", "limit = 3", "limit = 3.0", "changed", ("it was an int and is a float",)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_has_become_of_a_target_is_told(make_module: MakeModule, case: str) -> None:
    """Same, changed and compatible, or changed; with the reasons, the worst first."""
    name, old, new, change, reasons = CASES[case]
    make_module("before", BEFORE)
    assert BEFORE.count(old) == 1
    make_module("after", BEFORE.replace(old, new))
    found = difference(taken(f"before:{name}"), taken(f"after:{name}"))
    assert (found.change, found.reasons) == (change, reasons)
    assert bool(found.diff) == ("its source has changed" in reasons or case.startswith("kind"))


def test_diff_is_one_of_what_counts() -> None:
    """Unified, with both releases; without comments and docstrings."""
    before = Fingerprint("a function", "vendor-kit", "1.4", "()", source="def f():\n    return 1")
    after = Fingerprint("a function", "vendor-kit", "1.5", "()", source="def f():\n    return 2")
    assert difference(before, after).diff == (
        *("--- locked (vendor-kit 1.4)", "+++ installed (vendor-kit 1.5)", "@@ -1,2 +1,2 @@"),
        *(" def f():", "-    return 1", "+    return 2"),
    )


def test_source_that_another_python_has_normalised_is_the_same() -> None:
    """Pythons write the same tree in different ways: the locked text is normalised by the one that looks."""
    before = Fingerprint("a function", source="def f(x):\n    return (x, 1)")
    after = dataclasses.replace(before, source="def f(x):\n    return x, 1")
    assert difference(before, after).change == "same"


# --- the file


def written(path: Path, make_module: MakeModule) -> Lock:
    make_module("vendor", VENDOR)
    names = ("speak", "Model", "table['a']", "built_in", "limit", "table['new']")
    targets = {f"vendor:{name}": Locked(taken(f"vendor:{name}"), ("loud: wrap",)) for name in names}
    targets["math:isclose"] = Locked(taken("math:isclose"))
    long = Fingerprint("a function", signature=f"({', '.join(f'parameter_{number}=1' for number in range(9))})")
    awkward = Fingerprint("a function", "kit", "1", "(x='a, b')", source="f'''\n\\ '''\x00\x7f\u00fc\u4e2d")
    targets |= {'a:b["c\\"]': Locked(awkward), "a:long": Locked(long)}
    options: dict[str, Any] = {"skip": {"passes": ["a", 'b"'], "deep": True, "at": 1.5, "by": {"k": 2}}}
    lock = Lock(("skip", "loud"), options, targets, str(path))
    assert write_lock(lock)
    return lock


def test_lock_file_is_read_as_it_was_written(tmp_path: Path, make_module: MakeModule) -> None:
    """Whatever is in the sources, addresses and options."""
    lock = written(tmp_path / "hookpatch.lock", make_module)
    read = read_lock(str(tmp_path / "hookpatch.lock"))
    assert (read.targets, read.options, read.plugins) == (lock.targets, lock.options, ("loud", "skip"))


def test_lock_file_is_the_same_for_the_same_targets(tmp_path: Path, make_module: MakeModule) -> None:
    """In whatever order they are found; then it is not even written."""
    lock = written(tmp_path / "hookpatch.lock", make_module)
    backwards = dict(reversed(lock.targets.items()))
    stamp = os.stat(lock.path).st_mtime_ns
    assert not write_lock(dataclasses.replace(lock, targets=backwards, plugins=("loud", "skip")))
    assert os.stat(lock.path).st_mtime_ns == stamp
    assert os.listdir(tmp_path) == ["hookpatch.lock", "site"]


def test_lock_file_is_made_for_review(tmp_path: Path) -> None:
    """One table a target, sorted; a long list and a long signature an entry a line; the source line by line."""
    fingerprint = Fingerprint("a function", "vendor-kit", "1.4", "(word)", source="def speak(word):\n    return word")
    long = Fingerprint("a str", keys=tuple(f"'{'key' * 4}{number}'" for number in range(6)))
    lock = Lock(("loud",), {}, {"vendor:speak": Locked(fingerprint, ("loud: wrap",)), "m:t['k']": Locked(long)})
    assert (
        lock.to_toml()
        == f"""\
# What the targets of these plugins were like: written by `hookpatch lock`, compared by `hookpatch check`.
# Sources are without comments and docstrings.

format = 1
plugins = ["loud"]

[target."m:t['k']"]
kind = "a str"
keys = [
    "'keykeykeykey0'",
    "'keykeykeykey1'",
    "'keykeykeykey2'",
    "'keykeykeykey3'",
    "'keykeykeykey4'",
    "'keykeykeykey5'",
]

[target."vendor:speak"]
distribution = "vendor-kit"
version = "1.4"
patches = ["loud: wrap"]
kind = "a function"
signature = "(word)"
hash = "{fingerprint.hash}"
source = '''
def speak(word):
    return word
'''
"""
    )


BAD: dict[str, tuple[str | None, str]] = {
    "absent": (None, "cannot be read (No such file or directory)"),
    "no TOML": ("format = ", "is no lock file (Invalid value (at end of document))"),
    "another format": (
        "format = 2\nplugins = []",
        "is no lock file (its format is 2, and this hookpatch reads 1)",
    ),
    "no format": ("plugins = []", "is no lock file (it has no 'format')"),
    "a wrong value": (
        'format = 1\nplugins = []\n[target."m:f"]\nkind = 3',
        "is no lock file (kind is 3)",
    ),
    "edited": (
        'format = 1\nplugins = []\n[target."m:f"]\nkind = "a function"\nhash = "sha256:0"\nsource = "x"',
        "is no lock file (a hash is not that of its source: it was not written by hookpatch)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_lock_file_that_cannot_be_read_is_refused(tmp_path: Path, case: str) -> None:
    """With the file, the reason, and what writes one."""
    text, problem = BAD[case]
    path = tmp_path / "hookpatch.lock"
    if text is not None:
        path.write_text(text)
    for read in (read_lock, lambda path: hookpatch.active(hookpatch.remove("m:f"), lock=path)):
        with pytest.raises(SettingError) as caught:
            read(str(path))
        assert str(caught.value) == f"lock: {path} {problem}; 'hookpatch lock NAME...' writes one"


def test_option_that_toml_cannot_hold_is_refused(tmp_path: Path) -> None:
    """Nothing is written."""
    lock = Lock(("loud",), {"loud": {"word": None}}, {}, str(tmp_path / "hookpatch.lock"))
    with pytest.raises(SettingError) as caught:
        write_lock(lock)
    assert str(caught.value) == "lock: an option is None, which TOML cannot hold; leave it out, or give it as text"
    assert os.listdir(tmp_path) == []


def test_target_is_known_by_its_address_however_it_is_written(make_module: MakeModule) -> None:
    """A class at hand has one, a dict at hand has none."""
    vendor = make_module("vendor", VENDOR)
    assert key_of(hookpatch.remove('vendor:table["a"]')) == "vendor:table['a']"
    assert key_of(hookpatch.remove(Target.attribute(vendor.Model, "method"))) == "vendor:Model.method"
    assert key_of(hookpatch.remove(Target.item(vendor.table, "a"))) is None
    assert key_of(hookpatch.enter("vendor", print)) == "vendor"  # type: ignore[arg-type]  # it is not entered


# --- at run time


@pytest.fixture
def drifted(write_module: WriteModule, make_module: MakeModule, make_distribution: Any, tmp_path: Path) -> str:
    """The lock file of a module that has changed since: vendor:speak; vendor:limit has not."""
    make_distribution("vendor-kit", "1.5")
    make_module("earlier", "def speak(word): return word\nlimit = 3")
    found = {
        f"vendor:{name}": Locked(
            dataclasses.replace(taken(f"earlier:{name}"), distribution="vendor-kit", version="1.4")
        )
        for name in ("speak", "limit")
    }
    path = tmp_path / "hookpatch.lock"
    write_lock(Lock((), {}, found, str(path)))
    write_module("vendor", "def speak(word): return word + '!'\nlimit = 3")
    return str(path)


def loud(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Say it in capitals."""
    return wrapped(*args, **kwargs).upper()


def problem(path: str) -> str:
    """Return what is said of the target that has changed."""
    return (
        f"vendor:speak has changed since vendor-kit 1.4 was locked in {path}, and vendor-kit 1.5 is installed: its "
        "source has changed; 'hookpatch check' shows the difference; where the patch still fits, lock it anew"
    )


PATCHES = hookpatch.replace("vendor:limit", 4), hookpatch.wrap("vendor:speak", loud)


def opened(path: str) -> tuple[hookpatch.Session, ModuleType]:
    """Open a session, and import the module if it is not there."""
    return hookpatch.active(*PATCHES, lock=path).open(), importlib.import_module("vendor")


@pytest.mark.parametrize("late", [False, True], ids=["present", "late"])
def test_drift_is_a_warning(drifted: str, late: bool) -> None:
    """The patch is applied, and the report says it, too; what has not changed is applied in silence."""
    if not late:
        importlib.import_module("vendor")
    with pytest.warns(DriftWarning) as warned:
        session, vendor = opened(drifted)
    assert (vendor.limit, vendor.speak("a")) == (4, "A!")
    limit, speak = session.report()
    as_json = json.loads(session.report().to_json())
    session.close()
    assert [str(warning.message) for warning in warned] == [f"{problem(drifted)} (target vendor:speak of {OURS})"]
    assert (limit.state, limit.warnings) == ("applied", ())
    assert (speak.state, speak.reason, speak.warnings) == ("applied", None, (problem(drifted),))
    assert f"          warning {problem(drifted)}" in str(speak)
    assert as_json["processes"][0]["patches"][1]["warnings"] == [problem(drifted)]


@pytest.mark.parametrize("late", [False, True], ids=["present", "late"])
def test_drift_is_skipped(drifted: str, late: bool) -> None:
    """A required patch, too; the reason is in the report."""
    if not late:
        importlib.import_module("vendor")
    with hookpatch.active(*PATCHES, lock=drifted, on_drift="skip") as session:
        vendor = importlib.import_module("vendor")
        assert (vendor.limit, vendor.speak("a")) == (4, "a!")
        limit, speak = session.report()
    assert (limit.state, speak.state, speak.reason) == ("applied", "skipped", problem(drifted))


def test_drift_is_an_error_before_anything_is_applied(drifted: str) -> None:
    """The patch before it is not applied either; one that is not required is skipped."""
    vendor = importlib.import_module("vendor")
    speak, seen = vendor.speak, []
    first = hookpatch.derive("vendor:limit", seen.append)
    with pytest.raises(DriftError) as caught:
        hookpatch.active(first, PATCHES[1], lock=drifted, on_drift="error").open()
    assert str(caught.value) == f"{problem(drifted)} (target vendor:speak of {OURS})"
    assert (vendor.speak is speak, seen) == (True, [])
    with pytest.raises(DriftError):
        hookpatch.active(PATCHES[1], lock=drifted, on_drift="error").open()
    optional = hookpatch.wrap("vendor:speak", loud, required=False)
    with hookpatch.active(optional, lock=drifted, on_drift="error") as session:
        assert [(entry.state, entry.reason) for entry in session.report()] == [("skipped", str(caught.value))]


def test_what_is_not_locked_is_not_compared(drifted: str, make_module: MakeModule) -> None:
    """A lock file says nothing of other targets."""
    other = make_module("other", "def speak(): return 'x'")
    with hookpatch.active(hookpatch.wrap("other:speak", loud), lock=Path(drifted), on_drift="error"):
        assert other.speak() == "X"


def test_each_call_of_a_decorated_function_looks(drifted: str) -> None:
    """A session that is opened anew has its lock file still."""
    importlib.import_module("vendor")

    @hookpatch.active(PATCHES[1], lock=drifted, on_drift="error")
    def speak() -> None: ...

    for _ in range(2):
        with pytest.raises(DriftError):
            speak()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"on_drift": "stop"}, "active(on_drift=): 'stop' is not a policy; it takes warn, skip or error"),
        ({"lock": 3}, "active(): lock= takes a path, not an int"),
    ],
)
def test_what_is_no_policy_or_path_is_refused(given: dict[str, Any], problem: str) -> None:
    """Before anything is applied."""
    with pytest.raises(SettingError) as caught:
        hookpatch.active(hookpatch.remove("m:f"), **given)
    assert str(caught.value) == problem


def test_environment_has_a_lock_file_and_a_policy(
    drifted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """For blocks too; what the block says counts more."""
    importlib.import_module("vendor")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOKPATCH_ON_DRIFT", "skip")
    monkeypatch.setenv("HOOKPATCH_LOCK", "no.lock")
    with hookpatch.active(PATCHES[1], lock=drifted) as session:
        assert [entry.state for entry in session.report()] == ["skipped"]
    monkeypatch.setenv("HOOKPATCH_ON_DRIFT", "error")
    monkeypatch.setenv("HOOKPATCH_LOCK", "hookpatch.lock")
    with pytest.raises(DriftError):
        hookpatch.active(PATCHES[1]).open()
    assert os.environ["HOOKPATCH_LOCK"] == drifted  # so that a process elsewhere finds it
    for given in ({"on_drift": "skip"}, {"lock": drifted, "on_drift": "skip"}):
        with hookpatch.active(PATCHES[1], **given) as session:  # type: ignore[arg-type]  # typed words in a dict
            assert [entry.state for entry in session.report()] == ["skipped"]


# --- unmodified programs


@pytest.fixture
def home(environment: Environment, tmp_path: Path) -> Environment:
    """An environment with a plugin, a locked module, and the module changed since."""
    environment.add_plugin("loud", LOUD)
    environment.work_in(tmp_path / "work", {"vendor.py": "def speak(): return 'vendor'\n"})
    assert environment.run("-m", "hookpatch", "lock", "loud").returncode == 0
    environment.work_in(environment.folder, {"vendor.py": "def speak(): return 'vendor!'\n"})
    return environment


SCRIPT = "import vendor; print(vendor.speak())"


BLOCK = """
import multiprocessing
import hookpatch

def loud(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs).upper()

def speak():
    import vendor
    print(vendor.speak(), [patch.state for patch in hookpatch.report() if patch.target == "vendor:speak"])

if __name__ == "__main__":
    with hookpatch.active(hookpatch.wrap("vendor:speak", loud), lock="hookpatch.lock", on_drift="skip"):
        process = multiprocessing.get_context("spawn").Process(target=speak)
        process.start()
        process.join()
"""


def test_block_hands_its_lock_file_on(home: Environment) -> None:
    """A process that is started inside skips what is skipped here."""
    home.work_in(home.folder, {"block.py": BLOCK})
    done = home.run("block.py")
    assert (done.stdout, done.stderr, done.returncode) == ("vendor! ['skipped']\n", "", 0)


@pytest.mark.parametrize(
    ("policy", "printed", "status"), [("", "VENDOR!\n", 0), ("skip", "vendor!\n", 0), ("error", "", 78)]
)
def test_program_runs_as_the_policy_has_it(home: Environment, policy: str, printed: str, status: int) -> None:
    """With a warning, without the patch, or not at all."""
    done = home.run(
        *("-c", SCRIPT), HOOKPATCH_PLUGINS="loud", HOOKPATCH_LOCK="hookpatch.lock", HOOKPATCH_ON_DRIFT=policy
    )
    assert (done.stdout, done.returncode) == (printed, status)
    what = f"vendor:speak has changed since it was locked in {home.folder}/hookpatch.lock: its source has changed"
    assert (what in done.stderr) == (policy != "skip")


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        (
            {"HOOKPATCH_LOCK": "no.lock"},
            "HOOKPATCH_LOCK: there is no file no.lock; 'hookpatch lock NAME...' writes one",
        ),
        (
            {"HOOKPATCH_LOCK": "hookpatch.lock", "HOOKPATCH_ON_DRIFT": "stop"},
            "HOOKPATCH_ON_DRIFT: 'stop' is not a policy; it takes warn, skip or error",
        ),
        (
            {"HOOKPATCH_LOCK": "vendor.py"},
            "lock: FOLDER/vendor.py is no lock file (Expected '=' after a key in a key/value pair (at line 1, column "
            "5))",
        ),
    ],
    ids=["no file", "no policy", "no lock"],
)
def test_program_does_not_start_with_a_wrong_setting(
    home: Environment, variables: dict[str, str], problem: str
) -> None:
    """One line, status 78, before anything runs."""
    done = home.run("-c", "print('ran')", HOOKPATCH_PLUGINS="loud", **variables)
    problem = problem.replace("FOLDER", str(home.folder))
    assert (done.stdout, done.returncode) == ("", 78)
    assert done.stderr.startswith(f"hookpatch: error: {problem}")
    assert done.stderr.count("\n") == 1


def test_lock_file_is_toml(home: Environment) -> None:
    """Any TOML reader reads it."""
    with open(home.folder / "hookpatch.lock", "rb") as file:
        content = tomllib.load(file)
    assert content["target"]["vendor:speak"]["source"] == "def speak():\n    return 'vendor'\n"
