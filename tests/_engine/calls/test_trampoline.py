"""Trampolines: the stand-in for a Python function is a plain function of equal look and calls."""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import pytest
from function_kinds import FUNCTIONS, REACHES, around, passing_through, wrap_of

import hookpatch
from hookpatch import Target

MakeModule = Callable[[str, str], ModuleType]


# --- the look of a function


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_patched_function_is_a_plain_function(kinds: ModuleType, name: str, reach: str) -> None:
    """The slot holds a plain function, not a proxy."""
    with hookpatch.active(wrap_of(name, reach)):
        assert type(getattr(kinds, name)) is FunctionType


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "attribute", ["__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__annotations__", "__globals__"]
)
def test_patched_function_has_the_attributes_of_the_original(
    kinds: ModuleType, name: str, reach: str, attribute: str
) -> None:
    """Name, place, text, defaults and annotations are the original's own objects."""
    before = getattr(getattr(kinds, name), attribute)
    with hookpatch.active(wrap_of(name, reach)):
        assert getattr(getattr(kinds, name), attribute) is before


@pytest.mark.parametrize("reach", REACHES)
def test_attributes_of_the_function_are_there(kinds: ModuleType, reach: str) -> None:
    """Attributes of the function can be read from the stand-in."""
    note = kinds.plain.note
    with hookpatch.active(wrap_of("plain", reach)):
        assert kinds.plain.note is note


@pytest.mark.parametrize("reach", REACHES)
def test_wrapper_is_not_looked_through(kinds: ModuleType, reach: str) -> None:
    """inspect.unwrap ends at the stand-in, and does not lead past the wrapper."""
    with hookpatch.active(wrap_of("plain", reach)):
        assert inspect.unwrap(kinds.plain) is kinds.plain


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("name", [*FUNCTIONS, "Model.coroutine", "Model.generator", "Model.async_generator"])
@pytest.mark.parametrize(
    "question",
    [
        inspect.isfunction,
        inspect.iscoroutinefunction,
        *[asyncio.iscoroutinefunction][: sys.version_info < (3, 14)],  # deprecated there
        inspect.isgeneratorfunction,
        inspect.isasyncgenfunction,
        inspect.isroutine,
    ],
)
def test_kind_of_function_is_told_as_before(
    kinds: ModuleType, name: str, reach: str, question: Callable[[Any], bool]
) -> None:
    """inspect and asyncio tell a coroutine function, a generator function and their like as before."""

    def answer() -> bool:
        value: Any = kinds
        for step in name.split("."):
            value = getattr(value, step)
        return question(value)

    before = answer()
    with hookpatch.active(wrap_of(name, reach)):
        assert answer() is before


# --- arguments and results


@pytest.mark.parametrize("reach", REACHES)
def test_arguments_arrive_as_they_were_passed(kinds: ModuleType, reach: str) -> None:
    """Positional, defaulted, variable, keyword-only and arbitrary keyword arguments arrive; defaults are applied."""
    got: list[Any] = []

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        got.append((instance, args, kwargs))
        return wrapped(*args, **kwargs)

    names = {"wrapped": 1, "instance": 2, "args": 3, "kwargs": 4, "self": 5, "a": 6}
    with hookpatch.active(wrap_of("plain", reach, wrapper)):
        assert kinds.plain(0) == (0, 2, (), 3.0, {})
        assert kinds.plain(0, 1, "x", c=4.0, **names) == (0, 1, ("x",), 4.0, names)
    assert got == [(None, (0,), {}), (None, (0, 1, "x"), {"c": 4.0, **names})]


@pytest.mark.parametrize("reach", REACHES)
def test_wrong_arguments_raise_what_the_original_raises(kinds: ModuleType, reach: str) -> None:
    """A wrong call raises the original's error, with the same text."""
    with pytest.raises(TypeError) as before:
        kinds.plain()
    with hookpatch.active(wrap_of("plain", reach)), pytest.raises(TypeError) as caught:
        kinds.plain()
    assert str(caught.value) == str(before.value)


@pytest.mark.parametrize("reach", REACHES)
def test_wrapper_of_a_method_gets_the_instance_and_a_bound_original(kinds: ModuleType, reach: str) -> None:
    """For a method, wrapped is bound, instance is the object, args lack the object; super() works inside."""
    model = kinds.Model()
    got: list[Any] = []

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        got.append((wrapped.__self__, instance, args, kwargs))
        return wrapped(*args, **kwargs)

    with hookpatch.active(wrap_of("Model.named", reach, wrapper)):
        assert model.named() == kinds.Model.named(model) == "model of base"
    assert got == [(model, model, (), {})] * 2


@pytest.mark.parametrize("reach", REACHES)
def test_method_called_without_its_object_raises_as_before(kinds: ModuleType, reach: str) -> None:
    """Model.named() without an object is the original's TypeError."""
    with pytest.raises(TypeError) as before:
        kinds.Model.named()
    with hookpatch.active(wrap_of("Model.named", reach)), pytest.raises(TypeError) as caught:
        kinds.Model.named()
    assert str(caught.value) == str(before.value)


@pytest.mark.parametrize("reach", REACHES)
def test_wrapper_of_a_class_method_gets_the_class(kinds: ModuleType, reach: str) -> None:
    """For a class method instance is the class of the call; for a static method None."""
    got: list[Any] = []

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        got.append((instance, args))
        return wrapped(*args, **kwargs)

    with hookpatch.active(
        wrap_of("Model.class_coroutine", reach, wrapper), wrap_of("Model.static_generator", reach, wrapper)
    ):
        sub = type("Sub", (kinds.Model,), {})
        assert asyncio.run(kinds.Model.class_coroutine()) is kinds.Model
        assert asyncio.run(sub().class_coroutine()) is sub
        assert list(kinds.Model.static_generator(3)) == list(sub().static_generator(3)) == [3]
    assert got == [(kinds.Model, ()), (sub, ()), (None, (3,)), (None, (3,))]


@pytest.mark.parametrize("reach", REACHES)
def test_errors_of_the_original_pass_unchanged(make_module: MakeModule, reach: str) -> None:
    """The original's error reaches the caller as the identical object."""
    module = make_module("functions", "error = KeyError('mine')\ndef fail():\n    raise error\n")
    with hookpatch.active(wrap_of("fail", reach)), pytest.raises(KeyError) as caught:
        module.fail()
    assert caught.value is module.error


# --- after the end


def test_leaked_function_passes_through(kinds: ModuleType) -> None:
    """A stand-in held in a variable calls the original after the end."""
    with hookpatch.active(wrap_of("plain", "slot", around)):
        leaked = kinds.plain
        assert leaked(1).startswith("patched(")
    assert leaked is not kinds.plain
    assert leaked(1) == (1, 2, (), 3.0, {})


def test_leaked_bound_method_passes_through(kinds: ModuleType) -> None:
    """A bound method taken in the block calls the original after the end."""
    model = kinds.Model()
    with hookpatch.active(wrap_of("Model.named", "slot", around)):
        leaked = model.named
        assert leaked() == "patched(model of base)"
    assert leaked() == "model of base"


def test_leaked_wrapped_passes_through(kinds: ModuleType) -> None:
    """A held ``wrapped`` runs no inner patch after the end, of this session or another."""
    leaked: list[Callable[..., Any]] = []

    def outer(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
        leaked.append(wrapped)
        return wrapped(*args, **kwargs)

    with hookpatch.active(wrap_of("inner", "slot", around)):
        with hookpatch.active(wrap_of("inner", "slot", outer), wrap_of("inner", "slot", around)):
            assert kinds.inner() == "patched(patched(11))"
            (wrapped,) = leaked
            assert wrapped() == "patched(patched(12))"
        assert wrapped() == "patched(13)"
    assert wrapped() == 14


def test_function_stays_the_same_object_while_layers_come_and_go(kinds: ModuleType) -> None:
    """A held trampoline sees layers added and removed later."""
    first = hookpatch.active(wrap_of("inner", "slot", around)).open()
    inner = kinds.inner
    second = hookpatch.active(wrap_of("inner", "slot", around)).open()
    assert kinds.inner is inner
    assert inner() == "patched(patched(11))"
    first.close()
    assert kinds.inner is inner
    assert inner() == "patched(12)"
    second.close()
    assert inner() == 13


def test_functools_wraps_of_a_patched_function_outlives_the_patch(kinds: ModuleType) -> None:
    """A decorator put around the patched function inside works after the end, unpatched."""
    with hookpatch.active(wrap_of("inner", "slot", around)):

        @functools.wraps(kinds.inner)
        def decorated() -> Any:
            return inner()

        inner = kinds.inner
        assert decorated() == "patched(11)"
    assert decorated() == 12


# --- pickle, by reference


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("name", ["plain", "coroutine", "generator"])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_patched_function_pickles_by_reference(kinds: ModuleType, name: str, reach: str, protocol: int) -> None:
    """A pickle made inside holds the name, and loads the stand-in inside, the original outside."""
    original = getattr(kinds, name)
    with hookpatch.active(wrap_of(name, reach)):
        data = pickle.dumps(getattr(kinds, name), protocol)
        assert pickle.loads(data) is getattr(kinds, name)
    assert pickle.loads(data) is original
    assert data == pickle.dumps(original, protocol)


@pytest.mark.parametrize("reach", REACHES)
def test_bound_method_of_a_patched_function_pickles(kinds: ModuleType, reach: str) -> None:
    """A bound method pickled inside loads as the method of the copied object."""
    with hookpatch.active(wrap_of("Model.named", reach, around)):
        data = pickle.dumps(kinds.Model().named)
        assert pickle.loads(data)() == "patched(model of base)"
    assert pickle.loads(data)() == "model of base"


def test_pickle_loads_in_a_process_without_hookpatch(kinds: ModuleType) -> None:
    """A pickle of a patched function loads without hookpatch."""
    with hookpatch.active(wrap_of("generator", "slot")):
        data = pickle.dumps(kinds.generator)
    code = (
        f"import pickle, sys; sys.path.insert(0, {str(kinds.__file__).rpartition('/')[0]!r}); "
        f"print(list(pickle.loads({data!r})())); assert not any(name.startswith('hookpatch.') for name in sys.modules)"
    )
    completed = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (completed.stdout, completed.stderr) == ("[0, 1]\n", "")


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_restored_descriptor_is_the_identical_one(kind: type, make_module: MakeModule) -> None:
    """The static or class method object itself comes back, not a new one around the same function."""
    module = make_module("described", f"class C:\n    @{kind.__name__}\n    def f(*a):\n        return len(a)\n")
    before = vars(module.C)["f"]
    with hookpatch.active(hookpatch.wrap(Target.attribute(module.C, "f"), passing_through)):
        assert type(vars(module.C)["f"]) is kind
        assert vars(module.C)["f"] is not before
    assert vars(module.C)["f"] is before


# --- awaitables, and ways to call a method


def test_inherited_method_called_without_its_object_raises_as_before(kinds: ModuleType) -> None:
    """Sub.named() without an object raises the same TypeError as unpatched."""
    kinds.Sub = type("Sub", (kinds.Base,), {})
    with pytest.raises(TypeError) as before:
        kinds.Sub.named()
    with hookpatch.active(wrap_of("Sub.named", "slot", around)), pytest.raises(TypeError) as caught:
        kinds.Sub.named()
    assert str(caught.value) == str(before.value)


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("owner", ["Base", "Sub"])
def test_method_takes_its_object_by_keyword(kinds: ModuleType, owner: str, reach: str) -> None:
    """Base.named(self=object) runs the patch with the object, for own and inherited methods."""
    kinds.Sub = type("Sub", (kinds.Base,), {})
    klass = getattr(kinds, owner)
    model, got = klass(), []

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        got.append((instance, args, kwargs))
        return wrapped(*args, **kwargs)

    with hookpatch.active(wrap_of(f"{owner}.named", reach, wrapper)):
        assert klass.named(self=model) == "base"
    assert got == [(model, (), {})]


def test_inherited_method_called_on_something_else(kinds: ModuleType) -> None:
    """A method called as a plain function with a foreign object calls the inherited method."""
    kinds.Sub = type("Sub", (kinds.Base,), {})
    with hookpatch.active(wrap_of("Sub.named", "slot", around)):
        assert kinds.Sub.named(3) == "patched(base)"


@pytest.mark.model
@pytest.mark.parametrize("name", ["helper", "of_class", "static"])
def test_patched_method_is_traced_by_torch_without_a_graph_break(name: str) -> None:
    """torch.compile traces the stand-in: a single graph, with the patch."""
    import torch

    class Model(torch.nn.Module):
        def helper(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

        @classmethod
        def of_class(cls, x: torch.Tensor) -> torch.Tensor:
            return x + 1

        @staticmethod
        def static(x: torch.Tensor) -> torch.Tensor:
            return x + 1

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = getattr(self, name)(x)
            return result

    def hundredfold(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs) * 100

    torch._dynamo.reset()
    with hookpatch.active(hookpatch.wrap(Target.attribute(Model, name), hundredfold)):
        compiled = torch.compile(Model(), backend="eager", fullgraph=True)
        assert compiled(torch.ones(1)).item() == 200
    torch._dynamo.reset()


ON_THE_CLASS = """\
class Owner:
    def no_object(): return "none"
    def all_defaults(self=None, y=2): return self, y
    def only_keywords(*, y=2): return y
    def packed(*args, y=2): return args, y
    def needs_object(self): return self
"""


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        *(("no_object", {}), ("all_defaults", {}), ("all_defaults", {"y": 3}), ("all_defaults", {"self": 1})),
        *(("only_keywords", {}), ("only_keywords", {"y": 3}), ("packed", {}), ("packed", {"y": 3})),
    ],
)
def test_call_on_the_class_without_an_argument_by_place(
    make_module: MakeModule, reach: Any, name: str, kwargs: dict[str, Any]
) -> None:
    """The wrapper runs, without an object where the call has none."""
    owner = make_module("on_the_class", ON_THE_CLASS).Owner
    expected = getattr(owner, name)(**kwargs)
    calls = []

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        calls.append((instance, args, kwargs))
        return wrapped(*args, **kwargs)

    with hookpatch.active(hookpatch.wrap(f"on_the_class:Owner.{name}", wrapper, reach=reach)):
        assert getattr(owner, name)(**kwargs) == expected
    keywords = {key: value for key, value in kwargs.items() if key != "self"}
    assert calls == [(kwargs.get("self"), (), keywords)]


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("verb", ["wrap", "inject", "default"])
@pytest.mark.parametrize(
    ("args", "kwargs"), [((None,), {}), ((None, 5), {}), ((), {"self": None}), ((None,), {"y": 5})]
)
def test_call_on_the_class_with_none_as_the_object(
    make_module: MakeModule, reach: Any, verb: str, args: Any, kwargs: Any
) -> None:
    """A function cannot be bound to None: the wrapper of such a call failed with "__get__(None, None) is invalid"."""
    owner = make_module("on_none", "class Owner:\n    def method(self=1, y=2): return self, y").Owner
    expected, calls = owner.method(*args, **kwargs), []

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        calls.append((instance, args, kwargs))
        return wrapped(*args, **kwargs)

    patch = {
        "wrap": hookpatch.wrap("on_none:Owner.method", wrapper, reach=reach),
        "inject": hookpatch.inject("on_none:Owner.method", y=expected[1], reach=reach),
        "default": hookpatch.default("on_none:Owner.method", y=2, reach=reach),
    }[verb]
    with hookpatch.active(patch):
        assert owner.method(*args, **kwargs) == expected
    assert calls == ([(None, args, kwargs)] if verb == "wrap" else [])


@pytest.mark.parametrize("reach", REACHES)
def test_call_without_the_object_that_is_needed(make_module: MakeModule, reach: Any) -> None:
    """The original raises its own error."""
    owner = make_module("on_the_class", ON_THE_CLASS).Owner
    with pytest.raises(TypeError) as before:
        owner.needs_object()
    patch = hookpatch.wrap("on_the_class:Owner.needs_object", passing_through, reach=reach)
    with hookpatch.active(patch), pytest.raises(TypeError) as inside:
        owner.needs_object()
    assert str(inside.value) == str(before.value)


class Wrapped:
    """A class with a method of each kind, to be decorated while patched."""

    def method(self, a: int) -> int:
        return a

    @classmethod
    def of_class(cls, a: int) -> int:
        return a

    @staticmethod
    def static(a: int) -> int:
        return a


class Heir(Wrapped):
    """A subclass without methods of its own."""


@pytest.mark.parametrize("owner", [Wrapped, Heir])
@pytest.mark.parametrize("name", ["method", "of_class", "static"])
def test_a_function_that_wraps_a_patched_method_shows_its_signature(owner: type, name: str) -> None:
    """Without the object or class of a bound method, and with it of a function; also after the patch."""
    for bound in (getattr(owner(), name), getattr(owner, name)):
        was = inspect.signature(functools.wraps(bound)(lambda: None))
        with hookpatch.active(hookpatch.wrap(hookpatch.Target.attribute(owner, name), lambda wrapped, *call: None)):
            present = owner() if getattr(bound, "__self__", None).__class__ is owner else owner
            mine = functools.wraps(getattr(present, name))(lambda: None)
            assert inspect.signature(mine) == was
            assert "__signature__" not in vars(mine)
        assert inspect.signature(mine) == was
