"""Of two patches that set one argument or one value, the outer patch wins. No value is lost silently."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import ExitStack
from inspect import iscoroutine, signature
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import ConflictError, PatchUnneededWarning, SignatureError
from hookpatch.testing import pristine

VENDOR: Final = """
    import functools

    def function(a=0, b=0): return a, b
    def keywords(**more): return more["a"], more.get("b", 0)
    def by_place(a=0, /, b=0): return a, b
    async def coroutine(a=0, b=0): return a, b
    partial = functools.partial(function)

    class Kind:
        def method(self, a=0, b=0): return a, b
        @classmethod
        def of_class(cls, a=0, b=0): return a, b
        @staticmethod
        def static(a=0, b=0): return a, b
        def __call__(self, a=0, b=0): return a, b

    class Child(Kind): pass

    thing = Kind()
    bound, bound_part = thing.method, functools.partial(thing.method)
    cached, part_of_part = functools.lru_cache(function), functools.partial(functools.partial(function))
    table = {"f": function}
    limit, names = 3, ["x", "y"]
    """
KINDS: Final = {  # the address, and the caller
    "function": ("vendor:function", lambda vendor: vendor.function),
    "any keyword": ("vendor:keywords", lambda vendor: vendor.keywords),
    "by place alone": ("vendor:by_place", lambda vendor: vendor.by_place),
    "coroutine function": ("vendor:coroutine", lambda vendor: vendor.coroutine),
    "method": ("vendor:Kind.method", lambda vendor: vendor.Kind().method),
    "inherited method": ("vendor:Child.method", lambda vendor: vendor.Child().method),
    "class method": ("vendor:Kind.of_class", lambda vendor: vendor.Kind.of_class),
    "static method": ("vendor:Kind.static", lambda vendor: vendor.Kind.static),
    "partial": ("vendor:partial", lambda vendor: vendor.partial),
    "callable object": ("vendor:thing", lambda vendor: vendor.thing),
    "registry entry": ("vendor:table['f']", lambda vendor: vendor.table["f"]),
}
EVERYWHERE: Final = ("function", "by place alone", "coroutine function", "method", "class method", "static method")
CELLS: Final = [(kind, "slot") for kind in KINDS] + [(kind, "everywhere") for kind in EVERYWHERE]


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


@pytest.fixture
def install(vendor: ModuleType, make_distribution: Callable[..., Path]) -> Callable[..., None]:
    """Return a function that installs plugins by name and patch expression, each in a separate distribution."""

    def all_of(**patches: str) -> None:
        for name, patch in patches.items():
            source = f"""
                import hookpatch

                @hookpatch.hookimpl
                def hookpatch_patches():
                    yield from [{patch}]
                """
            make_distribution(f"d-{name}", plugins={name: f"plugin_{name}"}, modules={f"plugin_{name}": source})

    return all_of


def called(callee: Any, *args: Any, **kwargs: Any) -> Any:
    if "a" in kwargs and "/" in str(signature(callee)):
        args, kwargs = (kwargs["a"],), {}
    result = callee(*args, **kwargs)
    return asyncio.run(result) if iscoroutine(result) else result


def in_context_of_its_own(function: Callable[[], Any]) -> Any:
    """Return the result of a function called where no session with scope="task" is active."""
    return contextvars.Context().run(function)


@pytest.mark.parametrize("outer_scope", ["process", "task"])
@pytest.mark.parametrize("inner_scope", ["process", "task"])
@pytest.mark.parametrize(("kind", "reach"), CELLS)
def test_outer_of_two_sessions_gives_the_argument(
    vendor: ModuleType, kind: str, reach: Any, inner_scope: Any, outer_scope: Any
) -> None:
    """The inner session still gives the arguments that the outer session leaves out. Both end in any order."""
    address, find = KINDS[kind]
    first = hookpatch.active(hookpatch.inject(address, a=1, b=2, reach=reach), scope=inner_scope)
    second = hookpatch.active(hookpatch.inject(address, a=10, reach=reach), scope=outer_scope)
    # The result in a thread started outside both sessions, where patches with scope="task" are not active.
    elsewhere = {
        ("process", "process"): (10, 2),
        ("process", "task"): (1, 2),
        ("task", "process"): (10, 0),
        ("task", "task"): (0, 0),
    }[inner_scope, outer_scope]
    with pristine():
        with first:
            assert called(find(vendor), a=7) == (1, 2)
            with second:
                assert called(find(vendor), a=7) == (10, 2)
                if kind != "any keyword":
                    assert called(find(vendor), 7) == (10, 2)
                    assert called(find(vendor)) == (10, 2)
                    assert in_context_of_its_own(lambda: called(find(vendor))) == elsewhere
            assert called(find(vendor), a=7) == (1, 2)
        with ExitStack() as stack:
            stack.enter_context(second)
            assert called(find(vendor), a=7) == (10, 0)
            first.open()
            assert called(find(vendor), a=7) == (1, 2)
            stack.close()
            assert called(find(vendor), a=7) == (1, 2)
            first.close()


def test_three_sessions_of_which_two_are_tasks(vendor: ModuleType) -> None:
    """Each call takes an argument from the outermost session that is active for the call."""
    sessions = [
        hookpatch.active(hookpatch.inject("vendor:function", a=place, b=place), scope=scope)
        for place, scope in enumerate(("process", "task", "task"), 1)
    ]
    with sessions[0], sessions[1]:
        with sessions[2]:
            assert vendor.function() == (3, 3)
            assert in_context_of_its_own(vendor.function) == (1, 1)
        assert vendor.function() == (2, 2)
        assert in_context_of_its_own(vendor.function) == (1, 1)


@pytest.mark.model
def test_compiled_code_gives_what_the_session_of_a_task_says(make_module: Callable[[str, str], ModuleType]) -> None:
    """A single compiled function serves the task and other threads."""
    import torch

    vendor = make_module("vendor", "def scale(x, by=1.0): return x * by\n")
    compiled = torch.compile(lambda x: vendor.scale(x), fullgraph=True, backend="eager")
    tensor = torch.ones(2)
    with hookpatch.active(hookpatch.inject("vendor:scale", by=2.0)):
        with hookpatch.active(hookpatch.inject("vendor:scale", by=3.0), scope="task"):
            assert compiled(tensor).tolist() == [3.0, 3.0]
            assert in_context_of_its_own(lambda: compiled(tensor).tolist()) == [2.0, 2.0]
        assert compiled(tensor).tolist() == [2.0, 2.0]
    assert compiled(tensor).tolist() == [1.0, 1.0]


def test_wrapper_between_them_sees_what_the_outer_one_gives(vendor: ModuleType) -> None:
    """A wrapper between two injections sees the outer value.

    If the wrapper changes the value, the inner injection applies.
    """
    arguments = []

    def watching(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        arguments.append(kwargs)
        return wrapped(*args, **{**kwargs, "b": 50})

    inner, outer = hookpatch.inject("vendor:function", a=1, b=2), hookpatch.inject("vendor:function", a=10, b=20)
    between = hookpatch.wrap("vendor:function", watching)
    with hookpatch.active(inner), hookpatch.active(between), hookpatch.active(outer):
        assert vendor.function() == (10, 2)
    assert arguments == [{"a": 10, "b": 20}]


@pytest.mark.parametrize(("kind", "reach"), CELLS)
def test_two_plugins_that_inject_different_values_are_a_conflict(
    install: Callable[..., None], vendor: ModuleType, kind: str, reach: str
) -> None:
    """Different values for one argument conflict, in one session and in two.

    With a declared order the outer plugin wins.
    """
    address, find = KINDS[kind]
    declaration = f"hookpatch.inject({address!r}, a={{}}, reach={reach!r}{{}})"
    install(
        one=declaration.format(1, ""),
        two=declaration.format(2, ""),
        same=declaration.format(1, ""),
        outside=declaration.format(3, ", before='one'"),
        inside=declaration.format(4, ", after='one'"),
        other=f"hookpatch.inject({address!r}, b=5, reach={reach!r})",
        optional=declaration.format(6, ", required=False"),
    )
    with pristine():
        with pytest.raises(ConflictError) as raised:
            hookpatch.active("one", "two").open()
        assert str(raised.value) == (
            "plugin 'one' from d-one 1.0 also puts a value for a (inject); select only one of the two, or declare the "
            f"order with before= or after= (target {address} of plugin 'two' from d-two 1.0)"
        )
        with hookpatch.active("one"), pytest.raises(ConflictError):
            hookpatch.active("two").open()
        for selected, a, b in (
            (("one", "same"), 1, 0),
            (("one", "other"), 1, 5),
            (("one", "outside"), 3, 0),
            (("inside", "one"), 1, 0),
            (("one", "optional"), 1, 0),
        ):
            with hookpatch.active(*selected):
                assert called(find(vendor), a=0) == (a, b)
        with hookpatch.active("one", "inside") as session:
            assert [patch.warnings for patch in session.report()] == [
                (),
                ("without effect on a: given by plugin 'one' from d-one 1.0, which lies outside",),
            ]


def test_same_parameter_twice_of_one_owner(install: Callable[..., None], vendor: ModuleType) -> None:
    """Two values from one plugin, or from one active(), are refused. Equal values are no conflict."""
    install(a="hookpatch.inject('vendor:function', a=1), hookpatch.inject('vendor:function', a=2, b=3)")
    patches = hookpatch.inject("vendor:function", a=1), hookpatch.inject("vendor:function", a=2)
    for selected, owner in ((("a",), "plugin 'a' from d-a 1.0"), (patches, "a patch given to active()")):
        with pytest.raises(ConflictError, match=r"puts a value for a twice \(inject, inject\)") as raised:
            hookpatch.active(*selected).open()
        assert str(raised.value).startswith(owner)
        assert vendor.function() == (0, 0)
    equal = [hookpatch.inject("vendor:function", {"a": ["x", {"y": 1}]}) for _ in range(2)]
    with hookpatch.active(*equal):
        assert vendor.function() == (["x", {"y": 1}], 0)


@pytest.mark.parametrize(
    ("first_value", "second_value"), [(1, True), (1, 1.0), ([1], (1,)), ({"a": 1}, {"b": 1}), ("1", b"1")]
)
def test_values_that_only_compare_equal_are_different(
    vendor: ModuleType, first_value: object, second_value: object
) -> None:
    patches = [hookpatch.inject("vendor:function", a=value) for value in (first_value, second_value)]
    with pytest.raises(ConflictError):
        hookpatch.active(*patches).open()


def test_equality_of_foreign_values_is_not_asked_for(vendor: ModuleType) -> None:
    """Foreign values are not compared: a tensor's == gives a tensor, and a mock's == is always true."""

    class Agreeable:
        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = None  # type: ignore[assignment]

    patches = [hookpatch.inject("vendor:function", a=Agreeable()) for _ in range(2)]
    with pytest.raises(ConflictError):
        hookpatch.active(*patches).open()


def test_patch_given_by_hand_has_the_last_word_over_a_plugin(install: Callable[..., None], vendor: ModuleType) -> None:
    install(a="hookpatch.inject('vendor:function', a=1)")
    by_hand = hookpatch.inject("vendor:function", a=2)
    with hookpatch.active(by_hand, "a"):
        assert vendor.function() == (2, 0)
    with hookpatch.active("a", by_hand):
        assert vendor.function() == (1, 0)
    with hookpatch.active("a"), hookpatch.active(by_hand):
        assert vendor.function() == (2, 0)


@pytest.mark.parametrize("outer_scope", ["process", "task"])
@pytest.mark.parametrize("session_count", [0, 1, 20])
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_call_on_its_way_keeps_the_outer_argument_when_the_outer_session_ends(
    vendor: ModuleType, reach: Any, session_count: int, outer_scope: Any
) -> None:
    """The innermost of three sessions never gives the argument, also if other sessions have come and gone meanwhile."""
    passed = object()

    def end_the_outer(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
        outer.close()
        for number in range(session_count):
            with hookpatch.active(hookpatch.inject("vendor:function", a=(number, "other"), reach=reach)):
                pass
        return wrapped(*args, **kwargs)

    with (
        hookpatch.active(hookpatch.inject("vendor:function", a="inner", reach=reach)),
        hookpatch.active(hookpatch.wrap("vendor:function", end_the_outer, reach=reach)),
        hookpatch.active(hookpatch.inject("vendor:function", a="middle", reach=reach)),
    ):
        outer = hookpatch.active(hookpatch.inject("vendor:function", a="outer", reach=reach), scope=outer_scope).open()
        assert vendor.function(passed) == ("outer", 0)
        assert vendor.function(passed) == ("middle", 0)


def test_plan_and_why_tell_who_gives_the_argument(install: Callable[..., None]) -> None:
    install(
        a="hookpatch.inject('vendor:function', a=1)",
        b="hookpatch.inject('vendor:function', a=2)",
        c="hookpatch.inject('vendor:function', a=3, after='a')",
    )
    (target,) = hookpatch.plan("a", "b").targets
    assert [patch.finding for patch in target.patches] == ["fits", "conflict"]
    assert "also puts a value for a (inject)" in str(target)
    note = "without effect on a: given by plugin 'a' from d-a 1.0, which lies outside"
    (target,) = hookpatch.plan("a", "c").targets
    assert [patch.warnings for patch in target.patches] == [(), (note,)]
    with hookpatch.active("a", "c"):
        assert [layer.note for layer in hookpatch.why("vendor:function")] == [None, note, None]


# --- values


REPLACED: Final = {
    "number": ("vendor:limit", 3),
    "list": ("vendor:names", ["x", "y"]),
    "function": ("vendor:function", None),
    "method": ("vendor:Kind.method", None),
    "class method": ("vendor:Kind.of_class", None),
    "class": ("vendor:Kind", None),
    "entry": ("vendor:table['f']", None),
    "index": ("vendor:names[0]", "x"),
}


VALUES: Final = {  # the raw value of the slot
    "function": lambda vendor: vendor.function,
    "method": lambda vendor: vendor.Kind.method,
    "class method": lambda vendor: vars(vendor.Kind)["of_class"],
    "class": lambda vendor: vendor.Kind,
    "entry": lambda vendor: vendor.table["f"],
}


@pytest.mark.parametrize("verb", ["replace", "derive"])
@pytest.mark.parametrize(
    ("kind", "reach"), [(kind, "slot") for kind in REPLACED] + [(kind, "everywhere") for kind in VALUES]
)
@pytest.mark.sampled(8)
def test_value_that_stood_there_already_is_without_effect(vendor: ModuleType, kind: str, reach: Any, verb: str) -> None:
    """A replacement with the same value warns and is noted in the report.

    Built-in types compare by value, all others by identity.
    """
    address, value = REPLACED[kind]
    if value is None:
        value = VALUES[kind](vendor)
    if verb == "replace":
        patch, reason = hookpatch.replace(address, value, reach=reach), "the slot held this value already"
    else:
        patch = hookpatch.derive(address, lambda original: original, reach=reach)
        reason = "the factory returned the original"
    with pristine():
        session = hookpatch.active(patch)
        with pytest.warns(PatchUnneededWarning, match=f"without effect: {reason}"):
            session.open()
        assert session.report().patches[0].warnings == (f"without effect: {reason}",)
        assert (vendor.function(1), vendor.Kind().method(2), vendor.Kind.of_class(3)) == ((1, 0), (2, 0), (3, 0))
        session.close()


def test_value_of_a_nested_session_is_no_warning(vendor: ModuleType) -> None:
    """A nested session with the same patch raises no warning, as for a decorated function that calls another."""
    outer, nested = (hookpatch.active(hookpatch.replace("vendor:limit", 5)) for _ in range(2))
    with outer:
        with nested:
            assert nested.report().patches[0].warnings == ("without effect: the slot held this value already",)
        assert outer.report().patches[0].warnings == ()


def test_values_that_differ_are_with_effect(vendor: ModuleType) -> None:
    for value in (3.0, True, "3", 4):
        with hookpatch.active(hookpatch.replace("vendor:limit", value)) as session:
            assert session.report().patches[0].warnings == ()


def test_injected_argument_that_the_target_lacks_is_still_refused(vendor: ModuleType) -> None:
    with hookpatch.active(hookpatch.inject("vendor:function", a=1)), pytest.raises(SignatureError):
        hookpatch.active(hookpatch.inject("vendor:function", a=1, c=2)).open()


@pytest.mark.parametrize("verb", ["inject", "default"])
def test_a_patch_in_place_that_overrides_an_argument_of_the_slot_is_reported(vendor: ModuleType, verb: str) -> None:
    """A function changed in place lies inside every slot: its ``inject`` decides. The report said *applied* of both."""
    outer = {"inject": hookpatch.inject, "default": hookpatch.default}[verb]("vendor:function", a=1)
    inside = hookpatch.inject("vendor:function", a=2, reach="everywhere")
    for patches in ((outer, inside), (inside, outer)):
        with hookpatch.active(*patches) as session:
            assert vendor.function() == (2, 0)
            warnings = sorted(row.warnings for row in session.report())
        assert warnings == [(), ("without effect on a: injected by a patch given to active()",)]


CALLING: Final = {
    "partial": "function",
    "part_of_part": "function",
    "cached": "function",
    "bound": "Kind.method",
    "bound_part": "Kind.method",
}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("outer", [hookpatch.inject, hookpatch.default])
@pytest.mark.parametrize("name", CALLING)
@pytest.mark.sampled(7)
def test_an_object_that_calls_a_function_changed_in_place_is_reported(
    vendor: ModuleType, name: str, outer: Callable[..., hookpatch.Patch], together: bool
) -> None:
    """A bound method, a partial and a cached function lead to the function in place, whose ``inject`` decides."""
    inside = hookpatch.inject(f"vendor:{CALLING[name]}", a=2, reach="everywhere")
    patches = [outer(f"vendor:{name}", a=1), inside]
    with ExitStack() as stack:
        for group in [patches] if together else [patches[:1], patches[1:]]:
            session = stack.enter_context(hookpatch.active(*group, children="local"))
        assert vars(vendor)[name]() == (2, 0)
        rows = {row.target: row.warnings for row in hookpatch.report()}
    assert rows[f"vendor:{name}"] == ("without effect on a: injected by a patch given to active()",)
    assert session.report().patches[-1].warnings == ()


def _calling(original: Callable[..., Any]) -> Callable[..., Any]:
    def derived(self: Any, a: object = 0, b: object = 0) -> Any:
        return original(self, a, b)

    return derived


BETWEEN: Final[dict[str, tuple[Callable[[], hookpatch.Patch], bool]]] = {  # and whether calls reach what is beneath
    "derive": (lambda: hookpatch.derive("vendor:Kind.method", _calling), True),
    "replace for others": (lambda: hookpatch.replace("vendor:Kind().method", lambda self, a=0, b=0: "new"), True),
    "replace": (lambda: hookpatch.replace("vendor:Kind.method", lambda self, a=0, b=0: (a, b)), False),
    "wrap": (lambda: hookpatch.wrap("vendor:Kind.method", lambda w, i, a, k: w(*a, **k)), False),
}


@pytest.mark.parametrize("outer", [hookpatch.inject, hookpatch.default])
@pytest.mark.parametrize("between", BETWEEN)
def test_an_argument_injected_again_beneath_a_value(
    vendor: ModuleType, between: str, outer: Callable[..., hookpatch.Patch]
) -> None:
    """A value between passes the outer argument on. An inject beneath overrides the argument; the report says so."""
    made, reaches = BETWEEN[between]
    patches = [hookpatch.inject("vendor:Kind.method", a="beneath"), made(), outer("vendor:Kind.method", a="outer")]
    with ExitStack() as stack:
        sessions = [stack.enter_context(hookpatch.active(patch, children="local")) for patch in patches]
        answer = vendor.Child().method()
        [row] = sessions[-1].report()
    said = [text for text in row.warnings if "in the original" in text]
    assert (answer[0] == "beneath") == (reaches or (between == "wrap" and outer is hookpatch.default))
    assert bool(said) == reaches, row.warnings
    assert all(text.startswith("without effect in the original on a: injected by") for text in said)
