"""A value that an object or a subclass inherits is patched there, and then at its source, in any order.

A call of the heir runs both patches, or the report of the source's patch names the patch of the heir.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
import types
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch._engine.site.sites import patched
from hookpatch.errors import HookpatchError

KINDS: Final = {
    "function": "def f(self, x=0): return ['f', x]",
    "classmethod": "@classmethod\n        def f(cls, x=0): return ['f', x]",
    "staticmethod": "@staticmethod\n        def f(x=0): return ['f', x]",
    "object": "f = Called()",
    "async": "async def f(self, x=0): return ['f', x]",
    "decorated": "@decorator\n        def f(self, x=0): return ['f', x]",
    "partial": "f = staticmethod(functools.partial(lambda x=0: ['f', x]))",
}
# The address of the heir, the heir, and an object that answers as the heir without the patch of the heir.
HEIRS: Final = {
    "object": ("k", "k", "other"),
    "object of a subclass": ("s", "s", "other"),
    "each object": ("K()", "k", "s"),
    "subclass": ("Sub", "s", "other"),
    "forwarding object": ("forwarding", "forwarding", "other"),
    "class of a metaclass": ("Of", "Of", "Other"),
    "module object": ("module", "module", "other"),
}
MODULE: Final = """
    import functools, types

    def decorator(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            return ["decorated", *function(*args, **kwargs)]
        return inner

    class Called:
        def __call__(self, x=0):
            return ["f", x]

    class K{base}:
        {method}

    class Sub(K):
        pass

    class Forwarding:
        def __getattr__(self, name):
            return getattr(other, name)
"""
OBJECTS: Final = """
    k, other, s, forwarding = K(), K(), Sub(), Forwarding()
"""
OF_MODULES: Final = """
    module, other = K("of_heirs"), K("of_others")
"""


def _awaited(answer: Any) -> list[Any]:
    return asyncio.run(answer) if inspect.iscoroutine(answer) else answer


def _marked(mark: str, answer: Any) -> Any:
    if not inspect.iscoroutine(answer):
        return [mark, *answer]

    async def marked() -> Any:
        return [mark, *await answer]

    return marked()


def _wrapper(mark: str) -> Any:
    return lambda wrapped, instance, args, kwargs: _marked(mark, wrapped(*args, **kwargs))


class _CallableObject:
    """A callable that binds no object, as a function in a class would."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__call = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__call(*args, **kwargs)


def _value_over(mark: str, value: Any) -> Any:
    """Return a value of the same kind that calls a value."""
    inside = value.__func__ if type(value) in (staticmethod, classmethod) else value

    def calling_on(*args: Any, **kwargs: Any) -> Any:
        return _marked(mark, inside(*args, **kwargs))

    if type(value) in (staticmethod, classmethod):
        return type(value)(calling_on)
    return calling_on if type(value) in (types.FunctionType, types.MethodType) else _CallableObject(calling_on)


def _patch(verb: str, address: str, mark: str, kind: str) -> hookpatch.Patch:
    if verb == "wrap":
        return hookpatch.wrap(address, _wrapper(mark))
    if verb in ("inject", "default"):
        return getattr(hookpatch, verb)(address, x=7)  # type: ignore[no-any-return]
    if verb == "derive":
        return hookpatch.derive(address, functools.partial(_value_over, mark))
    if verb == "edit":
        return hookpatch.edit(address, "['f', x]", f"['{mark}', x]")

    def new(*args: Any, **kwargs: Any) -> Any:
        return [mark]

    return hookpatch.replace(address, new, check_signature=False, why="it takes any call")


@pytest.fixture
def make_heirs(make_module: Callable[[str, str], ModuleType]) -> Callable[[str, str], Any]:
    """Return a function that makes a module with a class, its heirs, and a method of a kind."""

    def make_module_of(kind: str, heir: str) -> Any:
        of_module = heir == "module object"
        base = "(types.ModuleType)" if of_module else "(type)" if heir == "class of a metaclass" else ""
        objects = OF_MODULES if of_module else OF_METACLASS if heir == "class of a metaclass" else OBJECTS
        return make_module("heirs", MODULE.format(base=base, method=KINDS[kind]) + objects)

    return make_module_of


OF_METACLASS: Final = """
    Of, Other = K("Of", (), {}), K("Other", (), {})
"""


def _is_shown(verb: str, answer: list[Any], expected: list[Any], with_x: list[Any]) -> bool:
    """Return True if an answer has the marks of both patches; ``expected``: that of the source's patch alone."""
    if verb in ("replace", "edit"):
        return "source" in answer
    wanted = with_x if verb in ("inject", "default") else ["heir", *expected]
    return sorted(map(str, answer)) == sorted(map(str, wanted))


CELLS: Final = [
    pytest.param(kind, heir, marks=() if kind == "function" else [pytest.mark.ends, pytest.mark.once])
    for kind, heir in product(KINDS, HEIRS)
]

VERBS: Final = ("wrap", "inject", "default", "derive", "replace", "edit")
ORDERS: Final = list(product(VERBS, ("wrap", "derive"), (True, False), ("slot", "everywhere"), (1, -1)))


@pytest.mark.parametrize(("kind", "heir"), CELLS)
@pytest.mark.filterwarnings("ignore::hookpatch.errors.HookpatchWarning")
@pytest.mark.sampled(3)
def test_both_patches_show_or_the_report_names_the_hiding_one(
    make_heirs: Callable[[str, str], Any], kind: str, heir: str
) -> None:
    """Each verb on the heir, a wrapper or derived value at the source, each order; a third of them in each row."""
    module = make_heirs(kind, heir)
    address, name, without = HEIRS[heir]
    target, other, source = vars(module)[name], vars(module)[without], module.K
    original, before = vars(source)["f"], _awaited(target.f())
    silent, applied = [], 0
    for verb, verb_of_source, is_first, reach, ends in random.Random(f"{kind} {heir}").sample(ORDERS, 32):
        if verb in ("inject", "default") and verb_of_source == "derive" and heir == "each object":
            continue  # one slot: the derived value lies outside, and gives no argument
        cell = (verb, verb_of_source, is_first, reach, ends)
        sessions: list[Any] = []
        try:
            of_heir = _patch(verb, f"heirs:{address}.f", "heir", kind)
            of_source = replace(_patch(verb_of_source, "heirs:K.f", "source", kind), reach=reach)  # type: ignore[arg-type]
            order = [of_heir, of_source] if is_first else [of_source, of_heir]
            sessions += (hookpatch.active(patch, children="local").open() for patch in order)
        except HookpatchError:
            pass  # said loudly
        else:
            applied += 1
            answer, expected, with_x = (_awaited(answer) for answer in (target.f(), other.f(), other.f(x=7)))
            if not _is_shown(verb, answer, expected, with_x):
                report = sessions[is_first].report()
                if not any("without effect" in str(row) for row in report.patches):
                    silent.append((cell, answer, expected))
        for session in sessions[::ends]:
            session.close()
        assert vars(source)["f"] is original, cell
        assert "f" not in vars(target), cell
        assert _awaited(target.f()) == before, cell
    assert silent == []
    assert applied or heir == "class of a metaclass"
    assert patched() == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("heir", ["object", "object of a subclass", "each object", "subclass", "module object"])
@pytest.mark.parametrize("verb", ["wrap", "inject"])
def test_a_foreign_value_at_the_source_shows_through(
    make_heirs: Callable[[str, str], Any], kind: str, heir: str, verb: str
) -> None:
    """Other code patches the class inside of the block, and restores it inside or after."""
    module = make_heirs(kind, heir)
    address, name, without = HEIRS[heir]
    target, other, source = vars(module)[name], vars(module)[without], module.K
    original = vars(source)["f"]
    for inside in (True, False):
        with hookpatch.active(_patch(verb, f"heirs:{address}.f", "heir", kind), children="local"):
            answer, plain, given = (_awaited(answer) for answer in (target.f(), other.f(), other.f(x=7)))
            assert answer == (["heir", *plain] if verb == "wrap" else given)
            if heir == "each object" and kind in ("function", "async", "decorated"):
                break  # the patch is in the class: other code patches over it
            source.f = _value_over("foreign", original)
            answer, plain, given = (_awaited(answer) for answer in (target.f(), other.f(), other.f(x=7)))
            assert "foreign" in plain
            assert answer == (["heir", *plain] if verb == "wrap" else given)
            if inside:
                source.f = original
                answer, plain, given = (_awaited(answer) for answer in (target.f(), other.f(), other.f(x=7)))
                assert answer == (["heir", *plain] if verb == "wrap" else given)
        source.f = original
        assert "f" not in vars(target)


def test_a_removed_method_is_gone_for_its_objects(make_heirs: Callable[[str, str], Any]) -> None:
    """The wrapper of an object raises as Python does when the class has lost the method, and works again later."""
    module = make_heirs("function", "object")
    with hookpatch.active(hookpatch.wrap("heirs:k.f", _wrapper("heir")), children="local"):
        with (
            hookpatch.active(hookpatch.remove("heirs:K.f"), children="local"),
            pytest.raises(AttributeError, match="'K' object has no attribute 'f'"),
        ):
            module.k.f()
        assert module.k.f() == ["heir", "f", 0]


@pytest.mark.parametrize("kind", ["function", "staticmethod", "classmethod", "object"])
def test_an_object_of_another_class_gets_the_method_of_that_class(
    make_heirs: Callable[[str, str], Any], kind: str
) -> None:
    """``__class__`` of a patched object is set inside of the block."""
    module = make_heirs(kind, "object")
    with hookpatch.active(hookpatch.wrap("heirs:k.f", _wrapper("heir")), children="local"):
        module.k.__class__ = type("Second", (), {"f": staticmethod(lambda: ["second"])})
        assert module.k.f() == ["heir", "second"]
        module.k.__class__ = module.K
        assert module.k.f() == ["heir", "f", 0]


@pytest.mark.parametrize("kind", ["staticmethod", "classmethod", "object"])
def test_a_class_method_of_a_temporary_object_works(make_heirs: Callable[[str, str], Any], kind: str) -> None:
    """The object dies before its class method runs; the patch of the class is found all the same."""
    module = make_heirs(kind, "object")
    with (
        hookpatch.active(hookpatch.wrap("heirs:K().f", _wrapper("heir")), children="local"),
        hookpatch.active(hookpatch.wrap("heirs:K.f", _wrapper("source")), children="local"),
    ):
        assert module.K().f() == ["heir", "source", "f", 0]


def test_a_name_of_a_lazy_module_is_named(make_module: Callable[[str, str], ModuleType]) -> None:
    """A module's ``__getattr__`` is not asked again at each call: the report of the source's patch says so."""
    make_module("lazy_source", "def f(): return 'f',")
    lazy: Any = make_module("lazy_door", "import lazy_source\ndef __getattr__(name): return getattr(lazy_source, name)")
    with (
        hookpatch.active(hookpatch.wrap("lazy_door:f", _wrapper("heir")), children="local"),
        hookpatch.active(hookpatch.wrap("lazy_source:f", _wrapper("source")), children="local") as session,
    ):
        assert lazy.f() == ["heir", "f"]
        assert "without effect through lazy_door:f: wrap of a patch given to active() lies there" in str(
            session.report()
        )


def test_the_report_counts_further_heirs(make_heirs: Callable[[str, str], Any]) -> None:
    """Three patches are named; the words stand in ``why()``, too."""
    module = make_heirs("function", "object")
    module.many = [module.K() for _ in range(5)]
    patches = [hookpatch.replace(hookpatch.Target.attribute(k, "f"), lambda: ["new"]) for k in module.many]
    with (
        hookpatch.active(*patches, children="local"),
        hookpatch.active(hookpatch.wrap("heirs:K.f", _wrapper("source")), children="local") as session,
    ):
        report = str(session.report())
        assert report.count("without effect through") == 3
        assert "and through 2 more" in report
        assert "and through 2 more" in str(hookpatch.why("heirs:K.f"))
