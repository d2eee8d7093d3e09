"""Signatures: a replacement for a function must take the calls of the function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from inspect import Parameter, Signature, signature
from itertools import combinations, product
from random import Random
from types import ModuleType
from typing import Any

import pytest
from refusals import assert_states, refused, standing

import hookpatch
from hookpatch._engine.calls.signatures import as_text, from_text, misfit, take_the_same, takes
from hookpatch.errors import SignatureError

OURS = "of a patch given to active()"


TAKES_IT: dict[str, tuple[str, Any]] = {
    "the same": ("simplify", lambda model, skipped=None, *, check=0: "ours"),
    "more": ("simplify", lambda model, skipped=None, deep=False, *, check=0, fast=True: "ours"),
    "all there is": ("simplify", lambda *args, **kwargs: "ours"),
    "the rest": ("simplify", lambda model, *args, **kwargs: "ours"),
    "a keyword by place too": ("simplify", lambda model, skipped=None, check=0: "ours"),
    "other names by place": ("by_place", lambda a, b=1, /: "ours"),
    "names for places": ("by_place", lambda a, b=1: "ours"),
    "needs less": ("simplify", lambda model=None, skipped=None, *, check=0: "ours"),
    "an open signature": ("open_ended", lambda x, **keywords: "ours"),
    "what tells nothing": ("anything", lambda *args: "ours"),
    "no signature": ("simplify", max),
    "a partial": ("simplify", partial(lambda first, model, skipped=None, *, check=0: "ours", 1)),
    "None": ("simplify", None),
    "a method": ("Model.method", lambda anything, x, flag=False: "ours"),
    "a property": ("Model.method", property(lambda self: "ours")),
    "a static method": ("Model.static", staticmethod(lambda x, flag=False: "ours")),
    "a class method": ("Model.of_class", classmethod(lambda cls, x, flag=False: "ours")),
    "static for a method": ("Model.method", staticmethod(lambda x, flag=False: "ours")),
    "what is inherited": ("Model.inherited", lambda self, x=0: "ours"),
}


@pytest.mark.parametrize("verb", ["replace", "derive"])
@pytest.mark.parametrize("case", TAKES_IT)
@pytest.mark.sampled(12)
def test_value_that_takes_what_the_function_takes_stands_for_it(vendor: ModuleType, verb: str, case: str) -> None:
    """Every valid call stays valid; an unknown signature is not refused."""
    name, value = TAKES_IT[case]
    assert_states([standing(verb, name, value)], ["applied"])


REFUSES_IT: dict[str, tuple[str, Any, str]] = {
    "less": (
        "simplify",
        lambda model: "ours",
        "takes (model), and simplify(model=..., skipped=...) fails: got an unexpected keyword argument 'skipped'",
    ),
    "renamed": (
        "simplify",
        lambda graph, skipped=None, *, check=0: "ours",
        "takes (graph, skipped=None, *, check=0), and simplify(model=...) fails: missing a required argument: 'graph'",
    ),
    "needs more": (
        "bare",
        lambda x: "ours",
        "takes (x), and bare() fails: missing a required argument: 'x'",
    ),
    "needs a keyword": (
        "bare",
        lambda *, x: "ours",
        "takes (*, x), and bare() fails: missing a required argument: 'x'",
    ),
    "needs what was optional": (
        "simplify",
        lambda model, skipped, *, check=0: "ours",
        "takes (model, skipped, *, check=0), and simplify(model) fails: missing a required argument: 'skipped'",
    ),
    "another order": (
        "simplify",
        lambda skipped=None, model=None, *, check=0: "ours",
        "takes (skipped=None, model=None, *, check=0), and simplify(model, skipped, check=...) gives what is meant for "
        "'model' to another parameter",
    ),
    "by keyword alone": (
        "simplify",
        lambda *, model, skipped=None, check=0: "ours",
        "takes (*, model, skipped=None, check=0), and simplify(model) fails: too many positional arguments",
    ),
    "by place alone": (
        "simplify",
        lambda model, skipped=None, /, *, check=0: "ours",
        "takes (model, skipped=None, /, *, check=0), and simplify(model=...) fails: PLACE",
    ),
    "no more arguments": (
        "packed",
        lambda x: "ours",
        "takes (x), and packed(x, *args) fails: too many positional arguments",
    ),
    "no more keywords": (
        "open_ended",
        lambda x: "ours",
        "takes (x), and open_ended(x, any_other_name=...) fails: got an unexpected keyword argument 'any_other_name'",
    ),
    "without self": (
        "Model.method",
        lambda x, flag=False: "ours",
        "takes (flag=False), and method(x=...) fails: got an unexpected keyword argument 'x'",
    ),
    "a method that misfits a static one": (
        "Model.static",
        lambda y: "ours",
        "takes (), and static(x) fails: too many positional arguments",
    ),
    "a method for a static one": (
        "Model.static",
        lambda x, flag=False: "ours",
        "takes (flag=False), and static(x=...) fails: got an unexpected keyword argument 'x'",
    ),
}


@pytest.mark.parametrize("verb", ["replace", "derive"])
@pytest.mark.parametrize("case", REFUSES_IT)
def test_value_that_does_not_take_what_the_function_takes_is_refused(vendor: ModuleType, verb: str, case: str) -> None:
    """The message has the replacement's signature and a failing call; no patch is applied."""
    name, value, problem = REFUSES_IT[case]
    owner = "." in name
    before = dict(vars(vendor.Model if owner else vendor))
    message = refused(SignatureError, standing(verb, name, value))
    message = message.replace("required keyword-only argument", "required argument")  # the words of newer Pythons
    way = "take what the original takes, or *args, **kwargs; or say check_signature=False and why="
    if case == "a method for a static one":
        way = "the original is a static method: give staticmethod(function)"
    assert re.sub(r"fails: [^;]*positional.only[^;]*;", "fails: PLACE;", message) == (
        f"what {verb} puts at vendor:{name} {problem}; {way} (target vendor:{name} {OURS})"
    )
    assert dict(vars(vendor.Model if owner else vendor)) == before
    assert_states([standing(verb, name, value, required=False)], ["skipped"])


@pytest.mark.parametrize("verb", ["replace", "derive"])
@pytest.mark.parametrize("value", [None, 3], ids=str)
def test_value_that_cannot_be_called_may_stand_for_a_function(vendor: ModuleType, verb: str, value: object) -> None:
    """Many libraries accept a function, a name or None."""
    before = vendor.simplify
    with hookpatch.active(standing(verb, "simplify", value)):
        assert vendor.simplify is value
    assert vendor.simplify is before


def a_signature(random: Random) -> Signature:
    """Return a signature of up to four parameters of all kinds, in an order of their own; without ``**``."""
    kinds = [Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY]
    names = random.sample("abcd", random.randint(0, 4))
    parameters, optional = [], False
    for name, kind in zip(names, sorted(random.choices(kinds, k=len(names))), strict=True):
        optional = random.random() < 0.5 or (optional and kind is not Parameter.KEYWORD_ONLY)
        parameters.append(Parameter(name, kind, default=None if optional else Parameter.empty))
    if random.random() < 0.3:
        index = sum(parameter.kind is not Parameter.KEYWORD_ONLY for parameter in parameters)
        parameters.insert(index, Parameter("args", Parameter.VAR_POSITIONAL))
    return Signature(parameters)


def takes_call(function: Callable[..., None], count: int, names: Iterable[str]) -> bool:
    """Return True if a call with these numbers of positional and keyword arguments is valid."""
    try:
        function(*range(count), **dict.fromkeys(names))
    except TypeError:
        return False
    return True


def a_function(signature: Signature) -> Callable[..., None]:
    """Return a function with a signature."""
    function: Callable[..., None] = eval(f"lambda {str(signature)[1:-1]}: None")
    return function


def test_no_misfit_is_missed() -> None:
    """Compare a thousand pairs of signatures with all calls of up to six positional and four keyword arguments.

    A pair is a misfit if a call accepted by the first function fails with the second. Without such a call, the pair is
    a misfit only if an argument reaches another parameter. The text of a signature in a lock file is enough to decide.
    """
    random = Random(9)
    calls = [(count, names) for count in range(7) for many in range(5) for names in combinations("abcd", many)]
    for _ in range(1000):
        like, new = a_signature(random), a_signature(random)
        like_function, new_function = a_function(like), a_function(new)
        fails = any(takes_call(like_function, *call) and not takes_call(new_function, *call) for call in calls)
        problem = misfit(new, from_text(as_text([*like.parameters.values()])), "f")
        assert (problem is not None) == fails or "is meant for" in str(problem), (like, new, problem)
        assert misfit(like, like, "f") is None


def test_first_look_at_two_functions_sees_what_their_signatures_say() -> None:
    """The quick comparison agrees with the signatures, for all pairs, and for a function with a false signature."""
    heads = (
        *("", "a", "b", "a, b", "a, b=1", "a=1, b=2", "a, /", "a, /, b", "a, /, b=1", "a=1, /, b=1", "*a", "*b", "**k"),
        *("a, *b", "a, **k", "*, a", "*, a=1", "*, a, b=1", "*, a=1, b", "a, *, b", "a, *b, c", "a, *b, c, **d"),
        *("a, *b, c=1, **d", "a, *, b, **c", "a, b, *c", "a, b, **c", "*a, **b", "*a, b", "self"),
    )
    functions: list[Any] = []
    for head in heads:
        space: dict[str, Any] = {}
        exec(f"def plain({head}): pass\ndef other({head}):\n    x = y = 1\n    return x, y", space)
        functions += space["plain"], space["other"]
    kinds = [
        [(each.name, each.kind, each.default is each.empty) for each in takes(function, False) or ()]
        for function in functions
    ]
    for (first, of_first), (second, of_second) in product(zip(functions, kinds, strict=True), repeat=2):
        assert take_the_same(first, second) == (of_first == of_second), (signature(first), signature(second))
    functions[2].__signature__ = signature(functions[4])
    assert not take_the_same(functions[2], functions[3])
    assert not take_the_same(functions[3], functions[2])


def test_value_is_compared_with_the_original_beneath_other_patches(vendor: ModuleType) -> None:
    """A replacement is compared with the original, known to callers, not with an inner patch."""
    wide = hookpatch.replace("vendor:bare", lambda extra=1: "wide", before="b")
    assert_states([hookpatch.derive("vendor:bare", lambda below: lambda: below()), wide], ["applied", "applied"])
