"""Shared by tests of refused patches: a module to patch, a wrapper, and the text of the refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hookpatch
from hookpatch import Patch
from hookpatch.errors import ApplyError

VENDOR = """
    biggest = max  # a C function that tells no signature
    limit = 3
    table = {"gelu_new": 1}
    entries = [1, 2]

    def simplify(model, skipped=None, *, check=0): return model, skipped, check
    def bare(): return "bare"
    def packed(x, *args): return x, args
    def open_ended(x, **more): return x, more
    def by_place(x, y=0, /): return x, y
    def anything(*args, **kwargs): return args, kwargs

    class Base:
        def inherited(self, x=0): return x

    class Model(Base):
        kind = "model"
        def method(self, x, flag=False): return x, flag
        def open(self, x, **more): return x, more
        @staticmethod
        def static(x, flag=False): return x, flag
        @classmethod
        def of_class(cls, x, flag=False): return x, flag

    class Callable:
        def __init__(self, path="here"): self.path = path
        def __call__(self, x): return x

    instance = Callable()

    import collections
    ordered, lists, store = collections.OrderedDict(a=1), collections.defaultdict(list, a=1), collections.UserDict(a=1)
    class Fetching:
        def __getattr__(self, name): raise AttributeError(name)
    class Slotted: __slots__ = ("unset",)
    fetching, slotted = Fetching(), Slotted()
"""


def passing(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the wrapped function without a change."""
    return wrapped(*args, **kwargs)


def refused(error: type[ApplyError], *patches: Patch) -> str:
    """Return the message of the refusal of patches."""
    with pytest.raises(ApplyError) as caught:
        hookpatch.active(*patches).open()
    assert type(caught.value) is error
    assert str(caught.value) == f"{caught.value.problem} (target {caught.value.target} of {caught.value.owner})"
    return str(caught.value)


def simplify(**facts: Any) -> Patch:
    """Return a patch of vendor:simplify with the given facts."""
    return hookpatch.inject("vendor:simplify", {"check": 7}, **facts)


def standing(verb: str, name: str, value: Any, **facts: Any) -> Patch:
    """Return a replace or derive to put a value at a name."""
    if verb == "replace":
        return hookpatch.replace(f"vendor:{name}", value, **facts)
    return hookpatch.derive(f"vendor:{name}", lambda original: value, **facts)


def assert_states(patches: list[Patch], states: list[str]) -> None:
    """Apply patches, and compare their states."""
    with hookpatch.active(*patches) as session:
        assert [entry.state for entry in session.report()] == states
