"""Stand-ins: the object in a patched slot looks like the original, and a traceback names the plugin."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import gc
import inspect
import linecache
import sys
import textwrap
import traceback
import types
import typing
import warnings
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch import Patch

KINDS = ["plain", "coroutine", "generator", "async_generator"]
ADDRESSES = [*KINDS, *(f"Model.{holder}_{kind}" for holder in ("own", "static", "class") for kind in KINDS)]
REACHES = ["slot", "everywhere"]


def _functions(prefix: str, decorator: str, first: str) -> str:
    """Return the text of a function of each kind."""
    return "\n".join(
        f"{decorator}{'async ' if kind[0] in 'ca' else ''}def {prefix}{kind}"
        f"({first}a: Marker = 1, b: int = 2, *, c: float = 3.0) -> list[Marker]:\n"
        f'    """What {prefix}{kind} does."""\n'
        f"    {'yield' if 'generator' in kind else 'return'} 'result'\n"
        for kind in KINDS
    )


METHODS = _functions("own_", "", "self, ") + _functions("static_", "@staticmethod\n", "")
METHODS += _functions("class_", "@classmethod\n", "cls, ")
SOURCE = f'''
from __future__ import annotations

import contextlib
import functools
import inspect
from math import sqrt

class Marker:
    pass

{_functions("", "", "")}
class Model:
{textwrap.indent(METHODS, "    ")}
class Sub(Model):
    pass

@contextlib.contextmanager
def decorated(a: Marker, b: int = 2):
    """What decorated does."""
    yield a

@functools.singledispatch
def dispatcher(value: object) -> str:
    """What dispatcher does."""
    return "object"

@dispatcher.register
def of_int(value: int) -> str:
    return "int"

@functools.lru_cache
def cached(n: int) -> int:
    """What cached does."""
    return n

partial = functools.partial(int, base=2)
calls = []

@getattr(inspect, "markcoroutinefunction", lambda function: function)  # new in Python 3.12
def marked():
    calls.append("called")
    return coroutine()
'''


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    """Make a module with functions of every kind, alone and in a class, and other callables."""
    return make_module("vendor", SOURCE)


def _through(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def _around(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    return "patched", wrapped(*args, **kwargs)


def _wrap(address: str, reach: str = "slot", wrapper: Any = _through) -> Patch:
    return hookpatch.wrap(f"vendor:{address}", wrapper, reach=reach)  # type: ignore[arg-type]  # parametrized


def _found(owner: Any, address: str) -> Any:
    for name in address.split("."):
        owner = getattr(owner, name)
    return owner


# --- questions

NAMES = ["name", "qualname", "module", "doc", "defaults", "annotations", "text_signature", "self", "wrapped"]
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    **{f"__{name}__": lambda target, name=name: getattr(target, f"__{name}__") for name in NAMES},
    # In place a function has a further keyword default, with the trampoline.
    "__kwdefaults__": lambda target: {**(target.__kwdefaults__ or {}), "__hookpatch__": None},
    # By name: torch.package replaces inspect.getfile.
    **{
        f"{module.__name__}.{name}": getattr(module, name)
        for module, names in {
            inspect: "signature getfullargspec getdoc getmodule getsource getsourcelines getsourcefile getfile "
            "getcomments iscoroutinefunction isgeneratorfunction isasyncgenfunction isfunction ismethod isbuiltin "
            "isclass isroutine ismethoddescriptor",
            typing: "get_type_hints",
            asyncio: "iscoroutinefunction" if sys.version_info < (3, 14) else "",  # deprecated there
            builtins: "callable",
        }.items()
        for name in names.split()
    },
    **{
        f"isinstance {kind.__name__}": lambda target, kind=kind: isinstance(target, kind)
        for kind in (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type, partial, Callable)
    },
    "place of the code": lambda target: (target.__code__.co_filename, target.__code__.co_firstlineno),
    "is a key": lambda target: {target: "value"}[target],
}


def _answers(*targets: Any) -> dict[str, list[Any]]:
    def ask(question: Callable[[Any], Any], target: Any) -> Any:
        try:
            return question(target)
        except (TypeError, ValueError, AttributeError, OSError) as error:
            return type(error)

    return {name: [ask(question, target) for target in targets] for name, question in QUESTIONS.items()}


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("address", [*ADDRESSES, *(name.replace("Model", "Sub") for name in ADDRESSES[4:])])
def test_function_answers_as_the_original(vendor: ModuleType, address: str, reach: str) -> None:
    """A patched function answers every question as before, found on the class and on an object; and after the end."""
    on_an_object = types.SimpleNamespace(Model=vendor.Model(), Sub=vendor.Sub(), **dict.fromkeys(KINDS))

    def answers() -> dict[str, list[Any]]:
        return _answers(_found(vendor, address), _found(on_an_object, address))

    before = answers()
    assert f"def {address.rpartition('.')[2]}(" in before["inspect.getsource"][0]
    with hookpatch.active(_wrap(address, reach)):
        assert answers() == before
    assert answers() == before


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("address", ["decorated", "dispatcher"])
def test_decorated_function_answers_as_the_original(vendor: ModuleType, address: str, reach: str) -> None:
    """Text, signature and type hints are the inner function's, though no attribute leads past the patch."""
    # The decorator's code lies in another file and takes any argument.
    names = {"place of the code", "inspect.getfile", "inspect.getsourcefile", "inspect.getfullargspec", "__wrapped__"}

    def answers() -> dict[str, Any]:
        return {name: answer for name, answer in _answers(_found(vendor, address)).items() if name not in names}

    before = answers()
    assert f"def {address}(" in before["inspect.getsource"][0]
    with hookpatch.active(_wrap(address, reach)):
        assert answers() == before


@pytest.mark.parametrize("address", ["sqrt", "partial", "cached", "Model"])
def test_what_is_no_python_function_answers_as_the_original(vendor: ModuleType, address: str) -> None:
    """A C function, a partial, a cached function and a class answer as before; hash and equality find them in a set."""
    original, before = _found(vendor, address), _answers(_found(vendor, address))
    with hookpatch.active(_wrap(address)):
        standing = _found(vendor, address)
        assert standing is not original
        assert (standing, hash(standing)) == (original, hash(original))
        wrapts = {
            "__wrapped__": [],
            "inspect.ismethoddescriptor": [],
            "inspect.isroutine": [],
        }  # attributes of the type
        assert {**_answers(standing), **wrapts} == {**before, **wrapts}


def test_source_is_read_from_the_files_that_there_are(vendor: ModuleType) -> None:
    """Showing the source puts only the original's file into linecache."""
    with hookpatch.active(_wrap("plain"), _wrap("coroutine", "everywhere")):
        linecache.clearcache()
        assert inspect.getsource(vendor.plain) + "\n" + inspect.getsource(vendor.coroutine) in SOURCE
    assert list(linecache.cache) == [vendor.__file__]


@pytest.mark.parametrize("reach", REACHES)
def test_function_that_is_marked_as_a_coroutine_function_runs_when_it_is_called(vendor: ModuleType, reach: str) -> None:
    """A function marked as a coroutine function runs at the call, not at the await."""
    before = inspect.iscoroutinefunction(vendor.marked)
    with hookpatch.active(_wrap("marked", reach)):
        coroutine = vendor.marked()
        assert vendor.calls == ["called"]
        assert asyncio.run(coroutine) == "result"
        assert inspect.iscoroutinefunction(vendor.marked) is before


@pytest.mark.parametrize("address", [*KINDS, "Model.own_plain", "sqrt", "Model"])
def test_what_stood_is_freed_after_the_end(vendor: ModuleType, address: str) -> None:
    """A stand-in takes weak references, and dies after the session's end."""
    with hookpatch.active(_wrap(address)):
        standing = weakref.ref(_found(vendor, address))
        assert standing() is _found(vendor, address)
    gc.collect()
    assert standing() is None


# --- functools.singledispatch


@pytest.mark.parametrize("reach", REACHES)
def test_patched_dispatcher_dispatches(vendor: ModuleType, reach: str) -> None:
    """A patched dispatcher finds and registers implementations, inside and after."""
    original, registry = vendor.dispatcher, vendor.dispatcher.registry
    with hookpatch.active(_wrap("dispatcher", reach, _around)):
        vendor.dispatcher.register(str, lambda value: "str")
        assert [vendor.dispatcher(value) for value in (1, "", None)] == [
            ("patched", name) for name in ("int", "str", "object")
        ]
        assert vendor.dispatcher.dispatch(bool) is vendor.of_int
        assert vendor.dispatcher.registry is registry
    assert vendor.dispatcher is original
    assert [vendor.dispatcher(value) for value in (1, "", None)] == ["int", "str", "object"]


@pytest.mark.parametrize("reach", REACHES)
def test_patched_function_is_registered_with_a_dispatcher(vendor: ModuleType, reach: str) -> None:
    """A function registered by annotation stays registered after the end, and passes through."""
    with hookpatch.active(_wrap("of_int", reach, _around)):
        assert vendor.dispatcher.register(vendor.of_int) is vendor.of_int
        assert vendor.dispatcher.dispatch(int) is vendor.of_int
        assert vendor.dispatcher(1) == ("patched", "int")
    assert vendor.dispatcher(1) == "int"


# --- tracebacks

# How to call, and the name of the frame.
FAILING = {
    "plain": ("plain", lambda m: m.plain()),
    "coroutine": ("coroutine", lambda m: asyncio.run(m.coroutine())),
    "generator": ("generator", lambda m: list(m.generator())),
    "async_generator": ("async_generator", lambda m: asyncio.run(anext(m.async_generator()))),
    "Model.own_plain": ("own_plain", lambda m: m.Model().own_plain()),
    "Model.class_coroutine": ("class_coroutine", lambda m: asyncio.run(m.Model.class_coroutine())),
    "sqrt": ("vendor:sqrt", lambda m: m.sqrt(4)),
    "Model": ("vendor:Model", lambda m: m.Model()),
}
PLUGIN = """
    import hookpatch
    def fail(wrapped, instance, args, kwargs):
        raise ValueError("boom")
    @hookpatch.hookimpl
    def hookpatch_patches():
        return [hookpatch.wrap("vendor:{}", fail, reach="{}")]
"""


@pytest.mark.parametrize(
    ("address", "reach"), [*((name, "slot") for name in FAILING), *((name, "everywhere") for name in [*FAILING][:6])]
)
def test_traceback_of_an_error_in_a_wrapper_names_its_plugin(
    vendor: ModuleType, make_distribution: Callable[..., Path], address: str, reach: str
) -> None:
    """The traceback has a frame with the owner for each layer, in the original's place; the error is unchanged."""
    name, call = FAILING[address]
    place = [QUESTIONS["place of the code"](_found(vendor, address))] * 2 if ":" not in name else []
    make_distribution("fuse-dist", "1.5", {"fuse_x": "plugin_x"}, {"plugin_x": PLUGIN.format(address, reach)})
    with hookpatch.active(_wrap(address, reach), "fuse_x"), pytest.raises(ValueError, match="boom") as caught:
        call(vendor)
    frames = traceback.extract_tb(caught.value.__traceback__)
    named = [frame for frame in frames if "hookpatch: " in frame.name]
    assert [frame.name for frame in named] == [
        f"{name} [hookpatch: a patch given to active()]",
        f"{name} [hookpatch: plugin 'fuse_x' from fuse-dist 1.5]",
    ]
    assert [(frame.filename, frame.lineno) for frame in named if ":" not in name] == place
    assert frames[-1].name == "fail"
    assert not hasattr(caught.value, "__notes__")


def test_traceback_of_what_passes_through_names_nobody(vendor: ModuleType) -> None:
    """After the end the frame has the original's name alone."""
    with hookpatch.active(_wrap("plain")):
        leaked = vendor.plain
    with pytest.raises(TypeError) as caught:
        leaked(1, 2, 3)
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][1:] == ["plain", "pass_through"]


# --- torch


@pytest.mark.model
def test_patched_function_is_traced_by_torch_and_traced_anew(make_module: Callable[[str, str], ModuleType]) -> None:
    """torch traces a patched function without a graph break, and anew after each change of layers."""
    import torch

    vendor = make_module("vendor", "def plain(x):\n    return x + 1\n")
    results: list[float] = []
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: results.append(vendor.plain(x)), backend="eager", fullgraph=True)

    @contextlib.contextmanager
    def patched(factor: int) -> Iterator[None]:
        with hookpatch.active(_wrap("plain", "slot", lambda w, i, a, k: w(*a, **k) * factor)):
            compiled(torch.ones(1))
            yield
            compiled(torch.ones(1))

    with patched(10), patched(3):
        compiled(torch.ones(1))
    compiled(torch.ones(1))
    torch._dynamo.reset()
    assert [result.item() for result in results] == [20, 60, 60, 60, 20, 2]


@pytest.mark.model
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_torchscript_is_right_or_loud(make_module: Callable[[str, str], ModuleType], reach: Any) -> None:
    """TorchScript compiles source without the patch: a patched function is called in Python, or refused."""
    import torch

    vendor = make_module(
        "scripted",
        """
        import torch
        def f(x: torch.Tensor) -> torch.Tensor: return x + 1
        def caller(x: torch.Tensor) -> torch.Tensor: return f(x) * 2
        class Model(torch.nn.Module):
            def helper(self, x: torch.Tensor) -> torch.Tensor: return x + 1
            def forward(self, x: torch.Tensor) -> torch.Tensor: return self.helper(x) * 2
        """,
    )

    def more(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs) + 100

    x = torch.zeros(())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch.jit.script itself is deprecated
        with hookpatch.active(hookpatch.wrap("scripted:f", more, reach=reach)):
            assert torch.jit.script(vendor.caller)(x) == 202
            scripted = torch.jit.script(vendor.f)
            assert scripted(x) == 101
        assert scripted(x) == 1
        with hookpatch.active(hookpatch.wrap("scripted:Model.helper", more, reach=reach)):
            assert torch.jit.script(vendor.Model())(x) == 202
        with hookpatch.active(hookpatch.wrap("scripted:Model.forward", more, reach=reach)):
            scripted = torch.jit.script(vendor.Model())
            assert scripted(x) == 102
        assert scripted(x) == 2
        assert torch.jit.script(vendor.f)(x) == 1
    assert vars(vendor.f) == vars(vendor.Model.helper) == {}
