"""Layers: the value or wrapper of a patch, made once for each value below, and dead after the end."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import hookpatch
from hookpatch import Target, errors

MakeModule = Callable[[str, str], ModuleType]

SOURCE = """
    class Model:
        size = 1
        def run(self, x, mode="train"):
            return "run", x, mode
        @classmethod
        def load(cls, path, strict=True):
            return cls, path, strict
        @staticmethod
        def check(x, strict=True):
            return x, strict

    def simplify(model, check_n=0, /, skipped=None, *rest, verbose=False):
        return model, check_n, skipped, rest, verbose

    def anything(*args, **kwargs):
        return args, kwargs

    LIMIT = 1
"""


@pytest.fixture
def vendor(make_module: MakeModule) -> ModuleType:
    """A module to patch."""
    return make_module("vendor", SOURCE)


def _tagged(tag: str) -> Callable[..., Any]:
    return lambda wrapped, instance, args, kwargs: (tag, wrapped(*args, **kwargs))


# --- derive


def test_derived_class_is_the_same_object_while_layers_change(vendor: ModuleType) -> None:
    """The factory runs once: the class stays the identical object while wraps over it come and go."""
    original, classes = vendor.Model, []

    def derived(base: type) -> type:
        classes.append(type("Model", (base,), {"__module__": "vendor"}))
        return classes[-1]

    with hookpatch.active(hookpatch.derive("vendor:Model", derived)):
        (model,) = classes
        assert vendor.Model is model
        assert model.__mro__ == (model, original, object)
        for _ in range(2):
            with hookpatch.active(hookpatch.wrap("vendor:Model", lambda w, i, a, k: w(*a, **k))):
                assert vendor.Model is not model
                assert type(vendor.Model()) is model
            assert vendor.Model is model
    assert classes == [model]
    assert vendor.Model is original
    assert issubclass(model, vendor.Model)


def test_derived_class_is_the_same_over_a_wrap_that_stays(vendor: ModuleType) -> None:
    """A class derived over a wrapped class is made once, though other wraps come and go below and above."""
    functions: list[Any] = []

    def derived(below: Any) -> Any:
        functions.append(lambda *args: ("derived", below(*args)))
        return functions[-1]

    first = hookpatch.active(hookpatch.wrap("vendor:anything", _tagged("first"))).open()
    second = hookpatch.active(hookpatch.derive("vendor:anything", derived)).open()
    third = hookpatch.active(hookpatch.wrap("vendor:anything", _tagged("third"))).open()
    assert vendor.anything() == ("third", ("derived", ("first", ((), {}))))
    third.close()
    assert vendor.anything is functions[0]
    second.close()
    first.close()
    assert len(functions) == 1


def test_each_derive_gets_the_value_below_it() -> None:
    """Of two derives the inner gets the original, the outer what the inner made; each runs once."""
    owner, got = SimpleNamespace(value=object()), []
    original = owner.value

    def factory(name: str) -> Callable[[Any], Any]:
        def make(below: Any) -> Any:
            got.append((name, below))
            return name, below

        return make

    target = Target.attribute(owner, "value")
    with hookpatch.active(hookpatch.derive(target, factory("inner"))):
        with hookpatch.active(hookpatch.derive(target, factory("outer"))):
            assert owner.value == ("outer", ("inner", original))
        assert owner.value == ("inner", original)
    assert owner.value is original
    assert got == [("inner", original), ("outer", ("inner", original))]


def test_derive_is_made_again_when_what_is_below_goes() -> None:
    """When the layer beneath ends first, the value is derived anew from what is left."""
    owner = SimpleNamespace(value=1000)
    target = Target.attribute(owner, "value")
    first = hookpatch.active(hookpatch.replace(target, 2000)).open()
    second = hookpatch.active(hookpatch.derive(target, lambda below: below + 1)).open()
    assert owner.value == 2001
    first.close()
    assert owner.value == 1001
    second.close()
    assert owner.value == 1000


def test_derive_over_wrap_over_replace(vendor: ModuleType) -> None:
    """The three kinds lie over each other in one session, the first given outermost, and come off exactly."""
    original = vendor.anything
    with hookpatch.active(
        hookpatch.derive("vendor:anything", lambda below: lambda *a: ("derived", below(*a))),
        hookpatch.wrap("vendor:anything", _tagged("wrapped")),
        hookpatch.replace("vendor:anything", lambda *a: ("replaced", a)),
    ):
        assert vendor.anything(1) == ("derived", ("wrapped", ("replaced", (1,))))
    assert vendor.anything is original


def test_replace_over_derive_hides_it(vendor: ModuleType) -> None:
    """The outermost value is in the slot itself; lower layers are neither lost nor seen."""
    value = object()
    with hookpatch.active(hookpatch.derive("vendor:LIMIT", lambda below: below + 1)):
        with hookpatch.active(hookpatch.replace("vendor:LIMIT", value)):
            assert vendor.LIMIT is value
        assert vendor.LIMIT == 2
    assert vendor.LIMIT == 1


def test_factory_that_raises_is_an_apply_error(vendor: ModuleType) -> None:
    """A factory's error becomes the cause of an ApplyError with the factory's name; nothing is changed."""
    before = dict(vars(vendor))

    def factory(below: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(errors.ApplyError) as caught, hookpatch.active(hookpatch.derive("vendor:LIMIT", factory)):
        pass
    assert str(caught.value) == (
        "the derive raised KeyError: 'mine' (target vendor:LIMIT of a patch given to active())"
    )
    assert isinstance(caught.value.__cause__, KeyError)
    assert vars(vendor) == before


# --- order


def test_first_given_is_outermost(vendor: ModuleType) -> None:
    """In one session, the first patch given lies outermost."""
    with hookpatch.active(*(hookpatch.wrap("vendor:anything", _tagged(tag)) for tag in "abc")):
        assert vendor.anything() == ("a", ("b", ("c", ((), {}))))


def test_later_session_is_outside(vendor: ModuleType) -> None:
    """A later opened session lies outside, in any order of creation."""
    early = hookpatch.active(hookpatch.wrap("vendor:anything", _tagged("made first")))
    with hookpatch.active(hookpatch.wrap("vendor:anything", _tagged("opened first"))), early:
        assert vendor.anything() == ("made first", ("opened first", ((), {})))


def test_same_patch_twice_counts_twice(vendor: ModuleType) -> None:
    """One Patch object in two sessions is two layers, and each session takes off its own."""
    patch = hookpatch.wrap("vendor:anything", _tagged("p"))
    first, second = hookpatch.active(patch).open(), hookpatch.active(patch).open()
    assert vendor.anything() == ("p", ("p", ((), {})))
    first.close()
    assert vendor.anything() == ("p", ((), {}))
    second.close()
    assert vendor.anything() == ((), {})


# --- inject


def test_injected_argument_takes_the_place_of_the_callers(vendor: ModuleType) -> None:
    """An argument is given by keyword, by position or by default: what is injected wins, once."""
    with hookpatch.active(hookpatch.inject("vendor:simplify", skipped=["fuse_qkv"], verbose=True)):
        assert vendor.simplify("m") == ("m", 0, ["fuse_qkv"], (), True)
        assert vendor.simplify("m", 3, "mine") == ("m", 3, ["fuse_qkv"], (), True)
        assert vendor.simplify("m", 3, "mine", "rest") == ("m", 3, ["fuse_qkv"], ("rest",), True)
        assert vendor.simplify("m", skipped="mine", verbose=False) == ("m", 0, ["fuse_qkv"], (), True)
    assert vendor.simplify("m") == ("m", 0, None, (), False)


def test_injected_positional_only_argument(vendor: ModuleType) -> None:
    """A positional-only argument is given by position, whether the caller passed it or stopped before it."""
    with hookpatch.active(hookpatch.inject("vendor:simplify", check_n=7)):
        assert vendor.simplify("m")[:2] == ("m", 7)
        assert vendor.simplify("m", 1)[:2] == ("m", 7)
        assert vendor.simplify("m", skipped=1)[:3] == ("m", 7, 1)


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_injected_argument_of_methods_of_every_kind(vendor: ModuleType, reach: Any) -> None:
    """The object or class of a method call is not counted as an argument."""
    with hookpatch.active(
        hookpatch.inject("vendor:Model.run", mode="eval", reach=reach),
        hookpatch.inject("vendor:Model.load", strict=False, reach=reach),
        hookpatch.inject("vendor:Model.check", strict=False, reach=reach),
    ):
        model = vendor.Model()
        assert model.run(1) == model.run(1, "mine") == vendor.Model.run(model, 1, "mine") == ("run", 1, "eval")
        assert vendor.Model.load("p") == model.load("p", True) == (vendor.Model, "p", False)
        assert vendor.Model.check(1) == model.check(1, True) == (1, False)
    assert vendor.Model().run(1) == ("run", 1, "train")


def test_injected_containers_are_fresh_for_each_call(vendor: ModuleType) -> None:
    """A callee may change a passed list, dict or set: neither the patch nor the next call changes."""
    containers = {"list": [1], "set": {1}, "dict": {"a": [1]}}
    with hookpatch.active(hookpatch.inject("vendor:anything", given=containers)):
        first = vendor.anything()[1]["given"]
        first["list"].append(2)
        first["dict"]["a"].append(2)
        first["set"].add(2)
        first.clear()
        assert vendor.anything()[1]["given"] == {"list": [1], "set": {1}, "dict": {"a": [1]}}
    assert containers == {"list": [1], "set": {1}, "dict": {"a": [1]}}


def test_injected_objects_are_not_copied(vendor: ModuleType) -> None:
    """What is no built-in container, a model or a tensor, is given itself, inside containers too."""
    model = object()
    with hookpatch.active(hookpatch.inject("vendor:anything", model=model, models=[model])):
        keywords = vendor.anything()[1]
        assert keywords["model"] is model
        assert keywords["models"][0] is model


def test_injected_argument_that_the_target_does_not_take_is_refused(vendor: ModuleType) -> None:
    """An argument's name that is not in the signature is an error before anything is changed, with the nearest name."""
    before = vendor.simplify
    with (
        pytest.raises(errors.SignatureError) as caught,
        hookpatch.active(hookpatch.inject("vendor:simplify", skiped=1)),
    ):
        pass
    assert str(caught.value) == (
        "vendor:simplify takes no argument 'skiped'; did you mean 'skipped'? it takes model, check_n, skipped, verbose "
        "(target vendor:simplify of a patch given to active())"
    )
    assert vendor.simplify is before


def test_argument_that_bears_the_name_of_an_option(vendor: ModuleType) -> None:
    """A parameter named like an option of the verb is given in a mapping."""
    with hookpatch.active(hookpatch.inject("vendor:anything", {"before": 3, "reach": 4}, after="nobody")):
        assert vendor.anything() == ((), {"before": 3, "reach": 4})


# --- the end


@pytest.mark.parametrize("address", ["anything", "Model.run", "Model.load", "Model.check"])
def test_ended_layer_passes_through_while_others_hold(vendor: ModuleType, address: str) -> None:
    """Of two layers either can end first; the other goes on, in what leaked too."""
    names = address.split(".")

    def call() -> Any:
        owner: Any = vendor if len(names) == 1 else vendor.Model()
        return getattr(owner, names[-1])(1)

    plain = call()
    for order in ((0, 1), (1, 0)):
        sessions = [hookpatch.active(hookpatch.wrap(f"vendor:{address}", _tagged(tag))).open() for tag in "ab"]
        assert call() == ("b", ("a", plain))
        sessions[order[0]].close()
        assert call() == ("ab"[order[1]], plain)
        sessions[order[1]].close()
        assert call() == plain


def test_ended_injection_passes_through(vendor: ModuleType) -> None:
    """A function taken in the block gets no argument any more after it."""
    with hookpatch.active(hookpatch.inject("vendor:anything", a=1)):
        leaked = vendor.anything
        assert leaked() == ((), {"a": 1})
    assert leaked() == ((), {})
