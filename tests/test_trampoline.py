"""Trampolines: what stands for a Python function is a plain function that looks like it."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import pickle
import subprocess
import sys
import typing
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType, ModuleType
from typing import Any

import pytest
import wrapt

import hookpatch
from hookpatch import Target

MakeModule = Callable[[str, str], ModuleType]

SOURCE = '''
    from __future__ import annotations

    import asyncio

    class Marker:
        pass

    def plain(a: Marker, /, b: int = 2, *rest: str, c: float = 3.0, **more: object) -> list[Marker]:
        """What plain does."""
        return a, b, rest, c, more

    plain.note = ["kept"]

    async def coroutine(a: Marker, b: int = 2) -> Marker:
        """What coroutine does."""
        await asyncio.sleep(0)
        return a

    def generator(n: int = 2):
        """What generator does."""
        log = []
        for i in range(n):
            try:
                log.append((yield i))
            except KeyError as error:
                log.append(repr(error))
        return log

    async def async_generator(log: list, n: int = 3):
        """What async_generator does."""
        try:
            for i in range(n):
                try:
                    log.append((yield i))
                except KeyError as error:
                    log.append(repr(error))
        finally:
            await asyncio.sleep(0)
            log.append("closed")

    def closing(free):
        def inner(*, step=1):
            nonlocal free
            free += step
            return free
        return inner

    inner = closing(10)

    class Base:
        def named(self):
            return "base"
        def own(self, size=1):
            return size

    class Model(Base):
        async def coroutine(self, a=1):
            return self, a
        def generator(self, n=2):
            yield from range(n)
        async def async_generator(self):
            yield self
        def named(self):
            return "model of " + super().named()
        @classmethod
        async def class_coroutine(cls):
            return cls
        @staticmethod
        def static_generator(n):
            yield n
'''

FUNCTIONS = ["plain", "coroutine", "generator", "async_generator", "inner"]
REACHES = ["slot", "everywhere"]


@pytest.fixture
def kinds(make_module: MakeModule) -> ModuleType:
    """A module with a function of every kind."""
    return make_module("functions", SOURCE)


def _through(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def _around(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> str:
    return f"patched({wrapped(*args, **kwargs)})"


def _wrap(address: str, reach: str, wrapper: Any = _through) -> hookpatch.Patch:
    return hookpatch.wrap(f"functions:{address}", wrapper, reach=reach)  # type: ignore[arg-type]  # parametrized


def _state(function: FunctionType) -> dict[str, Any]:
    """Return all that makes a function, the objects themselves."""
    names = ("code", "kwdefaults", "defaults", "closure", "globals", "name", "qualname", "module", "doc", "annotations")
    return {name: getattr(function, f"__{name}__") for name in names} | {
        f"dict.{name}": value for name, value in vars(function).items()
    }


def _same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return list(before) == list(after) and all(before[name] is after[name] for name in before)


# --- it looks like the function


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_patched_function_is_a_plain_function(kinds: ModuleType, name: str, reach: str) -> None:
    """What stands in the slot is of the type function, not a proxy."""
    with hookpatch.active(_wrap(name, reach)):
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
    with hookpatch.active(_wrap(name, reach)):
        assert getattr(getattr(kinds, name), attribute) is before


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_patched_function_has_the_code_name_of_the_original(kinds: ModuleType, name: str, reach: str) -> None:
    """A traceback and a profile show the original's name; what stands in a slot says besides whose patch it runs."""
    code = getattr(kinds, name).__code__
    owner = {"slot": " [hookpatch: a patch given to active()]", "everywhere": ""}[reach]
    with hookpatch.active(_wrap(name, reach)):
        patched = getattr(kinds, name).__code__
        assert (patched.co_name, patched.co_qualname) == (code.co_name + owner, code.co_qualname)


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("name", [*FUNCTIONS, "Model.coroutine", "Model.class_coroutine", "Model.static_generator"])
def test_signature_is_that_of_the_original(kinds: ModuleType, name: str, reach: str) -> None:
    """inspect.signature answers the same before, during and after, bound or not."""

    def signatures() -> list[inspect.Signature]:
        *path, last = name.split(".")
        owners = [kinds.Model, kinds.Model()] if path else [kinds]
        return [inspect.signature(getattr(owner, last)) for owner in owners]

    before = signatures()
    with hookpatch.active(_wrap(name, reach)):
        assert signatures() == before
    assert signatures() == before


@pytest.mark.parametrize("name", ["plain", "Model.generator", "Model.own"])
def test_signature_over_a_proxy_of_somebody_else(kinds: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As without the patch, where what stands there is a wrapt wrapper, or is inherited from one."""
    owner, last = (kinds.Model, name[6:]) if "." in name else (kinds, name)
    of = owner if last in vars(owner) else kinds.Base
    monkeypatch.setattr(of, last, wrapt.FunctionWrapper(vars(of)[last], _through))
    before = inspect.signature(getattr(owner, last))
    with hookpatch.active(_wrap(name, "slot")):
        assert inspect.signature(getattr(owner, last)) == before


@pytest.mark.parametrize("reach", REACHES)
def test_type_hints_are_found_in_the_module_of_the_original(kinds: ModuleType, reach: str) -> None:
    """typing.get_type_hints evaluates annotations in text where the original was defined."""
    with hookpatch.active(_wrap("plain", reach)):
        hints = typing.get_type_hints(kinds.plain)
    assert hints["a"] is kinds.Marker
    assert hints == typing.get_type_hints(kinds.plain)


@pytest.mark.parametrize("reach", REACHES)
def test_attributes_of_the_function_are_there(kinds: ModuleType, reach: str) -> None:
    """What somebody set on the function can be read from what stands for it."""
    note = kinds.plain.note
    with hookpatch.active(_wrap("plain", reach)):
        assert kinds.plain.note is note


@pytest.mark.parametrize("reach", REACHES)
def test_wrapper_is_not_looked_through(kinds: ModuleType, reach: str) -> None:
    """inspect.unwrap ends at what stands in the slot: nothing leads past the wrapper."""
    with hookpatch.active(_wrap("plain", reach)):
        assert inspect.unwrap(kinds.plain) is kinds.plain


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("name", [*FUNCTIONS, "Model.coroutine", "Model.generator", "Model.async_generator"])
@pytest.mark.parametrize(
    "question",
    [
        inspect.isfunction,
        inspect.iscoroutinefunction,
        asyncio.iscoroutinefunction,
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
        found: Any = kinds
        for step in name.split("."):
            found = getattr(found, step)
        return question(found)

    before = answer()
    with hookpatch.active(_wrap(name, reach)):
        assert answer() is before


# --- it takes and gives what the function does


@pytest.mark.parametrize("reach", REACHES)
def test_arguments_arrive_as_they_were_passed(kinds: ModuleType, reach: str) -> None:
    """Positional, defaulted, variable, keyword-only and arbitrary keyword arguments arrive; defaults are applied."""
    got: list[Any] = []

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        got.append((instance, args, kwargs))
        return wrapped(*args, **kwargs)

    names = {"wrapped": 1, "instance": 2, "args": 3, "kwargs": 4, "self": 5, "a": 6}
    with hookpatch.active(_wrap("plain", reach, wrapper)):
        assert kinds.plain(0) == (0, 2, (), 3.0, {})
        assert kinds.plain(0, 1, "x", c=4.0, **names) == (0, 1, ("x",), 4.0, names)
    assert got == [(None, (0,), {}), (None, (0, 1, "x"), {"c": 4.0, **names})]


@pytest.mark.parametrize("reach", REACHES)
def test_wrong_arguments_raise_what_the_original_raises(kinds: ModuleType, reach: str) -> None:
    """A call that the original would refuse is refused with the same text."""
    with pytest.raises(TypeError) as before:
        kinds.plain()
    with hookpatch.active(_wrap("plain", reach)), pytest.raises(TypeError) as caught:
        kinds.plain()
    assert str(caught.value) == str(before.value)


@pytest.mark.parametrize("reach", REACHES)
def test_wrapper_of_a_method_gets_the_instance_and_a_bound_original(kinds: ModuleType, reach: str) -> None:
    """For a method, wrapped is bound, instance is its object and args come without it; super() works inside."""
    model = kinds.Model()
    got: list[Any] = []

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        got.append((wrapped.__self__, instance, args, kwargs))
        return wrapped(*args, **kwargs)

    with hookpatch.active(_wrap("Model.named", reach, wrapper)):
        assert model.named() == kinds.Model.named(model) == "model of base"
    assert got == [(model, model, (), {})] * 2


@pytest.mark.parametrize("reach", REACHES)
def test_method_called_without_its_object_raises_as_before(kinds: ModuleType, reach: str) -> None:
    """Model.named() without an object is the original's TypeError."""
    with pytest.raises(TypeError) as before:
        kinds.Model.named()
    with hookpatch.active(_wrap("Model.named", reach)), pytest.raises(TypeError) as caught:
        kinds.Model.named()
    assert str(caught.value) == str(before.value)


@pytest.mark.parametrize("reach", REACHES)
def test_wrapper_of_a_class_method_gets_the_class(kinds: ModuleType, reach: str) -> None:
    """For a class method, instance is the class that it is called on; for a static method None."""
    got: list[Any] = []

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        got.append((instance, args))
        return wrapped(*args, **kwargs)

    with hookpatch.active(
        _wrap("Model.class_coroutine", reach, wrapper), _wrap("Model.static_generator", reach, wrapper)
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
    with hookpatch.active(_wrap("fail", reach)), pytest.raises(KeyError) as caught:
        module.fail()
    assert caught.value is module.error


# --- functions that do not run when they are called


@pytest.mark.parametrize("reach", REACHES)
def test_coroutine_function_gives_a_coroutine(kinds: ModuleType, reach: str) -> None:
    """The wrapper runs when the coroutine does, may await the original, and what it returns is the result."""
    ran: list[str] = []

    async def answer(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return "patched", await coroutine

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        ran.append("wrapper")
        return answer(wrapped(*args, **kwargs))

    with hookpatch.active(_wrap("coroutine", reach, wrapper)):
        coroutine = kinds.coroutine(1)
        assert inspect.iscoroutine(coroutine)
        assert ran == []
        assert asyncio.run(coroutine) == ("patched", 1)
    assert asyncio.run(kinds.coroutine(1)) == 1


@pytest.mark.parametrize("reach", REACHES)
def test_async_wrapper_of_a_coroutine_method(kinds: ModuleType, reach: str) -> None:
    """An async wrapper around an async method gets the bound method."""

    async def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        return "patched", instance, await wrapped(*args, **kwargs)

    model = kinds.Model()
    with hookpatch.active(_wrap("Model.coroutine", reach, wrapper)):
        assert asyncio.run(model.coroutine(5)) == ("patched", model, (model, 5))


def _drive(function: Callable[..., Generator[Any, Any, Any]]) -> list[Any]:
    """Send into a generator, throw into it, take its return value, close another."""
    running = function(3)
    out = [next(running), running.send("sent"), running.throw(KeyError("thrown"))]
    with pytest.raises(StopIteration) as ended:
        running.send("last")
    out.append(ended.value.value)
    other = function(3)
    next(other)
    other.close()
    with pytest.raises(StopIteration):
        next(other)
    third = function(3)
    next(third)
    with pytest.raises(ValueError, match="not caught"):
        third.throw(ValueError("not caught"))
    out.append(list(function()))
    return out


@pytest.mark.parametrize("reach", REACHES)
def test_generator_takes_send_throw_and_close(kinds: ModuleType, reach: str) -> None:
    """Values sent, errors thrown, the return value and closing pass through a patched generator."""
    before = _drive(kinds.generator)
    with hookpatch.active(_wrap("generator", reach)):
        assert _drive(kinds.generator) == before
        assert inspect.isgenerator(kinds.generator())
    assert _drive(kinds.generator) == before


async def _drive_async(function: Callable[..., AsyncGenerator[Any, Any]]) -> list[Any]:
    """Send, throw, close early and late, exhaust; return all that could be seen."""
    seen: list[Any] = []
    log: list[Any] = []
    running = function(log)
    seen += [await anext(running), await running.asend("sent"), await running.athrow(KeyError("thrown"))]
    with pytest.raises(StopAsyncIteration):
        await running.asend("last")
    seen.append(list(log))

    log.clear()
    closed = function(log)
    await anext(closed)
    await closed.aclose()
    await closed.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(closed)
    seen.append(list(log))

    log.clear()
    never = function(log)
    await never.aclose()
    seen.append(list(log))

    failing = function(log)
    await anext(failing)
    with pytest.raises(ValueError, match="not caught"):
        await failing.athrow(ValueError("not caught"))
    seen.append(list(log))

    early = function(log)
    with pytest.raises(TypeError) as refused:
        await early.asend("too early")
    seen.append(str(refused.value))
    with pytest.raises(KeyError, match="at once"):
        await early.athrow(KeyError("at once"))

    log.clear()
    seen.append([item async for item in function(log, n=4)])
    seen.append(list(log))
    return seen


@pytest.mark.parametrize("reach", REACHES)
def test_async_generator_takes_asend_athrow_and_aclose(kinds: ModuleType, reach: str) -> None:
    """Values sent, errors thrown, early and late closing pass through a patched async generator."""
    before = asyncio.run(_drive_async(kinds.async_generator))
    with hookpatch.active(_wrap("async_generator", reach)):
        assert asyncio.run(_drive_async(kinds.async_generator)) == before
        assert inspect.isasyncgen(kinds.async_generator([]))
    assert asyncio.run(_drive_async(kinds.async_generator)) == before


@pytest.mark.parametrize("reach", REACHES)
def test_async_generator_that_ignores_its_end_raises_as_before(make_module: MakeModule, reach: str) -> None:
    """An async generator that yields while it is closed is the RuntimeError that Python raises."""
    module = make_module(
        "functions",
        """
        async def stubborn():
            try:
                yield 1
            except GeneratorExit:
                yield 2
        """,
    )

    async def close() -> str:
        running = module.stubborn()
        await anext(running)
        with pytest.raises(RuntimeError) as caught:
            await running.aclose()
        return str(caught.value)

    before = asyncio.run(close())
    with hookpatch.active(_wrap("stubborn", reach)):
        assert asyncio.run(close()) == before


@pytest.mark.parametrize("reach", REACHES)
def test_wrapper_of_an_async_generator_may_be_one(kinds: ModuleType, reach: str) -> None:
    """A wrapper that is an async generator itself changes the items."""

    async def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> AsyncGenerator[Any, Any]:
        async for item in wrapped(*args, **kwargs):
            yield ("patched", item)

    async def items() -> list[Any]:
        return [item async for item in kinds.async_generator([], 2)]

    with hookpatch.active(_wrap("async_generator", reach, wrapper)):
        assert asyncio.run(items()) == [("patched", 0), ("patched", 1)]
    assert asyncio.run(items()) == [0, 1]


@pytest.mark.parametrize("reach", REACHES)
def test_coroutine_created_inside_works_after_the_end(kinds: ModuleType, reach: str) -> None:
    """A coroutine, generator or async generator made in the block and run after it gives the original's result."""
    with hookpatch.active(*(_wrap(name, reach, _around) for name in ("coroutine", "generator", "async_generator"))):
        coroutine, generator, async_generator = kinds.coroutine(1), kinds.generator(2), kinds.async_generator([], 2)

    async def items() -> list[Any]:
        return [item async for item in async_generator]

    assert asyncio.run(coroutine) == 1
    assert list(generator) == [0, 1]
    assert asyncio.run(items()) == [0, 1]


@pytest.mark.parametrize("reach", REACHES)
def test_generator_begun_inside_goes_on_after_the_end(kinds: ModuleType, reach: str) -> None:
    """A generator that has begun goes on where it was."""
    with hookpatch.active(_wrap("generator", reach)):
        running = kinds.generator(3)
        assert next(running) == 0
    assert running.send("after") == 1
    assert running.send("the end") == 2
    with pytest.raises(StopIteration) as ended:
        next(running)
    assert ended.value.value == ["after", "the end", None]


# --- after the end


def test_leaked_function_passes_through(kinds: ModuleType) -> None:
    """What stood in the slot and got into a variable calls the original after the end."""
    with hookpatch.active(_wrap("plain", "slot", _around)):
        leaked = kinds.plain
        assert leaked(1).startswith("patched(")
    assert leaked is not kinds.plain
    assert leaked(1) == (1, 2, (), 3.0, {})


def test_leaked_bound_method_passes_through(kinds: ModuleType) -> None:
    """A bound method taken in the block calls the original after the end."""
    model = kinds.Model()
    with hookpatch.active(_wrap("Model.named", "slot", _around)):
        leaked = model.named
        assert leaked() == "patched(model of base)"
    assert leaked() == "model of base"


def test_leaked_wrapped_passes_through(kinds: ModuleType) -> None:
    """What a wrapper was given as wrapped runs no inner patch after the end, of this session or another."""
    leaked: list[Callable[..., Any]] = []

    def outer(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
        leaked.append(wrapped)
        return wrapped(*args, **kwargs)

    with hookpatch.active(_wrap("inner", "slot", _around)):
        with hookpatch.active(_wrap("inner", "slot", outer), _wrap("inner", "slot", _around)):
            assert kinds.inner() == "patched(patched(11))"
            (wrapped,) = leaked
            assert wrapped() == "patched(patched(12))"
        assert wrapped() == "patched(13)"
    assert wrapped() == 14


def test_function_stays_the_same_object_while_layers_come_and_go(kinds: ModuleType) -> None:
    """A trampoline that somebody holds sees layers that are added and removed later."""
    first = hookpatch.active(_wrap("inner", "slot", _around)).open()
    held = kinds.inner
    second = hookpatch.active(_wrap("inner", "slot", _around)).open()
    assert kinds.inner is held
    assert held() == "patched(patched(11))"
    first.close()
    assert kinds.inner is held
    assert held() == "patched(12)"
    second.close()
    assert held() == 13


def test_functools_wraps_of_a_patched_function_outlives_the_patch(kinds: ModuleType) -> None:
    """A decorator that was put around the patched function in the block works after it, unpatched."""
    with hookpatch.active(_wrap("inner", "slot", _around)):

        @functools.wraps(kinds.inner)
        def decorated() -> Any:
            return held()

        held = kinds.inner
        assert decorated() == "patched(11)"
    assert decorated() == 12


# --- reach="everywhere": changed in place


@pytest.mark.parametrize("name", [*FUNCTIONS, "Model.coroutine", "Model.named", "Base.named"])
def test_function_changed_in_place_is_identical_afterwards(kinds: ModuleType, name: str) -> None:
    """Code, keyword defaults, closure and attributes are the identical objects; no attribute is left."""
    function: Any = kinds
    for step in name.split("."):
        function = getattr(function, step)
    before, attributes = _state(function), vars(function)
    with hookpatch.active(_wrap(name, "everywhere")):
        assert function.__code__ is not before["code"]
        assert vars(function) is attributes
    assert _same(before, _state(function))
    assert vars(function) is attributes


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_function_changed_in_place_by_several_sessions_is_identical_afterwards(
    kinds: ModuleType, order: tuple[int, ...]
) -> None:
    """Several sessions on one function, closed in any order, leave it as it was."""
    before = _state(kinds.inner)
    sessions = [hookpatch.active(_wrap("inner", "everywhere", _around)).open() for _ in range(3)]
    assert kinds.inner(step=0) == "patched(patched(patched(10)))"
    for left, at in enumerate(order):
        sessions[at].close()
        assert str(kinds.inner(step=0)) == "patched(" * (2 - left) + "10" + ")" * (2 - left)
    assert _same(before, _state(kinds.inner))


LOOKS: dict[str, Callable[[inspect.Signature], Any]] = {
    **{f.__name__: f for f in (str, repr, hash, pickle.dumps, copy.copy, copy.deepcopy)},
    "equal to": lambda signature: signature == inspect.Signature(),
    "that is equal": lambda signature: inspect.Signature() == signature,
    "parameters": lambda signature: [*signature.parameters],
    "returns": lambda signature: signature.return_annotation,
    "class": lambda signature: signature.__class__,
    "replace": lambda signature: signature.replace(parameters=[]),
    "bind": lambda signature: signature.bind(1, c=2.0),
}


@pytest.mark.parametrize("look", LOOKS)
def test_signature_is_a_plain_one_after_any_look(kinds: ModuleType, look: str) -> None:
    """What is read when somebody looks gives what the original's gives, and is of the standard library's own type."""
    before = LOOKS[look](inspect.signature(kinds.plain))
    with hookpatch.active(hookpatch.wrap("kinds:plain", _through)):
        signature = inspect.signature(kinds.plain)
        assert isinstance(signature, inspect.Signature)
        assert LOOKS[look](signature) == before
        assert type(signature) is inspect.Signature


def test_signature_is_read_by_many_threads_at_once(kinds: ModuleType) -> None:
    """Each of them finds it whole."""
    before = str(inspect.signature(kinds.plain))
    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            with hookpatch.active(hookpatch.wrap("kinds:plain", _through)):
                signature = inspect.signature(kinds.plain)
                assert {*pool.map(lambda _, signature=signature: str(signature), range(16))} == {before}


def test_own_signature_attribute_is_kept(kinds: ModuleType) -> None:
    """A __signature__ that somebody gave the function is the identical object during and after."""
    signature = inspect.Signature()
    kinds.plain.__signature__ = signature
    with hookpatch.active(_wrap("plain", "everywhere")):
        assert inspect.signature(kinds.plain) is signature
    assert vars(kinds.plain)["__signature__"] is signature


def test_names_bound_before_see_the_change(kinds: ModuleType, make_module: MakeModule) -> None:
    """An import, a registry, a default argument, a partial and a bound method of before see it, and see its end."""
    other = make_module(
        "importer",
        """
        import functools
        from functions import Model, inner, plain
        REGISTRY = {"inner": inner}
        PARTIAL = functools.partial(inner, step=0)
        def caller(call=inner):
            return call(step=0)
        bound = Model().named
        """,
    )

    def seen() -> list[Any]:
        return [
            other.inner(step=0),
            other.REGISTRY["inner"](step=0),
            other.PARTIAL(),
            other.caller(),
            other.bound(),
            kinds.inner(step=0),
        ]

    before = seen()
    with hookpatch.active(_wrap("inner", "everywhere", _around), _wrap("Model.named", "everywhere", _around)):
        assert seen() == [f"patched({value})" for value in before]
        assert other.inner is kinds.inner
    assert seen() == before


def test_closure_works_and_is_kept(kinds: ModuleType) -> None:
    """A function with free variables reads and writes them while patched."""
    cells = kinds.inner.__closure__
    with hookpatch.active(_wrap("inner", "everywhere", _around)):
        assert kinds.inner() == "patched(11)"
        assert kinds.inner.__closure__ is cells
    assert kinds.inner() == 12


def test_inherited_method_is_changed_where_it_is_defined(kinds: ModuleType) -> None:
    """reach="everywhere" on an inherited method changes the one function that there is; the class gets no attribute."""
    sub = type("Sub", (kinds.Base,), {})
    kinds.Sub = sub
    function = vars(kinds.Base)["named"]
    before = _state(function)
    with hookpatch.active(_wrap("Sub.named", "everywhere", _around)):
        assert sub().named() == kinds.Base().named() == "patched(base)"
        assert "named" not in vars(sub)
    assert _same(before, _state(function))


def test_slot_over_everywhere_and_its_end_in_either_order(kinds: ModuleType) -> None:
    """A patch of the slot over one of the function itself: both take effect, each ends alone, all is as it was."""
    for order in ((0, 1), (1, 0)):
        function, before = kinds.inner, _state(kinds.inner)
        sessions = [
            hookpatch.active(_wrap("inner", "everywhere", lambda w, i, a, k: ("inside", w(*a, **k)))).open(),
            hookpatch.active(_wrap("inner", "slot", lambda w, i, a, k: ("outside", w(*a, **k)))).open(),
        ]
        assert kinds.inner(step=0) == ("outside", ("inside", 10))
        assert function(step=0) == ("inside", 10)
        sessions[order[0]].close()
        assert kinds.inner(step=0) == (("outside", 10) if order[0] == 0 else ("inside", 10))
        sessions[order[1]].close()
        assert kinds.inner is function
        assert _same(before, _state(function))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_everywhere_over_slot_and_its_end_in_either_order(kinds: ModuleType, order: tuple[int, int]) -> None:
    """A patch of the function itself, opened over one of the slot, reaches names bound before both, and outlives it."""
    function, before = kinds.inner, _state(kinds.inner)
    sessions = [
        hookpatch.active(_wrap("inner", "slot", lambda w, i, a, k: ("slot", w(*a, **k)))).open(),
        hookpatch.active(_wrap("inner", "everywhere", lambda w, i, a, k: ("everywhere", w(*a, **k)))).open(),
    ]
    assert kinds.inner(step=0) == ("slot", ("everywhere", 10))
    assert function(step=0) == ("everywhere", 10)
    sessions[order[0]].close()
    assert kinds.inner(step=0) == (("everywhere", 10) if order[0] == 0 else ("slot", 10))
    assert function(step=0) == (("everywhere", 10) if order[0] == 0 else 10)
    sessions[order[1]].close()
    assert kinds.inner is function
    assert _same(before, _state(function))


def test_arguments_are_injected_everywhere(kinds: ModuleType) -> None:
    """inject reaches a function under every name; its own defaults stay as they are."""
    alias, before = kinds.plain, _state(kinds.plain)
    with hookpatch.active(hookpatch.inject("functions:plain", b=7, c=8.0, reach="everywhere")):
        assert alias(0) == kinds.plain(0, 5, c=6.0) == (0, 7, (), 8.0, {})
    assert _same(before, _state(alias))


# --- pickle, by reference


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("name", ["plain", "coroutine", "generator"])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_patched_function_pickles_by_reference(kinds: ModuleType, name: str, reach: str, protocol: int) -> None:
    """A pickle made in the block holds the name: it loads what stands there, patched inside, original outside."""
    original = getattr(kinds, name)
    with hookpatch.active(_wrap(name, reach)):
        data = pickle.dumps(getattr(kinds, name), protocol)
        assert pickle.loads(data) is getattr(kinds, name)
    assert pickle.loads(data) is original
    assert data == pickle.dumps(original, protocol)


@pytest.mark.parametrize("reach", REACHES)
def test_bound_method_of_a_patched_function_pickles(kinds: ModuleType, reach: str) -> None:
    """A bound method made in the block loads as that method of the copied object."""
    with hookpatch.active(_wrap("Model.named", reach, _around)):
        data = pickle.dumps(kinds.Model().named)
        assert pickle.loads(data)() == "patched(model of base)"
    assert pickle.loads(data)() == "model of base"


def test_pickle_loads_in_a_process_without_hookpatch(kinds: ModuleType) -> None:
    """A pickle of a patched function needs nothing of hookpatch where it is loaded."""
    with hookpatch.active(_wrap("generator", "slot")):
        data = pickle.dumps(kinds.generator)
    code = (
        f"import pickle, sys; sys.path.insert(0, {str(kinds.__file__).rpartition('/')[0]!r}); "
        f"print(list(pickle.loads({data!r})())); assert not any(name.startswith('hookpatch.') for name in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[0, 1]\n", "")


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_restored_descriptor_is_the_identical_one(kind: type, make_module: MakeModule) -> None:
    """The static or class method object itself comes back, not a new one around the same function."""
    module = make_module("described", f"class C:\n    @{kind.__name__}\n    def f(*a):\n        return len(a)\n")
    before = vars(module.C)["f"]
    with hookpatch.active(hookpatch.wrap(Target.attribute(module.C, "f"), _through)):
        assert type(vars(module.C)["f"]) is kind
        assert vars(module.C)["f"] is not before
    assert vars(module.C)["f"] is before


# --- what is awaited, and ways to call a method


@pytest.mark.parametrize("reach", REACHES)
def test_generator_that_is_a_coroutine_can_be_awaited(make_module: MakeModule, reach: str) -> None:
    """What types.coroutine made awaitable can be awaited while it is patched."""
    module = make_module(
        "functions",
        """
        import types
        @types.coroutine
        def awaitable():
            yield
            return 5
        """,
    )

    async def main() -> Any:
        return await module.awaitable()

    with hookpatch.active(_wrap("awaitable", reach)):
        assert asyncio.run(main()) == 5
        assert inspect.isawaitable(module.awaitable())
    assert asyncio.run(main()) == 5


def test_inherited_method_called_without_its_object_raises_as_before(kinds: ModuleType) -> None:
    """Sub.named() of a class that inherits it is the TypeError of before, with its text."""
    kinds.Sub = type("Sub", (kinds.Base,), {})
    with pytest.raises(TypeError) as before:
        kinds.Sub.named()
    with hookpatch.active(_wrap("Sub.named", "slot", _around)), pytest.raises(TypeError) as caught:
        kinds.Sub.named()
    assert str(caught.value) == str(before.value)


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("owner", ["Base", "Sub"])
def test_method_takes_its_object_by_keyword(kinds: ModuleType, owner: str, reach: str) -> None:
    """Base.named(self=object) runs the patch with that object, the class's own method or an inherited one."""
    kinds.Sub = type("Sub", (kinds.Base,), {})
    klass = getattr(kinds, owner)
    model, got = klass(), []

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        got.append((instance, args, kwargs))
        return wrapped(*args, **kwargs)

    with hookpatch.active(_wrap(f"{owner}.named", reach, wrapper)):
        assert klass.named(self=model) == "base"
    assert got == [(model, (), {})]


def test_inherited_method_called_on_something_else(kinds: ModuleType) -> None:
    """A method called as a plain function, with an object that is none of the class, calls what is inherited."""
    kinds.Sub = type("Sub", (kinds.Base,), {})
    with hookpatch.active(_wrap("Sub.named", "slot", _around)):
        assert kinds.Sub.named(3) == "patched(base)"


def test_slot_over_everywhere_shows_the_keyword_defaults_of_the_original(kinds: ModuleType) -> None:
    """What lies over a function that is changed in place shows no argument of ours."""
    before = kinds.plain.__kwdefaults__
    with hookpatch.active(_wrap("plain", "everywhere")), hookpatch.active(_wrap("plain", "slot")):
        assert kinds.plain.__kwdefaults__ == {"c": 3.0}
    assert kinds.plain.__kwdefaults__ is before


@pytest.mark.model
@pytest.mark.parametrize("name", ["helper", "of_class", "static"])
def test_patched_method_is_traced_by_torch_without_a_graph_break(name: str) -> None:
    """torch.compile sees through what stands in the slot: one graph, with the patch in it."""
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
            found: torch.Tensor = getattr(self, name)(x)
            return found

    def hundredfold(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs) * 100

    torch._dynamo.reset()
    with hookpatch.active(hookpatch.wrap(Target.attribute(Model, name), hundredfold)):
        compiled = torch.compile(Model(), backend="eager", fullgraph=True)
        assert compiled(torch.ones(1)).item() == 200
    torch._dynamo.reset()
