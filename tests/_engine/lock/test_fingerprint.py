"""Fingerprints: lock the facts of a target without comments, formatting and docstrings."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from locked import VENDOR, fingerprint_of_target

import hookpatch
from hookpatch._engine.lock.compare import difference
from hookpatch._engine.lock.fingerprint import Fingerprint, normalised

pytestmark = pytest.mark.once

MakeModule = Callable[..., ModuleType]


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
    """Comments, formatting and docstrings do not matter to a patch."""
    assert normalised(AS_WRITTEN) == normalised("@decorated(1)\ndef speak(word, times=2):\n  return word * times")


@pytest.mark.parametrize(
    "changed",
    [
        "@decorated(2)\ndef speak(word, times=2): return word * times",
        "@decorated(1)\ndef speak(word, times=3): return word * times",
        "@decorated(1)\ndef speak(word, times=2): return word * times + ''",
        "@decorated(1)\ndef speak(word, times=2):\n    'Say it.'\n    'and this'\n    return word * times",
    ],
    ids=["decorator", "default", "body", "a second text"],
)
def test_all_else_counts(changed: str) -> None:
    """A decorator, a default, a statement."""
    assert normalised(AS_WRITTEN) != normalised(changed)


def test_what_python_would_warn_of_is_read_all_the_same() -> None:
    """An invalid escape is in many a library; here warnings are errors."""
    assert normalised("def f(): return '\\d'  # any") == "def f():\n    return '\\\\d'"


@pytest.mark.parametrize("text", ["    rows.sort(key=lambda x: x,\n\n", "a documentation, no code", "\0"])
def test_what_is_no_code_by_itself_is_compared_as_it_stands(text: str) -> None:
    """Code without a tree of its own is compared as text, without indentation."""
    assert normalised(text) == text.strip()


def test_docstring_alone_is_a_body() -> None:
    """A function with a docstring alone stays a function."""
    assert normalised("def f():\n    'x'") == "def f():\n    pass"


def test_source_of_decorated_function_has_what_is_around_it(make_module: MakeModule) -> None:
    """The source includes decorators, unlike inspect.getsource, since a patch lies over them."""
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
    outcome = difference(fingerprint_of_target("two:speak"), fingerprint_of_target("three:speak"))
    assert (outcome.change, outcome.reasons) == ("compatible", ("its source has changed",))
    assert fingerprint_of_target("two:speak").signature == "(word)"


# --- the facts

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
    """Kind and signature are those for a caller or a subclass, without self."""
    make_module("vendor", VENDOR)
    fingerprint = fingerprint_of_target(f"vendor:{name}")
    assert (fingerprint.kind, fingerprint.signature) == KINDS[name]


def test_members_of_a_class_are_its_own_that_others_may_use(make_module: MakeModule) -> None:
    """Members are sorted, with signatures; private members may change."""
    make_module("vendor", VENDOR)
    assert fingerprint_of_target("vendor:Model").members == (
        *("__init__(size=1)", "kind", "method(x)"),
        *("of_class(x)", "size", "static(x)"),
    )


def test_keys_of_a_registry_are_noted(make_module: MakeModule) -> None:
    """With an entry, and with the mapping itself."""
    make_module("vendor", VENDOR)
    for name in ("table", "table['a']"):
        assert fingerprint_of_target(f"vendor:{name}").keys == ("'a'", "'b'", "builtins:int")


def test_what_a_c_function_offers_is_noted() -> None:
    """A C function has its documentation, and a signature if available."""
    fingerprint = fingerprint_of_target("math:isclose")
    assert fingerprint.signature == "(a, b, *, rel_tol=1e-09, abs_tol=0.0)"
    assert (fingerprint.source or "").startswith("Determine whether two floating")


def test_values_are_noted_and_the_environment_is_not(make_module: MakeModule) -> None:
    """A lock file is committed: the environment's values, perhaps secret, are left out."""
    make_module("vendor", VENDOR)
    assert [fingerprint_of_target(f"vendor:{name}").source for name in ("limit", "name", "table['a']")] == [
        "3",
        "'kit'",
        "1",
    ]
    assert fingerprint_of_target("os:environ['PATH']") == Fingerprint("a str")
    assert fingerprint_of_target("os:environ") == Fingerprint("a mapping")


def test_target_is_noted_without_the_patches_that_are_on(make_module: MakeModule) -> None:
    """Wrapped, replaced, or changed in place."""
    make_module("vendor", VENDOR)
    before = fingerprint_of_target("vendor:speak")
    for patch in (
        hookpatch.replace("vendor:speak", max),
        hookpatch.wrap("vendor:speak", print),
        hookpatch.wrap("vendor:speak", print, reach="everywhere"),
    ):
        with hookpatch.active(patch):
            assert fingerprint_of_target("vendor:speak") == before
