"""Patch: a declaration keeps its arguments, changes nothing by itself, and refuses arguments without a meaning."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any, cast

import pytest

import hookpatch
from hookpatch import Patch, Target
from hookpatch.errors import HookpatchError, PatchError, TargetSyntaxError

MakeModule = Callable[..., ModuleType]
Declare = Callable[..., Patch]


def doubled(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result twice."""
    return wrapped(*args, **kwargs) * 2


@contextmanager
def nothing(module: ModuleType) -> Iterator[None]:
    """Call through."""
    yield


VERBS: dict[str, Declare] = {
    "wrap": lambda **facts: hookpatch.wrap("vendor:f", doubled, **facts),
    "inject": lambda **facts: hookpatch.inject("vendor:f", x=1, **facts),
    "replace": lambda **facts: hookpatch.replace("vendor:f", 1, **facts),
    "derive": lambda **facts: hookpatch.derive("vendor:f", repr, **facts),
    "remove": lambda **facts: hookpatch.remove("vendor:f", **facts),
    "enter": lambda **facts: hookpatch.enter("vendor", nothing, **facts),
}
VERB = pytest.mark.parametrize("verb", VERBS)


# --- the parts of a declaration


@VERB
def test_patch_says_its_verb_and_module(verb: str) -> None:
    """A patch knows its verb and its module."""
    patch = VERBS[verb]()
    assert (patch.verb, patch.module) == (verb, "vendor")


@VERB
def test_patch_is_named_by_its_address(verb: str) -> None:
    """The address is the target's; for enter, without a target, the module's name."""
    assert VERBS[verb]().address == ("vendor" if verb == "enter" else "vendor:f")


@VERB
def test_patch_is_required_and_reaches_the_slot_unless_told_otherwise(verb: str) -> None:
    """A verb without facts makes a required patch of one slot, for any version, in no special place."""
    patch = VERBS[verb]()
    assert (patch.reach, patch.required, patch.before, patch.after) == ("slot", True, (), ())
    assert (patch.requires, patch.until, patch.why, patch.upstream) == (None, None, None, None)


@VERB
def test_patch_keeps_the_facts(verb: str) -> None:
    """Every verb takes every fact."""
    facts: dict[str, Any] = {
        "reach": "everywhere",
        "requires": "vendor>=1",
        "required": False,
        "before": ("a",),
        "after": ("b", "c"),
        "why": "it is slow",
        "upstream": "https://example.org/1",
        "until": "vendor>=2",
    }
    patch = VERBS[verb](**facts)
    assert {name: getattr(patch, name) for name in facts} == facts


@VERB
@pytest.mark.parametrize("side", ["before", "after"])
def test_before_and_after_take_one_name_or_several(verb: str, side: str) -> None:
    """A single name is not taken apart into letters, and any iterable of names will do."""
    for names in ("fuse", ["fuse"], ("fuse",), iter(["fuse"])):
        assert getattr(VERBS[verb](**{side: names}), side) == ("fuse",)
    assert getattr(VERBS[verb](**{side: ["fuse", "trim"]}), side) == ("fuse", "trim")


@VERB
def test_patch_is_frozen(verb: str) -> None:
    """A declared patch cannot be changed."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        VERBS[verb]().required = False  # type: ignore[misc]  # what is tested


@VERB
def test_making_a_patch_imports_and_changes_nothing(verb: str, write_module: Callable[[str, str], object]) -> None:
    """A declaration is inert: no import, no watch."""
    write_module("vendor", "raise AssertionError('imported')")
    finders = list(sys.meta_path)
    VERBS[verb]()
    assert "vendor" not in sys.modules
    assert sys.meta_path == finders


def test_target_is_kept_as_it_is() -> None:
    """A Target may be given in place of an address, and stays the same object."""
    target = Target("vendor:f")
    assert hookpatch.remove(target).target is target


def test_target_at_hand_has_no_module_to_wait_for() -> None:
    """A patch of an object without an address waits for no import."""
    assert hookpatch.remove(Target.item({"a": 1}, "a")).module is None


def test_value_and_wrapper_are_kept_as_they_are() -> None:
    """Value and wrapper are not copied."""
    value: list[int] = []
    assert hookpatch.replace("m:a", value).change is value
    assert hookpatch.wrap("m:a", doubled).change is doubled
    assert hookpatch.derive("m:a", repr).change is repr
    assert hookpatch.enter("m", nothing).change is nothing
    assert hookpatch.remove("m:a").change is None


def test_inject_keeps_arguments_and_facts_apart() -> None:
    """Keywords named like facts are facts, all others arguments."""
    patch = hookpatch.inject("m:f", x=1, required=False, why="slow")
    assert (dict(patch.change), patch.required, patch.why) == ({"x": 1}, False, "slow")


def test_inject_takes_a_mapping_for_parameters_named_like_facts() -> None:
    """In the mapping the name of a fact is the name of a parameter; both ways add up."""
    patch = hookpatch.inject("m:f", {"before": 3}, x=1, before="a")
    assert (dict(patch.change), patch.before) == ({"before": 3, "x": 1}, ("a",))


# --- an active declaration


def test_wrap_runs_around_each_call(make_module: MakeModule) -> None:
    """The wrapper gets the call and gives the result, until the end of the block."""
    vendor = make_module("vendor", "def f(x): return x")
    original = vendor.f
    with hookpatch.active(hookpatch.wrap("vendor:f", doubled)):
        assert vendor.f(2) == 4
    assert vendor.f is original


@pytest.mark.parametrize(
    ("signature", "call"),
    [
        ("x, y=0", lambda f: f(1)),
        ("x, y=0", lambda f: f(1, 2)),
        ("x, y=0", lambda f: f(1, y=2)),
        ("x, y=0", lambda f: f(y=2, x=1)),
        ("x, y", lambda f: f(1)),
        ("x, y=0, /", lambda f: f(1)),
        ("x, y=0, /", lambda f: f(1, 2)),
        ("x, *, y=0", lambda f: f(1)),
        ("x, *, y", lambda f: f(1, y=2)),
    ],
)
@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("path", ["f", "C.method", "Heir.method", "C.of_class", "Heir.of_class"])
def test_injected_argument_takes_the_callers_place(
    make_module: MakeModule, path: str, count: int, signature: str, call: Callable[[Any], object]
) -> None:
    """However the caller passes an argument, or does not, the callee gets the injected one, once, of a method too."""
    vendor = make_module(
        "vendor",
        f"""
        def f({signature}): return x, y
        class C:
            def method(self, {signature}): return x, y
            @classmethod
            def of_class(cls, {signature}): return x, y
        class Heir(C): pass
        """,
    )
    owner, _, name = path.rpartition(".")
    instances: list[object] = []
    heir = vendor.Heir()

    def around(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
        instances.append(instance)
        return wrapped(*args, **kwargs)

    wraps = [hookpatch.wrap(f"vendor:{path}", around)] * count
    with hookpatch.active(*wraps, hookpatch.inject(f"vendor:{path}", y=9), *wraps):
        assert call(getattr(heir if owner else vendor, name)) == (1, 9)
        assert instances == [{"f": None, "method": heir, "of_class": vendor.Heir}[name]] * (2 * count)


def test_method_with_an_injected_argument_is_called_with_its_object_by_keyword(make_module: MakeModule) -> None:
    """An object given by keyword counts as the object; a missing object is the method's own error."""
    vendor = make_module("vendor", "class C:\n def method(self, x=0, y=0): return self, x, y")
    with hookpatch.active(hookpatch.inject("vendor:C.method", y=9)):
        assert vendor.C.method(self=1, x=2) == (1, 2, 9)
        with pytest.raises(TypeError, match=r"C\.method\(\) missing 1 required positional argument: 'self'"):
            vendor.C.method()
        with pytest.raises(TypeError, match=r"C\.method\(\) got multiple values for argument 'self'"):
            vendor.C.method(1, self=1)


def test_injected_argument_reaches_methods_of_every_kind(make_module: MakeModule) -> None:
    """The object or class of a method call is not counted as an argument."""
    vendor = make_module(
        "vendor",
        """
        class C:
            def method(self, x, y=0): return x, y
            @classmethod
            def of_class(cls, x, y=0): return x, y
            @staticmethod
            def static(x, y=0): return x, y
        """,
    )
    patches = [hookpatch.inject(f"vendor:C.{name}", y=9) for name in ("method", "of_class", "static")]
    with hookpatch.active(*patches):
        instance = vendor.C()
        assert [instance.method(1, 2), vendor.C.of_class(1, 2), instance.static(1, 2)] == [(1, 9)] * 3


def test_injected_containers_are_new_at_each_call(make_module: MakeModule) -> None:
    """A callee's change of an injected list, dict or set does not reach the patch, at any depth."""
    vendor = make_module(
        "vendor",
        """
        def f(names, table, marks):
            names.append(1); table["deep"].append(1); marks.add(1)
            return names, table, marks
        """,
    )
    arguments: dict[str, Any] = {"names": [], "table": {"deep": []}, "marks": set()}
    with hookpatch.active(hookpatch.inject("vendor:f", arguments)):
        assert vendor.f() == vendor.f() == ([1], {"deep": [1]}, {1})
    assert arguments == {"names": [], "table": {"deep": []}, "marks": set()}


def test_injected_object_is_the_same_at_each_call(make_module: MakeModule) -> None:
    """Whatever is no built-in container is handed on as it is: a model is not copied."""
    vendor = make_module("vendor", "def f(x): return x")
    model = object()
    with hookpatch.active(hookpatch.inject("vendor:f", x=[model])):
        assert vendor.f()[0] is model


def test_injected_parameter_may_bear_the_name_of_a_fact(make_module: MakeModule) -> None:
    """``inject(target, {"before": 3})`` gives the argument ``before``."""
    vendor = make_module("vendor", "def f(before=0): return before")
    with hookpatch.active(hookpatch.inject("vendor:f", {"before": 3})):
        assert vendor.f() == 3


def test_replace_adds_what_is_absent(make_module: MakeModule) -> None:
    """replace adds a missing name or key, which is absent again afterwards."""
    vendor = make_module("vendor", "table = {}")
    with hookpatch.active(
        hookpatch.replace("vendor:new", 1, add=True), hookpatch.replace("vendor:table['k']", 2, add=True)
    ):
        assert (vendor.new, vendor.table) == (1, {"k": 2})
    assert not hasattr(vendor, "new")
    assert vendor.table == {}


def test_derive_makes_the_value_from_the_original(make_module: MakeModule) -> None:
    """The factory is called with the original, once, at the target's import."""
    vendor = make_module("vendor", "class C: pass")
    original = vendor.C
    got: list[object] = []

    def factory(base: type) -> type:
        got.append(base)
        return type("Derived", (base,), {})

    patch = hookpatch.derive("vendor:C", factory)
    assert got == []
    with hookpatch.active(patch):
        assert vendor.C.__mro__[:2] == (vendor.C, original)
    assert got == [original]
    assert vendor.C is original


def test_remove_makes_names_and_keys_absent(make_module: MakeModule) -> None:
    """Name and key are absent inside, and the identical objects are back afterwards."""
    vendor = make_module("vendor", "table = {'a': 1, 'b': 2}\nmodel = object()")
    model = vendor.model
    with hookpatch.active(hookpatch.remove("vendor:model"), hookpatch.remove("vendor:table['a']")):
        assert not hasattr(vendor, "model")
        assert vendor.table == {"b": 2}
    assert vendor.model is model
    assert list(vendor.table) == ["a", "b"]


def test_enter_holds_a_context_manager_for_the_block(make_module: MakeModule) -> None:
    """The factory gets the module; its context manager is entered at the start and left at the end."""
    vendor = make_module("vendor", "log = []")

    @contextmanager
    def logged(module: ModuleType) -> Iterator[None]:
        module.log.append("in")
        yield
        module.log.append("out")

    with hookpatch.active(hookpatch.enter("vendor", logged)):
        assert vendor.log == ["in"]
    assert vendor.log == ["in", "out"]


def test_patch_is_applied_anew_by_each_session(make_module: MakeModule) -> None:
    """A declaration serves any number of sessions, also nested."""
    vendor = make_module("vendor", "def f(x): return x")
    patch = hookpatch.wrap("vendor:f", doubled)
    for _ in range(2):
        with hookpatch.active(patch):
            assert vendor.f(1) == 2
            with hookpatch.active(patch):
                assert vendor.f(1) == 4
    assert vendor.f(1) == 1


# --- refused declarations


def refused(declare: Callable[[], object]) -> str:
    """Return the message of the refusal."""
    with pytest.raises(PatchError) as caught:
        declare()
    assert isinstance(caught.value, HookpatchError)
    assert isinstance(caught.value, TypeError)
    assert str(caught.value) == f"{caught.value.verb}(): {caught.value.problem}"
    return str(caught.value)


def test_wrapper_that_cannot_be_called_is_refused() -> None:
    """wrap takes a callable."""
    wrapper: Any = 3
    assert refused(lambda: hookpatch.wrap("m:f", wrapper)) == "wrap(): the wrapper is an int and cannot be called"


def test_factory_that_cannot_be_called_is_refused() -> None:
    """derive and enter take a callable."""
    factory: Any = "text"
    assert refused(lambda: hookpatch.derive("m:f", factory)) == "derive(): the factory is a str and cannot be called"
    assert refused(lambda: hookpatch.enter("m", factory)) == "enter(): the factory is a str and cannot be called"


def test_inject_without_an_argument_is_refused() -> None:
    """inject needs an argument; facts do not count."""
    message = "inject(): no argument to give; write inject(target, name=value)"
    assert refused(lambda: hookpatch.inject("m:f")) == message
    assert refused(lambda: hookpatch.inject("m:f", {}, why="slow")) == message


@pytest.mark.parametrize("module", ["m:f", "", "a-b", None])
def test_enter_refuses_what_is_no_name_of_a_module(module: Any) -> None:
    """enter takes a module's name, not an address."""
    assert refused(lambda: hookpatch.enter(module, nothing)) == f"enter(): '{module}' is not a module's name"


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: hookpatch.wrap("v:f", print, before=3), "wrap(): before= takes a plugin's name or several, not 3"),
        (
            lambda: hookpatch.wrap("v:f", print, after=["a", 3]),
            "wrap(): after= takes a plugin's name or several, not ['a', 3]",
        ),
        (
            lambda: hookpatch.wrap("v:f", print, requires=3),
            "wrap(): requires= takes a distribution's versions or several, not 3",
        ),
        (lambda: hookpatch.remove("v:f", why=["x"]), "remove(): why= is a list, not text"),
        (lambda: hookpatch.inject("v:f", 3), "inject(): the arguments are an int, not a mapping of names to values"),
        (lambda: hookpatch.inject("v:f", {1: 3}), "inject(): an argument's name is an int, not text"),
    ],
)
def test_argument_of_the_wrong_kind_is_refused(declare: Callable[[], Patch], message: str) -> None:
    """A wrong argument is refused at the declaration, not at the first call."""
    assert refused(declare) == message


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "inject"])
def test_unknown_fact_is_refused(verb: str) -> None:
    """The message lists the facts. (For inject any other name is an argument.)"""
    assert refused(lambda: VERBS[verb](require="vendor>=1", zeal=1)) == (
        f"{verb}(): takes no 'require'; it takes reach, only_in, except_in, callers, of, requires, required, before, "
        "after, why, upstream, until, required_calls, check_signature, matches, only"
    )


@VERB
def test_unknown_reach_is_refused(verb: str) -> None:
    """An unknown reach is refused; two words are valid."""
    assert refused(lambda: VERBS[verb](reach="all")) == f"{verb}(): reach='all' is neither 'slot' nor 'everywhere'"


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "enter"])
def test_address_is_read_when_the_patch_is_declared(verb: str) -> None:
    """A misspelt address fails at the declaration, not at the import."""
    declare: dict[str, Callable[[], Patch]] = {
        "wrap": lambda: hookpatch.wrap("vendor.f", doubled),
        "inject": lambda: hookpatch.inject("vendor.f", x=1),
        "replace": lambda: hookpatch.replace("vendor.f", 1),
        "derive": lambda: hookpatch.derive("vendor.f", repr),
        "remove": lambda: hookpatch.remove("vendor.f"),
    }
    with pytest.raises(TargetSyntaxError) as caught:
        declare[verb]()
    assert str(caught.value) == (
        "target 'vendor.f' has no colon between module and name; did you mean 'vendor:f'? "
        "write module:name, module:Class.method or module:mapping['key']"
    )


def twice(x: int) -> Any:
    """No wrapper: takes a single argument."""
    return x * 2


def keyed(*args: Any, mark: str) -> Any:
    """No wrapper: a call would lack the mark."""
    return args, mark


def empty() -> Any:
    """No factory: takes no argument."""


@pytest.mark.parametrize(
    ("declare", "problem"),
    [
        (
            lambda: hookpatch.wrap("m:f", cast(Any, twice)),
            "wrap(): the wrapper is called as wrapper(wrapped, instance, args, kwargs), and cannot be: it is twice(x)",
        ),
        (
            lambda: hookpatch.wrap("m:f", cast(Any, keyed)),
            "wrap(): the wrapper is called as wrapper(wrapped, instance, args, kwargs), and cannot be: "
            "it is keyed(*args, mark)",
        ),
        (
            lambda: hookpatch.derive("m:f", cast(Any, empty)),
            "derive(): the factory is called as factory(original), and cannot be: it is empty()",
        ),
        (
            lambda: hookpatch.enter("m", cast(Any, empty)),
            "enter(): the factory is called as factory(module), and cannot be: it is empty()",
        ),
    ],
)
def test_function_of_another_form_is_refused_where_it_is_given(declare: Callable[[], Patch], problem: str) -> None:
    """A function of the wrong form is refused at the declaration, not inside the vendor's code."""
    assert refused(declare) == problem


def test_function_that_takes_more_than_it_has_to_is_taken() -> None:
    """A function with further optional parameters is accepted."""
    hookpatch.wrap("m:f", lambda *arguments: None)
    hookpatch.wrap("m:f", lambda wrapped, *arguments, mark=1: None)
    hookpatch.wrap("m:f", lambda wrapped, instance, args, kwargs, mark=1: None)
    hookpatch.derive("m:f", lambda original, by=2: original)


def test_factory_of_enter_is_typed_as_a_context_manager() -> None:
    """A class that is a context manager serves as the factory as well as a generator function does."""

    class Held(AbstractContextManager[None]):
        def __init__(self, module: ModuleType) -> None:
            self.module = module

        def __exit__(self, *error: object) -> None:
            modules.append(self.module)

    modules: list[ModuleType] = []
    with hookpatch.active(hookpatch.enter("sys", Held)):
        assert modules == []
    assert modules == [sys]
