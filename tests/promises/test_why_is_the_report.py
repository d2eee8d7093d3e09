"""why() and the report never disagree: for random patches on one slot, with foreign code between and around."""

from __future__ import annotations

import functools
import re
import unittest.mock
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from itertools import chain
from types import ModuleType
from typing import Any, Final

import pytest
import wrapt
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import hookpatch
from hookpatch.errors import HookpatchError, TargetNotFound

VENDOR: Final = """
    def function(a=0):
        marks = ["vendor"]
        return [a, *marks]

    class Kind:
        def __init__(self):
            self.own = function

        def method(self, a=0):
            marks = ["vendor"]
            return [a, *marks]

        @classmethod
        def of_class(cls, a=0):
            marks = ["vendor"]
            return [a, *marks]

        @staticmethod
        def static(a=0):
            marks = ["vendor"]
            return [a, *marks]

    class Child(Kind): pass

    class Own(Kind):
        def method(self, a=0):
            marks = ["vendor"]
            return [a, *marks]

    table = {"f": function}
    """
FAMILIES: Final = {  # addresses that meet in some calls
    "function": ["vendor:function"],
    "entry": ["vendor:table['f']"],
    "static method": ["vendor:Kind.static"],
    "class method": ["vendor:Kind.of_class", "vendor:Child.of_class"],
    "method": [
        *("vendor:Kind.method", "vendor:Child.method", "vendor:Own.method"),
        *("vendor:Kind().method", "vendor:Kind+().method", "vendor:Child().method"),
    ],
    "value of instances": ["vendor:Kind().own", "vendor:Kind+().own", "vendor:Child().own"],
}
FOREIGN: Final = {  # places that other code sets
    "function": lambda vendor: (vendor, "function"),
    "entry": lambda vendor: (vendor.table, "f"),
    "static method": lambda vendor: (vendor.Kind, "static"),
    "class method": lambda vendor: (vendor.Kind, "of_class"),
    "method": lambda vendor: (vendor.Kind, "method"),
    "value of instances": lambda vendor: (vendor.Kind, "method"),
}
VERBS: Final = ("wrap", "inject", "default", "derive", "replace", "remove", "edit")
ANY_CALL: Final = {"check_signature": False, "why": "takes any call"}
PATCH: Final = st.tuples(
    st.integers(0, 5),
    st.sampled_from(VERBS),
    st.sampled_from(["slot", "everywhere"]),
    st.sampled_from(["", "", __name__, "nobody"]),
    st.sampled_from(["process", "process", "task"]),
)
_PLACES: Final = re.compile(r" in \d+ of \d+ places(: (?=in calls|on ))?")
_OF_CLASSES: Final = re.compile("without effect on (instances of subclasses|overrides)")
STEPS: Final = st.lists(
    st.one_of(PATCH, PATCH, st.sampled_from(["set", "wraps", "mock", "wrapt"])), min_size=1, max_size=5
)


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


def _patch(address: str, verb: str, reach: Any, callers: str, number: int) -> hookpatch.Patch:
    """Declare a patch; a verb that refuses an option is declared without."""
    options: dict[str, Any] = {} if "()" in address else {"reach": reach}
    if callers and verb in ("wrap", "inject", "default", "replace"):
        options["callers"] = callers

    def mark(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
        return [*wrapped(*args, **kwargs), number]

    def new(*args: Any, **kwargs: Any) -> Any:
        return [number]

    def derived(original: Any) -> Any:
        if isinstance(original, (staticmethod, classmethod)):
            return type(original)(derived(original.__func__))
        return lambda *args, **kwargs: [*original(*args, **kwargs), number]

    form: Any = staticmethod if "static" in address else classmethod if "of_class" in address else lambda value: value
    match verb:
        case "wrap":
            return hookpatch.wrap(address, mark, **options)
        case "inject":
            return hookpatch.inject(address, a=number, **options)
        case "default":
            return hookpatch.default(address, a=number, **options)
        case "derive":
            return hookpatch.derive(address, derived, **options, **ANY_CALL)
        case "replace":
            return hookpatch.replace(address, form(new), **options, **ANY_CALL)
        case "remove":
            return hookpatch.remove(address)
    return hookpatch.edit(address, 'marks = ["vendor"]', f'marks = ["vendor", {number}]', **options)


def _foreign(owner: Any, name: str, how: str) -> Callable[[], None]:
    """Put a value of other code into a place; return a function that puts the old value back."""
    contents = owner if isinstance(owner, dict) else vars(owner)
    if name not in contents:
        return lambda: None
    old = contents[name]
    function = getattr(old, "__func__", old)

    def through(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    form: Any = type(old) if type(old) in (staticmethod, classmethod) else lambda value: value
    values = {
        "set": lambda: form(lambda *args, **kwargs: ["set"]),
        "wraps": lambda: form(functools.wraps(function)(through)),
        "mock": unittest.mock.MagicMock,
        "wrapt": lambda: wrapt.FunctionWrapper(old, lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs)),
    }
    put: Any = owner.__setitem__ if owner is contents else functools.partial(setattr, owner)
    put(name, values[how]())
    return functools.partial(put, name, old)


def _of_effect(texts: Iterable[str]) -> set[str]:
    """Return the texts on calls without the patch; without the number of places, since why() tells of one place."""
    one_place = [_PLACES.sub(lambda found: " " if found[1] else "", text) for text in texts]
    return {text for text in one_place if text.startswith("without effect") and not _OF_CLASSES.match(text)}


@pytest.mark.parametrize("examples", [4, pytest.param(60, marks=pytest.mark.ends)])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.sampled(3)
def test_why_says_what_the_report_says(vendor: ModuleType, family: str, examples: int) -> None:
    """For each patch, why() has a layer in the state of the report's row, and with the same words on its effect."""

    @settings(
        deadline=None, database=None, derandomize=True, max_examples=examples, suppress_health_check=[*HealthCheck]
    )
    @given(steps=STEPS)
    @example(steps=[(0, "wrap", "slot", "", "process"), (3, "replace", "slot", "", "process")])
    @example(steps=[(0, "inject", "slot", "", "process"), (0, "inject", "everywhere", "", "process")])
    @example(steps=["mock", (3, "wrap", "slot", "", "process")])
    def agrees(steps: list[Any]) -> None:
        _agrees(vendor, family, steps)

    agrees()


def _agrees(vendor: ModuleType, family: str, steps: list[Any]) -> None:
    living = [vendor.Kind(), vendor.Child(), vendor.Own()]
    addresses, sessions = FAMILIES[family], []
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")
        for number, step in enumerate(steps, 1):
            if isinstance(step, str):
                stack.callback(_foreign(*FOREIGN[family](vendor), step))
                continue
            place, verb, reach, callers, scope = step
            address = addresses[place % len(addresses)]
            with suppress(HookpatchError):
                patch = _patch(address, verb, reach, callers, number)
                session = stack.enter_context(hookpatch.active(patch, children="local", scope=scope))
                sessions.append((address, session))
        rows = [[row for row in session.report() if row.target == address] for address, session in sessions]
        layers = [*chain(*map(_layers, addresses))]
        of_sessions = [[layer for layer in layers if layer.session == n] for n in sorted({x.session for x in layers})]
        for of_report, of_why in zip(rows, of_sessions, strict=True):
            at_target = {row.state for row in of_report if row.place is None}
            assert {layer.state for layer in of_why} in (at_target, {*at_target, "applied"}), (of_report, of_why)
            notes = [str(layer.note) for layer in of_why]
            said = _of_effect(chain(*(row.warnings for row in of_report)))
            assert all(any(text in note for note in notes) for text in said), (said, notes)
            assert bool(said) == any("without effect" in note for note in notes), (said, notes)
    assert living


def _layers(address: str) -> list[hookpatch.LayerReport]:
    """Return the layers of sessions that why() gives for an address; none for an absent attribute."""
    try:
        slot = hookpatch.why(address)
    except TargetNotFound:
        return []  # taken away by a ``remove``
    return [layer for layer in slot if layer.session is not None]
