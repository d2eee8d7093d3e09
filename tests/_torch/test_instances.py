"""Patches of the parts of a made torch model: forwards, values and whole submodules, eager and in torch's captures."""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Callable
from types import MethodType, ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import PatchError, TargetNotFound, TargetRefused
from hookpatch.testing import effect, pristine

pytestmark = [pytest.mark.model, pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]

VENDOR: Final = """
    import torch
    from torch import nn

    class Norm(nn.Module):
        def __init__(self, size: int = 4, eps: float = 1e-6):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(size))
            self.eps = eps

        def forward(self, x: torch.Tensor, by: float = 1.0) -> torch.Tensor:
            return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * by

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.norm = Norm()
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())])
            self.again = self.first

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.norm(self.first(x))
            for layer in self.layers:
                x = layer(x)
            return self.again(x)

    class Wider(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base
            self.down = nn.Linear(base.in_features, 2, bias=False)
            self.up = nn.Linear(2, base.out_features, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.base(x) + self.up(self.down(x))

    class Higher(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.base(x) + 1.0

    torch.manual_seed(0)
    model = Model().eval()
    """
_numbers: Final = itertools.count()


def plus(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs) + 1


def faster(self: Any, x: Any, by: float = 1.0) -> Any:
    return self.weight * x + 5.0


def derived(original: Any) -> Any:
    def forward(self: Any, x: Any, by: float = 1.0) -> Any:
        return original(self, x, by) + 2.0

    return forward


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    # A new name each time: Dynamo keeps traced modules by their names.
    return make_module(f"model_{next(_numbers)}", VENDOR)


PATCHES: Final[dict[str, Callable[[str, Any], Any]]] = {
    "wrap": lambda v, model: hookpatch.wrap(f"{v}:Norm().forward", plus),
    "wrap, subclasses": lambda v, model: hookpatch.wrap(f"{v}:Norm+().forward", plus),
    "inject": lambda v, model: hookpatch.inject(f"{v}:Norm().forward", by=3.0),
    "default": lambda v, model: hookpatch.default(f"{v}:Norm().forward", by=3.0),
    "replace": lambda v, model: hookpatch.replace(f"{v}:Norm().forward", faster),
    "derive": lambda v, model: hookpatch.derive(f"{v}:Norm().forward", derived),
    "wrap, of=": lambda v, model: hookpatch.wrap(f"{v}:Norm().forward", plus, of=model),
    "replace, of=": lambda v, model: hookpatch.replace(f"{v}:Norm().forward", faster, of=model),
    "a value": lambda v, model: hookpatch.replace(f"{v}:Norm().eps", 2.0),
    "a value, of=": lambda v, model: hookpatch.replace(f"{v}:Norm().eps", 2.0, of=model),
    "the model's forward": lambda v, model: hookpatch.wrap(f"{v}:Model().forward", plus),
    "submodules": lambda v, model: hookpatch.derive("torch.nn:Linear()", sys.modules[v].Higher, of=model),
}
QUICK: Final = {("replace, of=", False), ("a value, of=", False), ("submodules", False), ("wrap, subclasses", True)}


@pytest.mark.parametrize(
    ("case", "own"),
    [
        pytest.param(case, own, marks=[] if (case, own) in QUICK else [pytest.mark.ends])
        for case in PATCHES
        for own in (False, True)
        if not (own and case in ("a value", "a value, of=", "submodules"))
    ],
)
def test_no_capture_is_silent(vendor: ModuleType, case: str, own: bool) -> None:
    """Capture before, inside or after, with the class's forward and with the instance's own forward."""
    import torch

    model = vendor.model
    if own:
        part = model if case == "the model's forward" else model.norm
        part.forward = MethodType(type(part).forward, part)
    patch = PATCHES[case](vendor.__name__, model)
    modes = ["eager", "compile", "compile fullgraph", "export", "export strict", "jit.trace", "jit.script", "fx"]
    attributes = dict(vars(model.norm))
    with pristine(model._modules, model.norm._modules):  # torch leaves marks in models and classes
        result = effect(model, torch.randn(2, 4), what=patch, modes=modes)
    assert {name: vars(model.norm)[name] for name in attributes} == attributes
    result.check()
    assert {cell.mode for cell in result.cells if cell.state == "loud"} <= {"jit.script"}


def test_submodules_are_exchanged_where_they_hang(vendor: ModuleType) -> None:
    """Each parent, list and sequence has the new one; a shared module becomes one; the end restores the model."""
    import torch

    model, x = vendor.model, torch.randn(2, 4)
    copied = copy.deepcopy(model)
    before, names, parts = model(x), [*model.state_dict()], [(name, id(part)) for name, part in model.named_modules()]
    patch = hookpatch.derive("torch.nn:Linear()", vendor.Wider, of=model)
    with hookpatch.active(patch, children="local") as session:
        assert [type(part) for part in (model.first, model.layers[0], model.layers[1][0])] == [vendor.Wider] * 3
        assert model.again is model.first
        assert [name for name, _ in model.named_children()] == ["first", "norm", "layers"]
        assert list(model._modules) == ["first", "norm", "layers", "again"]
        assert not torch.equal(model(x), before)
        assert torch.equal(copied(x), before)
        [row] = session.report()
        assert (row.state, row.instances) == ("applied", "3 exchanged in 4 places")
    assert torch.equal(model(x), before)
    assert [*model.state_dict()] == names
    assert [(name, id(part)) for name, part in model.named_modules()] == parts
    assert [row.state for row in session.report()] == ["restored"]


def test_parts_of_one_model(vendor: ModuleType) -> None:
    """of= takes an object or its address: other models and copies are left alone; sessions end in any order."""
    import torch

    model, x = vendor.model, torch.randn(2, 4)
    copied = copy.deepcopy(model)
    before = model(x)
    first = hookpatch.active(
        hookpatch.wrap(f"{vendor.__name__}:Norm().forward", plus, of=model), children="local"
    ).open()
    second = hookpatch.active(
        hookpatch.replace(f"{vendor.__name__}:Norm().eps", 2.0, of=f"{vendor.__name__}:model"), children="local"
    ).open()
    assert [row.instances for row in (*first.report(), *second.report())] == ["1 alive"] * 2
    assert (model.norm.eps, copied.norm.eps, copy.deepcopy(model).norm.eps) == (2.0, 1e-6, 1e-6)
    assert torch.equal(copied(x), before)
    assert not torch.equal(model(x), before)
    first.close()
    assert not torch.equal(model(x), before)
    second.close()
    assert torch.equal(model(x), before)


def test_the_whole_may_come_later(write_module: Callable[[str, str], object]) -> None:
    """of= with an address waits for the address's module, too."""
    import textwrap

    name = f"model_{next(_numbers)}"
    write_module(name, textwrap.dedent(VENDOR))
    write_module(f"{name}_user", f"import {name}\nmodel = {name}.Model()\n")
    patch = hookpatch.replace(f"{name}:Norm().eps", 2.0, of=f"{name}_user:model")
    with hookpatch.active(patch, children="local") as session:
        vendor = __import__(name)
        assert [(row.state, row.reason) for row in session.report()] == [
            ("waiting", f"of= is in {name}_user, which is not imported")
        ]
        user = __import__(f"{name}_user")
        assert (user.model.norm.eps, vendor.model.norm.eps) == (2.0, 1e-6)
        assert [row.state for row in session.report()] == ["applied"]
    assert user.model.norm.eps == 1e-6


def test_parts_of_anything(make_module: Callable[[str, str], ModuleType]) -> None:
    """Parts are reached through attributes and containers, not through classes or modules."""
    vendor = make_module(
        "shelf",
        "class Book:\n    pages = 1\nclass Shelf:\n    def __init__(self):\n"
        "        self.books = [Book(), {'a': Book()}]\nspare = Book()\n",
    )
    shelf = vendor.Shelf()
    with hookpatch.active(hookpatch.replace("shelf:Book().pages", 2, of=shelf), children="local"):
        assert [shelf.books[0].pages, shelf.books[1]["a"].pages, vendor.spare.pages] == [2, 2, 1]
        assert vendor.Book().pages == 1
    assert vars(shelf.books[0]) == {}


REFUSED: Final[dict[str, tuple[Callable[[str, Any], Any], type[Exception], str]]] = {
    "no model": (
        lambda v, model: hookpatch.derive("torch.nn:Linear()", list, of=3),
        TargetRefused,
        "torch.nn:Linear() exchanges the submodules of a torch model, and of= is an int; write torch.nn:Linear().name",
    ),
    "no of=": (
        lambda v, model: hookpatch.derive("torch.nn:Linear()", list),
        PatchError,
        "torch.nn:Linear() exchanges the submodules of a torch model, and needs of= with the model",
    ),
    "another verb": (
        lambda v, model: hookpatch.replace("torch.nn:Linear()", 3, of=model),
        PatchError,
        "torch.nn:Linear() stands for the instances themselves, which derive exchanges; write torch.nn:Linear().name",
    ),
    "no module": (
        lambda v, model: hookpatch.derive("torch.nn:Linear()", lambda base: None, of=model),
        TargetRefused,
        "the factory made a NoneType, and a submodule is a torch module",
    ),
    "the model itself": (
        lambda v, model: hookpatch.derive("torch.nn:Linear()", list, of=model.first),
        TargetRefused,
        "the model is a Linear itself, and hangs in no other module of it",
    ),
    "one slot": (
        lambda v, model: hookpatch.replace("torch.nn:Linear", 3, of=model),
        PatchError,
        "of= narrows instances, as of m:Class().name, and torch.nn:Linear stands for one slot",
    ),
    "a wrong address": (
        lambda v, model: hookpatch.wrap(f"{v}:Norm().forward", plus, of=f"{v}:mdel"),
        TargetNotFound,
        "has no attribute 'mdel'; did you mean 'model'?",
    ),
    "a pattern": (
        lambda v, model: hookpatch.wrap(f"{v}:Norm().forward", plus, of=f"{v}:*"),
        PatchError,
        "stands for several objects; write the address of a single object",
    ),
    "a parameter": (
        lambda v, model: hookpatch.replace(f"{v}:Norm().weight", 3, of=model),
        TargetRefused,
        "is kept in _parameters of a Norm",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(vendor: ModuleType, case: str) -> None:
    """A refusal is a clear error, and leaves the model as before."""
    make, kind, text = REFUSED[case]
    model = vendor.model
    with pristine(model, model._modules, model.norm, vendor.Norm):
        with pytest.raises(kind) as raised:
            hookpatch.active(make(vendor.__name__, model), children="local").open()
        assert text in str(raised.value)


@pytest.mark.parametrize("is_kept", [False, True], ids=["died with its instance", "kept by other code"])
def test_a_dead_instance_needs_no_patch_on_torch(make_module: Callable[[str, str], ModuleType], is_kept: bool) -> None:
    """The only patched instance dies inside: no patch on torch outlasts the block, whoever keeps the wrapper."""
    import torch._dynamo

    assert torch._dynamo.is_compiling() is False
    name = f"dying_{next(_numbers)}"
    made = make_module(name, "class Holder:\n    def __init__(self):\n        self.call = lambda x=1: x\n")
    held = made.Holder()
    with pristine():
        with hookpatch.active(hookpatch.default(f"{name}:Holder().call", x=2), scope="task", children="local"):
            assert held.call() == 2
            wrapper = held.call
            del held
            if not is_kept:
                del wrapper
        assert not is_kept or wrapper() == 1


@pytest.mark.parametrize("name", ["forward", "scaled"])
@pytest.mark.parametrize("is_first", [True, False])
def test_compiled_code_runs_the_patches_of_a_model_and_of_its_class(
    make_module: Callable[[str, str], ModuleType], name: str, is_first: bool
) -> None:
    """The class is patched after, or before, the method that one model inherits; the code was compiled before both."""
    module: Any = make_module(
        "vendor_of_model",
        """
        import torch

        class Model(torch.nn.Module):
            def forward(self, x):
                return self.scaled(x)

            @staticmethod
            def scaled(x):
                return x + 1

        model = Model()
        """,
    )
    torch = module.torch
    # Dynamo cannot bind another static method of the class, looked up anew, without a graph break.
    compiled = torch.compile(module.model, backend="eager", fullgraph=name == "forward")
    zero = torch.zeros(1)
    assert compiled(zero).item() == 1
    of_model = hookpatch.wrap(f"vendor_of_model:model.{name}", lambda wrapped, _, args, kwargs: wrapped(*args) * 10)
    of_class = hookpatch.wrap(f"vendor_of_model:Model.{name}", lambda wrapped, _, args, kwargs: wrapped(*args) + 100)
    first, second = (of_model, of_class) if is_first else (of_class, of_model)
    with hookpatch.active(first, children="local"):
        assert compiled(zero).item() == (10 if is_first else 101)
        with hookpatch.active(second, children="local"):
            assert compiled(zero).item() == 1010
        assert compiled(zero).item() == (10 if is_first else 101)
    assert compiled(zero).item() == 1
