"""The effect of a patch under each of torch's capture modes: real runs, one for each target and mode.

A cell is *right* (the effect inside, none outside), *loud* (an error or a warning of the tool) or *silent*: a wrong
number without a warning. A *broken* cell has an error that does not name the tool. In a *product* cell an artifact
keeps the captured code: an exported program, a traced or scripted module, an .onnx. ``hookpatch.testing.effect`` judges
by the same rules.
"""

from __future__ import annotations

import contextvars
import functools
import importlib
import itertools
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias
from unittest import mock

import torch
import wrapt
from torch.ao.quantization.quantize_fx import prepare_fx

import hookpatch
from hookpatch.testing._capture_matrix import judged, quiet
from hookpatch.testing._capture_modes import CAPTURES, Capture, Run

try:
    import wrapture
except ImportError:  # wrapture needs Python 3.12
    wrapture = None

# --- the targets


@dataclass(frozen=True)
class Row:
    """A target: the vendor's module in which a model uses it.

    Attributes:
        name: the target in words.
        path: the path of the look-up, after the module's name; a path with a colon names another module.
        source: the vendor's module, without its imports.
        factors: the factors of ``forward``: unpatched, and with the argument from ``inject``.
        injected: the argument from ``inject``.
        origin: the name of the definition, for ``reach="everywhere"``, if different from the look-up.
        is_class: True for a class with a method ``run`` that multiplies by the attribute ``by``.
    """

    name: str
    path: str
    source: str
    factors: tuple[float, float] = (2, 7)
    injected: tuple[str, float] = ("by", 7.0)
    origin: str | None = None
    is_class: bool = False


LIBRARY: Final = "import torch\ndef imported(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:\n    return x * by\n"
HEAD: Final = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\nfrom {library} import imported\n"
ROWS: Final = (
    Row(
        "function",
        "act",
        """
        def act(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
            return x * by
        class Net(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return act(x)
        """,
    ),
    Row(
        "imported function",
        "imported",
        """
        class Net(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return imported(x)
        """,
        origin="imported",
    ),
    Row(
        "helper method",
        "Net.helper",
        """
        class Net(nn.Module):
            def helper(self, x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
                return x * by
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.helper(x)
        """,
    ),
    Row(
        "forward",
        "Net.forward",
        """
        class Net(nn.Module):
            def forward(self, x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
                return x * by
        """,
    ),
    Row(
        "submodule forward",
        "Part.forward",
        """
        class Part(nn.Module):
            def forward(self, x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
                return x * by
        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.part = Part()
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.part(x)
        """,
    ),
    Row(
        "static method",
        "Net.static",
        """
        class Net(nn.Module):
            @staticmethod
            def static(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
                return x * by
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.static(x)
        """,
    ),
    Row(
        "class method",
        "Net.of_class",
        """
        class Net(nn.Module):
            @classmethod
            def of_class(cls, x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
                return x * by
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.of_class(x)
        """,
    ),
    Row(
        "torch.nn.functional",
        "torch.nn.functional:leaky_relu",
        """
        class Net(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return -F.leaky_relu(-x)
        """,
        factors=(0.01, 7),
        injected=("negative_slope", 7.0),
    ),
    Row(
        "C function",
        "torch:addcmul",
        """
        class Net(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.addcmul(x, x, torch.ones_like(x))
        """,
        injected=("value", 6.0),
    ),
    Row(
        "class",
        "Part",
        """
        class Part:
            def __init__(self, by: float = 2.0) -> None:
                self.by = by
            def run(self, x: torch.Tensor) -> torch.Tensor:
                return x * self.by
        class Net(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return Part().run(x)
        """,
        is_class=True,
    ),
    Row(
        "registry entry",
        "REGISTRY['act']",
        """
        def act(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
            return x * by
        REGISTRY = {"act": act}
        class Net(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return REGISTRY["act"](x)
        """,
    ),
    Row(
        "autograd.Function",
        "Function.forward",
        """
        class Function(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
                ctx.by = by
                return x * by
            @staticmethod
            def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
                return gradient * ctx.by
        class Net(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return Function.apply(x)
        """,
    ),
)

_numbers: Final = itertools.count()


@dataclass
class Vendor:
    """The modules of a row, imported under new names: no cell sees the caches of another cell."""

    row: Row
    module: ModuleType
    library: ModuleType
    patches: ModuleType

    @property
    def target(self) -> str:
        return self.row.path if ":" in self.row.path else f"{self.module.__name__}:{self.row.path}"

    @property
    def origin(self) -> str:
        return f"{self.library.__name__}:{self.row.origin}" if self.row.origin else self.target

    def net(self) -> Any:
        return self.module.Net()


def vendor(row: Row, folder: Path) -> Vendor:
    """Write a row's modules to a folder on sys.path and import them."""
    number = next(_numbers)
    library, name, patches = f"effect_library{number}", f"effect_vendor{number}", f"effect_patches{number}"
    (folder / f"{patches}.py").write_text(
        PATCHES.format(name=row.path.rpartition(".")[2] if _kind(row) == "method" else "method")
    )
    (folder / f"{library}.py").write_text(LIBRARY)
    (folder / f"{name}.py").write_text(HEAD.format(library=library) + textwrap.dedent(row.source))
    importlib.invalidate_caches()
    return Vendor(row, importlib.import_module(name), sys.modules[library], importlib.import_module(patches))


# --- the effect of a patch: forward multiplies by another factor


# The values for replace and derive, in a file: TorchScript compiles from the text, and needs the name of a method.
PATCHES: Final = """
import torch

def function(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    return x * 11

def leaky(input: torch.Tensor, negative_slope: float = 0.01, inplace: bool = False) -> torch.Tensor:
    return input * 11

def of_three(x: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return x * 11

def {name}(self, x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    return x * 11

method = {name}

def in_context(ctx, x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    ctx.by = 11.0
    return x * 11

class Class:
    def __init__(self) -> None:
        pass
    def run(self, x: torch.Tensor) -> torch.Tensor:
        return x * 11

def from_function(original):
    def derived(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
        return original(x, by) * 13
    return derived

def from_leaky(original):
    def derived(input: torch.Tensor, negative_slope: float = 0.01, inplace: bool = False) -> torch.Tensor:
        return original(input, negative_slope, inplace) * 13
    return derived

def from_of_three(original):
    def derived(x: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return original(x, one, other) * 13
    return derived

def from_method(original):
    def {name}(self, x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
        return original(self, x, by) * 13
    return {name}

def from_in_context(original):
    def derived(ctx, x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
        return original(ctx, x, by) * 13
    return derived

def from_class(original):
    class Derived(original):
        def run(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.by * 13
    return Derived
"""
KINDS: Final = {
    "helper method": "method",
    "forward": "method",
    "submodule forward": "method",
    "class method": "method",
    "torch.nn.functional": "leaky",
    "C function": "of_three",
    "class": "class",
    "autograd.Function": "in_context",
}


def _kind(row: Row) -> str:
    return KINDS.get(row.name, "function")


def _wrap(row: Row) -> Callable[..., Any]:
    def tenfold(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs) * 10

    def class_tenfold(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
        result = wrapped(*args, **kwargs)
        result.by = result.by * 10
        return result

    return class_tenfold if row.is_class else tenfold


def _replacement(vendor: Vendor) -> Any:
    replacement = getattr(vendor.patches, "Class" if vendor.row.is_class else _kind(vendor.row))
    return _descriptor(vendor)(replacement)


def _derive(vendor: Vendor) -> Callable[[Any], Any]:
    def derived(original: Any) -> Any:
        function = original.__func__ if isinstance(original, (staticmethod, classmethod)) else original
        return _descriptor(vendor)(getattr(vendor.patches, f"from_{_kind(vendor.row)}")(function))

    return derived


def _descriptor(vendor: Vendor) -> Callable[[Any], Any]:
    """Return the function or type that makes a function into a value for the slot."""
    _, _, value = _slot(vendor)
    return type(value) if isinstance(value, (staticmethod, classmethod)) else lambda function: function


def factors(row: Row, verb: str) -> tuple[float, float]:
    """Return the factors of ``forward`` without the patch and with the patch."""
    plain, injected = row.factors
    return plain, {"wrap": plain * 10, "inject": injected, "default": injected, "replace": 11, "derive": plain * 13}[
        verb
    ]


# --- the tools

Tool: TypeAlias = Callable[[Vendor, str, str, str], AbstractContextManager[object] | None]


def by_hookpatch(vendor: Vendor, verb: str, reach: Any, scope: Any) -> AbstractContextManager[object]:
    row, target = vendor.row, vendor.origin if reach == "everywhere" else vendor.target
    patch = {
        "wrap": lambda: hookpatch.wrap(target, _wrap(row), reach=reach),
        "inject": lambda: hookpatch.inject(target, dict([row.injected]), reach=reach),
        "default": lambda: hookpatch.default(target, dict([row.injected]), reach=reach),
        "replace": lambda: hookpatch.replace(target, _replacement(vendor), reach=reach),
        "derive": lambda: hookpatch.derive(target, _derive(vendor), reach=reach),
    }[verb]()
    return hookpatch.active(patch, scope=scope)


def _slot(vendor: Vendor) -> tuple[Any, str, Any]:
    """Return the owner, the name and the value of the slot, to set the slot by hand; a dict owns its entries."""
    path = vendor.row.path.partition(":")[2] or vendor.row.path
    owner: Any = sys.modules[vendor.target.partition(":")[0]]
    if "[" in path:
        return owner.REGISTRY, "act", owner.REGISTRY["act"]
    *way, name = path.split(".")
    for step in way:
        owner = getattr(owner, step)
    return owner, name, vars(owner)[name]


def _over(vendor: Vendor, verb: str) -> Any:
    """Return the value that a user would set by hand: a closure that looks like the original, or another value."""
    original = _slot(vendor)[2]
    if verb == "replace":
        return _replacement(vendor)
    if verb == "derive":
        return _derive(vendor)(original)
    function = original.__func__ if isinstance(original, (staticmethod, classmethod)) else original
    wrapper, (name, value) = _wrap(vendor.row), vendor.row.injected

    @functools.wraps(function)
    def closure(*args: Any, **kwargs: Any) -> Any:
        return wrapper(function, None, args, kwargs) if verb == "wrap" else function(*args, **{**kwargs, name: value})

    return closure if function is original else type(original)(closure)


@contextmanager
def _set(vendor: Vendor, value: Any) -> Iterator[None]:
    owner, name, original = _slot(vendor)
    setter = (
        functools.partial(owner.__setitem__, name)
        if isinstance(owner, dict)
        else functools.partial(setattr, owner, name)
    )
    setter(value)
    try:
        yield
    finally:
        setter(original)


def _plainly(reach: str, scope: str) -> bool:
    return reach == "slot" and scope == "process"


def by_setattr(vendor: Vendor, verb: str, reach: str, scope: str) -> AbstractContextManager[object] | None:
    return _set(vendor, _over(vendor, verb)) if _plainly(reach, scope) else None


def by_mock(vendor: Vendor, verb: str, reach: str, scope: str) -> AbstractContextManager[object] | None:
    if not _plainly(reach, scope):
        return None
    owner, name, _ = _slot(vendor)
    value = _over(vendor, verb)
    return mock.patch.dict(owner, {name: value}) if isinstance(owner, dict) else mock.patch.object(owner, name, value)


def by_wrapt(vendor: Vendor, verb: str, reach: str, scope: str) -> AbstractContextManager[object] | None:
    _, _, original = _slot(vendor)
    if not _plainly(reach, scope) or verb not in ("wrap", "inject"):
        return None
    key, value = vendor.row.injected

    def injector(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **{**kwargs, key: value})

    return _set(vendor, wrapt.FunctionWrapper(original, _wrap(vendor.row) if verb == "wrap" else injector))


def by_wrapture(vendor: Vendor, verb: str, reach: str, scope: str) -> AbstractContextManager[object] | None:
    if (
        wrapture is None
        or not _plainly(reach, scope)
        or verb != "wrap"
        or ":" in vendor.row.path
        or "[" in vendor.row.path
    ):
        return None
    binding = wrapture.binding(vendor.module.__name__, vendor.row.path)
    binding.on_call.decorates(_wrap(vendor.row))
    return binding


TOOLS: Final[dict[str, Tool]] = {
    "hookpatch": by_hookpatch,
    "setattr": by_setattr,
    "mock.patch": by_mock,
    "wrapt": by_wrapt,
    "wrapture": by_wrapture,
}

# --- the modes

X = torch.tensor([1.0, 2.0, 3.0])  # the benchmark moves this tensor to its device


class _Data(torch.utils.data.Dataset[torch.Tensor]):
    def __init__(self, model: Any) -> None:
        self.model = model

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.model(X)


def _in_worker(model: Any) -> Run:
    return lambda x: next(
        iter(torch.utils.data.DataLoader(_Data(model), num_workers=1, multiprocessing_context="fork"))
    )[0]


def _gradient(model: Any) -> Run:
    return lambda x: torch.func.grad(lambda y: model(y).sum())(x) * x


class _NodePaths(torch.fx.Tracer):
    """A tracer that notes the module of each node, and enters all modules, as feature extraction does."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: dict[str, str] = {}
        self.path = ""

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return False

    def call_module(self, m: torch.nn.Module, forward: Run, args: Any, kwargs: Any) -> Any:
        outer, self.path = self.path, self.path_of_module(m)
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self.path = outer

    def create_proxy(self, *args: Any, **kwargs: Any) -> Any:
        proxy = super().create_proxy(*args, **kwargs)
        self.paths[proxy.node.name] = self.path
        return proxy


def _features(model: Any, inputs: tuple[Any, ...]) -> Run:
    tracer = _NodePaths()
    graph = tracer.trace(model)
    assert {node.name for node in graph.nodes if node.op != "output"} <= tracer.paths.keys()
    return torch.fx.GraphModule(model, graph)


def _observed(model: Any, inputs: tuple[Any, ...]) -> Run:
    """Return a model with the observers of FX graph-mode quantisation: the observers change no numbers."""
    mapping = torch.ao.quantization.get_default_qconfig_mapping()
    observed: Run = prepare_fx(model.eval(), mapping, inputs)
    return observed


MODES: Final[dict[str, Capture]] = {
    **{name: capture for name, capture in CAPTURES.items() if capture.missing is None},
    "fx features": Capture(_features, keeps=True),
    "fx quantisation": Capture(_observed, keeps=True),
    "vmap": Capture(lambda model, inputs: lambda x: torch.func.vmap(model)(x[None])[0]),
    "grad": Capture(lambda model, inputs: _gradient(model)),
    "worker": Capture(lambda model, inputs: _in_worker(model), is_slow=True),
}

# --- a cell


@dataclass(frozen=True)
class Cell:
    """A target under a mode with a kind of patch, at all times of capture and call."""

    row: Row
    mode: str
    verb: str
    reach: str = "slot"
    scope: str = "process"

    def __str__(self) -> str:
        return ", ".join((self.row.name, self.mode, self.verb, self.reach, self.scope))


@dataclass
class Outcome:
    """The state of a cell at each time, such as ``"before, inside"``, with the messages."""

    states: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)


def cells() -> Iterator[Cell]:
    """Yield all cells."""
    for row, mode in itertools.product(ROWS, MODES):
        for verb, reach in itertools.product(
            ("wrap", "inject", "default", "replace", "derive"), ("slot", "everywhere")
        ):
            for scope in ("process", "task") if verb in ("wrap", "inject", "default") else ("process",):
                yield Cell(row, mode, verb, reach, scope)


def run_cell(cell: Cell, tool: str, folder: Path) -> Outcome | None:
    """Run a cell with a tool; return None if the mode fails unpatched, or the tool cannot patch in the wanted way."""
    library, mode = vendor(cell.row, folder), MODES[cell.mode]
    plain, patched = (functools.partial(_matches, factor=factor) for factor in factors(cell.row, cell.verb))

    def capture() -> Callable[[], Any]:
        return functools.partial(mode.make(library.net(), (X,)), X)

    with quiet():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                before = capture()
                if not plain(before()):
                    return None
            except Exception:
                return None
            patch = TOOLS[tool](library, cell.verb, cell.reach, cell.scope)
        if patch is None:
            return None
        neighbour = (lambda call: contextvars.Context().run(call)) if cell.scope == "task" else None
        judgements = judged(cell.mode, before, capture, patch, plain, patched, mode.keeps, tool, neighbour)
    times = {f"{judgement.captured}, {judgement.called}": judgement for judgement in judgements}
    messages = {time: judgement.said for time, judgement in times.items() if judgement.said is not None}
    return Outcome({time: judgement.state for time, judgement in times.items()}, messages)


def _matches(result: Any, factor: float) -> bool:
    (tensor,) = torch.utils._pytree.tree_leaves(result)
    return torch.allclose(tensor.detach().cpu(), X.cpu() * factor, rtol=1e-4)
