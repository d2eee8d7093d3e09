"""Foreign code keeps a value of an ended session: the report of a patch beneath says if a call runs the patch."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from functools import partial, wraps
from types import FunctionType, ModuleType
from typing import Any

import pytest
import wrapt
from layers import HIDES_PATCHES

import hookpatch
from hookpatch.errors import DisplacedWarning, PatchFailedWarning


def tagged(tag: str) -> Callable[..., Any]:
    """Return a wrapper that puts a tag around the result of a call."""
    return lambda wrapped, instance, args, kwargs: f"{tag}({wrapped(*args, **kwargs)})"


def new(word: str = "w") -> str:
    """Say a word: the value of the replacement that ends."""
    return f"new {word}"


def forgetful(below: Any) -> Any:
    """Return a function that does not call the function below."""
    return lambda word="w": f"derived {word}"


def over(below: Any) -> Any:
    """Return a function that calls the function below."""
    return lambda *args, **kwargs: f"over({below(*args, **kwargs)})"


def staying_over(below: Any) -> Any:
    """Return a function that tags the result of the function below."""
    return lambda word="w": f"staying({below(word)})"


ENDING: dict[str, Callable[[str], list[hookpatch.Patch]]] = {
    "replace": lambda target: [hookpatch.replace(target, new)],
    "derive": lambda target: [hookpatch.derive(target, forgetful)],
    "derive over": lambda target: [hookpatch.derive(target, over)],
    "wrap": lambda target: [hookpatch.wrap(target, tagged("ended"))],
    "replace and wrap": lambda target: [hookpatch.replace(target, new), hookpatch.wrap(target, tagged("ended"))],
    "derive over and wrap": lambda target: [hookpatch.derive(target, over), hookpatch.wrap(target, tagged("ended"))],
}
QUICK = ("derive over", "replace and wrap")
STAYING: dict[str, Callable[[str, Any], hookpatch.Patch]] = {
    "wrap": lambda target, reach: hookpatch.wrap(target, tagged("staying"), reach=reach),
    "default": lambda target, reach: hookpatch.default(target, reach=reach, word="staying"),
    "derive": lambda target, reach: hookpatch.derive(target, staying_over, reach=reach),
    "replace": lambda target, reach: hookpatch.replace(target, lambda word="w": f"staying {word}", reach=reach),
}


class Holder:
    """Keeps a function in an attribute, or in a list."""

    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def __call__(self) -> Any:
        return (self.kept[0] if isinstance(self.kept, list) else self.kept)()


def passing(kept: Any) -> Any:
    """Return a function with the kept function as `__wrapped__`."""

    @wraps(kept)
    def call() -> Any:
        return kept()

    return call


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "closure": lambda kept: lambda: kept(),
    "attribute": Holder,
    "list": lambda kept: Holder([kept]),
    "__wrapped__": passing,
    "partial": partial,
    "proxy": lambda kept: wrapt.FunctionWrapper(kept, lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs)),
}


@HIDES_PATCHES
@pytest.mark.parametrize("comes_first", ["staying", "ending"])
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("verb", STAYING)
@pytest.mark.parametrize(
    "verbs", [pytest.param(verbs, marks=[] if verbs in QUICK else pytest.mark.ends) for verbs in ENDING]
)
@pytest.mark.sampled(8)
def test_report_of_a_patch_beneath_what_foreign_code_keeps(
    make_module: Callable[[str, str], ModuleType], verbs: str, verb: str, reach: str, comes_first: str
) -> None:
    """The remaining patch is "applied" exactly if a call through the foreign holder runs the patch."""
    outcomes: dict[str, tuple[bool, str, list[bool], bool]] = {}
    for number, (holder, hold) in enumerate(HOLDERS.items()):
        target = f"vendor{number}:speak"
        vendor: Any = make_module(f"vendor{number}", 'def speak(word="w"): return f"vendor {word}"')
        staying, ending = hookpatch.active(STAYING[verb](target, reach)), hookpatch.active(*ENDING[verbs](target))
        original = vendor.speak
        for session in (staying, ending) if comes_first == "staying" else (ending, staying):
            session.open()
        vendor.speak = hold(vendor.speak)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DisplacedWarning)
            ending.close()
            runs = "staying" in vendor.speak()
            (patch,) = (patch for patch in staying.report() if patch.place is None)
            layers = [layer for layer in hookpatch.why(target) if layer.state == patch.state]
            staying.close()
        vendor.speak = original
        (at_end,) = (patch.state for patch in staying.report() if patch.place is None)
        outcomes[holder] = runs, patch.state, [layer.reached for layer in layers], at_end == "overwritten"
    assert outcomes == {
        holder: (runs, "applied" if runs else "overwritten", [runs], not runs)
        for holder, (runs, *_) in outcomes.items()
    }


VENDOR = """
class Base:
    def inherited(self, word="w"): return f"inherited {word}"

class Kind(Base):
    def method(self, word="w"): return f"method {word}"
    @staticmethod
    def static(word="w"): return f"static {word}"
    @classmethod
    def of_class(cls, word="w"): return f"of class {word}"

class Callable:
    def __call__(self, word="w"): return f"callable {word}"

def speak(word="w"): return f"vendor {word}"
speaker = Callable()
of_c = "{} of C".format
registry = {"entry": speak}
"""
METHOD = "lambda {}word='w': {}"
TARGETS: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {  # the first argument, the value, a call
    "speak": ("", lambda vendor: vendor.speak, lambda held: held()),
    "speaker": ("", lambda vendor: vendor.speaker, lambda held: held()),
    "of_c": ("", lambda vendor: vendor.of_c, lambda held: held("w")),
    "registry['entry']": ("", lambda vendor: vendor.registry["entry"], lambda held: held()),
    "Kind.method": ("self, ", lambda vendor: vendor.Kind.method, lambda held: held(object())),
    "Kind.inherited": ("self, ", lambda vendor: vendor.Kind.inherited, lambda held: held(object())),
    "Kind.static": ("", lambda vendor: vendor.Kind.static, lambda held: held()),
    "Kind.of_class": ("cls, ", lambda vendor: vendor.Kind.of_class, lambda held: held()),
    "Kind": ("", lambda vendor: vendor.Kind, lambda held: held().method()),
}
GIVING: dict[str, Callable[[str, Any], hookpatch.Patch]] = {
    "wrap": lambda target, reach: hookpatch.wrap(target, calling, reach=reach),
    "inject": lambda target, reach: hookpatch.inject(target, reach=reach, word="given"),
    "default": lambda target, reach: hookpatch.default(target, reach=reach, word="given"),
}
called: list[int] = []  # the number of arguments of each call of the wrapper


def calling(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
    """Note the call: a wrapper for classes and functions."""
    called.append(len(args))
    return wrapped(*args, **kwargs)


def _given(target: str, verb: str, reach: Any) -> hookpatch.Patch:
    """Return a patch that puts a value of the right kind into the slot of a target."""
    kind = {"Kind.static": staticmethod, "Kind.of_class": classmethod}.get(target, lambda function: function)
    new: Any = kind(eval(f"lambda {TARGETS[target][0]}word='w': f'new {{word}}'"))
    if target == "Kind":
        new = type("New", (), {"method": lambda self: "new"})
    if verb == "replace":
        return hookpatch.replace(f"vendor:{target}", new, reach=reach)
    return hookpatch.derive(f"vendor:{target}", lambda below: new, reach=reach)


@pytest.mark.parametrize("ends", ["together", "value first", "wrapper first"])
@pytest.mark.parametrize("reach", ["slot", pytest.param("everywhere", marks=pytest.mark.ends)])
@pytest.mark.parametrize("verb", ["replace", pytest.param("derive", marks=pytest.mark.ends)])
@pytest.mark.parametrize(
    ("target", "giving"),
    [(target, giving) for target in TARGETS for giving in GIVING if giving == "wrap" or target not in ("of_c", "Kind")],
)
def test_a_kept_wrapper_calls_what_lies_beneath_an_ended_value(
    make_module: Callable[[str, str], ModuleType], target: str, giving: str, verb: str, reach: str, ends: str
) -> None:
    """Foreign code keeps a wrapper over a value of ours. Once the value has ended, the wrapper calls the original."""
    _, get, call = TARGETS[target]
    vendor = make_module("vendor", VENDOR)
    original = call(get(vendor))
    outer, inner = GIVING[giving](f"vendor:{target}", reach), _given(target, verb, reach)
    with hookpatch.active(outer):
        around = call(get(vendor))
    sessions = [hookpatch.active(outer, inner)] if ends == "together" else [*map(hookpatch.active, (inner, outer))]
    for session in sessions:
        session.open()
    kept = get(vendor)
    assert "new" in call(kept)
    if ends == "wrapper first":
        sessions.reverse()
    for session in sessions:
        session.close()
        if session is not sessions[-1] and ends == "value first":
            called.clear()
            assert call(kept) == around
            assert len(called) == (giving == "wrap")
            assert call(get(vendor)) == around
    called.clear()
    assert call(get(vendor)) == call(kept) == original
    assert not called


@pytest.mark.parametrize("reach", ["slot", pytest.param("everywhere", marks=pytest.mark.ends)])
@pytest.mark.parametrize("verb", ["replace", pytest.param("derive", marks=pytest.mark.ends)])
@pytest.mark.parametrize("target", [target for target in TARGETS if target not in ("of_c", "Kind")])
def test_a_kept_wrapper_gives_the_arguments_that_the_slot_gives(
    make_module: Callable[[str, str], ModuleType], target: str, verb: str, reach: str
) -> None:
    """Patches outside and inside of an ended value give one argument: to a kept wrapper in the slot's order."""
    _, get, call = TARGETS[target]
    vendor = make_module("vendor", VENDOR)
    address, original, wrong = f"vendor:{target}", call(get(vendor)), []
    for outer, inner, first in itertools.product(GIVING, GIVING, ("outer", "value", "inner")):
        patches = {
            "inner": GIVING[inner](address, reach),
            "value": _given(target, verb, reach),
            "outer": _outermost(outer, address, reach),
        }
        sessions = {name: hookpatch.active(patch).open() for name, patch in patches.items()}
        kept = get(vendor)
        assert "new" in call(kept)
        order = [first, *(name for name in ("value", "outer", "inner") if name != first)]
        for place, name in enumerate(order, 1):
            sessions[name].close()
            if "value" not in order[:place]:
                continue
            called.clear()
            in_slot, count = call(get(vendor)), len(called)
            if (call(kept), len(called) - count) != (in_slot, count):
                wrong.append((outer, inner, order[:place], in_slot))
        assert call(kept) == original
    assert not wrong


def _outermost(verb: str, target: str, reach: Any) -> hookpatch.Patch:
    """Return a patch as in ``GIVING``, which gives an argument of another value."""
    if verb == "wrap":
        return GIVING[verb](target, reach)
    return getattr(hookpatch, verb)(target, reach=reach, word="outermost")


@pytest.mark.parametrize("target", ["speak", "registry['entry']", "Kind.method", "Kind.static", "Kind.of_class"])
def test_a_call_in_flight_gets_the_argument_after_the_end_of_the_value_over_a_removed_name(
    make_module: Callable[[str, str], ModuleType], target: str
) -> None:
    """The slot has nothing to inject into. A call that found the wrapper before calls the value with the argument."""
    _, get, call = TARGETS[target]
    vendor = make_module("vendor", VENDOR)
    address, original = f"vendor:{target}", call(get(vendor))
    removed, value = hookpatch.active(hookpatch.remove(address)), hookpatch.active(_given(target, "replace", "slot"))
    outer = hookpatch.active(hookpatch.inject(address, word="given"))
    for session in (removed, value, outer):
        session.open()
    kept = get(vendor)
    assert call(kept) == "new given"
    with pytest.warns(PatchFailedWarning, match="holds nothing"):
        value.close()
    assert call(kept) == "new given"
    removed.close()
    assert call(get(vendor)).endswith("given")
    outer.close()
    assert call(get(vendor)) == original
    assert not call(kept).endswith("given")


def test_a_kept_wrapper_leaves_an_argument_out_that_the_value_beneath_does_not_take(
    make_module: Callable[[str, str], ModuleType],
) -> None:
    """The ended value had a parameter more: the patch of the parameter ends for the kept wrapper, too."""
    vendor: Any = make_module("vendor", VENDOR)
    inner = hookpatch.active(
        hookpatch.replace("vendor:speak", lambda word="w", loud=False: f"new {word} {loud}")
    ).open()
    outer = hookpatch.active(hookpatch.inject("vendor:speak", loud=True)).open()
    kept = vendor.speak
    assert kept() == "new w True"
    with pytest.warns(PatchFailedWarning, match="loud"):
        inner.close()
    assert kept() == vendor.speak() == "vendor w"
    outer.close()
    assert kept() == vendor.speak() == "vendor w"


@pytest.mark.parametrize("copied", [lambda defaults: defaults, dict], ids=["the same defaults", "copied defaults"])
def test_a_copy_of_a_function_changed_in_place_calls_the_original_after_the_end(
    make_module: Callable[[str, str], ModuleType], copied: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """A copy made of code and defaults, as functions are copied by hand. A later block does not reach the copy."""
    vendor = make_module("vendor", "def say(*, word='w'): return word")
    session = hookpatch.active(hookpatch.wrap("vendor:say", tagged("inside"), reach="everywhere"), children="local")
    copies: list[FunctionType] = []
    for _ in range(4):
        with session:
            assert vendor.say() == "inside(w)"
            assert [copy() for copy in copies] == ["w"] * len(copies)
            copies.append(FunctionType(vendor.say.__code__, vars(vendor)))
            copies[-1].__kwdefaults__ = copied(vendor.say.__kwdefaults__)
            assert copies[-1](word="x") == "inside(x)"
        assert [vendor.say(), *(copy() for copy in copies)] == ["w"] * (1 + len(copies))
