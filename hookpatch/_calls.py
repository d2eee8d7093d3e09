"""Signatures: what something takes, and whether something else takes it, too."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from inspect import Parameter, Signature
from time import sleep
from types import FunctionType
from typing import Any, Final

from hookpatch._trampoline import HOOK

PACKED: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_TRIES: Final = 50  # of a millisecond each


def takes(callee: Any, binds: bool) -> list[Parameter] | None:
    """Return a callee's parameters, without the object or class that it is called on; None if it tells none."""
    for _ in range(_TRIES):
        try:
            parameters = list(inspect.signature(callee).parameters.values())
        except (TypeError, ValueError):
            return None  # a C function may tell none
        if all(one.name != HOOK for one in parameters):
            break
        sleep(0.001)  # another thread is changing it in place at this moment
    parameters = [one for one in parameters if one.name != HOOK]
    return parameters[binds and parameters[:1] != [] and parameters[0].kind not in PACKED :]


def take_the_same(one: FunctionType, other: Any) -> bool:
    """Tell at a look whether something is a function that takes what another does; False where that is not enough."""
    return type(other) is FunctionType and not (vars(one) or vars(other)) and _head(one) == _head(other)


def _head(function: FunctionType) -> tuple[Any, ...]:
    code = function.__code__
    packed = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount + packed.bit_count()
    by_place, by_keyword = len(function.__defaults__ or ()), (function.__kwdefaults__ or {}).keys()
    return code.co_varnames[:count], code.co_posonlyargcount, code.co_argcount, packed, by_place, by_keyword


def misfit(new: Signature, like: Signature, name: str) -> str | None:
    """Return, in words, a call that one signature takes and the new one does not; None if it takes all of them.

    Tried out, as inspect binds a call: by place and by keyword, with and without each optional argument.

    Args:
        new: the signature that is to take the calls.
        like: the signature that takes them.
        name: the function's name, for the words.
    """
    by_place_alone = {one.name for one in new.parameters.values() if one.kind is one.POSITIONAL_ONLY}
    if any(one.kind is one.VAR_KEYWORD for one in new.parameters.values()):
        by_place_alone = set()
    for args, kwargs in _calls(like, len(new.parameters) + 1):
        words = ", ".join([*dict.fromkeys(args), *(f"{key}=..." for key in kwargs)])
        for key in by_place_alone & kwargs.keys():  # Python 3.13.0 binds some of these
            return f"{name}({words}) fails: '{key}' is positional-only"
        try:
            bound = new.bind(*args, **kwargs).arguments
        except TypeError as error:
            return f"{name}({words}) fails: {error}"
        for given in args:
            if given in bound and bound[given] != given and new.parameters[given].kind not in PACKED:
                return f"{name}({words}) gives what is meant for '{given}' to another parameter"
    return None


def _calls(like: Signature, more: int) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    """Yield the calls to try: the arguments by place and by keyword, each the name of its parameter.

    Args:
        like: the signature that takes them.
        more: how many more arguments to give by place where it takes any number.
    """
    parameters = list(like.parameters.values())
    by_place = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    only = [one for one in by_place if one.kind is one.POSITIONAL_ONLY]
    needed = [one for one in by_place if one.default is one.empty]
    keywords = {one.name: one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty}
    least = tuple(one.name for one in needed)
    yield least, keywords
    first = tuple(one.name for one in needed if one in only)
    rest = {one.name: one.name for one in needed if one not in only}
    yield first, {**rest, **keywords}
    for one in parameters:
        if one.default is not one.empty and one.kind is not one.POSITIONAL_ONLY:
            yield first, {**rest, **keywords, one.name: one.name}
    full = tuple(one.name for one in by_place)
    named = {one.name: one.name for one in parameters if one.kind is one.KEYWORD_ONLY}
    yield full, named
    kinds = {one.kind: one.name for one in parameters}
    if Parameter.VAR_POSITIONAL in kinds:
        yield (*full, *[f"*{kinds[Parameter.VAR_POSITIONAL]}"] * more), named
    if Parameter.VAR_KEYWORD in kinds:
        yield least, {**keywords, "any_other_name": "any_other_name"}


def as_text(parameters: Sequence[Parameter]) -> str:
    """Return parameters as text, without annotations; of the defaults those that are short and look the same anywhere.

    Such as ``(model, checks=1, *, skipped=...)``.
    """
    shown = []
    for one in parameters:
        default = one.default
        if default is not one.empty and not (isinstance(default, _PLAIN) and len(repr(default)) < 60):
            default = _Dots()
        shown.append(one.replace(annotation=one.empty, default=default))
    return str(Signature(shown))


_PLAIN: Final = (bool, int, float, str, bytes, type(None))


class _Dots:
    """A default that is not shown."""

    def __repr__(self) -> str:
        return "..."


def from_text(text: str) -> Signature:
    """Return the signature that ``as_text`` wrote.

    Raises:
        ValueError: it is none.
    """
    try:
        (function,) = ast.parse(f"def _{text}: pass").body
        assert isinstance(function, ast.FunctionDef)
    except (SyntaxError, AssertionError):
        raise ValueError(f"{text!r} is no signature") from None
    given = function.args
    by_place = [*given.posonlyargs, *given.args]
    late = len(by_place) - len(given.defaults)
    parameters = []
    for at, one in enumerate(by_place):
        kind = Parameter.POSITIONAL_ONLY if at < len(given.posonlyargs) else Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(Parameter(one.arg, kind, default=Parameter.empty if at < late else ...))
    if given.vararg is not None:
        parameters.append(Parameter(given.vararg.arg, Parameter.VAR_POSITIONAL))
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        empty = Parameter.empty if default is None else ...
        parameters.append(Parameter(one.arg, Parameter.KEYWORD_ONLY, default=empty))
    if given.kwarg is not None:
        parameters.append(Parameter(given.kwarg.arg, Parameter.VAR_KEYWORD))
    return Signature(parameters)
