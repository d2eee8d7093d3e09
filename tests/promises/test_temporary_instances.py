"""``m.Class().name()``: the instance may be collected before the call, and the call is patched all the same."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch

VENDOR: Final = """
    import functools

    class Kind:
        def method(self, a=0, b=0): return a, b
        @classmethod
        def of_class(cls, a=0, b=0): return a, b
        @staticmethod
        def static(a=0, b=0): return a, b
        @functools.lru_cache
        def cached(self, a=0, b=0): return a, b
        partly = functools.partialmethod(method, 0)
        def __init__(self): self.own = lambda a=0, b=0: (a, b)

    class Child(Kind): pass
    """
NAMES: Final = ("method", "of_class", "static", "cached", "partly", "own")


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> Any:
    return make_module("vendor", VENDOR)


def patch_of(verb: str, address: str) -> hookpatch.Patch:
    if verb == "wrap":
        return hookpatch.wrap(address, lambda wrapped, _, args, kwargs: (wrapped(*args, **kwargs)[0], 5))
    if verb == "derive":
        return hookpatch.derive(address, lambda original: lambda a=0, b=0: (a, 5))
    return hookpatch.default(address, b=5) if verb == "default" else hookpatch.inject(address, b=5)


@pytest.mark.parametrize("verb", ["wrap", "default", "inject", "derive"])
@pytest.mark.parametrize("of", ["Kind()", "Kind+()", "Child()"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(18)
def test_a_call_on_a_temporary_is_patched(vendor: Any, name: str, of: str, verb: str) -> None:
    """A bound function taken from an instance keeps the patch while the session lasts, and passes through after it."""
    if verb == "derive" and name not in ("of_class", "static"):
        pytest.skip("the function of a derive has no instance")
    cls = vendor.Child if of == "Child()" else vendor.Kind
    with hookpatch.active(patch_of(verb, f"vendor:{of}.{name}"), children="local"):
        assert getattr(cls(), name)() == (0, 5)
        taken = getattr(cls(), name)
        gc.collect()
        assert taken() == (0, 5)
    assert getattr(cls(), name)() == (0, 0)
    if verb != "derive":
        assert taken() == (0, 0)


def test_dead_instances_leave_nothing(vendor: Any) -> None:
    """A thousand temporaries leave no more objects than ten do."""

    def count_left(count: int) -> int:
        for _ in range(count):
            vendor.Kind().of_class()
        gc.collect()
        return len(gc.get_objects())

    with hookpatch.active(patch_of("wrap", "vendor:Kind().of_class"), children="local"):
        count_left(10)
        before = count_left(10)
        assert count_left(1_000) - before < 100
