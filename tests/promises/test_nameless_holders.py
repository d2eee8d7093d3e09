"""Objects without a name that hold the original: each holder is patched, or the report counts the objects.

Verb x kind of target x place in the object x depth of the object x reach. The object of a local variable has no name. A
part of a large model is too deep below a name.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch

MODULE: Final = """
    import functools, types

    def function(x=0): return ["original"]

    class Called:
        def __call__(self, x=0): return ["original"]

    class kind:
        def __init__(self, x=0): self.shown = ["original"]
        def __iter__(self): return iter(self.shown)

    called = Called()

    class Slots:
        __slots__ = ("value", "__weakref__")

    class Plain:
        pass

    def deep(value):
        for _ in range(6):
            outer = Plain()
            outer.parts = {"inner": value}
            value = outer
        return value
"""
TARGETS: Final = ("function", "called", "kind")
PLACES: Final[dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any], str]]] = {
    "attribute": (lambda m, value: _plain(m, value), lambda held: held.value, "a Plain.value"),
    "slot": (lambda m, value: _slots(m, value), lambda held: held.value, "a Slots.value"),
    "list": (lambda m, value: _plain(m, [value]), lambda held: held.value[0], "a Plain.value[0]"),
    "mapping": (lambda m, value: _plain(m, {"k": value}), lambda held: held.value["k"], "a Plain.value['k']"),
    "tuple": (lambda m, value: _plain(m, (value,)), lambda held: held.value[0], "a Plain.value[0]"),
    "nested": (lambda m, value: _plain(m, {"k": [value]}), lambda held: held.value["k"][0], "a Plain.value['k'][0]"),
    "partial": (
        lambda m, value: _plain(m, m.functools.partial(value, 1)),
        lambda held: held.value,
        "a Plain.value.func",
    ),
    "list of an object in slots": (lambda m, value: _slots(m, [value]), lambda held: held.value[0], "a Slots.value[0]"),
}


def _plain(module: Any, value: Any) -> Any:
    made = module.Plain()
    made.value = value
    return made


def _slots(module: Any, value: Any) -> Any:
    made = module.Slots()
    made.value = value
    return made


def _wrapper(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
    return ["patched", *wrapped(*args, **kwargs)]


def _patch(verb: str, name: str, reach: Any) -> hookpatch.Patch:
    def new(x: int = 0) -> list[str]:
        return ["patched"]

    address, facts = f"nameless:{name}", {"reach": reach}
    if verb == "wrap":
        return hookpatch.wrap(address, _wrapper, **facts)
    if verb == "derive":
        return hookpatch.derive(address, lambda original: new, check_signature=False, why="a function", **facts)
    return hookpatch.replace(address, new, check_signature=False, why="a function", **facts)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_deep", [False, pytest.param(True, marks=[pytest.mark.ends, pytest.mark.once])])
@pytest.mark.filterwarnings("ignore::hookpatch.errors.HookpatchWarning")
@pytest.mark.sampled(2)
def test_each_holder_is_patched_or_counted(
    make_module: Callable[[str, str], ModuleType], place: str, is_deep: bool
) -> None:
    """Three objects hold the original at a place; the report counts three if they show the original."""
    module: Any = make_module("nameless", MODULE)
    make, value_of, words = PLACES[place]
    silent, cells = [], 0
    for verb, name, reach in product(("wrap", "replace", "derive"), TARGETS, ("slot", "everywhere")):
        gc.collect()  # the objects of the patch before
        held = [make(module, vars(module)[name]) for _ in range(3)]
        if is_deep:
            module.deepest = [module.deep(holder) for holder in held]
        with hookpatch.active(_patch(verb, name, reach), children="local") as session:
            shown = [list(value_of(holder)()) for holder in held]
            cells += 1
            report = str(session.report())
            if ["original"] in shown and f"{words} (in 3 objects) holds the original" not in report:
                silent.append((verb, name, reach))
            assert "patched" in list(vars(module)[name]())
        assert [list(value_of(holder)()) for holder in held] == [["original"]] * 3
    assert silent == []
    assert cells == 18


@pytest.mark.model
def test_an_activation_of_a_large_model_is_counted(make_module: Callable[[str, str], ModuleType]) -> None:
    """Each layer keeps the function of torch as an attribute, too deep below the name of the model."""
    torch = pytest.importorskip("torch")
    module: Any = make_module(
        "large_model",
        """
        import torch

        class Activation(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.function = torch.nn.functional.silu

            def forward(self, x):
                return self.function(x)

        def layer():
            return torch.nn.Sequential(torch.nn.ModuleDict({"activation": Activation()}))

        model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.ModuleList([layer() for _ in range(4)])))
        """,
    )
    with hookpatch.active(
        hookpatch.wrap("torch.nn.functional:silu", lambda wrapped, instance, args, kwargs: wrapped(*args) + 1),
        children="local",
    ) as session:
        activation = module.model[0][0][0][0]["activation"]
        assert torch.equal(activation(torch.zeros(1)), torch.zeros(1))  # past the patch
        assert "an Activation.function (in 4 objects) holds the original" in str(session.report())
