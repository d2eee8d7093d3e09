"""``callers=`` in torch's captures: right where the caller is seen, else refused by name; never silent."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import BypassError

pytestmark = [pytest.mark.model, pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]

VENDOR: Final = """
    import torch

    def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
        return x * by

    class Part(torch.nn.Module):
        def forward(self, x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
            return x * by
    """
MODEL: Final = """
    import torch
    import {vendor} as vendor

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return vendor.scaled(x)

    class Mapped(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return sum(map(vendor.scaled, [x]))
    """
BOTH: Final = """
    import torch
    from {meant} import Net as Meant
    from {other} import Net as Other

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.meant, self.other = Meant(), Other()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.meant(x) * 100 + self.other(x)
    """
MODES: Final = ("eager", "compile", "fullgraph", "export", "export strict", "trace", "fx", "make_fx")
KEEPS: Final = ("export", "export strict", "trace", "fx", "make_fx")  # a product keeps the values of the capture
PATCHES: Final[dict[str, Callable[..., hookpatch.Patch]]] = {
    "inject": lambda target, **facts: hookpatch.inject(target, by=10.0, **facts),
    "default": lambda target, **facts: hookpatch.default(target, by=10.0, **facts),
    "wrap": lambda target, **facts: hookpatch.wrap(target, lambda w, i, a, k: w(*a, **k) * 5, **facts),
    "replace": lambda target, **facts: hookpatch.replace(target, lambda x, by=2.0: x * 10.0, **facts),
}
_numbers: Final = itertools.count()


def _captured(mode: str, model: Any, x: Any) -> Any:
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    return {
        "eager": lambda: model,
        "compile": lambda: torch.compile(model, backend="eager"),
        "fullgraph": lambda: torch.compile(model, backend="eager", fullgraph=True),
        "export": lambda: torch.export.export(model, (x,)).module(),
        "export strict": lambda: torch.export.export(model, (x,), strict=True).module(),
        "trace": lambda: torch.jit.trace(model, (x,)),
        "script": lambda: torch.jit.script(model),
        "fx": lambda: torch.fx.symbolic_trace(model),
        "make_fx": lambda: make_fx(model)(x),
    }[mode]()


@pytest.fixture
def modules(make_module: Callable[[str, str], ModuleType]) -> tuple[str, str, ModuleType]:
    """Return the names of a vendor's module and of a caller's module, and a model with parts of two modules."""
    # A new name each time: Dynamo keeps traced modules by their names.
    number = next(_numbers)
    vendor, meant, bystander = f"called_{number}", f"meant_{number}", f"other_{number}"
    make_module(vendor, VENDOR)
    for name in (meant, bystander):
        make_module(name, MODEL.format(vendor=vendor))
    return vendor, meant, make_module(f"both_{number}", BOTH.format(meant=meant, other=bystander))


@pytest.mark.parametrize(
    ("verb", "mode", "reach"),
    [
        pytest.param(verb, mode, reach, marks=[] if (verb, reach) == ("inject", "slot") else pytest.mark.ends)
        for verb in PATCHES
        for mode in MODES
        for reach in ("slot", "everywhere")
    ],
)
def test_two_callers_in_one_capture(modules: tuple[str, str, ModuleType], verb: str, mode: str, reach: Any) -> None:
    import torch

    vendor, meant, models = modules
    x = torch.ones(2)
    before = _captured(mode, models.Net(), x)
    assert before(x).tolist() == [202.0, 202.0]
    with hookpatch.active(PATCHES[verb](f"{vendor}:scaled", callers=f"{meant}.*", reach=reach)):
        assert models.Net()(x).tolist() == [1002.0, 1002.0]
        inside = _captured(mode, models.Net(), x)
        assert inside(x).tolist() == [1002.0, 1002.0]
        assert before(x).tolist() == ([202.0, 202.0] if mode in KEEPS else [1002.0, 1002.0])
    if mode not in KEEPS:
        assert inside(x).tolist() == [202.0, 202.0]
    assert before(x).tolist() == _captured(mode, models.Net(), x)(x).tolist() == [202.0, 202.0]


@pytest.mark.parametrize("mode", ["eager", "compile", "fullgraph", "export strict"])
def test_a_call_through_c_code(modules: tuple[str, str, ModuleType], mode: str) -> None:
    """A call through map, for which Dynamo has its own frames, has the right caller."""
    import sys

    import torch

    vendor, meant, _ = modules
    x, model = torch.ones(2), sys.modules[meant].Mapped()
    with hookpatch.active(PATCHES["inject"](f"{vendor}:scaled", callers=meant)):
        assert _captured(mode, model, x)(x).tolist() == [10.0, 10.0]


def _refused(mode: str, model: Any, x: Any, text: str) -> None:
    with pytest.raises(Exception, match=text) as caught:
        _captured(mode, model, x)(x)
    error: BaseException | None = caught.value
    while error is not None and not isinstance(error, BypassError):
        error = error.__cause__ or error.__context__
    assert isinstance(error, BypassError) or "BypassError" in str(caught.value)


@pytest.mark.parametrize(
    ("verb", "reach"),
    [
        pytest.param(verb, reach, marks=[] if (verb, reach) == ("wrap", "slot") else pytest.mark.ends)
        for verb in PATCHES
        for reach in ("slot", "everywhere")
    ],
)
def test_refused_where_there_is_no_caller(modules: tuple[str, str, ModuleType], verb: str, reach: Any) -> None:
    """Refuse callers= where no caller exists: in TorchScript, and for the captured function itself."""
    import sys

    import torch

    vendor, meant, models = modules
    module, x = sys.modules[vendor], torch.ones(2)
    with hookpatch.active(PATCHES[verb](f"{vendor}:scaled", callers=meant, reach=reach)):
        _refused("script", models.Net(), x, "callers= needs a Python caller")
        for mode in ("fullgraph", "fx", "script"):
            _refused(mode, module.scaled, x, "callers= needs a Python caller")
    if verb in ("inject", "wrap"):
        with hookpatch.active(PATCHES[verb](f"{vendor}:Part.forward", callers="torch.nn.*", reach=reach)):
            assert module.Part()(x).tolist() == [10.0, 10.0]
            _refused("script", module.Part(), x, "callers= needs a Python caller")
            _refused("fx", module.Part(), x, "callers= needs a Python caller")
    assert torch.jit.script(models.Net())(x).tolist() == [202.0, 202.0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_while_a_function_runs(modules: tuple[str, str, ModuleType], mode: str, reach: Any) -> None:
    """A running function is found on Python's stack, or among inlined functions; else the patch is refused."""
    import torch

    vendor, meant, models = modules
    x = torch.ones(2)
    patch = hookpatch.inject(f"{vendor}:scaled", by=10.0, callers=f"{meant}:Net.forward", reach=reach)
    with hookpatch.active(patch):
        assert models.Net()(x).tolist() == [1002.0, 1002.0]
        assert _captured(mode, models.Meant(), x)(x).tolist() == [10.0, 10.0]
        if mode in ("compile", "fullgraph", "export strict"):  # Dynamo does not know what runs outside the capture
            with pytest.raises(Exception, match="callers= needs a Python caller") as refused:
                _captured(mode, models.Net(), x)(x)
            assert "BypassError" in repr(refused.getrepr())
        else:
            assert _captured(mode, models.Net(), x)(x).tolist() == [1002.0, 1002.0]
    assert _captured(mode, models.Net(), x)(x).tolist() == [202.0, 202.0]
