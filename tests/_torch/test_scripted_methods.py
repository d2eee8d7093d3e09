"""torch.jit.script of a module with a patched method works, or an error names the patch; never a failure at run time.

TorchScript calls a patched method in Python, with the compiled module.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import BypassError

pytestmark = [pytest.mark.model, pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]

SOURCE: Final = """
    import torch

    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = {"by": [1, "two"]}  # nothing for TorchScript

        def forward(self, x):
            return self.calls(x)

        def calls(self, x):
            return x + 1

    class Helped(Inner):
        def forward(self, x):
            return self.helper(x) + self.static(x) + self.of_class(x) + len(self.table)

        def helper(self, x):
            return self.deeper(x) * 2

        def deeper(self, x):
            return x + 1

        @staticmethod
        def static(x):
            return x + 3

        @classmethod
        def of_class(cls, x):
            return x + 4

    class Alone(Inner):
        def forward(self, x):
            return x + 1

    class Outer(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x)
    """


def derived(original: Any) -> Any:
    def forward(self: Any, x: Any) -> Any:
        return original(self, x) + 100

    forward.__annotations__.clear()  # TorchScript knows no Any
    return forward


PATCHES: Final[dict[str, Callable[..., hookpatch.Patch]]] = {
    "wrap": lambda address, reach: hookpatch.wrap(address, lambda w, i, a, k: w(*a, **k) + 100, reach=reach),
    "derive": lambda address, reach: hookpatch.derive(address, derived, reach=reach),
}


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", SOURCE)


@pytest.mark.parametrize("is_inside", [False, True], ids=["whole", "submodule"])
@pytest.mark.parametrize(("verb", "reach"), list(itertools.product(("wrap", "derive"), ("slot", "everywhere"))))
@pytest.mark.parametrize("kind", ["Helped", "Alone"])
def test_forward_that_is_patched(vendor: ModuleType, kind: str, verb: str, reach: str, is_inside: bool) -> None:
    """A patched forward acts as in eager mode, or scripting is refused by name."""
    import torch

    model: Any = getattr(vendor, kind)()
    model = vendor.Outer(model) if is_inside else model
    tensor = torch.ones(2)
    plain = model(tensor).tolist()
    with hookpatch.active(PATCHES[verb](f"vendor:{kind}.forward", reach)):
        wanted = model(tensor).tolist()
        if (kind, is_inside) == ("Helped", True) or (verb, reach) == ("derive", "slot"):
            with pytest.raises(
                BypassError, match=rf"(?s)vendor:{kind}\.forward .* script the function outside of the block"
            ):
                torch.jit.script(model)
            return
        scripted = torch.jit.script(model)
        assert scripted(tensor).tolist() == wanted != plain
    assert scripted(tensor).tolist() == plain


def test_submodule_lacks_what_its_method_calls(vendor: ModuleType) -> None:
    """The error has the missing names."""
    import torch

    patch = PATCHES["wrap"]("vendor:Helped.forward", "slot")
    with hookpatch.active(patch), pytest.raises(BypassError) as raised:
        torch.jit.script(vendor.Outer(vendor.Helped()))
    assert str(raised.value) == (
        "torch.jit.script would go past the patch of vendor:Helped.forward by hookpatch: it calls a patched method of "
        "a submodule in Python, where the submodule lacks helper, of_class, static, table; script the function outside "
        "of the block"
    )


@pytest.mark.parametrize("is_inside", [False, True])
def test_scripted_before_stays_as_it_was_compiled(vendor: ModuleType, is_inside: bool) -> None:
    import torch

    model = vendor.Alone()
    scripted, tensor = torch.jit.script(vendor.Outer(model) if is_inside else model), torch.ones(2)
    with hookpatch.active(PATCHES["wrap"]("vendor:Alone.forward", "slot")):
        assert scripted(tensor).tolist() == [2.0, 2.0]
        assert model(tensor).tolist() == [102.0, 102.0]


def test_traced_module_is_left_alone(vendor: ModuleType) -> None:
    import torch

    with hookpatch.active(PATCHES["wrap"]("vendor:Helped.forward", "slot")):
        traced = torch.jit.trace(vendor.Helped(), torch.ones(2))
    assert not hasattr(traced, "helper")
