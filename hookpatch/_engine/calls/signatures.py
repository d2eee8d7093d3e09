"""Compare signatures: find a call that one function takes and another refuses."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Sequence
from inspect import Parameter, Signature
from time import sleep
from types import CodeType, FunctionType
from typing import Any, Final

from hookpatch._engine.calls.code import decorated, signature_without_annotations
from hookpatch._engine.calls.trampoline import HOOK

PACKED: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_KINDS: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY, *PACKED)
_ANY: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_TRIES: Final = 50  # of a millisecond each


def takes(callee: Any, binds: bool) -> list[Parameter] | None:
    """Return a callee's parameters, without the object or class of a method call; None without a signature."""
    for _ in range(_TRIES):
        try:
            parameters = list(signature_without_annotations(callee).parameters.values())
        except (TypeError, ValueError):
            return None  # some C functions have none
        if all(parameter.name != HOOK for parameter in parameters):
            break
        sleep(0.001)  # another thread is changing the function in place at this moment
    parameters = [parameter for parameter in parameters if parameter.name != HOOK]
    return parameters[binds and parameters[:1] != [] and parameters[0].kind not in PACKED :]


def as_code_takes(callee: Any, parameters: list[Parameter], binds: bool) -> list[Parameter]:
    """Return the parameters that ``functools.wraps`` shows for a decorator's function, as the function takes them.

    A parameter taken by place alone becomes positional-only, and a parameter that the function cannot take is left out.
    """
    for function in decorated(callee):
        if "__wrapped__" in vars(function):
            parameters = _narrowed(function.__code__, parameters, binds)
    return parameters


def _narrowed(code: CodeType, parameters: list[Parameter], binds: bool) -> list[Parameter]:
    if code.co_flags & inspect.CO_VARKEYWORDS:
        return parameters
    by_keyword = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    places = len(parameters) if code.co_flags & inspect.CO_VARARGS else code.co_argcount - binds
    taken: list[Parameter] = []
    for place, parameter in enumerate(parameters):
        if parameter.kind in PACKED or parameter.name in by_keyword:
            taken.append(parameter)
        elif parameter.kind is not Parameter.KEYWORD_ONLY and place < places:
            if taken and taken[-1].kind is not Parameter.POSITIONAL_ONLY:
                continue  # the parameter before may come by keyword, and then this one cannot come by place
            taken.append(parameter.replace(kind=Parameter.POSITIONAL_ONLY))
    return taken


def names_not_shown(callee: Any, names: Iterable[str]) -> list[str]:
    """Return the names that a callee with ``*args`` and ``**kwargs`` takes without a parameter of the name."""
    if type(callee) is FunctionType and callee.__code__.co_flags & _ANY != _ANY:
        return []
    parameters = takes(callee, binds=False) or []
    shown = {parameter.name for parameter in parameters}
    return [name for name in names if name not in shown] if has_both(parameters) else []


def has_both(parameters: Sequence[Parameter]) -> bool:
    """Return True for parameters with ``*args`` and ``**kwargs``."""
    return {*PACKED} <= {parameter.kind for parameter in parameters}


def take_the_same(function: FunctionType, other: Any) -> bool:
    """Return True if two functions have the same parameters, as far as their code shows; False if in doubt."""
    return type(other) is FunctionType and not (vars(function) or vars(other)) and _head(function) == _head(other)


def takes_any_call(callee: Any) -> bool:
    """Return True if a function has the parameters ``*args, **kwargs`` alone, as far as the code shows."""
    if type(callee) is not FunctionType or vars(callee):
        return False
    code = callee.__code__
    return not (code.co_argcount or code.co_kwonlyargcount) and code.co_flags & _ANY == _ANY


def _head(function: FunctionType) -> tuple[Any, ...]:
    code = function.__code__
    packed = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount + packed.bit_count()
    by_place, by_keyword = len(function.__defaults__ or ()), (function.__kwdefaults__ or {}).keys()
    return code.co_varnames[:count], code.co_posonlyargcount, code.co_argcount, packed, by_place, by_keyword


def misfit(new: Signature, like: Signature, name: str) -> str | None:
    """Return, in words, a call of the function ``name`` that ``like`` takes and ``new`` refuses; else None.

    Calls are tried as inspect binds calls: by place and by keyword, with and without each optional argument.
    """
    by_place_alone = {key for key, parameter in new.parameters.items() if parameter.kind is Parameter.POSITIONAL_ONLY}
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in new.parameters.values()):
        by_place_alone = set()
    for args, keywords in _calls(like, len(new.parameters) + 1):
        words = ", ".join([*dict.fromkeys(args), *(f"{key}=..." for key in keywords)])
        for key in by_place_alone.intersection(keywords):  # Python 3.13.0 binds some by keyword
            return f"{name}({words}) fails: '{key}' is positional-only"
        try:
            bound = new.bind(*args, **{key: key for key in keywords}).arguments
        except TypeError as error:
            return f"{name}({words}) fails: {error}"
        for argument in args:
            if argument in bound and bound[argument] != argument and new.parameters[argument].kind not in PACKED:
                return f"{name}({words}) gives what is meant for '{argument}' to another parameter"
    return None


def _calls(like: Signature, count: int) -> list[tuple[list[str], list[str]]]:
    """Return the calls to try: the parameters by place and by keyword; ``count`` arguments for ``*args``."""
    parameters = like.parameters.items()
    only, either, by_keyword, star, star_star = (
        [name for name, parameter in parameters if parameter.kind is kind] for kind in _KINDS
    )
    optional = [name for name, parameter in parameters if parameter.default is not parameter.empty]
    first = [name for name in only if name not in optional]
    required = [name for name in either if name not in optional]
    keywords = [name for name in by_keyword if name not in optional]
    return [
        ([*first, *required], keywords),
        (first, [*required, *keywords]),
        *((first, [*required, *keywords, name]) for name in optional if name not in only),
        ([*only, *either], by_keyword),
        *(([*only, *either, *[f"*{name}"] * count], by_keyword) for name in star),
        *(([*first, *required], [*keywords, "any_other_name"]) for _ in star_star),
    ]


def as_text(parameters: Sequence[Parameter]) -> str:
    """Return parameters as text, such as ``(model, checks=1, *, skipped=...)``, without annotations.

    Only short defaults with the same text in any process are shown.
    """
    shown = []
    for parameter in parameters:
        default = parameter.default
        if default is not parameter.empty and not (isinstance(default, _PLAIN) and len(repr(default)) < 60):
            default = _Dots()
        shown.append(parameter.replace(annotation=parameter.empty, default=default))
    return str(Signature(shown))


_PLAIN: Final = (bool, int, float, str, bytes, type(None))


class _Dots:
    """A hidden default."""

    def __repr__(self) -> str:
        return "..."


def from_text(text: str) -> Signature:
    """Return the signature written by ``as_text``.

    Raises:
        ValueError: the text is no signature.
    """
    try:
        (function,) = ast.parse(f"def _{text}: pass").body
        assert isinstance(function, ast.FunctionDef)
    except (SyntaxError, AssertionError):
        raise ValueError(f"{text!r} is no signature") from None
    args = function.args
    defaults = [None] * (len(args.posonlyargs) + len(args.args) - len(args.defaults)) + args.defaults
    groups = zip(_KINDS, (args.posonlyargs, args.args, args.kwonlyargs), strict=False)
    named = [(argument, kind) for kind, arguments in groups for argument in arguments]
    parameters = [
        Parameter(argument.arg, kind, default=Parameter.empty if default is None else ...)
        for (argument, kind), default in zip(named, [*defaults, *args.kw_defaults], strict=True)
    ]
    packed = zip((args.vararg, args.kwarg), PACKED, strict=True)
    parameters += [Parameter(argument.arg, kind) for argument, kind in packed if argument is not None]
    return Signature(sorted(parameters, key=lambda parameter: parameter.kind))
