"""An edit of a decorated function works, or the error names an edit that works: for each kind of decorator."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import ApplyError, EditError

VENDOR: Final = """
import functools, contextlib

def plain(function):
    def outer(*args, **kwargs): return function(*args, **kwargs)
    return outer

def wrapped(function):
    return functools.wraps(function)(plain(function))

class Holder:
    def __init__(self, function): self.function = function
    def __call__(self, *args): return self.function(*args)

class Named(Holder):
    def __init__(self, function): functools.update_wrapper(self, function); self.function = function

class Getter(Holder):
    def __get__(self, instance, owner): return self.function(instance)

class Base:
    @functools.cached_property
    def cached(self): return "old cached"
    @property
    def getter(self): return "old getter"
    @getter.setter
    def getter(self, value): self.given = "old setter"
    @classmethod
    def of_class(cls): return "old of_class"
    @staticmethod
    def static(): return "old static"
    def _parted(self, number): return "old part"
    part = functools.partialmethod(_parted, 1)
    @functools.singledispatchmethod
    def by_type(self, value): return "old by_type"
    @by_type.register
    def _by_int(self, value: int): return "old by_int"
    @functools.lru_cache
    def memo(self): return "old memo"
    @contextlib.contextmanager
    def context(self): yield "old context"
    @plain
    def decorated(self): return "old decorated"
    @wrapped
    def named(self): return "old named"
    @Getter
    def described(self): return "old described"
    @property
    @functools.lru_cache
    def cached_getter(self): return "old cached_getter"
    @staticmethod
    @functools.lru_cache
    def cached_static(): return "old cached_static"
    @classmethod
    @contextlib.contextmanager
    def class_context(cls): yield "old class_context"

class Sub(Base): pass

@functools.singledispatch
def dispatched(value): return "old dispatched"
@dispatched.register
def dispatched_int(value: int): return "old dispatched_int"
@functools.lru_cache
def memo(): return "old memo"
@functools.cache
@wrapped
def memo_of_named(): return "old memo_of_named"
@contextlib.contextmanager
def context(): yield "old context"
@contextlib.asynccontextmanager
async def async_context(): yield "old async_context"
@plain
def decorated(): return "old decorated"
@wrapped
def named(): return "old named"
@wrapped
@wrapped
def named_twice(): return "old named_twice"
@wrapped
@plain
def mixed(): return "old mixed"
@Holder
def held(): return "old held"
@Named
def held_named(): return "old held_named"
def _parted(number): return "old part"
part = functools.partial(_parted, 1)
"""


def _entered(manager: Any) -> Any:
    with manager as value:
        return value


def _entered_async(manager: Any) -> Any:
    async def enter() -> Any:
        async with manager as value:
            return value

    return asyncio.run(enter())


def _set(vendor: Any) -> Any:
    instance = vendor.Base()
    instance.getter = 1
    return instance.given


# By address: the call, what an edit of the slot meets, and one with reach="everywhere": it works ("new"), or the error
# names reach="everywhere", the class, or the address of the function inside. Last the literal, if not the name.
KINDS: Final[dict[str, tuple[Callable[[Any], Any], str, str, str]]] = {
    "Base.cached": (lambda vendor: vendor.Base().cached, "class", "class", ""),
    "Sub.cached": (lambda vendor: vendor.Sub().cached, "class", "class", ""),
    "Base.cached.func": (lambda vendor: vendor.Base().cached, "new", "new", "cached"),
    "Base.getter": (lambda vendor: vendor.Base().getter, "new", "new", ""),
    "Base.getter.fset": (_set, "readonly", "new", "setter"),
    "Base.of_class": (lambda vendor: vendor.Base.of_class(), "new", "new", ""),
    "Base.static": (lambda vendor: vendor.Base.static(), "new", "new", ""),
    "Base.part": (lambda vendor: vendor.Base().part(), "class", "class", ""),
    "Base.by_type": (lambda vendor: vendor.Base().by_type("x"), "class", "class", ""),
    "Base.memo": (lambda vendor: vendor.Base().memo(), "everywhere", "new", ""),
    "Base.context": (lambda vendor: _entered(vendor.Base().context()), "everywhere", "new", ""),
    "Base.decorated": (lambda vendor: vendor.Base().decorated(), "inside", "inside", ""),
    "Base.named": (lambda vendor: vendor.Base().named(), "everywhere", "new", ""),
    "Base.described": (lambda vendor: vendor.Base().described, "class", "class", ""),
    "Base.cached_getter": (lambda vendor: vendor.Base().cached_getter, "everywhere", "new", ""),
    "Base.cached_static": (lambda vendor: vendor.Base.cached_static(), "everywhere", "new", ""),
    "Base.class_context": (lambda vendor: _entered(vendor.Base.class_context()), "everywhere", "new", ""),
    "dispatched": (lambda vendor: vendor.dispatched("x"), "everywhere", "new", ""),
    "dispatched_int": (lambda vendor: vendor.dispatched(1), "stale", "new", ""),
    "memo": (lambda vendor: vendor.memo(), "everywhere", "new", ""),
    "memo_of_named": (lambda vendor: vendor.memo_of_named(), "everywhere", "new", ""),
    "context": (lambda vendor: _entered(vendor.context()), "everywhere", "new", ""),
    "async_context": (lambda vendor: _entered_async(vendor.async_context()), "everywhere", "new", ""),
    "decorated": (lambda vendor: vendor.decorated(), "inside", "inside", ""),
    "named": (lambda vendor: vendor.named(), "everywhere", "new", ""),
    "named_twice": (lambda vendor: vendor.named_twice(), "everywhere", "new", ""),
    "mixed": (lambda vendor: vendor.mixed(), "everywhere", "inside", ""),
    "held": (lambda vendor: vendor.held(), "inside", "inside", ""),
    "held_named": (lambda vendor: vendor.held_named(), "everywhere", "new", ""),
    "part": (lambda vendor: vendor.part(), "inside", "inside", ""),
}
FINDINGS: Final = {
    "class": "edit the class: hookpatch.edit",
    "inside": "edit the function inside: hookpatch.edit",
    "everywhere": "the function is inside a decorator; reach='everywhere' edits the function there",
    "readonly": "is read-only in a property; take reach='everywhere', which changes a Python function in place",
}
REMEDY: Final = re.compile(r"hookpatch\.edit\('([^']+)', \.\.\.(, reach='everywhere')?\)")
CACHED: Final = (
    "a functools.lru_cache around the function keeps results from before the patch, and of the patch after its end; "
    "call cache_clear() in both"
)
CACHES: Final[dict[str, Callable[[Any], Any]]] = {
    "memo": lambda vendor: vendor.memo,
    "memo_of_named": lambda vendor: vendor.memo_of_named,
    "Base.cached_static": lambda vendor: vendor.Base.cached_static,
    "Base.cached_getter": lambda vendor: vendor.Base.cached_getter.fget,
    "Base.memo": lambda vendor: vendor.Base.memo,
}


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> Any:
    return make_module("decorated_vendor", VENDOR)


def _edit(address: str, of_kind: str, **options: Any) -> hookpatch.Patch:
    literal = KINDS[of_kind][3] or of_kind.rpartition(".")[2]
    return hookpatch.edit(f"decorated_vendor:{address}", f'"old {literal}"', f'"new {literal}"', **options)


def _check_edited(patch: hookpatch.Patch, of_kind: str, vendor: Any) -> None:
    """Check that an edit is in effect inside, and as before after the end; with a cache, if the cache is cleared."""
    call, clear = KINDS[of_kind][0], CACHES.get(of_kind, lambda vendor: None)(vendor)
    before = call(vendor)
    assert before.startswith("old ")
    planned = [row.warnings for target in hookpatch.plan(patch) for row in target.patches]
    with hookpatch.active(patch, children="local") as session:
        if clear is not None:
            clear.cache_clear()
        assert call(vendor) == before.replace("old ", "new ")
        assert any(CACHED in row.warnings for row in session.report()) == (clear is not None)
        assert {row.state for row in session.report()} == {"applied"}
        assert planned == [row.warnings for row in session.report()]
    if clear is not None:
        clear.cache_clear()
    assert call(vendor) == before


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(10)
def test_an_edit_works_or_names_an_edit_that_does(kind: str, reach: str, vendor: Any) -> None:
    """The error's edit is made as written; where a decorator lies in a decorator, the next error goes on."""
    finding = KINDS[kind][1 + (reach == "everywhere")]
    patch = _edit(kind, kind, reach=reach)
    if finding == "stale":  # another holder is patched by no slot: the report names the holder
        with hookpatch.active(patch, children="local") as session:
            assert next(iter(session.report())).stale
        return
    if finding == "new":
        _check_edited(patch, kind, vendor)
        return
    with pytest.raises(ApplyError, match=re.escape(FINDINGS[finding])) as caught:
        hookpatch.active(patch).open()
    planned = [row.reason for target in hookpatch.plan(patch) for row in target.patches]
    assert planned == [caught.value.problem]
    if finding in ("everywhere", "readonly"):
        assert "reach='everywhere'" in caught.value.problem
        return
    for _ in range(3):
        address, everywhere = REMEDY.findall(caught.value.problem)[0]
        patch = _edit(address.partition(":")[2], kind, reach="everywhere" if everywhere else "slot")
        try:
            _check_edited(patch, kind, vendor)
            break
        except EditError as error:
            caught.value.problem = error.problem
    else:
        pytest.fail(f"no edit works: {caught.value.problem}")


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("verb", ["wrap", "replace"])
def test_a_patch_in_place_under_a_cache_says_so(cache: str, verb: str, vendor: Any) -> None:
    """By the address of the function under the cache: plan and report say that the cache keeps results."""
    target = f"decorated_vendor:{cache}{'.fget' * (cache == 'Base.cached_getter')}.__wrapped__"
    value = (lambda wrapped, instance, args, kwargs: "loud") if verb == "wrap" else (lambda *args, **kwargs: "loud")
    patch = getattr(hookpatch, verb)(target, value, reach="everywhere")
    with hookpatch.active(patch, children="local") as session:
        assert [row.warnings for row in session.report()] == [(CACHED,)]
    assert [row.warnings for planned in hookpatch.plan(patch) for row in planned.patches] == [(CACHED,)]


@pytest.mark.parametrize("address", ["memo", "named", "named.__wrapped__", "Base.named", "Base.context"])
def test_no_false_word_of_a_cache(address: str, vendor: Any) -> None:
    """A wrapper around the cache sees each call; a function without a cache has none."""
    patch = hookpatch.wrap(
        f"decorated_vendor:{address}",
        lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs),
        reach="everywhere",
    )
    with hookpatch.active(patch, children="local") as session:
        assert [row.warnings for row in session.report()] == [()]


def test_two_functions_inside_are_no_guess(make_module: Callable[[str, str], ModuleType]) -> None:
    """With two functions in the closure no address is named."""
    source = "def both(first, second):\n    def outer(): return first(), second()\n    return outer\n"
    make_module("decorated_vendor", f"{source}pair = both(lambda: 1, lambda: 2)")
    with pytest.raises(EditError) as caught:
        hookpatch.active(hookpatch.edit("decorated_vendor:pair", "return 1", "return 3")).open()
    assert "name a function or class written in Python, or edit the module before its import" in caught.value.problem
