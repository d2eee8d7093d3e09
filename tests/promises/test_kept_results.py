"""Results of a patched function in the caches of its callers: no patch ends them, and the report names the cache.

Kind of target x kind of cache x filled before or inside x reach; a report inside and one after the end.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch

MODULE: Final = """
    import functools, sys

    def function(): return "plain"
    LIMIT = "plain"

    class Shop:
        def price(self): return "plain"
        @classmethod
        def limit(cls): return "plain"
        @functools.cached_property
        def of_method(self): return self.price()
        @functools.cached_property
        def of_function(self): return function()
        @functools.lru_cache
        def of_class(self): return self.limit()
        def helper(self): return self.nearer
        @property
        def nearer(self): return function()
        @functools.lru_cache
        def through_methods(self): return self.helper()

    @functools.cache
    def of_name(): return function()
    def helper(): return function()
    @functools.lru_cache(maxsize=4)
    def through_helper(): return [*map(lambda _: helper(), "a")][0]
    def farther(): return helper()
    @functools.cache
    def through_two(): return [farther()][0]
    @functools.cache
    def of_module(): return sys.modules[__name__] and this.function()
    @functools.cache
    def of_number(): return LIMIT
    @functools.cache
    def of_shop(): return Shop().price()
    @functools.cache
    def of_another(): return "plain"
    @functools.cache
    def never_called(): return function()

    this, shop = sys.modules[__name__], Shop()
"""
CACHES: Final[dict[str, tuple[str, Callable[[Any], str]]]] = {
    "of_name": ("function", lambda m: m.of_name()),
    "through_helper": ("function", lambda m: m.through_helper()),
    "through_two": ("function", lambda m: m.through_two()),
    "Shop.through_methods": ("function", lambda m: m.shop.through_methods()),
    "of_module": ("function", lambda m: m.of_module()),
    "Shop.of_function": ("function", lambda m: m.shop.of_function),
    "of_number": ("LIMIT", lambda m: m.of_number()),
    "of_shop": ("Shop.price", lambda m: m.of_shop()),
    "Shop.of_method": ("Shop.price", lambda m: m.shop.of_method),
    "Shop.of_class": ("Shop.limit", lambda m: m.shop.of_class()),
}


def _patch(name: str, reach: Any) -> hookpatch.Patch:
    if name == "LIMIT":
        return hookpatch.replace("kept:LIMIT", "patched")
    return hookpatch.wrap(f"kept:{name}", lambda wrapped, instance, args, kwargs: "patched", reach=reach)


@pytest.mark.parametrize(
    ("is_before", "reach"),
    [
        (True, "slot"),
        (False, "everywhere"),
        pytest.param(True, "everywhere", marks=pytest.mark.ends),
        pytest.param(False, "slot", marks=pytest.mark.ends),
    ],
)
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.sampled(7)
def test_the_report_names_the_cache(
    make_module: Callable[[str, str], ModuleType], cache: str, is_before: bool, reach: str
) -> None:
    target, call = CACHES[cache]
    module: Any = make_module("kept", MODULE)
    module.of_another()
    if is_before:
        assert call(module) == "plain"
    with hookpatch.active(_patch(target, reach), children="local") as session:
        inside = call(module)
        assert inside == ("plain" if is_before else "patched")
        reports = [session.report()] if is_before else []  # else the first report comes after the end
    assert call(module) == inside
    for report in (*reports, session.report()):
        lines = [words for words in report.patches[0].warnings if "may keep results" in words]
        assert len(lines) == 1, report
        assert f"kept:{cache} " in lines[0]


def test_empty_and_other_caches_are_not_named(make_module: Callable[[str, str], ModuleType]) -> None:
    module: Any = make_module("kept", MODULE)
    module.of_another()
    with hookpatch.active(*(_patch(name, "slot") for name in ("function", "Shop.price")), children="local") as session:
        assert [row.warnings for row in session.report()] == [(), ()]


def test_of_many_caches_three_are_named(make_module: Callable[[str, str], ModuleType]) -> None:
    lines = [f"@functools.cache\ndef of_{number}(): return function()" for number in range(7)]
    module: Any = make_module("kept", "\n".join(["import functools", "def function(): return 1", *lines]))
    with hookpatch.active(_patch("function", "slot"), children="local") as session:
        for number in range(7):
            getattr(module, f"of_{number}")()
        *lines, further = session.report().patches[0].warnings
    assert len(lines) == 3
    assert further == "so may 4 more caches"


def test_a_class_with_a_property_in_place_of_its_module(make_module: Callable[[str, str], ModuleType]) -> None:
    """A report goes past a class whose ``__module__`` is a property, named by a function with a cache."""
    source = """
        import functools
        class Proxy:
            __module__ = property(lambda self: "own")
            def call(self): return target()
        def target(): return "original"
        @functools.lru_cache
        def cached(): return Proxy, target()
        cached()
        """
    make_module("proxied_cache", source)
    with hookpatch.active(hookpatch.replace("proxied_cache:target", lambda: "new")) as session:
        [patch] = session.report()
    assert any("proxied_cache:cached" in warning for warning in patch.warnings)
