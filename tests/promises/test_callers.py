"""``callers=``: a patch is in effect where a module of these names calls, by the nearest Python frame."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from inspect import iscoroutine, isgenerator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import ConflictError, PatchError, TargetRefused, UnknownModuleWarning
from hookpatch.testing import pristine

VENDOR: Final = """
    import functools

    def function(a=0, b=0): return a, b
    async def coroutine(a=0, b=0): return a, b
    def generator(a=0, b=0): yield a, b
    partial = functools.partial(function)
    cached = functools.lru_cache(function)

    class Kind:
        def __init__(self, a=0, b=0): self.pair = a, b
        def method(self, a=0, b=0): return a, b
        @classmethod
        def of_class(cls, a=0, b=0): return a, b
        @staticmethod
        def static(a=0, b=0): return a, b
        @property
        def pair_of(self): return 0, 0
        def __call__(self, a=0, b=0): return a, b

    class Child(Kind): pass
    thing = Kind()
    table = {"f": function}
    """
# Each calls the function given by the module's caller, in a frame of its own.
USER: Final = """
    def call(callee, *args, **kwargs): return callee(*args, **kwargs)
    def read(owner, name): return getattr(owner, name)
    """


class Instead:
    """The value to replace each kind with: of the same form."""

    async def coroutine(a: Any = 0, b: Any = 5) -> Any:  # type: ignore[misc]
        return a, b

    def generator(a: Any = 0, b: Any = 5) -> Any:  # type: ignore[misc]
        yield a, b

    def function(a: Any = 0, b: Any = 5) -> Any:  # type: ignore[misc]
        return a, b

    def method(self, a: Any = 0, b: Any = 5) -> Any:
        return a, b

    def init(self: Any, a: Any = 0, b: Any = 5) -> Any:
        self.pair = a, b


KINDS: Final = {  # the address, what is called, and what a replace puts there
    "function": ("vendor:function", lambda vendor: vendor.function, Instead.function),
    "coroutine function": ("vendor:coroutine", lambda vendor: vendor.coroutine, Instead.coroutine),
    "generator function": ("vendor:generator", lambda vendor: vendor.generator, Instead.generator),
    "method": ("vendor:Kind.method", lambda vendor: vendor.Kind().method, Instead.method),
    "inherited method": ("vendor:Child.method", lambda vendor: vendor.Child().method, Instead.method),
    "class method": ("vendor:Kind.of_class", lambda vendor: vendor.Kind.of_class, classmethod(Instead.method)),
    "static method": ("vendor:Kind.static", lambda vendor: vendor.Kind.static, staticmethod(Instead.function)),
    "constructor": ("vendor:Kind.__init__", lambda vendor: vendor.Kind, Instead.init),
    "class": ("vendor:Kind", lambda vendor: vendor.Kind, None),
    "partial": ("vendor:partial", lambda vendor: vendor.partial, Instead.function),
    "cached": ("vendor:cached", lambda vendor: vendor.cached, Instead.function),
    "callable object": ("vendor:thing", lambda vendor: vendor.thing, Instead.function),
    "registry entry": ("vendor:table['f']", lambda vendor: vendor.table["f"], Instead.function),
}
IN_PLACE: Final = (
    *("function", "coroutine function", "generator function", "method", "class method", "static method"),
    "constructor",
)
VERBS: Final = ("wrap", "inject", "default", "replace")
CELLS: Final = [
    (verb, kind, reach)
    for verb in VERBS
    for kind in KINDS
    for reach in ("slot", "everywhere")
    if (reach == "slot" or kind in IN_PLACE) and (verb, kind) != ("replace", "class")
]


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType], write_module: Callable[[str, str], Path]) -> ModuleType:
    write_module("shop.__init__", USER)
    for user in ("shop.cart", "other"):
        make_module(user, USER)
    return make_module("vendor", VENDOR)


def five(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **{**kwargs, "b": 5})


def patch_of(verb: str, kind: str, **facts: Any) -> hookpatch.Patch:
    address, _, value = KINDS[kind]
    if verb == "wrap":
        return hookpatch.wrap(address, five, **facts)
    if verb == "replace":
        return hookpatch.replace(address, value, **facts)
    return getattr(hookpatch, verb)(address, b=5, **facts)


def called(user: str, callee: Any, *args: Any, **kwargs: Any) -> Any:
    result = sys.modules[user].call(callee, *args, **kwargs)
    if isgenerator(result):
        return next(result)
    result = asyncio.run(result) if iscoroutine(result) else result
    return getattr(result, "pair", result)


@pytest.mark.parametrize("scope", ["process", "task"])
@pytest.mark.parametrize(("verb", "kind", "reach"), CELLS)
def test_in_effect_for_these_callers_alone(vendor: ModuleType, verb: str, kind: str, reach: Any, scope: Any) -> None:
    """callers= takes a package and its modules; generators and coroutines count at the call."""
    _, find, _ = KINDS[kind]
    with pristine():
        with hookpatch.active(patch_of(verb, kind, callers="shop.*", reach=reach), scope=scope):
            callee = find(vendor)
            assert called("shop", callee) == called("shop.cart", callee) == (0, 5)
            assert called("shop", functools.partial(callee, a=1)) == (1, 5)
            assert called("other", callee) == called("other", functools.partial(callee)) == (0, 0)
            assert called("other", callee, 1, b=2) == (1, 2)
            elsewhere = contextvars.Context().run(called, "shop", callee)
            assert elsewhere == ((0, 5) if scope == "process" else (0, 0))
        assert called("shop", find(vendor)) == (0, 0)


def test_c_code_between_is_looked_through(vendor: ModuleType, make_module: Callable[[str, str], ModuleType]) -> None:
    user = make_module(
        "between",
        """
        import contextvars, functools, operator, vendor

        def mapped(): return list(map(vendor.function, [1]))
        def sorted_by(): return sorted([1, 2], key=lambda a: vendor.function(a))
        def keyed(): return max([1], key=vendor.function), operator.call(vendor.function, 1)
        def in_context(): return contextvars.Context().run(vendor.function, 1)
        def deep(): return functools.reduce(lambda one, other: vendor.function(other), [1, 1])
        def listed(): return [vendor.function(1) for _ in "a"]
        def generated(): return list(vendor.function(1) for _ in "a")
        def by_attribute(): return vendor.Kind().pair_of
        """,
    )
    calls = []

    def note(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
        calls.append(args)
        return wrapped(*args, **kwargs)

    with hookpatch.active(hookpatch.wrap("vendor:function", note, callers=["nobody", "between"])):
        for name in ("mapped", "sorted_by", "keyed", "in_context", "deep", "listed", "generated"):
            calls.clear()
            getattr(user, name)()
            assert calls, name
        calls.clear()
        vendor.function(1)
        assert not calls
    with hookpatch.active(hookpatch.wrap("vendor:Kind.pair_of", note, callers="between", reach="everywhere")):
        assert user.by_attribute() == vendor.Kind().pair_of == (0, 0)
        assert calls == [()]


def test_a_call_by_no_python_code_is_nobody_s(vendor: ModuleType) -> None:
    """The caller of a thread's target is the module threading."""
    with hookpatch.active(hookpatch.inject("vendor:function", b=5, callers=__name__)):
        got: list[Any] = []
        thread = threading.Thread(target=lambda: got.append(vendor.function()))
        thread.start()
        thread.join()
        assert got == [(0, 5)]
    with hookpatch.active(hookpatch.inject("vendor:Kind.__call__", b=5, callers="threading")):
        (thread := threading.Thread(target=vendor.thing)).start()
        thread.join()
        assert vendor.thing() == (0, 0)


@pytest.mark.parametrize(
    ("kind", "reach"),
    [*((kind, reach) for kind in ("function", "method") for reach in ("slot", "everywhere")), ("partial", "slot")],
)
@pytest.mark.parametrize("place", range(3))
def test_other_patches_of_the_target_are_looked_through(vendor: ModuleType, place: int, kind: str, reach: Any) -> None:
    """Wrappers of other patches are no callers, in any order, even from the calling module."""

    def through(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
        return (lambda: wrapped(*args, **kwargs))()

    address, find, _ = KINDS[kind]
    patches = [hookpatch.wrap(address, through, reach=reach), hookpatch.default(address, a=7, reach=reach)]
    patches.insert(place, hookpatch.inject(address, b=5, callers="shop.*", reach=reach))
    with hookpatch.active(*patches):
        callee = find(vendor)
        assert called("shop", callee) == (7, 5)
        assert called("other", callee) == called(__name__, callee) == (7, 0)


def call(callee: Any, *args: Any, **kwargs: Any) -> Any:
    return callee(*args, **kwargs)


def test_a_function_that_calls_itself_is_a_caller(make_module: Callable[[str, str], ModuleType]) -> None:
    make_module("shop", USER)
    vendor = make_module("counting", "def count(n, b=0): return [b] + (count(n - 1) if n else [])")

    def through(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs)

    for patches in (1, 2):
        with hookpatch.active(
            *[hookpatch.wrap("counting:count", through)] * (patches - 1),
            hookpatch.inject("counting:count", b=5, callers="shop"),
        ):
            assert called("shop", vendor.count, 2) == [5, 0, 0]
    with hookpatch.active(hookpatch.inject("counting:count", b=5, callers="counting")):
        assert called("shop", vendor.count, 2) == [0, 5, 5]


def test_order_and_conflicts(vendor: ModuleType, make_distribution: Callable[..., Path]) -> None:
    """Patches conflict for the same callers only. An inject leaves another's argument."""
    sources = {
        "one": "inject('vendor:function', b=1, callers='shop.*')",
        "two": "inject('vendor:function', b=2, callers='other')",
        "same": "inject('vendor:function', b=3, callers='shop.*')",
        "all": "inject('vendor:function', b=4)",
        "inside": "inject('vendor:function', b=6, after='one')",
        "replaces": "replace('vendor:function', len, callers='shop.*', check_signature=False, why='a test')",
        "another": "replace('vendor:function', abs, callers='shop.*', check_signature=False, why='a test')",
    }
    for name, patch in sources.items():
        source = f"import hookpatch\n@hookpatch.hookimpl\ndef hookpatch_patches():\n    yield hookpatch.{patch}\n"
        make_distribution(f"d-{name}", plugins={name: f"plugin_{name}"}, modules={f"plugin_{name}": source})
    with hookpatch.active("one", "two"):
        assert [called(user, vendor.function) for user in ("shop", "other", __name__)] == [(0, 1), (0, 2), (0, 0)]
    for pair in (("one", "same"), ("one", "all"), ("replaces", "another")):
        with pytest.raises(ConflictError, match="select only one of the two"):
            hookpatch.active(*pair).open()
    with hookpatch.active("one", "inside") as session:
        assert called("shop", vendor.function) == (0, 1)
        assert called("other", vendor.function) == called("other", vendor.function, b=1) == (0, 6)
        assert "given by plugin 'one' from d-one 1.0 in calls from shop.*" in str(session.report())
    with hookpatch.active("replaces", "two"):
        assert [called(user, vendor.function, "ab") for user in ("shop", "other")] == [2, ("ab", 2)]


def test_a_replace_for_some_callers_takes_what_a_replace_takes(vendor: ModuleType) -> None:
    """Signature and form are compared; what cannot be called, is absent, or is no function's name is refused."""
    cases = [
        ({"target": "vendor:function", "value": 3}, TargetRefused, "callers= chooses at a call, and an int cannot be"),
        ({"target": "vendor:table", "value": len}, TargetRefused, "vendor:table holds a dict, which cannot be called"),
        (
            {"target": "vendor:Kind.static", "value": Instead.function},
            TargetRefused,
            "holds a staticmethod, and the new value is no descriptor; give a value of the same form",
        ),
        ({"target": "vendor:function", "value": lambda: 0}, hookpatch.errors.SignatureError, "takes \\(\\)"),
    ]
    for arguments, kind, text in cases:
        with pytest.raises(kind, match=text):
            hookpatch.active(hookpatch.replace(callers="shop", **arguments)).open()  # type: ignore[arg-type]
    with pytest.raises(PatchError, match="takes add= or callers="):
        hookpatch.replace("vendor:new", len, add=True, callers="shop")
    for verb, values in (("derive", (lambda value: value,)), ("remove", ()), ("edit", ("a", "b"))):
        with pytest.raises(
            PatchError, match=f"{verb}\\(\\): takes no callers=: what {verb} does is the same for all callers"
        ):
            getattr(hookpatch, verb)("vendor:function", *values, callers="shop")
    with pytest.raises(PatchError, match="callers= takes a pattern of modules or several, not 3"):
        hookpatch.wrap("vendor:function", five, callers=3)  # type: ignore[arg-type]


def test_a_misspelt_module_is_told(vendor: ModuleType) -> None:
    with (
        pytest.warns(UnknownModuleWarning, match=r"callers=: there is no module shopp.*did you mean 'shop'\?"),
        hookpatch.active(hookpatch.inject("vendor:function", b=5, callers="shopp.*")),
    ):
        assert called("shop", vendor.function) == (0, 0)


def test_plan_report_and_why_tell_the_callers(vendor: ModuleType) -> None:
    patch = hookpatch.default("vendor:function", b=5, callers=["shop.*", "other"], required_calls=1)
    ((planned,),) = (target.patches for target in hookpatch.plan(patch).targets)
    assert (planned.finding, planned.callers) == ("fits", ("shop.*", "other"))
    assert "default, in calls from shop.*, other" in str(hookpatch.plan(patch))
    with hookpatch.active(patch) as session:
        called("shop", vendor.function)
        vendor.function()
        (entry,) = session.report()
        assert (entry.callers, entry.calls) == (("shop.*", "other"), {"eager": 1})
        assert "callers shop.*, other" in str(session.report())
        assert hookpatch.why("vendor:function").layers[0].note == "in calls from shop.*, other"


@pytest.mark.parametrize("run", [["-c"], ["-m"], ["script"]])
def test_a_child_process_has_it_and_the_main_module_has_two_names(folder: Path, run: list[str]) -> None:
    """A program under ``python -m`` is meant by ``__main__`` and by its own name."""
    source = "import vendor; vendor.function(); print(vendor.function(), vendor.calls())"
    (folder / "vendor.py").write_text("def function(b=0): return b\ndef calls(): return function()\n")
    (folder / "program.py").write_text(source)
    command = {"-c": ["-c", source], "-m": ["-m", "program"], "script": ["program.py"]}[run[0]]
    for callers, expected in (("__main__", "5 0\n"), ("program", "5 0\n" if run == ["-m"] else "0 0\n")):
        with hookpatch.active(hookpatch.inject("vendor:function", b=5, callers=callers)):
            child = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=folder, check=True)
        assert child.stdout == expected


def test_a_wrapper_that_leaked_passes_through(vendor: ModuleType) -> None:
    with hookpatch.active(hookpatch.inject("vendor:function", b=5, callers="shop.*")):
        leaked = vendor.function
    assert called("shop", leaked) == (0, 0)


INSIDE: Final = {  # the code of a module ``shop.work`` with the function `run`, and where its frame is
    "function": ("def run(f): return f()", "shop.work:run"),
    "method": ("class Till:\n    def run(self, f): return f()\nrun = Till().run", "shop.work:Till.run"),
    "pattern": ("class Till:\n    def run(self, f): return f()\nrun = Till().run", "shop.*:*.run"),
    "inside": ("def run(f):\n    def g(): return f()\n    return g()", "shop.work:run.<locals>.g"),
    "generator": ("def each(f): yield f()\ndef run(f): return next(each(f))", "shop.work:each"),
    "coroutine": (
        "import asyncio\nasync def each(f): return await through(f)\nasync def through(f): return f()\n"
        "def run(f): return asyncio.run(each(f))",
        "shop.work:each",
    ),
    "decorated": (
        "import functools\ndef kept(f):\n    @functools.wraps(f)\n    def g(*args): return f(*args)\n    return g\n"
        "@kept\ndef run(f): return f()",
        "shop.work:run",
    ),
    "recursive": ("def run(f, n=3): return run(f, n - 1) if n else f()", "shop.work:run"),
}


@pytest.mark.parametrize("scope", ["process", "task"])
@pytest.mark.parametrize("form", INSIDE)
@pytest.mark.parametrize(("verb", "reach"), [(verb, reach) for verb in VERBS for reach in ("slot", "everywhere")])
def test_in_effect_while_a_function_runs(
    vendor: ModuleType, make_module: Callable[[str, str], ModuleType], verb: str, reach: Any, form: str, scope: Any
) -> None:
    """With the place of a function, all calls below the function have the patch, and calls of others do not."""
    source, place = INSIDE[form]
    work = make_module("shop.work", source)
    outside: list[Any] = []

    def nested() -> Any:
        """Call through C code and another module, and in a thread, which has a stack of its own."""
        (thread := threading.Thread(target=lambda: outside.append(called("other", vendor.function)))).start()
        thread.join()
        return [called("other", vendor.function), *map(vendor.function, [1])]

    with hookpatch.active(patch_of(verb, "function", callers=["nobody", place], reach=reach), scope=scope):
        for _ in range(2):
            assert called("shop", work.run, nested) == [(0, 5), (1, 5)]
            assert called("shop", vendor.function) == (0, 0)
    assert outside == [(0, 0)] * 2
    assert called("shop", work.run, nested) == [(0, 0), (1, 0)]


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("place", range(3))
def test_a_running_function_is_found_among_other_patches(vendor: ModuleType, place: int, reach: Any) -> None:
    """Patches of the target and of the running function itself change nothing, in any order."""

    def through(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
        return (lambda: wrapped(*args, **kwargs))()

    patches = [hookpatch.wrap("vendor:function", through, reach=reach), hookpatch.default("vendor:function", a=7)]
    patches.insert(place, hookpatch.inject("vendor:function", b=5, callers="shop.cart:call", reach=reach))
    with hookpatch.active(*patches, hookpatch.wrap("shop.cart:call", through, reach=reach)):
        assert called("shop.cart", called, "other", vendor.function) == (7, 5)
        assert called("other", vendor.function) == (7, 0)


def test_a_function_called_by_itself(make_module: Callable[[str, str], ModuleType]) -> None:
    """The patched function as its own caller: the inner calls have the patch, the outermost does not."""
    vendor = make_module("counting", "def count(n, b=0): return [b] + (count(n - 1) if n else [])")
    for reach in ("slot", "everywhere"):
        with hookpatch.active(hookpatch.inject("counting:count", b=5, callers="counting:count", reach=reach)):  # type: ignore[arg-type]
            assert vendor.count(2) == [0, 5, 5]


@pytest.mark.parametrize("verb", ["inject", "default"])
@pytest.mark.parametrize(
    ("outer", "inner"), [("shop.*", "shop.cart"), ("shop.cart", "shop.*"), ("shop.*", "*.cart"), ("s*", "shop.c*")]
)
def test_patterns_that_overlap(vendor: ModuleType, outer: str, inner: str, verb: str) -> None:
    """Of two patches for one caller the outer gives the argument, as of two patches for all callers."""
    patches = [getattr(hookpatch, verb)("vendor:function", b=b, callers=of) for b, of in ((1, outer), (2, inner))]
    with hookpatch.active(*patches):
        assert called("shop.cart", vendor.function) == (0, 1)
        assert called("other", vendor.function) == (0, 0)


def test_two_running_functions(vendor: ModuleType) -> None:
    """While both functions run the outer patch gives the argument, whichever function called the other."""
    first = hookpatch.inject("vendor:function", b=1, callers="shop:call")
    with hookpatch.active(first, hookpatch.inject("vendor:function", b=2, callers="other:call")) as session:
        assert [called(user, vendor.function) for user in ("shop", "other", "shop.cart")] == [(0, 1), (0, 2), (0, 0)]
        assert called("shop", called, "other", vendor.function) == (0, 1)
        assert called("other", called, "shop", vendor.function) == (0, 1)
        assert "b: given by a patch given to active() in calls from shop:call" in str(session.report())


@pytest.mark.parametrize(
    ("caller", "told"),
    [
        ("shopp:call", r"there is no module shopp.*did you mean 'shop'\?"),
        ("shop:cal", r"shop has no cal; did you mean 'call'\?"),
        ("shop.elsewhere:call", "shop.elsewhere:call is shop:call"),
        ("vendor:Child.method", "vendor:Child.method is vendor:Kind.method"),
        ("vendor:Child", "vendor:Child is a class; name a Python function"),
        ("vendor:Kind.pair_of", None),
        ("vendor:Kind.of_class", None),
        ("vendor:*", None),
        ("shop:call.<locals>.f", None),
    ],
)
def test_a_place_without_a_running_function_is_told(
    vendor: ModuleType, make_module: Callable[[str, str], ModuleType], caller: str, told: str | None
) -> None:
    make_module("shop.elsewhere", "from shop import call")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnknownModuleWarning)
        with hookpatch.active(hookpatch.inject("vendor:function", b=5, callers=caller)):
            assert called("shop", vendor.function) == (0, 0)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == (told is not None)
    assert not told or re.search(f"callers=: {told}", messages[0])


@pytest.mark.parametrize("caller", [":f", "m:", "m:f()", "m:C().f", "m:a:b", "m:{a,b}"])
def test_a_place_that_is_none_is_refused(caller: str) -> None:
    with pytest.raises(PatchError, match="is neither a pattern of modules nor of functions"):
        hookpatch.inject("vendor:function", b=5, callers=caller)


@pytest.mark.parametrize("heir", ["thing.method", "Child.method", "Child.of_class", "thing.of_class", "Kind().method"])
@pytest.mark.parametrize("verb", ["wrap", "inject"])
@pytest.mark.parametrize("class_first", [True, False])
@pytest.mark.sampled(7)
def test_a_wrapper_of_an_heir_is_no_silent_caller(vendor: Any, heir: str, verb: str, class_first: bool) -> None:
    """The wrapper of an inherited method counts as the caller of the class's method: the report says so."""
    owner, name = heir.split(".")
    change: Any = {"wrap": lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs), "inject": {"a": 1}}[verb]
    of_heir = getattr(hookpatch, verb)(f"vendor:{heir}", change)
    of_class = hookpatch.inject(f"vendor:Kind.{name}", b=5, callers="shop")
    with hookpatch.active(*([of_class, of_heir] if class_first else [of_heir, of_class])) as session:
        callee = getattr(vendor.Child() if owner == "Child" else vendor.thing, name)
        is_in_effect = called("shop", callee, *[1] * (verb == "wrap")) == (1, 5)
        line = f"callers= takes a call through vendor:{heir} for a call by the wrapper of a patch given to active()"
        assert is_in_effect is (line not in str(session.report()))
        assert is_in_effect or (verb == "wrap" and owner != "Kind()")
        assert called("other", callee, *[1] * (verb == "wrap")) == (1, 0)
