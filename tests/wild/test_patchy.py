"""The examples of patchy's documentation, and requests of patchy's users, written with ``edit``."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.testing import pristine

pytestmark = pytest.mark.model  # requirements-dev.txt has patchy

VENDOR: Final = """
    import functools

    def sample():
        return 1

    def decorator(function):
        @functools.wraps(function)
        def wrapper(): return [function()]
        return wrapper

    @decorator
    def decorated():
        return 1

    @functools.lru_cache
    def cached():
        return 1

    def with_default(x=1):
        return x

    def made():
        def factorial(n):
            return 1 if n < 2 else n * factorial(n - 1)
        return factorial

    factorial = made()

    class Base:
        def method(self):
            return 1

    class Kind(Base):
        LIMIT = 3

        def of_class_body(self, x=LIMIT):
            return x

        def without_super(self):
            return 1

        class Inner:
            __hidden = 1

            def private(self):
                return 1

        @property
        def attribute(self):
            return 1
    """
DIFF: Final = """\
    @@ -1,2 +1,2 @@
    -    return {}
    +    return {}
    """
# the name, the old expression, the new expression, a call, the expected result, and the behaviour of patchy
CASES: Final[dict[str, tuple[str, str, str, Callable[[ModuleType], Any], Any, str]]] = {
    "a function": ("sample", "1", "9001", lambda vendor: vendor.sample(), 9001, "does it"),
    "a default in the body of a class": (
        *("Kind.of_class_body", "x", "x + 1", lambda vendor: vendor.Kind().of_class_body(), 4, "does it"),
    ),
    "a recursive closure": (
        *("factorial", "1 if n < 2 else n * factorial(n - 1)", "n if n < 2 else factorial(n - 1) + n"),
        *(lambda vendor: vendor.factorial(4), 10, "does it"),
    ),
    "super() where there was none": (
        *("Kind.without_super", "1", "super().method() + 1", lambda vendor: vendor.Kind().without_super(), 2, "fails"),
    ),
    "a private name of an inner class": (
        *("Kind.Inner.private", "1", "self.__hidden + 1", lambda vendor: vendor.Kind.Inner().private(), 2, "does it"),
    ),
    "a property": ("Kind.attribute", "1", "2", lambda vendor: vendor.Kind().attribute, 2, "fails"),
    "inside a decorator": ("decorated", "1", "2", lambda vendor: vendor.decorated(), [2], "fails"),
    "inside a cache": ("cached", "1", "2", lambda vendor: vendor.cached(), 2, "fails"),
}


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


def by_patchy(vendor: ModuleType, name: str, old: str, new: str, call: Callable[[ModuleType], Any]) -> Any:
    """Return the result of a call under a patch by patchy, which is undone at the end."""
    import patchy

    function: Any = vendor
    for part in name.split("."):
        function = getattr(function, part)
    with patchy.temp_patch(function, DIFF.format(old, new)):
        return call(vendor)


@pytest.mark.parametrize("case", CASES)
def test_what_patchy_does_edit_does_and_more(vendor: ModuleType, case: str) -> None:
    """The edit has the expected effect, even in the cases where patchy fails.

    At the end the call gives the old result.
    """
    name, old, new, call, expected, patchys = CASES[case]
    before = call(vendor)
    if name == "cached":
        vendor.cached.cache_clear()
    with pristine(), hookpatch.active(hookpatch.edit(f"vendor:{name}", diff=DIFF.format(old, new))):
        assert call(vendor) == expected
    if name == "cached":
        vendor.cached.cache_clear()
    assert call(vendor) == before
    if name == "cached":
        vendor.cached.cache_clear()
    if patchys == "does it":
        assert by_patchy(vendor, name, old, new, call) == expected
    else:
        try:
            shown = by_patchy(vendor, name, old, new, call)
        except Exception as error:
            shown = error
        assert shown != expected


def test_the_code_that_was_there_is_there_again(vendor: ModuleType) -> None:
    """hookpatch restores the original code object, while patchy compiles the function a second time to undo a patch."""
    import patchy

    code = vendor.sample.__code__
    with hookpatch.active(hookpatch.edit("vendor:sample", diff=DIFF.format("1", "2"))):
        assert vendor.sample() == 2
    assert vendor.sample.__code__ is code
    with patchy.temp_patch(vendor.sample, DIFF.format("1", "2")):
        assert vendor.sample() == 2
    assert vendor.sample.__code__ is not code


def test_the_examples_of_the_documentation(vendor: ModuleType) -> None:
    """The edit verb covers patch, unpatch, temp_patch as block and decorator, and replacement of a whole source."""
    whole = "@@ -1,2 +1,2 @@\n def sample():\n-    return 1\n+    return 9001\n"
    edit = hookpatch.edit("vendor:sample", diff=whole)
    with hookpatch.active(edit):
        assert vendor.sample() == 9001

    @hookpatch.active(edit)
    def decorated() -> bool:
        return bool(vendor.sample() == 9001)

    assert decorated()
    assert vendor.sample() == 1
    backwards = "\n".join(
        line.translate(str.maketrans("-+", "+-")) if line[0] in "-+" else line for line in whole.splitlines()
    )
    with hookpatch.active(edit), hookpatch.active(hookpatch.edit("vendor:sample", diff=backwards)):
        assert vendor.sample() == 1
    with hookpatch.active(
        hookpatch.edit("vendor:sample", "def sample():\n    return 1", "def sample():\n    return 42")
    ):
        assert vendor.sample() == 42
