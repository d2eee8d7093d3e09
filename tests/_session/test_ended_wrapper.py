"""Foreign code keeps a value of an ended session: the report of a patch beneath says if a call runs the patch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial, wraps
from types import ModuleType
from typing import Any

import pytest
import wrapt
from layers import HIDES_PATCHES

import hookpatch
from hookpatch.errors import DisplacedWarning


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
