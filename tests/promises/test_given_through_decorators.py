"""``inject`` and ``default`` of a decorated function: by place and by keyword they work, or plan and report say no."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import SignatureError

VENDOR: Final = """
import functools

def nameless(function):
    def outer(*args, **kwargs): return function(*args, **kwargs)
    return outer

def named(function): return functools.wraps(function)(nameless(function))

def by_place(function):
    @functools.wraps(function)
    def outer(*args): return function(*args)
    return outer

def renamed(function):
    @functools.wraps(function)
    def outer(u, t=1, r=2): return function(u, t, r)
    return outer

def renamed_method(function):
    @functools.wraps(function)
    def outer(self, u, t=1, r=2): return function(self, u, t, r)
    return outer

def shortened(function):
    @functools.wraps(function)
    def outer(url): return function(url)
    return outer

def rest(function):
    @functools.wraps(function)
    def outer(url, *args): return function(url, *args)
    return outer

def by_keyword(function):
    @functools.wraps(function)
    def outer(url, *, timeout=1, retries=2): return function(url, timeout, retries)
    return outer

class Holder:
    def __init__(self, function): self.function = function
    def __call__(self, *args, **kwargs): return self.function(*args, **kwargs)

def plain(url, timeout=1, retries=2): return url, timeout, retries
of_nameless, of_named, of_by_place, of_renamed = nameless(plain), named(plain), by_place(plain), renamed(plain)
of_shortened, of_by_keyword, of_holder = shortened(plain), by_keyword(plain), Holder(plain)
of_rest = rest(plain)
of_two = named(by_place(plain))

class C:
    def plain(self, url, timeout=1, retries=2): return url, timeout, retries
    of_nameless, of_named, of_by_place = nameless(plain), named(plain), by_place(plain)
    of_renamed = renamed_method(plain)
    def of_short(self, u): return u
    of_short.__wrapped__ = plain
    @classmethod
    @by_place
    def of_class(cls, url, timeout=1, retries=2): return url, timeout, retries
    @staticmethod
    @renamed
    def of_static(url, timeout=1, retries=2): return url, timeout, retries

c = C()
"""
CALLS: Final[dict[str, tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "one": (("u",), {}),
    "two": (("u", 5), {}),
    "three": (("u", 5, 6), {}),
    "keyword": (("u",), {"timeout": 5}),
    "other keyword": (("u",), {"retries": 6}),
    "keywords": ((), {"url": "u", "timeout": 5}),
}
WORKING: Final = {
    "of_named": "of_named",
    "of_by_place": "of_by_place",
    "of_renamed": "of_renamed",
    "of_by_keyword": "of_by_keyword",
    "of_two": "of_two",
    "C.of_named": "c.of_named",
    "C.of_by_place": "c.of_by_place",
    "C.of_renamed": "c.of_renamed",
    "C.of_class": "c.of_class",
    "C.of_static": "c.of_static",
}
NAMELESS: Final = {"of_nameless": "of_nameless", "of_holder": "of_holder", "C.of_nameless": "c.of_nameless"}
DOUBT: Final = (
    "the target takes *args and **kwargs, and shows no parameter 'timeout', as behind a decorator: a call that gives "
    "the argument by place gives it twice; take hookpatch.wrap there"
)
VERBS: Final = {"inject": hookpatch.inject, "default": hookpatch.default}


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> Any:
    return make_module("given_vendor", VENDOR)


def _answer(function: Any, call: str) -> Any:
    """Return the result of a call; the class of the error for a call that the function does not take."""
    args, kwargs = CALLS[call]
    try:
        return function(*args, **kwargs)
    except TypeError:
        return TypeError


def _expected(before: Any, verb: str, call: str) -> Any:
    args, kwargs = CALLS[call]
    if before is TypeError or (verb == "default" and (len(args) > 1 or "timeout" in kwargs)):
        return before
    return (before[0], 9, before[2])


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("address", WORKING)
@pytest.mark.sampled(12)
def test_each_call_that_worked_gets_the_argument(address: str, verb: str, reach: Any, vendor: Any) -> None:
    """By place and by keyword; where the decorator's function takes no keyword, the argument is given by place."""
    patch = VERBS[verb](f"given_vendor:{address}", timeout=9, reach=reach)
    before = {call: _answer(eval(WORKING[address], vars(vendor)), call) for call in CALLS}
    assert before["one"] == ("u", 1, 2)
    with hookpatch.active(patch, children="local") as session:
        inside = {call: _answer(eval(WORKING[address], vars(vendor)), call) for call in CALLS}
        assert [row.warnings for row in session.report() if row.place is None] == [()]
    assert inside == {call: _expected(before[call], verb, call) for call in CALLS}
    assert {call: _answer(eval(WORKING[address], vars(vendor)), call) for call in CALLS} == before


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("address", NAMELESS)
def test_a_decorator_without_names_is_a_doubt(address: str, verb: str, reach: Any, vendor: Any) -> None:
    """Plan and report say which calls fail: an argument by place is given twice. The other calls work."""
    patch = VERBS[verb](f"given_vendor:{address}", timeout=9, reach=reach)
    before = {call: _answer(eval(NAMELESS[address], vars(vendor)), call) for call in CALLS}
    for _ in range(2):  # the second time with a block that is entered again
        with hookpatch.active(patch, children="local") as session:
            inside = {call: _answer(eval(NAMELESS[address], vars(vendor)), call) for call in CALLS}
            assert [row.warnings for row in session.report() if row.place is None] == [(DOUBT,)]
        for call, (args, _) in CALLS.items():
            assert inside[call] == (TypeError if len(args) > 1 else _expected(before[call], verb, call))
    assert [row.warnings for planned in hookpatch.plan(patch) for row in planned.patches] == [(DOUBT,)]


@pytest.mark.parametrize("address", ["of_shortened", "of_rest", "C.of_short"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_parameter_that_the_decorator_does_not_take_is_refused(verb: str, address: str, vendor: Any) -> None:
    """``functools.wraps`` shows the parameter, but not each call can give the parameter; the plan agrees."""
    patch = VERBS[verb](f"given_vendor:{address}", timeout=9)
    with pytest.raises(SignatureError, match="takes no argument 'timeout'; it takes url ") as caught:
        hookpatch.active(patch).open()
    assert [row.reason for planned in hookpatch.plan(patch) for row in planned.patches] == [caught.value.problem]


def test_no_doubt_where_names_are_shown(make_module: Callable[[str, str], ModuleType]) -> None:
    """With ``**kwargs`` alone no argument comes by place; a shown name has a place; any other name is a doubt."""
    source = "def some(url, **kwargs): return kwargs\ndef all(url, *args, **kwargs): return kwargs"
    make_module("given_vendor", source)
    for address, name, doubted in [("some", "timeout", 0), ("all", "url", 0), ("all", "timeout", 1)]:
        with hookpatch.active(hookpatch.inject(f"given_vendor:{address}", {name: 1}), children="local") as session:
            assert [len(row.warnings) for row in session.report()] == [doubted]
