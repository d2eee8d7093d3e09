"""The lock file: writing, reading, and refused files."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from environments import Environment
from locked import VENDOR, fingerprint_of_target

import hookpatch
from hookpatch import Target
from hookpatch._engine.lock.fingerprint import Fingerprint
from hookpatch._engine.lock.lockfile import Lock, Locked, key_of, read_lock, write_lock
from hookpatch.errors import SettingError

pytestmark = pytest.mark.once

MakeModule = Callable[..., ModuleType]


# --- the file


def written(path: Path, make_module: MakeModule) -> Lock:
    make_module("vendor", VENDOR)
    names = ("speak", "Model", "table['a']", "built_in", "limit", "table['new']")
    targets = {f"vendor:{name}": Locked(fingerprint_of_target(f"vendor:{name}"), ("loud: wrap",)) for name in names}
    targets["math:isclose"] = Locked(fingerprint_of_target("math:isclose"))
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
    """The lock file does not depend on the order, and an equal file is not written again."""
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
        "is no lock file (the format is 2, and this hookpatch reads 1)",
    ),
    "no format": ("plugins = []", "is no lock file (it has no 'format')"),
    "a wrong value": (
        'format = 1\nplugins = []\n[target."m:f"]\nkind = 3',
        "is no lock file (kind is 3)",
    ),
    "edited": (
        'format = 1\nplugins = []\n[target."m:f"]\nkind = "a function"\nhash = "sha256:0"\nsource = "x"',
        "is no lock file (a hash does not fit its source: other code has changed the file)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_lock_file_that_cannot_be_read_is_refused(tmp_path: Path, case: str) -> None:
    """The error has the file, the reason, and the command that writes a lock file."""
    text, problem = BAD[case]
    path = tmp_path / "hookpatch.lock"
    if text is not None:
        path.write_text(text)
    for read in (read_lock, lambda path: hookpatch.active(hookpatch.remove("m:f"), lock=path)):
        with pytest.raises(SettingError) as caught:
            read(str(path))
        assert str(caught.value) == f"lock: {path} {problem}; 'hookpatch lock NAME...' writes one"


def test_option_that_toml_cannot_hold_is_refused(tmp_path: Path) -> None:
    """No lock file is written."""
    lock = Lock(("loud",), {"loud": {"word": None}}, {}, str(tmp_path / "hookpatch.lock"))
    with pytest.raises(SettingError) as caught:
        write_lock(lock)
    assert str(caught.value) == "lock: an option is None, which TOML cannot hold; leave the option out, or write a text"
    assert os.listdir(tmp_path) == []


def test_target_is_known_by_its_address_however_it_is_written(make_module: MakeModule) -> None:
    """A class at hand has an address, a dict at hand has none."""
    vendor = make_module("vendor", VENDOR)
    assert key_of(hookpatch.remove('vendor:table["a"]')) == "vendor:table['a']"
    assert key_of(hookpatch.remove(Target.attribute(vendor.Model, "method"))) == "vendor:Model.method"
    assert key_of(hookpatch.remove(Target.item(vendor.table, "a"))) is None
    assert key_of(hookpatch.enter("vendor", print)) == "vendor"  # type: ignore[arg-type]  # print is not entered


# --- unmodified programs


def test_lock_file_is_toml(home: Environment) -> None:
    """tomllib reads the lock file."""
    with open(home.folder / "hookpatch.lock", "rb") as file:
        content = tomllib.load(file)
    assert content["target"]["vendor:speak"]["source"] == "def speak():\n    return 'vendor'\n"
