"""Compiled code follows a patch in any holder of a called or read value."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch import Patch, Target

SOURCE: Final = """
import functools, torch
from torch import nn

CONSTANT = 2.0

def act(x): return x * 2
def defaulted(x, f=act): return f(x)
def defaulted_by_key(x, *, f=act): return f(x)
def defaulted_to_c(x, f=torch.neg): return f(x) * -2
partial = functools.partial(torch.mul, other=2.0)
compiled = torch.compile(lambda x: x * 2, backend="eager")
def steps(x):
    yield x
    yield x

def enclosing():
    f = torch.neg
    def enclosed(x): return f(x) * -2
    return enclosed
enclosed = enclosing()

def with_cells_named_as_ours():
    wrapper = below = args = kwargs = bind = instance = first = tail = 0.25
    def in_cells(x): return x * (wrapper + below + args + kwargs + bind + instance + first + tail)
    return in_cells
in_cells = with_cells_named_as_ours()

class Plain:
    def run(self, x): return x * 2
    def steps(self, x): yield from steps(x)
class Sub(Plain): pass
bound = Plain().run

class Part(nn.Module):
    def forward(self, x): return x * 2
class Base(nn.Module):
    def inherited(self, x): return x * 2

class Net(Base):
    SCALE = 2.0
    REGISTRY = {"act": act}
    PAIR = (act, 3)

    def __init__(self):
        super().__init__()
        self.part, self.function, self.functions = Part(), act, [act]

    @property
    def scale(self): return 2.0

    def forward(self, x, way):
        return getattr(self, way)(x)

    def class_constant(self, x): return x * self.SCALE
    def class_registry(self, x): return self.REGISTRY["act"](x)
    def class_tuple(self, x): return self.PAIR[0](x)
    def default(self, x): return defaulted(x)
    def keyword_default(self, x): return defaulted_by_key(x)
    def default_of_c(self, x): return defaulted_to_c(x)
    def partial(self, x): return partial(x)
    def closure(self, x): return enclosed(x)
    def cells(self, x): return in_cells(x)
    def compiled_function(self, x): return compiled(x)
    def generator(self, x): return sum(steps(x))
    def method_generator(self, x): return sum(Plain().steps(x))
    def constant(self, x): return x * CONSTANT
    def bound_method(self, x): return bound(x)
    def inherited_method(self, x): return Sub().run(x)
    def instance_function(self, x): return self.function(x)
    def instance_list(self, x): return self.functions[0](x)
    def property(self, x): return x * self.scale
    def submodule(self, x): return self.part(x)
    def of_base(self, x): return self.inherited(x)
"""

_numbers: Final = itertools.count()


def _tenfold(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return wrapped(*args, **kwargs) * 10


def _tenfold_before(
    wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    return wrapped(args[0] * 10, **kwargs)


# Each makes a patch from the model at hand and the name of its module.
Make = Callable[[Any, str], Patch]


def _wrap(target: str) -> Make:
    return lambda net, name: hookpatch.wrap(target.format(name), _tenfold)


def _everywhere(target: str) -> Make:
    return lambda net, name: hookpatch.wrap(target.format(name), _tenfold, reach="everywhere")


def _of_generator(target: str, reach: Any) -> Make:
    return lambda net, name: hookpatch.wrap(target.format(name), _tenfold_before, reach=reach)


def _replace(target: str, value: Any) -> Make:
    return lambda net, name: hookpatch.replace(target.format(name), value)


WAYS: Final[list[tuple[str, Make]]] = [
    ("class_constant", _replace("{}:Net.SCALE", 20.0)),
    ("class_registry", _wrap("{}:Net.REGISTRY['act']")),
    ("class_registry", _everywhere("{}:act")),
    ("class_tuple", _everywhere("{}:act")),
    ("default", _everywhere("{}:act")),
    ("keyword_default", _everywhere("{}:act")),
    ("default_of_c", _everywhere("torch:neg")),
    ("partial", _everywhere("torch:mul")),
    ("closure", _everywhere("torch:neg")),
    ("cells", _everywhere("{}:in_cells")),
    ("compiled_function", _wrap("{}:compiled")),
    *(("generator", _of_generator("{}:steps", reach)) for reach in ("slot", "everywhere")),
    *(("method_generator", _of_generator("{}:Plain.steps", reach)) for reach in ("slot", "everywhere")),
    ("constant", _replace("{}:CONSTANT", 20.0)),
    ("bound_method", _everywhere("{}:Plain.run")),
    ("inherited_method", _wrap("{}:Plain.run")),
    ("inherited_method", _wrap("{}:Sub.run")),
    ("instance_function", lambda net, name: hookpatch.wrap(Target.attribute(net, "function"), _tenfold)),
    ("instance_list", lambda net, name: hookpatch.wrap(Target.item(net.functions, 0), _tenfold)),
    ("property", _replace("{}:Net.scale", property(lambda self: 20.0))),
    ("submodule", lambda net, name: hookpatch.wrap(Target.attribute(net.part, "forward"), _tenfold)),
    ("submodule", _wrap("{}:Part.forward")),
    ("of_base", _wrap("{}:Base.inherited")),
    ("of_base", _wrap("{}:Net.inherited")),
]


@pytest.mark.model
@pytest.mark.parametrize(("way", "make"), WAYS, ids=[f"{way}-{number}" for number, (way, _) in enumerate(WAYS)])
def test_compiled_code_follows(make_module: Callable[[str, str], ModuleType], way: str, make: Make) -> None:
    """Compiled before and called inside, inside and called inside, and both called after."""
    import torch

    name = f"compiled_vendor{next(_numbers)}"  # a new name: Dynamo keeps the first module under a name
    net = make_module(name, SOURCE).Net()
    x = torch.ones(1)
    torch._dynamo.reset()
    before = torch.compile(net, backend="aot_eager", fullgraph=True)
    assert before(x, way).item() == 2
    with hookpatch.active(make(net, name)):
        inside = torch.compile(net, backend="aot_eager", fullgraph=True)
        assert (net(x, way).item(), before(x, way).item(), inside(x, way).item()) == (20, 20, 20)
    assert (net(x, way).item(), before(x, way).item(), inside(x, way).item()) == (2, 2, 2)
    torch._dynamo.reset()


@pytest.mark.model
def test_compiled_function_that_is_changed_in_place(make_module: Callable[[str, str], ModuleType]) -> None:
    """Dynamo calls a function changed in place in Python, or refuses a full graph."""
    import torch

    name = f"compiled_vendor{next(_numbers)}"
    net = make_module(name, SOURCE).Net()
    x = torch.ones(1)
    before = dict(vars(vars(sys.modules[name])["compiled"]))
    with hookpatch.active(hookpatch.wrap(f"{name}:compiled", _tenfold, reach="everywhere")):
        torch._dynamo.reset()
        assert torch.compile(net, backend="eager")(x, "compiled_function").item() == 20
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.Unsupported):
            torch.compile(net, backend="eager", fullgraph=True)(x, "compiled_function")
    assert list(vars(vars(sys.modules[name])["compiled"]).items()) == list(before.items())
    torch._dynamo.reset()
    assert torch.compile(net, backend="eager", fullgraph=True)(x, "compiled_function").item() == 2
    torch._dynamo.reset()
